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
    if not robot.mechanism.closures:
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


def closed_start(robot: Robot, y0: Array, held: Array | None = None, names: str = "",
                 ) -> tuple[Array, Array]:
    """Initial states, projected to closed ones, and which of them stay open; if none closes, a
    sentence. States that are not finite are left alone, and so are the rates that are `held`, those
    of the joints `names`, around which loops are closed from afar.
    """
    if held is not None and robot.mechanism.closures:
        return _closed_around(robot, y0, held, names)
    nq, unclosed = robot.nq, np.zeros(len(y0), dtype=bool)
    if not robot.mechanism.closures:
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


def _closed_around(robot: Robot, y0: Array, held: Array, names: str) -> tuple[Array, Array]:
    """States whose loops are closed by the rates that are not held."""
    nq, loops, y = robot.nq, robot.loops, y0.copy()
    finite = np.isfinite(y0).all(axis=1)
    rows = np.flatnonzero(finite)
    y[rows, :nq], closed = loops.close(y0[rows, :nq], ~held)
    rows = rows[closed]
    y[rows, :nq], y[rows, nq:] = loops.project(y[rows, :nq], y[rows, nq:], held=held)
    unclosed: Array = np.array(finite)
    unclosed[rows] = ~loops.closed(y[rows, :nq], y[rows, nq:])
    if finite.any() and unclosed[finite].all():
        if rows.size:
            speeds = np.abs(loops.velocity(y[rows, :nq], y[rows, nq:])).max(axis=0)
            row = int((speeds / loops.scale).argmax())
            raise ValueError(f"motion: the loop {loops.rows[row]!r} opens with {speeds[row]:.3g} "
                             f"{loops.units[row]}/s at the start, whatever moves beside {names}, "
                             "expected motions that keep it closed")
        raise ValueError(f"motion: the loop {loops.describe_opening(y[finite, :nq])} where {names} "
                         "start, expected places around which the loops close")
    return y, unclosed
