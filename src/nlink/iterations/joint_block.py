"""Dry friction and limits of a rate, as one row of a contact problem.

Beside everything else the rate after a step is w = W f + b, f being the force of friction and
limits. Friction of at most `level`, and limits that the rate must not pass, say

    -f in level sign(w) + N(w),      sign(0) = [-1, 1],   N normal to [low, high],

so that w is b, nearer to 0 by W level, or 0 if it is not further away, then no less than low and no
more than high. There is one such w, whatever the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from nlink.scalars.functions import (
    Scalar,
    divide,
    less,
    less_equal,
    literal,
    maximum,
    minimum,
    sqrt,
    where,
)

UP, DOWN, RESTS, ON_LOWER, ON_UPPER = 1.0, -1.0, 0.0, 2.0, -2.0
"""Modes: slides up or down, rests, is held at a limit; what does not rub is free as 1."""


@dataclass(frozen=True, slots=True)
class JointBlock:
    """What a visit needs of a rate that rubs, or has limits."""

    rho: Scalar
    """W: the rate by the force."""
    level: Scalar
    """The most that friction takes, 0 without any."""
    low: Scalar | None
    high: Scalar | None
    """Bounds of the rate after the step, None without."""

    size: ClassVar[int] = 1

    def settled(self, z: Scalar, rho: Scalar) -> tuple[Scalar, Scalar]:
        """The rate that friction and limits leave of z, and what friction alone does."""
        slides = z
        if literal(self.level) != 0:
            most = rho * self.level
            slides = maximum(z - most, 0.0) + minimum(z + most, 0.0)
        bounded = slides
        if self.low is not None:
            bounded = maximum(bounded, self.low)
        if self.high is not None:
            bounded = minimum(bounded, self.high)
        return bounded, slides

    def visit(self, b: Sequence[Scalar], old: Sequence[Scalar], slip: Scalar,
              ) -> tuple[tuple[Scalar, ...], Scalar]:
        """The force of this rate, all others being as they are."""
        rate, _ = self.settled(b[0], self.rho)
        force = divide(rate - b[0], self.rho)
        return (where(less_equal(abs(force), 1e300), force, 0.0),), slip

    def residual(self, sig: Sequence[Scalar], lam: Sequence[Scalar]) -> Scalar:
        """How far the rate is from its laws, as a rate."""
        return abs(sig[0] - self.settled(sig[0] - self.rho * lam[0], self.rho)[0])

    def nearest(self, force: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """The nearest force that the row allows."""
        low = None if self.high is not None else -self.level
        high = None if self.low is not None else self.level
        x = force[0] if low is None else maximum(force[0], low)
        return (x if high is None else minimum(x, high),)

    def slip(self, sig: Sequence[Scalar], lam: Sequence[Scalar]) -> Scalar:
        return 0.0

    def outcome(self, sig: Scalar, lam: Scalar) -> tuple[Scalar, Scalar]:
        """What the rate does at a solution, and what it is there."""
        bounded, slides = self.settled(sig - self.rho * lam, self.rho)
        mode: Scalar = UP
        if literal(self.level) != 0:
            mode = where(less(0.0, slides), UP, where(less(slides, 0.0), DOWN, RESTS))
        if self.low is not None:
            mode = where(less(slides, bounded), ON_LOWER, mode)
        if self.high is not None:
            mode = where(less(bounded, slides), ON_UPPER, mode)
        return mode, bounded

    def scaled(self, D: Scalar) -> JointBlock:
        """The same for forces over D and rates times D, where D^2 rho = 1."""
        return JointBlock(1.0, self.level / D, *(
            None if x is None else x * D for x in (self.low, self.high)))

    def smoothed(self, z: Scalar, eps: Scalar) -> tuple[Scalar, Scalar]:
        """`settled`, of a scaled block, with smooth corners, and its derivative by z."""
        rate, slope = z, 1.0
        if literal(self.level) != 0:
            (up, a), (down, b) = (_plus(x, eps) for x in (z - self.level, -z - self.level))
            rate, slope = up - down, a + b
        if self.low is not None:
            more, a = _plus(self.low - rate, eps)
            rate, slope = rate + more, (1.0 - a) * slope
        if self.high is not None:
            less_by, a = _plus(rate - self.high, eps)
            rate, slope = rate - less_by, (1.0 - a) * slope
        return rate, slope


def _plus(x: Scalar, eps: Scalar) -> tuple[Scalar, Scalar]:
    """The positive part of x, with a smooth corner, and its derivative."""
    root = sqrt(x * x + 4.0 * (eps * eps))
    return (x + root) * 0.5, (1.0 + x / root) * 0.5
