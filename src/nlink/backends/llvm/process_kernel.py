"""Kernels of iterations loaded into this process: records in, records and outputs out.

Nothing that writes code is imported here, so that a kernel from the cache loads fast.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nlink.backends.llvm.kernel import Compiled, Room
from nlink.backends.llvm.native import data_address
from nlink.backends.llvm.threads import together

ENTRY = "nlink_processes"
WORDS = ("records", "count", "given", "out", "times", "outputs", "held", "held_stride", "held_row",
         "budget", "log", "log_rows", "data", "room", "scratch", "resumed", "seen", "told", "ended")
"""The words of the argument: addresses, counts and byte strides, a status; the code adds to the
last one how many records have left with another status than `resumed`."""
POINTERS = ("records", "given", "out", "times", "held", "log", "data", "room", "scratch", "seen",
            "told")

RATE = 3e9
"""Operations a core does in a second, about, on one vector: what a budget is reckoned by."""

_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Words(ctypes.Structure):
    """The argument of the code."""

    _fields_ = tuple((name, ctypes.c_int64) for name in WORDS)


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
        self.code = _TYPE(self._image.address(ENTRY))

    def run(self, records: np.ndarray, given: Mapping[str, float], out: np.ndarray | None = None,
            times: np.ndarray | None = None, *, held: np.ndarray | None = None,
            log: np.ndarray | None = None, budget: float = np.inf, threads: int = 1,
            seen: np.ndarray | None = None, told: np.ndarray | None = None) -> None:
        """Advance all running records to their end, or for about `budget` seconds.

        `given` has the numbers that the text reads. If it has outputs, `times` are those of all
        and `out` is (count, outputs, size); rows `next` and on are written as they are reached.
        `held` is (count or 1, outputs, values): a lane sees rows g and g + 1 between outputs g
        and g + 1. `log` is (count, rows, 2 + size): time, number and state of events, from row
        `fill` of the record on; a process without room for more waits for the next call. For
        `seen` and `told` see `PreparedRun`. The GIL is released.
        """
        spans = _spans(records["status"] == 0, threads, self.width)
        self.prepared(records, given, out, times, held=held, log=log, budget=budget, spans=spans)(
            seen, told)

    def prepared(self, records: np.ndarray, given: Mapping[str, float],
                 out: np.ndarray | None = None, times: np.ndarray | None = None, *,
                 held: np.ndarray | None = None, log: np.ndarray | None = None,
                 budget: float = np.inf, resumed: int = 0, spans: Sequence[tuple[int, int]],
                 ) -> PreparedRun:
        """A run of these arrays, to be called as often as one likes: see `run`. Records whose
        status is `resumed` run, too, and each of `spans` is the work of a thread."""
        if self._leaves_rows and (out is None or times is None):
            raise TypeError("out: None, expected rows for the outputs, and their times")
        numbers = np.array([given[name] for name in self.given], float)
        operations = int(min(2**62, 1 + budget * RATE / max(1, self.operations)))
        outputs, size = (0, 0) if out is None else out.shape[1:]

        def words(begin: int, end: int, room: Room) -> Words:
            held_stride = 0 if held is None or len(held) == 1 else held.strides[0]
            return Words(
                records=_address(records) + begin * records.itemsize, count=end - begin,
                given=_address(numbers), out=_address(out) + begin * outputs * size * 8,
                times=_address(times), outputs=outputs,
                held=_address(held) + begin * held_stride, held_stride=held_stride,
                held_row=0 if held is None else held.strides[1], budget=operations,
                log=0 if log is None else _address(log) + begin * log.strides[0],
                log_rows=0 if log is None else log.shape[1], data=self._data.address,
                room=room.address + self._split, scratch=room.address, resumed=resumed)

        rooms = [Room(self._scratch) for _ in spans]
        jobs = [(begin, words(begin, end, room))
                for (begin, end), room in zip(spans, rooms, strict=True)]
        return PreparedRun(self, jobs, (records, numbers, out, times, held, log, rooms))


class PreparedRun:
    """A kernel and the arrays of a run, which it keeps."""

    def __init__(self, kernel: ProcessKernel, jobs: Sequence[tuple[int, Words]], kept: Any) -> None:
        self._kernel, self._jobs, self._kept = kernel, jobs, kept

    def __call__(self, seen: np.ndarray | None = None, told: np.ndarray | None = None) -> int:
        """Run, and say how many records have left otherwise than to be resumed; what is told of
        records that leave is written to `seen`, (count, ...) of float32, and `told`, (count, 2)."""
        if seen is not None and told is not None:
            self._kept_rows = seen, told
            for begin, words in self._jobs:
                words.seen = _address(seen) + begin * seen.strides[0]
                words.told = _address(told) + begin * told.strides[0]
        code = self._kernel.code
        if len(self._jobs) == 1:  # nobody to wait for
            code(ctypes.addressof(self._jobs[0][1]))
        else:
            together([functools.partial(code, ctypes.addressof(words)) for _, words in self._jobs])
        ended = 0
        for _, words in self._jobs:
            ended += words.ended
            words.ended = 0
        return ended


def _spans(running: np.ndarray, threads: int, width: int) -> list[tuple[int, int]]:
    """Ranges of records with about as many running ones in each."""
    total = int(running.sum())
    threads = max(1, min(threads, -(-total // width)))
    places = np.flatnonzero(running)
    bounds = [0, *(int(places[total * k // threads]) for k in range(1, threads)), len(running)]
    return list(itertools.pairwise(bounds))


def _address(x: np.ndarray | None) -> int:
    return 0 if x is None else data_address(x)
