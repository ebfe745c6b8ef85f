"""A joint that turns: the hinge."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from nlink.model.joints.base import AxialJoint, Coordinates, Displacement
from nlink.model.spaces import Lines, Space
from nlink.scalars.functions import cos, sin
from nlink.spatial import RigidInertia, Symmetric, Turn, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Revolute(AxialJoint):
    """Rotation about an axis, p_i = [e; e x d] of [Saha99, 13].

    >>> import nlink
    >>> nlink.Revolute((0, 1, 0)).name
    'revolute'
    """

    space: ClassVar[Space] = Lines(1, reach=math.pi)
    name: ClassVar[str] = "revolute"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector.zero(), (Turn("z", cos(q[0]), sin(q[0])),), Vector.zero())

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist(Vector(0, 0, qd[0]), Vector.zero())

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        return (f.moment.z,)

    def absorb(self, turn: Turn, rise: float) -> tuple[tuple[float, ...], Turn, float]:
        """Quarter turns only permute (cos, sin); others are cheapest added to the angle."""
        if turn.c == 0 or turn.s == 0:
            return (0,), turn, rise
        return (math.atan2(turn.s, turn.c),), Turn("z", 1, 0), rise

    def regroup(self, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
        """A part that is symmetric about the axis does not notice the rotation.

        That is its mass, its first moment along z, and its second moment along z: S.zz is the
        transverse moment Jxx = Jyy of a thin rod on the axis. Seven numbers stay.
        """
        I, S = inertia, inertia.S
        return (RigidInertia(0, Vector(I.h.x, I.h.y, 0), replace(S, zz=0)),
                RigidInertia(I.m, Vector(0, 0, I.h.z), Symmetric(0, 0, S.zz, 0, 0, 0)))
