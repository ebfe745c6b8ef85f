"""CasADi: what a robot computes as functions whose every operation CasADi knows.

>>> import nlink
>>> robot = nlink.load("double_pendulum")
>>> qdd = nlink.casadi.function(robot, "forward_dynamics")
>>> qdd
Function(double_pendulum_forward_dynamics:(q[2],qd[2],tau[2])->(qdd[2]) SXFunction)
>>> qdd([0.1, 0.2], [0, 0], [1, 0])
DM([-8.97994, 8.40921])

The graph of the computation is written in CasADi's own scalars. So derivatives of any order have
their sparsity, and solvers (IPOPT, fatrop, acados) and CasADi's code generation work with nothing
but pip's packages. CasADi knows nothing of curved spaces: the four coordinates of a quaternion are
numbers like others, and so are derivatives by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nlink.backends.casadi_graphs import casadi_function
from nlink.derivatives.differentiable import differentiable
from nlink.robot import Robot
from nlink.simulation.setting import Physics
from nlink.simulation.step_programs import traced_step
from nlink.simulation.system import System, system_of


def function(f: Any, *shapes: Any, frame: int | str = -1, algorithm: str | None = None,
             f_ext: bool = False, vary: str | Sequence[str] = ()) -> Any:
    """A `casadi.Function` of a robot's computation, or of a Python function.

    It takes what `nlink.function` takes: a robot and a name, or a function that is traced and the
    shapes of its arguments; or it takes a result of `nlink.function`. `f_ext=True` adds wrenches on
    links to the arguments. `vary` names parameters that become arguments, too: "inertia", "gravity"
    and the others of `nlink.parameter_derivatives`, with the values as `robot.inertias` and
    `robot.gravity` give them.

    A vector is a column, an array of more than two dimensions has the first as rows.

    >>> import nlink, casadi
    >>> energy = nlink.casadi.function(nlink.load("planar3"), "kinetic_energy")
    >>> q, qd = casadi.SX.sym("q", 3), casadi.SX.sym("qd", 3)
    >>> casadi.hessian(energy(q, qd), qd)[0].shape
    (3, 3)
    >>> cost = nlink.casadi.function(lambda x, u: x @ x + nlink.sin(u[0]), 2, 1)
    >>> cost([1, 2], 0)
    DM(5)
    """
    found = differentiable(f, *shapes, frame=frame, algorithm=algorithm, f_ext=f_ext, vary=vary)
    owner = f"{f.name}_" if isinstance(f, Robot) else ""
    return casadi_function(found.straight, owner + found.name)


def step(system: Robot | System, step: float, method: str = "semi_implicit") -> Any:
    """A `casadi.Function` of one step of a simulation: (y, tau, t, ...) to the state a step later.

    y are the states of `nlink.System`: q, qd, and what a controller remembers. tau are joint forces
    beside those of its controller, t is the time, and what the system has in `vary` follows. The
    methods are those of `nlink.simulate` with one step after another. Friction has to be smooth,
    and loops are not projected onto closed states.

    >>> import nlink
    >>> step = nlink.casadi.step(nlink.load("double_pendulum"), 0.01, "rk4")
    >>> step([0.1, 0.2, 0, 0], [0, 0], 0).shape
    (4, 1)
    """
    whole = system_of(system, Physics())
    program, _ = traced_step(whole, step, method)
    return casadi_function(program, f"{whole.robot.name}_{program.name}")
