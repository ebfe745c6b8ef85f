"""A joint that holds nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlink.model.joints.base import Coordinates, Displacement, JointType
from nlink.model.quaternions import quaternion_matrix
from nlink.model.spaces import Placements, Space
from nlink.spatial import Spin, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Free(JointType):
    """No constraint, the joint of a mobile base [RK88, Appendix B].

    q is the position in the fixed axes, then a unit quaternion (w, x, y, z); the rates are the
    body's twist in its own axes, angular first.

    >>> import nlink
    >>> nlink.Free().nq, nlink.Free().nv
    (7, 6)
    """

    space: ClassVar[Space] = Placements()
    name: ClassVar[str] = "free"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector(*q[:3]), (Spin(quaternion_matrix(*q[3:])),), Vector.zero())

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist.of(qd)

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        return f.components
