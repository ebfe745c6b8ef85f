"""Integration kernels: the method and the programs of a system, compiled together, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nlink.backends.llvm.precision import PRECISIONS
from nlink.backends.llvm.threads import threads
from nlink.engines.kernels import kept
from nlink.iterations.integration import STATUS, Method
from nlink.iterations.iteration import new_records
from nlink.programs.keys import key
from nlink.simulation.implicit import solving_programs
from nlink.simulation.setting import Solver
from nlink.storage.event_log import EventLog

if TYPE_CHECKING:
    from nlink.backends.llvm.kernel import Compiled
    from nlink.backends.llvm.process_kernel import ProcessKernel
    from nlink.simulation.system import System

Array = np.ndarray


def kernel_of(system: System, method: Method, count: int, dtype: str = "float64",
              ) -> ProcessKernel:
    """The integration kernel of so many trajectories, with rates of the dtype: at hand, from the
    cache, or compiled now."""
    from nlink.backends.llvm.host import host

    width = host().target.computing(PRECISIONS[dtype]).width if count > 2 else 2

    # what happens at events is a part of the iteration, not of the programs it calls
    try:
        wanted = ("integration", system.recipe(), system.watching.triggers, method, width,
                  dtype, system.sampling, host())
        return kept(system.robot, wanted, lambda: _load(system, method, width, dtype))
    finally:
        system.forget_programs()


def one_step(system: System, method: Method, y: Array, own: Array, t: float, h: float) -> Array:
    """The states (count, size) after one step, whatever its error is; nan where it fails."""
    count, size = y.shape
    kernel = kernel_of(system, method, count)
    records = new_records(count, system.iteration(method).layout, size, own.shape[1])
    records["own"], records["next"], records["h"], records["t"] = own, 1, h, t
    records["y"] = y
    any_error = Solver(rtol=1e6, atol=1e6, max_steps=2).bounds(0.0)
    log = EventLog(count, size, system.entries)
    kernel.run(records, any_error, np.empty((count, 2, size)), np.array([t, t + h]),
               log=log.buffer, threads=threads())
    return np.where((records["status"] == STATUS["done"])[:, None], records["y"], np.nan)


def _load(system: System, method: Method, width: int, dtype: str) -> ProcessKernel:
    from nlink.backends.llvm.loading import load_compiled
    from nlink.backends.llvm.process_kernel import ProcessKernel

    iteration, recorded = system.iteration(method), system.recorded(method)

    def compile_now() -> Compiled:
        from nlink.backends.llvm.lanes import compile_iteration

        called = recorded.calls()
        programs = {name: x for name, x in system.programs.items() if name in called}
        if "derivatives" in method.needs:
            programs |= solving_programs(system)
        return compile_iteration(recorded, programs, system.shape, width, dense=iteration.dense,
                                 evaluations=method.cost.evaluations + method.cost.stages,
                                 narrow="rates" if dtype == "float32" else None)

    whole = key("iteration", width, dtype, iteration.dense, recorded.parts(), system.recipe())
    return load_compiled(whole, compile_now, ProcessKernel)
