"""What is watched: when a function of the state counts as an event, and what happens then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nlink.scalars.functions import Scalar, less, less_equal, maximum, sqrt

ENDS = {"stop": 5.0, "limit": 6.0}
"""Actions that end a trajectory, and its status then."""
AT_REST = 7.0
TOUCHING = 1e-300
"""g of a limit that is touched from inside: positive, so that going out counts."""
PROBES = 20
"""Tries after which a search for an event bisects."""
SHORTEST = 1e4
"""Flights between impacts shorter than so many times `least` are rest on the limit."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a watched function of the state counts as an event, and what happens then."""

    direction: int
    """1 where it rises through zero, -1 where it falls, 0 for both."""
    action: str
    """"record", "stop" (the trajectory ends), "limit" (it ends at a limit), "bounce", "hold" (the
    limit holds), or "switch" (a mode ends)."""
    element: int = -1
    """The element of the state that a limit bounds."""
    sign: float = 1.0
    """1 if the limit bounds it from below, -1 from above."""

    @property
    def bounds(self) -> bool:
        """Whether it is a limit, positive inside."""
        return self.action in ("limit", "bounce", "hold")

    def crossed(self, before: Scalar, after: Scalar) -> Any:
        """Whether the sign of two values differs, in a direction that counts."""
        if self.action == "hold":  # a coordinate that leaves its limit stays there for a while,
            return less(0.0, before) & less(after, 0.0)  # within rounding
        rising = less(before, 0.0) & less_equal(0.0, after)
        falling = less(0.0, before) & less_equal(after, 0.0)
        return {1: rising, -1: falling}.get(self.direction, rising | falling)

    def base(self, g: Scalar) -> Scalar:
        """What later values are compared with."""
        return maximum(g, TOUCHING) if self.action == "hold" else g

    def dip(self, base: Scalar, end: Scalar, h: Scalar, y: Scalar, k0: Scalar, new: Scalar,
            rate: Scalar) -> tuple[Any, Scalar]:
        """Whether it dips below zero within a step, and where."""
        return lowest_point(base, end, self.sign, h, y, k0, new, rate)


def lowest_point(base: Scalar, end: Scalar, sign: Scalar, h: Scalar, y: Scalar, k0: Scalar,
                 new: Scalar, rate: Scalar) -> tuple[Any, Scalar]:
    """Whether the cubic g + a s + b s^2 + c s^3, s = 0 to 1 over the step, dips below zero
    between ends that are above, and where it is lowest: -a / (b + sqrt(b^2 - 3 a c)). It is
    that of the whole step, however much of it has been examined. g changes by sign (new - y)."""
    h = h * sign
    a, last, rise = h * k0, h * rate, sign * (new - y)
    c = a + last - 2.0 * rise
    b = rise - a - c
    s = -a / (b + sqrt(b * b - 3.0 * (a * c)))
    low = ((c * s + b) * s + a) * s + (end - rise)
    inside = less(0.0, base) & less(0.0, end)
    return inside & less(a, 0.0) & less(0.0, last) & less_equal(low, 0.0), s
