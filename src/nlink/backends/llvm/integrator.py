"""Integration kernels loaded into this process: records in, records and outputs out.

Nothing that writes code is imported here, so that a kernel from the cache loads fast.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct

import numpy as np

from nlink.backends.llvm.kernel import Compiled, Room
from nlink.backends.llvm.threads import together

ENTRY = "nlink_integrate"
WORDS = ("records", "count", "out", "times", "outputs", "held", "held_stride", "held_row",
         "rtol", "atol", "least", "largest", "most", "budget", "log", "log_rows", "data", "room",
         "scratch")
"""The words of the argument: addresses, counts, byte strides, and doubles."""
DOUBLES = ("rtol", "atol", "least", "largest", "most")
POINTERS = ("records", "out", "times", "held", "log", "data", "room", "scratch")

RATE = 3e9
"""Operations a core does in a second, about, on one vector: what a budget is reckoned by."""

_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Integrator:
    """Machine code that integrates many trajectories of one system by one method."""

    def __init__(self, compiled: Compiled) -> None:
        from nlink.backends.llvm.host import Image

        self.width, self.operations = compiled.width, compiled.operations
        self._scratch, self._split = compiled.scratch, compiled.split
        self._image = Image(compiled.code)
        self._data = Room(len(compiled.data))
        self._data.bytes[:] = np.frombuffer(compiled.data, np.uint8)
        self._code = _TYPE(self._image.address(ENTRY))

    def run(self, records: np.ndarray, out: np.ndarray, times: np.ndarray, held: np.ndarray | None,
            *, rtol: float, atol: float, least: float, most: int, largest: float = np.inf,
            budget: float = np.inf, threads: int = 1, log: np.ndarray | None = None) -> None:
        """Advance all running records to their end, or for about `budget` seconds.

        `out` is (count, outputs, size); rows `next` and on are written as they are reached.
        `held` is (count or 1, outputs, values): a lane sees rows g and g + 1 between outputs g
        and g + 1. Steps are no smaller than `least`, no larger than `largest`, and at most
        `most` for a trajectory. `log` is (count, rows, 2 + size): time, number and state of
        events, from row `fill` of the record on; a trajectory without room for more waits for
        the next call. The GIL is released.
        """
        _, outputs, size = out.shape

        def span(begin: int, end: int) -> None:
            room = Room(self._scratch)
            words = {"outputs": outputs, "rtol": rtol, "atol": atol, "least": least,
                     "largest": largest, "most": most,
                     "budget": int(min(2**62, 1 + budget * RATE / max(1, self.operations))),
                     "times": _address(times), "held": 0 if held is None else _address(held),
                     "held_stride": 0 if held is None or len(held) == 1 else held.strides[0],
                     "held_row": 0 if held is None else held.strides[1],
                     "log": 0 if log is None else _address(log) + begin * log.strides[0],
                     "log_rows": 0 if log is None else log.shape[1],
                     "records": _address(records) + begin * records.itemsize,
                     "count": end - begin, "scratch": room.address,
                     "room": room.address + self._split, "data": self._data.address,
                     "out": _address(out) + begin * outputs * size * 8}
            words["held"] += begin * words["held_stride"]
            packed = ctypes.create_string_buffer(b"".join(
                struct.pack("d" if name in DOUBLES else "q", words[name]) for name in WORDS))
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


def _address(x: np.ndarray) -> int:
    return x.ctypes.data
