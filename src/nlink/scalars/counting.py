"""The counting scalar: an algorithm's operations as its text performs them.

It has no value, only a tally. Literal zeros and ones cost nothing, changes of sign are
free (they merge with the next addition), and what parameters alone determine is computed
off-line, which is how the papers count. Unlike the graph it shares nothing: the difference
of the two counts is what common subexpressions save.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.scalars.graph import operation
from nlink.scalars.notebook import html_table
from nlink.scalars.primitives import Primitive

if TYPE_CHECKING:
    from nlink.programs.program import Program


@dataclass(frozen=True, slots=True, repr=False)
class Count:
    """Operations for one state; changes of sign merge with additions and are free.

    >>> import nlink
    >>> c = nlink.count(nlink.load("planar3"), "inverse_dynamics")
    >>> c.mul, c.add, c.total
    (27, 23, 50)
    """

    mul: int = 0
    add: int = 0
    div: int = 0
    sqrt: int = 0
    trig: int = 0
    """Sines, cosines and the other functions of a mathematics library."""
    sign: int = 0
    compare: int = 0
    """Comparisons, choices, absolute values and roundings; truths combine for nothing."""

    @property
    def total(self) -> int:
        """Multiplications, divisions, additions and square roots, as the papers total them."""
        return self.mul + self.add + self.div + self.sqrt

    def __str__(self) -> str:
        extra = "".join(f" {n} {name}" for name in ("div", "sqrt") if (n := getattr(self, name)))
        return f"{self.mul}M {self.add}A{extra}"

    def _present(self) -> list[tuple[str, int]]:
        return [(each.name, n) for each in fields(self)
                if (n := getattr(self, each.name)) or each.name in ("mul", "add")]

    def __repr__(self) -> str:
        return f"Count({', '.join(f'{name}={n}' for name, n in self._present())})"

    def _repr_html_(self) -> str:
        rows = [(name, n) for name, n in (*self._present(), ("total", self.total))]
        return html_table("operations for one state", ("", ""), rows)


def count_program(program: Program) -> Count:
    """The operations of a traced program that depend on the state."""
    kinds = Counter(counts for node in program.live()
                    if node.op not in ("const", "input") and not node.offline
                    and (counts := operation(node.op).counts))
    return Count(**kinds)


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """A scalar that counts; `offline` ones are parameters and cost nothing among themselves.

    >>> tally = Counter()
    >>> x, p = Counted(tally), Counted(tally, offline=True)
    >>> _ = x * 0 + x * 1 + x * (p * p)
    >>> tally["mul"], tally["add"]
    (1, 1)
    """

    tally: Counter[str] = field(repr=False)
    offline: bool = False

    __array_ufunc__ = None

    def _operate(self, kind: str | None, *others: Any) -> Counted:
        if not all(isinstance(x, Counted | int | float | np.number | np.bool_) for x in others):
            return NotImplemented
        offline = all(x.offline for x in (self, *others) if isinstance(x, Counted))
        if kind and not offline:
            self.tally[kind] += 1
        return Counted(self.tally, offline)

    def apply_primitive(self, row: Primitive, *arguments: Any) -> Counted:
        """Any function of `nlink`, its truths too."""
        return self._operate(row.counts, *arguments)

    def __add__(self, other: Any) -> Counted:
        return self if _literal(other, 0) else self._operate("add", other)

    def __mul__(self, other: Any) -> Any:
        if _literal(other, 0):
            return 0
        return self if _literal(other, 1) or _literal(other, -1) else self._operate("mul", other)

    def __truediv__(self, other: Any) -> Counted:
        if isinstance(other, Counted):
            return self._operate("div", other)
        return self * other  # times the reciprocal of a constant

    def __rtruediv__(self, other: Any) -> Any:
        return 0 if _literal(other, 0) else self._operate("div", other)

    def __neg__(self) -> Counted:
        return self

    __radd__ = __sub__ = __rsub__ = __add__
    __rmul__ = __mul__

    def _compare(self, other: Any) -> Counted:
        return self._operate("compare", other)

    def _combine(self, other: Any) -> Counted:
        return self._operate(None, other)

    __lt__ = __le__ = __gt__ = __ge__ = _compare
    __and__ = __rand__ = __or__ = __ror__ = _combine
    __invert__ = __neg__

    def __abs__(self) -> Counted:
        return self._operate("compare")

    def __bool__(self) -> bool:
        raise TypeError("a counting scalar has no truth value: branch on structure, not on values")


def _literal(x: Any, value: float) -> bool:
    return not isinstance(x, Counted) and x == value
