"""Functions that WebAssembly has no words for, from their texts in `nlink.scalars.elementary`.

They are functions of the module that calls them, so a module imports nothing and has the same bits
in every browser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nlink.backends.llvm.code import lower
from nlink.backends.llvm.passes import optimize
from nlink.backends.wasm.binary import F64, I64, Function, Module
from nlink.backends.wasm.expressions import Expressions, Sink
from nlink.scalars import elementary
from nlink.scalars.graph import Graph
from nlink.scalars.lookup import LookupTable
from nlink.scalars.primitives import Primitive, Scalar


def function(module: Module, name: str) -> None:
    """The function of a primitive."""
    text = elementary.FUNCTIONS[name]
    _traced(module, f"${name}", 2 if name in ("atan2", "pow") else 1, lambda *x: [text(*x)])


def sine_and_cosine(module: Module) -> None:
    """`$sincos`, an angle to both functions: one of two reductions, then what they share."""
    if "$sincos" in module.functions:
        return
    _traced(module, "$near", 1, elementary.reduce_near)
    _traced(module, "$far", 1, elementary.reduce_far)
    _traced(module, "$turn", 4, elementary.turn)
    f = module.add(Function("$sincos", (F64,), (F64, F64)))
    y, rest, j = (f.local() for _ in range(3))
    kept = " ".join(f"local.set {x}" for x in (j, rest, y))
    f.do(f"local.get 0 f64.abs f64.const {elementary.NEAR!r} f64.le if "
         f"local.get 0 f64.abs call $near {kept} else local.get 0 f64.abs call $far {kept} end "
         f"local.get 0 local.get {y} local.get {rest} local.get {j} call $turn")


def helper(module: Module, row: Primitive) -> None:
    """The function that a primitive's words call."""
    name = f"${row.name}"
    if name not in module.functions:
        f = module.add(Function(name, (F64,) * row.arity, (F64,), locals=[I64]))
        f.do(row.wasm_helper)


def table(module: Module, row: LookupTable) -> int:
    """Where a table is in memory."""
    return module.table(row.name, row.values.tolist())


def _traced(module: Module, name: str, arity: int,
            text: Callable[..., Sequence[Scalar]]) -> None:
    """A text of numbers as a function of the module."""
    if name in module.functions:
        return
    graph = Graph()
    code = optimize(lower([graph.lift(x) for x in text(*(graph.input(k) for k in range(arity)))]),
                    fma=False)
    f = module.add(Function(name, (F64,) * arity, (F64,) * len(code.results)))
    results = [f.local() for _ in code.results]
    Expressions(module, f).write(
        code, lambda k: [b"\x20" + bytes([k])],  # type: ignore[list-item]
        [Sink([], [b"\x21" + bytes([local])]) for local in results])
    f.do(" ".join(f"local.get {local}" for local in results))
