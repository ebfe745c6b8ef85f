"""Simulations of mechanisms with loops: where they start, and what keeps them closed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
Closing = Literal["project", "drift"] | float
"""What keeps loops closed: a projection after each step, nothing, or Baumgarte's terms with
this rate (1/s)."""
OPEN = 1e-4
"""A start that is open by more, in radians or sizes of the loop, is no rounding."""


def check_closing(robot: Robot, closing: Closing) -> Closing:
    """How loops are to be kept closed, or one sentence on why they cannot."""
    if not robot.mechanism.closed:
        if closing != "project":
            raise ValueError(f"closing: {closing!r}, expected nothing else than 'project': "
                             f"{robot.name} has no loops")
        return closing
    if closing in ("project", "drift"):
        return closing
    number = isinstance(closing, int | float) and not isinstance(closing, bool)
    if number and math.isfinite(closing) and closing > 0:
        return float(closing)
    raise ValueError(f"closing: {closing!r}, expected 'project', 'drift' or a positive rate (1/s)")


def closed_start(robot: Robot, y0: Array) -> tuple[Array, Array]:
    """Initial states, projected to closed ones, and which of them stay open; if none closes, a
    sentence. States that are not finite are left alone.
    """
    nq, unclosed = robot.nq, np.zeros(len(y0), dtype=bool)
    if not robot.mechanism.closed:
        return y0, unclosed
    loops, finite = robot.loops, np.isfinite(y0).all(axis=1)
    near = finite & (np.abs(loops.error(y0[:, :nq])) <= OPEN * loops.scale).all(axis=1)
    q, qd = loops.project(y0[near, :nq], y0[near, nq:])
    unclosed[:] = finite & ~near
    unclosed[near] = ~loops.closed(q)  # nan is no closed state either
    if finite.any() and unclosed[finite].all():
        given = loops.describe_opening(y0[finite, :nq])
        if near.any():
            raise ValueError(f"q0: the loop {given} and does not close from there, expected loops "
                             "that can; axes meant to be parallel may be askew")
        raise ValueError(f"q0: the loop {given}, expected a closed configuration; "
                         "robot.loops.assemble(q0) finds one")
    y = y0.copy()
    y[near] = np.concatenate([q, qd], axis=1)
    y[unclosed] = y0[unclosed]
    return y, unclosed
