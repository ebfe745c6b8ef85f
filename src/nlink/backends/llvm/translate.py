"""A program to machine code: the emitters in order, then LLVM."""

from __future__ import annotations

from nlink.backends.llvm import native
from nlink.backends.llvm.bare import emit_bare
from nlink.backends.llvm.batch import emit_batch
from nlink.backends.llvm.emit import emit_program
from nlink.backends.llvm.ir import MODULE_BREAK, MODULE_TAIL, Target
from nlink.backends.llvm.kernel import Compiled
from nlink.backends.llvm.precision import PRECISIONS
from nlink.backends.llvm.rolled import emit_rolled
from nlink.backends.llvm.sincos import large_reduction
from nlink.backends.llvm.step_calls import emit_stepped
from nlink.programs.program import Program
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.staged import StagedProgram
from nlink.programs.stepped import SteppedProgram
from nlink.scalars.graph import uncollected

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
    reduction = large_reduction(fma=target.fma)
    parts = [reduction, body,
             emit_batch((*program.inputs, *program.outputs), target, vectors)]
    if native.supported():
        parts.append(emit_bare(program.inputs, program.outputs, target.precision))
    modules = ["\n".join([*parts, MODULE_TAIL])]
    modules += ["\n".join([reduction if "@reduce_large" in text else "", text, MODULE_TAIL])
                for text in apart]
    return MODULE_BREAK.join(modules), operations, scratch, data


def compile_program(program: AnyProgram, dtype: str = "float64") -> Compiled:
    """Machine code of a program for the host, that computes with numbers of a type."""
    from nlink.backends.llvm.host import compile_object, host

    target = host().target.computing(PRECISIONS[dtype])
    text, operations, scratch, data = module(program, target)
    return Compiled(program.name, tuple(program.inputs), tuple(program.outputs), target.width,
                    operations, scratch, data, compile_object(text), dtype=dtype)
