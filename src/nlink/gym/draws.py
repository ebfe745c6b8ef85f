"""Numbers that are drawn anew at each reset: states to start from, goals, payloads, pushes.

A draw is a distribution of `nlink.studies`, such as Uniform(low, high), or a function
draw(rng, count) that gives a row for each of `count` robots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def is_draw(given: Any) -> bool:
    """Whether numbers are drawn, and not given."""
    return callable(given) or hasattr(given, "quantile")


def draw(given: Any, rng: np.random.Generator, count: int) -> Array:
    """What a draw gives, (count, ...).

    >>> from nlink.studies import Uniform
    >>> draw(Uniform([0.0, 1.0], [1.0, 3.0]), np.random.default_rng(0), 4).shape
    (4, 2)
    """
    if hasattr(given, "quantile"):
        return given.quantile(rng.random((count, given.size)))
    return np.asarray(given(rng, count), float)


def drawn(name: str, given: Any, rng: np.random.Generator, count: int, width: int) -> Array:
    """The numbers (count, width) of a draw, checked."""
    values = draw(given, rng, count)
    if values.size != count * width or values.shape[:1] != (count,):
        raise ValueError(f"{name}: a draw gave the shape {values.shape}, expected ({count}, "
                         f"{width}): one row for each robot that is reset")
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: a draw gave numbers that are not finite")
    return values.reshape(count, width)
