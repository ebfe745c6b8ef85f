"""Code and programs as LLVM functions.

Every kernel is two internal functions with the ports as arguments, and nothing that
knows what the program was: `block`, which computes a vector's width of states (or several
of them, see `pieces`) and says whether an angle was too large for it, and `one`, which
computes a single state by the same operations in one lane and so to the last bit the same.

Looking up a table in machine code: an index for each lane, then a load for each lane.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nlink.backends.llvm.code import Code, lower
from nlink.backends.llvm.ir import Constants, Function, Lanes, Target, repeat
from nlink.backends.llvm.memory import (
    Columns,
    LaneRows,
    Reader,
    RowWriter,
    copy_vectors,
    distribute,
    integer_table,
)
from nlink.backends.llvm.passes import most_alive, optimize, with_results_in_order
from nlink.backends.llvm.pieces import (
    ROOM,
    Piece,
    Pieces,
    RepeatedPiece,
    RowSlot,
    Slot,
    cut,
    with_steps,
)
from nlink.backends.llvm.sincos import SinCos, sincos
from nlink.programs.program import Port, Program
from nlink.programs.staged import StagedProgram
from nlink.scalars.graph import operation
from nlink.scalars.lookup import LookupTable

LARGEST = float(2**31 - 2**7)
"""No table is longer; beyond it every index is the last. A number of either precision, that 32 bits
hold as an integer."""


def integer_parts(lanes: Lanes, x: str) -> str:
    """The integers below x, within 0 and LARGEST, 0 for nan: what tables of any size need."""
    zero, most = lanes.const(0.0), lanes.const(LARGEST)
    x = lanes.select(lanes.compare("ogt", x, zero), x, zero)
    x = lanes.select(lanes.compare("olt", x, most), x, most)
    return lanes.to_integer(x)


def look_up(lanes: Lanes, table: LookupTable, x: str, place: str) -> str:
    """The values at the places, nan where x is."""
    f, n = lanes.function, len(table.values)
    real, integer = lanes.precision.real, lanes.precision.integer
    values = ", ".join(f"{real} {lanes.precision.literal(v)}" for v in table.values.tolist())
    f.constants[table.name] = f"@{table.name} = internal constant [{n} x {real}] [{values}]"
    last = lanes.int(n - 1)
    below = f.let(f"icmp slt {lanes.integer} {place}, {last}")
    place = f.let(f"select {lanes.truth} {below}, {lanes.integer} {place}, "
                  f"{lanes.integer} {last}")
    found = "poison"
    for k in range(lanes.width):
        at = place if lanes.width == 1 else f.let(
            f"extractelement {lanes.integer} {place}, i32 {k}")
        value = f.load(real, f.let(f"getelementptr {real}, ptr @{table.name}, {integer} {at}"))
        found = value if lanes.width == 1 else f.let(
            f"insertelement {lanes.real} {found}, {real} {value}, i32 {k}")
    return lanes.select(lanes.compare("uno", x, x), x, found)


def emit(code: Code, lanes: Lanes, read: Callable[[Any], str],
         done: Callable[[int, str], None], *, branch: bool = False) -> list[str]:
    """Write code into a function: `read` loads an input by name, `done` takes result k.

    Returns the flags of angles too large for the vector, see `sincos`; none with `branch`.
    """
    # an instruction may be several results
    wanted: dict[int, list[int]] = {}
    for k, r in enumerate(code.results):
        wanted.setdefault(r, []).append(k)
    values: list[str] = []
    block = Block(lanes.function, lanes.width, lanes.fma, lanes.constants, lanes.precision,
                  branch or lanes.width == 1)
    for index, i in enumerate(code.instructions):
        if i.op == "const":
            value = block.const(i.value)
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

    branch: bool = False
    """Whether large angles are dealt with on the spot."""
    angles: dict[str, SinCos] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def sin(self, x: str) -> str:
        return self._angle(x).sin

    def cos(self, x: str) -> str:
        return self._angle(x).cos

    def _angle(self, x: str) -> SinCos:
        if x not in self.angles:
            self.angles[x] = sincos(self, x, branch=self.branch)
        return self.angles[x]

    def look_up(self, table: LookupTable, x: str) -> str:
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


def port_rows(lanes: Lanes, ports: Sequence[Port], first: int = 0) -> dict[str, LaneRows]:
    """The rows of ports that are parameters from number `first` on."""
    return {port.name: LaneRows(lanes, f"%p{k}", f"%s{k}") for k, port in enumerate(ports, first)}


def finish(lanes: Lanes, signature: str, large: Sequence[str], prefix: str = "",
           linkage: str = "internal") -> str:
    """The definition of `block` or `one`, from its body; `prefix` comes before these names."""
    f = lanes.function
    linkage = linkage if prefix else "hidden"  # the calls of these are in modules of their own
    if lanes.width == 1:
        f.do("ret void")
        return f.define(f"{linkage} void @{prefix}one({signature})")
    flag = "false"
    for each in large:
        flag = f.let(f"or i1 {flag}, {each}")
    f.do(f"ret i1 {flag}")
    # vectors spilt to a stack that is not aligned straddle cache lines: half the speed
    return f.define(f"{linkage} i1 @{prefix}block({signature}) alignstack({lanes.pitch})")


def split_name(name: str) -> tuple[str, int]:
    """The port and element of an input named like "q[3]"."""
    port, _, rest = name.partition("[")
    return port, int(rest[:-1])


SCALAR = 3
"""Pieces of code that is also compiled for a single state: that is a quarter faster for it."""
DIRECT = 64
"""Elements of outputs, up to which each is stored as soon as it is known."""


Body = Callable[[Lanes, Sequence[LaneRows], Columns], Sequence[str]]
"""Writes what is done for one vector, from the rows of its ports and its scratch memory; gives the
flags of large angles."""


@dataclass(frozen=True, slots=True)
class StraightCode:
    """The functions of a straight-line program, and what they need."""

    text: str
    apart: tuple[str, ...] = ()
    """Functions that it calls, each to be compiled in a module of its own."""
    scratch: int = 0
    """Bytes of scratch memory."""
    vectors: int | None = None
    """How many vectors of states `block` takes at most, its last arguments being how many there
    are, how many states further are the rows to be fetched meanwhile, 0 for none, and whether
    results go past the caches; None if it takes one and has no such arguments."""
    data: bytes = b""
    """Constants that it reads."""


def emit_program(program: Program | StagedProgram, target: Target) -> StraightCode:
    """The functions `block` and `one` of a straight-line program, or of one in two stages.

    Large programs are cut into pieces. Many outputs are first kept side by side in scratch
    memory, zeros and other repeated values once, and copied from there with a table: many
    scattered stores in one block of code cost LLVM far more time than the arithmetic.
    """
    if isinstance(program, Program):
        code = optimize(lower(program.results), fma=target.fma)
        direct = len(program.results) <= DIRECT
        if not direct:
            columns = with_results_in_order(code, _columns_from_the_last(program.outputs))
            code = min(code, columns, key=most_alive)
        pieces = cut(code, direct=direct)
    else:
        code = optimize(lower(program.first_stage), fma=target.fma)
        pieces = with_steps(program, cut(code), fma=target.fma)
    many = len(pieces.pieces) > 1
    vectors = pieces.vectors(target.vector)
    constants = Constants.of(target)
    block, *apart = _in_pieces(program, pieces, Lanes.on(target, constants=constants), many)
    scratch = target.vector * pieces.size * vectors
    if len(pieces.pieces) > SCALAR:
        text, apart, count = f"{block}\n{_one_in_lanes(program)}", tuple(apart), vectors
    else:
        one = _in_pieces(program, pieces, Lanes.on(target, 1, constants), False)
        text, apart, count = "\n".join([block, *apart, *one]), (), vectors if many else None
    return StraightCode(text, apart, scratch, count, constants.to_bytes() if constants else b"")


def _columns_from_the_last(ports: Sequence[Port]) -> list[int]:
    """The elements of ports by their places along the last axis, those of all ports together.

    Columns of matrices are what belongs to one joint, and inward sweeps begin at the last.
    """
    elements = [(-(k % port.shape[-1]) if port.shape else 0, n, k)
                for n, port in enumerate(ports) for k in range(port.size)]
    return sorted(range(len(elements)), key=elements.__getitem__)


def _one_in_lanes(program: Program | StagedProgram) -> str:
    """`one` by `block`, the same state in every lane: large code is not compiled twice."""
    ports = (*program.inputs, *program.outputs)
    f = Function()
    rows = "".join(f"ptr %p{k}, i64 0, " for k in range(len(ports)))
    f.let(f"call i1 @block({rows}ptr %data, ptr %scratch, i64 1, i64 0, i1 false)")
    f.do("ret void")
    return f.define(f"hidden void @one({parameters(ports, width=1)})")


def cache_lines(ports: Sequence[Port], lanes: Lanes, vectors: int) -> list[tuple[int, int]]:
    """The cache lines of a vector's rows, each a port's number and an offset; none if so many
    vectors have more than `ROOM` of them.

    A piece reads a few columns of many rows, which no processor foresees. So while a block is
    computed, the rows of the next one are fetched, a part by each piece.
    """
    if lanes.pitch * vectors * sum(port.size for port in ports) > ROOM:
        return []
    return [(n, offset) for n, port in enumerate(ports)
            for offset in range(0, lanes.pitch * port.size, 64)]


def emit_straight_in_columns(program: Program | StagedProgram, target: Target, name: str,
                             ) -> StraightCode:
    """A function whose ports are columns: the lanes of an element lie side by side, a vector after
    those of the element before; see `rolled.emit_in_columns`."""
    if isinstance(program, Program):
        pieces = cut(optimize(lower(program.results), fma=target.fma),
                     direct=len(program.results) <= DIRECT)
    else:
        pieces = with_steps(program, cut(optimize(lower(program.first_stage), fma=target.fma)),
                            fma=target.fma)
    several = len(pieces.pieces) > 1
    constants = Constants.of(target)
    prefix, pitch = f"{name}_", target.vector
    block, *apart = _in_pieces(program, pieces, Lanes.on(target, constants=constants), several,
                               prefix, pitch)
    texts = [block]
    if len(pieces.pieces) <= SCALAR:
        texts, apart = [block, *apart], []
    f = Function()
    ports = [f"%p{k}" for k in range(len(program.inputs) + len(program.outputs))]
    rows = "".join(f"ptr {p}, i64 0, " for p in ports)
    more = ", i64 1, i64 0, i1 false" if several else ""
    large = f.let(f"call i1 @{prefix}block({rows}ptr %data, ptr %scratch{more})")
    if not several and target.width > 1:  # an angle too large for a vector: lane by lane
        texts += _in_pieces(program, pieces, Lanes.on(target, 1, constants), False, prefix, pitch)
        f.branch(large, "again", "end", unlikely=True)
        f.begin("again")
        for lane in range(target.width):
            moved = "".join(f"ptr {f.offset(p, target.precision.size * lane)}, " for p in ports)
            f.do(f"call void @{prefix}one({moved}ptr %data, ptr %scratch)")
        f.go("end")
        f.begin("end")
    f.do("ret void")
    typed = "".join(f"ptr noalias {p}, " for p in ports)
    texts.append(f.define(f"internal void @{name}({typed}ptr noalias %data, ptr noalias %scratch)"))
    return StraightCode("\n".join(texts), tuple(apart), pitch * pieces.size, None,
                        constants.to_bytes() if constants else b"")


def _in_pieces(program: Program | StagedProgram, pieces: Pieces, whole: Lanes, many: bool,
               name: str = "", column: int | None = None) -> list[str]:
    """`block` or `one` for one vector or for many; of several pieces, each has a function.

    Names of functions begin with `name`. Ports are rows, or columns if `column` says how many bytes
    their elements are apart.
    """
    # where each result goes: the number of its output, and of the element
    ports, inputs = (*program.inputs, *program.outputs), len(program.inputs)
    where = [(n, k) for n, port in enumerate(program.outputs) for k in range(port.size)]
    signature = parameters(ports, width=whole.width) + (
        ", i64 %count, i64 %ahead, i1 %stream" if many else "")
    pitch = whole.pitch
    # many pieces are modules of their own, which see each other's names
    apart = len(pieces.pieces) > SCALAR
    linkage = "hidden" if apart else "internal"

    # more results than are stored one by one are copied row after row, which a processor foresees
    scattered = ports if len(program.results) <= DIRECT else program.inputs
    lines = cache_lines(scattered, whole, pieces.vectors(pitch)) if many and not column else []

    def fetch(f: Function, rows: Sequence[LaneRows], lines: Sequence[tuple[int, int]]) -> None:
        """Lines of the rows that are %ahead states further, unless that is 0."""
        if not lines:
            return
        near, far = f.fresh("near"), f.fresh("far")
        f.branch(f.let("icmp eq i64 %ahead, 0"), near, far)
        f.begin(far)
        later = {n: f.offset(rows[n].base, f.let(f"mul i64 {rows[n].stride}, %ahead"))
                 for n in dict(lines)}
        for n, offset in lines:
            f.do(f"call void @llvm.prefetch.p0(ptr {f.offset(later[n], offset)}, "
                 f"i32 {int(n >= inputs)}, i32 2, i32 1)")
        f.go(near)
        f.begin(near)

    def function(prefix: str, body: Body, ahead: Sequence[tuple[int, int]] = ()) -> str:
        """A function that does something for each vector, and fetches lines of a later one."""
        # each piece goes over all vectors before the next one begins
        lanes = replace(whole, function=Function())
        f = lanes.function

        def vector(k: str, flags: list[str]) -> list[str]:
            rows = [LaneRows(lanes, f"%p{k}", f"%s{k}") if column is None else
                    Columns(lanes, f"%p{k}", pitch=column) for k in range(len(ports))]
            scratch = "%scratch"
            if many and column is None:
                state = f.let(f"mul i64 {k}, {lanes.width}")
                rows = [row.moved(f.let(f"mul i64 {state}, {row.stride}")) for row in rows]
                scratch = f.offset(scratch, f.let(f"mul i64 {k}, {pitch * pieces.size}"))
                fetch(f, rows, ahead)
            return [*flags, *body(lanes, rows, Columns(lanes, scratch, pitch=pitch))]

        def any_large(k: str, flags: list[str]) -> list[str]:
            return [functools.reduce(lambda a, b: f.let(f"or i1 {a}, {b}"), vector(k, flags))]

        flags = repeat(f, "%count", [("i1", "false")], any_large) if many else vector("0", [])
        return finish(lanes, signature, flags, prefix, linkage)

    def compute(piece: Piece) -> Body:
        def body(lanes: Lanes, rows: Sequence[LaneRows], kept: Columns) -> Sequence[str]:
            # inputs and outputs of a vector
            readers = {port.name: Reader(row, port.size)
                       for port, row in zip(program.inputs, rows[:inputs], strict=True)}
            writers = [RowWriter(row) for row in rows[inputs:]]

            # what a piece reads: values that an earlier one kept, or elements of inputs
            def read(name: Slot | str) -> str:
                if isinstance(name, Slot):
                    return kept.load(name.k)
                port, k = split_name(name)
                return readers[port].read(k)

            # what it leaves: first values for later pieces, then elements of outputs
            def done(k: int, value: str) -> None:
                if k < len(piece.slots):
                    kept.store(piece.slots[k], value)
                else:
                    port, element = where[piece.outputs[k - len(piece.slots)]]
                    writers[port].write(element, value)

            large = emit(piece.code, lanes, read, done, branch=many)
            for writer in writers:
                writer.flush()
            return large

        return body

    def do_again(step: RepeatedPiece) -> Body:
        def body(lanes: Lanes, _rows: Sequence[LaneRows], kept: Columns) -> Sequence[str]:
            # a table says where the values lie that each repetition reads
            f, table = lanes.function, f"{name}rows{step.first}"
            f.constants[table] = integer_table(table, [k for row in step.rows for k in row])
            width, results = len(step.rows[0]), len(step.code.results)

            def once(r: str, _: list[str]) -> list[str]:
                # this repetition's row of the table, and where its results go
                own = f.offset(f"@{table}", f.let(f"mul i64 {r}, {4 * width}"))
                to = f.offset(kept.base, f.let(f"mul i64 {r}, {pitch * results}"))

                def read(name: Slot | RowSlot) -> str:
                    return (kept.load(name.k) if isinstance(name, Slot)
                            else kept.load_by(own, name.k))

                emit(step.code, lanes, read, lambda k, value: f.store(
                    lanes.real, value, to, pitch * (step.first + k)), branch=True)
                return []

            repeat(f, len(step.rows), [], once)
            return ()

        return body

    def write_outputs(lanes: Lanes, rows: Sequence[LaneRows], kept: Columns) -> Sequence[str]:
        if column is not None:  # vectors stay vectors
            f, done = lanes.function, 0
            for row, port in zip(rows[inputs:], program.outputs, strict=True):
                table = f"{name}places{done}"
                f.constants[table] = integer_table(table, pieces.results[done:done + port.size])
                copy_vectors(lanes, port.size, kept.base, row.base, f"@{table}")
                done += port.size
            return ()
        outputs = zip(rows[inputs:], (p.size for p in program.outputs), strict=True)
        distribute(kept, list(outputs), pieces.results, "%stream" if many else None)
        return ()

    # what is done, in order: pieces, steps that are repeated, and the copying of results
    functions, flags = list[str](), list[str]()
    bodies = [*map(compute, pieces.pieces), *map(do_again, pieces.repeated),
              *([write_outputs] if pieces.results else [])]
    # a single one is `block` or `one` itself
    if len(bodies) == 1:
        return [function(name, bodies[0])]
    # else each is a function, and fetches its part of the rows of the next vectors
    f, arguments = whole.function, signature.replace(" noalias", "")
    for k, body in enumerate(bodies):
        prefix = f"{name}piece{k}_"
        part = slice(len(lines) * k // len(bodies), len(lines) * (k + 1) // len(bodies))
        functions.append(function(prefix, body, lines[part]))
        if whole.width == 1:
            f.do(f"call void @{prefix}one({arguments})")
            continue
        flags.append(f.let(f"call i1 @{prefix}block({arguments})"))
        if apart:
            f.constants[prefix] = f"declare hidden i1 @{prefix}block({signature})"
    return [finish(whole, signature, flags, name), *functions]
