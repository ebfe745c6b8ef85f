"""Constant placements: a pose of numbers, and the four numbers of Denavit and Hartenberg."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Convention = Literal["standard", "modified"]
Rows = tuple[tuple[float, ...], ...]

_UPRIGHT: Rows = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


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
    """A frame in another: rotation matrix (rows) and origin, as plain numbers.

    >>> import nlink
    >>> pose = nlink.Pose(origin=(1.0, 0.0, 0.0))
    >>> (pose @ pose).origin
    (2.0, 0.0, 0.0)
    """

    rotation: Rows = _UPRIGHT
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        R, p = np.asarray(self.rotation, dtype=float), np.asarray(self.origin, dtype=float)
        if R.shape != (3, 3) or p.shape != (3,):
            raise ValueError(f"placement: rotation {R.shape} and origin {p.shape}, "
                             "expected shapes (3, 3) and (3,)")
        if not (np.isfinite(R).all() and np.isfinite(p).all()):
            raise ValueError("placement: contains a number that is not finite")
        if self.rotation is not _UPRIGHT and (
                np.abs(R @ R.T - np.eye(3)).max() > 1e-9 or np.linalg.det(R) < 0):
            raise ValueError("placement: rotation is not a proper orthogonal matrix (to 1e-9)")
        object.__setattr__(self, "rotation", tuple(tuple(map(float, row)) for row in R))
        object.__setattr__(self, "origin", tuple(map(float, p)))

    @classmethod
    def of(cls, rotation: np.ndarray, origin: Sequence[float] | np.ndarray) -> Pose:
        return cls(tuple(map(tuple, rotation)), tuple(origin))  # type: ignore[arg-type]

    @classmethod
    def _valid(cls, rotation: Rows, origin: tuple[float, float, float]) -> Pose:
        """A product of valid poses needs no new check."""
        pose = object.__new__(cls)
        object.__setattr__(pose, "rotation", rotation)
        object.__setattr__(pose, "origin", origin)
        return pose

    @classmethod
    def turn(cls, axis: Literal["x", "y", "z"], angle: float) -> Pose:
        c, s = cos_sin(angle)
        return cls._valid({
            "x": ((1.0, 0.0, 0.0), (0.0, c, -s), (0.0, s, c)),
            "y": ((c, 0.0, s), (0.0, 1.0, 0.0), (-s, 0.0, c)),
            "z": ((c, -s, 0.0), (s, c, 0.0), (0.0, 0.0, 1.0)),
        }[axis], (0.0, 0.0, 0.0))

    @classmethod
    def shift(cls, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Pose:
        return cls._valid(_UPRIGHT, (x, y, z))

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
        columns = tuple(zip(*other.rotation, strict=True))
        (a, b, c), (x, y, z) = self.rotation, self.origin
        rotation = tuple(tuple(_dot(row, column) for column in columns) for row in (a, b, c))
        p = other.origin
        return Pose._valid(rotation, (x + _dot(a, p), y + _dot(b, p), z + _dot(c, p)))

    def inverse(self) -> Pose:
        columns = tuple(zip(*self.rotation, strict=True))
        x, y, z = (-_dot(column, self.origin) for column in columns)
        return Pose._valid(columns, (x, y, z))

    def seen_from(self, other: Pose) -> Pose:
        """other^-1 @ self from the difference of the origins: far away together, the two lose
        no digits of what lies between them."""
        x, y, z = (a - b for a, b in zip(self.origin, other.origin, strict=True))
        turned = Pose._valid(tuple(zip(*other.rotation, strict=True)), (0.0, 0.0, 0.0))
        return turned @ Pose._valid(self.rotation, (x, y, z))


@dataclass(frozen=True, slots=True)
class DH:
    """A row of a Denavit-Hartenberg table, [Saha99, Appendix A].

    `standard` (distal): T = Rz(theta) Tz(b) Tx(a) Rx(alpha), the papers' own;
    `modified` (proximal, Craig): T = Rx(alpha) Tx(a) Rz(theta) Tz(b).
    The joint variable is added to theta or to b.

    >>> import nlink
    >>> nlink.DH(a=0.4, b=0.0, alpha=0.0, theta=0.0).after.origin
    (0.4, 0.0, 0.0)
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
    """A joint frame placed freely in the parent link; the link's own frame is the moved one.

    >>> import nlink
    >>> nlink.Mount(nlink.Pose(origin=(0.0, 0.0, 0.3))).before.origin
    (0.0, 0.0, 0.3)
    """

    before: Pose = Pose()
    after: Pose = Pose()


Placement = DH | Mount
