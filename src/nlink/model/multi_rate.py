"""Joint types beyond the hinge and the slide: helical, universal, planar, spherical, free.

Orientations are unit quaternions, scalar first. They are divided by their length where they
are used, so a quaternion that has drifted still gives a rotation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from nlink.model import manifold
from nlink.model.joints import AxialJoint, Coordinates, Displacement, JointType
from nlink.scalars.functions import Scalar, cos, sin
from nlink.spatial import Matrix, RigidInertia, Spin, Symmetric, Turn, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Helical(AxialJoint):
    """A screw: rotation by q about an axis and translation by pitch * q along it."""

    pitch: float = 0.0

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


@dataclass(frozen=True, slots=True)
class Universal(JointType):
    """Two crossing axes: rotation by q1 about z, then by q2 about the turned x."""

    nq: ClassVar[int] = 2
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


@dataclass(frozen=True, slots=True)
class Planar(JointType):
    """Motion in the plane across z: q = (x, y, theta), the position in the fixed axes."""

    nq: ClassVar[int] = 3
    nv: ClassVar[int] = 3
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


def quaternion_matrix(w: Scalar, x: Scalar, y: Scalar, z: Scalar) -> Matrix:
    """The rotation of a quaternion of any length but zero."""
    s = 2 / (w * w + x * x + y * y + z * z)
    sx, sy, sz = s * x, s * y, s * z
    wx, wy, wz = w * sx, w * sy, w * sz
    xx, xy, xz = x * sx, x * sy, x * sz
    yy, yz, zz = y * sy, y * sz, z * sz
    return Matrix(
        Vector(1 - (yy + zz), xy + wz, xz - wy),
        Vector(xy - wz, 1 - (xx + zz), yz + wx),
        Vector(xz + wy, yz - wx, 1 - (xx + yy)),
    )


def quaternion_rate(q: Coordinates, w: Vector) -> Coordinates:
    """The rate of a quaternion for an angular velocity in the body's axes: 1/2 q (0, w)."""
    a, x, y, z = q
    return (
        (-(x * w.x) - y * w.y - z * w.z) * 0.5,
        (a * w.x + y * w.z - z * w.y) * 0.5,
        (a * w.y + z * w.x - x * w.z) * 0.5,
        (a * w.z + x * w.y - y * w.x) * 0.5,
    )


@dataclass(frozen=True, slots=True)
class Spherical(JointType):
    """A ball: q is a unit quaternion (w, x, y, z), the rates are w in the body's axes."""

    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3
    name: ClassVar[str] = "spherical"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector.zero(), (Spin(quaternion_matrix(*q)),), Vector.zero())

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist(Vector(*qd), Vector.zero())

    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist:
        return self.rate(q, ud)

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        return f.moment.components

    def velocity(self, q: Coordinates, qd: Coordinates) -> Coordinates:
        return quaternion_rate(q, Vector(*qd))

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return manifold.normalized(manifold.quaternion_product(q, manifold.quaternion_exp(v)))

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        return manifold.quaternion_log(manifold.normalized(
            manifold.quaternion_product(manifold.conjugate(q0), q1)))

    def regroup(self, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
        """The centre of the ball is the parent's point: a mass there is the parent's."""
        return (RigidInertia(0, inertia.h, inertia.S),
                RigidInertia(inertia.m, Vector.zero(), Symmetric.zero()))

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Free(JointType):
    """No constraint, the joint of a mobile base [RK88, Appendix B].

    q is the position in the fixed axes, then a unit quaternion (w, x, y, z); the rates are the
    body's twist in its own axes, angular first.
    """

    nq: ClassVar[int] = 7
    nv: ClassVar[int] = 6
    name: ClassVar[str] = "free"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector(*q[:3]), (Spin(quaternion_matrix(*q[3:])),), Vector.zero())

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist.of(qd)

    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist:
        return self.rate(q, ud)

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        return f.components

    def velocity(self, q: Coordinates, qd: Coordinates) -> Coordinates:
        position = quaternion_matrix(*q[3:]) @ Vector(*qd[3:])
        return (*position.components, *quaternion_rate(q[3:], Vector(*qd[:3])))

    def integrate(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The screw motion with constant twist v, as of SE(3)."""
        attitude = manifold.normalized(q[..., 3:])
        shift = manifold.screw_shift(v[..., :3], v[..., 3:])
        turned = manifold.quaternion_product(attitude, manifold.quaternion_exp(v[..., :3]))
        return np.concatenate([q[..., :3] + manifold.rotate(attitude, shift),
                               manifold.normalized(turned)], axis=-1)

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        back = manifold.conjugate(manifold.normalized(q0[..., 3:]))
        r = manifold.quaternion_log(manifold.normalized(
            manifold.quaternion_product(back, q1[..., 3:])))
        p = manifold.rotate(back, q1[..., :3] - q0[..., :3])
        return np.concatenate([r, manifold.screw_velocity(r, p)], axis=-1)

    @property
    def neutral(self) -> tuple[float, ...]:
        return (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
