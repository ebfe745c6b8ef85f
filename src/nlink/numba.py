"""Numba: what a robot computes as functions that compiled loops call.

>>> import nlink, numba, numpy as np
>>> robot = nlink.load("double_pendulum")
>>> forward_dynamics = nlink.numba.function(robot, "forward_dynamics")
>>> @numba.njit
... def fall(forward_dynamics, q, qd, tau, steps):
...     qdd = np.empty_like(q)
...     for _ in range(steps):
...         forward_dynamics(q, qd, tau, qdd)
...         qd += 1e-3 * qdd
...         q += 1e-3 * qd
...     return q
>>> fall(forward_dynamics, np.zeros(2), np.zeros(2), np.zeros(2), 500).round(3)
array([-1.002,  0.634])

A call costs some nanoseconds more than the machine code itself, and needs no GIL: it may stand in
`prange`. A function that is handed over as an argument, as above, lets Numba keep compiled code
(`cache=True`): another process, whose kernels lie elsewhere, uses it. A function that is a global
name works too, but then Numba caches nothing, and warns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nlink.backends.llvm.signature import CompiledFunction, compiled_function
from nlink.derivatives.differentiable import differentiable
from nlink.derivatives.traced_functions import TracedFunction
from nlink.engines.engines import checked_type, machine_code
from nlink.robot import Robot
from nlink.simulation.setting import Physics
from nlink.simulation.step_programs import traced_step
from nlink.simulation.system import System, system_of

__all__ = ["function", "step"]


def function(f: Any, *shapes: Any, dtype: str = "float64", frame: int | str = -1,
             algorithm: str | None = None, f_ext: bool = False, vary: str | Sequence[str] = (),
             ) -> Any:
    """A robot's computation, or a Python function, as a function for code compiled by Numba.

    It takes what `nlink.function` takes: a robot and a name, or a function that is traced and the
    shapes of its arguments; or it takes a result of `nlink.function`, and of one's own function
    also the name of a product, "jvp", "vjp", "hvp", "jacobian" or "hessian". `f_ext=True` adds
    wrenches on links to the arguments. `vary` names parameters that become arguments, too:
    "inertia", "gravity" and the others of `nlink.parameter_derivatives`, with the values as
    `robot.inertias` and `robot.gravity` give them.

    In compiled code `f(q, qd, tau)` gives new arrays and `f(q, qd, tau, qdd)` writes into `qdd` and
    gives None. Arrays are C-contiguous and of the dtype, "float64" or "float32": of one state, or
    with one leading dimension, in any mixture; single numbers are converted. Another dtype, layout
    or number of dimensions is a TypingError of Numba's; a wrong size, or an output that shares
    memory with another argument, a ValueError when it is called.

    >>> import nlink, numba, numpy as np
    >>> robot = nlink.load("planar3")
    >>> energy = nlink.numba.function(robot, "kinetic_energy")
    >>> float(numba.njit(lambda energy, q, qd: energy(q, qd))(energy, np.zeros(3), np.ones(3)))
    12.833333333333332
    >>> torque = nlink.numba.function(robot, "gravity_torque", vary="gravity")
    >>> numba.njit(lambda torque, q, g: torque(q, g))(torque, np.zeros(3), np.array([0, -1.0, 0]))
    array([4.5, 2. , 0.5])
    """
    checked_type(dtype)
    if isinstance(f, TracedFunction) and shapes:
        return _callable(f.compile(*shapes, dtype=dtype))
    found = differentiable(f, *shapes, frame=frame, algorithm=algorithm, f_ext=f_ext, vary=vary)
    return _callable(compiled_function(found.compiled(dtype)[0]))


def step(system: Robot | System, step: float, method: str = "semi_implicit", *,
         dtype: str = "float64") -> Any:
    """One step of a simulation as a function for code compiled by Numba: (y, tau, t, ...) to the
    state a step later.

    y are the states of `nlink.System`: q, qd, and what a controller remembers. tau are joint forces
    beside those of its controller, t is the time, and what the system has in `vary` follows. The
    methods are those of `nlink.simulate` with one step after another. Friction has to be smooth,
    and loops are not projected onto closed states. With `dtype="float32"` whole simulations of
    fixed steps are computed in it.

    >>> import nlink, numba, numpy as np
    >>> step = nlink.numba.step(nlink.load("double_pendulum"), 0.01, "rk4", dtype="float32")
    >>> @numba.njit
    ... def run(step, y, tau, steps):
    ...     for k in range(steps):
    ...         y = step(y, tau, 0.01 * k)
    ...     return y
    >>> start = np.array([0.1, 0.2, 0.0, 0.0], np.float32)
    >>> run(step, start, np.zeros(2, np.float32), 100)[:2].round(2).tolist() == [
    ...     round(x, 2) for x in nlink.simulate(
    ...         nlink.load("double_pendulum"), start[:2], t=1).q[-1].astype(np.float32)]
    True
    """
    program, _ = traced_step(system_of(system, Physics()), step, method)
    return _callable(compiled_function(machine_code(program, checked_type(dtype))))


def _callable(compiled: CompiledFunction) -> Any:
    """A kernel as Numba takes it."""
    try:
        from nlink.backends.numba_calls import NumbaFunction
    except ImportError as missing:
        raise ImportError("nlink.numba needs Numba: pip install nlink[numba]") from missing
    return NumbaFunction(compiled)
