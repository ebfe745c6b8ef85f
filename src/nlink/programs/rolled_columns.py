"""What an algorithm holds of joints and links while it is rolled: columns without single values.

Kinds of joints and links: what a rolled step is traced on, and its numbers off-line.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from nlink.model.mechanism import NO_TURN, MovingJoint
from nlink.programs.rolled_program import Parameter, SweepStep, Write
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import evaluate, reachable, substitute
from nlink.scalars.tree import leaves, map_leaves
from nlink.spatial import Turn


class NotRolled(Exception):
    """Why an algorithm cannot be rolled, as a clause that follows its name."""


class RolledColumn:
    """A column of the rolled driver: it has a value for each kind, and no joint of its own."""

    values: tuple[Any, ...]

    def _refuse(self, *_: object) -> NoReturn:
        raise NotRolled("takes the values of single joints, not by the driver's `at`")

    __iter__ = __len__ = __getitem__ = _refuse


@dataclass(frozen=True, slots=True)
class Slots(RolledColumn):
    """A column of values that a sweep kept: for each kind, the value its steps see."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class GivenColumn(RolledColumn):
    """A column known without a sweep: input ports, constants and functions of other columns."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class OfLinks(RolledColumn):
    """A column with a value for each link: an input port, or what a sweep over links found."""

    values: tuple[Any, ...]
    sweep: int | None = None


@dataclass(frozen=True, slots=True)
class RolledPairs:
    """A matrix by its columns: what the sweeps of each column find, kind by kind."""

    sweep: int
    """The first of its sweeps, of order COLUMNS."""
    own: tuple[Any, ...]
    """For each kind the elements of each rate's column in the joint's own rows."""
    found: tuple[Any, ...]
    """For each kind (rows, across) of joints on the path; of answers, of all before."""
    seen: tuple[Any, ...] = ()
    """For each kind the rows as the sweep of answers reads them."""

    @property
    def columns(self) -> Any:
        raise NotRolled("takes single columns of a matrix")


@dataclass(slots=True)
class Kind:
    """Joints (or links) of one type: one with parameters for numbers, and the numbers."""

    one: Any
    graph: Graph
    numbers: dict[str, np.ndarray]
    """For each parameter the values of all of this kind, in order."""


def uniform(joint: MovingJoint) -> MovingJoint:
    """The same joint with its axis, which is z here, and its fixed turns written out, so that
    all joints of a type have one shape."""
    none = (NO_TURN, Turn("x", 1, 0), NO_TURN)
    kind: Any = joint.type  # a frozen dataclass, which the contract's base class is not
    if kind.axis is not None:
        kind = replace(kind, axis=(0.0, 0.0, 1.0))
    return replace(joint, type=kind, fixed=(*joint.fixed, *none[len(joint.fixed):]))


def group(things: Sequence[Any], labels: Sequence[Hashable]) -> tuple[tuple[int, ...],
                                                                       list[Kind]]:
    """The number of the kind of each joint or link, and the kinds: those of one label."""
    groups: dict[Hashable, list[Any]] = {}
    for thing, label in zip(things, labels, strict=True):
        groups.setdefault(label, []).append(thing)
    numbers = {label: k for k, label in enumerate(groups)}
    return tuple(numbers[label] for label in labels), [_kind(same) for same in groups.values()]


def _kind(things: list[Any]) -> Kind:
    """One of several joints or links, its numbers constants where all agree, else parameters."""
    graph = Graph()
    numbers: dict[str, np.ndarray] = {}
    structure = "type" if isinstance(things[0], MovingJoint) else "body"
    plain = [replace(thing, **{structure: None}) for thing in things]
    table = np.array([list(leaves(thing)) for thing in plain], dtype=float)
    column = iter(range(table.shape[1]))

    def lift(path: str, _value: Any) -> Any:
        values = table[:, next(column)]
        if (values == values[0]).all():
            return float(values[0])
        numbers[path] = values
        return graph.parameter(path)

    one = map_leaves(lift, plain[0])
    return Kind(replace(one, **{structure: getattr(things[0], structure)}), graph, numbers)


def tabulate(kind: Kind, sweeps: Sequence[tuple[list[Node], list[Node], list[Any]]],
                   ) -> tuple[Iterator[SweepStep], np.ndarray]:
    """The steps of one kind on columns of a table, and that table."""
    nodes = [n for keeps, passes, _ in sweeps for n in (*keeps, *passes)]
    nodes += [node for _, _, writes in sweeps for _, _, node in writes]
    frontier = [n for n in _frontier(nodes) if n.op != "const"]
    values = evaluate(frontier, kind.numbers)
    rows = len(next(iter(kind.numbers.values()), np.empty(1)))
    table = np.array([np.broadcast_to(v, rows) for v in values]).reshape(-1, rows).T
    graph = Graph()
    replaced = {n.index: graph.input(Parameter(j)) for j, n in enumerate(frontier)}
    copies = iter(substitute(nodes, graph, replaced))
    kept = [(tuple(next(copies) for _ in keeps), tuple(next(copies) for _ in passes))
            for keeps, passes, _ in sweeps]
    return (SweepStep(keeps, passes, tuple(Write(slice, j, next(copies)) for slice, j, _ in writes))
            for (keeps, passes), (_, _, writes) in zip(kept, sweeps, strict=True)), table


def _frontier(nodes: list[Node]) -> list[Node]:
    """The off-line nodes that on-line nodes or results use directly."""
    used = {a.index: a for n in reachable(nodes) if not n.offline for a in n.args if a.offline}
    used |= {n.index: n for n in nodes if n.offline}
    return [used[i] for i in sorted(used)]
