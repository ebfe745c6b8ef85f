"""The contact problem by a smoothing Newton method: slower than visits of contact after contact,
and sure where those go on for ever (redundant contacts, large ratios of masses).

With De Saxce's velocities sig~ = sig + mu |sig_t| n the laws of a contact say that lam is in the
cone |lam_t| <= mu lam_n, sig~ in its dual, and lam . sig~ = 0. Scaled by D = diag(mu, mu, 1) w for
each contact both cones are the same, |x_t| <= x_n, and the laws are

    F(x) = x - [x - y~(x)]+ = 0,      y = D G D x + D g,      y~_n = y_n + |y_t|,

with [.]+ the nearest point of the cone. Smoothed, that is a function of the two spectral values
l -+ |.| by (l + sqrt(l^2 + 4 eps^2)) / 2 [Chen, Harker, Kanzow, Smale]; eps falls as F does. Each
step is that of Newton's method, of the best of a few lengths. Its matrix is not symmetric; without
exchanges of rows it was as good as with them, on all problems tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from nlink.iterations.contact_cone import LEAST, Block
from nlink.iterations.iteration import equal
from nlink.iterations.joint_block import JointBlock
from nlink.scalars.functions import (
    Scalar,
    Scalars,
    divide,
    less,
    less_equal,
    maximum,
    sqrt,
    where,
)

LENGTHS = (1.0, 0.6, 0.3, 0.1, 0.03, 0.01)
"""Lengths of a step that are tried."""
COLD, WARM = -1.0, -2.0
"""In the place of eps: the method begins anew, or begins with impulses that are almost right."""
BEGIN, SMALL = 1e-8, 1e-6
"""Every unknown where it begins anew, and eps where it does not."""
FLATTEST = 1e-9
"""A cone is not scaled by less."""

Three = tuple[Scalar, Scalar, Scalar]
Matrix = tuple[tuple[Scalar, ...], ...]


@dataclass(frozen=True, slots=True)
class ScaledContacts:
    """H x + h, in which both cones are circular ones of 45 degrees."""

    D: tuple[Scalar, ...]
    H: tuple[tuple[Scalar, ...], ...]
    h: tuple[Scalar, ...]
    joints: tuple[JointBlock | None, ...]
    """The scaled blocks of joints, None in the places of contacts."""

    @classmethod
    def of(cls, blocks: Sequence[Block], G: Sequence[Scalars], g: Scalars) -> ScaledContacts:
        D, joints = list[Scalar](), list[JointBlock | None]()
        for block in blocks:
            w = divide(1.0, sqrt(block.rho))
            if isinstance(block, JointBlock):
                D.append(w)
                joints.append(block.scaled(w))
                continue
            flat = maximum(block.mu, FLATTEST) * w
            D += [flat, flat, w]
            joints.append(None)
        H = tuple(tuple(a * x * b for x, b in zip(row, D, strict=True))
                  for a, row in zip(D, G, strict=True))
        return cls(tuple(D), H, tuple(a * x for a, x in zip(D, g, strict=True)), tuple(joints))

    @property
    def places(self) -> list[slice]:
        """The unknowns of each block."""
        sizes = [3 if joint is None else joint.size for joint in self.joints]
        return [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]

    @property
    def largest(self) -> Scalar:
        """What eps begins with."""
        most: Scalar = 1e-6
        for x in self.h:
            most = maximum(most, abs(x))
        return most

    def apply(self, x: Scalars) -> list[Scalar]:
        """H x."""
        found = []
        for row in self.H:
            total: Scalar = 0.0
            for a, b in zip(row, x, strict=True):
                total = total + a * b
            found.append(total)
        return found


def newton_step(scaled: ScaledContacts, x: Scalars, eps: Scalar, fall: Scalar,
                mark: Callable[[], None]) -> tuple[list[Scalar], Scalar]:
    """The unknowns and eps after a step; eps says whether this is the first (`COLD`, `WARM`). Where
    F is below `fall` eps, eps falls by this factor."""
    cold, warm = equal(eps, COLD), equal(eps, WARM)
    x = [where(cold, BEGIN, where(warm, each / d, each))
         for each, d in zip(x, scaled.D, strict=True)]
    eps = where(cold, scaled.largest, where(warm, SMALL, eps))
    y = [a + b for a, b in zip(scaled.apply(x), scaled.h, strict=True)]
    places, K, rest = scaled.places, list[list[Matrix]](), list[list[Scalar]]()
    for at, joint in zip(places, scaled.joints, strict=True):
        H, own = scaled.H[at], list[Matrix]()
        if joint is not None:
            ((row,), ((z,), (w,))) = H, (x[at], y[at])
            rate, slope = joint.smoothed(w - z, eps)
            for other in places:
                mark()
                block = [(1.0 - slope) * each for each in row[other]]
                own.append((tuple([block[0] + slope] if at == other else block),))
            K.append(own)
            rest.append([rate - w])
            continue
        near, J, lean = _near(x[at], y[at], eps, slope=True)
        # rows of 1 - J (1 - dy~/dx), with dy~ = (1 + n lean^T) H dx
        turned = tuple((row[0] + row[2] * lean[0], row[1] + row[2] * lean[1], row[2])
                       for row in J)
        for other in places:
            mark()
            block = [[_dot(turned[k], column) for column in zip(*(
                row[other] for row in H), strict=True)] for k in range(3)]
            if at == other:
                block = [[block[k][c] + (float(k == c) - J[k][c]) for c in range(3)]
                         for k in range(3)]
            own.append(tuple(map(tuple, block)))
        K.append(own)
        rest.append([b - a for a, b in zip(x[at], near, strict=True)])
    step = [_number(each) for block in _solved(K, rest, mark) for each in block]
    best, size = _shortened(scaled, x, y, step, eps)
    return best, where(less(size, fall * eps), fall * eps, eps)


def _shortened(scaled: ScaledContacts, x: Scalars, y: Scalars, step: Scalars, eps: Scalar,
               ) -> tuple[list[Scalar], Scalar]:
    """The best of some lengths of a step, and the size of F there."""
    along, best, size = scaled.apply(step), list(x), math.inf
    for length in LENGTHS:
        there = [a + length * b for a, b in zip(x, step, strict=True)]
        then = [a + length * b for a, b in zip(y, along, strict=True)]
        total: Scalar = 0.0
        for each in natural_map(scaled, there, then, eps):
            total = total + each * each
        total = sqrt(total)
        better = less(total, size)
        best = [where(better, a, b) for a, b in zip(there, best, strict=True)]
        size = where(better, total, size)
    return best, size


def natural_map(scaled: ScaledContacts, x: Scalars, y: Scalars, eps: Scalar) -> list[Scalar]:
    """F of unknowns x with y = H x + h, smoothed by eps."""
    off = list[Scalar]()
    for at, joint in zip(scaled.places, scaled.joints, strict=True):
        if joint is None:
            near, _, _ = _near(x[at], y[at], eps, slope=False)
            off += [a - b for a, b in zip(x[at], near, strict=True)]
        else:
            ((a,), (b,)) = x[at], y[at]
            off.append(b - joint.smoothed(b - a, eps)[0])
    return off


def unscaled(scaled: ScaledContacts, x: Scalars) -> list[Scalar]:
    """Impulses from unknowns."""
    return [a * b for a, b in zip(scaled.D, x, strict=True)]


def _near(x: Scalars, y: Scalars, eps: Scalar, *, slope: bool,
          ) -> tuple[Three, Matrix, tuple[Scalar, Scalar]]:
    """The smoothed nearest point of x - y~, its derivative, and the direction of y_t."""
    speed = sqrt(y[0] * y[0] + y[1] * y[1] + 1e-24)
    a, b, n = x[0] - y[0], x[1] - y[1], x[2] - (y[2] + speed)
    t = sqrt(a * a + b * b + 1e-300)  # its derivative at 0 is 0
    low, high = n - t, n + t
    q1, q2 = (sqrt(z * z + 4.0 * (eps * eps)) for z in (low, high))
    f1, f2 = (low + q1) * 0.5, (high + q2) * 0.5
    share = 0.5 + divide(n, maximum(q1 + q2, LEAST))  # (f2 - f1) / (2 t), without the difference
    near = (a * share, b * share, (f1 + f2) * 0.5)
    if not slope:
        zero = (0, 0, 0)
        return near, (zero, zero, zero), (0, 0)
    d1, d2 = (1.0 + low / q1) * 0.5, (1.0 + high / q2) * 0.5
    mean, skew = (d1 + d2) * 0.5, (d2 - d1) * 0.5
    u, v = a / t, b / t
    uu, uv, vv = u * u, u * v, v * v
    other = mean - share
    J = ((share + other * uu, other * uv, skew * u), (other * uv, share + other * vv, skew * v),
         (skew * u, skew * v, mean))
    lean = divide(1.0, speed)
    return near, J, (y[0] * lean, y[1] * lean)


def _solved(K: list[list[Matrix]], rest: list[list[Scalar]], mark: Callable[[], None],
            ) -> list[list[Scalar]]:
    """K x = rest by blocks, without exchanges between them."""
    K, rest, count = [list(row) for row in K], list(rest), len(K)
    inverses = list[Matrix]()
    for k in range(count):
        mark()
        inverse = _inverse(K[k][k])
        inverses.append(inverse)
        for i in range(k + 1, count):
            mark()
            ratio = _product(K[i][k], inverse)
            rest[i] = [a - _dot(row, rest[k]) for a, row in zip(rest[i], ratio, strict=True)]
            for j in range(k + 1, count):
                mark()
                K[i][j] = _less_product(K[i][j], ratio, K[k][j])
    x: list[list[Scalar]] = [[]] * count
    for k in reversed(range(count)):
        right = rest[k]
        for j in range(k + 1, count):
            mark()
            right = [a - _dot(row, x[j]) for a, row in zip(right, K[k][j], strict=True)]
        x[k] = [_dot(row, right) for row in inverses[k]]
    return x


def _inverse(A: Matrix) -> Matrix:
    """By elimination: less is lost than by minors."""
    if len(A) == 1:
        return ((divide(1.0, A[0][0]),),)
    (a, b, c), (d, e, f), (g, h, i) = A
    p = divide(1.0, a)
    l1, l2 = d * p, g * p
    e, f, h, i = e - l1 * b, f - l1 * c, h - l2 * b, i - l2 * c
    q = divide(1.0, e)
    l3 = h * q
    r = divide(1.0, i - l3 * f)
    columns = []
    for x, y, z in ((1.0, -l1, l3 * l1 - l2), (0.0, 1.0, -l3), (0.0, 0.0, 1.0)):
        z = z * r
        y = (y - f * z) * q
        columns.append(((x - b * y - c * z) * p, y, z))
    one, two, three = zip(*columns, strict=True)
    return one, two, three


def _product(A: Matrix, B: Matrix) -> Matrix:
    columns = list(zip(*B, strict=True))
    return tuple(tuple(_dot(row, column) for column in columns) for row in A)


def _less_product(C: Matrix, A: Matrix, B: Matrix) -> Matrix:
    columns = list(zip(*B, strict=True))
    return tuple(tuple(c - _dot(row, column) for c, column in zip(own, columns, strict=True))
                 for own, row in zip(C, A, strict=True))


def _dot(a: Scalars, b: Scalars) -> Scalar:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def _number(x: Scalar) -> Scalar:
    """x, or 0 where that is not a finite number."""
    return where(less_equal(abs(x), 1e300), x, 0.0)
