"""Memory of large results, used again.

The system hands out memory in pages, and clears each when it is first written: for a humanoid's
derivatives that takes as long as computing them. So a large block, when the last array on it is
gone, waits here for the next large result.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np

LARGE = 1 << 22
"""Bytes of a result from which on its memory is used again."""
KEPT = 1 << 26
"""Bytes that wait at most."""

_waiting: dict[int, np.ndarray] = {}
"""Blocks that nobody refers to, by their numbers, the oldest first."""


class _Lease:
    """What all arrays on a block refer to, by way of the first; when it goes, the block waits."""

    def __init__(self, block: np.ndarray) -> None:
        self.block = block
        self.__array_interface__ = block.__array_interface__

    def __del__(self, at_the_end: Callable[[], bool] = sys.is_finalizing) -> None:
        if not at_the_end():  # when a process ends, modules may have lost their names
            _give_back(self.block)


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array of any content, as `np.empty`; a large one on memory of an earlier one."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    lease = _Lease(_taken(size))
    return np.asarray(lease)[:size].view(dtype).reshape(shape)


def _taken(size: int) -> np.ndarray:
    """A block of at least so many bytes and at most twice as many."""
    for key, block in sorted(_waiting.items(), key=lambda item: item[1].nbytes):
        # another thread may have been faster
        if size <= block.nbytes <= 2 * size and _waiting.pop(key, None) is not None:
            return block
    return np.empty(size, np.uint8)


def _give_back(block: np.ndarray) -> None:
    """A block waits; the oldest that are too many are freed."""
    if block.nbytes <= KEPT:
        _waiting[id(block)] = block
    while sum(each.nbytes for each in list(_waiting.values())) > KEPT:
        _waiting.pop(next(iter(_waiting), 0), None)
