"""How articulated inertias change along a motion: Pdot and lambda-dot of [Koz95, 12-21].

Derivatives are of components in the body's own axes ("local" in the paper). With s = S qd the
twist across a joint, d/dt X^T = X^T Omega, where Omega = s x* is the cross product of a twist
with a wrench. That is the paper's Omega_delta for a revolute joint, and by the errata
[0, thd h~; 0, 0] for a prismatic one, where (4) fails; a helical joint or one of several rates
needs nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from nlink.scalars.functions import Scalar
from nlink.spatial import ArticulatedInertia, Matrix, Pivot, Symmetric, Twist, Vector, Wrench


def twist_cross_wrench(s: Twist, f: Wrench) -> Wrench:
    """Omega f = (w x n + v x f, w x f)."""
    return Wrench(s.angular.cross(f.moment) + s.linear.cross(f.force), s.angular.cross(f.force))


def twist_cross_twist(t: Twist, s: Twist) -> Twist:
    """Omega^T t = t x s, the bias acceleration a of a joint with twist s on a body with t."""
    return Twist(t.angular.cross(s.angular),
                 t.angular.cross(s.linear) + t.linear.cross(s.angular))


def driving(s: Twist, P: ArticulatedInertia) -> ArticulatedInertia:
    """Omega P + P Omega^T, what drives Pdot in (15); the commutator by the errata."""
    w, v = s.angular, s.linear
    vH, vM = _cross(v, P.H.T), _cross(v, Matrix.from_rows(P.M.rows))
    return ArticulatedInertia(
        _upper(_turning(w, Matrix.from_rows(P.J.rows)) + vH + vH.T),
        _turning(w, P.H) + vM,
        _upper(_turning(w, Matrix.from_rows(P.M.rows))))


def _cross(w: Vector, A: Matrix) -> Matrix:
    """w~ A."""
    return Matrix(w.cross(A.x), w.cross(A.y), w.cross(A.z))


def _turning(w: Vector, A: Matrix) -> Matrix:
    """w~ A + A w~^T, the rate of a tensor that turns with w; products are shared in pairs."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = A.rows
    x, y, z = w.components
    zxy, yzx, xyz = z * (xx - yy), y * (zz - xx), x * (yy - zz)
    a, b, c = z * (xy + yx), y * (xz + zx), x * (yz + zy)
    return Matrix.from_rows((
        (b - a, zxy + y * zy - x * xz, yzx + x * xy - z * yz),
        (zxy + y * yz - x * zx, a - c, xyz + z * xz - y * yx),
        (yzx + x * yx - z * zy, xyz + z * zx - y * xy, c - b)))


def _upper(A: Matrix) -> Symmetric:
    """A matrix known to be symmetric."""
    return Symmetric.from_rows(A.rows)


@dataclass(frozen=True, slots=True)
class ReleasedRate:
    """One rate of a joint eliminated along a motion: the pivot and what changes with it.

    `left` is the articulated inertia without this rate (tau-bar P), `left_dot` its rate,
    `Ud` the rate of U = P S, `Dd` that of D, and `DKd` = D Kdot, row 6 of Table 1.
    """

    pivot: Pivot
    left: ArticulatedInertia
    left_dot: ArticulatedInertia
    Ud: Wrench
    Dd: Scalar
    DKd: Wrench

    @classmethod
    def of(cls, P: ArticulatedInertia, Pd: ArticulatedInertia, S: Twist, Sd: Twist,
           extra: Scalar) -> ReleasedRate:
        """Differentiate the elimination I - U U^T / D.

        Its rate is Pdot - K x^T - x K^T with x = Udot - K Ddot / 2, which is
        tau-bar Pdot tau-bar^T of (13) where S is constant in the body (Sd = 0).
        """
        left, pivot = P.eliminate(S, extra)
        Ud = Pd @ S + P @ Sd
        Dd = S.dot(Ud) + Sd.dot(P @ S)
        return cls(pivot, left, _without(Pd, pivot, Ud - pivot.K * (Dd * 0.5)), Ud, Dd,
                   Ud - pivot.K * Dd)


def _without(Pd: ArticulatedInertia, pivot: Pivot, x: Wrench) -> ArticulatedInertia:
    """Pd - K x^T - x K^T; along an exact axis, row and column are zero by structure."""
    k, l, n, f = pivot.K.moment, pivot.K.force, x.moment, x.force
    J = Pd.J - _pair(k, n)
    M = Pd.M - _pair(l, f)
    H = Pd.H - Matrix(k * f.x + n * l.x, k * f.y + n * l.y, k * f.z + n * l.z)
    rest = ArticulatedInertia(J, H, M)
    return rest if pivot.axis is None else rest.without(pivot.axis)


def _pair(a: Vector, b: Vector) -> Symmetric:
    """a b^T + b a^T."""
    xx, yy, zz = a.x * b.x, a.y * b.y, a.z * b.z
    return Symmetric(xx + xx, yy + yy, zz + zz, a.x * b.y + b.x * a.y, a.x * b.z + b.x * a.z,
                     a.y * b.z + b.y * a.z)
