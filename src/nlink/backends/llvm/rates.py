"""The right-hand side of a differential equation as LLVM functions, its states in columns.

Inside an integration all states of a block stay in vectors: element k of every lane lies
side by side, so nothing is ever shuffled.

    void rates(double *t, double *y, double *u, double *ydot, void *data, void *room)

computes one vector of states; programs with more inputs than t, y and u have pointers to them
behind ydot. A function is tried on all lanes at once; where an angle is
too large for a vector, the lanes are computed one by one, to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nlink.backends.llvm.code import lower
from nlink.backends.llvm.emit import emit, split_name
from nlink.backends.llvm.ir import Function, Lanes, Target, repeat
from nlink.backends.llvm.memory import copy_vectors
from nlink.backends.llvm.passes import interleave, optimize
from nlink.backends.llvm.precision import FLOAT32
from nlink.backends.llvm.rolled import emit_in_columns
from nlink.backends.llvm.step_calls import emit_steps_in_columns
from nlink.programs.program import Port, Program
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.stepped import SteppedProgram, in_steps

PARAMETERS = "ptr noalias %t, ptr noalias %y, ptr noalias %u, ptr noalias %ydot"
MEMORY = "ptr noalias %data, ptr noalias %room"


@dataclass(frozen=True, slots=True)
class RolledRates:
    """The rates of a long chain, in three parts: what does not grow with it stays small.

    y = (q, qd, ...), ydot = (velocity(y), accelerations(q, qd, tau), further(t, y, u)), with
    tau = forces(t, y, u).
    """

    forces: Program
    velocity: Program | None
    """None where the rates of the coordinates are qd themselves."""
    accelerations: RolledProgram
    further: Program | None = None
    """The rates of what the state has besides q and qd."""
    name: str = "rates"

    @property
    def inputs(self) -> tuple[Port, ...]:
        """t, y and u."""
        return self.forces.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """As many rates as the state has elements."""
        return (Port("ydot", self.forces.inputs[1].shape),)


@dataclass(frozen=True, slots=True)
class Rates:
    """The functions of a right-hand side, and what they need."""

    text: str
    operations: int
    room: int = 0
    """Bytes of scratch memory."""
    data: bytes = b""
    modules: tuple[str, ...] = ()
    """Functions that it calls, to be compiled in modules of their own."""


LONG_RATES = 6_000
"""Operations beyond which steps that are alike are looked for."""


def emit_rates(program: Program | RolledRates, target: Target, at: int = 0) -> Rates:
    """The function of a program's name, with inputs t, y, u and one output; its data will be so
    many bytes behind `data`."""
    if isinstance(program, RolledRates):
        return _emit_rolled(program, target, at)
    operations = _operations(program)
    if operations > LONG_RATES and program.results[0].graph.marks:
        steps = in_steps(program.name, program.inputs, program.outputs, program.results)
        if steps.length() < operations / 2:
            return _emit_steps(steps, target, at)
    return Rates(straight(program, program.name, target), operations)


def emit_narrow_rates(program: Program | RolledRates, target: Target, at: int = 0) -> Rates:
    """The same function on columns of float64 whose inside is computed in float32: what is
    integrated, and time, keep their digits, and the rates, which cost most, take half a vector."""
    name, narrow = f"narrow_{program.name}", replace(target, precision=FLOAT32)
    inner = emit_rates(replace(program, name=name), narrow, at)
    ports = (*program.inputs, *program.outputs)
    pointers = ("%t", "%y", "%u", *(f"%{port.name}" for port in program.inputs[3:]), "%ydot")
    f, place = Function(), -(-inner.room // 64) * 64
    wide, single = (replace(Lanes.on(each), function=f) for each in (target, narrow))

    # columns of float32 lie behind what the function itself needs
    columns = list[str]()
    for port in ports:
        columns.append(f.offset("%room", place))
        place += port.size * narrow.vector

    def converted(size: int, op: str, source: tuple[Lanes, str], to: tuple[Lanes, str]) -> None:
        def one(k: str, _: list[str]) -> list[str]:
            (before, a), (after, b) = source, to
            value = f.load(before.real, f.offset(a, f.let(f"mul i64 {k}, {before.pitch}")))
            f.store(after.real, f.let(f"{op} {before.real} {value} to {after.real}"),
                    f.offset(b, f.let(f"mul i64 {k}, {after.pitch}")))
            return []

        repeat(f, size, [], one)

    for port, pointer, column in list(zip(ports, pointers, columns, strict=True))[:-1]:
        converted(port.size, "fptrunc", (wide, pointer), (single, column))
    arguments = ", ".join(f"ptr {x}" for x in (*columns[:3], columns[-1], *columns[3:-1]))
    f.do(f"call void @{name}({arguments}, ptr %data, ptr %room)")
    converted(ports[-1].size, "fpext", (single, columns[-1]), (wide, "%ydot"))
    f.do("ret void")
    parameters = ", ".join(f"ptr noalias {p}" for p in (*pointers[:3], "%ydot", *pointers[3:-1]))
    text = f.define(f"hidden void @{program.name}({parameters}, {MEMORY})")
    return replace(inner, text=f"{inner.text}\n{text}", room=place)


def _emit_steps(program: SteppedProgram, target: Target, at: int) -> Rates:
    """A program of steps as a function of t, y, u and its output."""
    code = emit_steps_in_columns(program, target, f"{program.name}_steps")
    pointers = ("%t", "%y", "%u", "%ydot", *(f"%{port.name}" for port in program.inputs[3:]))
    f = Function()
    arguments = ", ".join(f"ptr {p}" for p in (*pointers[:3], *pointers[4:], pointers[3]))
    f.do(f"call void @{program.name}_steps({arguments}, ptr {f.offset('%data', at)}, ptr %room)")
    f.do("ret void")
    parameters = ", ".join(f"ptr noalias {p}" for p in pointers)
    return Rates("\n".join([code.text, f.define(
        f"hidden void @{program.name}({parameters}, {MEMORY})")]), program.operations(),
        code.scratch, code.data, code.apart)


def _operations(program: Program) -> int:
    return sum(n.op not in ("const", "input") for n in program.live())


def straight(program: Program, name: str, target: Target) -> str:
    """A straight-line program as a function of t, y, u and its output."""
    results, row = program.results, target.vector
    pointers = ("%t", "%y", "%u", "%ydot", *(f"%{port.name}" for port in program.inputs[3:]))
    parameters = ", ".join(f"ptr noalias {p}" for p in pointers)
    # a result that is the same element of y is copied, all of them together if most are
    copied = {k for k, node in enumerate(results) if node.name == f"y[{k}]"}
    copied = copied if 2 * len(copied) > len(results) else set()
    computed = [k for k in range(len(results)) if k not in copied]
    code = interleave(optimize(lower([results[k] for k in computed]), fma=target.fma))
    # the same code for all lanes, and for one lane whose angle was too large
    functions = []
    for width in dict.fromkeys((target.width, 1)):
        lanes = Lanes.on(target, width)
        f = lanes.function
        values: dict[str, str] = {}

        def read(name: str, f: Function = f, lanes: Lanes = lanes,
                 values: dict[str, str] = values) -> str:
            if name not in values:
                port, k = split_name(name)
                values[name] = f.load(lanes.real, f"%{port}", row * k)
            return values[name]

        def done(k: int, value: str, f: Function = f, lanes: Lanes = lanes) -> None:
            f.store(lanes.real, value, "%ydot", row * computed[k])

        flag = "false"
        for large in emit(code, lanes, read, done):
            flag = f.let(f"or i1 {flag}, {large}")
        f.do(f"ret i1 {flag}")
        kind = "all" if width == target.width else "lane"
        # vectors spilt to a stack that is not aligned straddle cache lines: half the speed
        stack = max(16, lanes.pitch)
        functions.append(f.define(
            f"internal i1 @{name}_{kind}({parameters}) alignstack({stack})"))
    # the function itself: the copied elements, all lanes, and if need be lane by lane again
    f = Function()
    if copied:
        copy_vectors(replace(Lanes.on(target), function=f), len(results), "%y", "%ydot")
    large = f.let(f"call i1 @{name}_all({', '.join(f'ptr {p}' for p in pointers)})")
    if target.width > 1:
        f.branch(large, "again", "end", unlikely=True)
        f.begin("again")
        for lane in range(target.width):
            moved = ", ".join(f"ptr {f.offset(p, target.precision.size * lane)}"
                              for p in pointers)
            f.let(f"call i1 @{name}_lane({moved})")
        f.go("end")
        f.begin("end")
    f.do("ret void")
    return "\n".join([*functions, f.define(f"hidden void @{name}({parameters}, {MEMORY})")])


def _emit_rolled(program: RolledRates, target: Target, at: int) -> Rates:
    """`rates` of a long chain: forces, velocities, then the sweeps over its joints."""
    chain, row = program.accelerations, target.vector
    nq, n = (port.size for port in chain.inputs[:2])
    rolled = emit_in_columns(chain, target, "accelerations")
    parts = [rolled.text, straight(program.forces, "forces", target)]
    # joint forces go to memory of their own
    f = Function()
    scratch = f.offset("%room", n * row)
    f.do("call void @forces(ptr %t, ptr %y, ptr %u, ptr %room, ptr %data, ptr %room)")
    # rates of the coordinates, by a program of their own where they are not qd itself
    qd, qdd = f.offset("%y", nq * row), f.offset("%ydot", nq * row)
    if program.velocity is not None:
        parts.append(straight(program.velocity, "velocity", target))
        f.do("call void @velocity(ptr %t, ptr %y, ptr %u, ptr %ydot, ptr %data, ptr %room)")
    else:
        copy_vectors(replace(Lanes.on(target), function=f), n, qd, "%ydot")
    # the sweeps over the joints, and rates of what else the state has
    f.do(f"call void @accelerations(ptr %y, ptr {qd}, ptr %room, ptr {qdd}, "
         f"ptr {f.offset('%data', at)}, ptr {scratch})")
    if program.further is not None:
        parts.append(straight(program.further, "further", target))
        f.do(f"call void @further(ptr %t, ptr %y, ptr %u, ptr {f.offset('%ydot', (nq + n) * row)}, "
             "ptr %data, ptr %room)")
    f.do("ret void")
    parts.append(f.define(f"hidden void @{program.name}({PARAMETERS}, {MEMORY})"))
    return Rates("\n".join(parts), _operations(program.forces) + rolled.operations,
                 n * row + rolled.scratch, rolled.data)
