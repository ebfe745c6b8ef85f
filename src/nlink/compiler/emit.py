"""Code and programs as LLVM functions.

Every kernel is two internal functions with the ports as arguments, and nothing that
knows what the program was: `block`, which computes a vector's width of states and says
whether an angle was too large for it, and `one`, which computes a single state by the
same operations in one lane and so to the last bit the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nlink.compiler.code import Code, lower
from nlink.compiler.ir import Function, Lanes, Target
from nlink.compiler.memory import Reader, Rows, Writer
from nlink.compiler.passes import optimize
from nlink.compiler.sincos import SinCos, sincos
from nlink.compiler.tables import integer_parts, look_up
from nlink.scalars.program import Port, Program
from nlink.scalars.tables import TABLES


def emit(code: Code, lanes: Lanes, read: Callable[[Any], str],
         done: Callable[[int, str], None]) -> list[str]:
    """Write code into a function: `read` loads an input by name, `done` takes result k.

    Returns the flags of angles too large for the vector, see `sincos`.
    """
    wanted: dict[int, list[int]] = {}
    for k, r in enumerate(code.results):
        wanted.setdefault(r, []).append(k)
    values: list[str] = []
    angles: dict[int, SinCos] = {}
    places: dict[int, str] = {}
    for index, i in enumerate(code.instructions):
        args = [values[a] for a in i.args]
        if i.op == "const":
            value = lanes.const(i.value)
        elif i.op == "input":
            value = read(i.name)
        elif i.op in ("sin", "cos"):
            angle = angles.get(i.args[0])
            if angle is None:
                angle = angles[i.args[0]] = sincos(lanes, args[0])
            value = angle.sin if i.op == "sin" else angle.cos
        elif i.op in TABLES:
            place = places.get(i.args[0])
            if place is None:
                place = places[i.args[0]] = integer_parts(lanes, args[0])
            value = look_up(lanes, TABLES[i.op], args[0], place)
        else:
            value = EMIT[i.op](lanes, *args)
        values.append(value)
        for k in wanted.get(index, ()):
            done(k, value)
    return [a.large for a in angles.values() if a.large is not None]


def _sign(lanes: Lanes, a: str) -> str:
    zero = lanes.const(0.0)
    # a itself where it is neither above nor below zero: 0 or nan
    below = lanes.select(lanes.compare("olt", a, zero), lanes.const(-1.0), a)
    return lanes.select(lanes.compare("ogt", a, zero), lanes.const(1.0), below)


EMIT: dict[str, Callable[..., str]] = {
    "add": Lanes.add,
    "sub": Lanes.sub,
    "mul": Lanes.mul,
    "div": lambda lanes, a, b: lanes.binary("fdiv", a, b),
    "neg": Lanes.neg,
    "sqrt": lambda lanes, a: lanes.intrinsic("sqrt", a),
    "sign": _sign,
    "fma": Lanes.muladd,
    "fms": lambda lanes, a, b, c: lanes.muladd(a, b, lanes.neg(c)),
    "fnma": lambda lanes, a, b, c: lanes.muladd(lanes.neg(a), b, c),
    "fnms": lambda lanes, a, b, c: lanes.muladd(lanes.neg(a), b, lanes.neg(c)),
}
"""How each operation of straight-line code is written."""


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


def emit_program(program: Program, target: Target) -> str:
    """The functions `block` and `one` of a straight-line program."""
    ports = (*program.inputs, *program.outputs)
    code = optimize(lower(program.results), fma=target.fma)
    where = [(port.name, k) for port in program.outputs for k in range(port.size)]
    functions = []
    for width in (target.width, 1):
        lanes = Lanes(Function(), width, target.fma)
        sources = port_rows(lanes, program.inputs)
        readers = {p.name: Reader(sources[p.name], p.size) for p in program.inputs}
        writers = {name: Writer(r) for name, r
                   in port_rows(lanes, program.outputs, len(program.inputs)).items()}

        def read(name: str, readers: dict[str, Reader] = readers) -> str:
            port, k = split_name(name)
            return readers[port].read(k)

        def done(k: int, value: str, writers: dict[str, Writer] = writers) -> None:
            port, element = where[k]
            writers[port].write(element, value)

        large = emit(code, lanes, read, done)
        for writer in writers.values():
            writer.flush()
        functions.append(finish(lanes, parameters(ports, width=width), large))
    return "\n".join(functions)
