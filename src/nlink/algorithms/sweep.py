"""Sweeps: the two ways a recursion runs along a tree, and the driver that unrolls them.

A recursion is a step function for one joint. It gets what comes along the tree (outward
from the parent, inward the sum over the children) and returns what goes on, and a result.
An algorithm is one to four sweeps and knows neither the shape of the tree nor the driver.
Per-joint values ("columns") go from sweep to sweep as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nlink.model.mechanism import Attachment, Mechanism
from nlink.spatial import Vector

Column = Sequence[Any]
"""One value for each joint."""


class Driver(Protocol):
    """What an algorithm is given: the constants of a mechanism and its sweeps."""

    @property
    def gravity(self) -> Vector: ...

    @property
    def base(self) -> Attachment: ...

    def each(self, step: Callable[..., Any], *columns: Column) -> Column:
        """result(i) = step(joint, column(i), ...): nothing goes along the tree."""
        ...

    def outward(self, step: Callable[..., tuple[Any, Any]], base: Any, *columns: Column) -> Column:
        """(value, result)(i) = step(joint, value(parent of i), column(i), ...), parents first.

        Returns the results.
        """
        ...

    def inward(self, step: Callable[..., tuple[Any, Any]], zero: Any, *columns: Column,
               ) -> tuple[Column, Any]:
        """(passed, result)(i) = step(joint, sum of what children passed, column(i), ...),
        children first.

        Returns the results and what reached the base.
        """
        ...


class Unrolled:
    """A Python loop over the joints: a traced graph sees this robot's own constants."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.joints = mechanism.joints
        self.parents = mechanism.parents
        self.gravity = mechanism.gravity
        self.base = mechanism.base
        self.closures = mechanism.closures

    def each(self, step: Callable[..., Any], *columns: Column) -> Column:
        return [step(joint, *row) for joint, *row in zip(self.joints, *columns, strict=True)]

    def outward(self, step: Callable[..., tuple[Any, Any]], base: Any, *columns: Column) -> Column:
        values, results = [base], []
        for joint, parent, *row in zip(self.joints, self.parents, *columns, strict=True):
            value, result = step(joint, values[parent], *row)
            values.append(value)
            results.append(result)
        return results

    def inward(self, step: Callable[..., tuple[Any, Any]], zero: Any, *columns: Column,
               ) -> tuple[Column, Any]:
        sums: list[Any] = [None] * (len(self.joints) + 1)
        results: list[Any] = []
        rows = list(zip(self.joints, self.parents, *columns, strict=True))
        for i in range(len(rows), 0, -1):
            joint, parent, *row = rows[i - 1]
            passed, result = step(joint, zero if sums[i] is None else sums[i], *row)
            sums[parent] = passed if sums[parent] is None else sums[parent] + passed
            results.append(result)
        return results[::-1], zero if sums[0] is None else sums[0]
