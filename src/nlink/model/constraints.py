"""The constraints that close kinematic chains.

A loop closes on two frames, `of` (a) and `on` (b), as a joint would that carries a on b. It is
described by what it forbids. Seen from b, in axes E, frame a has the rotation R, the place x
and the twist (w, v); a row of the constraint matrix Q is a wrench that the loop can transmit,
and what it forbids is a twist on which that wrench does work [RK88 Part II]:

    Q (w, v) = 0,   Q (wd, vd) + Qdot (w, v) = 0,   f = Q^T lambda.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from nlink.scalars.functions import Scalar, cos, divide, sign, sin, sqrt
from nlink.spatial import Matrix, Turn, Twist, Vector, Wrench

ANGLE_TOLERANCE = 1e-5
"""Directions that differ by less, in radians, are meant to be one: a file has five digits of pi."""

X, Y, Z = Vector(1, 0, 0), Vector(0, 1, 0), Vector(0, 0, 1)
NONE = Vector(0, 0, 0)


def forces(*axes: Vector) -> tuple[Wrench, ...]:
    """Rows that forbid translations."""
    return tuple(Wrench(NONE, axis) for axis in axes)


def moments(*axes: Vector) -> tuple[Wrench, ...]:
    """Rows that forbid rotations."""
    return tuple(Wrench(axis, NONE) for axis in axes)


@dataclass(frozen=True, slots=True)
class Freedom:
    """The motions that a constraint leaves free: twists S with Q S = 0, and the columns of Q^+,
    which open it row by row; in axes E, turned about z by `turn`."""

    turn: Turn
    S: tuple[Twist, ...]
    columns: tuple[Twist, ...]


@lru_cache(64)
def steady_freedom(constraint: Constraint) -> Freedom:
    """The freedom of a constraint whose rows are constant in E."""
    rows = constraint.rows(Matrix.identity())
    axes = [row.axis for row in rows]
    if None not in axes:
        return Freedom(NO_TURN, tuple(s for s in UNITS if s.axis not in axes),
                       tuple(s for axis in axes for s in UNITS if s.axis == axis))
    Q = np.array([row.components for row in rows], dtype=float)
    _, values, V = np.linalg.svd(Q)
    rank = int((values > 1e-12 * values[0]).sum())
    return Freedom(NO_TURN, tuple(map(_twist, V[rank:])), tuple(map(_twist, np.linalg.pinv(Q).T)))


def _twist(x: np.ndarray) -> Twist:
    """A twist of numbers, rounding being zero."""
    return Twist.of([0 if abs(e) < 1e-15 else float(e) for e in x])


UNITS = tuple(Twist.of([int(i == j) for j in range(6)]) for i in range(6))
NO_TURN = Turn("z", 1, 0)


class Constraint(ABC):
    """The contract of a constraint, on any scalar.

    1. `rows(R, x)` are the rows of Q, as wrenches in axes E.
    2. `turning(R, x, w, v)` is Qdot (w, v), row by row; zero where Q is constant in E.
    3. `error(R, x)` is how far each row is from closed. At a closed state its rate is
       Q (w, v), and nothing but a closed state makes it zero: an assembly must not end
       half a turn away. A row that restricts velocities alone has the error 0.
    4. `isotropic`: rows come in whole triples, so that E may be the world's axes; else E is b.
    5. `slides`: frame a may move away from b's origin.
    6. `freedom(R)` is what it leaves free; where Q is constant in E, that is found from it.
    7. `carries`: it may be in the tree of the elimination, where `freedom` is asked for.
    """

    name: ClassVar[str]
    isotropic: ClassVar[bool] = False
    slides: ClassVar[bool] = False
    carries: ClassVar[bool] = True

    @abstractmethod
    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]: ...

    @abstractmethod
    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]: ...

    def turning(self, R: Matrix, x: Vector, w: Vector, v: Vector) -> tuple[Scalar, ...]:
        return (0,) * self.count

    def freedom(self, R: Matrix) -> Freedom:
        return steady_freedom(self)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.rows(Matrix.identity()))

    @property
    def magnitudes(self) -> tuple[tuple[float, float], ...]:
        """How large the moment and the force of each row are."""
        return tuple((math.hypot(*row.moment.components), math.hypot(*row.force.components))
                     for row in self.rows(Matrix.identity()))

    @property
    def angular(self) -> tuple[bool, ...]:
        """Whether the multiplier of each row is a moment (else a force)."""
        return tuple(not force for _, force in self.magnitudes)


HALF_TURN = 1e-9
"""1 + cos of an angle this small: half a turn, of which rounding has the direction."""
FAR = 1e6
"""The error of half a turn, larger than that of any other angle."""


def tangents(cosine: Scalar, *sines: Scalar) -> tuple[Scalar, ...]:
    """2 sines / cosine, which is 2 tan(angle/2) of sin(angle) and 1 + cos(angle).

    Half a turn is 0 / 0 but for rounding, and must not come out as small.
    """
    keep = (1 + sign(cosine - HALF_TURN)) * 0.5
    scale, far = 2 * keep / (cosine * keep + (1 - keep)), (1 - keep) * FAR
    return tuple(sine * scale + far for sine in sines)


def tilt(R: Matrix) -> tuple[Scalar, ...]:
    """How far R leans the z axis, about x and about y: 2 tan(angle/2) times the axis."""
    return tangents(1 + R.z.z, -R.z.y, R.z.x)


def turn(R: Matrix) -> tuple[Scalar, ...]:
    """The rotation R as the vector 2 tan(angle/2) times its axis."""
    return tangents(1 + R.x.x + R.y.y + R.z.z, R.y.z - R.z.y, R.z.x - R.x.z, R.x.y - R.y.x)


@dataclass(frozen=True, slots=True)
class Rigid(Constraint):
    """All six: a rigid grasp, a weld."""

    name = "fixed"
    isotropic = True

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return moments(X, Y, Z) + forces(X, Y, Z)

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return (*turn(R), *x.components)


@dataclass(frozen=True, slots=True)
class Ball(Constraint):
    """The point only: a ball joint, a point contact with friction that does not slip."""

    name = "spherical"
    isotropic = True

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return forces(X, Y, Z)

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return x.components


@dataclass(frozen=True, slots=True)
class Pin(Constraint):
    """A hinge about z."""

    name = "revolute"

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return moments(X, Y) + forces(X, Y, Z)

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return (*tilt(R), *x.components)


@dataclass(frozen=True, slots=True)
class Slide(Constraint):
    """A slide along z."""

    name = "prismatic"
    slides = True

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return moments(X, Y, Z) + forces(X, Y)

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return (*turn(R), x.x, x.y)


@dataclass(frozen=True, slots=True)
class Sleeve(Constraint):
    """Rotation about z and translation along it."""

    name = "cylindrical"
    slides = True

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return moments(X, Y) + forces(X, Y)

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return (*tilt(R), x.x, x.y)


@dataclass(frozen=True, slots=True)
class Screw(Constraint):
    """A translation of `pitch` along z for a radian about it; whole turns are not told apart."""

    pitch: float = 0.0
    name = "helical"
    slides = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.pitch) and self.pitch):
            raise ValueError(f"pitch: {self.pitch}, expected a finite number of metres per radian, "
                             "not 0")

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return (*moments(X, Y), *forces(X, Y), Wrench(Vector(0, 0, -self.pitch), Z))

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        # the angle z/pitch - theta by its sine and cosine, as 2 tan(angle/2)
        angle = x.z * (1 / self.pitch)
        c, s = cos(angle), sin(angle)
        behind, = tangents(1 + c * R.x.x + s * R.x.y, s * R.x.x - c * R.x.y)
        return (*tilt(R), x.x, x.y, behind * self.pitch)


@dataclass(frozen=True, slots=True)
class Cross(Constraint):
    """Two crossing axes: z of b, and x of a, which stay at right angles."""

    name = "universal"

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return (Wrench(R.x.cross(Z), NONE), *forces(X, Y, Z))

    def turning(self, R: Matrix, x: Vector, w: Vector, v: Vector) -> tuple[Scalar, ...]:
        return (w.cross(R.x).cross(Z).dot(w), 0, 0, 0)

    def freedom(self, R: Matrix) -> Freedom:
        """With x across z in the plane of both axes: what is free are turns about x and z, and the
        row of moments is along -y, as long as the axes are far from parallel."""
        inverse = divide(1, sqrt(R.x.x * R.x.x + R.x.y * R.x.y))
        back = Turn("z", R.x.x * inverse, R.x.y * inverse)
        columns = (Twist(Vector(0, -inverse, 0), NONE),
                   *(Twist(NONE, back.to_child(axis)) for axis in (X, Y, Z)))
        return Freedom(back, (UNITS[0], UNITS[2]), columns)

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return (R.x.z, *x.components)


@dataclass(frozen=True, slots=True)
class Plane(Constraint):
    """Motion in the plane across z."""

    name = "planar"
    slides = True

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return (*moments(X, Y), *forces(Z))

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return (*tilt(R), x.z)


@dataclass(frozen=True, slots=True)
class SoftFinger(Constraint):
    """The point, and no spin about z of b: a soft finger whose normal is fixed in the object.

    The spin is forbidden as a velocity; no orientation is preserved by that.
    """

    name = "soft_finger"

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return moments(Z) + forces(X, Y, Z)

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return (0, *x.components)


@dataclass(frozen=True, slots=True)
class Distance(Constraint):
    """The origins stay `length` apart: a rod without mass, with a ball joint at either end."""

    length: float = 1.0
    name = "distance"
    slides = True
    carries = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.length) and self.length > 0):
            raise ValueError(f"length: {self.length}, expected a positive number of metres")

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return forces(x * divide(1, sqrt(x.dot(x))))

    def turning(self, R: Matrix, x: Vector, w: Vector, v: Vector) -> tuple[Scalar, ...]:
        far = divide(1, sqrt(x.dot(x)))
        along = x.dot(v) * far
        return ((v.dot(v) - along * along) * far,)

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return (sqrt(x.dot(x)) - self.length,)


@dataclass(frozen=True, slots=True)
class Rows(Constraint):
    """Any constant matrix Q, in the axes of b: one (moment, force) for each row.

    Rows without a moment hold a place; the others restrict velocities alone.
    """

    matrix: tuple[tuple[float, ...], ...] = ()
    name = "matrix"
    slides = True

    def __post_init__(self) -> None:
        good = 0 < len(self.matrix) <= 6 and all(
            len(row) == 6 and all(map(math.isfinite, row)) and any(row) for row in self.matrix)
        if not good:
            raise ValueError(f"matrix: {self.matrix}, expected one to six rows of six finite "
                             "numbers, none of them all zero")

    def rows(self, R: Matrix, x: Vector = Z) -> tuple[Wrench, ...]:
        return tuple(map(Wrench.of, self.matrix))

    def error(self, R: Matrix, x: Vector) -> tuple[Scalar, ...]:
        return tuple(0 if any(row[:3]) else Vector(*row[3:]).dot(x) for row in self.matrix)


CONSTRAINTS: dict[str, type[Constraint]] = {
    kind.name: kind for kind in (Rigid, Pin, Slide, Screw, Sleeve, Cross, Plane, Ball,
                                 SoftFinger, Distance, Rows)}
"""By the names files use; those of joints that have one."""
