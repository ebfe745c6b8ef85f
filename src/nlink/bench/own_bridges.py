"""The lines of `nlink bench --bridges` that need no framework for derivatives: float32, Numba."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from nlink import numba as numba_bridge
from nlink.bench.bench_robots import HUMANOID, bench_robot
from nlink.bench.bridges_bench import BridgeLine
from nlink.bench.timing import best
from nlink.robot import Robot
from nlink.simulation import simulate

BATCH = 4096
SHORT = {"forward_dynamics": "FD", "inverse_dynamics": "ID"}
STEPS = 2000
"""Calls in a compiled loop that is timed as one."""
SIMULATED, STEP = 50, 1e-3
"""Steps of a simulation that is timed, and their size in seconds."""


def _states(robot: Robot, count: int) -> list[np.ndarray]:
    """Random states within the limits, and accelerations or forces."""
    rng = np.random.default_rng(0)
    return [*robot.random_state(rng, (count,)), rng.normal(size=(count, robot.n))]


def with_rounded_numbers(robot: Robot) -> Robot:
    """The robot whose gravity and inertias are the nearest numbers that float32 has."""
    model = robot.description
    inertias = [replace(link, mass=rounded(link.mass), com=rounded(link.com),
                        inertia=rounded(link.inertia)) for link in model.links]
    return Robot(replace(model, links=tuple(inertias), gravity=rounded(model.gravity)))


def rounded(x: Any) -> Any:
    """A number, or tuples of them, nearest in float32."""
    return tuple(map(rounded, x)) if isinstance(x, tuple) else float(np.float32(x))


def float32_lines(seconds: float) -> Iterator[BridgeLine]:
    """Whole calls with arrays of float64, and with arrays of float32. The error is the largest of a
    state, in the median over the states, beside what rounding the arguments alone costs, and what
    rounding them and the robot's own numbers costs."""
    for name in ("panda", "ur5", "random7", HUMANOID):
        robot = bench_robot(name)
        if robot is None:
            continue
        count = BATCH if name != HUMANOID else BATCH // 4
        q, qd, qdd = _states(robot, count)
        for what, last in (("forward_dynamics", robot.inverse_dynamics(q, qd, qdd)),
                           ("inverse_dynamics", qdd)):
            method, wide = getattr(robot, what), [q, qd, last]
            narrow = [x.astype(np.float32) for x in wide]
            alone, through = (min(best(partial(method, *given), seconds / 2) for _ in range(2))
                              / count for given in (wide, narrow))
            exact, rounded = method(*wide), [x.astype(float) for x in narrow]
            error, arguments, numbers = (
                float(np.median(np.abs(x - exact).max(axis=1))) for x in (
                    method(*narrow), method(*rounded),
                    getattr(with_rounded_numbers(robot), what)(*rounded)))
            yield BridgeLine("float32", f"{name} {SHORT[what]}, {count} states", alone, through,
                             f"error {error:.1e}, {error / arguments:.1f}x of rounding arguments, "
                             f"{error / numbers:.1f}x of rounding the robot's numbers as well")
        yield from _simulated_lines(name, robot, count // 4, seconds)


def _simulated_lines(name: str, robot: Robot, count: int, seconds: float) -> Iterator[BridgeLine]:
    """Simulations with fixed steps from states of float64, and of float32."""
    robot = robot.with_friction(dry=0.0)
    q, qd, _ = _states(robot, count)

    def run(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        return simulate(robot, q, qd, SIMULATED * STEP, None, "rk4", every=SIMULATED * STEP,
                        step=STEP).q[:, -1]

    given = [x.astype(np.float32) for x in (q, 0.1 * qd)]
    wide = [x.astype(float) for x in given]
    alone, through = (min(times) / count / SIMULATED for times in zip(*(
        [best(partial(run, *x), seconds / 4) for x in (wide, given)]
        for _ in range(4)), strict=True))
    apart = np.abs(run(*given) - run(*wide))
    yield BridgeLine("float32", f"{name} a step of rk4, {count} robots", alone, through,
                     f"q differs by {np.median(apart.max(axis=1)):.1e}")


def numba_lines(seconds: float) -> Iterator[BridgeLine]:
    """A kernel called in compiled loops: by its bare address, and by `nlink.numba`."""
    numba: Any = import_module("numba")
    robot = bench_robot("panda")
    assert robot is not None
    function, states = numba_bridge.function(robot, "forward_dynamics"), _states(robot, BATCH)
    (q, qd, tau), out = (x[0].copy() for x in states), np.empty(robot.n)

    @numba.njit
    def by_name(function: Any, q: Any, qd: Any, tau: Any, out: Any, steps: int) -> None:
        for _ in range(steps):
            function(q, qd, tau, out)

    signature = function.signature
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                              ctypes.c_void_p, ctypes.c_void_p)(function.address)
    scratch = np.zeros(signature.scratch + signature.alignment, np.uint8)
    places = np.array([x.ctypes.data for x in (q, qd, tau, out)], np.uintp)
    strides = np.zeros(4, np.int64)

    @numba.njit
    def by_address(places: int, strides: int, data: int, scratch: int, steps: int) -> None:
        for _ in range(steps):
            native(places, strides, 1, data, scratch)

    words = places.ctypes.data, strides.ctypes.data, signature.data, scratch.ctypes.data
    alone = best(lambda: by_address(*words, STEPS), seconds) / STEPS
    through = best(lambda: by_name(function, q, qd, tau, out, STEPS), seconds) / STEPS
    yield BridgeLine("numba", "panda FD, one state in a loop", alone, through)
    results = np.empty((BATCH, robot.n))
    alone = best(lambda: robot.forward_dynamics(*states, out=results), seconds) / BATCH
    through = best(lambda: by_name(function, *states, results, 1), seconds) / BATCH
    yield BridgeLine("numba", f"panda FD, {BATCH} states", alone, through)
