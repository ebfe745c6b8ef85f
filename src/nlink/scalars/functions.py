"""The functions an algorithm may apply to a scalar, whatever the scalar is.

A scalar that knows a function answers with a method of that name (graph nodes,
counting scalars); numbers and NumPy arrays go to NumPy; SymPy expressions to SymPy.
Control laws written by users import these names from `nlink`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Scalar = Any
"""Anything with + - * / and the functions below; see docs/adding-a-scalar.md."""


def _apply(name: str, x: Scalar) -> Scalar:
    if isinstance(x, (float, int)):
        return _MATH[name](x)
    method = getattr(x, name, None)
    if method is not None:
        return method()
    if hasattr(x, "free_symbols"):
        import sympy

        return getattr(sympy, name)(x)
    return getattr(np, name)(x)


def _nan_on_domain_error(function):
    def total(x: float) -> float:
        try:
            return function(x)
        except ValueError:  # math.sin(inf), math.sqrt(-1): NumPy and the kernels say nan
            return math.nan

    return total


_MATH = {
    "sin": _nan_on_domain_error(math.sin),
    "cos": _nan_on_domain_error(math.cos),
    "sqrt": _nan_on_domain_error(math.sqrt),
    "sign": lambda x: math.nan if math.isnan(x) else math.copysign(1.0, x) if x else 0.0,
}


def literal(x: Scalar) -> float | None:
    """The value of a scalar that is known to be a number, None if it is not.

    This is structure, not a value: a zero that was written down, or that folding left.
    """
    if isinstance(x, int | float):
        return float(x)
    return x.value if getattr(x, "op", None) == "const" else None


def divide(a: Scalar, b: Scalar) -> Scalar:
    """a / b with IEEE results for floats: 1/0 is inf and 0/0 is nan, as in arrays and kernels."""
    try:
        return a / b
    except ZeroDivisionError:
        return math.copysign(math.inf, a) * math.copysign(1.0, b) if a else math.nan


def sin(x: Scalar) -> Scalar:
    """Sine of any scalar."""
    return _apply("sin", x)


def cos(x: Scalar) -> Scalar:
    """Cosine of any scalar."""
    return _apply("cos", x)


def sqrt(x: Scalar) -> Scalar:
    """Square root of any scalar."""
    return _apply("sqrt", x)


def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1 of any scalar."""
    return _apply("sign", x)
