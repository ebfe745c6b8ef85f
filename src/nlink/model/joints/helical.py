"""A joint that screws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from nlink.model.joints.base import AxialJoint, Coordinates, Displacement
from nlink.scalars.functions import cos, sin
from nlink.spatial import RigidInertia, Symmetric, Turn, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Helical(AxialJoint):
    """A screw: rotation by q about an axis and translation by pitch * q along it.

    >>> import nlink
    >>> nlink.Helical((0, 0, 1), pitch=0.01).pitch
    0.01
    """

    pitch: float = 0.0

    nv: ClassVar[int] = 1
    name: ClassVar[str] = "helical"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector.zero(), (Turn("z", cos(q[0]), sin(q[0])),),
                            Vector(0, 0, q[0] * self.pitch))

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist(Vector(0, 0, qd[0]), Vector(0, 0, qd[0] * self.pitch))

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        return (f.moment.z + f.force.z * self.pitch,)

    def regroup(self, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
        """A second moment along the axis notices neither the rotation nor the translation."""
        S = inertia.S
        return (RigidInertia(inertia.m, inertia.h, replace(S, zz=0)),
                RigidInertia(0, Vector.zero(), Symmetric(0, 0, S.zz, 0, 0, 0)))
