"""Signorini's and Coulomb's laws for velocities, contact after contact: block Gauss-Seidel.

With sig = G lam + g, each contact has an impulse lam = (lam_t, lam_n) and a velocity sig such that

    0 <= lam_n,  0 <= sig_n,  lam_n sig_n = 0,
    |lam_t| <= mu lam_n,  and  sig_t = -s lam_t, s >= 0, with s = 0 where |lam_t| < mu lam_n

(maximum dissipation). One contact alone, its velocity without its own impulse being b, is solved
exactly: it is open if b_n >= 0; it sticks with lam = -G_ii^-1 b if that is in the cone; else it
slides, where lam_n is eliminated and

    (A + s) lam_t = -b~,    mu lam_n(s) = |lam_t(s)|

has one unknown, the slip s, in a bracket that is known. Its equation is almost linear in s, so
that two steps of Newton's are enough where the slip is remembered from visit to visit
(`SLIP_STEPS`; with one, sweeps were seen to cycle).

Blocks G_ii may be singular (a planar robot has no velocity across its plane): each visit minimizes
the change of lam beside everything else, with a weight so small that it only decides what nothing
else does. What is solved stays solved, so that this changes no solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from nlink.iterations.joint_block import JointBlock
from nlink.scalars.functions import (
    Scalar,
    Scalars,
    divide,
    less,
    less_equal,
    maximum,
    minimum,
    sqrt,
    where,
)

SLIP_STEPS = 2
"""Newton's steps for the slip in one visit."""
PROXIMAL = 1e-9
"""The weight of a change, over the trace of the contact's block."""
STEEPEST = 1e100
"""No slip is larger."""
LEAST = 1e-200
"""What is divided by is not smaller."""

ON_CONE = 1e-9
"""An impulse so near to the cone, of its size, is on it."""

Three = tuple[Scalar, Scalar, Scalar]


@dataclass(frozen=True, slots=True)
class ContactBlock:
    """What a visit needs of a contact's block G_ii and its friction."""

    mu: Scalar
    weight: Scalar
    """That of a change."""
    normal: Scalar
    """G_nn."""
    compliance: Scalar
    """Its inverse."""
    k1: Scalar
    k2: Scalar
    """G_tn / G_nn."""
    coupling: Scalar
    """|G_tn|."""
    a11: Scalar
    a12: Scalar
    a22: Scalar
    """A: G_tt with the normal eliminated."""
    i11: Scalar
    i12: Scalar
    i22: Scalar
    """Its inverse."""
    rho: Scalar
    """What makes a velocity of an impulse, about: the third of a trace."""

    size: ClassVar[int] = 3

    @classmethod
    def of(cls, G: Sequence[Sequence[Scalar]], mu: Scalar) -> ContactBlock:
        (g11, g12, c1), (_, g22, c2), (_, _, gn) = G
        trace = g11 + g22 + gn
        weight = where(less(0.0, trace), PROXIMAL * trace, 1.0)
        gn = gn + weight
        inverse = divide(1.0, gn)
        k1, k2 = c1 * inverse, c2 * inverse
        a11, a12, a22 = g11 + weight - c1 * k1, g12 - c1 * k2, g22 + weight - c2 * k2
        over = divide(1.0, a11 * a22 - a12 * a12)
        rho = where(less(0.0, trace), trace * (1 / 3), 1.0)
        return cls(mu, weight, gn, inverse, k1, k2, sqrt(c1 * c1 + c2 * c2), a11, a12, a22,
                   a22 * over, -(a12 * over), a11 * over, rho)

    def visit(self, b: Three, old: Three, slip: Scalar) -> tuple[Three, Scalar]:
        """The impulse and slip of this contact, all others being as they are."""
        mu = self.mu
        b1, b2, bn = (x - self.weight * y for x, y in zip(b, old, strict=True))
        t1, t2, alone = b1 - self.k1 * bn, b2 - self.k2 * bn, -bn * self.compliance

        def normal(l1: Scalar, l2: Scalar) -> Scalar:
            return alone - self.k1 * l1 - self.k2 * l2

        # it sticks, with the inverse of A that is known
        L1, L2 = -(self.i11 * t1 + self.i12 * t2), -(self.i12 * t1 + self.i22 * t2)
        Ln = normal(L1, L2)
        sticks = less_equal(L1 * L1 + L2 * L2, mu * mu * (Ln * Ln)) & less_equal(0.0, Ln)
        # it slides, with a slip between 0 and the highest that a cone allows
        high = minimum(sqrt(t1 * t1 + t2 * t2) * (self.normal + mu * self.coupling)
                       / maximum(-(mu * bn), LEAST), STEEPEST)
        low: Scalar = 0.0
        s = where(less_equal(0.0, slip) & less_equal(slip, high), slip, 0.0)

        def sliding(s: Scalar) -> tuple[Scalar, ...]:
            x, y = self.a11 + s, self.a22 + s
            over = divide(1.0, x * y - self.a12 * self.a12)
            l1, l2 = (self.a12 * t2 - y * t1) * over, (self.a12 * t1 - x * t2) * over
            size = l1 * l1 + l2 * l2
            return x, y, over, l1, l2, normal(l1, l2), size, sqrt(size)

        for _ in range(SLIP_STEPS):
            x, y, over, l1, l2, ln, size, root = sliding(s)
            # f = mu lam_n / |lam_t| - 1 and its derivative by s, both times |lam_t|^3
            d1, d2 = (self.a12 * l2 - y * l1) * over, (self.a12 * l1 - x * l2) * over
            dn = -(self.k1 * d1 + self.k2 * d2)
            value, slope = (mu * ln - root) * size, mu * (dn * size - ln * (l1 * d1 + l2 * d2))
            below = less(mu * ln, root)
            low, high = where(below, s, low), where(below, high, s)
            new = s - divide(value, slope)
            s = where(less_equal(low, new) & less_equal(new, high), new, 0.5 * (low + high))
        *_, l1, l2, ln, _, root = sliding(s)
        ln = maximum(ln, 0.0)
        share = where(less(0.0, root), mu * ln / maximum(root, LEAST), 0.0)  # on the cone
        smooth, opens = less_equal(mu, 0.0), less_equal(0.0, bn)
        force = (where(smooth, 0.0, where(sticks, L1, share * l1)),
                 where(smooth, 0.0, where(sticks, L2, share * l2)),
                 where(smooth, alone, where(sticks, Ln, ln)))
        one, two, three = (where(opens, 0.0, _finite(x)) for x in force)
        return (one, two, three), where(opens | sticks | smooth, 0.0, _finite(s))

    def residual(self, sig: Three, lam: Three) -> Scalar:
        """How far a contact is from its laws, as a speed: the natural map
        |lam - P(lam - (sig + mu |sig_t| n) / rho)| rho, P being the nearest point of the cone. It
        is zero where the laws hold and nowhere else [De Saxce]."""
        over = divide(1.0, self.rho)
        speed = sqrt(sig[0] * sig[0] + sig[1] * sig[1])
        x, y, z = (a - over * b for a, b in zip(
            lam, (sig[0], sig[1], sig[2] + self.mu * speed), strict=True))
        off = [a - b for a, b in zip(lam, self.nearest((x, y, z)), strict=True)]
        return self.rho * sqrt(off[0] * off[0] + off[1] * off[1] + off[2] * off[2])

    def nearest(self, force: Three) -> Three:
        """The nearest impulse that friction allows."""
        mu, (x, y, z) = self.mu, force
        flat = sqrt(x * x + y * y)
        inside = less_equal(flat, mu * z) & less_equal(0.0, z)
        behind = less_equal(mu * flat, -z)
        up = (mu * flat + z) / (1.0 + mu * mu)
        share = where(less(0.0, flat), mu * up / maximum(flat, LEAST), 0.0)
        one, two, three = (where(inside, a, where(behind, 0.0, b))
                           for a, b in ((x, share * x), (y, share * y), (z, up)))
        return one, two, three

    def slip(self, sig: Three, lam: Three) -> Scalar:
        """How fast it slides for its impulse along the surface; 0 if it sticks or is open."""
        flat = lam[0] * lam[0] + lam[1] * lam[1]
        most = self.mu * lam[2]
        slides = less((1.0 - ON_CONE) * (most * most), flat) & less(0.0, flat)
        return where(slides, sqrt((sig[0] * sig[0] + sig[1] * sig[1]) / maximum(flat, LEAST)), 0.0)


Block = ContactBlock | JointBlock
"""Three rows of a contact, or the one of a rate that rubs or has limits."""


def sweep(blocks: Sequence[Block], G: Sequence[Scalars], g: Scalars, lam: Scalars,
          slips: Scalars) -> tuple[list[Scalar], list[Scalar]]:
    """Every block visited once, in order."""
    lam, slips = list(lam), list(slips)
    for i, (block, at) in enumerate(zip(blocks, places(blocks), strict=True)):
        b = tuple(_row(G[k], g[k], [j for j in range(len(lam)) if j not in at], lam) for k in at)
        old = tuple(lam[at.start:at.stop])
        lam[at.start:at.stop], slips[i] = block.visit(b, old, slips[i])  # type: ignore[arg-type]
    return lam, slips


def cleared(blocks: Sequence[Block], G: Sequence[Scalars], g: Scalars, lam: Scalars,
            ) -> tuple[list[Scalar], list[Scalar]]:
    """The nearest impulses that friction allows, and the slips that they leave."""
    where_blocks = places(blocks)
    near = [x for block, at in zip(blocks, where_blocks, strict=True)
            for x in block.nearest(tuple(lam[at.start:at.stop]))]  # type: ignore[arg-type]
    slips = list[Scalar]()
    for block, at in zip(blocks, where_blocks, strict=True):
        sig = tuple(_row(G[j], g[j], range(len(lam)), near) for j in at)
        slips.append(block.slip(sig, tuple(near[at.start:at.stop])))  # type: ignore[arg-type]
    return near, slips


def worst(blocks: Sequence[Block], G: Sequence[Scalars], g: Scalars, lam: Scalars) -> Scalar:
    """The largest residual of a block; nan where one is not a number."""
    most: Scalar = 0.0
    for block, at in zip(blocks, places(blocks), strict=True):
        sig = tuple(_row(G[j], g[j], range(len(lam)), lam) for j in at)
        each = block.residual(sig, tuple(lam[at.start:at.stop]))  # type: ignore[arg-type]
        most = where(less_equal(each, most), most, each)
    return most


def places(blocks: Sequence[Block]) -> list[range]:
    """The rows of each block."""
    ends = list(accumulate(block.size for block in blocks))
    return [range(end - block.size, end) for block, end in zip(blocks, ends, strict=True)]


def _row(row: Scalars, start: Scalar, which: Sequence[int], lam: Scalars) -> Scalar:
    for j in which:
        start = start + row[j] * lam[j]
    return start


def _finite(x: Scalar) -> Scalar:
    """x, or 0 where that is not a finite number."""
    return where(less_equal(abs(x), 1e300), x, 0.0)
