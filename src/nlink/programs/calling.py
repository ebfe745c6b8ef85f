"""The calling convention of every engine: functions of states behave like NumPy gufuncs.

`call` takes whatever the user passed, checks it, broadcasts the leading dimensions and
hands the engine flat arrays: one of shape (count, size) for each port, whose rows are
contiguous and any constant number of bytes apart (zero for a value all states share).
Row-major input is never copied. All arrays are of one type, float64 or, where all that are given
are of it, float32. Nothing here needs a compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nlink.programs.program import Port
from nlink.scalars.arrays import DOUBLE, batch, common_type

Flat = list[np.ndarray]
Run = Callable[[Flat, Flat, int], None]
"""run(inputs, outputs, count): compute all states, from flat arrays into flat arrays."""


def call(inputs: Sequence[Port], outputs: Sequence[Port], arrays: Sequence[Any],
         out: Any, run: Run, dtype: np.dtype | None = None) -> Any:
    """Run an engine on the user's arrays; the array of the only output, or a tuple of all.

    `out` is None, an array, or a tuple with an array or None for each output. Without a dtype the
    arrays decide, see `common_type`.
    """
    dtype = dtype or common_type(arrays)
    if len(arrays) != len(inputs):
        names = ", ".join(port.name for port in inputs)
        raise TypeError(f"{len(arrays)} arrays given, expected {len(inputs)} ({names})")
    given = [batch(port.name, x, port.shape, dtype=dtype)
             for port, x in zip(inputs, arrays, strict=True)]
    lead = _broadcast(inputs, given)
    count = math.prod(lead)
    results = [np.empty(lead + port.shape, dtype) if x is None
               else checked_out(port, x, lead, dtype)
               for port, x in zip(outputs, _outs(outputs, out), strict=True)]
    if count:
        flat_in = [_flat_input(port, x, lead, count)
                   for port, x in zip(inputs, given, strict=True)]
        flat_out = [_flat_view(port, x, count) for port, x in zip(outputs, results, strict=True)]
        if out is not None:
            _separate(flat_in, flat_out, outputs, count)
        targets = [np.empty((count, port.size), dtype) if x is None else x
                   for port, x in zip(outputs, flat_out, strict=True)]
        run(flat_in, targets, count)
        for result, view, target in zip(results, flat_out, targets, strict=True):
            if view is None:
                result[...] = target.reshape(result.shape)
    values = tuple(x if x.ndim else x[()] for x in results) if out is None else tuple(results)
    return values[0] if len(values) == 1 else values


def _broadcast(inputs: Sequence[Port], given: Sequence[np.ndarray]) -> tuple[int, ...]:
    leads = [x.shape[:x.ndim - len(port.shape)] for port, x in zip(inputs, given, strict=True)]
    different = {lead for lead in leads if lead}
    if len(different) <= 1:
        return different.pop() if different else ()
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        shapes = ", ".join(f"{port.name} {x.shape}"
                           for port, x in zip(inputs, given, strict=True))
        raise ValueError(f"leading shapes do not broadcast: {shapes}") from None


def _outs(outputs: Sequence[Port], out: Any) -> Sequence[Any]:
    if out is None:
        return [None] * len(outputs)
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) != len(outputs):
        names = ", ".join(port.name for port in outputs)
        raise TypeError(f"out: {len(outs)} arrays given, expected {len(outputs)} ({names})")
    return outs


def checked_out(port: Port, x: Any, lead: tuple[int, ...], dtype: np.dtype = DOUBLE,
                ) -> np.ndarray:
    """The array given to write a result into, if it fits."""
    if not isinstance(x, np.ndarray):
        raise TypeError(f"out ({port.name}): a {type(x).__name__}, expected a NumPy array")
    if x.dtype != dtype or not x.dtype.isnative:
        raise TypeError(f"out ({port.name}): dtype {x.dtype}, expected {dtype}")
    if x.shape != lead + port.shape:
        raise ValueError(f"out ({port.name}): shape {x.shape}, expected {lead + port.shape}")
    if not x.flags.writeable:
        raise ValueError(f"out ({port.name}): the array is read-only")
    return x


def _flat_input(port: Port, x: np.ndarray, lead: tuple[int, ...], count: int) -> np.ndarray:
    """Rows of an input for all states: a view where one stride can express it."""
    own = x.shape[:x.ndim - len(port.shape)]
    if x.flags.c_contiguous and x.flags.aligned:
        if own == lead:
            return x.reshape(count, port.size)
        if math.prod(own) == 1:
            # what np.broadcast_to gives, in a quarter of its time
            return np.ndarray((count, port.size), x.dtype, x, 0, (0, x.itemsize))
    if not rows_contiguous(port, x):
        x = x.copy()
    whole = x if own == lead else np.broadcast_to(x, lead + port.shape)
    view = _flat_view(port, whole, count)
    return np.ascontiguousarray(whole).reshape(count, port.size) if view is None else view


def contiguous_rows(port: Port, given: Any, dtype: np.dtype = DOUBLE) -> np.ndarray:
    """An array of a type that ends with the port's dimensions, which are contiguous."""
    if (type(given) is np.ndarray and given.dtype is dtype and given.flags.carray
            and given.shape[given.ndim - len(port.shape):] == port.shape):
        return given
    x = batch(port.name, given, port.shape, dtype=dtype)
    return x if rows_contiguous(port, x) else x.copy()


def rows_contiguous(port: Port, x: np.ndarray) -> bool:
    """Whether the numbers of each state lie side by side."""
    if x.flags.c_contiguous:
        return x.flags.aligned
    step = x.itemsize
    for n, stride in zip(reversed(port.shape), reversed(x.strides), strict=False):
        if n != 1 and stride != step:
            return False
        step *= n
    return x.flags.aligned


def _flat_view(port: Port, x: np.ndarray, count: int) -> np.ndarray | None:
    """An array of shape (count, size) on the same memory, if one stride leads to each row."""
    if x.flags.c_contiguous and x.flags.aligned:
        return x.reshape(count, port.size)
    if not rows_contiguous(port, x):
        return None
    stride: int | None = None
    reach = 0
    lead = x.ndim - len(port.shape)
    for n, step in zip(reversed(x.shape[:lead]), reversed(x.strides[:lead]), strict=True):
        if n == 1:
            continue
        if stride is None:
            stride = step
        elif step != reach:
            return None
        reach = step * n
    return x.reshape(count, port.size)  # with such strides it is a view


def _separate(inputs: Flat, outputs: list[Any], ports: Sequence[Port], count: int) -> None:
    """Replace by None, in place, outputs that overlap an input, another output or themselves."""
    for k, x in enumerate(outputs):
        if x is None:
            continue
        rows_overlap = count > 1 and abs(x.strides[0]) < ports[k].size * x.itemsize
        others = (*inputs, *(y for y in outputs[:k] if y is not None))
        if rows_overlap or any(np.may_share_memory(x, y) for y in others):
            outputs[k] = None
