"""Minima of smooth functions by the limited-memory quasi-Newton method [Nocedal 1980]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
MEMORY = 20
ENOUGH = 1e-4
"""Armijo's constant."""


def minimized(function: Callable[[Array], tuple[float, Array]], x: Array, steps: int) -> Array:
    """The best point after so many steps from x; `function` gives a value and its gradient.

    >>> minimized(lambda x: (float(((x - 1) ** 2).sum()), 2 * (x - 1)), np.zeros(2), 20).round(6)
    array([1., 1.])
    """
    value, slope = function(x)
    pairs: list[tuple[Array, Array]] = []
    for _ in range(steps):
        direction = _direction(slope, pairs)
        along = float(direction @ slope)
        if along >= 0:
            direction, pairs = -slope, []
            along = float(direction @ slope)
        size = 1.0 if pairs else min(1.0, 0.1 / max(float(np.linalg.norm(slope)), 1e-300))
        for _ in range(30):
            tried = x + size * direction
            here, tilt = function(tried)
            if np.isfinite(here) and here <= value + ENOUGH * size * along:
                break
            size *= 0.4
        else:
            break
        step, change = tried - x, tilt - slope
        if float(step @ change) > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            pairs = [*pairs[-MEMORY + 1:], (step, change)]
        fall = value - here
        x, value, slope = tried, here, tilt
        if np.linalg.norm(slope) < 1e-8 or (0 <= fall < 1e-10 * max(1.0, abs(value))):
            break
    return x


def _direction(slope: Array, pairs: list[tuple[Array, Array]]) -> Array:
    """The two loops."""
    d, factors = -slope.copy(), []
    for step, change in reversed(pairs):
        a = float(step @ d) / float(step @ change)
        d -= a * change
        factors.append(a)
    if pairs:
        step, change = pairs[-1]
        d *= float(step @ change) / float(change @ change)
    for (step, change), a in zip(pairs, reversed(factors), strict=True):
        d += (a - float(change @ d) / float(step @ change)) * step
    return d
