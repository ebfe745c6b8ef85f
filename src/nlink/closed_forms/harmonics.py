"""The harmonic scalar: exact trigonometric polynomials in normal form.

Products of sines and cosines become sums over angles, cos a cos b = (cos(a-b) + cos(a+b))/2,
with rational coefficients, so equal expressions are equal term by term and what cancels is
gone. Closed forms of dynamics are such polynomials (up to a division), and in this form
they read as in the papers: cos(q1 + q2), not cos q1 cos q2 - sin q1 sin q2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Monomial = tuple[tuple[str, int], ...]
"""Powers of symbols, sorted by name."""
Angle = tuple[tuple[str, int], ...]
"""An integer combination of angles, sorted by name."""

MAX_TERMS = 20_000
"""Beyond this a closed form is no longer something to read."""


def rational(x: float) -> Fraction:
    """The fraction a float was written as, if it has a small denominator; else its own value."""
    if not math.isfinite(x):
        raise ArithmeticError(f"{x} has no normal form: the expression is not defined")
    near = Fraction(x).limit_denominator(10_000)
    return near if float(near) == x else Fraction(x)


@dataclass(frozen=True, slots=True)
class Harmonics:
    """A sum of terms coefficient * monomial * exp(i angle), complex coefficients (re, im).

    >>> a, b = Harmonics.symbol("a"), Harmonics.symbol("b")
    >>> c = a.cos() * b.cos() - a.sin() * b.sin()
    >>> c == (a + b).cos()
    True
    """

    terms: Mapping[tuple[Monomial, Angle], tuple[Fraction, Fraction]]

    @classmethod
    def symbol(cls, name: str) -> Harmonics:
        return cls({(((name, 1),), ()): (Fraction(1), Fraction(0))})

    @classmethod
    def number(cls, x: float) -> Harmonics:
        return cls({((), ()): (rational(x), Fraction(0))} if x else {})

    def __add__(self, other: Any) -> Harmonics:
        terms = dict(self.terms)
        for key, (re, im) in _lift(other).terms.items():
            old = terms.get(key, (Fraction(0), Fraction(0)))
            new = old[0] + re, old[1] + im
            if new == (0, 0):
                del terms[key]
            else:
                terms[key] = new
        return Harmonics(terms)

    def __neg__(self) -> Harmonics:
        return Harmonics({key: (-re, -im) for key, (re, im) in self.terms.items()})

    def __sub__(self, other: Any) -> Harmonics:
        return self + -_lift(other)

    def __mul__(self, other: Any) -> Harmonics:
        other = _lift(other)
        if len(self.terms) * len(other.terms) > 100 * MAX_TERMS:
            raise OverflowError(f"more than {MAX_TERMS} terms: use common subexpressions instead")
        terms: dict[tuple[Monomial, Angle], tuple[Fraction, Fraction]] = {}
        for (m1, a1), (r1, i1) in self.terms.items():
            for (m2, a2), (r2, i2) in other.terms.items():
                key = _merge(m1, m2), _merge(a1, a2)
                re, im = terms.get(key, (Fraction(0), Fraction(0)))
                terms[key] = re + r1 * r2 - i1 * i2, im + r1 * i2 + i1 * r2
        kept = {key: value for key, value in terms.items() if value != (0, 0)}
        if len(kept) > MAX_TERMS:
            raise OverflowError(f"more than {MAX_TERMS} terms: use common subexpressions instead")
        return Harmonics(kept)

    def __truediv__(self, other: Any) -> Harmonics:
        """Division by a monomial; a sum in the denominator has no such normal form."""
        other = _lift(other)
        if len(other.terms) != 1:
            raise ArithmeticError("division by a sum: not a trigonometric polynomial")
        ((monomial, angle), (re, im)), = other.terms.items()
        size = re * re + im * im
        inverse = (tuple((name, -k) for name, k in monomial), tuple((n, -k) for n, k in angle))
        return self * Harmonics({inverse: (re / size, -im / size)})

    def __rtruediv__(self, other: Any) -> Harmonics:
        return _lift(other) / self

    def __rsub__(self, other: Any) -> Harmonics:
        return _lift(other) - self

    __radd__ = __add__
    __rmul__ = __mul__

    def cos(self) -> Harmonics:
        up, down = self._exponentials()
        return (up + down) * 0.5

    def sin(self) -> Harmonics:
        up, down = self._exponentials()
        return (up - down) * Harmonics({((), ()): (Fraction(0), Fraction(-1, 2))})

    def _exponentials(self) -> tuple[Harmonics, Harmonics]:
        """exp(i x) and exp(-i x) for x a whole combination of symbols."""
        angle = []
        for (monomial, trig), (re, im) in self.terms.items():
            if trig or im or len(monomial) != 1 or monomial[0][1] != 1 or re.denominator != 1:
                raise ArithmeticError("the angle is no whole combination of symbols")
            angle.append((monomial[0][0], int(re)))
        up = tuple(sorted(angle))
        one = Fraction(1), Fraction(0)
        return (Harmonics({((), up): one}),
                Harmonics({((), tuple((name, -k) for name, k in up)): one}))

    def real_terms(self) -> dict[tuple[Monomial, str, Angle], Fraction]:
        """(monomial, "cos" or "sin" or "", angle) -> coefficient; leading angle positive."""
        result: dict[tuple[Monomial, str, Angle], Fraction] = {}
        for (monomial, angle), (re, im) in self.terms.items():
            if not angle:
                result[monomial, "", angle] = re
            elif angle[0][1] > 0:  # the conjugate term doubles it
                if re:
                    result[monomial, "cos", angle] = 2 * re
                if im:
                    result[monomial, "sin", angle] = -2 * im
        return result


def _lift(x: Any) -> Harmonics:
    return x if isinstance(x, Harmonics) else Harmonics.number(float(x))


def _merge(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials, or the sum of two angles."""
    if not a or not b:
        return a or b
    powers = dict(a)
    for name, k in b:
        powers[name] = powers.get(name, 0) + k
    return tuple(sorted((name, k) for name, k in powers.items() if k))
