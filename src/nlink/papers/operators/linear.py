"""Linear operators on stacked vectors: composed with `@`, applied without their matrices.

A stacked vector has one block for each body (a twist, a wrench: six numbers) or for each
joint (its rates). An operator maps one stack to another. Products, sums and transposes are
operators again and are applied factor by factor, so an expression such as
`Nd.T @ Nl.T @ M @ Nl @ Nd` costs O(n) however large its matrix is; `dense()` is that matrix.

Blocks are numbered from 1, as in the papers: `op(i, j)` is a block, `op(i)` one on the
diagonal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from nlink.papers.operators.operator_sweeps import Plan

Array = np.ndarray
Sizes = tuple[int, ...]
"""The lengths of the blocks of a stack."""

DIAGRAM = 16
"""Larger operators are described by their sizes alone."""


class Operator(ABC):
    """A linear map between stacks.

    To implement one:
    1. pass its `name`, the sizes of its row and column blocks, and its definition in one phrase
       if that is not the name, to `__init__`;
    2. `apply(x)` and `apply_transposed(x)` act on the columns of a two-dimensional array, in
       O(blocks) for each;
    3. `pattern` says which blocks are not zero by structure, and draws the diagram.
    """

    __array_ufunc__ = None  # array @ operator is refused, not looped over

    def __init__(self, name: str, rows: Iterable[int], columns: Iterable[int],
                 definition: str | None = None) -> None:
        self.name, self.definition = name, definition or name
        self.rows: Sizes = tuple(rows)
        self.columns: Sizes = tuple(columns)

    @abstractmethod
    def apply(self, x: Array) -> Array: ...

    @abstractmethod
    def apply_transposed(self, x: Array) -> Array: ...

    @property
    @abstractmethod
    def pattern(self) -> Array:
        """(row blocks, column blocks) of booleans: where a block may differ from zero."""

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.rows), sum(self.columns)

    @property
    def T(self) -> Operator:
        return Transposed(self)

    @property
    def inv(self) -> Operator:
        """The inverse, where it is a recursion again; see `nlink.papers.operators.inverse`."""
        from nlink.papers.operators.inverse import inverse

        return inverse(self)

    def explain(self) -> Plan:
        """The sweeps that applying the operator takes; see `operator_sweeps`."""
        from nlink.papers.operators.operator_sweeps import explain

        return explain(self)

    @overload
    def __matmul__(self, other: Operator) -> Operator: ...

    @overload
    def __matmul__(self, other: ArrayLike) -> Array: ...

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, Operator):
            return OperatorProduct(self, other)
        x = np.asarray(other)
        if x.ndim not in (1, 2) or len(x) != self.shape[1]:
            raise ValueError(f"{self.name} @ x: x has shape {x.shape}, "
                             f"expected ({self.shape[1]},) or ({self.shape[1]}, k)")
        y = self.apply(x.reshape(len(x), -1))
        return y[:, 0] if x.ndim == 1 else y

    def __add__(self, other: Operator | complex) -> Operator:
        return OperatorSum(self, self._lift(other))

    def __sub__(self, other: Operator | complex) -> Operator:
        return OperatorSum(self, -self._lift(other))

    def __radd__(self, other: complex) -> Operator:
        return OperatorSum(self._lift(other), self)

    def __rsub__(self, other: complex) -> Operator:
        return OperatorSum(self._lift(other), -self)

    def __mul__(self, factor: Any) -> Operator:
        return Scaled(factor, self)

    __rmul__ = __mul__

    def __neg__(self) -> Operator:
        return Scaled(-1, self)

    def _lift(self, other: Operator | complex) -> Operator:
        """A number means that multiple of the identity."""
        if isinstance(other, Operator):
            return other
        if self.rows != self.columns:
            raise ValueError(f"{self.name} + {other}: only square operators have an identity, "
                             f"this is {self.shape[0]} x {self.shape[1]}")
        one = Identity(self.rows)
        return one if other == 1 else Scaled(other, one)

    def dense(self) -> Array:
        """The matrix: the operator applied to all unit vectors."""
        return self.apply(np.eye(self.shape[1]))

    def __call__(self, i: int, j: int | None = None) -> Array:
        """Block (i, j), or (i, i), counted from 1."""
        j = i if j is None else j
        row, column = span(self.rows, i, "row"), span(self.columns, j, "column")
        return self.apply(np.eye(self.shape[1])[:, column])[row]

    def renamed(self, name: str) -> Operator:
        """The same operator under a name of its own, for reprs of what is made of it."""
        return Named(name, self)

    def __repr__(self) -> str:
        size = f"{self.shape[0]} x {self.shape[1]}"
        blocks = f"{len(self.rows)} x {len(self.columns)} blocks"
        head = f"{self.name}: {size}, {blocks}{_block_size(self.rows, self.columns)}"
        if self.definition != self.name:
            head += f"; {self.definition}"
        if max(len(self.rows), len(self.columns)) > DIAGRAM:
            return head
        lines = ("  " + " ".join("#" if full else "." for full in row) for row in self.pattern)
        return "\n".join((head, *lines))


def span(sizes: Sizes, i: int, what: str) -> slice:
    """Where block i (from 1) of a stack lies."""
    if not 1 <= i <= len(sizes):
        raise ValueError(f"{what} {i}: expected a number from 1 to {len(sizes)}")
    start = sum(sizes[:i - 1])
    return slice(start, start + sizes[i - 1])


def _block_size(rows: Sizes, columns: Sizes) -> str:
    if len(set(rows)) == len(set(columns)) == 1:
        return f" of {rows[0]} x {columns[0]}"
    return ""


class Transposed(Operator):
    """The transpose: an outward recursion becomes an inward one."""

    def __init__(self, of: Operator) -> None:
        name = f"({of.name})" if isinstance(of, OperatorSum | OperatorProduct | Scaled) else of.name
        twice = name.endswith("^T") and " " not in name
        super().__init__(name[:-2] if twice else f"{name}^T", of.columns, of.rows)
        self.of = of

    def apply(self, x: Array) -> Array:
        return self.of.apply_transposed(x)

    def apply_transposed(self, x: Array) -> Array:
        return self.of.apply(x)

    @property
    def pattern(self) -> Array:
        return self.of.pattern.T

    @property
    def T(self) -> Operator:
        return self.of


class OperatorProduct(Operator):
    """Factors one after the other, the last first."""

    def __init__(self, *factors: Operator) -> None:
        flat = tuple(g for f in factors
                     for g in (f.factors if isinstance(f, OperatorProduct) else (f,)))
        for a, b in pairwise(flat):
            if a.columns != b.rows:
                raise ValueError(f"{a.name} @ {b.name}: {a.shape[0]} x {a.shape[1]} does not "
                                 f"compose with {b.shape[0]} x {b.shape[1]}")
        name = " ".join(f"({f.name})" if isinstance(f, OperatorSum) else f.name for f in flat)
        super().__init__(name, flat[0].rows, flat[-1].columns)
        self.factors = flat

    def apply(self, x: Array) -> Array:
        for factor in reversed(self.factors):
            x = factor.apply(x)
        return x

    def apply_transposed(self, x: Array) -> Array:
        for factor in self.factors:
            x = factor.apply_transposed(x)
        return x

    @property
    def T(self) -> Operator:
        return OperatorProduct(*(factor.T for factor in reversed(self.factors)))

    @property
    def pattern(self) -> Array:
        total = self.factors[0].pattern.astype(int)
        for factor in self.factors[1:]:
            total = np.minimum(total @ factor.pattern, 1)
        return total.astype(bool)


class OperatorSum(Operator):
    """Operators between the same stacks, added."""

    def __init__(self, *terms: Operator) -> None:
        flat = tuple(s for t in terms for s in (t.terms if isinstance(t, OperatorSum) else (t,)))
        for other in flat[1:]:
            if (other.rows, other.columns) != (flat[0].rows, flat[0].columns):
                raise ValueError(f"{flat[0].name} + {other.name}: {flat[0].shape[0]} x "
                                 f"{flat[0].shape[1]} does not add to {other.shape[0]} x "
                                 f"{other.shape[1]}")
        name = " + ".join(term.name for term in flat).replace("+ -", "- ")
        super().__init__(name, flat[0].rows, flat[0].columns)
        self.terms = flat

    def apply(self, x: Array) -> Array:
        return sum((term.apply(x) for term in self.terms[1:]), self.terms[0].apply(x))

    def apply_transposed(self, x: Array) -> Array:
        first, *rest = self.terms
        return sum((term.apply_transposed(x) for term in rest), first.apply_transposed(x))

    @property
    def pattern(self) -> Array:
        return np.any([term.pattern for term in self.terms], axis=0)


class Scaled(Operator):
    """A number times an operator."""

    def __init__(self, factor: Any, of: Operator) -> None:
        name = f"({of.name})" if isinstance(of, OperatorSum) else of.name
        sign = "-" if factor == -1 else f"{factor:g} "
        super().__init__(f"{sign}{name}", of.rows, of.columns)
        self.factor, self.of = factor, of

    def apply(self, x: Array) -> Array:
        return self.factor * self.of.apply(x)

    def apply_transposed(self, x: Array) -> Array:
        return self.factor * self.of.apply_transposed(x)

    @property
    def pattern(self) -> Array:
        return self.of.pattern


class Identity(Operator):
    """1."""

    def __init__(self, sizes: Iterable[int]) -> None:
        sizes = tuple(sizes)
        super().__init__("1", sizes, sizes)

    def apply(self, x: Array) -> Array:
        return x

    def apply_transposed(self, x: Array) -> Array:
        return x

    @property
    def pattern(self) -> Array:
        return np.eye(len(self.rows), dtype=bool)


class Named(Operator):
    """An operator that goes by a name of its own, and is defined by its old one if not in words."""

    def __init__(self, name: str, of: Operator, definition: str | None = None) -> None:
        super().__init__(name, of.rows, of.columns, definition or of.definition)
        self.of = of

    def apply(self, x: Array) -> Array:
        return self.of.apply(x)

    def apply_transposed(self, x: Array) -> Array:
        return self.of.apply_transposed(x)

    @property
    def pattern(self) -> Array:
        return self.of.pattern
