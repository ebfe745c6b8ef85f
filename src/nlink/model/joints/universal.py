"""A joint of two crossing axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlink.model.joints.base import Coordinates, Displacement, JointType
from nlink.scalars.functions import cos, sin
from nlink.spatial import Turn, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Universal(JointType):
    """Two crossing axes: rotation by q1 about z, then by q2 about the turned x.

    >>> import nlink
    >>> nlink.Universal().nq, nlink.Universal().nv
    (2, 2)
    """

    nv: ClassVar[int] = 2
    name: ClassVar[str] = "universal"

    def displacement(self, q: Coordinates) -> Displacement:
        turns = (Turn("z", cos(q[0]), sin(q[0])), Turn("x", cos(q[1]), sin(q[1])))
        return Displacement(Vector.zero(), turns, Vector.zero())

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist(Vector(qd[1], sin(q[1]) * qd[0], cos(q[1]) * qd[0]), Vector.zero())

    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist:
        c, s, product = cos(q[1]), sin(q[1]), u[0] * qd[1]
        angular = Vector(ud[1], s * ud[0] + c * product, c * ud[0] - s * product)
        return Twist(angular, Vector.zero())

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        n = f.moment
        return (sin(q[1]) * n.y + cos(q[1]) * n.z, n.x)
