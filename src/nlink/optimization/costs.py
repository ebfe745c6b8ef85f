"""Costs as users write them, and their quadratic models.

A cost is a function of (q, qd, u), or of (q, qd) at the end, on traced values. It gives

    a number c             and then its model has the exact second derivatives,
    an array r             which means |r|^2 / 2, with the Gauss-Newton matrix J^T J,
    a tuple of such        which means their sum.

Changes of q are rates in the tangent space at q. With q' = T(q) d, the gradient by d is T^T c_q,
and its derivatives along T(q) d, made symmetric, are the second derivatives along q exp(d).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from nlink.model.spaces import Space
from nlink.scalars.differentiation import jacobian, pullback, pushforward
from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Graph, Node
from nlink.scalars.misuse import explained

Nodes = list[Node]
Cost = Callable[..., Any]


def dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Any:
    """The sum of products."""
    return sum((x * y for x, y in zip(a, b, strict=True)), 0.0)


@dataclass(frozen=True)
class QuadraticModel:
    """A cost near a point, c + g d + d^T H d / 2, with d = (dq, dqd, du)."""

    value: Any
    gradient: list[Any]
    hessian: list[list[Any]]


@dataclass(frozen=True, eq=False)
class CostTerms:
    """What a cost gives for traced values: numbers, and residuals of which squares are meant."""

    numbers: Nodes
    residuals: Nodes

    @staticmethod
    def of(name: str, cost: Cost, graph: Graph, arguments: Sequence[Sequence[Any]]) -> CostTerms:
        """Trace a cost."""
        arrays = [np.array(list(x), dtype=object) for x in arguments]
        with explained():
            given = cost(*arrays)
        numbers: Nodes = []
        residuals: Nodes = []
        for term in given if isinstance(given, tuple) else (given,):
            found = np.asarray(term, dtype=object)
            for x in found.ravel():
                if not isinstance(x, Node | Real):
                    raise TypeError(f"{name}: gives a {type(x).__name__}, expected a number, an "
                                    "array of residuals, or a tuple of such")
            (residuals if found.ndim else numbers).extend(graph.lift(x) for x in found.ravel())
        return CostTerms(numbers, residuals)

    @property
    def value(self) -> Any:
        """The cost."""
        return sum(self.numbers, 0.0) + 0.5 * dot(self.residuals, self.residuals)

    def quadratic(self, space: Space, q: Nodes, rest: Nodes) -> QuadraticModel:
        """The model by changes of q in its tangent space, and of other inputs."""
        graph: Graph = (q or rest)[0].graph
        sources = [*q, *rest]
        columns = [[graph.lift(x) for x in space.tangent(q, unit)]
                   for unit in np.eye(space.nv).tolist()]

        def turned(row: Sequence[Any]) -> list[Any]:
            """Derivatives by q and the rest as those by rates and the rest."""
            return [*(dot(column, row[:len(q)]) for column in columns), *row[len(q):]]

        size = space.nv + len(rest)
        gradient: list[Any] = [0.0] * size
        hessian: list[list[Any]] = [[0.0] * size for _ in range(size)]
        if self.residuals:
            rows = [turned(row) for row in jacobian(self.residuals, sources)]
            for i, column in enumerate(zip(*rows, strict=True)):
                gradient[i] = gradient[i] + dot(column, self.residuals)
                for j, other in enumerate(zip(*rows, strict=True)):
                    if j >= i:
                        hessian[i][j] = hessian[i][j] + dot(column, other)
        if self.numbers:
            total = graph.lift(sum(self.numbers, 0.0))
            slope = [graph.lift(x) for x in turned(pullback([total], [graph.const(1)], sources))]
            one = graph.const(1)
            ways = [*(dict(zip(q, column, strict=True)) for column in columns),
                    *({x: one} for x in rest)]
            second = [pushforward(slope, way) for way in ways]
            for i in range(size):
                gradient[i] = gradient[i] + slope[i]
                for j in range(i, size):
                    twice = second[i][j] + second[j][i]
                    hessian[i][j] = hessian[i][j] + (
                        second[j][i] if i == j or space.flat else 0.5 * twice)
        for i in range(size):
            for j in range(i):
                hessian[i][j] = hessian[j][i]
        return QuadraticModel(self.value, gradient, hessian)
