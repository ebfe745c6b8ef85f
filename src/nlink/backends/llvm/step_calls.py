"""Programs of steps as LLVM functions: one for each kind of step, and a loop that calls them.

The loop goes along records in `data`. A record has the number of its kind, the numbers of the call
and the places of its values: bytes in the scratch memory, where the elements of the inputs come
first. Values that are equally far apart in all calls of a kind share one place.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nlink.backends.llvm.code import lower
from nlink.backends.llvm.emit import StraightCode, emit, finish, parameters, port_rows
from nlink.backends.llvm.ir import Constants, Function, Lanes, Target, repeat
from nlink.backends.llvm.memory import (
    Columns,
    LaneRows,
    copy_vectors,
    distribute,
    integer_table,
)
from nlink.backends.llvm.passes import interleave, optimize
from nlink.backends.llvm.precision import Precision
from nlink.programs.stepped import LikeStep, StepNumber, SteppedProgram, StepValue

MODULE = 3000
"""Operations of the functions that are compiled together, about."""


@dataclass(frozen=True, slots=True)
class _Records:
    """What the calls of one kind have: where each value is, and bytes for each call."""

    places: tuple[tuple[int, int], ...]
    """Of each value: the base it is seen from (by number; -1 is the memory itself), and how many
    places further it is."""
    own: tuple[int, int]
    """The same of the first result."""
    table: np.ndarray
    """(calls, bases)"""
    numbers: np.ndarray
    """(calls, numbers)"""
    precision: Precision

    @property
    def bases(self) -> int:
        """Where the bases begin, in bytes behind the kind: after the numbers."""
        return self.precision.size * self.numbers.shape[1]

    @property
    def size(self) -> int:
        """Bytes of a record: its kind, numbers, bases."""
        return 8 + 8 * -(-(self.bases + 4 * self.table.shape[1]) // 8)

    def at(self, call: int, kind: int, pitch: int) -> bytes:
        numbers = b"".join(map(self.precision.to_bytes, self.numbers[call].tolist()))
        bases = (self.table[call] * pitch).astype("<i4").tobytes()
        return (struct.pack("<q", kind) + numbers + bases).ljust(self.size, b"\0")


def _records(kind: LikeStep, precision: Precision) -> _Records:
    columns = [kind.first, *kind.values.T]
    bases: list[np.ndarray] = []
    found: list[tuple[int, int]] = []
    for column in columns:
        if (column == column[0]).all():
            found.append((-1, int(column[0])))
            continue
        for b, base in enumerate(bases):
            if (column - base == column[0] - base[0]).all():
                found.append((b, int(column[0] - base[0])))
                break
        else:
            found.append((len(bases), 0))
            bases.append(column)
    table = np.array(bases, dtype=np.int64).reshape(len(bases), len(kind.first)).T
    return _Records(tuple(found[1:]), found[0], table, kind.numbers, precision)


def emit_stepped(program: SteppedProgram, target: Target) -> StraightCode:
    """The functions `block` and `one`, whose ports are rows; see `emit`."""
    steps = _Steps(program, target)
    lanes = steps.lanes()
    f = lanes.function
    inputs = port_rows(lanes, program.inputs)
    outputs = port_rows(lanes, program.outputs, len(program.inputs))
    memory = Columns(lanes, "%scratch", pitch=steps.pitch)
    at = 0
    for port in program.inputs:
        _gather(inputs[port.name], memory, at, port.size)
        at += port.size
    steps.call(f, "%data", "%scratch", at)
    distribute(memory, [(outputs[port.name], port.size) for port in program.outputs],
               program.results)
    ports = (*program.inputs, *program.outputs)
    block = finish(lanes, parameters(ports, width=target.width), [])
    one = Function()
    arguments = "".join(f"ptr %p{k}, i64 0, " for k in range(len(ports)))
    one.let(f"call i1 @block({arguments}ptr %data, ptr %scratch)")
    one.do("ret void")
    text = "\n".join([block, one.define(f"hidden void @one({parameters(ports, width=1)})")])
    return StraightCode(text, steps.modules, program.size * steps.pitch, None, steps.data)


def emit_steps_in_columns(program: SteppedProgram, target: Target, name: str) -> StraightCode:
    """A function whose ports are columns: the lanes of an element lie side by side, a vector after
    those of the element before; see `rolled.emit_in_columns`."""
    steps = _Steps(program, target, f"{name}_")
    lanes, pitch = steps.lanes(), steps.pitch
    f, at = lanes.function, 0
    for k, port in enumerate(program.inputs):
        copy_vectors(lanes, port.size, f"%p{k}", f.offset("%scratch", pitch * at))
        at += port.size
    steps.call(f, "%data", "%scratch", at)
    done = 0
    for k, port in enumerate(program.outputs, len(program.inputs)):
        table = f"{name}_places{k}"
        f.constants[table] = integer_table(table, program.results[done:done + port.size])
        copy_vectors(lanes, port.size, "%scratch", f"%p{k}", f"@{table}")
        done += port.size
    f.do("ret void")
    pointers = ", ".join(f"ptr noalias %p{k}" for k in range(
        len(program.inputs) + len(program.outputs)))
    text = f.define(f"hidden void @{name}({pointers}, ptr noalias %data, ptr noalias %scratch)")
    return StraightCode(text, steps.modules, program.size * pitch, None, steps.data)


def _gather(rows: LaneRows, memory: Columns, at: int, size: int) -> None:
    """Copy a port to the memory, its elements side by side, those that belong together at once."""
    f = rows.lanes.function
    rows.row(0)  # addresses of rows are computed outside of the loop

    count = rows.together

    def some(k: str, _: list[str]) -> list[str]:
        begin = f.let(f"mul i64 {k}, {count * rows.lanes.size}")
        to = f.offset(memory.base, f.let(f"mul i64 {k}, {count * memory.pitch}"))
        for n, value in enumerate(rows.moved(begin).load_some(0, count)):
            f.store(rows.lanes.real, value, to, memory.pitch * (at + n))
        return []

    repeat(f, size // count, [], some)
    for k in range(size - size % count, size):
        memory.store(at + k, rows.load(k))


class _Steps:
    """The functions of the kinds, and the records of all calls."""

    def __init__(self, program: SteppedProgram, target: Target, prefix: str = "") -> None:
        self.program, self.target, self.prefix = program, target, prefix
        self.pitch = target.vector
        self.records = [_records(kind, target.precision) for kind in program.kinds]
        self.constants = Constants.of(target)
        turn = [0] * len(program.kinds)
        parts = []
        for k in program.calls.tolist():
            parts.append(self.records[k].at(turn[k], k, self.pitch))
            turn[k] += 1
        parts.append(struct.pack("<q", len(program.kinds)))  # the end
        table = b"".join(parts)
        self.table = table.ljust(-(-len(table) // 64) * 64, b"\0")
        functions = [self._function(k) for k in range(len(program.kinds))]
        self.modules = tuple(self._in_modules(functions))

    @property
    def data(self) -> bytes:
        return self.table + (self.constants.to_bytes() if self.constants else b"")

    def lanes(self) -> Lanes:
        return Lanes.on(self.target)

    def _in_modules(self, functions: Sequence[str]) -> list[str]:
        modules, size = list[list[str]](), MODULE
        for kind, text in zip(self.program.kinds, functions, strict=True):
            if size >= MODULE:
                modules.append([])
                size = 0
            modules[-1].append(text)
            size += kind.operations()
        return ["\n".join(texts) for texts in modules]

    def _function(self, k: int) -> str:
        """The step of a kind: a record, the memory, and where constants are."""
        kind, records = self.program.kinds[k], self.records[k]
        lanes = Lanes.on(self.target, constants=self.constants)
        f, pitch, precision = lanes.function, self.pitch, self.target.precision
        bases: dict[int, str] = {-1: "%memory"}

        def place(at: tuple[int, int]) -> tuple[str, int]:
            base, further = at
            if base not in bases:
                begin = f.load("i32", "%record", records.bases + 4 * base)
                number = f.let(f"zext i32 {begin} to i64")
                bases[base] = f.offset("%memory", number)
            return bases[base], pitch * further

        loaded: dict[StepValue | StepNumber, str] = {}

        def read(name: StepValue | StepNumber) -> str:
            if name not in loaded:
                if isinstance(name, StepNumber):
                    loaded[name] = lanes.broadcast(f.load(
                        precision.real, "%record", precision.size * name.k))
                else:
                    loaded[name] = f.load(lanes.real, *place(records.places[name.k]))
            return loaded[name]

        own, begin = place(records.own)
        code = interleave(optimize(lower(kind.results), fma=self.target.fma))
        emit(code, lanes, read, lambda n, value: f.store(lanes.real, value, own,
                                                         begin + pitch * n), branch=True)
        f.do("ret void")
        return f.define(f"hidden void @{self._name(k)}(ptr noalias %record, ptr %memory, "
                        f"ptr noalias %data) alignstack({max(16, pitch)})")

    def _name(self, k: int) -> str:
        return f"{self.prefix}step{k}"

    def call(self, f: Function, data: str, memory: str, at: int) -> None:
        """Code that calls all steps, after storing the constants among the results."""
        lanes = replace(self.lanes(), function=f)
        for n, x in enumerate(self.program.constants):
            f.store(lanes.real, lanes.const(x), memory, self.pitch * (at + n))
        constants = f.offset(data, len(self.table))
        for k in range(len(self.records)):
            name = self._name(k)
            f.constants[name] = f"declare hidden void @{name}(ptr noalias, ptr, ptr noalias)"
        before, head, end = f.label, f.fresh("next"), f.fresh("all")
        labels = [f.fresh("kind") for _ in self.records]
        f.go(head)
        f.begin(head)
        record, place = f"%{f.fresh('record')}", len(f.lines)
        kind = f.load("i64", record)
        inner = f.offset(record, 8)
        cases = " ".join(f"i64 {k}, label %{label}" for k, label in enumerate(labels))
        f.do(f"switch i64 {kind}, label %{end} [ {cases} ]")
        arms = [f"[ {data}, %{before} ]"]
        for k, label in enumerate(labels):
            f.begin(label)
            f.do(f"call void @{self._name(k)}(ptr {inner}, ptr {memory}, ptr {constants})")
            arms.append(f"[ {f.offset(record, self.records[k].size)}, %{label} ]")
            f.go(head)
        f.lines.insert(place, f"  {record} = phi ptr {', '.join(arms)}")
        f.begin(end)
