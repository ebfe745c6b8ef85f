"""A program to machine code: the emitters in order, then LLVM."""

from __future__ import annotations

import functools

from nlink.backends.llvm import native
from nlink.backends.llvm.bare import emit_bare
from nlink.backends.llvm.batch import emit_batch
from nlink.backends.llvm.emit import emit_program
from nlink.backends.llvm.ir import COMMON, MODULE_TAIL, Target
from nlink.backends.llvm.kernel import Compiled
from nlink.backends.llvm.precision import PRECISIONS
from nlink.backends.llvm.rolled import emit_rolled
from nlink.backends.llvm.sincos import with_reduction
from nlink.backends.llvm.step_calls import emit_stepped
from nlink.programs.program import Port, Program
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.staged import StagedProgram
from nlink.programs.stepped import SteppedProgram
from nlink.scalars.graph import uncollected

Shapes = tuple[tuple[int, ...], ...]
AnyProgram = Program | StagedProgram | SteppedProgram | RolledProgram


@uncollected()
def module(program: AnyProgram, target: Target,
           ) -> tuple[str, int, int, bytes]:
    """The LLVM modules of a program in one text, its operation count, scratch size and data."""
    apart: tuple[str, ...] = ()
    if not isinstance(program, RolledProgram):
        straight = emit_stepped(program, target) if isinstance(
            program, SteppedProgram) else emit_program(program, target)
        body, scratch, vectors = straight.text, straight.scratch, straight.vectors
        apart, data, operations = straight.apart, straight.data, program.operations()
    else:
        code = emit_rolled(program, target)
        body, operations, scratch, data = code.text, code.operations, code.scratch, code.data
        vectors = None
    modules = ["\n".join([text, MODULE_TAIL]) for text in (body, *apart)]
    modules.append(_calls(tuple(port.shape for port in program.inputs),
                          tuple(port.shape for port in program.outputs), target, vectors))
    return with_reduction(modules, target), operations, scratch, data


@functools.lru_cache(maxsize=64)
def _calls(inputs: Shapes, outputs: Shapes, target: Target, vectors: int | None) -> str:
    """The module of the ways to call a kernel: all that depends on is the shapes of its ports."""
    takes, gives = (tuple(Port("", shape) for shape in each) for each in (inputs, outputs))
    parts = [emit_batch((*takes, *gives), target, vectors)]
    if native.supported():
        parts.append(emit_bare(takes, gives, target.precision))
    return "\n".join([COMMON, *parts, MODULE_TAIL])


def compile_program(program: AnyProgram, dtype: str = "float64") -> Compiled:
    """Machine code of a program for the host, that computes with numbers of a type."""
    from nlink.backends.llvm.host import compile_object, host

    target = host().target.computing(PRECISIONS[dtype])
    text, operations, scratch, data = module(program, target)
    return Compiled(program.name, tuple(program.inputs), tuple(program.outputs), target.width,
                    operations, scratch, data, compile_object(text), dtype=dtype)
