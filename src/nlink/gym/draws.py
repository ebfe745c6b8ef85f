"""Numbers that are drawn anew at each reset: states to start from, goals, payloads, pushes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray


@dataclass(frozen=True)
class Uniform:
    """Numbers between `low` and `high`, which have the shape of one draw.

    >>> Uniform([0.0, 1.0], [1.0, 3.0])(np.random.default_rng(0), 4).shape
    (4, 2)
    """

    low: ArrayLike
    high: ArrayLike

    def __call__(self, rng: np.random.Generator, count: int) -> Array:
        low, high = np.asarray(self.low, float), np.asarray(self.high, float)
        return rng.uniform(low, high, (count, *np.broadcast_shapes(low.shape, high.shape)))


@dataclass(frozen=True)
class Normal:
    """Numbers about `mean` with a standard deviation, which have the shape of one draw.

    >>> Normal([0.0, 0.0], 0.1)(np.random.default_rng(0), 4).shape
    (4, 2)
    """

    mean: ArrayLike
    deviation: ArrayLike

    def __call__(self, rng: np.random.Generator, count: int) -> Array:
        mean, deviation = np.asarray(self.mean, float), np.asarray(self.deviation, float)
        return rng.normal(mean, deviation, (count, *np.broadcast_shapes(
            mean.shape, deviation.shape)))


Draw = Callable[[np.random.Generator, int], ArrayLike]
"""draw(rng, count) gives (count, ...) numbers."""


def drawn(name: str, given: Any, rng: np.random.Generator, count: int, width: int) -> Array:
    """The numbers (count, width) of a draw, checked."""
    values = np.asarray(given(rng, count), float)
    try:
        values = values.reshape(count, width)
    except ValueError:
        raise ValueError(f"{name}: a draw gave the shape {values.shape}, expected ({count}, "
                         f"{width}): one row for each robot that is reset") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: a draw gave numbers that are not finite")
    return values
