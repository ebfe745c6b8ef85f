"""Arrays that users give, checked once: native numbers of the expected shape, or one sentence.

Computations are in float64, or in float32 where all of their arrays are: see `common_type`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

DOUBLE = np.dtype(np.float64)
SINGLE = np.dtype(np.float32)
Shape = tuple[int | None, ...]


class TracedValues(TypeError):
    """Traced values, or other scalars that are no numbers, where numbers are needed."""


def foreign(array: np.ndarray) -> bool:
    """Whether an array holds scalars that algorithms run on but that are no numbers: traced
    values, dual numbers, counting scalars, SymPy's."""
    return array.dtype == object and any(
        hasattr(x, "apply_primitive") or hasattr(x, "free_symbols") for x in array.flat)


def common_type(arrays: Iterable[Any]) -> np.dtype:
    """The type that arrays are computed in: float32 if all of them are of float32, else float64.

    >>> common_type([np.zeros(3, np.float32), [1.0, 2.0, 3.0]])
    dtype('float64')
    """
    single = False
    for x in arrays:
        if not isinstance(x, (np.ndarray, np.floating)) or x.dtype != SINGLE:
            return DOUBLE
        single = True
    return SINGLE if single else DOUBLE


def alike(*arrays: Any) -> tuple[Any, ...]:
    """The same arrays, those of float32 widened if not all are: for what is computed in parts."""
    if common_type(arrays) is SINGLE:
        return arrays
    return tuple(np.asarray(x, DOUBLE) if common_type([x]) is SINGLE else x for x in arrays)


def batch(name: str, given: Any, shape: tuple[int, ...], note: str = "",
          dtype: np.dtype = DOUBLE) -> np.ndarray:
    """An array whose last dimensions are `shape`, after any others; the given one if it fits.

    >>> batch("q", [[1, 2], [3, 4], [5, 6]], (3,))
    Traceback (most recent call last):
    ValueError: q: shape (3, 2), expected (..., 3); did you mean q.T?
    """
    core = len(shape)
    if (type(given) is np.ndarray and given.dtype is dtype
            and given.shape[given.ndim - core:] == shape):
        return given
    try:
        array = np.asarray(given)
    except ValueError:
        raise ValueError(f"{name}: not a rectangular array of numbers, "
                         f"expected {_written((..., *shape))}{note}") from None
    if array.dtype != dtype or not array.dtype.isnative:
        if not np.can_cast(array.dtype, dtype, "safe"):
            if foreign(array):
                raise TracedValues(f"{name}: traced values, expected numbers: what is computed "
                                   "here cannot be traced; simulate with traced=False")
            raise TypeError(f"{name}: dtype {array.dtype} does not convert to {dtype} safely")
        array = array.astype(dtype)
    if array.ndim < core or array.shape[array.ndim - core:] != shape:
        hint = ""
        if array.ndim > 1 and array.T.shape[array.ndim - core:] == shape:
            hint = f"; did you mean {name}.T?"
        raise ValueError(f"{name}: shape {array.shape}, "
                         f"expected {_written((..., *shape))}{note}{hint}")
    return array


def single(name: str, given: Any, shape: Shape, note: str = "", *,
           finite: bool = True) -> np.ndarray:
    """A new array of exactly this shape, where None is any length.

    >>> single("gravity", (0, 0), (3,))
    Traceback (most recent call last):
    ValueError: gravity: shape (2,), expected (3,)
    """
    try:
        array = np.array(batch(name, given, ()))
    except TracedValues:
        raise
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {given!r:.80}, expected numbers of shape "
                         f"{_written(shape)}{note}") from None
    if array.ndim != len(shape) or any(
            size not in (None, own) for size, own in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{name}: shape {array.shape}, expected {_written(shape)}{note}")
    if finite and not np.isfinite(array).all():
        shown = "" if isinstance(given, np.ndarray) else f"{given!r:.80} "
        raise ValueError(f"{name}: {shown}contains a number that is not finite")
    return array


def _written(shape: tuple[Any, ...]) -> str:
    names = ["..." if size is ... else "n" if size is None else str(size) for size in shape]
    return f"({', '.join(names)}{',' if len(names) == 1 and names != ['...'] else ''})"
