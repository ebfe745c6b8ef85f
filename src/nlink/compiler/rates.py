"""The right-hand side of a differential equation as LLVM functions, its states in columns.

Inside an integration all states of a block stay in vectors: element k of every lane lies
side by side, so nothing is ever shuffled.

    void rates(double *t, double *y, double *u, double *ydot)

computes one vector of states. It tries `rates_all`; where an angle is too large for a
vector, `rates_lane` computes the lanes one by one, to the same bits.
"""

from __future__ import annotations

from nlink.compiler.code import lower
from nlink.compiler.emit import emit, split_name
from nlink.compiler.ir import Function, Lanes, Target
from nlink.compiler.passes import optimize
from nlink.scalars.program import Program

PARAMETERS = "ptr noalias %t, ptr noalias %y, ptr noalias %u, ptr noalias %ydot"


def emit_rates(program: Program, target: Target) -> str:
    """The functions of a program with inputs t, y, u and the output ydot."""
    code = optimize(lower(program.results), fma=target.fma)
    row = 8 * target.width
    functions = []
    for width in dict.fromkeys((target.width, 1)):
        lanes = Lanes(Function(), width, target.fma)
        f = lanes.function
        values: dict[str, str] = {}

        def read(name: str, f: Function = f, lanes: Lanes = lanes,
                 values: dict[str, str] = values) -> str:
            if name not in values:
                port, k = split_name(name)
                values[name] = f.load(lanes.real, f"%{port}", row * k)
            return values[name]

        def done(k: int, value: str, f: Function = f, lanes: Lanes = lanes) -> None:
            f.store(lanes.real, value, "%ydot", row * k)

        flag = "false"
        for large in emit(code, lanes, read, done):
            flag = f.let(f"or i1 {flag}, {large}")
        f.do(f"ret i1 {flag}")
        name = "rates_all" if width == target.width else "rates_lane"
        # vectors spilt to a stack that is not aligned straddle cache lines: half the speed
        stack = max(16, 8 * width)
        functions.append(f.define(f"internal i1 @{name}({PARAMETERS}) alignstack({stack})"))
    return "\n".join([*functions, _entry(target)])


def _entry(target: Target) -> str:
    f = Function()
    large = f.let("call i1 @rates_all(ptr %t, ptr %y, ptr %u, ptr %ydot)")
    if target.width > 1:
        f.branch(large, "again", "end", unlikely=True)
        f.begin("again")
        for lane in range(target.width):
            moved = ", ".join(f"ptr {f.offset(p, 8 * lane)}" for p in ("%t", "%y", "%u", "%ydot"))
            f.let(f"call i1 @rates_lane({moved})")
        f.go("end")
        f.begin("end")
    f.do("ret void")
    return f.define(f"internal void @rates({PARAMETERS})")
