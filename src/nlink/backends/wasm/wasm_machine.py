"""A module that runs one process of an iteration.

    step()            one attempt
    output()          the column that is an output at the time `due`
    until(attempts)   steps until the time `due` is reached (0), so many attempts are made (1), the
                      process has ended (2), or its step has left marks for the log (3)

All else is in memory: what the process remembers, the numbers it is given, its inputs. `Places`
tells where; whoever runs the module reads and writes them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nlink.backends.llvm.ir import Target
from nlink.backends.llvm.statements import Memory
from nlink.backends.wasm.program_functions import write_program
from nlink.backends.wasm.wasm_library import complete_library
from nlink.backends.wasm.wasm_module import I32, Module, StackFunction
from nlink.backends.wasm.wasm_statements import ProcessWriter
from nlink.iterations.iteration import Shape
from nlink.iterations.recording import RecordedIteration
from nlink.programs.program import Program

REACHED, SPENT, ENDED, MARKED = range(4)
"""What `until` returns."""


@dataclass(frozen=True)
class Places:
    """Where numbers are in the memory of a module, in bytes."""

    cells: Mapping[str, int]
    columns: Mapping[str, int]
    given: Mapping[str, int]
    inputs: int
    """What programs are given besides time and state."""
    row: int
    """The column that is an output."""


def write_machine(module: Module, iteration: RecordedIteration, programs: Mapping[str, Program],
                  shape: Shape) -> Places:
    """Functions of a module that run a process; `programs` are those that the text calls."""
    blocks = {program.name: len(program.results) for program in programs.values()}
    memory = Memory(iteration.layout, shape.size, shape.inputs, (), iteration.recordings,
                    Target(1, fma=False), blocks)
    base = module.constants([0.0] * (memory.at // 8))
    names = sorted({*iteration.given(), "due"})
    begin = module.constants([0.0] * len(names))
    given = {name: begin + 8 * k for k, name in enumerate(names)}
    for name, value in (("share", 1.0 / shape.continuous), ("continuous", float(shape.continuous)),
                        ("coordinates", float(shape.coordinates))):
        if name in given:
            module.set(given[name], value)
    for name, value in iteration.layout.cells.items():
        module.set(base + memory.cells[name], value)
    for name, program in programs.items():
        write_program(module, program, f"${name}")
    for name, recording in (("step", iteration.step), ("output", iteration.output)):
        if recording is not None:
            f = module.add(StackFunction(name))
            ProcessWriter(module, f, memory, base, given, recording).write()
            module.exports[name] = name
    complete_library(module)
    cells = {name: base + at for name, at in memory.cells.items()}
    if iteration.output is not None:
        module.add(_until(cells, given["due"]))
        module.exports["until"] = "until"
    return Places(cells, {name: base + memory.columns[name] for name in iteration.layout.columns},
                  given, base + memory.inputs,
                  base + memory.columns[iteration.row] if iteration.row else base)


def _until(cells: Mapping[str, int], due: int) -> StackFunction:
    f = StackFunction("until", (I32,), (I32,))
    marked = (f"i32.const {MARKED} i32.const 0 f64.load {cells['marked']} f64.const 0 f64.gt "
              "br_if 1 drop" if "marked" in cells else "")
    f.do(f"""
        block_i32 loop
            i32.const {ENDED} i32.const 0 f64.load {cells['status']} f64.const 0 f64.ne br_if 1 drop
            i32.const {REACHED} i32.const 0 f64.load {due} i32.const 0 f64.load {cells['t']} f64.le
            br_if 1 drop
            i32.const {SPENT} local.get 0 i32.const 0 i32.le_s br_if 1 drop
            local.get 0 i32.const 1 i32.sub local.set 0
            call step
            {marked}
            br 0
        end unreachable end""")
    return f
