"""A system of differential equations and a method, to the machine code that integrates it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nlink.compiler.adams import Adams
from nlink.compiler.ir import MODULE_TAIL, Target
from nlink.compiler.kernel import Compiled
from nlink.compiler.rates import RolledRates, emit_rates, straight
from nlink.compiler.runge_kutta import RungeKutta
from nlink.compiler.sincos import large_reduction
from nlink.compiler.states import Shape
from nlink.simulation.tableau import Tableau

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nlink.scalars.program import Program
    from nlink.simulation.tableau import Adams as AdamsMethod


def compile_integration(program: Program | RolledRates, method: Tableau | AdamsMethod, shape: Shape,
                        width: int, close: Program | None = None, events: Sequence[Program] = (),
                        ) -> Compiled:
    """Machine code for the host that integrates a program's rates, `width` lanes at a time.

    `close` takes the state after a step to where it belongs. `events` are further programs of
    t, y, u that the loop calls by their names: `watch`, if the shape has triggers, and
    `impact`, if one of them bounces.
    """
    from nlink.compiler.host import compile_object, host

    target = Target(width, host().target.fma)
    writer = (RungeKutta(method, shape, target) if isinstance(method, Tableau)
              else Adams(method, shape, target))
    rates = emit_rates(program, target)
    others = [straight(other, other.name, target)
              for other in (*events, *(() if close is None else (close,)))]
    text = "\n".join([large_reduction(fma=target.fma), rates.text, *others, writer.function(),
                      MODULE_TAIL])
    split = -(-writer.scratch // 64) * 64
    return Compiled(program.name, (), (), width, rates.operations * method.evaluations,
                    split + rates.room, rates.data, compile_object(text), split)
