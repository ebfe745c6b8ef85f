"""What a start, a run or a failure suggests went wrong: sentences for users, nothing is decided."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nlink.engines.kernels import kept
from nlink.iterations.methods import METHODS
from nlink.model.coordinates import coordinate_units
from nlink.model.names import visible
from nlink.programs.applying import apply
from nlink.scalars.misuse import tell

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
MANY_TURNS = 4 * math.pi
"""Angles beyond this are likely meant as degrees."""
MOST_DEGREES = 3600
"""Larger numbers are no degrees."""
FAR = 0.1
"""The part of a joint's range, or the radians or metres, by which a start is far outside."""
SLIGHTLY = 1e-6
"""What `neutral` may be outside by."""
STIFF = 20_000
"""Steps of one trajectory, and steps per second of it, beyond which it may be stiff."""
SMALL = 32
"""The most rates of a robot whose inertias are named."""


def start_doubts(robot: Robot, q: Array) -> list[str]:
    """What is odd about configurations (..., nq) to start from: a line for each joint."""
    rows = np.asarray(q, dtype=float).reshape(-1, robot.nq)
    lower, upper, low, high = kept(robot, ("bounds of coordinates",), lambda: _bounds(robot))
    if ((rows >= low) & (rows <= high)).all():
        return []
    units, at_rest, found = coordinate_units(robot.description), robot.neutral, []
    for k, (name, unit) in enumerate(zip(robot.q_names, units, strict=True)):
        x, low, high = rows[:, k], lower[k], upper[k]
        if unit == "rad":
            size = np.abs(x)
            with np.errstate(all="ignore"):
                whole = np.round(2 * x) == 2 * x
            degrees = (size > MANY_TURNS) & (size <= MOST_DEGREES) & whole
            if degrees.any():
                first = x[np.argmax(degrees)]
                found.append(f"{visible(name)} starts at {first:g} rad, "
                             f"{abs(first) / (2 * math.pi):.3g} turns: angles are in radians, "
                             "np.deg2rad converts degrees")
                continue
        with np.errstate(all="ignore"):
            beyond = np.fmax(low - x, x - high)
        span = high - low if math.isfinite(high - low) else 1.0
        neutral = np.where(x == at_rest[k], SLIGHTLY, FAR * span)
        outside = beyond > neutral
        if outside.any():
            first = x[np.argmax(outside)]
            what = "in robot.neutral" if first == at_rest[k] else "at the start"
            found.append(f"{visible(name)} is {first:.4g} {unit} {what}, outside its limits "
                         f"{low:.4g} to {high:.4g}")
    return found


def _bounds(robot: Robot) -> tuple[Array, Array, Array, Array]:
    """The position limits of each coordinate, infinite for those that are no plain numbers, and
    within them the range of usual ones."""
    pairs = [joint.limits.position if joint.type.space.flat else (-math.inf, math.inf)
             for joint in robot.joints for _ in range(joint.type.nq)]
    lower, upper = np.array(pairs, dtype=float).reshape(-1, 2).T
    return lower, upper, np.maximum(lower, -MANY_TURNS), np.minimum(upper, MANY_TURNS)


def stiffness_doubts(method: str, steps: Array, seconds: Array) -> list[str]:
    """A line that names the method for stiff systems, if an explicit one took very many steps."""
    known = METHODS.get(method)
    if known is None or not known.adaptive or "derivatives" in known.needs:
        return []
    steps, seconds = np.atleast_1d(steps).ravel(), np.atleast_1d(seconds).ravel()
    many = (steps > STIFF) & (steps > STIFF * seconds)
    if not many.any():
        return []
    k = int(np.argmax(np.where(many, steps, 0)))
    return [f"{int(steps[k]):,} steps for {seconds[k]:.4g} s: the system may be stiff, "
            'method="rodas5p" then needs far fewer']


def tell_of_start(robot: Robot, q: Array, *, limited: bool = False) -> None:
    """Warn of what is odd about a start; where limits act, the run says what is outside."""
    for line in start_doubts(robot, q):
        if not (limited and "outside its limits" in line):
            tell(f"{visible(robot.name)}: {line}")


def failure(robot: Robot, status: str, index: tuple[int, ...], t: float, q: Array, step: float,
            tau: Array) -> str:
    """Why a robot that is stepped has stopped: when, which one, and the likely reason."""
    which = f" {index[0] if len(index) == 1 else index}" if index else ""
    head = f"Stepper: {visible(robot.name)}{which} stopped at t = {t:.6g} ({status})"
    if not np.isfinite(tau).all():
        return f"{head}: tau has a number that is not finite"
    if status == "not closed":
        return f"{head}: its loops do not close"
    if status == "too many steps":
        return f'{head}: expected a larger max_steps, or method="rodas5p" if it is stiff'
    reason = f"an unstable control loop, if joint forces (up to {np.abs(tau).max():.3g}) follow " \
             "from the state"
    if 0 < robot.n <= SMALL and not robot.description.massless_joints:
        M = np.reshape(apply(robot, "mass_matrix", q.tolist()), (robot.n, robot.n))
        with np.errstate(all="ignore"):
            inertias = 1 / np.diag(np.linalg.pinv(M))
        k = int(np.argmin(inertias))
        reason += (f": step times damping gain over inertia must stay well below 2, and "
                   f"{visible(robot.qd_names[k])} has {inertias[k]:.3g}, so at step {step:g} a "
                   f"gain below {2 * inertias[k] / step:.3g}")
    return f"{head}: {reason}"
