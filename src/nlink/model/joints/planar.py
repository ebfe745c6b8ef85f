"""A joint that moves in a plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlink.model.joints.base import Coordinates, Displacement, JointType
from nlink.model.spaces import Lines, Space
from nlink.scalars.functions import cos, sin
from nlink.spatial import Turn, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Planar(JointType):
    """Motion in the plane across z: q = (x, y, theta), the position in the fixed axes.

    >>> import nlink
    >>> nlink.Planar().nq, nlink.Planar().nv
    (3, 3)
    """

    space: ClassVar[Space] = Lines(3, given_labels=("x", "y", "theta"))
    name: ClassVar[str] = "planar"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector(q[0], q[1], 0), (Turn("z", cos(q[2]), sin(q[2])),),
                            Vector.zero())

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        velocity = Vector(qd[0], qd[1], 0).rotate_z(cos(q[2]), -sin(q[2]))
        return Twist(Vector(0, 0, qd[2]), velocity)

    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist:
        """Components change as their axes turn: d/dt (R^T v) = R^T vd - w x R^T v."""
        change = self.rate(q, ud)
        turning = Vector(0, 0, qd[2]).cross(self.rate(q, u).linear)
        return Twist(change.angular, change.linear - turning)

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        force = f.force.rotate_z(cos(q[2]), sin(q[2]))
        return (force.x, force.y, f.moment.z)
