"""What a rolled program keeps in memory: decided before any code is written.

Scratch memory decides the speed of long chains, since thousands of joints times a few
vectors leave the caches. So values that nobody reads are not computed, values that only
the next joint of a chain reads stay in registers, and memory whose last reader is done
is used again by later sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nlink.backends.llvm.code import Code, Instruction, lower, rename
from nlink.backends.llvm.passes import interleave, optimize
from nlink.backends.llvm.precision import FLOAT64, Precision
from nlink.programs.program import Port
from nlink.programs.rolled_program import (
    At,
    Cell,
    ChildSum,
    Domain,
    Kept,
    OfParent,
    Parameter,
    Reference,
    RolledProgram,
    Slice,
    SweepOrder,
    SweepStep,
    Total,
    Write,
)
from nlink.scalars.graph import Node
from nlink.scalars.traversal import reachable

Value = tuple[int, int]
"""(sweep, k): value k that a sweep keeps for each joint, or sum k that it collects."""

LATER = (Kept, OfParent, At)
"""References to what a sweep keeps for a joint."""


@dataclass(frozen=True, slots=True)
class StepCode:
    """The code of one kind in one sweep, and where its results go, in order."""

    code: Code
    keeps: tuple[int, ...]
    passes: tuple[int, ...]
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """One sweep with everything that is not needed left out."""

    order: SweepOrder
    steps: tuple[StepCode, ...]
    carried: tuple[int, ...]
    """Values handed from joint to joint in registers: kept ones outward, sums inward."""
    stored: tuple[int, ...]
    """Values k kept in memory."""
    sums: tuple[int, ...]
    """Inward on a tree, and over links: sums collected in memory."""
    base: tuple[float, ...]
    totals: tuple[int, ...]
    """Sums of the base that are kept in cells."""
    starts: tuple[int, ...] = ()
    """The values that each rate of a joint begins with, for columns."""

    @property
    def outward(self) -> bool:
        return self.order in (SweepOrder.OUTWARD, SweepOrder.ANSWER)


@dataclass(frozen=True, slots=True)
class Records:
    """The constants of joints or links: for each its integer words, then its parameters."""

    words: tuple[str | Slice, ...]
    """What the words mean: parent, kind, rates, starts of slices in bytes."""
    data: bytes
    size: int
    """Bytes of each record."""


@dataclass(frozen=True, slots=True)
class SweepLayout:
    """A rolled program ready to be emitted."""

    count: int
    """Joints."""
    serial: bool
    sweeps: tuple[SweepPlan, ...]
    slots: int
    """Vectors of scratch memory a joint has."""
    kept_slot: dict[Value, int]
    sum_slot: dict[Value, int]
    cells: dict[Cell | Total | int, int]
    """Vectors after those of the joints: cells, totals, and the starts of columns from 0 on."""
    joints: Records
    links: Records
    cleared: tuple[Port, ...]
    """Outputs with elements that no joint writes: those are zero."""
    operations: int
    """Arithmetic operations for one state."""

    @property
    def data(self) -> bytes:
        return self.joints.data + self.links.data

    @property
    def vectors(self) -> int:
        """Vectors of scratch memory in all."""
        return (self.count + 1) * self.slots + len(self.cells)


def plan(program: RolledProgram, *, fma: bool, precision: Precision = FLOAT64) -> SweepLayout:
    """Decide what a rolled program computes, keeps and where."""
    serial = all(up == i for i, up in enumerate(program.joints.parent))
    needed = _LiveValues(program)
    sweeps = []
    for number, sweep in enumerate(program.sweeps):
        steps = tuple(needed.code(number, kind, fma=fma) for kind in range(len(sweep.steps)))
        own = sorted(k for s, k in needed.keeps if s == number)
        total = sorted(k for s, k in needed.sums if s == number)
        chained = [k for k in own if (number, True) in needed.readers.get((number, k), ())]
        register_only = {k for k in own
                         if needed.readers.get((number, k), set()) <= {(number, True)}}
        outward_chain = serial and sweep.order in (SweepOrder.OUTWARD, SweepOrder.ANSWER)
        inward_chain = (sweep.order is SweepOrder.PATH
                        or (serial and sweep.order is SweepOrder.INWARD))
        on_joints = sweep.order not in (SweepOrder.WHOLE, SweepOrder.COLUMNS)
        sweeps.append(SweepPlan(
            sweep.order, steps,
            carried=tuple(chained if outward_chain else total if inward_chain else ()),
            stored=tuple(k for k in own if on_joints and not (
                outward_chain and k in register_only)),
            sums=tuple(() if inward_chain else total),
            base=sweep.base,
            totals=tuple(k for s, k in needed.totals if s == number),
            starts=needed.starts(number) if sweep.order is SweepOrder.COLUMNS else ()))
    kept_slot, sum_slot, slots = _slots(sweeps, needed.readers)
    cells = sorted(needed.cells, key=lambda cell: (cell.sweep, cell.k))
    names: list[Cell | Total | int] = [*cells, *(Total(*x) for x in sorted(needed.totals))]
    width = max(program.joints.rates, default=0)
    names += range(width * max((len(sweep.starts) for sweep in sweeps), default=0))
    return SweepLayout(len(program.joints.parent), serial, tuple(sweeps), slots, kept_slot,
                       sum_slot, {name: k for k, name in enumerate(names)},
                       _records(program, program.joints, "joints", precision),
                       _records(program, program.links, "links", precision),
                       _cleared(program, serial), _operations(program, sweeps))


class _LiveValues:
    """Kept values and sums that some output depends on: a fixed point from the outputs."""

    def __init__(self, program: RolledProgram) -> None:
        self.program = program
        self.keeps: set[Value] = set()
        self.sums: set[Value] = set()
        self.totals: set[Value] = set()
        self.cells: set[Cell] = set()
        self.readers: dict[Value, set[tuple[int, bool]]] = {}
        """For each kept value, the sweeps that read it and whether as their parent's."""
        before = -1
        while len(self.keeps) + len(self.sums) + len(self.cells) > before:
            before = len(self.keeps) + len(self.sums) + len(self.cells)
            for number, sweep in enumerate(program.sweeps):
                for kind in range(len(sweep.steps)):
                    for name in self.inputs(number, kind, self.roots(number, kind)):
                        self.note(number, name)

    def note(self, number: int, name: Reference) -> None:
        """Mark all that a step of a sweep reads as needed."""
        if isinstance(name, LATER):
            value = name.sweep, name.k
            linked = self.program.sweeps[name.sweep].order is SweepOrder.LINKS
            (self.sums if linked else self.keeps).add(value)
            self.readers.setdefault(value, set()).add((number, isinstance(name, OfParent)))
        elif isinstance(name, ChildSum):
            self.sums.add((number, name.k))
        elif isinstance(name, Total):
            self.sums.add((name.sweep, name.k))
            self.totals.add((name.sweep, name.k))
        elif isinstance(name, Cell):
            self.cells.add(name)
            self.keeps.add((name.sweep, name.k))

    def inputs(self, number: int, kind: int, nodes: Iterable[Node]) -> set[Reference]:
        leaves = (self.leaf(number, kind, node) for node in reachable(nodes) if node.op == "input")
        return {leaf.name for leaf in leaves if leaf.op == "input"}

    def leaf(self, number: int, kind: int, node: Node) -> Node:
        """What an input of a step stands for: a kept value may be a mere constant or parameter.

        Those are at hand in every sweep, so nobody has to keep them.
        """
        while node.op == "input" and isinstance(node.name, Kept):
            sweep = self.program.sweeps[node.name.sweep]
            if sweep.order not in (SweepOrder.OUTWARD, SweepOrder.INWARD):
                break
            value = sweep.steps[kind].keeps[node.name.k]
            if not (value.op == "const" or isinstance(value.name, Kept | Parameter)):
                break
            node = value
        return node

    def roots(self, number: int, kind: int) -> list[Node]:
        """The results of a step that somebody reads."""
        step = self.program.sweeps[number].steps[kind]
        return [*(step.keeps[k] for k in self.kept(number, step)),
                *(x for k, x in enumerate(step.passes) if (number, k) in self.sums),
                *(write.value for write in step.writes)]

    def kept(self, number: int, step: SweepStep) -> list[int]:
        """The values of a step that are kept; of columns, those that a path begins with."""
        if self.program.sweeps[number].order is not SweepOrder.COLUMNS:
            return [k for k in range(len(step.keeps)) if (number, k) in self.keeps]
        starts, count = self.starts(number), self._per_rate(number)
        return [c * count + k for c in range(len(step.keeps) // count) for k in starts]

    def starts(self, number: int) -> tuple[int, ...]:
        """Which values of each rate begin a path: those it keeps, then those it hands on."""
        path = number + 1
        keeps = len(self.program.sweeps[path].steps[0].keeps)
        return (*(k for k in range(keeps) if (path, k) in self.keeps),
                *(k for k in range(keeps, self._per_rate(number))
                  if (path, k - keeps) in self.sums))

    def _per_rate(self, number: int) -> int:
        first = self.program.sweeps[number + 1].steps[0]
        return len(first.keeps) + len(first.passes)

    def code(self, number: int, kind: int, *, fma: bool) -> StepCode:
        step = self.program.sweeps[number].steps[kind]
        roots = self.roots(number, kind)
        leaves = {node.name: self.leaf(number, kind, node) for node in reachable(roots)
                  if node.op == "input"}
        code = rename(lower(roots), {
            name: Instruction(leaf.op, value=leaf.value if leaf.op == "const" else 0.0,
                              name=leaf.name)
            for name, leaf in leaves.items()})
        return StepCode(
            interleave(optimize(code, fma=fma)), tuple(self.kept(number, step)),
            tuple(k for k in range(len(step.passes)) if (number, k) in self.sums), step.writes)


def _slots(sweeps: list[SweepPlan], readers: dict[Value, set[tuple[int, bool]]]
           ) -> tuple[dict[Value, int], dict[Value, int], int]:
    """Slots of memory, one used again once all readers of its value are done.

    The sweeps of columns are done together, so what one of them reads lives as long as all.
    """
    free_after: list[int] = []  # for each slot, the last sweep that reads its value
    kept_slot: dict[Value, int] = {}
    sum_slot: dict[Value, int] = {}

    def take(number: int, last: int) -> int:
        while last + 1 < len(sweeps) and sweeps[last + 1].order in (
                SweepOrder.PATH, SweepOrder.ANSWER):
            last += 1
        for slot, busy in enumerate(free_after):
            if busy < number:
                free_after[slot] = last
                return slot
        free_after.append(last)
        return len(free_after) - 1

    for number, sweep in enumerate(sweeps):
        for k in sweep.stored:
            last = max((s for s, _ in readers.get((number, k), ())), default=number)
            kept_slot[number, k] = take(number, last)
        for k in sweep.sums:
            last = max((s for s, _ in readers.get((number, k), ())), default=number)
            sum_slot[number, k] = take(number, max(last, number)
                                       if sweep.order is SweepOrder.LINKS else number)
    for number, sweep in enumerate(sweeps):
        if sweep.order is SweepOrder.LINKS:  # its sums are what it keeps
            kept_slot |= {(number, k): sum_slot[number, k] for k in sweep.sums}
    return kept_slot, sum_slot, len(free_after)


def _records(program: RolledProgram, domain: Domain, over: str, precision: Precision) -> Records:
    """Integer words (starts in bytes) and parameters of each joint or link, side by side."""
    words: tuple[str | Slice, ...] = ("parent", "kind", *domain.starts)
    columns = [domain.parent, domain.kind,
               *(precision.size * np.array(s, dtype=np.int64) for s in domain.starts.values())]
    if any(sweep.order is SweepOrder.COLUMNS for sweep in program.sweeps) and over == "joints":
        words, columns = (*words, "rates"), [*columns, domain.rates]
    if not any(sweep.order.over == over for sweep in program.sweeps):
        return Records(words, b"", 0)
    integers = np.ascontiguousarray(np.array(columns, dtype=np.int64).T)
    table = np.asarray(domain.table, dtype=float).reshape(len(domain.parent), -1)
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(table, dtype=precision.dtype)
    if numbers.shape[1] * precision.size % 8:  # words are aligned to eight bytes
        numbers = np.pad(numbers, ((0, 0), (0, 1)))
    records = np.concatenate([integers.view(np.uint8), numbers.view(np.uint8)], axis=1)
    return Records(words, records.tobytes(), records.strides[0])


def _cleared(program: RolledProgram, serial: bool) -> tuple[Port, ...]:
    written = {port.name: np.zeros(port.size, dtype=bool) for port in program.outputs}
    for sweep in program.sweeps:
        domain = program.over(sweep)
        kinds = np.array(domain.kind)
        for kind, step in enumerate(sweep.steps):
            for write in step.writes:
                port, axis = write.slice.port, write.slice.axis
                if sweep.order in (SweepOrder.PATH, SweepOrder.ANSWER, SweepOrder.COLUMNS):
                    # a column and its row: on a chain all joints have met
                    written[port][:] |= serial and axis == 1
                elif axis is None:
                    written[port][write.k] = True
                else:
                    written[port][np.array(domain.starts[write.slice])[kinds == kind]
                                  + write.k] = True
    return tuple(port for port in program.outputs if not written[port.name].all())


def _operations(program: RolledProgram, sweeps: list[SweepPlan]) -> int:
    """The operations of each joint's step, times the columns that it takes part in."""
    joints = program.joints
    widths = joints.rates or (1,) * len(joints.parent)
    carried = [0] * (len(joints.parent) + 1)  # the rates of all that a body carries, itself not
    for i in range(len(joints.parent), 0, -1):
        carried[joints.parent[i - 1]] += carried[i] + widths[i - 1]
    later = [sum(widths)]
    for rates in widths:
        later.append(later[-1] - rates)
    times = {SweepOrder.PATH: carried[1:], SweepOrder.ANSWER: later[:-1]}
    total = 0
    for sweep, own in zip(sweeps, program.sweeps, strict=True):
        cost = [step.code.operations() for step in sweep.steps]
        domain = program.over(own)
        count = times.get(sweep.order, [1] * len(domain.parent))
        total += sum(cost[kind] * times for kind, times in zip(domain.kind, count, strict=True))
    return total
