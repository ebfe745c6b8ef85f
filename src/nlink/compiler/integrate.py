"""A system of differential equations and a method, to the machine code that integrates it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nlink.compiler.adams import Adams
from nlink.compiler.ir import MODULE_TAIL, Target
from nlink.compiler.kernel import Compiled
from nlink.compiler.rates import emit_rates
from nlink.compiler.runge_kutta import RungeKutta
from nlink.compiler.sincos import large_reduction
from nlink.compiler.states import Shape
from nlink.simulation.tableau import Tableau

if TYPE_CHECKING:
    from nlink.scalars.program import Program
    from nlink.simulation.tableau import Adams as AdamsMethod


def compile_integration(program: Program, method: Tableau | AdamsMethod, shape: Shape,
                        width: int) -> Compiled:
    """Machine code for the host that integrates a program's rates, `width` lanes at a time."""
    from nlink.compiler.host import compile_object, host

    target = Target(width, host().target.fma)
    writer = (RungeKutta(method, shape, target) if isinstance(method, Tableau)
              else Adams(method, shape, target))
    text = "\n".join([large_reduction(fma=target.fma), emit_rates(program, target),
                      writer.function(), MODULE_TAIL])
    operations = sum(n.op not in ("const", "input") for n in program.live())
    return Compiled(program.name, tuple(program.inputs), tuple(program.outputs), width,
                    operations * method.evaluations, writer.scratch, b"", compile_object(text))
