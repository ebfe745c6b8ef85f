"""A joint that turns about a point: the ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlink.model.joints.base import Coordinates, Displacement, JointType
from nlink.model.quaternions import quaternion_matrix
from nlink.model.spaces import Rotations, Space
from nlink.spatial import RigidInertia, Spin, Symmetric, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Spherical(JointType):
    """A ball: q is a unit quaternion (w, x, y, z), the rates are w in the body's axes.

    >>> import nlink
    >>> nlink.Spherical().nq, nlink.Spherical().nv
    (4, 3)
    """

    space: ClassVar[Space] = Rotations()
    name: ClassVar[str] = "spherical"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector.zero(), (Spin(quaternion_matrix(*q)),), Vector.zero())

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist(Vector(*qd), Vector.zero())

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        return f.moment.components

    def regroup(self, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
        """The centre of the ball is the parent's point: a mass there is the parent's."""
        return (RigidInertia(0, inertia.h, inertia.S),
                RigidInertia(inertia.m, Vector.zero(), Symmetric.zero()))
