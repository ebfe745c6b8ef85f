"""Code and programs as LLVM functions.

Every kernel is two internal functions with the ports as arguments, and nothing that
knows what the program was: `block`, which computes a vector's width of states and says
whether an angle was too large for it, and `one`, which computes a single state by the
same operations in one lane and so to the last bit the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nlink.backends.llvm.code import Code, lower
from nlink.backends.llvm.ir import Function, Lanes, Target
from nlink.backends.llvm.lookup_code import integer_parts, look_up
from nlink.backends.llvm.memory import Columns, Reader, Rows, Writer, distribute
from nlink.backends.llvm.passes import optimize
from nlink.backends.llvm.sincos import SinCos, sincos
from nlink.programs.program import Port, Program
from nlink.scalars.graph import operation
from nlink.scalars.lookup import Table


def emit(code: Code, lanes: Lanes, read: Callable[[Any], str],
         done: Callable[[int, str], None]) -> list[str]:
    """Write code into a function: `read` loads an input by name, `done` takes result k.

    Returns the flags of angles too large for the vector, see `sincos`.
    """
    wanted: dict[int, list[int]] = {}
    for k, r in enumerate(code.results):
        wanted.setdefault(r, []).append(k)
    values: list[str] = []
    block = Block(lanes.function, lanes.width, lanes.fma)
    for index, i in enumerate(code.instructions):
        if i.op == "const":
            value = lanes.const(i.value)
        elif i.op == "input":
            value = read(i.name)
        else:
            value = operation(i.op).llvm(block, *(values[a] for a in i.args))
        values.append(value)
        for k in wanted.get(index, ()):
            done(k, value)
    return [a.large for a in block.angles.values() if a.large is not None]


@dataclass(slots=True)
class Block(Lanes):
    """Lanes in one straight line of code, where functions of one argument share their work.

    The LLVM column of the primitives is written with its methods and those of `Lanes`.
    """

    angles: dict[str, SinCos] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def sin(self, x: str) -> str:
        return self._angle(x).sin

    def cos(self, x: str) -> str:
        return self._angle(x).cos

    def _angle(self, x: str) -> SinCos:
        if x not in self.angles:
            self.angles[x] = sincos(self, x)
        return self.angles[x]

    def look_up(self, table: Table, x: str) -> str:
        if x not in self.places:
            self.places[x] = integer_parts(self, x)
        return look_up(self, table, x, self.places[x])


def parameters(ports: Sequence[Port], *, width: int) -> str:
    """The parameter list of `block` (a stride after each port) or of `one` (none)."""
    parts = []
    for k in range(len(ports)):
        parts.append(f"ptr noalias %p{k}")
        if width > 1:
            parts.append(f"i64 %s{k}")
    return ", ".join([*parts, "ptr noalias %data", "ptr noalias %scratch"])


def port_rows(lanes: Lanes, ports: Sequence[Port], first: int = 0) -> dict[str, Rows]:
    """The rows of ports that are parameters from number `first` on."""
    return {port.name: Rows(lanes, f"%p{k}", f"%s{k}") for k, port in enumerate(ports, first)}


def finish(lanes: Lanes, signature: str, large: Sequence[str], prefix: str = "") -> str:
    """The definition of `block` or `one`, from its body; `prefix` comes before these names."""
    f = lanes.function
    if lanes.width == 1:
        f.do("ret void")
        return f.define(f"internal void @{prefix}one({signature})")
    flag = "false"
    for each in large:
        flag = f.let(f"or i1 {flag}, {each}")
    f.do(f"ret i1 {flag}")
    # vectors spilt to a stack that is not aligned straddle cache lines: half the speed
    return f.define(f"internal i1 @{prefix}block({signature}) alignstack({8 * lanes.width})")


def split_name(name: str) -> tuple[str, int]:
    """The port and element of an input named like "q[3]"."""
    port, _, rest = name.partition("[")
    return port, int(rest[:-1])


DIRECT = 64
"""Elements of outputs, up to which each is stored as soon as it is known."""


def emit_program(program: Program, target: Target) -> tuple[str, int]:
    """The functions `block` and `one` of a straight-line program, and the scratch memory in bytes.

    Many outputs are first kept side by side in scratch memory, zeros and other repeated values
    once, and a loop distributes them: scattered stores in one block of code would cost LLVM
    time that grows with their square.
    """
    ports = (*program.inputs, *program.outputs)
    code = optimize(lower(program.results), fma=target.fma)
    slots = {r: k for k, r in enumerate(dict.fromkeys(code.results))}
    direct = len(code.results) <= DIRECT
    where = [(port.name, k) for port in program.outputs for k in range(port.size)]
    functions = []
    for width in (target.width, 1):
        lanes = Lanes(Function(), width, target.fma)
        sources = port_rows(lanes, program.inputs)
        readers = {p.name: Reader(sources[p.name], p.size) for p in program.inputs}
        targets = port_rows(lanes, program.outputs, len(program.inputs))

        def read(name: str, readers: dict[str, Reader] = readers) -> str:
            port, k = split_name(name)
            return readers[port].read(k)

        if direct:
            writers = {name: Writer(rows) for name, rows in targets.items()}

            def done(k: int, value: str, writers: dict[str, Writer] = writers) -> None:
                port, element = where[k]
                writers[port].write(element, value)

            large = emit(code, lanes, read, done)
            for writer in writers.values():
                writer.flush()
        else:
            kept = Columns(lanes, "%scratch", pitch=8 * width)
            large = emit(Code(code.instructions, tuple(slots)), lanes, read, kept.store)
            distribute(kept, [(targets[p.name], p.size) for p in program.outputs],
                       [slots[r] for r in code.results])
        functions.append(finish(lanes, parameters(ports, width=width), large))
    return "\n".join(functions), 0 if direct else 8 * target.width * len(slots)
