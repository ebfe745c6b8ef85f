"""Simulations of mechanisms with loops: where they start, and what keeps them closed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from nlink.model.constraints import ASKEW
from nlink.simulation.system import Closing

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
OPEN = 1e-4
"""A start that is open by more, in radians or mechanism sizes, is no rounding."""


def check_closing(closing: Closing, method: str, velocity: str) -> Closing:
    """How loops are to be kept closed, or one sentence on why they cannot."""
    if velocity != "qd" or method in ("symplectic", "lsoda", "radau"):
        raise ValueError(f"method: {method!r} with velocity={velocity!r} does not keep loops "
                         "closed, expected a Runge-Kutta method or abm, and velocity='qd'")
    if closing in ("project", "drift"):
        return closing
    number = isinstance(closing, int | float) and not isinstance(closing, bool)
    if number and math.isfinite(closing) and closing > 0:
        return float(closing)
    raise ValueError(f"closing: {closing!r}, expected 'project', 'drift' or a positive rate (1/s)")


def closed_start(robot: Robot, y0: Array) -> Array:
    """Initial states, projected to closed ones; states that are not finite are left alone."""
    finite = np.isfinite(y0).all(axis=1)
    y, nq = y0.copy(), robot.nq
    if not finite.any():
        return y
    size = np.where(robot.loops.angular, 1.0, robot.mechanism.size)
    q, qd = y[finite][:, :nq], y[finite][:, nq:]
    given = robot.loops.widest(q)
    if np.abs(robot.loops.error(q) / size).max() > OPEN:
        raise ValueError(f"q0: the loop {given}, expected a closed configuration; "
                         "robot.loops.assemble(q0) finds one")
    for _ in range(2):
        q, qd = robot.loops.project(q, qd)
    if not np.abs(robot.loops.error(q) / size).max() <= ASKEW:  # nan is no closed state either
        raise ValueError(f"q0: the loop {given} and does not close from there, expected loops "
                         "that can; axes meant to be parallel may be askew")
    y[finite] = np.concatenate([q, qd], axis=1)
    return y


def restore(robot: Robot, unit: Callable[[Array], Array], closing: Closing,
            ) -> Callable[[Array], Array]:
    """What is done to a state after a step: quaternions made unit, then loops closed."""
    if not robot.mechanism.closures or closing != "project":
        return unit
    nq = robot.nq

    def restored(y: Array) -> Array:
        y = unit(y)
        return np.concatenate(robot.loops.project(y[:nq], y[nq:]))

    return restored
