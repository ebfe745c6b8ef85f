"""Kernels of scans loaded into this process.

Nothing that writes code is imported here, so that a kernel from the cache loads fast.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nlink.backends.llvm import native
from nlink.backends.llvm.kernel import Compiled, Room
from nlink.backends.llvm.threads import together
from nlink.programs.keys import key
from nlink.programs.scans import Scan

ENTRY = "nlink_scan"
HEAD = ("count", "rows", "data", "scratch")
WORDS_OF_ARRAY = 4
"""The address, two strides and the list of places of each array follow the head."""
_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class ScanArray:
    """An array of a scan: (places, size), or (places, rows, size) where it has a row for each
    step, and the place of each scan in it."""

    array: np.ndarray
    places: np.ndarray


class ScanKernel:
    """Machine code that runs many scans."""

    def __init__(self, compiled: Compiled) -> None:
        from nlink.backends.llvm.host import Image

        self.width = compiled.width
        self.names = tuple(port.name for port in compiled.inputs)
        self.sizes = {port.name: port.size for port in compiled.inputs}
        self._scratch = compiled.scratch
        self._image = Image(compiled.code)
        self._data = Room(len(compiled.data))
        self._data.bytes[:] = np.frombuffer(compiled.data, np.uint8)
        self._code = _TYPE(self._image.address(ENTRY))
        self._rooms: list[Room] = []

    def run(self, arrays: Mapping[str, ScanArray], rows: int, *, threads: int = 1) -> None:
        """All scans, of so many rows; arrays are read and written where they are, without the
        GIL. Numbers are float64, the elements of a row side by side; places are int64."""
        count = len(arrays[self.names[0]].places)
        if not count:
            return
        words = np.empty(len(HEAD) + WORDS_OF_ARRAY * len(self.names), np.int64)
        words[:3] = count, rows, self._data.address
        for k, name in enumerate(self.names):
            array, places = arrays[name].array, arrays[name].places
            words[len(HEAD) + WORDS_OF_ARRAY * k:][:WORDS_OF_ARRAY] = (
                native.data_address(array), array.strides[0],
                array.strides[1] if array.ndim > 2 else 0, native.data_address(places))
        spans = self._spans(count, threads)
        if len(spans) == 1:
            self._span(words, 0, count)
        else:
            together([functools.partial(self._span, words, *each) for each in spans])

    def _span(self, words: np.ndarray, begin: int, end: int) -> None:
        """The scans begin..end - 1, in this thread."""
        try:
            room = self._rooms.pop()
        except IndexError:
            room = Room(self._scratch)
        own = words.copy()
        own[0], own[3] = end - begin, room.address
        own[len(HEAD) + 3::WORDS_OF_ARRAY] += 8 * begin
        self._code(native.data_address(own))
        self._rooms.append(room)

    def _spans(self, count: int, threads: int) -> list[tuple[int, int]]:
        groups = -(-count // self.width)
        threads = max(1, min(threads, groups))
        bounds = [min(count, self.width * (groups * k // threads)) for k in range(threads + 1)]
        return list(itertools.pairwise(bounds))


def load_scan(scan: Scan, width: int) -> ScanKernel:
    """The kernel of a scan: out of the cache, or compiled."""
    from nlink.backends.llvm.loading import load_compiled

    def compile_now() -> Compiled:
        from nlink.backends.llvm.scan_code import compile_scan

        return compile_scan(scan, width)

    return load_compiled(key("scan", width, scan), compile_now, ScanKernel)
