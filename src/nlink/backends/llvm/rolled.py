"""Rolled programs as LLVM functions: sweeps from joint to joint, the states in the lanes.

A sweep repeats one body for each kind of joint. The joint's constants stream in from `data`,
one record for each joint, and what it keeps goes to `scratch`, some vectors for each. In a
chain what a joint hands to the next one never leaves the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nlink.backends.llvm.emit import emit, finish, parameters, port_rows
from nlink.backends.llvm.ir import Function, Lanes, Target, repeat, repeat_while
from nlink.backends.llvm.layout import Records, StepCode, SweepLayout, SweepPlan, plan
from nlink.backends.llvm.memory import Columns, LaneRows, Reader, RowWriter
from nlink.programs.rolled_program import (
    At,
    Cell,
    ChildSum,
    Element,
    Kept,
    OfParent,
    Parameter,
    Reference,
    RolledProgram,
    Slice,
    SweepOrder,
    Total,
)


@dataclass(frozen=True, slots=True)
class RolledCode:
    """The functions of a rolled program, and what they need."""

    text: str
    operations: int
    """Arithmetic operations for one state."""
    scratch: int
    """Bytes of scratch memory."""
    data: bytes


def emit_rolled(program: RolledProgram, target: Target) -> RolledCode:
    """The functions `block` and `one`, whose ports are rows; see `emit`."""
    layout = plan(program, fma=target.fma, precision=target.precision)
    return _code(layout, target, [Emitter(program, layout, Lanes.on(target, width)).function()
                                  for width in (target.width, 1)])


def emit_in_columns(program: RolledProgram, target: Target, name: str,
                    pitch: int | None = None) -> RolledCode:
    """A function whose ports are columns: the lanes of an element lie side by side, and `pitch`
    bytes (a vector, if not given) after those of the element before.

        void name(double *input, ..., double *output, ..., void *data, void *scratch)

    It computes one vector of states; where an angle is too large for a vector, lane by lane.
    """
    layout = plan(program, fma=target.fma, precision=target.precision)
    parts = [Emitter(program, layout, Lanes.on(target, width), pitch or target.vector,
                     f"{name}_").function() for width in (target.width, 1)]
    pointers = [f"%p{k}" for k in range(len(program.inputs) + len(program.outputs))]
    f = Function()
    arguments = "".join(f"ptr {p}, i64 0, " for p in pointers)
    large = f.let(f"call i1 @{name}_block({arguments}ptr %data, ptr %scratch)")
    f.branch(large, "again", "end", unlikely=True)
    f.begin("again")
    for lane in range(target.width):
        moved = "".join(f"ptr {f.offset(p, target.precision.size * lane)}, "
                        for p in pointers)
        f.do(f"call void @{name}_one({moved}ptr %data, ptr %scratch)")
    f.go("end")
    f.begin("end")
    f.do("ret void")
    typed = "".join(f"ptr noalias {p}, " for p in pointers)
    parts.append(f.define(
        f"internal void @{name}({typed}ptr noalias %data, ptr noalias %scratch)"))
    return _code(layout, target, parts)


def _code(layout: SweepLayout, target: Target, functions: Sequence[str]) -> RolledCode:
    return RolledCode("\n".join(functions), layout.operations,
                      layout.vectors * target.vector, layout.data)


@dataclass(slots=True)
class _Joint:
    """Addresses that belong to the joint or link a sweep is at."""

    record: str
    own: str
    parent: str
    carried: dict[int, str]
    column: dict[Slice, str] = field(default_factory=dict)
    """In a column, bytes to where it begins along an axis of a port."""


class Emitter:
    """Writes `block` or `one` of a rolled program, by the number of lanes.

    Ports are rows, or columns if `pitch` says how many bytes their elements are apart; `prefix`
    comes before the function's name.
    """

    def __init__(self, program: RolledProgram, layout: SweepLayout, lanes: Lanes,
                 pitch: int | None = None, prefix: str = "") -> None:
        self.program, self.layout, self.lanes = program, layout, lanes
        self.f = lanes.function
        self.inputs = port_rows(lanes, program.inputs)
        self.outputs = port_rows(lanes, program.outputs, len(program.inputs))
        self.prefix = prefix
        if pitch is not None:
            for named in (self.inputs, self.outputs):
                for name, rows in named.items():
                    named[name] = Columns(lanes, rows.base, pitch=pitch)
        self.stride = layout.slots * lanes.pitch
        self.large = "false"

    def function(self) -> str:
        for port in self.layout.cleared:
            self.clear(self.outputs[port.name], port.size)
        for number, sweep in enumerate(self.layout.sweeps):
            if sweep.order is SweepOrder.WHOLE:
                self.whole(number, sweep)
            elif sweep.order is SweepOrder.LINKS:
                self.over_links(number, sweep)
            elif sweep.order is SweepOrder.COLUMNS:
                self.columns(number, sweep)
            elif sweep.order in (SweepOrder.OUTWARD, SweepOrder.INWARD):
                self.sweep(number, sweep)
        ports = (*self.program.inputs, *self.program.outputs)
        return finish(self.lanes, parameters(ports, width=self.lanes.width), [self.large],
                      self.prefix)

    def clear(self, rows: LaneRows, size: int) -> None:
        """Zero a whole port."""

        def body(k: str, _: list[str]) -> list[str]:
            begin = self.f.let(f"mul i64 {k}, {self.lanes.size}")
            rows.moved(begin).store(0, self.lanes.const(0.0))
            return []

        repeat(self.f, size, [], body)

    def sweep(self, number: int, sweep: SweepPlan, upto: str | None = None,
              column: dict[Slice, str] | None = None) -> None:
        """A sweep over all joints, or in a column over those before some one."""
        f, lanes, n = self.f, self.lanes, self.layout.count
        # what the base hands to the first joints, and empty sums
        for k in sweep.stored:
            if k < len(sweep.base):
                self.store(lanes.const(sweep.base[k]), "%scratch",
                           self.layout.kept_slot[number, k])
        self.clear_slots([self.layout.sum_slot[number, k] for k in sweep.sums])
        zero = lanes.const(0.0)
        # values that go from joint to joint in registers
        carried = [(lanes.real, lanes.const(sweep.base[k]) if sweep.outward else zero)
                   for k in sweep.carried]

        def body(k: str, values: list[str]) -> list[str]:
            index = k if sweep.outward else f.let(f"sub i64 {n - 1}, {k}")
            return self.joint(number, sweep, index, values, column or {})

        *final, self.large = repeat(f, upto or n, [*carried, ("i1", self.large)], body)
        totals = dict(zip(sweep.carried, final, strict=True))
        # what has come to the base is kept for later sweeps
        for k in sweep.totals:
            value = totals[k] if self.layout.serial else self.load(
                "%scratch", self.layout.sum_slot[number, k])
            self.store(value, self.cells, self.layout.cells[Total(number, k)])

    @property
    def cells(self) -> str:
        """Where the vectors begin that belong to no joint."""
        return self.f.offset("%scratch", (self.layout.count + 1) * self.stride)

    def clear_slots(self, slots: Sequence[int], upto: str | None = None) -> None:
        """Zero some slots of the base and all joints, or of those up to one."""
        if not slots:
            return

        def body(k: str, _: list[str]) -> list[str]:
            record = self.f.offset("%scratch", self.f.let(f"mul i64 {k}, {self.stride}"))
            for slot in slots:
                self.store(self.lanes.const(0.0), record, slot)
            return []

        repeat(self.f, upto or self.layout.count + 1, [], body)

    def whole(self, number: int, sweep: SweepPlan) -> None:
        """The one step that belongs to no joint: its values go to cells."""
        joint = _Joint("%data", self.cells, "%scratch", {})
        (step,) = sweep.steps
        cells = [self.layout.cells[Cell(number, k)] for k in step.keeps]
        (self.large,) = self.step(number, sweep, step, joint, self.large,
                                  lambda r, value: self.store(value, joint.own, cells[r]))

    def over_links(self, number: int, sweep: SweepPlan) -> None:
        """A sweep over links, which read what their bodies keep and add to their sums."""
        f, records = self.f, self.layout.links
        self.clear_slots([self.layout.sum_slot[number, k] for k in sweep.sums])
        links = f.offset("%data", len(self.layout.joints.data))

        def body(k: str, values: list[str]) -> list[str]:
            record = f.offset(links, f.let(f"mul i64 {k}, {records.size}"))
            body = f.offset("%scratch", f.let(f"mul i64 {f.load('i64', record)}, {self.stride}"))
            joint = _Joint(record, body, body, {})
            return self.by_kind(number, sweep, joint, values[-1], records)

        (self.large,) = repeat(f, len(self.program.links.parent), [("i1", self.large)], body)

    def columns(self, number: int, sweep: SweepPlan) -> None:
        """For each joint its start step, then for each of its rates the sweeps of a column."""
        f, layout, records = self.f, self.layout, self.layout.joints
        # the sweeps of one column: along the path to the base, and the answer of the joints passed
        path, answer = layout.sweeps[number + 1], layout.sweeps[number + 2:number + 3]
        width = max(self.program.joints.rates)
        keeps = [k for k in sweep.starts if k < len(self.program.sweeps[number + 1].steps[0].keeps)]
        slots = [layout.kept_slot[number + 1, k] for k in keeps]
        begun = layout.cells[0] if sweep.starts else 0  # where start values are, rate by rate

        def keep(r: int, value: str) -> None:
            self.store(value, self.cells, begun + r)

        def of_joint(index: str, values: list[str]) -> list[str]:
            joint = self.place(index)
            # where the columns of this joint begin in square outputs
            joint.column = {slice: f.load("i64", joint.record, 8 * records.words.index(slice))
                            for slice in self.written}
            (large,) = self.by_kind(number, sweep, joint, values[-1], records, keep)
            count = f.load("i64", joint.record, 8 * records.words.index("rates"))
            end = f.let(f"add i64 {index}, 1")

            def of_rate(c: str, values: list[str]) -> list[str]:
                # the column of this rate, and the values its path starts with
                steps = {slice: self.lanes.size * self.along(slice) for slice in joint.column}
                column = {slice: f.let(f"add i64 {start}, {f.let(f'mul i64 {c}, {steps[slice]}')}")
                          for slice, start in joint.column.items()}
                size = len(sweep.starts) * self.lanes.pitch
                first = f.offset(self.cells, f.let(f"mul i64 {c}, {size}"))
                starts = [self.load(first, begun + k) for k in range(len(sweep.starts))]
                if not layout.serial:
                    self.clear_slots(slots, upto=f.let(f"add i64 {end}, 1"))
                for slot, value in zip(slots, starts, strict=False):
                    self.store(value, joint.own, slot)
                self.large = self.path(number + 1, path, joint, column, starts[len(slots):],
                                       values[-1])
                if answer and answer[0].order is SweepOrder.ANSWER:
                    self.sweep(number + 2, answer[0], end, column)
                return [self.large]

            return repeat(f, count if width > 1 else 1, [("i1", large)], of_rate)

        (self.large,) = repeat(f, layout.count, [("i1", self.large)], of_joint)

    def path(self, number: int, sweep: SweepPlan, joint: _Joint, column: dict[Slice, str],
             starts: list[str], large: str) -> str:
        """From the parent of a joint to the base, values handed on in registers."""
        f = self.f

        def step(values: list[str]) -> list[str]:
            at = self.place(f.let(f"sub i64 {values[0]}, 1"))
            at.carried = dict(zip(sweep.carried, values[1:], strict=False))
            at.column = column
            results = self.by_kind(number, sweep, at, values[-1], self.layout.joints)
            return [f.load("i64", at.record), *results]

        carried = [("i64", f.load("i64", joint.record)),
                   *((self.lanes.real, value) for value in starts), ("i1", large)]
        return repeat_while(
            f, carried, lambda values: f.let(f"icmp ne i64 {values[0]}, 0"), step)[-1]

    @property
    def written(self) -> list[Slice]:
        """The slices of square outputs."""
        names = {port.name for port in self.program.outputs}
        return [s for s in self.program.joints.starts
                if s.port in names and Slice(s.port, 1 - (s.axis or 0)) in (
                    self.program.joints.starts)]

    def along(self, slice: Slice) -> int:
        """How many elements apart neighbours along the axis of a slice are."""
        return next(p for p in self.program.outputs if p.name == slice.port).stride(slice.axis or 0)

    def place(self, index: str) -> _Joint:
        """The addresses of a joint (index from 0)."""
        f, layout = self.f, self.layout
        record = f.offset("%data", f.let(f"mul i64 {index}, {layout.joints.size}"))
        parent = index if layout.serial else f.load("i64", record)
        above = f.offset("%scratch", f.let(f"mul i64 {parent}, {self.stride}"))
        own = f.let(f"mul i64 {f.let(f'add i64 {index}, 1')}, {self.stride}")
        return _Joint(record, f.offset("%scratch", own), above, {})

    def joint(self, number: int, sweep: SweepPlan, index: str, values: list[str],
              column: dict[Slice, str]) -> list[str]:
        """One joint: the values it hands on, and the flag of large angles."""
        joint = self.place(index)
        joint.carried, joint.column = dict(zip(sweep.carried, values, strict=False)), column
        return self.by_kind(number, sweep, joint, values[-1], self.layout.joints)

    def by_kind(self, number: int, sweep: SweepPlan, joint: _Joint, large: str, records: Records,
                keep: Callable[[int, str], None] | None = None) -> list[str]:
        """The step of the kind that a joint or link is of."""
        f = self.f
        if len(sweep.steps) == 1:
            return self.step(number, sweep, sweep.steps[0], joint, large, keep)
        # a switch over kinds, whose results meet again
        labels = [f.fresh("kind") for _ in sweep.steps]
        join = f.fresh("joined")
        kind = f.load("i64", joint.record, 8 * records.words.index("kind"))
        cases = " ".join(f"i64 {k}, label %{label}" for k, label in enumerate(labels))
        f.do(f"switch i64 {kind}, label %{labels[0]} [ {cases} ]")
        ends = []
        for label, step in zip(labels, sweep.steps, strict=True):
            f.begin(label)
            ends.append((self.step(number, sweep, step, joint, large, keep), f.label))
            f.go(join)
        f.begin(join)
        kinds = [self.lanes.real] * len(sweep.carried) + ["i1"]
        return [f.phi(kind, *((results[j], label) for results, label in ends))
                for j, kind in enumerate(kinds)]

    def step(self, number: int, sweep: SweepPlan, step: StepCode, joint: _Joint, large: str,
             keep: Callable[[int, str], None] | None = None) -> list[str]:
        """The code of one kind: the values it hands on, and the flag of large angles.

        `keep` takes the values kept, where they do not belong to the joint.
        """
        f, lanes = self.f, self.lanes
        # the joint's own slices of inputs and outputs
        records = self.layout.links if sweep.order is SweepOrder.LINKS else self.layout.joints
        readers = self.readers(step, joint, records)
        writers = {slice: RowWriter(self.slice(self.outputs[slice.port], slice, joint, records))
                   for slice in sorted({write.slice for write in step.writes},
                                       key=lambda slice: (slice.port, slice.axis or 0))}
        handed: dict[int, str] = {}
        loaded: dict[Reference, str] = {}

        def read(name: Reference) -> str:
            if name not in loaded:
                loaded[name] = self.value(number, sweep, joint, readers, records, name)
            return loaded[name]

        def done(r: int, value: str) -> None:
            # kept for the joint, handed to its children or added to its parent's sum, or an output
            if r < len(step.keeps):
                k = step.keeps[r]
                if keep is not None:
                    keep(r, value)
                elif k in sweep.stored:
                    self.store(value, joint.own, self.layout.kept_slot[number, k])
                if sweep.outward:
                    handed[k] = value
            elif r < len(step.keeps) + len(step.passes):
                k = step.passes[r - len(step.keeps)]
                if k in sweep.carried:
                    handed[k] = value
                else:
                    slot = self.layout.sum_slot[number, k]
                    self.store(lanes.add(self.load(joint.parent, slot), value),
                               joint.parent, slot)
            else:
                write = step.writes[r - len(step.keeps) - len(step.passes)]
                writers[write.slice].write(write.k, value)

        for flag in emit(step.code, lanes, read, done):
            large = f.let(f"or i1 {large}, {flag}")
        for writer in writers.values():
            writer.flush()
        missing = lanes.const(0.0)  # a kind that does not keep what others do
        return [*(handed.get(k, missing) for k in sweep.carried), large]

    def value(self, number: int, sweep: SweepPlan, joint: _Joint, readers: dict[Slice, Reader],
              records: Records, name: Reference) -> str:
        """An input of a step."""
        match name:
            case Parameter(k):
                at = 8 * len(records.words) + self.lanes.size * k
                return self.lanes.broadcast(self.f.load(
                    self.lanes.precision.real, joint.record, at))
            case Element(slice, k):
                return readers[slice].read(k)
            case ChildSum(k):
                return (joint.carried[k] if k in joint.carried
                        else self.load(joint.own, self.layout.sum_slot[number, k]))
            case OfParent(earlier, k) if earlier == number and k in joint.carried:
                return joint.carried[k]
            case OfParent(earlier, k):
                return self.load(joint.parent, self.layout.kept_slot[earlier, k])
            case Kept(earlier, k):
                return self.load(joint.own, self.layout.kept_slot[earlier, k])
            case At(earlier, k, number):
                record = self.f.offset("%scratch", number * self.stride)
                return self.load(record, self.layout.kept_slot[earlier, k])
        return self.load(self.cells, self.layout.cells[name])

    def readers(self, step: StepCode, joint: _Joint, records: Records) -> dict[Slice, Reader]:
        """A reader for each slice of inputs the step reads, of as many elements as it reads."""
        sizes: dict[Slice, int] = {}
        for i in step.code.instructions:
            if isinstance(i.name, Element):
                sizes[i.name.slice] = max(sizes.get(i.name.slice, 0), i.name.k + 1)
        return {slice: Reader(self.slice(self.inputs[slice.port], slice, joint, records), size)
                for slice, size in sizes.items()}

    def slice(self, rows: LaneRows, slice: Slice, joint: _Joint, records: Records) -> LaneRows:
        """The joint's own slice of a port, in a column where the column begins in it."""
        if slice.axis is None:
            return rows
        rows = rows.moved(self.f.load("i64", joint.record, 8 * records.words.index(slice)))
        other = joint.column.get(Slice(slice.port, 1 - slice.axis))
        return rows if other is None else rows.moved(other)

    def load(self, record: str, slot: int) -> str:
        return self.f.load(self.lanes.real, record, slot * self.lanes.pitch)

    def store(self, value: str, record: str, slot: int) -> None:
        self.f.store(self.lanes.real, value, record, slot * self.lanes.pitch)
