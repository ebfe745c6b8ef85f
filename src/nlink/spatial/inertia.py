"""Rigid and articulated inertias about a frame's origin, on any scalar."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from nlink.scalars.functions import Scalar, divide, literal, where
from nlink.spatial.motion import Twist, Wrench
from nlink.spatial.transform import Transform
from nlink.spatial.vector import Matrix, Symmetric, Vector


@dataclass(frozen=True, slots=True)
class RigidInertia:
    """A rigid body's ten numbers: the moments of its mass about the frame's origin.

    m, first moment h = m c, second moment S = integral of r r^T (the pseudo-inertia). The
    usual tensor is J = tr(S) - S. S is the better coordinate: it shifts and turns like
    r r^T, and a body that is thin along z simply has S.zz = 0. Inertias of bodies that move
    as one add.
    """

    m: Scalar
    h: Vector
    S: Symmetric

    @classmethod
    def zero(cls) -> Self:
        return cls(0, Vector.zero(), Symmetric.zero())

    @classmethod
    def from_com(cls, mass: Scalar, com: Vector, inertia: Symmetric) -> RigidInertia:
        """From the inertia tensor about the mass centre: S_c = tr(I)/2 - I, shifted."""
        I = inertia
        S = Symmetric(
            (I.yy + I.zz - I.xx) * 0.5, (I.xx + I.zz - I.yy) * 0.5, (I.xx + I.yy - I.zz) * 0.5,
            -I.xy, -I.xz, -I.yz,
        )
        return cls(mass, Vector.zero(), S).shift(com)

    @property
    def J(self) -> Symmetric:
        """The inertia tensor about the origin."""
        S = self.S
        return Symmetric(S.yy + S.zz, S.xx + S.zz, S.xx + S.yy, -S.xy, -S.xz, -S.yz)

    def __add__(self, other: RigidInertia) -> RigidInertia:
        return RigidInertia(self.m + other.m, self.h + other.h, self.S + other.S)

    def __matmul__(self, t: Twist) -> Wrench:
        """Momentum about the origin: (J w + h x v, m v - h x w)."""
        return Wrench(
            self.J @ t.angular + self.h.cross(t.linear),
            t.linear * self.m - self.h.cross(t.angular),
        )

    def shift(self, r: Vector) -> RigidInertia:
        """About a point at -r: S' = S + r h^T + h' r^T with h' = h + m r."""
        h, k = self.h, self.h + r * self.m
        S = self.S + Symmetric(
            r.x * (h.x + k.x), r.y * (h.y + k.y), r.z * (h.z + k.z),
            r.x * h.y + k.x * r.y, r.x * h.z + k.x * r.z, r.y * h.z + k.y * r.z,
        )
        return RigidInertia(self.m, k, S)

    def to_parent(self, X: Transform) -> RigidInertia:
        """The same body in the parent's frame."""
        I = self.shift(X.r)
        return RigidInertia(I.m, X.R.to_parent(I.h), X.R.to_parent(I.S)).shift(X.p)

    def newton_euler(self, E: Matrix, a: Vector) -> Wrench:
        """The wrench that moves the body, [Saha99, 7] in Euler-tensor form.

        With E = wd~ + w~ w~ and `a` the inertial acceleration of the origin, the force is
        m a + E h, and the moment h x a plus the axial vector of E S (entries zy-yz, xz-zx,
        yx-xy), equal to J wd + w x J w.
        """
        xx, yy, zz, xy, xz, yz = self.S.components
        moment = Vector(
            E.x.z * xy - E.x.y * xz + E.y.z * yy - E.z.y * zz + (E.z.z - E.y.y) * yz,
            E.y.x * yz - E.y.z * xy + E.z.x * zz - E.x.z * xx + (E.x.x - E.z.z) * xz,
            E.z.y * xz - E.z.x * yz + E.x.y * xx - E.y.x * yy + (E.y.y - E.x.x) * xy,
        )
        return Wrench(moment + self.h.cross(a), a * self.m + E @ self.h)


@dataclass(frozen=True, slots=True)
class ArticulatedInertia:
    """The inertia a body shows when joints hang from it: [J H; H^T M], symmetric.

    moment = J w + H v, force = H^T w + M v, about the frame's origin.
    """

    J: Symmetric
    H: Matrix
    M: Symmetric

    @classmethod
    def zero(cls) -> Self:
        return cls(Symmetric.zero(), Matrix.zero(), Symmetric.zero())

    @classmethod
    def from_rigid(cls, I: RigidInertia) -> ArticulatedInertia:
        h = I.h
        H = Matrix.from_rows(((0, -h.z, h.y), (h.z, 0, -h.x), (-h.y, h.x, 0)))
        return cls(I.J, H, Symmetric.diagonal(I.m, I.m, I.m))

    def __add__(self, other: ArticulatedInertia) -> ArticulatedInertia:
        return ArticulatedInertia(self.J + other.J, self.H + other.H, self.M + other.M)

    def __matmul__(self, t: Twist) -> Wrench:
        H, w, v = self.H, t.angular, t.linear
        force = Vector(H.x.dot(w), H.y.dot(w), H.z.dot(w)) + self.M @ v
        return Wrench(self.J @ w + H @ v, force)

    def shift(self, r: Vector) -> ArticulatedInertia:
        """About a point at -r: H' = H + r~ M, J' = J - H r~ + r~ H'^T."""
        M = self.M
        rM = Matrix(*(r.cross(Vector(*row)) for row in M.rows))
        H = self.H + rM
        a, b = self.H, H
        J = self.J + Symmetric(
            r.y * (a.z.x + b.z.x) - r.z * (a.y.x + b.y.x),
            r.z * (a.x.y + b.x.y) - r.x * (a.z.y + b.z.y),
            r.x * (a.y.z + b.y.z) - r.y * (a.x.z + b.x.z),
            r.y * b.z.y - r.x * a.z.x + r.z * (a.x.x - b.y.y),
            r.x * a.y.x - r.z * b.y.z + r.y * (b.z.z - a.x.x),
            r.z * b.x.z - r.y * a.x.y + r.x * (a.y.y - b.z.z),
        )
        return ArticulatedInertia(J, H, M)

    def to_parent(self, X: Transform) -> ArticulatedInertia:
        """The same inertia in the parent's frame."""
        I = self.shift(X.r)
        R = X.R
        return ArticulatedInertia(
            R.to_parent(I.J), R.to_parent(I.H), R.to_parent(I.M)).shift(X.p)

    def to_child(self, X: Transform) -> ArticulatedInertia:
        """The inertia of the parent, in the child's frame."""
        I, R = self.shift(-X.p), X.R
        return ArticulatedInertia(
            R.to_child(I.J), R.to_child(I.H), R.to_child(I.M)).shift(-X.r)

    def with_rows(self, f: Wrench, g: Wrench) -> ArticulatedInertia:
        """Stiffened by f g^T, which is symmetric: g is f but for a factor."""
        n, l = g.moment, g.force
        H = Matrix(n * f.force.x, n * f.force.y, n * f.force.z)
        return ArticulatedInertia(self.J + _outer(f.moment, n), self.H + H,
                                  self.M + _outer(f.force, l))

    def eliminate(self, S: Twist, extra: Scalar, held: Any = None,
                  ) -> tuple[ArticulatedInertia, Pivot]:
        """What the parent feels when a joint is free along S: I - U U^T / D, [Saha99, 50].

        U = I S, D = S^T U + extra (`extra` is the armature). Along a coordinate axis and
        without armature, that row and column are zero by structure. Where the truth `held`
        holds the joint does not yield along S: 1/D is left out, and the parent feels all of I.
        """
        U = self @ S
        D = S.dot(U) + extra
        inverse = divide(1, D) if held is None else where(held, 0.0, divide(1, D))
        K = U * inverse
        n, f, k, l = U.moment, U.force, K.moment, K.force
        J = self.J - _outer(n, k)
        M = self.M - _outer(f, l)
        H = self.H - Matrix(k * f.x, k * f.y, k * f.z)
        axis = S.axis if literal(extra) == 0 and held is None else None
        if axis is None:
            return ArticulatedInertia(J, H, M), Pivot(S, None, D, inverse, K)
        return (ArticulatedInertia(J, H, M).without(axis),
                Pivot(S, axis, D, inverse, K.replace(axis, 1)))

    def without(self, axis: str) -> ArticulatedInertia:
        """Row and column of a twist's axis zero, by structure."""
        kind, c = axis.split(".")
        if kind == "angular":
            rows = {c: (0, 0, 0)}
            H = Matrix.from_rows([rows.get(r, row)
                                  for r, row in zip("xyz", self.H.rows, strict=True)])
            return ArticulatedInertia(self.J.without(c), H, self.M)
        H = replace(self.H, **{c: Vector.zero()})
        return ArticulatedInertia(self.J, H, self.M.without(c))


@dataclass(frozen=True, slots=True)
class Pivot:
    """One step of the elimination: D = m^ and K = psi = I S / D of [Saha99, 47-48].

    `axis` names the coordinate that S moves, where the elimination was exact along it.
    """

    S: Twist
    axis: str | None
    D: Scalar
    inverse: Scalar
    K: Wrench

    def eliminate(self, f: Wrench, t: Scalar = 0) -> tuple[Scalar, Wrench]:
        """Eliminate this rate from a wrench f that a body needs, with a joint force t: the
        unbalanced u = t - S . f, and what is left to the rates before it, f + K u.

        Along an exact axis nothing but t is left.
        """
        u = t - self.S.dot(f)
        left = f + self.K * u
        return u, left if self.axis is None else left.replace(self.axis, t)

    def accelerate(self, A: Twist, u: Scalar) -> tuple[Twist, Scalar]:
        """From the acceleration a body would have with this rate held: what it has, and qdd.

        qdd = u/D - K . A. Along an exact axis K is 1, and what the body has there is u/D
        less the other components.
        """
        if self.axis is None:
            qdd = u * self.inverse - A.dot(self.K)
            return A + self.S * qdd, qdd
        here = u * self.inverse - A.dot(self.K.replace(self.axis, 0))
        return A.replace(self.axis, here), here - A.component(self.axis)


def _outer(a: Vector, b: Vector) -> Symmetric:
    """a b^T, known to be symmetric."""
    return Symmetric(a.x * b.x, a.y * b.y, a.z * b.z, a.x * b.y, a.x * b.z, a.y * b.z)
