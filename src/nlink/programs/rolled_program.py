"""Programs that go from joint to joint: what the rolled driver makes of an algorithm.

A `RolledProgram` is a sequence of sweeps over the joints of a mechanism, each a small graph for
each kind of joint; its size does not grow with their number. The inputs of a step are typed
references, its results are kept for this joint, passed to its parent, or written to a port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from nlink.programs.program import Port
from nlink.scalars.functions import Scalar
from nlink.scalars.graph import Node, operation
from nlink.scalars.traversal import reachable


@dataclass(frozen=True, slots=True)
class Slice:
    """What a joint or link owns of a port: a block along one of its axes; None is all of it."""

    port: str
    axis: int | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """Off-line number k of the joint or link, from `Domain.table`."""

    k: int


@dataclass(frozen=True, slots=True)
class Element:
    """Element k of an input port, from where the slice begins."""

    slice: Slice
    k: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Value k that a sweep keeps for this joint; of a sweep over links, the sum that it left."""

    sweep: int
    k: int


@dataclass(frozen=True, slots=True)
class OfParent:
    """The same of the joint's parent, or of the body that a link is part of."""

    sweep: int
    k: int


@dataclass(frozen=True, slots=True)
class ChildSum:
    """Sum k over the joint's children of what they passed in this inward sweep."""

    k: int


@dataclass(frozen=True, slots=True)
class Cell:
    """Value k that a sweep of order WHOLE keeps: one for the mechanism."""

    sweep: int
    k: int


@dataclass(frozen=True, slots=True)
class At:
    """Value k that a sweep keeps for one joint, 1..n; for a step of order WHOLE."""

    sweep: int
    k: int
    joint: int


@dataclass(frozen=True, slots=True)
class Total:
    """Sum k that an inward sweep brings to the base; for a step of order WHOLE."""

    sweep: int
    k: int


Reference = Parameter | Element | Kept | OfParent | ChildSum | Cell | At | Total
"""What an input of a step stands for: the name of its node."""


class SweepOrder(Enum):
    """Which way a sweep goes, and over what."""

    OUTWARD = "joints, parents first"
    INWARD = "joints, children first; what a step passes is added to its parent's sums"
    LINKS = "links; what a step passes is added to sums of the body, which are kept"
    WHOLE = "no joint: one step, whose values are cells"
    COLUMNS = "joints; for each rate of the joint, the sweeps PATH and ANSWER that follow"
    PATH = "in a column: from the parent of its joint to the base"
    ANSWER = "in a column: outward, up to its joint"

    @property
    def over(self) -> str:
        """The domain: joints, links or whole."""
        return {SweepOrder.LINKS: "links", SweepOrder.WHOLE: "whole"}.get(self, "joints")


@dataclass(frozen=True, slots=True)
class Write:
    """An element of an output port, k after where the slice begins.

    In a column the slice also begins at the column: that far along the port's other axis.
    """

    slice: Slice
    k: int
    value: Node


@dataclass(frozen=True, slots=True)
class SweepStep:
    """What one kind of joint or link does in one sweep, as expressions of references."""

    keeps: tuple[Node, ...] = ()
    """Values kept for this joint, for its children and for later sweeps. Of order COLUMNS, for
    each rate of the joint in turn: what the path keeps for this joint, then what it starts with."""
    passes: tuple[Node, ...] = ()
    """Values added to the sums of the parent; along a path, what its parent starts with."""
    writes: tuple[Write, ...] = ()


@dataclass(frozen=True, slots=True)
class Sweep:
    """One pass over the joints or links."""

    order: SweepOrder
    steps: tuple[SweepStep, ...]
    """One for each kind."""
    base: tuple[float, ...] = ()
    """Outward: the values the base keeps."""


@dataclass(frozen=True, slots=True)
class Domain:
    """What sweeps go over: joints 1..n with `parent[i - 1] < i`, 0 being the base, or links,
    whose parents are their bodies."""

    parent: tuple[int, ...]
    kind: tuple[int, ...]
    table: np.ndarray
    """Off-line parameters, one row for each (rows of small kinds are padded)."""
    starts: dict[Slice, tuple[int, ...]]
    """The element of the port where each slice begins."""
    rates: tuple[int, ...] = ()
    """How many rates each joint has, for columns."""


@dataclass(frozen=True, slots=True)
class RolledProgram:
    """Sweeps over the joints and links of a mechanism."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    joints: Domain
    sweeps: tuple[Sweep, ...]
    links: Domain = field(default_factory=lambda: Domain((), (), np.empty((0, 0)), {}))

    def over(self, sweep: Sweep) -> Domain:
        """What a sweep goes over; a sweep of order WHOLE over a domain of one."""
        return {"joints": self.joints, "links": self.links, "whole": WHOLE}[sweep.order.over]

    def __call__(self, *arrays: Sequence[Scalar]) -> list[list[Scalar]]:
        """Run by interpretation, on any scalar: the meaning the compiler must keep."""
        run = _Interpretation(self, arrays)
        for number, sweep in enumerate(self.sweeps):
            if sweep.order not in (SweepOrder.PATH, SweepOrder.ANSWER):
                run.sweep(number, sweep)
        return [run.outs[p.name] for p in self.outputs]


WHOLE = Domain((0,), (0,), np.empty((1, 0)), {})


class _Expressions:
    """Nodes ready to be evaluated many times."""

    def __init__(self, step: SweepStep) -> None:
        self.results = (*step.keeps, *step.passes, *(write.value for write in step.writes))
        self.live = reachable(self.results)

    def __call__(self, read: Callable[[Reference], Scalar]) -> Iterator[Scalar]:
        values: dict[int, Scalar] = {}
        for node in self.live:
            if node.op == "const":
                values[node.index] = node.value
            elif node.op == "input":
                values[node.index] = read(node.name)
            else:
                values[node.index] = operation(node.op).apply(*(values[a.index]
                                                                for a in node.args))
        return (values[node.index] for node in self.results)


class _Interpretation:
    """The state of a rolled program while it is interpreted."""

    def __init__(self, program: RolledProgram, arrays: Sequence[Sequence[Scalar]]) -> None:
        self.program, self.joints = program, program.joints
        self.ports = {p.name: a for p, a in zip(program.inputs, arrays, strict=True)}
        self.outs: dict[str, list[Scalar]] = {p.name: [0.0] * p.size for p in program.outputs}
        self.kept: list[dict[tuple[int, int], Scalar]] = [{} for _ in range(self.count + 1)]
        self.sums: list[list[Scalar]] = []
        self.totals: dict[Total | Cell, Scalar] = {}
        self.steps = [[_Expressions(step) for step in sweep.steps] for sweep in program.sweeps]
        self.column: dict[Slice, int] = {}

    @property
    def count(self) -> int:
        return len(self.joints.parent)

    def sweep(self, number: int, sweep: Sweep, upto: int | None = None) -> None:
        domain, order = self.program.over(sweep), sweep.order
        self.kept[0].update({(number, k): x for k, x in enumerate(sweep.base)})
        width = max(len(step.passes) for step in sweep.steps)
        self.sums = [[0.0] * width for _ in self.kept]
        indices = range(1, 1 + (len(domain.parent) if upto is None else upto))
        for i in reversed(indices) if order is SweepOrder.INWARD else indices:
            if order is SweepOrder.COLUMNS:
                self.columns(number, i)
            else:
                self.step(number, sweep, i)
        if order is SweepOrder.INWARD:
            self.totals |= {Total(number, k): x for k, x in enumerate(self.sums[0])}
        elif order is SweepOrder.LINKS:
            for kept, sums in zip(self.kept, self.sums, strict=True):
                kept |= {(number, k): x for k, x in enumerate(sums)}

    def step(self, number: int, sweep: Sweep, i: int) -> None:
        """One joint or link: its values, kept, passed and written."""
        domain = self.program.over(sweep)
        step, up = sweep.steps[domain.kind[i - 1]], domain.parent[i - 1]
        values = self.values(number, domain, i)
        for k in range(len(step.keeps)):
            if sweep.order is SweepOrder.WHOLE:
                self.totals[Cell(number, k)] = next(values)
            else:
                self.kept[i][number, k] = next(values)
        for k in range(len(step.passes)):
            self.sums[up][k] = self.sums[up][k] + next(values)
        self.write(domain, i, step, values)

    def columns(self, number: int, j: int) -> None:
        """The columns of a joint: start each, go along its path, answer outward."""
        path, answer = self.program.sweeps[number + 1], self.program.sweeps[number + 2:number + 3]
        keeps, passes = (max(len(getattr(step, what)) for step in path.steps)
                         for what in ("keeps", "passes"))
        step = self.program.sweeps[number].steps[self.joints.kind[j - 1]]
        self.column = {s: starts[j - 1] for s, starts in self.joints.starts.items()}
        values = self.values(number, self.joints, j)
        starts = [[next(values) for _ in range(keeps + passes)]
                  for _ in range(self.joints.rates[j - 1])]
        for _ in range(len(step.keeps) - (keeps + passes) * len(starts)):
            next(values)  # padding, for joints of fewer rates than others
        self.write(self.joints, j, step, values)
        for c, start in enumerate(starts):
            self.column = {s: starts[j - 1] + c * self.stride(s)
                           for s, starts in self.joints.starts.items()}
            for kept in self.kept:
                kept |= {(number + 1, k): 0.0 for k in range(keeps)}
            self.kept[j] |= {(number + 1, k): start[k] for k in range(keeps)}
            i = self.joints.parent[j - 1]
            self.sums = [[0.0] * passes for _ in self.kept]
            self.sums[i] = start[keeps:]
            while i:
                self.step(number + 1, path, i)
                i = self.joints.parent[i - 1]
            if answer and answer[0].order is SweepOrder.ANSWER:
                self.sweep(number + 2, answer[0], j)
        self.column = {}

    def stride(self, slice: Slice) -> int:
        """How many elements apart neighbours along the axis of a slice are."""
        port = next(p for p in (*self.program.inputs, *self.program.outputs)
                    if p.name == slice.port)
        assert slice.axis is not None  # all of a port is not in the table of starts
        return port.stride(slice.axis)

    def values(self, number: int, domain: Domain, i: int) -> Iterator[Scalar]:
        def read(name: Reference) -> Scalar:
            match name:
                case Parameter(k):
                    return float(domain.table[i - 1, k])
                case Element(slice, k):
                    return self.ports[slice.port][self.start(domain, slice, i) + k]
                case Kept(sweep, k):
                    return self.kept[i][sweep, k]
                case OfParent(sweep, k):
                    return self.kept[domain.parent[i - 1]][sweep, k]
                case ChildSum(k):
                    return self.sums[i][k]
                case At(sweep, k, joint):
                    return self.kept[joint][sweep, k]
            return self.totals[name]

        return self.steps[number][domain.kind[i - 1]](read)

    def write(self, domain: Domain, i: int, step: SweepStep, values: Iterator[Scalar]) -> None:
        for write, x in zip(step.writes, values, strict=True):
            start = self.start(domain, write.slice, i)
            if self.column and write.slice.axis is not None:
                start += self.column[Slice(write.slice.port, 1 - write.slice.axis)]
            self.outs[write.slice.port][start + write.k] = x

    def start(self, domain: Domain, slice: Slice, i: int) -> int:
        return 0 if slice.axis is None else domain.starts[slice][i - 1]
