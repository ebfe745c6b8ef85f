"""The functions an algorithm may apply to a scalar, whatever the scalar is.

Numbers and NumPy arrays give numbers and arrays, traced values give traced values, SymPy's give
SymPy's; arrays and lists of traced values work element by element. Controllers and events
written by users import these names from `nlink`; docs/adding-a-scalar.md has a table of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from nlink.scalars.primitives import Scalar, Scalars, divide, on

__all__ = ["Scalar", "Scalars", "abs", "atan2", "clip", "cos", "divide", "exp", "float_bits",
           "floor", "from_float_bits", "largest", "less", "less_equal", "literal", "log", "maximum",
           "minimum", "pow", "scramble", "sign", "sin", "sqrt", "tanh", "where"]


def literal(x: Scalar) -> float | None:
    """The value of a scalar that is known to be a number, None if it is not.

    This is structure, not a value: a zero that was written down, or that folding left.
    """
    if isinstance(x, int | float):
        return float(x)
    return x.value if getattr(x, "op", None) == "const" else None


def sin(x: Scalar) -> Scalar:
    """Sine of any scalar.

    >>> import nlink
    >>> nlink.sin(0.0)
    0.0
    """
    return on("sin", x)


def cos(x: Scalar) -> Scalar:
    """Cosine of any scalar.

    >>> import nlink
    >>> nlink.cos([0.0, 0.0])
    array([1., 1.])
    """
    return on("cos", x)


def sqrt(x: Scalar) -> Scalar:
    """Square root of any scalar.

    >>> import nlink
    >>> nlink.sqrt(2.25)
    1.5
    """
    return on("sqrt", x)


def exp(x: Scalar) -> Scalar:
    """e to the power of any scalar.

    >>> import nlink
    >>> nlink.exp(0.0)
    1.0
    """
    return on("exp", x)


def log(x: Scalar) -> Scalar:
    """Natural logarithm of any scalar; -inf of 0, nan below.

    >>> import nlink
    >>> nlink.log(1.0)
    0.0
    """
    return on("log", x)


def tanh(x: Scalar) -> Scalar:
    """Hyperbolic tangent of any scalar: a sign without the jump.

    >>> import nlink
    >>> nlink.tanh(0.0)
    0.0
    """
    return on("tanh", x)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), from -pi to pi.

    >>> import nlink
    >>> nlink.atan2(0.0, 2.0)
    0.0
    """
    return on("atan2", y, x)


def pow(x: Scalar, exponent: Scalar) -> Scalar:
    """x to any power; whole powers written as x**3 are multiplied out and faster.

    >>> import nlink
    >>> nlink.pow(2.25, 0.5)
    1.5
    """
    return on("pow", x, exponent)


def floor(x: Scalar) -> Scalar:
    """The whole number at or below any scalar.

    >>> import nlink
    >>> nlink.floor(-1.5)
    -2.0
    """
    return on("floor", x)


def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1 of any scalar.

    >>> import nlink
    >>> nlink.sign(-2.5)
    -1.0
    """
    return on("sign", x)


def abs(x: Scalar) -> Scalar:
    """The absolute value of any scalar.

    >>> import nlink
    >>> nlink.abs(-2.5)
    2.5
    """
    return on("abs", x)


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """The smaller of two scalars; nan if one is.

    >>> import nlink
    >>> nlink.minimum(1.0, 2.0)
    1.0
    """
    return on("minimum", a, b)


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """The larger of two scalars; nan if one is.

    >>> import nlink
    >>> nlink.maximum(1.0, 2.0)
    2.0
    """
    return on("maximum", a, b)


def largest(values: Iterable[Scalar]) -> Scalar:
    """The largest absolute value of scalars, 0 of none."""
    most: Scalar = 0.0
    for x in values:
        most = maximum(most, abs(x))
    return most


def clip(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """x, limited to at least `low` and at most `high`; nan if any of them is.

    >>> clip(3.0, -1.0, 2.0)
    2.0
    """
    return minimum(maximum(x, low), high)


def less(a: Scalar, b: Scalar) -> Scalar:
    """Whether a < b, as a truth value for `where` (combined by & | ~); nan is never less.

    >>> where(less(1.0, 2.0) & ~less(3.0, 2.0), 10.0, 20.0)
    10.0
    """
    return on("less", a, b)


def less_equal(a: Scalar, b: Scalar) -> Scalar:
    """Whether a <= b, as a truth value for `where`.

    >>> import nlink
    >>> nlink.where(nlink.less_equal(1.0, 1.0), 3.0, 4.0)
    3.0
    """
    return on("less_equal", a, b)


def where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """a where the condition holds, else b; the side not chosen does not matter, even if it is nan.

    >>> import nlink
    >>> nlink.where(nlink.less(2.0, 1.0), 3.0, 4.0)
    4.0
    """
    return on("where", condition, a, b)


def float_bits(x: Scalar) -> Scalar:
    """The bits of a double as a signed integer, as a double: for x > 0 a logarithm in pieces of
    straight lines, 2^52 (log2 x + 1023) at powers of two. The same bits everywhere.

    >>> float_bits(8.0) - float_bits(2.0) == 2 * 2.0**52
    True
    """
    return on("float_bits", x)


def from_float_bits(y: Scalar) -> Scalar:
    """The double whose bits are the whole part of y: the inverse of `float_bits`."""
    return on("from_float_bits", y)


def scramble(a: Scalar, b: Scalar) -> Scalar:
    """A number between 0 and 1 that looks random and depends on the bits of a and b alone.

    >>> scramble(1.0, 2.0) == scramble(1.0, 2.0) != scramble(2.0, 1.0)
    True
    """
    return on("scramble", a, b)
