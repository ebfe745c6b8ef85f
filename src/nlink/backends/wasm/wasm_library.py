"""Functions that WebAssembly has no words for, from their texts in `nlink.scalars.elementary`.

They are functions of the module that calls them, so a module imports nothing and has the same bits
in every browser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nlink.backends.llvm.code import lower
from nlink.backends.llvm.passes import optimize
from nlink.backends.wasm.stack_code import Expressions, Sink
from nlink.backends.wasm.wasm_module import F64, I64, Module, StackFunction, assembled
from nlink.scalars import elementary
from nlink.scalars.graph import Graph
from nlink.scalars.primitives import PRIMITIVES


def complete_library(module: Module) -> None:
    """Write the functions that others of a module call and that it does not have yet."""
    while missing := sorted({word for f in module.functions.values() for word in f.body
                             if isinstance(word, str)} - module.functions.keys()):
        for name in missing:
            _write(module, name)


def _write(module: Module, name: str) -> None:
    row = PRIMITIVES.get(name[1:])
    if name == "$sincos":
        _sine_and_cosine(module)
    elif row is not None and row.wasm_helper:
        f = module.add(StackFunction(name, (F64,) * row.arity, (F64,), locals=[I64]))
        f.do(row.wasm_helper)
    else:
        _traced(module, name, *_TEXTS[name])


_TEXTS: dict[str, tuple[int, Callable[..., Any]]] = {
    "$near": (1, elementary.reduce_near), "$far": (1, elementary.reduce_far),
    "$turn": (4, elementary.turn)} | {
    f"${name}": (PRIMITIVES[name].arity, text) for name, text in elementary.FUNCTIONS.items()}
"""How many numbers a function takes, and its text: a number or several."""


def _sine_and_cosine(module: Module) -> None:
    """`$sincos`, an angle to both functions: one of two reductions, then what they share."""
    f = module.add(StackFunction("$sincos", (F64,), (F64, F64)))
    y, rest, j = (f.local() for _ in range(3))
    kept = " ".join(f"local.set {x}" for x in (j, rest, y))
    f.do(f"local.get 0 f64.abs f64.const {elementary.NEAR!r} f64.le if "
         f"local.get 0 f64.abs call $near {kept} else local.get 0 f64.abs call $far {kept} end "
         f"local.get 0 local.get {y} local.get {rest} local.get {j} call $turn")


def _traced(module: Module, name: str, arity: int, text: Callable[..., Any]) -> None:
    """A text of numbers as a function of the module."""
    graph = Graph()
    found = text(*(graph.input(k) for k in range(arity)))
    results = found if isinstance(found, tuple) else (found,)
    code = optimize(lower([graph.lift(x) for x in results]), fma=False)
    f = module.add(StackFunction(name, (F64,) * arity, (F64,) * len(results)))
    kept = [f.local() for _ in results]
    Expressions(module, f).write(code, lambda k: assembled(f"local.get {k}"), [
        Sink([], assembled(f"local.set {local}")) for local in kept])
    f.do(" ".join(f"local.get {local}" for local in kept))
