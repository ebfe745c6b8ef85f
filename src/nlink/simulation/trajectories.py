"""Trajectories: desired motions as functions of time, on any scalar.

A trajectory is called with t and returns q, qd, qdd as tuples. It rests at its start before t = 0
and at its end after t = T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlink.scalars.arrays import single
from nlink.scalars.functions import Scalar, cos, sin

Motion = tuple[tuple[Scalar, ...], tuple[Scalar, ...], tuple[Scalar, ...]]


def at_times(trajectory: Callable[[float], Motion], t: Any) -> Any:
    """q, qd and qdd at an array of times, each (times, n)."""
    times = np.asarray(t, dtype=float)
    rows = np.array([trajectory(time) for time in times.ravel().tolist()], dtype=float)
    found = np.moveaxis(rows.reshape(*times.shape, 3, -1), -2, 0)
    return found[0], found[1], found[2]


@dataclass(frozen=True)
class Rest:
    """A configuration to be held.

    >>> from nlink.simulation import Rest
    >>> q, qd, qdd = Rest([0.5, 1.0])(3.0)
    >>> [float(x) for x in q]
    [0.5, 1.0]
    """

    q: Sequence[float] | np.ndarray
    n: int | None = None
    """The number of rates, if it differs from that of coordinates."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", tuple(single("q", self.q, (None,)).tolist()))

    def __call__(self, t: Scalar) -> Motion:
        if isinstance(t, np.ndarray) and t.ndim:
            return at_times(self, t)
        zeros = (0.0,) * (len(self.q) if self.n is None else self.n)
        return tuple(self.q), zeros, zeros


@dataclass(frozen=True)
class Between:
    """From one configuration to another in time T, along a curve of the time alone."""

    start: Sequence[float] | np.ndarray
    end: Sequence[float] | np.ndarray
    T: float

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, tuple(
                single(name, getattr(self, name), (None,)).tolist()))
        if len(self.start) != len(self.end):
            raise ValueError(f"end: {len(self.end)} numbers, expected {len(self.start)} "
                             "as in start")
        if not (math.isfinite(self.T) and self.T > 0):
            raise ValueError(f"T: {self.T}, expected a positive time")

    def curve(self, s: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """The fraction of the way, and its derivatives by s, for 0 <= s <= 1."""
        raise NotImplementedError

    def __call__(self, t: Scalar) -> Motion:
        """q, qd and qdd at a time; at an array of times, arrays (times, n)."""
        if isinstance(t, np.ndarray) and t.ndim:
            return at_times(self, t)
        x = t * (1 / self.T)
        # s = x, but not below 0 nor above 1, without a branch
        s = (abs(x) - abs(x - 1) + 1) * 0.5
        way, speed, bend = self.curve(s)
        rises = [b - a for a, b in zip(self.start, self.end, strict=True)]
        return (tuple(a + d * way for a, d in zip(self.start, rises, strict=True)),
                tuple(d * speed * (1 / self.T) for d in rises),
                tuple(d * bend * (1 / self.T**2) for d in rises))


@dataclass(frozen=True)
class Cycloid(Between):
    """The papers' trajectory [Saha03, 18]: start + (end - start) (s - sin(2 pi s)/(2 pi)), s = t/T.

    The printed 1/2 [2 pi t/T - sin(2 pi t/T)] is the case end - start = pi.

    >>> Cycloid([0.0], [2.0], 10.0)(5.0)[0]
    (1.0,)
    """

    def curve(self, s: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        w = 2 * math.pi
        return s - sin(w * s) * (1 / w), 1 - cos(w * s), w * sin(w * s)


@dataclass(frozen=True)
class Quintic(Between):
    """The polynomial of degree five that starts and ends at rest: 10 s^3 - 15 s^4 + 6 s^5.

    >>> from nlink.simulation import Quintic
    >>> q, qd, qdd = Quintic([0.0], [1.0], 2.0)(1.0)
    >>> float(q[0]), float(qd[0])
    (0.5, 0.9375)
    """

    def curve(self, s: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        rest = 1 - s
        return (s * s * s * (10 - s * (15 - 6 * s)), 30 * s * s * rest * rest,
                60 * s * rest * (rest - s))
