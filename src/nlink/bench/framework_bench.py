"""The lines of `nlink bench --bridges` for frameworks that differentiate: JAX, PyTorch, CasADi."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from nlink import casadi as casadi_bridge
from nlink import jax as jax_bridge
from nlink import torch as torch_bridge
from nlink.bench.bench_robots import bench_robot
from nlink.bench.bridges_bench import BridgeLine
from nlink.bench.timing import best
from nlink.bench.urdf_peers import frax_dynamics, urdf_file
from nlink.derivatives.differentials import vjp
from nlink.robot import Robot

BATCH, ROBOTS, STEPS, H = 4096, 1000, 1000, 1e-3
FD = "forward_dynamics"


def _states() -> tuple[Robot, list[np.ndarray]]:
    robot = bench_robot("panda")
    assert robot is not None
    q, qd = robot.random_state(np.random.default_rng(0), (BATCH,))
    return robot, [q, qd, np.ones((BATCH, robot.n))]


def jax_lines(seconds: float) -> Iterator[BridgeLine]:
    """Calls within jit, and semi-implicit Euler steps within a scan, in float64; the same by frax,
    whose dynamics are written in JAX, where it is installed."""
    jax: Any = import_module("jax")
    robot, states = _states()
    f, out = jax_bridge.function(robot, FD), np.empty_like(states[0])
    with jax.enable_x64(True):
        given = [jax.numpy.asarray(x) for x in states]
        peer = _frax(jax, robot, states)

        def through(function: Any, *arrays: Any) -> float:
            compiled = jax.jit(function)
            return best(lambda: jax.block_until_ready(compiled(*arrays)), seconds)

        def line(what: str, alone: float | None, make: Callable[[Any], Any], count: int,
                 *arrays: Any) -> BridgeLine:
            """`make(f)`, of nlink's forward dynamics and of frax's."""
            ours, theirs = (None if each is None else through(make(each), *arrays) / count
                            for each in (f, peer))
            return BridgeLine("jax", what, alone, ours or 0.0, "" if peer is None else "frax",
                              theirs)

        def scan(f: Any) -> Callable[..., Any]:
            def steps(q: Any, qd: Any, tau: Any) -> Any:
                def step(y: Any, _: Any) -> Any:
                    qd = y[1] + H * f(*y, tau)
                    return (y[0] + H * qd, qd), None

                return jax.lax.scan(step, (q, qd), length=STEPS)[0]

            return steps

        alone = best(lambda: robot.forward_dynamics(*states, out=out), seconds)
        yield line(f"panda FD, {BATCH} states", alone / BATCH, lambda f: f, BATCH, *given)
        alone = best(lambda: vjp(robot, FD, states, out), seconds)
        yield line(f"panda FD, its gradient, {BATCH} states", alone / BATCH,
                   lambda f: lambda *x: jax.vjp(f, *x)[1](x[2]), BATCH, *given)
        yield line("panda FD, one state in a scan", _in_a_loop(robot, states, seconds), scan,
                   STEPS, *(x[:1] for x in given))
        yield line(f"panda steps, {ROBOTS} robots in a scan", None, scan, STEPS * ROBOTS,
                   *(x[:ROBOTS] for x in given))


def _frax(jax: Any, robot: Robot, states: list[np.ndarray]) -> Callable[..., Any] | None:
    """frax's forward dynamics of arrays of states, if it is installed and finds what nlink does."""
    if find_spec("frax") is None:
        return None
    with urdf_file(robot.description) as path:
        dynamics = jax.vmap(frax_dynamics(path))
    few = [x[:8] for x in states]
    if not np.allclose(dynamics(*few), robot.forward_dynamics(*few), rtol=1e-6, atol=1e-6):
        raise ArithmeticError("frax: its forward dynamics of panda are not those of nlink")
    return dynamics


def _in_a_loop(robot: Robot, states: list[np.ndarray], seconds: float) -> float | None:
    """Seconds of a call for one state in a loop that Numba compiles."""
    if find_spec("numba") is None:
        return None
    numba: Any = import_module("numba")
    function = import_module("nlink.numba").function(robot, FD)

    @numba.njit
    def loop(function: Any, q: Any, qd: Any, tau: Any, out: Any, steps: int) -> None:
        for _ in range(steps):
            function(q, qd, tau, out)

    given = [x[0].copy() for x in (*states, states[0])]
    return best(lambda: loop(function, *given, STEPS), seconds) / STEPS


def torch_lines(seconds: float) -> Iterator[BridgeLine]:
    """Calls, and gradients there and back, in float64."""
    torch: Any = import_module("torch")
    robot, states = _states()
    f, out = torch_bridge.function(robot, FD), np.empty_like(states[0])
    given = [torch.tensor(x) for x in states]
    alone = best(lambda: robot.forward_dynamics(*states, out=out), seconds)
    yield BridgeLine("torch", f"panda FD, {BATCH} states", alone / BATCH,
                     best(lambda: f(*given), seconds) / BATCH)
    wanted = [x.clone().requires_grad_() for x in given]

    def both() -> Any:
        robot.forward_dynamics(*states, out=out)
        return vjp(robot, FD, states, out)

    alone = best(both, seconds)
    through = best(lambda: torch.autograd.grad(f(*wanted), wanted, given[2]), seconds)
    yield BridgeLine("torch", f"panda FD there and back, {BATCH} states", alone / BATCH,
                     through / BATCH)
    single = [x[0] for x in given]
    fn, one = robot.compile(FD), [x[0].copy() for x in (*states, out)]
    yield BridgeLine("torch", "panda FD, one state a call", best(lambda: fn(*one), seconds),
                     best(lambda: f(*single), seconds))


def casadi_lines(seconds: float) -> Iterator[BridgeLine]:
    """What it takes to make a Function, and to call one."""
    import_module("casadi")
    robot, states = _states()

    def seconds_of(make: Callable[[], Any]) -> float:
        begin = time.perf_counter()
        make()
        return time.perf_counter() - begin

    make = min(seconds_of(lambda: casadi_bridge.function(robot, FD)) for _ in range(3))
    f, fn = casadi_bridge.function(robot, FD), robot.compile(FD)
    one = [x[0].copy() for x in states]
    yield BridgeLine("casadi", "panda FD, a Function is made", None, make)
    yield BridgeLine("casadi", "panda FD, one state a call", best(
        lambda: fn(*one, np.empty(robot.n)), seconds), best(lambda: f(*one), seconds),
        "in CasADi's virtual machine")
