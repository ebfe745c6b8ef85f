"""PyTorch: what a robot computes, and steps of its simulation, as functions of tensors.

Functions are operators of PyTorch with gradients of gradients, rules for `torch.func.vmap` and for
`torch.compile`. They run nlink's machine code on CPUs, in float64 and float32, with no more threads
than PyTorch may use.
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
    """A function of tensors of a robot's computation, or of a Python function.

    It takes what `nlink.function` takes: a robot and a name, or a function that is traced and the
    shapes of its arguments; or it takes a result of `nlink.function`. `f_ext=True` adds wrenches on
    links to the arguments. `vary` names parameters that become arguments, too: "inertia", "gravity"
    and the others of `nlink.parameter_derivatives`, with the values as `robot.inertias` and
    `robot.gravity` give them. Tensors may have leading dimensions, which broadcast; gradients have
    the shape of the arguments, so a quaternion is brought to length one first.

    >>> import nlink
    >>> from importlib.util import find_spec
    >>> if find_spec("torch"):
    ...     import torch
    ...     torque = nlink.torch.function(nlink.load("planar3"), "gravity_torque")
    ...     q = torch.zeros(100, 3, requires_grad=True)
    ...     torque(q).square().sum().backward()
    ...     assert q.grad.shape == (100, 3)
    """
    return _function(differentiable(f, *shapes, frame=frame, algorithm=algorithm, f_ext=f_ext,
                                    vary=vary))


def step(system: Robot | System, step: float, method: str = "semi_implicit") -> Callable[..., Any]:
    """A function of tensors for one step of a simulation: (y, tau, t, ...) to the state a step
    later.

    y are the states of `nlink.System`: q, qd, and what a controller remembers. tau are joint forces
    beside those of its controller (none if not given), t is the time, and what the system has in
    `vary` follows. The methods are those of `nlink.simulate` with one step after another. Friction
    has to be smooth, and loops are not projected onto closed states.

    >>> import nlink
    >>> from importlib.util import find_spec
    >>> if find_spec("torch"):
    ...     step = nlink.torch.step(nlink.load("double_pendulum"), 0.01)
    ...     assert step([0.1, 0.2, 0.0, 0.0]).shape == (4,)
    """
    program, present = traced_step(system_of(system, Physics()), step, method)
    return _function(DifferentiableProgram(program), present)


def rollout(system: Robot | System, step: float, method: str = "semi_implicit",
            ) -> Callable[..., Any]:
    """A function of tensors for a whole simulation: (y, tau, t, ...) to the states after each step.

    The arguments are those of `step`, with tau for each step: (steps, ..., n). The result is
    (steps, ..., size).

    >>> import nlink
    >>> from importlib.util import find_spec
    >>> if find_spec("torch"):
    ...     import torch
    ...     run = nlink.torch.rollout(nlink.load("double_pendulum"), 0.01)
    ...     assert run(torch.zeros(4), torch.zeros(50, 2)).shape == (50, 4)
    """
    advance = globals()["step"](system, step, method)

    def run(y: Any, tau: Any, t: float = 0.0, *own: Any) -> Any:
        import torch

        states = []
        for k, now in enumerate(tau):
            y = advance(y, now, t + step * k, *own)
            states.append(y)
        return torch.stack(states)

    return run


def _function(f: Differentiable, present: Sequence[Any] = ()) -> Callable[..., Any]:
    """A function of tensors; `present` are values of its last arguments where these are not
    given."""
    try:
        from nlink.backends.torch_calls import call, registered
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError("functions of PyTorch need torch: pip install nlink[torch]") from None
    registered(f)
    return as_function(f, call, present)
