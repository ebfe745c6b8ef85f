"""The dual number: a scalar and its derivative in one direction, on any scalar.

It differentiates what a user wrote, such as the subspace of a joint, where it stands in a text.
What does not depend on the direction stays a plain scalar: its derivative is a literal zero.

>>> x = Dual(3.0, 1.0)
>>> derivative(x * x + 2), derivative(7.0)
(6.0, 0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nlink.scalars.functions import literal
from nlink.scalars.primitives import PRIMITIVES, Primitive, Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """value + eps * change with eps^2 = 0."""

    value: Scalar
    change: Scalar

    __array_ufunc__ = None

    def apply_primitive(self, row: Primitive, *arguments: Scalar) -> Scalar:
        """The chain rule, from the partial derivatives in the primitive's row."""
        values = [value_of(x) for x in arguments]
        result = row.apply(*values)
        if row.is_truth:
            return result
        change: Scalar = 0
        for x, partial in zip(arguments, row.derivatives(*values, result=result), strict=True):
            if isinstance(x, Dual):
                change = change + x.change * partial
        return dual(result, change)

    def __add__(self, other: Any) -> Scalar:
        return self._operate("add", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return self._operate("add", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return self._operate("sub", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return self._operate("sub", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return self._operate("mul", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return self._operate("mul", other, self)

    def __truediv__(self, other: Any) -> Scalar:
        return self._operate("div", self, other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return self._operate("div", other, self)

    def __neg__(self) -> Scalar:
        return self._operate("neg", self)

    def __abs__(self) -> Scalar:
        return self._operate("abs", self)

    def __pow__(self, exponent: int) -> Scalar:
        return dual(self.value ** exponent, self.change * exponent * self.value ** (exponent - 1))

    def __lt__(self, other: Any) -> Scalar:
        return self.value < value_of(other)

    def __gt__(self, other: Any) -> Scalar:
        return self.value > value_of(other)

    def __le__(self, other: Any) -> Scalar:
        return self.value <= value_of(other)

    def __ge__(self, other: Any) -> Scalar:
        return self.value >= value_of(other)

    def _operate(self, name: str, *arguments: Scalar) -> Scalar:
        return self.apply_primitive(PRIMITIVES[name], *arguments)


def dual(value: Scalar, change: Scalar) -> Scalar:
    """A dual number, or the scalar itself where it does not change."""
    return value if literal(change) == 0 else Dual(value, change)


def value_of(x: Scalar) -> Scalar:
    """The scalar of a dual number, or of a plain one."""
    return x.value if isinstance(x, Dual) else x


def derivative(x: Scalar) -> Scalar:
    """The derivative of a dual number, zero of a plain one."""
    return x.change if isinstance(x, Dual) else 0
