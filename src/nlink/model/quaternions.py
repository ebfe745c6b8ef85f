"""Unit quaternions (w, x, y, z) as rotations, on any scalar.

A rotation vector or a twist is in the body's axes, so that a step multiplies from the right:
q exp(r). Quotients of small numbers need no series here: `length` is never zero, and every
quotient that cancels near zero multiplies something that is as small.
"""

from __future__ import annotations

from typing import TypeAlias

from nlink.scalars.functions import Scalar, atan2, cos, divide, sign, sin, sqrt
from nlink.spatial import Matrix, Vector

Quaternion: TypeAlias = tuple[Scalar, ...]

TINY = 1e-300
"""Added to a square of which the root divides: lost in rounding wherever the square matters."""


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


def quaternion_rate(q: Quaternion, w: Vector) -> Quaternion:
    """The rate of a quaternion for an angular velocity in the body's axes: 1/2 q (0, w)."""
    a, x, y, z = q
    return (
        (-(x * w.x) - y * w.y - z * w.z) * 0.5,
        (a * w.x + y * w.z - z * w.y) * 0.5,
        (a * w.y + z * w.x - x * w.z) * 0.5,
        (a * w.z + x * w.y - y * w.x) * 0.5,
    )


def normalized(q: Quaternion) -> Quaternion:
    """A point of the same direction on the unit sphere, of any dimension; nan for zero."""
    size = sqrt(sum((x * x for x in q[1:]), q[0] * q[0]))
    return tuple(divide(x, size) for x in q)


def product(p: Quaternion, q: Quaternion) -> Quaternion:
    """p q: the rotation q, then p."""
    (a, *u), (b, *v) = p, q
    u, v = Vector(*u), Vector(*v)
    return (a * b - u.dot(v), *(v * a + u * b + u.cross(v)).components)


def conjugate(q: Quaternion) -> Quaternion:
    """The inverse of a unit quaternion."""
    return (q[0], -q[1], -q[2], -q[3])


def exp(r: Vector) -> Quaternion:
    """The unit quaternion of a rotation vector: (cos |r|/2, sin(|r|/2) r/|r|)."""
    a = length(r)
    return (cos(a * 0.5), *(r * (sin(a * 0.5) / a)).components)


def log(q: Quaternion) -> Vector:
    """The shortest rotation vector of a unit quaternion."""
    side = sign(sign(q[0]) + 0.5)  # q and -q are one rotation: 1 where w >= 0, else -1
    v = Vector(*q[1:])
    s = length(v)
    return v * (side * 2 * angle(q[0] * side, s) / s)


def screw_shift(r: Vector, v: Vector) -> Vector:
    """Where the origin goes in a unit of time with angular velocity r and velocity v."""
    a = length(r)
    half = sin(a * 0.5) / a  # half sin(a/2) / (a/2)
    rv = r.cross(v)
    return v + rv * (2 * half * half) + r.cross(rv) * ((1 - sin(a) / a) / (a * a))


def screw_velocity(r: Vector, p: Vector) -> Vector:
    """The velocity that leads to p in a unit of time with angular velocity r."""
    a = length(r)
    rp = r.cross(p)
    rest = (1 - 0.5 * a * cos(a * 0.5) / sin(a * 0.5)) / (a * a)
    return p - rp * 0.5 + r.cross(rp) * rest


def length(v: Vector) -> Scalar:
    """|v|, and not zero for a zero vector."""
    return sqrt(v.dot(v) + TINY)


def angle(x: Scalar, y: Scalar) -> Scalar:
    """The angle of the point (x, y) in (-pi, pi]."""
    return atan2(y, x)
