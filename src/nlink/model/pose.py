"""Constant placements: a pose of numbers, and the four numbers of Denavit and Hartenberg."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Convention = Literal["standard", "modified"]


def cos_sin(angle: float) -> tuple[float, float]:
    """(cos, sin), exact where the angle is a quarter turn to rounding.

    A table says 90 degrees and the float nearest to pi/2 is meant: its cosine is 0, not
    6e-17, and a zero that is exact folds out of every formula it enters.
    """
    quarters = round(angle / (math.pi / 2))
    if abs(angle - quarters * (math.pi / 2)) <= 4e-16 * max(1, abs(quarters)):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[quarters % 4]
    return math.cos(angle), math.sin(angle)


@dataclass(frozen=True, slots=True)
class Pose:
    """A frame in another: rotation matrix (rows) and origin, as plain numbers."""

    rotation: tuple[tuple[float, float, float], ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        R, p = np.asarray(self.rotation, dtype=float), np.asarray(self.origin, dtype=float)
        if R.shape != (3, 3) or p.shape != (3,):
            raise ValueError(f"placement: rotation {R.shape} and origin {p.shape}, "
                             "expected shapes (3, 3) and (3,)")
        if not (np.isfinite(R).all() and np.isfinite(p).all()):
            raise ValueError("placement: contains a number that is not finite")
        if np.abs(R @ R.T - np.eye(3)).max() > 1e-9 or np.linalg.det(R) < 0:
            raise ValueError("placement: rotation is not a proper orthogonal matrix (to 1e-9)")
        object.__setattr__(self, "rotation", tuple(tuple(map(float, row)) for row in R))
        object.__setattr__(self, "origin", tuple(map(float, p)))

    @classmethod
    def of(cls, rotation: np.ndarray, origin: Sequence[float] | np.ndarray) -> Pose:
        return cls(tuple(map(tuple, rotation)), tuple(origin))  # type: ignore[arg-type]

    @classmethod
    def turn(cls, axis: Literal["x", "y", "z"], angle: float) -> Pose:
        c, s = cos_sin(angle)
        return cls({
            "x": ((1.0, 0.0, 0.0), (0.0, c, -s), (0.0, s, c)),
            "y": ((c, 0.0, s), (0.0, 1.0, 0.0), (-s, 0.0, c)),
            "z": ((c, -s, 0.0), (s, c, 0.0), (0.0, 0.0, 1.0)),
        }[axis])

    @classmethod
    def shift(cls, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Pose:
        return cls(origin=(x, y, z))

    @property
    def R(self) -> np.ndarray:
        return np.array(self.rotation)

    @property
    def p(self) -> np.ndarray:
        return np.array(self.origin)

    @property
    def matrix(self) -> np.ndarray:
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = self.rotation, self.origin
        return T

    def __matmul__(self, other: Pose) -> Pose:
        return Pose.of(self.R @ other.R, self.p + self.R @ other.p)

    def inverse(self) -> Pose:
        return Pose.of(self.R.T, -self.R.T @ self.p)


@dataclass(frozen=True, slots=True)
class DH:
    """A row of a Denavit-Hartenberg table, [Saha99, Appendix A].

    `standard` (distal): T = Rz(theta) Tz(b) Tx(a) Rx(alpha), the papers' own;
    `modified` (proximal, Craig): T = Rx(alpha) Tx(a) Rz(theta) Tz(b).
    The joint variable is added to theta or to b.
    """

    a: float
    b: float
    alpha: float
    theta: float
    convention: Convention = "standard"

    def __post_init__(self) -> None:
        if self.convention not in ("standard", "modified"):
            raise ValueError(f"convention: {self.convention!r}, expected 'standard' or 'modified'")
        for name in ("a", "b", "alpha", "theta"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise ValueError(f"{name}: {value}, expected a finite number")

    @property
    def before(self) -> Pose:
        """The joint's fixed frame in the parent link."""
        if self.convention == "standard":
            return Pose()
        return Pose.turn("x", self.alpha) @ Pose.shift(x=self.a)

    @property
    def after(self) -> Pose:
        """The link's own frame in the joint's moved frame."""
        screw = Pose.turn("z", self.theta) @ Pose.shift(z=self.b)
        if self.convention == "modified":
            return screw
        return screw @ Pose.shift(x=self.a) @ Pose.turn("x", self.alpha)


@dataclass(frozen=True, slots=True)
class Mount:
    """A joint frame placed freely in the parent link; the link's own frame is the moved one."""

    before: Pose = Pose()
    after: Pose = Pose()


Placement = DH | Mount
