"""A Runge-Kutta method is data: a Butcher tableau that knows how to check itself.

    Y_i = y + h sum_j a_ij f(t + c_j h, Y_j),      y' = y + h sum_i b_i f(t + c_i h, Y_i)

The method has order p if sum_i b_i Phi_i(tree) = 1/gamma(tree) for each rooted tree of at
most p nodes [Butcher; Hairer, Norsett, Wanner I, II.2]; `Tableau.order_defect` tests all of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Number = Fraction | float
Tree = tuple["Tree", ...]
"""A rooted tree: the subtrees on its root, sorted."""


@dataclass(frozen=True, slots=True)
class Tableau:
    """The coefficients of a method, and what its error is estimated from.

    Weights in `errors`, `dense` and the rows of `extra` are over f at the stages, then over f
    at the new state y', which a step always evaluates: it is the next step's first stage.
    """

    name: str
    order: int
    a: tuple[tuple[Number, ...], ...]
    """One row for each stage: of the earlier stages (explicit), or of all (implicit)."""
    b: tuple[Number, ...]
    c: tuple[Number, ...]
    errors: tuple[tuple[Number, ...], ...] = ()
    """Weights of the local error; with two rows, they are combined as in DOP853."""
    error_order: int = 0
    """Order of the formula the error compares with: the error shrinks as h^(error_order + 1)."""
    extra: tuple[tuple[Number, ...], ...] = ()
    """Further stages, evaluated when an output lies within the step."""
    extra_c: tuple[Number, ...] = ()
    dense: tuple[tuple[Number, ...], ...] = ()
    """Rows F_r, the weights of y(t + x h) = y + h x (F_0 + (1 - x)(F_1 + x (F_2 + ...)))."""

    def __post_init__(self) -> None:
        stages = len(self.b)
        if len(self.a) != stages or len(self.c) != stages:
            raise ValueError(f"{self.name}: {len(self.a)} rows of a and {len(self.c)} nodes c, "
                             f"expected {stages} of both, one for each weight b")
        widths = {len(row) for row in self.a}
        if [len(row) for row in self.a] != list(range(stages)) and widths != {stages}:
            raise ValueError(f"{self.name}: a is neither strictly lower triangular nor square")
        for i, (row, node) in enumerate(zip(self.a, self.c, strict=True)):
            if abs(sum(row) - node) > 1e-13:
                raise ValueError(f"{self.name}: row {i} of a sums to {sum(row)}, "
                                 f"expected c = {node}")

    def order_defect(self, order: int, b: Sequence[Number] | None = None) -> Number:
        """The largest violation of the order conditions up to an order, of b or other weights."""
        weights = self.b if b is None else b
        return max(abs(sum(w * phi for w, phi in zip(weights, self._phi(tree), strict=True))
                       - value)
                   for n in range(1, order + 1) for tree, value in order_conditions(n))

    def _phi(self, tree: Tree) -> list[Number]:
        """Phi_i: over the subtrees on the root, the product of sum_j a_ij Phi_j."""
        values: list[Number] = [Fraction(1)] * len(self.b)
        for branch in tree:
            inner = self._phi(branch)
            values = [v * sum((a * x for a, x in zip(row, inner, strict=False)), Fraction(0))
                      for v, row in zip(values, self.a, strict=True)]
        return values


def fraction_row(text: str) -> tuple[Fraction, ...]:
    """Fractions, separated by blanks."""
    return tuple(map(Fraction, text.split()))


def fraction_rows(text: str) -> tuple[tuple[Fraction, ...], ...]:
    """Rows of fractions, one on each line."""
    return tuple(map(fraction_row, text.strip("\n").split("\n")))


@cache
def trees(nodes: int) -> tuple[Tree, ...]:
    """All rooted trees of so many nodes: 1, 1, 2, 4, 9, 20, 48, 115, ..."""
    return tuple(sorted({tuple(sorted(forest)) for forest in _forests(nodes - 1)}))


def order_conditions(nodes: int) -> list[tuple[Tree, Fraction]]:
    """All rooted trees of so many nodes, and what the weighted sum of Phi is for each: 1/gamma."""
    return [(tree, Fraction(1, _gamma(tree))) for tree in trees(nodes)]


def _forests(nodes: int) -> Iterator[list[Tree]]:
    if nodes == 0:
        yield []
    for first in range(1, nodes + 1):
        for tree in trees(first):
            for rest in _forests(nodes - first):
                yield [tree, *rest]


def size(tree: Tree) -> int:
    """The number of nodes."""
    return 1 + sum(map(size, tree))


def _gamma(tree: Tree) -> int:
    """The density: the product of the sizes of all its subtrees."""
    product = size(tree)
    for branch in tree:
        product *= _gamma(branch)
    return product
