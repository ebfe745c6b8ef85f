"""The rolled driver: each step is traced once for each kind of joint, and repeated.

Joints of one type are one kind. A number that all joints of a kind share is a constant in
its step; every other becomes a parameter, and what parameters alone determine is computed
off-line (`rolled_tracing`), into a table with one row for each joint. Values that go from sweep
to sweep are numbered slots. Compile time does not grow with the number of joints.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from nlink.algorithms.catalogue import Shape
from nlink.model.mechanism import Attachment, Mechanism
from nlink.programs.program import Port
from nlink.programs.rolled_columns import (
    GivenColumn,
    Kind,
    NotRolled,
    OfLinks,
    RolledColumn,
    RolledPairs,
    Slots,
    group,
    uniform,
)
from nlink.programs.rolled_program import (
    At,
    Cell,
    ChildSum,
    Element,
    Kept,
    OfParent,
    Slice,
    SweepOrder,
    Total,
)
from nlink.scalars.graph import Graph, Node
from nlink.scalars.traversal import reachable, substitute
from nlink.scalars.tree import leaves, map_leaves, rebuild


class KindsDiffer(Exception):
    """Joints of one kind differ in structure: they become kinds of their own."""

    def __init__(self, values: Sequence[Hashable]) -> None:
        self.values = values


@dataclass(slots=True)
class TracedSweep:
    """A sweep as it was traced: nodes of each kind, before parameters are tabulated."""

    order: SweepOrder
    keeps: list[list[Node]]
    passes: list[list[Node]]
    base: tuple[float, ...] = ()
    writes: list[list[tuple[Slice, int, Node]]] = field(default_factory=list)


class Rolled:
    """Records the sweeps of an algorithm; see `Driver` for the meaning of the methods."""

    def __init__(self, mechanism: Mechanism, labels: Sequence[Hashable]) -> None:
        self.gravity, self.base, self.parents = mechanism.gravity, mechanism.base, mechanism.parents
        self.closures, self.gears = mechanism.closures, mechanism.gears
        self.rates = tuple(joint.type.nv for joint in mechanism.joints)
        joints = [uniform(joint) for joint in mechanism.joints]
        self.kind, self.kinds = group(
            joints, [(joint.type, label) for joint, label in zip(joints, labels, strict=True)])
        self.links = mechanism.links[1:]
        self.whole = Kind(None, Graph(), {})
        self.sweeps: list[TracedSweep] = []

    @cached_property
    def _link_kinds(self) -> tuple[tuple[int, ...], list[Kind]]:
        """Links of bodies of one kind are one kind, and those of the base."""
        return group(self.links, [self.kind[link.body - 1] if link.body else None
                                   for link in self.links])

    @property
    def link_kind(self) -> tuple[int, ...]:
        return self._link_kinds[0]

    @property
    def link_kinds(self) -> list[Kind]:
        return self._link_kinds[1]

    def __getattr__(self, name: str) -> NoReturn:
        raise NotRolled(f"asks for {name}, which the rolled driver does not have")

    def over(self, order: SweepOrder) -> list[Kind]:
        """The kinds of what a sweep goes over."""
        if order.over == "links":
            return self.link_kinds
        return self.kinds if order.over == "joints" else [self.whole]

    def port(self, slice: Slice, own: Sequence[Sequence[int]], *, links: bool) -> Any:
        """The slices of an input port, one for each joint or link."""
        numbers, kinds = (self.link_kind, self.link_kinds) if links else (self.kind, self.kinds)
        values = []
        for k, kind in enumerate(kinds):
            block = own[numbers.index(k)]
            values.append(tuple(kind.graph.input(Element(slice, x - block[0])) for x in block))
        return OfLinks(tuple(values)) if links else GivenColumn(tuple(values))

    def each(self, step: Callable[..., Any], *columns: Any) -> GivenColumn:
        return GivenColumn(tuple(step(kind.one, *row) for kind, row in self._rows(columns)))

    def same(self, value: Any) -> GivenColumn:
        nodes = [self.whole.graph.lift(x) for x in leaves(value)]
        known = {j: node.value for j, node in enumerate(nodes) if node.op == "const"}
        number = len(self.sweeps)
        if len(known) < len(nodes):
            self.sweeps.append(TracedSweep(SweepOrder.WHOLE, [nodes], [[]]))
        return GivenColumn(tuple(_read(kind.graph, value, known, [Cell(number, j)
                                                                  for j in range(len(nodes))])
                                 for kind in self.kinds))

    def structure(self, values: Sequence[Hashable]) -> GivenColumn:
        found: dict[int, Hashable] = {}
        for kind, value in zip(self.kind, values, strict=True):
            if found.setdefault(kind, value) != value:
                raise KindsDiffer(values)
        return GivenColumn(tuple(found[k] for k in range(len(self.kinds))))

    def at(self, column: RolledColumn, body: int) -> Any:
        column = self._kept(column)
        value = column.values[self.kind[body - 1]]
        return self._elsewhere(value, self.whole.graph, lambda kept: At(kept.sweep, kept.k, body))

    def outward(self, step: Callable[..., tuple[Any, Any]], base: Any, *columns: Any) -> Slots:
        return self._outward(SweepOrder.OUTWARD, step, base, self._rows(columns))

    def inward(self, step: Callable[..., tuple[Any, Any]], zero: Any, *columns: Any,
               ) -> tuple[Slots, Any]:
        number = len(self.sweeps)
        slots = range(len(list(leaves(zero))))
        passed, results = [], []
        for kind, row in self._rows(columns):
            total = _read(kind.graph, zero, {}, [ChildSum(j) for j in slots])
            up, result = step(kind.one, total, *row)
            passed.append([kind.graph.lift(x) for x in leaves(up)])
            results.append(result)
        kept = self._keep(TracedSweep(SweepOrder.INWARD, [[] for _ in self.kinds], passed), results)
        return kept, _read(self.whole.graph, zero, {}, [Total(number, j) for j in slots])

    def from_links(self, links: Sequence[Attachment], step: Callable[..., Any], zero: Any,
                   values: OfLinks, *columns: Any) -> Slots:
        passed = []
        found = self._over_links(links, step, zero, columns, values)
        for kind, value in zip(self.link_kinds, found, strict=True):
            passed.append([kind.graph.lift(x) for x in leaves(value)])
        number = len(self.sweeps)
        self.sweeps.append(TracedSweep(SweepOrder.LINKS, [[] for _ in passed], passed))
        return Slots(tuple(
            _read(kind.graph, zero, {}, [Kept(number, j) for j in range(len(passed[0]))])
            for kind in self.kinds))

    def to_links(self, links: Sequence[Attachment], step: Callable[..., Any], base: Any,
                 *columns: Any) -> OfLinks:
        found = self._over_links(links, step, base, columns)
        nothing: list[list[Node]] = [[] for _ in found]
        self.sweeps.append(TracedSweep(SweepOrder.LINKS, nothing, nothing))
        return OfLinks(tuple(found), len(self.sweeps) - 1)

    def _over_links(self, links: Sequence[Attachment], step: Callable[..., Any], base: Any,
                    columns: Sequence[RolledColumn], *values: OfLinks) -> list[Any]:
        """What a step gives for each kind of link: links of bodies of one kind are one."""
        assert [link.body for link in links] == [link.body for link in self.links]
        columns = [self._kept(column) for column in columns]
        found = []
        for k, kind in enumerate(self.link_kinds):
            body = kind.one.body
            if not body:
                found.append(base)
                continue
            row = [self._elsewhere(column.values[self.kind[body - 1]], kind.graph,
                                   lambda kept: OfParent(kept.sweep, kept.k))
                   for column in columns]
            found.append(step(kind.one, *(column.values[k] for column in values), *row))
        return found

    def columns(self, start: Callable[..., tuple[Any, Any]], step: Callable[..., tuple[Any, Any]],
                *columns: Any) -> RolledPairs:
        number = len(self.sweeps)
        starts, own = [], []
        like: Any = None
        for kind, row in self._rows(columns):
            found = [start(kind.one, k, *row) for k in range(kind.one.type.nv)]
            starts.append([value for value, _ in found])
            own.append([elements for _, elements in found])
            like = found[0][0] if found else like
        refs = [ChildSum(j) for j in range(len(list(leaves(like))))]
        passed, results = [], []
        for kind, row in self._rows(columns):
            value, result = step(kind.one, _read(kind.graph, like, {}, refs), *row)
            passed.append([kind.graph.lift(x) for x in leaves(value)])
            results.append(result)
        width = max(self.rates)
        keeps = []
        for kind, values, elements in zip(self.kinds, starts, own, strict=True):
            rows = [[*e, *[0] * (width - len(e)), *leaves(value)]
                    for e, value in zip(elements, values, strict=True)]
            flat = [kind.graph.lift(x) for row in rows for x in row]
            keeps.append(flat + [kind.graph.const(0)] * (
                width * (width + len(refs)) - len(flat)))
        self.sweeps.append(TracedSweep(SweepOrder.COLUMNS, keeps, [[] for _ in keeps]))
        path = [[kind.graph.lift(x) for x in (*rows, *[0] * (width - len(rows)))]
                for kind, (rows, _) in zip(self.kinds, results, strict=True)]
        self.sweeps.append(TracedSweep(SweepOrder.PATH, path, passed))
        seen = tuple(tuple(kind.graph.input(Kept(number + 1, k)) for k in range(kind.one.type.nv))
                     for kind in self.kinds)
        return RolledPairs(number, tuple(own), tuple(results), seen)

    def answers(self, step: Callable[..., tuple[Any, Any]], base: Any, pairs: RolledPairs,
                *columns: Any) -> RolledPairs:
        if pairs.sweep + 2 != len(self.sweeps):
            raise NotRolled("answers to columns later than right after them")
        rows = [(kind, [seen, *row])
                for (kind, row), seen in zip(self._rows(columns), pairs.seen, strict=True)]
        answers = self._outward(SweepOrder.ANSWER, step, base, rows)
        return RolledPairs(pairs.sweep, (), tuple((rows, rows) for rows in answers.values))

    def _outward(self, order: SweepOrder, step: Callable[..., tuple[Any, Any]], base: Any,
                 rows: list[tuple[Kind, list[Any]]]) -> Slots:
        number = len(self.sweeps)
        if any(isinstance(x, Node) for x in leaves(base)):
            raise NotRolled("starts a sweep at the base with a value that is no number")
        start = [float(x) for x in leaves(base)]
        refs = [OfParent(number, j) for j in range(len(start))]
        known: dict[int, float] = {}
        while True:  # a slot that is the same constant everywhere is one: trace again with it
            values, results = [], []
            for kind, row in rows:
                value, result = step(kind.one, _read(kind.graph, base, known, refs), *row)
                values.append([kind.graph.lift(x) for x in leaves(value)])
                results.append(result)
            more = {j: x for j, x in enumerate(start) if j not in known and all(
                nodes[j].op == "const" and nodes[j].value == x for nodes in values)}
            if not more:
                break
            known |= more
        return self._keep(TracedSweep(order, values, [[] for _ in values], tuple(start)), results)

    def _rows(self, columns: Sequence[RolledColumn]) -> list[tuple[Kind, list[Any]]]:
        """Each kind with the values that its step gets."""
        for column in columns:
            if not isinstance(column, GivenColumn | Slots):
                raise NotRolled(f"gives a step a {type(column).__name__} for a column of joints")
        return [(kind, [column.values[k] for column in columns])
                for k, kind in enumerate(self.kinds)]

    def _keep(self, traced: TracedSweep, results: list[Any]) -> Slots:
        """Append a sweep; its results go to slots, those the values do not hold already."""
        number = len(self.sweeps)
        self.sweeps.append(traced)
        nodes = [[kind.graph.lift(x) for x in leaves(result)]
                 for kind, result in zip(self.kinds, results, strict=True)]
        width = max(map(len, nodes))
        for kind, row in zip(self.kinds, nodes, strict=True):  # kinds differ in their rates
            row += [kind.graph.const(0)] * (width - len(row))
        slots: list[int] = []
        known: dict[int, float] = {}
        held = {tuple(n.index for n in row): j
                for j, row in enumerate(zip(*traced.keeps, strict=True))}
        for j, row in enumerate(zip(*nodes, strict=True)):
            if all(n.op == "const" and n.value == row[0].value for n in row):
                known[j] = row[0].value
            slot = held.setdefault(tuple(n.index for n in row), len(traced.keeps[0]))
            if slot == len(traced.keeps[0]):
                for keeps, node in zip(traced.keeps, row, strict=True):
                    keeps.append(node)
            slots.append(slot)
        return Slots(tuple(_read(kind.graph, result, known, [Kept(number, slot) for slot in slots])
                           for kind, result in zip(self.kinds, results, strict=True)))

    def _kept(self, column: RolledColumn) -> Slots:
        """The same column in slots, by a sweep that only keeps it if need be."""
        if isinstance(column, Slots):
            return column
        return self.outward(lambda joint, parent, value: ((), value), (), column)

    def _elsewhere(self, value: Any, graph: Graph, seen: Callable[[Kept], Hashable]) -> Any:
        """A value of slots as another graph sees it."""
        return map_leaves(lambda _, x: graph.input(seen(x.name)) if isinstance(x, Node) else x,
                          value)

    def write(self, port: Port, shape: Shape, own: Sequence[Sequence[int]] | None,
              value: Any) -> None:
        """Let sweeps write an output port, each element where its value is at hand."""
        match value:
            case RolledPairs() if shape == ("n", "n"):
                self._write_pairs(port, value)
            case OfLinks(values, number) if own and "links" in shape and number is not None:
                self._write_blocks(port, shape, own, number, values)
            case GivenColumn(values) | Slots(values) if own and "links" not in shape:
                self._write_column(port, shape, own, values)
            case RolledColumn() | RolledPairs():
                raise NotRolled(f"gives a {type(value).__name__} for the output {port.name} "
                                f"of shape {shape}")
            case _:
                nodes = [self.whole.graph.lift(x) for x in leaves(value)]
                if len(nodes) != port.size:
                    raise NotRolled(f"gives {len(nodes)} values of the whole mechanism for the "
                                    f"output {port.name} of {port.size}")
                writes = [(Slice(port.name, None), k, node) for k, node in enumerate(nodes)]
                self.sweeps.append(TracedSweep(SweepOrder.WHOLE, [[]], [[]], writes=[writes]))

    def _write_column(self, port: Port, shape: Shape, own: Sequence[Sequence[int]],
                      values: Sequence[Any]) -> None:
        """A column of joints: in the sweep that makes the last part of it, or in one more."""
        nodes = [[kind.graph.lift(x) for x in leaves(value)]
                 for kind, value in zip(self.kinds, values, strict=True)]
        names = {n.name for row in nodes for n in reachable(row) if n.op == "input"}
        last = max((name.sweep for name in names if isinstance(name, Kept | Cell)), default=0)
        joint = (SweepOrder.OUTWARD, SweepOrder.INWARD)
        number = next((k for k, sweep in enumerate(self.sweeps) if k >= last
                       and sweep.order in joint), len(self.sweeps))
        if number == len(self.sweeps):
            nothing: list[list[Node]] = [[] for _ in self.kinds]
            self.sweeps.append(TracedSweep(SweepOrder.OUTWARD, nothing, nothing))
        # what that sweep keeps is at hand: reading it back becomes the value itself
        for kind, row, keeps in zip(self.kinds, nodes, self.sweeps[number].keeps, strict=True):
            at_hand = {kind.graph.input(Kept(number, slot)).index: node
                       for slot, node in enumerate(keeps)}
            row[:] = substitute(row, kind.graph, at_hand)
        self._write_blocks(port, shape, own, number, nodes)

    def _write_blocks(self, port: Port, shape: Shape, own: Sequence[Sequence[int]], number: int,
                      values: Sequence[Any]) -> None:
        """The block of each joint or link, by one sweep."""
        order = self.sweeps[number].order
        numbers = self.link_kind if order is SweepOrder.LINKS else self.kind
        writes = self._writes(number)
        slice = Slice(port.name, axis_of(shape))
        for k, (kind, value) in enumerate(zip(self.over(order), values, strict=True)):
            block = own[numbers.index(k)]
            nodes = [kind.graph.lift(x) for x in leaves(value)]
            if len(nodes) != len(block):
                raise NotRolled(f"gives {len(nodes)} values a joint for the output {port.name}, "
                                f"which has {len(block)}")
            writes[k] += [(slice, x - block[0], node)
                          for x, node in zip(block, nodes, strict=True)]

    def _write_pairs(self, port: Port, pairs: RolledPairs) -> None:
        """A square matrix: each column where it is found."""
        rows, across = Slice(port.name, 0), Slice(port.name, 1)
        stride = port.stride(0)
        found = len(self.sweeps) - 1 if not pairs.own else pairs.sweep + 1
        at_hand = self.sweeps[found].keeps if not pairs.own else [[] for _ in self.kinds]
        for k, kind in enumerate(self.kinds):
            if pairs.own:
                self._writes(pairs.sweep)[k] += [
                    (rows, row * stride + c, kind.graph.lift(x))
                    for c, column in enumerate(pairs.own[k]) for row, x in enumerate(column)]
            kept = {kind.graph.input(Kept(found, slot)).index: node
                    for slot, node in enumerate(at_hand[k])}
            own, other = (substitute([kind.graph.lift(x) for x in part], kind.graph, kept)
                          for part in pairs.found[k])
            self._writes(found)[k] += [
                *((rows, row * stride, x) for row, x in enumerate(own)),
                *((across, row, x) for row, x in enumerate(other))]

    def _writes(self, number: int) -> list[list[tuple[Slice, int, Node]]]:
        traced = self.sweeps[number]
        traced.writes = traced.writes or [[] for _ in self.over(traced.order)]
        return traced.writes


def axis_of(shape: Shape) -> int:
    """The axis of a port that belongs to joints or links."""
    return next(axis for axis, size in enumerate(shape) if size in ("nq", "n", "links"))


def _read(graph: Graph, like: Any, known: dict[int, float], names: Sequence[Hashable]) -> Any:
    """A value of the shape of `like`, its scalars read by their names, but for those known."""
    return rebuild(like, (known[j] if j in known else graph.input(name)
                          for j, name in enumerate(names)))
