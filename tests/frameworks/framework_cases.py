"""Robots and computations that every framework is tried on."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.bench.bench_robots import QUADRUPED, bench_robot

LARGE_LAST = ["four_bar", *(pytest.param(name, marks=pytest.mark.slow)
                            for name in ("panda", QUADRUPED))]
"""Robots of all kinds: with a loop, an arm, with a floating base."""
NAMES = {"inverse_dynamics": 2, "forward_dynamics": 2, "pose": 0, "mass_matrix": 0, "regressor": 2}
"""How many arrays of n a computation takes besides q."""


def robot_named(name: str) -> nlink.Robot:
    robot = bench_robot(name)
    if robot is None:
        pytest.skip("example-robot-data is not installed")
    return robot


def arguments(robot: nlink.Robot, name: str, seed: int = 0, lead: tuple[int, ...] = (),
              ) -> list[np.ndarray]:
    """A state of a robot, and what a computation takes besides."""
    q, qd = robot.random_state(seed, lead)
    more = np.random.default_rng(seed + 1).normal(size=(2, *lead, robot.n))
    return [q, qd, 3.0 * more[0]][:1 + NAMES[name]]


def tangents(robot: nlink.Robot, arrays: list[np.ndarray], seed: int = 5,
             ) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Changes of arguments: as rates of the robot, and as those of plain numbers."""
    rng = np.random.default_rng(seed)
    rates = [rng.normal(size=(*x.shape[:-1], robot.n)) for x in arrays]
    q, v = np.moveaxis(arrays[0], -1, 0), np.moveaxis(rates[0], -1, 0)
    moved = np.stack(robot.mechanism.space.tangent(tuple(q), tuple(v)), axis=-1)
    return rates, [moved, *rates[1:]]
