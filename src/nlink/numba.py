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

from typing import Any

from nlink.derivatives.traced_functions import TracedFunction
from nlink.robot import Robot, expect_robot

__all__ = ["function"]


def function(robot: Robot | TracedFunction, name: str = "value", *, dtype: str = "float64",
             frame: int | str = -1, algorithm: str | None = None, f_ext: bool = False) -> Any:
    """A computation of a robot as a function for code compiled by Numba.

    In compiled code `f(q, qd, tau)` gives new arrays and `f(q, qd, tau, qdd)` writes into `qdd` and
    gives None. Arrays are C-contiguous and of the dtype, "float64" or "float32": of one state, or
    with one leading dimension, in any mixture. Another dtype, layout or number of dimensions is a
    TypingError of Numba's; a wrong size, or an output that shares memory with another argument, a
    ValueError when it is called.

    In place of a robot there may be a function of one's own that `nlink.function` has traced; then
    `name` is "value", "jvp", "vjp", "hvp", "jacobian" or "hessian".

    >>> import nlink, numba, numpy as np
    >>> energy = nlink.numba.function(nlink.load("planar3"), "kinetic_energy")
    >>> float(numba.njit(lambda energy, q, qd: energy(q, qd))(energy, np.zeros(3), np.ones(3)))
    12.833333333333332
    """
    try:
        from nlink.backends.numba_calls import NumbaFunction
    except ImportError as missing:
        raise ImportError("nlink.numba needs Numba: pip install nlink[numba]") from missing
    if isinstance(robot, TracedFunction):
        return NumbaFunction(robot.compile(name, dtype=dtype))
    return NumbaFunction(expect_robot(robot).compile(
        name, dtype=dtype, frame=frame, algorithm=algorithm, f_ext=f_ext))
