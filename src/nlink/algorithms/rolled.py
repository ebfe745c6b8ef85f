"""The rolled driver: each step is traced once per kind of joint, and loops do the rest.

Joints of one type are one kind. A number that all joints of a kind share is a constant in
its step; every other becomes a parameter, and what parameters alone determine is computed
here, off-line, into a table with one row a joint. Values that go from sweep to sweep are
numbered slots. Compile time does not grow with the number of joints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nlink.algorithms.catalogue import Algorithm, Options
from nlink.algorithms.trace import ports
from nlink.model.joints import JointType
from nlink.model.mechanism import NO_TURN, Joint, Mechanism
from nlink.scalars.graph import Graph, Node, evaluate, reachable, substitute
from nlink.scalars.program import LoopProgram, Port, Step, Sweep
from nlink.scalars.tree import leaves, map_leaves, rebuild
from nlink.spatial import Turn


@dataclass(frozen=True, slots=True)
class Slots:
    """A column of values that a sweep kept: for each kind, the value its steps see."""

    sweep: int
    slots: tuple[int, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A column known without a sweep: input ports and constants."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Total:
    """What reached the base in an inward sweep."""

    sweep: int
    value: Any


@dataclass(slots=True)
class _Kind:
    """Joints of one type: a representative with parameters for numbers, and the numbers."""

    joint: Joint
    graph: Graph
    numbers: dict[str, np.ndarray]


@dataclass(slots=True)
class _Traced:
    """A sweep as it was traced: nodes of each kind, before parameters are tabulated."""

    outward: bool
    keeps: list[list[Node]]
    passes: list[list[Node]]
    base: tuple[float, ...]


class Rolled:
    """Records the sweeps of an algorithm; see `Driver` for the meaning of the methods."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.gravity, self.base = mechanism.gravity, mechanism.base
        joints = [_uniform(joint) for joint in mechanism.joints]
        kinds: dict[JointType, list[Joint]] = {}
        for joint in joints:
            kinds.setdefault(joint.type, []).append(joint)
        numbers = {kind: k for k, kind in enumerate(kinds)}
        self.kind = tuple(numbers[joint.type] for joint in joints)
        self.kinds = [_kind(same) for same in kinds.values()]
        self.sweeps: list[_Traced] = []

    def each(self, step: Callable[..., Any], *columns: Any) -> Any:
        return Given(tuple(step(kind.joint, *(c.values[k] for c in columns))
                           for k, kind in enumerate(self.kinds)))

    def port(self, name: str, width: str) -> Given:
        """The per-joint slices of an input port."""
        return Given(tuple(
            tuple(kind.graph.input(f"{name}[{k}]") for k in range(getattr(kind.joint.type, width)))
            for kind in self.kinds))

    def outward(self, step: Callable[..., tuple[Any, Any]], base: Any, *columns: Any) -> Any:
        number = len(self.sweeps)
        start = [float(x) for x in leaves(base)]
        known: dict[int, float] = {}
        while True:  # a slot that is the same constant everywhere is one: trace again with it
            values, results = [], []
            for k, kind in enumerate(self.kinds):
                parent = _read(kind.graph, base, f"^s{number}", known, range(len(start)))
                value, result = step(kind.joint, parent, *(c.values[k] for c in columns))
                values.append([kind.graph.lift(x) for x in leaves(value)])
                results.append(result)
            more = {j: x for j, x in enumerate(start) if j not in known and all(
                nodes[j].op == "const" and nodes[j].value == x for nodes in values)}
            if not more:
                break
            known |= more
        return self._keep(_Traced(True, values, [[] for _ in self.kinds], tuple(start)), results)

    def inward(self, step: Callable[..., tuple[Any, Any]], zero: Any, *columns: Any,
               ) -> tuple[Any, Any]:
        number = len(self.sweeps)
        passed, results = [], []
        for k, kind in enumerate(self.kinds):
            total = _read(kind.graph, zero, "sum", {}, range(len(list(leaves(zero)))))
            up, result = step(kind.joint, total, *(c.values[k] for c in columns))
            passed.append([kind.graph.lift(x) for x in leaves(up)])
            results.append(result)
        kept = self._keep(_Traced(False, [[] for _ in self.kinds], passed, ()), results)
        return kept, Total(number, zero)

    def _keep(self, traced: _Traced, results: list[Any]) -> Slots:
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
        return Slots(number, tuple(slots), tuple(
            _read(kind.graph, result, f"s{number}", known, slots)
            for kind, result in zip(self.kinds, results, strict=True)))


def trace_rolled(algorithm: Algorithm, mechanism: Mechanism, options: Options) -> LoopProgram:
    """The loop program of an algorithm whose text is sweeps only, without f_ext."""
    mechanism = algorithm.prepare(mechanism)
    driver = Rolled(mechanism)
    inputs, outputs = ports(algorithm, mechanism, wrenches=False)
    columns = [driver.port(port.name, "nq" if port.name == "q" else "nv") for port in inputs]
    wanted = len(algorithm.inputs) - len(inputs)
    result = algorithm.text(driver, options, *columns, *[None] * wanted)
    (port,) = outputs
    written = None if isinstance(result, Total) else _written(driver, result)
    *tabulated, writes, table = _tabulate(driver, written)
    sweeps = []
    for number, (traced, (keeps, passes)) in enumerate(zip(driver.sweeps, tabulated, strict=True)):
        last = number == len(driver.sweeps) - 1 and written is not None
        steps = tuple(
            Step(tuple(keeps[k]), tuple(passes[k]),
                 tuple((port.name, j, node) for j, node in enumerate(writes[k])) if last else ())
            for k in range(len(driver.kinds)))
        totals = tuple((port.name, j, j) for j in range(port.size)) if (
            isinstance(result, Total) and result.sweep == number) else ()
        sweeps.append(Sweep(traced.outward, steps, traced.base, totals))
    return LoopProgram(
        algorithm.name, inputs, outputs, mechanism.parents, driver.kind, table,
        {p.name: _starts(mechanism, p) for p in (*inputs, *outputs)}, tuple(sweeps))


def _written(driver: Rolled, result: Given | Slots) -> list[list[Node]]:
    """The nodes of an algorithm's result, kind by kind, as the last sweep can write them:
    what that sweep keeps is at hand, so reading it back becomes the value itself."""
    number, last = len(driver.sweeps) - 1, driver.sweeps[-1]
    written = []
    for kind, value, keeps in zip(driver.kinds, result.values, last.keeps, strict=True):
        nodes = [kind.graph.lift(x) for x in leaves(value)]
        at_hand = {kind.graph.input(f"s{number}[{slot}]").index: node
                   for slot, node in enumerate(keeps)}
        written.append(substitute(nodes, kind.graph, at_hand))
    return written


def _uniform(joint: Joint) -> Joint:
    """The same joint with its axis, which is z here, and its fixed turns written out, so that
    all joints of a type have one shape."""
    none = (NO_TURN, Turn("x", 1, 0), NO_TURN)
    kind: Any = joint.type  # a frozen dataclass, which the contract's base class is not
    if kind.axis is not None:
        kind = replace(kind, axis=(0.0, 0.0, 1.0))
    return replace(joint, type=kind, fixed=(*joint.fixed, *none[len(joint.fixed):]))


def _kind(joints: list[Joint]) -> _Kind:
    graph = Graph()
    numbers: dict[str, np.ndarray] = {}
    rows = [list(leaves(replace(joint, type=None))) for joint in joints]  # type: ignore[arg-type]
    table = np.array(rows, dtype=float)
    column = iter(range(table.shape[1]))

    def lift(path: str, _value: Any) -> Any:
        values = table[:, next(column)]
        if (values == values[0]).all():
            return float(values[0])
        numbers[path] = values
        return graph.parameter(path)

    joint = map_leaves(lift, replace(joints[0], type=None))  # type: ignore[arg-type]
    return _Kind(replace(joint, type=joints[0].type), graph, numbers)


def _read(graph: Graph, like: Any, name: str, known: dict[int, float], slots: Sequence[int]) -> Any:
    """A value of the shape of `like`, its scalars read from slots, but for those known."""
    return rebuild(like, (known[j] if j in known else graph.input(f"{name}[{slot}]")
                          for j, slot in enumerate(slots)))


def _tabulate(driver: Rolled, written: list[list[Node]] | None) -> list[Any]:
    """Replace, kind by kind, what is off-line by columns of one table of numbers.

    Returns (keeps, passes) of each sweep and the written nodes, each by kind, and the table.
    """
    sweeps = [([], []) for _ in driver.sweeps]
    writes: list[list[Node]] = []
    tables = []
    for k, kind in enumerate(driver.kinds):
        wanted = written[k] if written else []
        nodes = [n for sweep in driver.sweeps for n in (*sweep.keeps[k], *sweep.passes[k])]
        nodes += wanted
        frontier = [n for n in _frontier(nodes) if n.op != "const"]
        values = evaluate(frontier, kind.numbers)
        rows = len(next(iter(kind.numbers.values()), np.empty(1)))
        tables.append(np.array([np.broadcast_to(v, rows) for v in values]).reshape(-1, rows).T)
        graph = Graph()
        replaced = {n.index: graph.input(f"p[{j}]") for j, n in enumerate(frontier)}
        copies = iter(substitute(nodes, graph, replaced))
        for sweep, (keeps, passes) in zip(driver.sweeps, sweeps, strict=True):
            keeps.append([next(copies) for _ in sweep.keeps[k]])
            passes.append([next(copies) for _ in sweep.passes[k]])
        writes.append(list(copies))
    table = np.zeros((len(driver.kind), max((t.shape[1] for t in tables), default=0)))
    for k, rows in enumerate(tables):
        table[np.array(driver.kind) == k, :rows.shape[1]] = rows
    return [*sweeps, writes, table]


def _frontier(nodes: list[Node]) -> list[Node]:
    """The off-line nodes that on-line nodes or results use directly."""
    used = {a.index: a for n in reachable(nodes) if not n.offline for a in n.args if a.offline}
    used |= {n.index: n for n in nodes if n.offline}
    return [used[i] for i in sorted(used)]


def _starts(mechanism: Mechanism, port: Port) -> tuple[int, ...]:
    """Where each joint's slice of a port begins; a port that is not per joint has none."""
    if port.name not in ("q", "qd", "qdd", "tau", "nu", "xi"):
        return (0,) * len(mechanism.joints)
    widths = [j.type.nq if port.name == "q" else j.type.nv for j in mechanism.joints]
    return tuple(np.concatenate([[0], np.cumsum(widths)[:-1]]).tolist())
