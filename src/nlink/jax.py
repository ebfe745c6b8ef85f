"""JAX: what a robot computes, and steps of its simulation, as functions that JAX transforms.

>>> import jax, nlink
>>> robot = nlink.load("double_pendulum")
>>> forward_dynamics = jax.jit(nlink.jax.function(robot, "forward_dynamics"))
>>> q, qd, tau = jax.numpy.array([0.1, 0.2]), jax.numpy.zeros(2), jax.numpy.array([1.0, 0.0])
>>> forward_dynamics(q, qd, tau).shape
(2,)
>>> jax.jacfwd(forward_dynamics)(q, qd, tau).shape
(2, 2)

The functions call nlink's machine code from XLA, on CPUs. They work under jit, vmap, grad, jvp,
vjp, jacfwd, jacrev, scan and shard_map, forwards and backwards, to any order. Numbers are of
float64 if `jax_enable_x64` is set, else of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nlink.derivatives.differentiable import (
    Differentiable,
    DifferentiableProgram,
    as_function,
    differentiable,
)
from nlink.robot import Robot
from nlink.simulation.setting import Physics
from nlink.simulation.step_programs import traced_step
from nlink.simulation.system import System, system_of


def function(f: Any, *shapes: Any, frame: int | str = -1, algorithm: str | None = None,
             f_ext: bool = False, vary: str | Sequence[str] = ()) -> Callable[..., Any]:
    """A function of JAX of a robot's computation, or of a Python function.

    It takes what `nlink.function` takes: a robot and a name, or a function that is traced and the
    shapes of its arguments; or it takes a result of `nlink.function`. `f_ext=True` adds wrenches on
    links to the arguments. `vary` names parameters that become arguments, too: "inertia", "gravity"
    and the others of `nlink.parameter_derivatives`, with the values as `robot.inertias` and
    `robot.gravity` give them. Arguments may have leading dimensions, which broadcast; arrays and
    their tangents have the same shape, so a quaternion is brought to length one first.

    >>> import jax, nlink
    >>> robot = nlink.load("planar3")
    >>> torque = nlink.jax.function(robot, "gravity_torque", vary="gravity")
    >>> jax.grad(lambda g: torque(jax.numpy.zeros(3), g).sum())(robot.gravity).shape
    (3,)
    >>> cost = nlink.jax.function(lambda x, u: x @ x + nlink.sin(u[0]), 2, 1)
    >>> float(cost([1.0, 2.0], [0.0]))
    5.0
    """
    return _function(differentiable(f, *shapes, frame=frame, algorithm=algorithm, f_ext=f_ext,
                                    vary=vary))


def step(system: Robot | System, step: float, method: str = "semi_implicit") -> Callable[..., Any]:
    """A function of JAX for one step of a simulation: (y, tau, t, ...) to the state a step later.

    y are the states of `nlink.System`: q, qd, and what a controller remembers. tau are joint forces
    beside those of its controller (none if not given), t is the time, and what the system has in
    `vary` follows. The methods are those of `nlink.simulate` with one step after another. Friction
    has to be smooth, and loops are not projected onto closed states.

    >>> import nlink
    >>> step = nlink.jax.step(nlink.load("double_pendulum"), 0.01)
    >>> step([0.1, 0.2, 0.0, 0.0]).shape
    (4,)
    """
    program, present = traced_step(system_of(system, Physics()), step, method)
    return _function(DifferentiableProgram(program), present)


def rollout(system: Robot | System, step: float, method: str = "semi_implicit",
            ) -> Callable[..., Any]:
    """A function of JAX for a whole simulation: (y, tau, t, ...) to the states after each step.

    The arguments are those of `step`, with tau for each step: (steps, ..., n). The result is
    (steps, ..., size). It is a scan, so the gradient by the first state, all forces and what varies
    takes one simulation back.

    >>> import jax, nlink
    >>> run = nlink.jax.rollout(nlink.load("double_pendulum"), 0.01)
    >>> y, tau = jax.numpy.zeros(4), jax.numpy.zeros((50, 2))
    >>> jax.grad(lambda tau: run(y, tau)[-1, 0])(tau).shape
    (50, 2)
    """
    import jax

    advance = globals()["step"](system, step, method)

    def run(y: Any, tau: Any, t: Any = 0.0, *own: Any) -> Any:
        y, tau = (jax.numpy.asarray(x, jax.numpy.result_type(y, tau, float)) for x in (y, tau))
        lead = jax.numpy.broadcast_shapes(y.shape[:-1], tau.shape[1:-1])
        times = t + step * jax.numpy.arange(len(tau))

        def one(y: Any, now: Any) -> tuple[Any, Any]:
            new = advance(y, *now, *own)
            return new, new

        return jax.lax.scan(one, jax.numpy.broadcast_to(y, (*lead, y.shape[-1])), (tau, times))[1]

    return run


def _function(f: Differentiable, present: Sequence[Any] = ()) -> Callable[..., Any]:
    """A function of JAX; `present` are values of its last arguments where these are not given."""
    try:
        from nlink.backends.jax_calls import call
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "jaxlib"):
            raise
        raise ImportError("functions of JAX need jax: pip install nlink[jax]") from None
    return as_function(f, call, present)
