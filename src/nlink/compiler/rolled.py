"""Loop programs as LLVM functions: loops over joints, the states in the lanes.

Each sweep is a loop with one body for each kind of joint. The joint's constants stream
in from `data`, one record a joint, and what it keeps goes to `scratch`, some vectors a
joint. In a chain what a joint hands to the next one never leaves the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nlink.compiler.emit import emit, finish, parameters, port_rows, split_name
from nlink.compiler.ir import Function, Lanes, Target
from nlink.compiler.layout import Layout, StepCode, SweepPlan, plan
from nlink.compiler.memory import Reader, Rows, Writer
from nlink.scalars.program import LoopProgram


def emit_loop_program(program: LoopProgram, target: Target) -> tuple[str, int, int, bytes]:
    """The functions `block` and `one`, operations, bytes of scratch, and the data they read."""
    layout = plan(program, fma=target.fma)
    functions = [Emitter(program, layout, Lanes(Function(), width, target.fma)).function()
                 for width in (target.width, 1)]
    operations = sum(max(step.code.operations() for step in sweep.steps)
                     for sweep in layout.sweeps) * layout.joints
    scratch = (layout.joints + 1) * layout.slots * target.width * 8
    return "\n".join(functions), operations, scratch, layout.records


def loop(f: Function, count: int, carried: Sequence[tuple[str, str]],
         body: Callable[[str, list[str]], Sequence[str]]) -> list[str]:
    """`count` iterations that hand on values in registers; their values at the end.

    `carried` are types and initial values; `body(k, values)` emits iteration k.
    """
    before, head, inside, after = f.label, f.fresh("head"), f.fresh("inside"), f.fresh("after")
    f.go(head)
    f.begin(head)
    kinds, initial = ["i64", *(k for k, _ in carried)], ["0", *(x for _, x in carried)]
    names = [f"%{f.fresh('at')}" for _ in kinds]
    place = len(f.lines)  # the phis are written here once the last values are known
    f.branch(f.let(f"icmp slt i64 {names[0]}, {count}"), inside, after)
    f.begin(inside)
    values = body(names[0], names[1:])
    values = [f.let(f"add i64 {names[0]}, 1"), *values]
    f.lines[place:place] = [
        f"  {name} = phi {kind} [ {first}, %{before} ], [ {value}, %{f.label} ]"
        for name, kind, first, value in zip(names, kinds, initial, values, strict=True)]
    f.go(head)
    f.begin(after)
    return names[1:]


@dataclass(slots=True)
class _Joint:
    """Addresses that belong to the joint a loop is at."""

    record: str
    own: str
    parent: str
    carried: dict[int, str]


class Emitter:
    """Writes `block` or `one` of a loop program, by the number of lanes."""

    def __init__(self, program: LoopProgram, layout: Layout, lanes: Lanes) -> None:
        self.program, self.layout, self.lanes = program, layout, lanes
        self.f = lanes.function
        self.inputs = port_rows(lanes, program.inputs)
        self.outputs = port_rows(lanes, program.outputs, len(program.inputs))
        self.stride = layout.slots * lanes.width * 8
        self.large = "false"

    def function(self) -> str:
        for port in self.layout.cleared:
            self.clear(self.outputs[port.name], port.size)
        for number, sweep in enumerate(self.layout.sweeps):
            self.sweep(number, sweep)
        ports = (*self.program.inputs, *self.program.outputs)
        return finish(self.lanes, parameters(ports, width=self.lanes.width), [self.large])

    def clear(self, rows: Rows, size: int) -> None:
        """Zero a whole port."""

        def body(k: str, _: list[str]) -> list[str]:
            rows.moved(self.f.let(f"shl i64 {k}, 3")).store(0, self.lanes.const(0.0))
            return []

        loop(self.f, size, [], body)

    def sweep(self, number: int, sweep: SweepPlan) -> None:
        f, lanes, n = self.f, self.lanes, self.layout.joints
        for k in sweep.stored:
            if k < len(sweep.base):
                self.store(lanes.const(sweep.base[k]), "%scratch",
                           self.layout.kept_slot[number, k])
        self.clear_sums(number, sweep)
        zero = lanes.const(0.0)
        carried = [(lanes.real, lanes.const(sweep.base[k]) if sweep.outward else zero)
                   for k in sweep.carried]

        def body(k: str, values: list[str]) -> list[str]:
            index = k if sweep.outward else f.let(f"sub i64 {n - 1}, {k}")
            return self.joint(number, sweep, index, values)

        *final, self.large = loop(f, n, [*carried, ("i1", self.large)], body)
        totals = dict(zip(sweep.carried, final, strict=True))
        for port, element, k in sweep.totals:
            value = totals[k] if self.layout.serial else self.load(
                "%scratch", self.layout.sum_slot[number, k])
            self.outputs[port].store(element, value)

    def clear_sums(self, number: int, sweep: SweepPlan) -> None:
        """Zero the sums of the base and all joints."""
        if not sweep.sums:
            return

        def body(k: str, _: list[str]) -> list[str]:
            record = self.f.offset("%scratch", self.f.let(f"mul i64 {k}, {self.stride}"))
            for s in sweep.sums:
                self.store(self.lanes.const(0.0), record, self.layout.sum_slot[number, s])
            return []

        loop(self.f, self.layout.joints + 1, [], body)

    def joint(self, number: int, sweep: SweepPlan, index: str, values: list[str]) -> list[str]:
        """One joint (index from 0): the values it hands on, and the flag of large angles."""
        f, layout = self.f, self.layout
        record = f.offset("%data", f.let(f"mul i64 {index}, {layout.record_size}"))
        parent = index if layout.serial else f.load("i64", record)
        above = f.offset("%scratch", f.let(f"mul i64 {parent}, {self.stride}"))
        own = f.let(f"mul i64 {f.let(f'add i64 {index}, 1')}, {self.stride}")
        joint = _Joint(record, f.offset("%scratch", own), above,
                       dict(zip(sweep.carried, values, strict=False)))
        large = values[-1]
        if len(sweep.steps) == 1:
            return self.step(number, sweep, sweep.steps[0], joint, large)
        labels = [f.fresh("kind") for _ in sweep.steps]
        join = f.fresh("joined")
        kind = f.load("i64", record, 8 * layout.words.index("kind"))
        cases = " ".join(f"i64 {k}, label %{label}" for k, label in enumerate(labels))
        f.do(f"switch i64 {kind}, label %{labels[0]} [ {cases} ]")
        ends = []
        for label, step in zip(labels, sweep.steps, strict=True):
            f.begin(label)
            ends.append((self.step(number, sweep, step, joint, large), f.label))
            f.go(join)
        f.begin(join)
        kinds = [self.lanes.real] * len(sweep.carried) + ["i1"]
        return [f.phi(kind, *((results[j], label) for results, label in ends))
                for j, kind in enumerate(kinds)]

    def step(self, number: int, sweep: SweepPlan, step: StepCode, joint: _Joint,
             large: str) -> list[str]:
        """The code of one kind: the values it hands on, and the flag of large angles."""
        f, lanes = self.f, self.lanes
        readers = self.readers(step, joint)
        writers = {port: Writer(self.slice(self.outputs[port], port, joint))
                   for port in sorted({port for port, _ in step.writes})}
        handed: dict[int, str] = {}
        loaded: dict[str, str] = {}

        def read(name: str) -> str:
            if name not in loaded:
                loaded[name] = self.value(number, sweep, joint, readers, name)
            return loaded[name]

        def done(r: int, value: str) -> None:
            if r < len(step.keeps):
                k = step.keeps[r]
                if k in sweep.stored:
                    self.store(value, joint.own, self.layout.kept_slot[number, k])
                if sweep.outward:
                    handed[k] = value
            elif r < len(step.keeps) + len(step.passes):
                k = step.passes[r - len(step.keeps)]
                if self.layout.serial:
                    handed[k] = value
                else:
                    slot = self.layout.sum_slot[number, k]
                    self.store(lanes.add(self.load(joint.parent, slot), value),
                               joint.parent, slot)
            else:
                port, k = step.writes[r - len(step.keeps) - len(step.passes)]
                writers[port].write(k, value)

        for flag in emit(step.code, lanes, read, done):
            large = f.let(f"or i1 {large}, {flag}")
        for writer in writers.values():
            writer.flush()
        missing = lanes.const(0.0)  # a kind that does not keep what others do
        return [*(handed.get(k, missing) for k in sweep.carried), large]

    def value(self, number: int, sweep: SweepPlan, joint: _Joint,
              readers: dict[str, Reader], name: str) -> str:
        """An input of a step, by its name in `Step`."""
        head, k = split_name(name)
        if head == "p":
            words = len(self.layout.words)
            return self.lanes.broadcast(self.f.load("double", joint.record, 8 * (words + k)))
        if head == "sum":
            return (joint.carried[k] if self.layout.serial
                    else self.load(joint.own, self.layout.sum_slot[number, k]))
        if head in readers:
            return readers[head].read(k)
        earlier = int(head.lstrip("^s"))
        if head.startswith("^") and earlier == number and sweep.outward and self.layout.serial:
            return joint.carried[k]
        return self.load(joint.parent if head.startswith("^") else joint.own,
                         self.layout.kept_slot[earlier, k])

    def readers(self, step: StepCode, joint: _Joint) -> dict[str, Reader]:
        """A reader for each input port the step reads, of as many elements as it reads."""
        sizes: dict[str, int] = {}
        for i in step.code.instructions:
            if i.op == "input":
                port, k = split_name(i.name)
                if port in self.inputs:
                    sizes[port] = max(sizes.get(port, 0), k + 1)
        return {port: Reader(self.slice(self.inputs[port], port, joint), size)
                for port, size in sizes.items()}

    def slice(self, rows: Rows, port: str, joint: _Joint) -> Rows:
        """The joint's own slice of a port."""
        return rows.moved(self.f.load("i64", joint.record, 8 * self.layout.words.index(port)))

    def load(self, record: str, slot: int) -> str:
        return self.f.load(self.lanes.real, record, slot * self.lanes.width * 8)

    def store(self, value: str, record: str, slot: int) -> None:
        self.f.store(self.lanes.real, value, record, slot * self.lanes.width * 8)
