"""Sweeps: the two ways a recursion runs along a tree, and the driver that unrolls them.

A recursion is a step function for one joint. It gets what comes along the tree (outward
from the parent, inward the sum over the children) and returns what goes on, and a result.
An algorithm is one to four sweeps and knows neither the shape of the tree nor the driver.
Per-joint values ("columns") go from sweep to sweep as they are.

What couples every joint with those that carry it, such as the mass matrix, is a sweep along the
path to the base for each rate: a column of the matrix. Its elements are `Pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nlink.model.mechanism import Attachment, Closure, GearRow, Mechanism
from nlink.scalars.functions import Scalar, Scalars
from nlink.spatial import Vector

Column = Sequence[Any]
"""One value for each joint."""


class PerJoint(list[Any]):
    """A column of the unrolled driver: an output port takes it block by block along the axis
    that belongs to joints (or links)."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """A matrix by its columns: for each rate, its joint (from 0) and, for joints by number, what
    the column has in their rows, and the row in their columns."""

    columns: list[tuple[int, dict[int, tuple[Any, Any]]]]


class Driver(Protocol):
    """What an algorithm is given: the constants of a mechanism and its sweeps."""

    @property
    def gravity(self) -> Vector: ...

    @property
    def base(self) -> Attachment: ...

    @property
    def parents(self) -> tuple[int, ...]: ...

    @property
    def rates(self) -> tuple[int, ...]:
        """How many rates each joint has."""
        ...

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

    def at(self, column: Column, body: int) -> Any:
        """The value of a column for one body, 1..n."""
        ...

    def same(self, value: Any) -> Column:
        """A column that has one value for all joints: how a step learns what is known of the
        whole mechanism."""
        ...

    def structure(self, values: Sequence[Hashable]) -> Column:
        """A column of what is known before any number is: steps may branch on it."""
        ...

    def from_links(self, links: Sequence[Attachment], step: Callable[..., Any], zero: Any,
                   values: Column, *columns: Column) -> Column:
        """result(i) = sum over the links of body i of step(link, value(link), column(i), ...)."""
        ...

    def to_links(self, links: Sequence[Attachment], step: Callable[..., Any], base: Any,
                 *columns: Column) -> Column:
        """result(link) = step(link, column(its body), ...), `base` for a link of the base."""
        ...

    def columns(self, start: Callable[..., tuple[Any, Any]], step: Callable[..., tuple[Any, Any]],
                *columns: Column) -> Any:
        """For each rate k of each joint j, a sweep along the path from j to the base:

        (value, own) = start(joint j, k, column(j), ...), then for each joint i that carries j
        (value, (rows, across)) = step(joint i, value, column(i), ...).

        `own` and `rows` have one element for each rate of j and i, in the column of k; `across`
        are those in the row of k. Returns the pairs.
        """
        ...

    def answers(self, step: Callable[..., tuple[Any, Any]], base: Any, pairs: Any,
                *columns: Column) -> Any:
        """For each column of pairs, a sweep from the base to its joint j over all joints i <= j:

        (value, rows)(i) = step(joint i, value(parent of i), pair(i, j), column(i), ...),

        a pair being zeros where i does not carry j. The matrix is symmetric.
        """
        ...


class ClosedDriver(Driver, Protocol):
    """What an algorithm of closed chains is given besides."""

    @property
    def closures(self) -> tuple[Closure, ...]: ...

    @property
    def gears(self) -> tuple[GearRow, ...]: ...


@dataclass(frozen=True, slots=True)
class WithBase:
    """A column by the numbers of bodies, the base's value at 0."""

    driver: Driver
    base: Any
    column: Column

    def __getitem__(self, body: int) -> Any:
        return self.driver.at(self.column, body) if body else self.base


class Unrolled:
    """The joints one after the other, in Python: a traced graph sees this robot's own constants."""

    def __init__(self, mechanism: Mechanism, mark: Callable[[], None] = lambda: None) -> None:
        self.mechanism = mechanism
        self.mark = mark
        """Called where a step begins: traced, steps that are alike may become one function."""
        self.joints = mechanism.joints
        self.parents = mechanism.parents
        self.rates = tuple(joint.type.nv for joint in mechanism.joints)
        self.gravity = mechanism.gravity
        self.base = mechanism.base
        self.closures, self.gears = mechanism.closures, mechanism.gears
        self.contacts = mechanism.contacts

    def each(self, step: Callable[..., Any], *columns: Column) -> Column:
        results = PerJoint()
        for joint, *row in zip(self.joints, *columns, strict=True):
            self.mark()
            results.append(step(joint, *row))
        return results

    def outward(self, step: Callable[..., tuple[Any, Any]], base: Any, *columns: Column) -> Column:
        values, results = [base], PerJoint()
        for joint, parent, *row in zip(self.joints, self.parents, *columns, strict=True):
            self.mark()
            value, result = step(joint, values[parent], *row)
            values.append(value)
            results.append(result)
        return results

    def inward(self, step: Callable[..., tuple[Any, Any]], zero: Any, *columns: Column,
               ) -> tuple[Column, Any]:
        sums: list[Any] = [None] * (len(self.joints) + 1)
        results = PerJoint()
        rows = list(zip(self.joints, self.parents, *columns, strict=True))
        for i in range(len(rows), 0, -1):
            joint, parent, *row = rows[i - 1]
            self.mark()
            passed, result = step(joint, zero if sums[i] is None else sums[i], *row)
            sums[parent] = passed if sums[parent] is None else sums[parent] + passed
            results.append(result)
        results.reverse()
        return results, zero if sums[0] is None else sums[0]

    def at(self, column: Column, body: int) -> Any:
        return column[body - 1]

    def same(self, value: Any) -> Column:
        return PerJoint([value] * len(self.joints))

    def structure(self, values: Sequence[Hashable]) -> Column:
        return PerJoint(values)

    def from_links(self, links: Sequence[Attachment], step: Callable[..., Any], zero: Any,
                   values: Column, *columns: Column) -> Column:
        total = PerJoint([zero] * len(self.joints))
        for link, value in zip(links, values, strict=True):
            i = link.body - 1
            if link.body:
                total[i] = total[i] + step(link, value, *(column[i] for column in columns))
        return total

    def to_links(self, links: Sequence[Attachment], step: Callable[..., Any], base: Any,
                 *columns: Column) -> Column:
        return PerJoint(step(link, *(column[link.body - 1] for column in columns))
                        if link.body else base for link in links)

    def columns(self, start: Callable[..., tuple[Any, Any]], step: Callable[..., tuple[Any, Any]],
                *columns: Column) -> Pairs:
        rows = list(zip(self.joints, *columns, strict=True))
        found = []
        for j, (joint, *row) in enumerate(rows):
            for k in range(joint.type.nv):
                value, own = start(joint, k, *row)
                pairs, i = {j: (own, ())}, self.parents[j] - 1
                while i >= 0:
                    value, pairs[i] = step(rows[i][0], value, *rows[i][1:])
                    i = self.parents[i] - 1
                found.append((j, pairs))
        return Pairs(found)

    def answers(self, step: Callable[..., tuple[Any, Any]], base: Any, pairs: Pairs,
                *columns: Column) -> Pairs:
        found = []
        for j, column in pairs.columns:
            values, answers = [base], {}
            rows = zip(self.joints[:j + 1], self.parents, *columns, strict=False)
            for i, (joint, parent, *row) in enumerate(rows):
                pair = column[i][0] if i in column else (0,) * joint.type.nv
                value, result = step(joint, values[parent], pair, *row)
                values.append(value)
                answers[i] = result, result
            found.append((j, answers))
        return Pairs(found)

    def repeat(self, step: Callable[..., Scalars], shared: Any, rows: Sequence[Scalars],
               ) -> list[list[Scalar]]:
        """step(shared, row) for each row: the same operations again and again, which may be
        traced once (`programs.staged`). What it gives can only be given on, not computed with."""
        return [list(step(shared, row)) for row in rows]
