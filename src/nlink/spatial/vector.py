"""Three-dimensional vectors and tensors, written out component by component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from nlink.scalars.functions import Scalar, literal


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector (x, y, z) in the axes of some frame."""

    x: Scalar
    y: Scalar
    z: Scalar

    @classmethod
    def zero(cls) -> Self:
        return cls(0, 0, 0)

    @property
    def components(self) -> tuple[Scalar, Scalar, Scalar]:
        return self.x, self.y, self.z

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vector) -> Vector:
        return Vector(self.x - other.x, self.y - other.y, self.z - other.z)

    def __neg__(self) -> Vector:
        return Vector(-self.x, -self.y, -self.z)

    def __mul__(self, factor: Scalar) -> Vector:
        return Vector(self.x * factor, self.y * factor, self.z * factor)

    def dot(self, other: Vector) -> Scalar:
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vector) -> Vector:
        return Vector(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )

    def rotate_x(self, c: Scalar, s: Scalar) -> Vector:
        """Rx v, the vector turned by the angle of (c, s) about x."""
        return Vector(self.x, c * self.y - s * self.z, s * self.y + c * self.z)

    def rotate_z(self, c: Scalar, s: Scalar) -> Vector:
        """Rz v."""
        return Vector(c * self.x - s * self.y, s * self.x + c * self.y, self.z)

    def rotate(self, R: Matrix) -> Vector:
        """R v."""
        return R @ self


@dataclass(frozen=True, slots=True)
class Matrix:
    """A general 3x3 tensor, given by its columns."""

    x: Vector
    y: Vector
    z: Vector

    @classmethod
    def zero(cls) -> Self:
        return cls(Vector.zero(), Vector.zero(), Vector.zero())

    @classmethod
    def identity(cls) -> Self:
        return cls(Vector(1, 0, 0), Vector(0, 1, 0), Vector(0, 0, 1))

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Scalar]]) -> Self:
        (a, b, c), (d, e, f), (g, h, i) = rows
        return cls(Vector(a, d, g), Vector(b, e, h), Vector(c, f, i))

    @property
    def rows(self) -> tuple[tuple[Scalar, ...], ...]:
        return tuple(zip(self.x.components, self.y.components, self.z.components, strict=True))

    @property
    def T(self) -> Matrix:
        return Matrix(*(Vector(*row) for row in self.rows))

    def __add__(self, other: Matrix) -> Matrix:
        return Matrix(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Matrix) -> Matrix:
        return Matrix(self.x - other.x, self.y - other.y, self.z - other.z)

    def __matmul__(self, v: Vector) -> Vector:
        return self.x * v.x + self.y * v.y + self.z * v.z

    def rotate_x(self, c: Scalar, s: Scalar) -> Matrix:
        """Rx H Rx^T."""
        top = Vector(self.x.x, self.y.x, self.z.x).rotate_x(c, s)
        left = self.x.rotate_x(c, s)
        yy, zz, yz, zy = _turn_block(self.y.y, self.z.z, self.z.y, self.y.z, c, s)
        return Matrix(Vector(top.x, left.y, left.z), Vector(top.y, yy, zy), Vector(top.z, yz, zz))

    def rotate_z(self, c: Scalar, s: Scalar) -> Matrix:
        """Rz H Rz^T."""
        bottom = Vector(self.x.z, self.y.z, self.z.z).rotate_z(c, s)
        right = self.z.rotate_z(c, s)
        xx, yy, xy, yx = _turn_block(self.x.x, self.y.y, self.y.x, self.x.y, c, s)
        return Matrix(
            Vector(xx, yx, bottom.x), Vector(xy, yy, bottom.y), Vector(right.x, right.y, bottom.z))

    def rotate(self, R: Matrix) -> Matrix:
        """R H R^T: the columns of R H, then its rows turned in the same way."""
        turned = Matrix(R @ self.x, R @ self.y, R @ self.z)
        return Matrix(*(R @ Vector(*row) for row in turned.rows)).T


@dataclass(frozen=True, slots=True)
class Symmetric:
    """A symmetric 3x3 tensor: six numbers."""

    xx: Scalar
    yy: Scalar
    zz: Scalar
    xy: Scalar
    xz: Scalar
    yz: Scalar

    @classmethod
    def zero(cls) -> Self:
        return cls(0, 0, 0, 0, 0, 0)

    @classmethod
    def diagonal(cls, xx: Scalar, yy: Scalar, zz: Scalar) -> Self:
        return cls(xx, yy, zz, 0, 0, 0)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Scalar]]) -> Self:
        """From a 3x3 table, of which the upper triangle is read."""
        return cls(rows[0][0], rows[1][1], rows[2][2], rows[0][1], rows[0][2], rows[1][2])

    @property
    def rows(self) -> tuple[tuple[Scalar, ...], ...]:
        return (
            (self.xx, self.xy, self.xz),
            (self.xy, self.yy, self.yz),
            (self.xz, self.yz, self.zz),
        )

    @property
    def components(self) -> tuple[Scalar, ...]:
        return self.xx, self.yy, self.zz, self.xy, self.xz, self.yz

    @property
    def trace(self) -> Scalar:
        return self.xx + self.yy + self.zz

    def without(self, axis: str) -> Symmetric:
        """Row and column of an axis zero."""
        return Symmetric(*(0 if axis in name else x for name, x in zip(
            ("xx", "yy", "zz", "xy", "xz", "yz"), self.components, strict=True)))

    def __add__(self, other: Symmetric) -> Symmetric:
        return Symmetric(*(a + b for a, b in zip(self.components, other.components, strict=True)))

    def __sub__(self, other: Symmetric) -> Symmetric:
        return Symmetric(*(a - b for a, b in zip(self.components, other.components, strict=True)))

    def __matmul__(self, v: Vector) -> Vector:
        return Vector(
            self.xx * v.x + self.xy * v.y + self.xz * v.z,
            self.xy * v.x + self.yy * v.y + self.yz * v.z,
            self.xz * v.x + self.yz * v.y + self.zz * v.z,
        )

    def rotate_x(self, c: Scalar, s: Scalar) -> Symmetric:
        """Rx J Rx^T in 8 M 7 A (and 2c)."""
        yy, zz, yz, _ = _turn_block(self.yy, self.zz, self.yz, self.yz, c, s)
        xy, xz = c * self.xy - s * self.xz, s * self.xy + c * self.xz
        return Symmetric(self.xx, yy, zz, xy, xz, yz)

    def rotate_z(self, c: Scalar, s: Scalar) -> Symmetric:
        """Rz J Rz^T in 8 M 7 A (and 2c)."""
        xx, yy, xy, _ = _turn_block(self.xx, self.yy, self.xy, self.xy, c, s)
        xz, yz = c * self.xz - s * self.yz, s * self.xz + c * self.yz
        return Symmetric(xx, yy, self.zz, xy, xz, yz)

    def rotate(self, R: Matrix) -> Symmetric:
        """R J R^T, of which six entries are made."""
        a, b, c = (self @ Vector(*row) for row in R.rows)
        x, y, z = (Vector(*row) for row in R.rows)
        return Symmetric(x.dot(a), y.dot(b), z.dot(c), x.dot(b), x.dot(c), y.dot(c))


def _turn_block(xx: Scalar, yy: Scalar, xy: Scalar, yx: Scalar, c: Scalar, s: Scalar,
                ) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """(xx, yy, xy, yx) of R [xx xy; yx yy] R^T, the four entries sharing k.

    A quarter turn is a permutation: written out, its zeros and ones fold.
    """
    if literal(s * c) == 0:
        cc, ss = c * c, s * s
        return cc * xx + ss * yy, ss * xx + cc * yy, cc * xy - ss * yx, cc * yx - ss * xy
    k = s * (xx - yy) + ((c + c) * xy if xy is yx else c * (xy + yx))
    return xx - s * k, yy + s * k, c * k - yx, c * k - xy


def euler_tensor(w: Vector, wd: Vector) -> Matrix:
    """E = wd~ + w~ w~, so that E r is the acceleration of the point r relative to the origin.

    Six products w_i w_j serve all nine entries, and E then serves every term of the form
    wd x r + w x (w x r) of the body.
    """
    xx, yy, zz = w.x * w.x, w.y * w.y, w.z * w.z
    xy, xz, yz = w.x * w.y, w.x * w.z, w.y * w.z
    return Matrix(
        Vector(-(yy + zz), xy + wd.z, xz - wd.y),
        Vector(xy - wd.z, -(xx + zz), yz + wd.x),
        Vector(xz + wd.y, yz - wd.x, -(xx + yy)),
    )
