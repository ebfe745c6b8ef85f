"""Joint types: how one body may move on another.

A joint type is one class behind a contract of a few short methods (`JointType`), written
on any scalar, so that every algorithm, engine and derivative works with it at once. See
docs/adding-a-joint.md for a worked example.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from nlink.scalars.functions import Scalar, cos, sin
from nlink.spatial import RigidInertia, Spin, Symmetric, Turn, Twist, Vector, Wrench

Coordinates = tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Displacement:
    """Where a joint has moved its body: offset p in the joint's fixed axes, turns, rise r in
    the moved axes."""

    p: Vector
    turns: tuple[Turn | Spin, ...]
    r: Vector


class JointType(ABC):
    """The contract of a joint type.

    1. `nq` coordinates and `nv` rates; they may differ (a quaternion has 4 and 3).
    2. The joint acts on frames whose z axis is the joint's axis; `axis` is its direction in
       the user's joint frame, or None if the type has no axis (it then acts in the user's
       own axes). The model turns the frames, a type never sees any other axis than z.
    3. `displacement(q)`: the moved frame in the fixed one.
    4. `rate(q, qd)`: the body's twist relative to its parent, S(q) qd, in the moved axes.
    5. `rate_change(q, qd, u, ud)`: the derivative of the components of S u along a motion with
       rates qd, S ud + Sdot u. With u = qd it is the body's relative acceleration.
    6. `project(q, f)`: S(q)^T f for a wrench f in the moved axes, one number a rate.
    7. `regroup(inertia)`: (kept, moved) with kept + moved = inertia, where `moved` is the part
       whose motion does not depend on this joint's coordinates; it is added to the parent
       before run time. The default moves nothing.

    8. `velocity(q, qd)`: the rates of the coordinates themselves; qd unless nq != nv.
    9. `integrate(q, v)` and `difference(q0, q1)`: where rates v lead in a unit of time, and the
       v that leads from q0 to q1; over the last axis of NumPy arrays. Vector spaces need none.
    10. `absorb(turn, rise)`: (zero, turn, rise), a constant turn about z and rise along z after
       the motion, taken into the coordinates' zero as far as that saves work. The default
       takes nothing. Called once, with numbers.

    Steps 3 to 8 use + - * / sin cos sqrt and literal zeros and ones, and no branches on values.
    """

    nq: ClassVar[int]
    nv: ClassVar[int]
    name: ClassVar[str]
    axis: tuple[float, float, float] | None = None

    @abstractmethod
    def displacement(self, q: Coordinates) -> Displacement: ...

    @abstractmethod
    def rate(self, q: Coordinates, qd: Coordinates) -> Twist: ...

    @abstractmethod
    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist: ...

    @abstractmethod
    def project(self, q: Coordinates, f: Wrench) -> Coordinates: ...

    def regroup(self, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
        return inertia, RigidInertia.zero()

    def absorb(self, turn: Turn, rise: float) -> tuple[tuple[float, ...], Turn, float]:
        return (0,) * self.nq, turn, rise

    def velocity(self, q: Coordinates, qd: Coordinates) -> Coordinates:
        return qd

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return q + v

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        return q1 - q0

    @property
    def neutral(self) -> tuple[float, ...]:
        """A valid configuration; zeros unless the manifold has no zero."""
        return (0.0,) * self.nq


def unit_axis(axis: Sequence[float]) -> tuple[float, float, float]:
    """The direction of an axis given with any length; exact for coordinate axes, idempotent."""
    x, y, z = (float(c) for c in axis)
    norm = math.sqrt(x * x + y * y + z * z)
    if not (math.isfinite(norm) and norm > 0):
        raise ValueError(f"axis: {tuple(axis)} has no direction, expected a finite non-zero vector")
    if abs(norm - 1) <= 4e-16:  # a unit vector to rounding is one: a second reading is the same
        return x, y, z
    return x / norm, y / norm, z / norm


@dataclass(frozen=True, slots=True)
class AxialJoint(JointType):
    """What joints with one axis share: one coordinate along it, about it, or both."""

    axis: tuple[float, float, float] | None = (0.0, 0.0, 1.0)

    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis or (0.0, 0.0, 1.0)))

    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist:
        return self.rate(q, ud)  # S is constant in the moved axes


@dataclass(frozen=True, slots=True)
class Revolute(AxialJoint):
    """Rotation about an axis, p_i = [e; e x d] of [Saha99, 13]."""

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


@dataclass(frozen=True, slots=True)
class Prismatic(AxialJoint):
    """Translation along an axis, p_i = [0; e] of [Saha99, 15]."""

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


@dataclass(frozen=True, slots=True)
class Fixed(JointType):
    """No motion: the two bodies become one before any algorithm sees them."""

    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0
    name: ClassVar[str] = "fixed"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector.zero(), (), Vector.zero())

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist.zero()

    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist:
        return Twist.zero()

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        return ()
