"""A call that a framework maps along a dimension, as one call of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nlink.programs.program import Port


def one_batch(inputs: Sequence[Port], arrays: Sequence[Any], dims: Sequence[int | None], size: int,
              first: Callable[[Any, int], Any],
              broadcast: Callable[[Any, tuple[int, ...]], Any],
              ) -> tuple[list[Any], Callable[[Any], Any]]:
    """The arguments of one call, and what makes its outputs those of the mapped one.

    Arrays have the dimensions of their ports, or one more in front, for states; `dims` says which
    of theirs is mapped, of `size` each. `first(x, d)` brings that to the front.
    """
    moved = [x if d is None else first(x, d) for x, d in zip(arrays, dims, strict=True)]
    several = [x.ndim - (d is not None) > len(port.shape)
               for port, x, d in zip(inputs, moved, dims, strict=True)]
    states = next((x.shape[d is not None] for x, d, many in zip(
        moved, dims, several, strict=True) if many), None)
    if states is None:
        return moved, lambda x: x
    flat = []
    for port, x, d, many in zip(inputs, moved, dims, several, strict=True):
        if d is not None or many:
            x = x if d is not None else x[None]
            x = x if many else x[:, None]
            x = broadcast(x, (size, states, *port.shape)).reshape(size * states, *port.shape)
        flat.append(x)
    return flat, lambda x: x.reshape(size, states, *x.shape[1:])
