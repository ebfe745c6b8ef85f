"""What first calls cost, in new processes: tracing and compiling, and, with the kernel on disk,
tracing and loading it.

A process is `python -m nlink.bench.first_calls ROBOT ...`, which prints its times as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from nlink.bench.bench_robots import HUMANOID, bench_robot
from nlink.bench.timing import Bench, adder
from nlink.robot import Robot, load
from nlink.simulation.simulator import simulate

ROBOTS = ("puma560", "panda", "random7", "random100", HUMANOID)
CALLS = ("inverse_dynamics", "forward_dynamics", "mass_matrix", "forward_dynamics_derivatives")
SIMULATION = "simulate"
COMPILED, LOADED = "first call, compiled", "first call, kernel on disk"
SMALL = 8
"""Joints of robots whose derivatives and simulation are timed as well."""


def bench_first_calls(bench: Bench, names: tuple[str, ...] = ROBOTS) -> None:
    """Two processes, one after the other, with a cache of their own that is empty at first."""
    with tempfile.TemporaryDirectory() as cache:
        for method in (COMPILED, LOADED):
            done = subprocess.run([sys.executable, "-m", __name__, *names], check=True, text=True,
                                  capture_output=True, env={**os.environ, "NLINK_CACHE": cache})
            for robot, what, seconds in json.loads(done.stdout):
                adder(bench, robot, what)(method, seconds)


def first_calls(robot: Robot) -> list[tuple[str, str, float]]:
    """Robot, computation and seconds of calls that this process has not made before."""
    q, qd = robot.random_state(0)
    arguments = {"mass_matrix": (q,)}
    found = []
    for what in CALLS[:None if robot.n <= SMALL else 3]:
        begin = time.perf_counter()
        getattr(robot, what)(*arguments.get(what, (q, qd, np.zeros(robot.n))))
        found.append((robot.name, what, time.perf_counter() - begin))
    if robot.n <= SMALL:
        begin = time.perf_counter()
        simulate(robot, q, t=1e-3, every=1e-3)
        found.append((robot.name, SIMULATION, time.perf_counter() - begin))
    return found


def _main(names: list[str]) -> None:
    load("double_pendulum").gravity_torque([0.0, 0.0])  # LLVM itself starts once
    found = [first_calls(robot) for robot in map(bench_robot, names) if robot is not None]
    print(json.dumps([row for rows in found for row in rows]))


if __name__ == "__main__":
    _main(sys.argv[1:])
