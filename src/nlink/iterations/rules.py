"""Small rules that methods share: tolerances, step sizes, choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nlink.iterations.iteration import Column
from nlink.scalars.functions import (
    Scalar,
    float_bits,
    from_float_bits,
    less,
    less_equal,
    maximum,
    sqrt,
    where,
)

UNCOUNTED = 1e300
"""The tolerance of elements that have no error: what is divided by it vanishes in a sum."""


def tolerance(given: Any, *columns: Column) -> Column:
    """atol + rtol max |columns|, element by element; elements that only jump have no error."""
    size = abs(columns[0])
    for column in columns[1:]:
        size = maximum(size, abs(column))
    scale = given.rtol * size + given.atol
    if not given.discrete:
        return scale
    return where(less(given.index, given.continuous), scale, UNCOUNTED)


def mean_root(square: Scalar, given: Any) -> Scalar:
    """The root of the mean over all elements that count, from their sum."""
    return sqrt(square * given.share)


def smaller(a: Scalar, b: Scalar) -> Scalar:
    """The smaller one, b where a is nan."""
    return where(less(a, b), a, b)


def larger(a: Scalar, b: Scalar) -> Scalar:
    """The larger one, b where a is nan."""
    return where(less(b, a), a, b)


def not_finite(column: Column) -> Column:
    """0, or nan where an element is not finite."""
    return where(less(abs(column), math.inf), 0.0, math.nan)


def inverse_root(x: Scalar, q: int) -> Scalar:
    """About x^(-1/q) for x between 1e-10 and 1e10, where nan counts as large: from its exponent,
    then by Newton's r += r (1 - x r^q) / q."""
    x = larger(smaller(x, 1e10), 1e-10)
    # the bits of a double, as an integer, are about 2^52 (log2 x + 1023)
    bias = 1022.96 * 2.0**52
    r = from_float_bits(float_bits(x) * (-1 / q) + bias * (1 + 1 / q))
    for _ in range(4):
        power = x
        for _ in range(q):
            power = power * r
        # abs: the power is rounded like the others, not fused into the difference
        r = r + r * ((1.0 - abs(power)) * (1 / q))
    return r


def pick(k: Scalar, values: Sequence[Scalar], first: int = 0) -> Scalar:
    """values[k - first], k being a whole number."""
    result = values[0]
    for j, value in enumerate(values[1:], first + 1):
        result = where(less_equal(float(j), k), value, result)
    return result


def rough_root(x: Scalar, k: Scalar) -> Scalar:
    """About x^(-1/(k+1)) for x around 1, from the exponent alone."""
    one = 1023.0 * 2.0**52
    bits = float_bits(larger(smaller(x, 1e10), 1e-10))
    return from_float_bits(one + (one - bits) / (k + 1.0))
