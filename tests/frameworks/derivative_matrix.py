"""Derivatives of every computation on every kind of robot, by the checks that frameworks have.

    python tests/frameworks/derivative_matrix.py [jax] [torch] [casadi]

takes some minutes and prints a line for each; the suite runs a selection of the same checks.
JAX: `check_grads`, forwards and backwards, of order two. PyTorch: `gradcheck`, `gradgradcheck` and
`opcheck`. CasADi: rates of the Function, and of the gradient of the sum of its outputs, against
differences.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from framework_cases import NAMES, arguments, robot_named

import nlink
from nlink.bench.bench_robots import QUADRUPED
from nlink.derivatives.differentiable import DifferentiableProgram, differentiable
from nlink.simulation.setting import Physics
from nlink.simulation.step_programs import traced_step
from nlink.simulation.system import System, system_of

ROBOTS = ("panda", QUADRUPED, "four_bar")
COMPUTED = (*NAMES, "step")
STEP = 0.01


def case(robot: nlink.Robot, name: str) -> list[np.ndarray]:
    """The arguments of a computation, or of a step: of moderate size, as differences want them."""
    if name == "step":
        q, qd = robot.random_state(1)
        return [np.concatenate([q, 0.1 * qd]), np.ones(robot.n)]
    given = arguments(robot, name)
    return [given[0], *(0.1 * x for x in given[1:])]


def moving(robot: nlink.Robot) -> System:
    return nlink.System(robot, friction="smooth", width=0.1)


def check_jax(robot: nlink.Robot, name: str) -> None:
    jax: Any = import_module("jax")
    check: Any = import_module("jax.test_util").check_grads
    with jax.enable_x64(True):
        f = nlink.jax.step(moving(robot), STEP) if name == "step" else (
            nlink.jax.function(robot, name))
        given = case(robot, name)
        size = 1.0 + float(np.abs(f(*given)).max())
        check(jax.jit(lambda *x: f(*x) / size), given, order=2, modes=("fwd", "rev"), eps=1e-6,
              rtol=1e-4, atol=1e-4)


def check_torch(robot: nlink.Robot, name: str) -> None:
    torch: Any = import_module("torch")
    given = case(robot, name)
    if name == "step":
        program, present = traced_step(system_of(moving(robot), Physics()), STEP, "semi_implicit")
        function, f = DifferentiableProgram(program), nlink.torch.step(moving(robot), STEP)
    else:
        function, present = differentiable(robot, name), []
        f = nlink.torch.function(robot, name)
    x = [torch.tensor(each, requires_grad=True) for each in given]
    size = 1.0 + float(f(*x).detach().abs().max())

    def scaled(*x: Any) -> Any:
        return f(*x) / size

    assert torch.autograd.gradcheck(scaled, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(scaled, x, fast_mode=True, atol=1e-4, rtol=1e-3)
    calls: Any = import_module("nlink.backends.torch_calls")
    whole = [*x, *(torch.tensor(each) for each in present[len(x) - 1:])]
    found = torch.library.opcheck(torch.ops.nlink.call.default,
                                  (whole, calls.registered(function)))
    assert set(found.values()) == {"SUCCESS"}


def check_casadi(robot: nlink.Robot, name: str) -> None:
    casadi: Any = import_module("casadi")
    given = case(robot, name)
    if name == "step":
        f, given = nlink.casadi.step(moving(robot), STEP), [*given, np.zeros(())]
    else:
        f = nlink.casadi.function(robot, name)
    x = [casadi.SX.sym(f"x{k}", each.size) for k, each in enumerate(given)]
    y, whole = casadi.vec(f(*x)), casadi.vertcat(*x)
    gradient, ones = casadi.gradient(casadi.sum1(y), whole), casadi.DM.ones(whole.shape)
    value, slopes, total, curved = (casadi.Function("each", x, [z]) for z in (
        y, casadi.jtimes(y, whole, ones), gradient, casadi.jtimes(gradient, whole, ones)))
    h = 1e-6
    ahead, behind = ([each + h * side for each in given] for side in (1.0, -1.0))
    for exact, differed in ((slopes, value), (curved, total)):
        wanted = (np.array(differed(*ahead)) - np.array(differed(*behind))) / (2 * h)
        found = np.array(exact(*given))
        size = 1.0 + np.abs(found).max()
        assert np.abs(found - wanted).max() <= 1e-5 * size


CHECKS: dict[str, Callable[[nlink.Robot, str], None]] = {
    "jax": check_jax, "torch": check_torch, "casadi": check_casadi}


def main(names: Sequence[str]) -> int:
    """All checks of some frameworks; the number of those that failed."""
    failed = 0
    for framework in names or CHECKS:
        for which in ROBOTS:
            robot = robot_named(which)
            for name in COMPUTED:
                begin, word = time.perf_counter(), "ok"
                try:
                    partial(CHECKS[framework], robot)(name)
                except Exception as error:
                    failed, word = failed + 1, f"{type(error).__name__}: {error!s:.300}"
                print(f"{framework:7} {which:20} {name:18} {time.perf_counter() - begin:6.1f} s "
                      f"{word}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
