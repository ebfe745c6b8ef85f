"""Integration kernels: the method and the programs of a system, compiled together, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nlink.backends.llvm.threads import MAKING
from nlink.iterations.integration import Method
from nlink.iterations.sampling import Sampling
from nlink.iterations.triggers import Trigger
from nlink.programs.keys import key
from nlink.simulation.implicit import solving_programs

if TYPE_CHECKING:
    from nlink.backends.llvm.host import Host
    from nlink.backends.llvm.integrator import Integrator
    from nlink.backends.llvm.kernel import Compiled
    from nlink.simulation.system import System

KEPT = 32
"""Kernels kept in memory; the oldest go first."""
_KERNELS: dict[tuple[str, tuple[Trigger, ...], Method, int, Sampling | None, Host],
               Integrator] = {}


def kernel_of(system: System, method: Method, width: int) -> Integrator:
    """The integration kernel of a system: at hand, from the cache, or compiled now."""
    from nlink.backends.llvm.host import host

    # what happens at events is a part of the iteration, not of the programs it calls
    wanted = (system.programs.recipe(), tuple(each.trigger for each in system.watched), method,
              width, system.sampling, host())
    with MAKING:
        if wanted not in _KERNELS:
            while len(_KERNELS) >= KEPT:
                _KERNELS.pop(next(iter(_KERNELS)))
            _KERNELS[wanted] = _load(system, method, width)
        return _KERNELS[wanted]


def _load(system: System, method: Method, width: int) -> Integrator:
    from nlink.backends.llvm.integrator import Integrator
    from nlink.backends.llvm.loading import load_compiled

    iteration, recorded = system.iteration(method), system.programs.recorded(method)

    def compile_now() -> Compiled:
        from nlink.backends.llvm.lanes import compile_iteration

        programs = system.programs.called() | (solving_programs(system) if method.solves else {})
        return compile_iteration(recorded, programs, system.shape, width, dense=iteration.dense,
                                 evaluations=method.evaluations + method.stages)

    whole = key("iteration", width, iteration.dense, recorded.parts(), system.programs.recipe())
    return load_compiled(whole, compile_now, Integrator)
