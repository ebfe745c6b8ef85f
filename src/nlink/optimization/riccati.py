"""One step of the backward sweep of differential dynamic programming, on scalars.

The value behind the step is s^T e + e^T S e / 2 for changes e = (dq', dv') of the state there, and

    dq' = P dq + V dv',        dv' = G (dq, dv) + F du:

coordinates follow the new rates, as in semi-implicit Euler. So the value is written by dq and dv'
first, where P and V are nearly diagonal, and by (dq, dv) and du then [Mayne 66; Tassa, Erez,
Todorov 12, eq. 5 to 11]. A gap f between where a knot leads and where the next one is moves s by
S f [Giftthaler et al. 18; Mastalli et al. 20, eq. 14].

Bounds on u make the step in u a problem with a box, solved by projected Newton steps from du = 0
[Bertsekas 82; Tassa, Mansard, Todorov 14]: rates of u that are held have no feedback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nlink.optimization.costs import QuadraticModel, dot
from nlink.scalars.functions import Scalars, clip, less, less_equal, maximum, minimum, where

Row = list[Any]
Matrix = list[Row]
PROJECTED = 4
"""Newton steps on the box: at a solution the first one is exact."""


@dataclass(frozen=True)
class LinearStep:
    """A step near a knot: P, V, G and F above."""

    P: Matrix
    V: Matrix
    G: Matrix
    F: Matrix


@dataclass(frozen=True)
class ValueModel:
    """s and the whole symmetric S."""

    s: Row
    S: Matrix


@dataclass(frozen=True)
class Feedback:
    """du = k + K dx, the value before the step, and what tells of progress."""

    k: Row
    K: Matrix
    before: ValueModel
    slope: Any
    """Q_u k, the change of the cost to first order."""
    curve: Any
    """k^T Q_uu k."""
    least: Any
    """The smallest pivot of Q_uu: nothing is right where it is not positive."""


def transposed(a: Matrix) -> Matrix:
    return [list(row) for row in zip(*a, strict=True)]


def times(a: Matrix, b: Matrix) -> Matrix:
    """The product of two matrices."""
    columns = transposed(b)
    return [[dot(row, column) for column in columns] for row in a]


def plus(a: Matrix, b: Matrix) -> Matrix:
    return [[x + y for x, y in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)]


def symmetric(n: int, upper: Any) -> Matrix:
    """The symmetric matrix of upper(i, j), i <= j."""
    a: Matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            a[i][j] = a[j][i] = upper(i, j)
    return a


class Pivots:
    """H = L D L^T of a symmetric matrix, from its first row on."""

    def __init__(self, H: Matrix) -> None:
        n = len(H)
        self.below: Matrix = [[0.0] * n for _ in range(n)]
        self.inverse: Row = []
        self.least: Any = None
        scaled: Matrix = [[0.0] * n for _ in range(n)]
        for i in range(n):
            pivot = H[i][i] - dot(self.below[i][:i], scaled[i][:i])
            self.least = pivot if self.least is None else minimum(self.least, pivot)
            self.inverse.append(1.0 / pivot)
            for j in range(i + 1, n):
                scaled[j][i] = H[j][i] - dot(scaled[j][:i], self.below[i][:i])
                self.below[j][i] = scaled[j][i] * self.inverse[i]

    def solve(self, b: Row) -> Row:
        x, n = list(b), len(b)
        for i in range(n):
            x[i] = x[i] - dot(self.below[i][:i], x[:i])
        x = [a * d for a, d in zip(x, self.inverse, strict=True)]
        for i in reversed(range(n)):
            x[i] = x[i] - dot([self.below[k][i] for k in range(i + 1, n)], x[i + 1:])
        return x


def backward_step(step: LinearStep, cost: QuadraticModel, after: ValueModel, damping: Any,
                  gap: Row | None, box: tuple[Row, Row] | None) -> Feedback:
    """The feedback at a knot, and the value there."""
    n, m = len(step.G), len(step.F[0])
    S, s = after.S, after.s
    if gap is not None:
        s = [a + dot(row, gap) for a, row in zip(s, S, strict=True)]
    # the value by dq and dv'
    P, V = transposed(step.P), transposed(step.V)
    Sqq, Sqv = [row[:n] for row in S[:n]], [row[n:] for row in S[:n]]
    Svv = [row[n:] for row in S[n:]]
    half = times(V, Sqq)
    lower = plus(half, transposed(Sqv))                        # (V' Sqq + Svq)
    C = times(lower, step.P)                                   # couples dv' with dq
    W = _product(lower, step.V, plus(times(V, Sqv), Svv))
    A = times(times(P, Sqq), step.P)
    a, w = [dot(row, s[:n]) for row in P], [dot(row, s[:n]) for row in V]
    w = [x + y for x, y in zip(w, s[n:], strict=True)]
    # by (dq, dv) and du
    G, F = transposed(step.G), transposed(step.F)
    WG = times(W, step.G)
    Y = [[x + y for x, y in zip(row[:n], other, strict=True)] + row[n:]
         for row, other in zip(WG, C, strict=True)]
    Yt, Ct, WF = transposed(Y), transposed(C), transposed(times(W, step.F))
    h, g = cost.hessian, cost.gradient
    z = 2 * n
    Qxx = symmetric(z, lambda i, j: h[i][j] + dot(G[j], Yt[i]) + (
        A[i][j] + dot(G[i], Ct[j]) if j < n else 0.0))
    Qux = [[h[z + i][j] + dot(F[i], Yt[j]) for j in range(z)] for i in range(m)]
    Quu = symmetric(m, lambda i, j: h[z + i][z + j] + dot(F[i], WF[j]) + (
        damping if i == j else 0.0))
    Qx = [g[i] + dot(G[i], w) + (a[i] if i < n else 0.0) for i in range(z)]
    Qu = [g[z + i] + dot(F[i], w) for i in range(m)]
    k, K, least = _unbounded(Quu, Qu, Qux) if box is None else _in_box(Quu, Qu, Qux, *box)
    # the value before
    bent = [dot(row, k) for row in Quu]
    columns, gains = transposed(Qux), transposed(K)
    before = [x + dot(column, k) for x, column in zip(Qx, columns, strict=True)]
    if box is not None:  # else Quu k + Qu = 0
        left = [x + y for x, y in zip(bent, Qu, strict=True)]
        before = [x + dot(column, left) for x, column in zip(before, gains, strict=True)]
    value = ValueModel(before, symmetric(z, lambda i, j: Qxx[i][j] + dot(columns[i], gains[j])))
    return Feedback(k, K, value, dot(Qu, k), dot(k, bent), least)


def _product(a: Matrix, b: Matrix, c: Matrix) -> Matrix:
    """a b + c, which is symmetric."""
    columns = transposed(b)
    return symmetric(len(a), lambda i, j: c[i][j] + dot(a[i], columns[j]))


def _unbounded(Quu: Matrix, Qu: Row, Qux: Matrix) -> tuple[Row, Matrix, Any]:
    pivots = Pivots(Quu)
    k = [-x for x in pivots.solve(Qu)]
    K = transposed([[-x for x in pivots.solve(column)] for column in transposed(Qux)])
    return k, K, pivots.least


def _in_box(Quu: Matrix, Qu: Row, Qux: Matrix, low: Scalars, high: Scalars,
            ) -> tuple[Row, Matrix, Any]:
    """The same with low <= k <= high, where low <= 0 <= high."""
    m = len(Qu)
    k: Row = [0.0] * m
    for last in [*[False] * PROJECTED, True]:
        slope = [a + dot(row, k) for a, row in zip(Qu, Quu, strict=True)]
        free = [where(less_equal(x, a) & less(0.0, g) | less_equal(b, x) & less(g, 0.0), 0.0, 1.0)
                for x, g, a, b in zip(k, slope, low, high, strict=True)]
        pivots = Pivots(symmetric(m, lambda i, j, free=free: Quu[i][j] * free[i] * free[j] + (
            1.0 - free[i] if i == j else 0.0)))
        if last:
            K = transposed([[-x for x in pivots.solve([a * f for a, f in zip(
                column, free, strict=True)])] for column in transposed(Qux)])
            return k, K, pivots.least
        step = pivots.solve([g * f for g, f in zip(slope, free, strict=True)])
        k = [clip(x - d, a, b) for x, d, a, b in zip(k, step, low, high, strict=True)]
    raise AssertionError


def largest_of(values: Sequence[Any]) -> Any:
    """The largest magnitude."""
    most = values[0] * 0.0
    for x in values:
        most = maximum(most, maximum(x, -x))
    return most
