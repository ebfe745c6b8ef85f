"""Twists and wrenches: six numbers each, and never added to one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from nlink.scalars.functions import Scalar, literal
from nlink.spatial.vector import Vector

AXES = ("angular.x", "angular.y", "angular.z", "linear.x", "linear.y", "linear.z")
"""The components of a twist by name; a wrench's are dual to them, in the same order."""


@dataclass(frozen=True, slots=True)
class Twist:
    """A motion: angular part, and linear part of the frame's origin.

    Also its rate, in the sense each algorithm states (inertial or local derivative).
    """

    angular: Vector
    linear: Vector

    @classmethod
    def of(cls, components: Sequence[Scalar]) -> Self:
        """From six components."""
        return cls(Vector(*components[:3]), Vector(*components[3:]))

    @classmethod
    def zero(cls) -> Self:
        return cls(Vector.zero(), Vector.zero())

    @property
    def components(self) -> tuple[Scalar, ...]:
        return *self.angular.components, *self.linear.components

    def __add__(self, other: Twist) -> Twist:
        if not isinstance(other, Twist):
            return NotImplemented
        return Twist(self.angular + other.angular, self.linear + other.linear)

    def __sub__(self, other: Twist) -> Twist:
        if not isinstance(other, Twist):
            return NotImplemented
        return Twist(self.angular - other.angular, self.linear - other.linear)

    def __mul__(self, factor: Scalar) -> Twist:
        return Twist(self.angular * factor, self.linear * factor)

    @property
    def axis(self) -> str | None:
        """"angular.x" ... "linear.z" if this is the unit along it by structure, else None."""
        return _axis(self.components)

    def component(self, axis: str) -> Scalar:
        return self.components[AXES.index(axis)]

    def replace(self, axis: str, value: Scalar) -> Twist:
        """The same but for one component."""
        parts = [value if name == axis else x
                 for name, x in zip(AXES, self.components, strict=True)]
        return Twist.of(parts)

    def dot(self, wrench: Wrench) -> Scalar:
        """Power: moment on rotation plus force on translation."""
        return self.angular.dot(wrench.moment) + self.linear.dot(wrench.force)


@dataclass(frozen=True, slots=True)
class Wrench:
    """A force system: moment about the frame's origin, and force."""

    moment: Vector
    force: Vector

    @classmethod
    def of(cls, components: Sequence[Scalar]) -> Self:
        """From six components."""
        return cls(Vector(*components[:3]), Vector(*components[3:]))

    @classmethod
    def zero(cls) -> Self:
        return cls(Vector.zero(), Vector.zero())

    @property
    def components(self) -> tuple[Scalar, ...]:
        return *self.moment.components, *self.force.components

    def __add__(self, other: Wrench) -> Wrench:
        if not isinstance(other, Wrench):
            return NotImplemented
        return Wrench(self.moment + other.moment, self.force + other.force)

    def __sub__(self, other: Wrench) -> Wrench:
        if not isinstance(other, Wrench):
            return NotImplemented
        return Wrench(self.moment - other.moment, self.force - other.force)

    def __mul__(self, factor: Scalar) -> Wrench:
        return Wrench(self.moment * factor, self.force * factor)

    @property
    def axis(self) -> str | None:
        """The twist's axis whose dual this is the unit of, by structure, else None."""
        return _axis(self.components)

    def replace(self, axis: str, value: Scalar) -> Wrench:
        """The same but for the component dual to a twist's axis."""
        parts = [value if name == axis else x
                 for name, x in zip(AXES, self.components, strict=True)]
        return Wrench.of(parts)

    def shift(self, r: Vector) -> Wrench:
        """The same force system about a point at -r: the origin was at r from there."""
        return Wrench(self.moment + r.cross(self.force), self.force)


def _axis(components: Sequence[Scalar]) -> str | None:
    """The name of the only component that is not zero, if it is one."""
    values = [literal(x) for x in components]
    if values.count(0) == 5 and values.count(1) == 1:
        return AXES[values.index(1)]
    return None
