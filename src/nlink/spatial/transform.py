"""Rotations as planar steps, and transforms from a body to its parent.

A rotation is a product of turns about x and z. Each turn acts on a vector in 4 M 2 A and
on a symmetric tensor in 8 M 7 A, less than a 3x3 matrix does, and a turn by a constant
quarter costs nothing once zeros and ones fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from nlink.scalars.functions import Scalar
from nlink.spatial.motion import Twist, Wrench
from nlink.spatial.vector import Matrix, Vector


class Rotatable(Protocol):
    """What a turn acts on: vectors and tensors."""

    def rotate_x(self, c: Scalar, s: Scalar) -> Self: ...
    def rotate_z(self, c: Scalar, s: Scalar) -> Self: ...
    def rotate(self, R: Matrix) -> Self: ...


T = TypeVar("T", bound=Rotatable)


@dataclass(frozen=True, slots=True)
class Turn:
    """A rotation about one coordinate axis, "x" or "z", by the angle with (cos, sin) = (c, s)."""

    axis: str
    c: Scalar
    s: Scalar

    def to_parent(self, thing: T) -> T:
        rotate = thing.rotate_z if self.axis == "z" else thing.rotate_x
        return rotate(self.c, self.s)

    def to_child(self, thing: T) -> T:
        return Turn(self.axis, self.c, -self.s).to_parent(thing)

    def __matmul__(self, other: Turn) -> Turn:
        """Two turns about one axis in a row."""
        c, s = self.c * other.c - self.s * other.s, self.s * other.c + self.c * other.s
        return Turn(self.axis, c, s)


@dataclass(frozen=True, slots=True)
class Spin:
    """A rotation given by its matrix."""

    R: Matrix

    def to_parent(self, thing: T) -> T:
        return thing.rotate(self.R)

    def to_child(self, thing: T) -> T:
        return thing.rotate(self.R.T)


@dataclass(frozen=True, slots=True)
class Rotation:
    """R = turns[0] turns[1] ..., taking components in the child's axes to the parent's."""

    turns: tuple[Turn | Spin, ...]

    def to_parent(self, thing: T) -> T:
        for turn in reversed(self.turns):
            thing = turn.to_parent(thing)
        return thing

    def to_child(self, thing: T) -> T:
        for turn in self.turns:
            thing = turn.to_child(thing)
        return thing

    def matrix(self) -> Matrix:
        """R, column by column."""
        one = Matrix.identity()
        return Matrix(*(self.to_parent(v) for v in (one.x, one.y, one.z)))


@dataclass(frozen=True, slots=True)
class Transform:
    """Where a child frame is in its parent: x_parent = p + R (r + x_child).

    The offset p is in the parent's axes, the rise r in the child's: a shift along the
    joint's own axis is cheapest after the rotation, all others before it.
    """

    p: Vector
    R: Rotation
    r: Vector

    def point(self, x: Vector) -> Vector:
        """A point of the child, in the parent."""
        return self.p + self.R.to_parent(self.r + x)

    def twist_to_child(self, t: Twist) -> Twist:
        """The twist of the child's origin and axes, were it fixed in the parent."""
        w = self.R.to_child(t.angular)
        return Twist(w, self.R.to_child(t.linear + t.angular.cross(self.p)) + w.cross(self.r))

    def twist_to_parent(self, t: Twist) -> Twist:
        """The twist of the parent's origin and axes, were it fixed in the child."""
        w = self.R.to_parent(t.angular)
        v = self.R.to_parent(t.linear - t.angular.cross(self.r))
        return Twist(w, v - w.cross(self.p))

    def wrench_to_child(self, f: Wrench) -> Wrench:
        """The force system of the parent about the child's origin, in its axes."""
        f = f.shift(-self.p)
        return Wrench(self.R.to_child(f.moment), self.R.to_child(f.force)).shift(-self.r)

    def wrench_to_parent(self, f: Wrench) -> Wrench:
        """The same force system about the parent's origin, in its axes: B^T of [Saha99, 13]."""
        f = f.shift(self.r)
        return Wrench(self.R.to_parent(f.moment), self.R.to_parent(f.force)).shift(self.p)
