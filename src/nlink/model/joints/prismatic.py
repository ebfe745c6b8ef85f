"""A joint that slides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlink.model.joints.base import AxialJoint, Coordinates, Displacement
from nlink.spatial import RigidInertia, Symmetric, Turn, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Prismatic(AxialJoint):
    """Translation along an axis, p_i = [0; e] of [Saha99, 15].

    >>> import nlink
    >>> nlink.Prismatic((1, 0, 0)).name
    'prismatic'
    """

    nv: ClassVar[int] = 1
    name: ClassVar[str] = "prismatic"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector.zero(), (), Vector(0, 0, q[0]))

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist(Vector.zero(), Vector(0, 0, qd[0]))

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        return (f.force.z,)

    def absorb(self, turn: Turn, rise: float) -> tuple[tuple[float, ...], Turn, float]:
        return (rise,), turn, 0

    def regroup(self, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
        """The body turns with its parent, so its whole second moment is the parent's."""
        return (RigidInertia(inertia.m, inertia.h, Symmetric.zero()),
                RigidInertia(0, Vector.zero(), inertia.S))
