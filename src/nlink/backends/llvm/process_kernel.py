"""Kernels of iterations loaded into this process: records in, records and outputs out.

Nothing that writes code is imported here, so that a kernel from the cache loads fast.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
from collections.abc import Mapping

import numpy as np

from nlink.backends.llvm.kernel import Compiled, Room
from nlink.backends.llvm.threads import together

ENTRY = "nlink_processes"
WORDS = ("records", "count", "given", "out", "times", "outputs", "held", "held_stride", "held_row",
         "budget", "log", "log_rows", "data", "room", "scratch")
"""The words of the argument: addresses, counts and byte strides."""
POINTERS = ("records", "given", "out", "times", "held", "log", "data", "room", "scratch")

RATE = 3e9
"""Operations a core does in a second, about, on one vector: what a budget is reckoned by."""

_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class ProcessKernel:
    """Machine code that runs many processes of one iteration: trajectories, searches."""

    def __init__(self, compiled: Compiled) -> None:
        from nlink.backends.llvm.host import Image

        self.width, self.operations = compiled.width, compiled.operations
        self.given = tuple(port.name for port in compiled.inputs)
        """The numbers that the text reads, by name."""
        self._leaves_rows = bool(compiled.outputs)
        self._scratch, self._split = compiled.scratch, compiled.split
        self._image = Image(compiled.code)
        self._data = Room(len(compiled.data))
        self._data.bytes[:] = np.frombuffer(compiled.data, np.uint8)
        self._code = _TYPE(self._image.address(ENTRY))

    def run(self, records: np.ndarray, given: Mapping[str, float], out: np.ndarray | None = None,
            times: np.ndarray | None = None, *, held: np.ndarray | None = None,
            log: np.ndarray | None = None, budget: float = np.inf, threads: int = 1) -> None:
        """Advance all running records to their end, or for about `budget` seconds.

        `given` has the numbers that the text reads. If it has outputs, `times` are those of all
        and `out` is (count, outputs, size); rows `next` and on are written as they are reached.
        `held` is (count or 1, outputs, values): a lane sees rows g and g + 1 between outputs g
        and g + 1. `log` is (count, rows, 2 + size): time, number and state of events, from row
        `fill` of the record on; a process without room for more waits for the next call. The GIL
        is released.
        """
        if self._leaves_rows and (out is None or times is None):
            raise TypeError("out: None, expected rows for the outputs, and their times")
        numbers = np.array([given[name] for name in self.given], float)
        operations = int(min(2**62, 1 + budget * RATE / max(1, self.operations)))
        outputs, size = (0, 0) if out is None else out.shape[1:]

        def span(begin: int, end: int) -> None:
            room = Room(self._scratch)
            words = {"outputs": outputs, "budget": operations, "given": _address(numbers),
                     "times": _address(times), "held": _address(held),
                     "held_stride": 0 if held is None or len(held) == 1 else held.strides[0],
                     "held_row": 0 if held is None else held.strides[1],
                     "log": 0 if log is None else _address(log) + begin * log.strides[0],
                     "log_rows": 0 if log is None else log.shape[1],
                     "records": _address(records) + begin * records.itemsize,
                     "count": end - begin, "scratch": room.address,
                     "room": room.address + self._split, "data": self._data.address,
                     "out": _address(out) + begin * outputs * size * 8}
            words["held"] += begin * words["held_stride"]
            packed = ctypes.create_string_buffer(struct.pack(
                f"{len(WORDS)}q", *(words[name] for name in WORDS)))
            self._code(ctypes.addressof(packed))

        spans = _spans(records["status"] == 0, threads, self.width)
        if len(spans) == 1:  # nobody to wait for
            span(*spans[0])
        else:
            together([functools.partial(span, *each) for each in spans])


def _spans(running: np.ndarray, threads: int, width: int) -> list[tuple[int, int]]:
    """Ranges of records with about as many running ones in each."""
    total = int(running.sum())
    threads = max(1, min(threads, -(-total // width)))
    places = np.flatnonzero(running)
    bounds = [0, *(int(places[total * k // threads]) for k in range(1, threads)), len(running)]
    return list(itertools.pairwise(bounds))


def _address(x: np.ndarray | None) -> int:
    return 0 if x is None else x.ctypes.data
