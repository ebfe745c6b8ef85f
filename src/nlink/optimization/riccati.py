"""One step of the backward sweep of differential dynamic programming, on scalars.

The value behind the step is s^T e + e^T S e / 2 for changes e = (dq', dv') of the state there, and

    dq' = P dq + V dv',        dv' = G (dq, dv) + F du:

coordinates follow the new rates, as in semi-implicit Euler. So the value is written by dq and dv'
first, where P and V are nearly diagonal, and by (dq, dv) and du then [Mayne 66; Tassa, Erez,
Todorov 12, eq. 5 to 11]. A gap f between where a knot leads and where the next one is moves s by
S f [Giftthaler et al. 18; Mastalli et al. 20, eq. 14].

Bounds on u make the step in u a problem with a box [Tassa, Mansard, Todorov 14]. Which forces are
at their bounds is found by a primal-dual active set [Hintermueller, Ito, Kunisch 02], and where its
point promises less than a step of one force after the other, that is made. Forces that are held
have no feedback.

Damping adds its half times |e|^2 and |du|^2 to the value: where costs are not convex, or the model
is good for small steps only.
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
"""Active sets that are tried: at a solution the first one is right."""


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
    s = after.s
    if gap is not None:
        s = [a + dot(row, gap) for a, row in zip(s, after.S, strict=True)]
    S = [[x + damping if i == j else x for j, x in enumerate(row)]
         for i, row in enumerate(after.S)]
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
    under, over = _pushed(k, Qu, low, high)
    for _ in range(PROJECTED):
        # the least value with some elements at their bounds, wherever the others go
        held = [where(u, a, where(o, b, 0.0)) for u, o, a, b in zip(
            under, over, low, high, strict=True)]
        pivots, free = _masked(Quu, under, over)
        slope = [(g + dot(row, held)) * f for g, row, f in zip(Qu, Quu, free, strict=True)]
        x = [a - d for a, d in zip(held, pivots.solve(slope), strict=True)]
        # which are at a bound next: those that went beyond, and those that are pushed outward
        inside = [clip(y, a, b) for y, a, b in zip(x, low, high, strict=True)]
        push = [g + dot(row, x) for g, row in zip(Qu, Quu, strict=True)]
        under, over = (
            [u & less(0.0, g) | ~u & less(y, a) for u, g, y, a in zip(
                under, push, x, low, strict=True)],
            [o & less(g, 0.0) | ~o & less(b, y) for o, g, y, b in zip(
                over, push, x, high, strict=True)])
        sure = _one_by_one(Quu, Qu, k, low, high)
        better = less(_promise(Quu, Qu, inside), _promise(Quu, Qu, sure))
        k = [where(better, a, b) for a, b in zip(inside, sure, strict=True)]
    pivots, free = _masked(Quu, *_pushed(k, [g + dot(row, k) for g, row in zip(
        Qu, Quu, strict=True)], low, high))
    K = transposed([[-x for x in pivots.solve([a * f for a, f in zip(column, free, strict=True)])]
                    for column in transposed(Qux)])
    return k, K, pivots.least


def _pushed(k: Row, slope: Row, low: Scalars, high: Scalars) -> tuple[Row, Row]:
    """Which elements are at their lower and upper bounds, and pushed outward."""
    return ([less_equal(x, a) & less(0.0, g) for x, a, g in zip(k, low, slope, strict=True)],
            [less_equal(b, x) & less(g, 0.0) for x, b, g in zip(k, high, slope, strict=True)])


def _masked(Quu: Matrix, under: Row, over: Row) -> tuple[Pivots, Row]:
    """The factors of the rows and columns that are free, and 1 for each of these."""
    free = [where(u | o, 0.0, 1.0) for u, o in zip(under, over, strict=True)]
    return Pivots(symmetric(len(Quu), lambda i, j: Quu[i][j] * free[i] * free[j] + (
        1.0 - free[i] if i == j else 0.0))), free


def _promise(Quu: Matrix, Qu: Row, k: Row) -> Any:
    """Q_u k + k^T Q_uu k / 2."""
    return dot(Qu, k) + 0.5 * dot(k, [dot(row, k) for row in Quu])


def _one_by_one(Quu: Matrix, Qu: Row, k: Row, low: Scalars, high: Scalars) -> Row:
    """Each element where it promises most, the others held: never worse than before."""
    k = list(k)
    for i, row in enumerate(Quu):
        k[i] = clip(k[i] - (Qu[i] + dot(row, k)) / row[i], low[i], high[i])
    return k


def largest_of(values: Sequence[Any]) -> Any:
    """The largest magnitude."""
    most = values[0] * 0.0
    for x in values:
        most = maximum(most, maximum(x, -x))
    return most
