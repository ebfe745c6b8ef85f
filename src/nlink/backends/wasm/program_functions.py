"""Programs as functions of a module: arrays in memory to arrays in memory."""

from __future__ import annotations

from nlink.backends.llvm.code import lower
from nlink.backends.llvm.emit import split_name
from nlink.backends.llvm.passes import optimize
from nlink.backends.wasm.stack_code import Expressions, Sink, Words
from nlink.backends.wasm.wasm_module import I32, Module, StackFunction, assembled
from nlink.programs.program import Program


def write_program(module: Module, program: Program, name: str) -> StackFunction:
    """A function of the addresses of a program's inputs and outputs, in order, which share no
    memory."""
    code = optimize(lower(program.results), fma=False)
    f = module.add(StackFunction(name, (I32,) * (len(program.inputs) + len(program.outputs))))
    place = {port.name: k for k, port in enumerate(program.inputs)}

    def load(wanted: object) -> Words:
        port, k = split_name(str(wanted))
        return assembled(f"local.get {place[port]} f64.load {8 * k}")

    sinks = [Sink(assembled(f"local.get {number}"), assembled(f"f64.store {8 * k}"))
             for number, port in enumerate(program.outputs, len(program.inputs))
             for k in range(port.size)]
    Expressions(module, f).write(code, load, sinks)
    return f
