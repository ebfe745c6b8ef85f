"""A pendulum swings up by plans drawn at random, in a loop compiled by Numba, in float32.

Before each period 1,024 plans for the next second are tried out, and the motors do what the better
ones begin with: path integral control (Williams et al. 2017). After three seconds somebody pushes.

    python examples/numba_plans.py [FILE]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numba
import numpy as np

import nlink

PERIOD, AHEAD, PLANS, SECONDS = 0.02, 50, 1024, 6.0
STRENGTH = np.array([20.0, 10.0], np.float32)
"""The largest joint forces, two thirds of what holds the links level, and all of it."""
PUSHED, PUSH = 150, np.array([3.0, -2.0], np.float32)
"""The period after which the rates change, and by how much."""


@numba.njit(parallel=True)
def costs(step: Any, start: Any, plans: Any) -> Any:
    """What each plan costs: how far from upright its motion is, and how fast."""
    found = np.zeros(len(plans), np.float32)
    for k in numba.prange(len(plans)):
        y, after = start.copy(), np.empty_like(start)
        for i in range(plans.shape[1]):
            step(y, plans[k, i], 0.0, after)
            y, after = after, y
            miss = 2.0 - np.sin(y[0]) - np.sin(y[0] + y[1])
            found[k] += miss + 0.02 * (y[2] ** 2 + y[3] ** 2)
    return found


def swing_up() -> tuple[np.ndarray, np.ndarray, float]:
    """States and joint forces of all periods, and seconds that a period's plans took."""
    step = nlink.numba.step(nlink.load("double_pendulum"), PERIOD, dtype="float32")
    rng = np.random.default_rng(0)
    y, plan = np.array([-np.pi / 2, 0, 0, 0], np.float32), np.zeros((AHEAD, 2), np.float32)
    states, forces = [y], []
    costs(step, y, plan[None])  # compiled
    begin = time.perf_counter()
    for period in range(round(SECONDS / PERIOD)):
        noise = rng.standard_normal((PLANS, AHEAD // 5, 2), np.float32).repeat(5, axis=1)
        plans = np.clip(plan + 0.3 * STRENGTH * noise, -STRENGTH, STRENGTH)
        found = costs(step, y, plans)
        weights = np.exp((found.min() - found) / (0.1 * found.std()))
        plan = np.einsum("k,kij->ij", weights / weights.sum(), plans)
        y = step(y, plan[0], np.zeros((), np.float32))
        if period == PUSHED:
            y[2:] += PUSH
        states.append(y)
        forces.append(plan[0])
        plan = np.concatenate([plan[1:], plan[-1:]])
    return np.array(states), np.array(forces), (time.perf_counter() - begin) / len(forces)


def figure() -> Any:
    """How high the links are over time, and what the motors do."""
    from matplotlib.figure import Figure

    states, forces, seconds = swing_up()
    found = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = found.subplots(1, 2)
    t = PERIOD * np.arange(len(states))
    height = np.sin(states[:, :2].cumsum(axis=1)).cumsum(axis=1)
    for y, name in zip(height.T, ("elbow", "end"), strict=True):
        left.plot(t, y, label=name)
    left.set(xlabel="time, s", ylabel="height, m", title="up, pushed, and up again")
    right.plot(t[1:], forces, drawstyle="steps-pre")
    right.set(xlabel="time, s", ylabel="torque, N m",
              title=f"motors; {PLANS} plans in {1e3 * seconds:.0f} ms")
    left.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return found


if __name__ == "__main__":
    figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "numba-plans.png", dpi=110)
