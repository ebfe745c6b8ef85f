"""The ratio scalar: quotients of trigonometric polynomials in lowest terms.

Eliminations divide by pivots, and pivots are sums. A ratio keeps its denominator as powers of
the few polynomials that were ever divided by, and its numerator free of them: cancelling needs
only exact division by these, never a greatest common divisor. So D_2 of an arm comes out as
Delta_2 / Delta_1 and its inverse inertia matrix over one Delta, as one would write them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import gcd, lcm
from typing import Any

from nlink.closed_forms.harmonics import Harmonics
from nlink.scalars.primitives import Primitive

Exponents = tuple[int, ...]
Complex = tuple[Fraction, Fraction]

MAX_TERMS = 1_000
"""A quotient with a longer numerator is no longer something to read."""
LARGE = 10_000
"""Integers beyond this are no simpler than the fractions they replace."""


@dataclass
class Divisors:
    """The polynomials divided by so far, in the order in which they were met."""

    polynomials: list[Harmonics] = field(default_factory=list)

    def split(self, value: Harmonics) -> tuple[Harmonics, dict[int, int]]:
        """value = rest * product of known factors to positive powers."""
        powers: dict[int, int] = {}
        for k in reversed(range(len(self.polynomials))):
            value, count = _remove(value, self.polynomials[k])
            if count:
                powers[k] = count
        return value, powers

    def add(self, value: Harmonics) -> tuple[Harmonics, int]:
        """value = unit * a new factor, which is primitive with positive constant terms."""
        unit = _content(value)
        self.polynomials.append(value / unit)
        return unit, len(self.polynomials) - 1

    def product(self, powers: Mapping[int, int]) -> Harmonics:
        total = Harmonics.number(1)
        for k, power in powers.items():
            for _ in range(power):
                total = total * self.polynomials[k]
        return total


@dataclass(frozen=True, slots=True)
class Ratio:
    """top / product of factors to `powers`, in lowest terms.

    >>> factors = Divisors()
    >>> a, b = (Ratio(Harmonics.symbol(name), {}, factors) for name in "ab")
    >>> ((a * a - b * b) / (a + b) - a + b).top == Harmonics.number(0)
    True
    """

    top: Harmonics
    powers: Mapping[int, int]
    factors: Divisors = field(repr=False)

    @classmethod
    def maker(cls, factors: Divisors) -> Callable[[Harmonics | float], Ratio]:
        def make(x: Harmonics | float) -> Ratio:
            return cls(x if isinstance(x, Harmonics) else Harmonics.number(x), {}, factors)

        return make

    def __add__(self, other: Any) -> Ratio:
        other = self._lift(other)
        powers = {k: max(self.powers.get(k, 0), other.powers.get(k, 0))
                  for k in {*self.powers, *other.powers}}
        parts = (x.top * self.factors.product({k: p - x.powers.get(k, 0)
                                               for k, p in powers.items()})
                 for x in (self, other))
        return self._reduced(next(parts) + next(parts), powers)

    def __neg__(self) -> Ratio:
        return Ratio(-self.top, self.powers, self.factors)

    def __sub__(self, other: Any) -> Ratio:
        return self + -self._lift(other)

    def __rsub__(self, other: Any) -> Ratio:
        return self._lift(other) - self

    def __mul__(self, other: Any) -> Ratio:
        other = self._lift(other)
        return self._reduced(self.top * other.top, _plus(self.powers, other.powers))

    def __truediv__(self, other: Any) -> Ratio:
        other = self._lift(other)
        rest, powers = self.factors.split(other.top)
        if not rest.terms:
            raise ZeroDivisionError("a pivot is zero in every state")
        if len(rest.terms) > 1:
            rest, new = self.factors.add(rest)
            powers = powers | {new: 1}
        top = self.top * self.factors.product(other.powers) / rest
        return self._reduced(top, _plus(self.powers, powers))

    def __rtruediv__(self, other: Any) -> Ratio:
        return self._lift(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return not (self - other).top.terms

    __hash__ = None  # type: ignore[assignment]

    def cos(self) -> Ratio:
        return Ratio(self._angle().cos(), {}, self.factors)

    def sin(self) -> Ratio:
        return Ratio(self._angle().sin(), {}, self.factors)

    def apply_primitive(self, row: Primitive, *arguments: Any) -> Ratio:
        if row.name in ("sin", "cos"):
            return getattr(self, row.name)()
        raise ArithmeticError(f"{row.name} is not a ratio of trigonometric polynomials")

    def _angle(self) -> Harmonics:
        if self.powers:
            raise ArithmeticError("the angle is no whole combination of symbols")
        return self.top

    def _lift(self, x: Any) -> Ratio:
        return x if isinstance(x, Ratio) else Ratio(Harmonics.number(float(x)), {}, self.factors)

    def _reduced(self, top: Harmonics, powers: Mapping[int, int]) -> Ratio:
        if powers and len(top.terms) > MAX_TERMS:
            raise OverflowError(f"a quotient of more than {MAX_TERMS} terms: "
                                "use common subexpressions instead")
        left = {}
        for k, power in powers.items():
            top, removed = _remove(top, self.factors.polynomials[k], power)
            if power > removed:
                left[k] = power - removed
        return Ratio(top, left if top.terms else {}, self.factors)


def _plus(a: Mapping[int, int], b: Mapping[int, int]) -> dict[int, int]:
    return {k: a.get(k, 0) + b.get(k, 0) for k in {*a, *b}}


def _remove(value: Harmonics, factor: Harmonics, most: int | None = None) -> tuple[Harmonics, int]:
    """Divide out a factor as often as it goes, at most `most` times."""
    count = 0
    while value.terms and (most is None or count < most):
        quotient = divide_exactly(value, factor)
        if quotient is None:
            break
        value, count = quotient, count + 1
    return value, count


def _content(value: Harmonics) -> Harmonics:
    """The largest monomial with a rational coefficient that divides a polynomial.

    Where that would leave large integers, which measured numbers do, the largest coefficient
    becomes one instead.
    """
    monomials = [dict(monomial) for monomial, _ in value.terms]
    names = {name for m in monomials for name in m}
    common = {name: min(m.get(name, 0) for m in monomials) for name in names}
    terms = value.real_terms()
    numbers = list(terms.values())
    size = Fraction(gcd(*(x.numerator for x in numbers)), lcm(*(x.denominator for x in numbers)))
    if max(abs(x) for x in numbers) > LARGE * size:
        size = max(abs(x) for x in numbers)
    constants = [c for (_, kind, _), c in sorted(terms.items()) if not kind]
    sign = -1 if constants and constants[0] < 0 else 1
    monomial = tuple(sorted((name, k) for name, k in common.items() if k))
    return Harmonics({(monomial, ()): (sign * size, Fraction(0))})


def divide_exactly(value: Harmonics, by: Harmonics) -> Harmonics | None:
    """The quotient, or None if `by` does not divide `value`.

    exp(i q) is a variable like any other, so these are Laurent polynomials. Both are shifted to
    least exponents of zero, where a quotient has none below zero, and divided term by term in
    lexicographic order.
    """
    symbols = sorted({name for f in (value, by) for m, _ in f.terms for name, _ in m})
    angles = sorted({name for f in (value, by) for _, a in f.terms for name, _ in a})
    rest, low = _exponents(value, symbols, angles)
    divisor, low_by = _exponents(by, symbols, angles)
    lead = max(divisor)
    lead_inverse = _inverse(divisor[lead])
    queue = [tuple(-k for k in key) for key in rest]
    heapify(queue)
    quotient: dict[Exponents, Complex] = {}
    while queue:
        key = tuple(-k for k in heappop(queue))
        c = rest.pop(key, None)
        if c is None:
            continue
        power = tuple(a - b for a, b in zip(key, lead, strict=True))
        if min(power, default=0) < 0:
            return None
        q = quotient[power] = _times(c, lead_inverse)
        for other, d in divisor.items():
            if other == lead:
                continue
            at = tuple(a + b for a, b in zip(power, other, strict=True))
            re, im = _times(q, d)
            if at not in rest:
                heappush(queue, tuple(-k for k in at))
            old = rest.get(at, (Fraction(0), Fraction(0)))
            new = old[0] - re, old[1] - im
            if new == (0, 0):
                del rest[at]
            else:
                rest[at] = new
    shift = [a - b for a, b in zip(low, low_by, strict=True)]
    terms = {}
    for power, c in quotient.items():
        whole = [a + b for a, b in zip(power, shift, strict=True)]
        monomial = tuple((n, k) for n, k in zip(symbols, whole, strict=False) if k)
        angle = tuple((n, k) for n, k in zip(angles, whole[len(symbols):], strict=True) if k)
        terms[monomial, angle] = c
    return Harmonics(terms)


def _exponents(f: Harmonics, symbols: list[str],
               angles: list[str]) -> tuple[dict[Exponents, Complex], Exponents]:
    """Terms by their exponents, shifted to least exponents of zero, and that shift."""
    keys = {}
    for (monomial, angle), c in f.terms.items():
        m, a = dict(monomial), dict(angle)
        keys[tuple(m.get(s, 0) for s in symbols) + tuple(a.get(s, 0) for s in angles)] = c
    low = tuple(map(min, zip(*keys, strict=True)))
    return {tuple(k - least for k, least in zip(key, low, strict=True)): c
            for key, c in keys.items()}, low


def _times(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _inverse(a: Complex) -> Complex:
    size = a[0] * a[0] + a[1] * a[1]
    return a[0] / size, -a[1] / size
