"""Numbers modulo a prime: exact arithmetic in which the rank of a matrix is no matter of rounding.

A polynomial that is not zero vanishes at random numbers modulo a prime of 31 bits with a
probability of its degree over 2e9. Sine and cosine of x are a rational point of the circle that
depends on x at random,

    cos = (1 - t^2) / (1 + t^2),    sin = 2 t / (1 + t^2),    t = mix(x),

as x, sin x and cos x obey no other equation with rational coefficients; and functions such as tanh
are numbers at random. What holds of such numbers holds of all.

>>> x = Residue.random((4,), np.random.default_rng(0))
>>> bool((sin(x) * sin(x) + cos(x) * cos(x) - 1).values.any())
False
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from nlink.scalars.functions import cos, sin
from nlink.scalars.primitives import Primitive, Scalar

__all__ = ["PRIME", "Residue", "cos", "reduced", "residue_of", "sin"]

PRIME = 2**31 - 1
_SALT = {name: 0x9E3779B97F4A7C15 * (k + 1) % 2**64 for k, name in enumerate(
    ("angle", "tanh", "exp", "abs", "sign", "sqrt"))}


def residue_of(x: int | float | Fraction) -> int:
    """A rational number modulo the prime; a float is one."""
    if isinstance(x, int):
        return x % PRIME
    exact = Fraction(x)
    return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


@dataclass(frozen=True, slots=True, eq=False)
class Residue:
    """Numbers modulo the prime, an array of them."""

    values: np.ndarray

    __array_ufunc__ = None

    @classmethod
    def random(cls, shape: tuple[int, ...], rng: np.random.Generator) -> Residue:
        return cls(rng.integers(1, PRIME, shape, dtype=np.int64))

    def apply_primitive(self, row: Primitive, *arguments: Scalar) -> Scalar:
        if row.name in ("sin", "cos"):
            t = self._mixed("angle")
            inverse = 1 / (t * t + 1)
            return (1 - t * t) * inverse if row.name == "cos" else 2 * t * inverse
        if row.name not in _SALT:
            raise TypeError(f"{row.name} of a number modulo a prime, expected a rational function, "
                            "sine or cosine")
        return self._mixed(row.name)

    def __add__(self, other: Any) -> Residue:
        return Residue((self.values + _values(other)) % PRIME)

    __radd__ = __add__

    def __neg__(self) -> Residue:
        return Residue(-self.values % PRIME)

    def __sub__(self, other: Any) -> Residue:
        return Residue((self.values - _values(other)) % PRIME)

    def __rsub__(self, other: Any) -> Residue:
        return Residue((_values(other) - self.values) % PRIME)

    def __mul__(self, other: Any) -> Residue:
        return Residue(self.values * _values(other) % PRIME)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Residue:
        return self * Residue(_inverse(np.asarray(_values(other), dtype=np.int64)))

    def __rtruediv__(self, other: Any) -> Residue:
        return Residue(_values(other) * _inverse(self.values) % PRIME)

    def __abs__(self) -> Residue:
        return self._mixed("abs")

    def _mixed(self, name: str) -> Residue:
        """Numbers that look random and depend on these alone [Steele, Lea, Flood 2014]."""
        z = self.values.astype(np.uint64) + np.uint64(_SALT[name])
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        return Residue(((z ^ (z >> np.uint64(31))) % np.uint64(PRIME)).astype(np.int64))


def _values(x: Any) -> Any:
    return x.values if isinstance(x, Residue) else residue_of(x)


def _inverse(x: np.ndarray) -> np.ndarray:
    """x^(p - 2), which is 1 / x."""
    result, square, exponent = np.ones_like(x), x % PRIME, PRIME - 2
    while exponent:
        if exponent & 1:
            result = result * square % PRIME
        square = square * square % PRIME
        exponent >>= 1
    return result


def reduced(matrix: np.ndarray) -> tuple[list[int], np.ndarray]:
    """The pivots and the rows of the reduced echelon form of a matrix modulo the prime: columns
    that do not depend on those before them, and how each column is made of those."""
    rows = matrix % PRIME
    pivots: list[int] = []
    for column in range(rows.shape[1]):
        done = len(pivots)
        candidates = np.flatnonzero(rows[done:, column])
        if not len(candidates):
            continue
        best = done + int(candidates[0])
        rows[[done, best]] = rows[[best, done]]
        rows[done] = rows[done] * pow(int(rows[done, column]), -1, PRIME) % PRIME
        others = np.flatnonzero(rows[:, column])
        others = others[others != done]
        rows[others] = (rows[others] - rows[others, column][:, None] * rows[done]) % PRIME
        pivots.append(column)
    return pivots, rows[:len(pivots)]
