"""Mobility: how a body yields to a wrench, the dual of an inertia, on any scalar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from nlink.scalars.functions import Scalar
from nlink.spatial.inertia import ArticulatedInertia, Pivot
from nlink.spatial.motion import AXES, Twist, Wrench
from nlink.spatial.transform import Transform
from nlink.spatial.vector import Matrix, Symmetric, Vector


@dataclass(frozen=True, slots=True)
class SpatialMobility:
    """The acceleration a wrench at the frame's origin causes, a symmetric 6x6 form.

    angular = A n + C^T f, linear = C n + B f for a moment n and a force f.
    """

    A: Symmetric
    C: Matrix
    B: Symmetric

    @classmethod
    def zero(cls) -> Self:
        return cls(Symmetric.zero(), Matrix.zero(), Symmetric.zero())

    @classmethod
    def from_rows(cls, rows: tuple[tuple[Scalar, ...], ...] | list[list[Scalar]],
                  ) -> SpatialMobility:
        """From a 6x6 table, of which one triangle of each diagonal block is read."""
        return cls(Symmetric.from_rows([row[:3] for row in rows[:3]]),
                   Matrix.from_rows([row[:3] for row in rows[3:]]),
                   Symmetric.from_rows([row[3:] for row in rows[3:]]))

    @property
    def rows(self) -> tuple[tuple[Scalar, ...], ...]:
        """The 6x6 table, (angular, linear) from (moment, force)."""
        top = zip(self.A.rows, self.C.T.rows, strict=True)
        bottom = zip(self.C.rows, self.B.rows, strict=True)
        return tuple((*left, *right) for left, right in (*top, *bottom))

    def __matmul__(self, f: Wrench) -> Twist:
        C, n, force = self.C, f.moment, f.force
        angular = self.A @ n + Vector(C.x.dot(force), C.y.dot(force), C.z.dot(force))
        return Twist(angular, C @ n + self.B @ force)

    def shift(self, d: Vector) -> SpatialMobility:
        """The mobility of the point at d instead of the origin.

        A twist shifts as a wrench does the other way, v + w x d against n + r x f, so this is
        the shift of an articulated inertia with its blocks in other places.
        """
        I = ArticulatedInertia(self.B, self.C, self.A).shift(-d)
        return SpatialMobility(I.M, I.H, I.J)

    def to_child(self, X: Transform) -> SpatialMobility:
        """phi^T Om phi: of a child that is fixed in this body, in its own frame."""
        m, R = self.shift(X.p), X.R
        return SpatialMobility(R.to_child(m.A), R.to_child(m.C), R.to_child(m.B)).shift(X.r)

    def rotate(self, R: Matrix) -> SpatialMobility:
        """In axes turned by R."""
        return SpatialMobility(self.A.rotate(R), self.C.rotate(R), self.B.rotate(R))

    def release(self, pivot: Pivot) -> SpatialMobility:
        """(1 - S K^T) Om (1 - K S^T) + S D^-1 S^T: one more free rate, [RK88, 4.22] as a form.

        Along a coordinate axis S only that row and column change.
        """
        if pivot.axis is None:
            y = self @ pivot.K
            end = y.dot(pivot.K) + pivot.inverse
            half = (pivot.S * (end * 0.5) - y).components
            s = pivot.S.components
            return SpatialMobility.from_rows([
                [x + a * p + q * b for x, b, p in zip(row, s, half, strict=True)]
                for row, a, q in zip(self.rows, s, half, strict=True)])
        rest = pivot.K.replace(pivot.axis, 0)
        y = (self @ rest) * -1
        k = AXES.index(pivot.axis)
        column = [*y.components]
        column[k] = pivot.inverse - y.replace(pivot.axis, 0).dot(rest)
        rows = [list(row) for row in self.rows]
        for i in range(6):
            rows[i][k] = rows[k][i] = column[i]
        return SpatialMobility.from_rows(rows)
