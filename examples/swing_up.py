"""Two rods swing up with one motor, from many states at once, by optimal control.

Only the joint at the foot has a motor. `nlink.optimize` finds forces within its limit for all first
states in one call. Run with a path to draw `docs/pictures/swing-up.png`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import nlink
from nlink.optimization.optimized import Optimized

UP = np.array([np.pi / 2, 0.0])
LIMIT = 24.0


def swung(count: int = 48) -> Optimized:
    """The trajectories."""
    robot = nlink.load("double_pendulum")
    q0 = np.array([-np.pi / 2, 0.0]) + np.random.default_rng(0).uniform(-0.3, 0.3, (count, 2))

    def cost(q: Any, qd: Any, u: Any) -> Any:
        return 0.05 * (qd @ qd) + 1e-3 * (u @ u)

    def final(q: Any, qd: Any) -> Any:
        return 500.0 * (q - UP) @ (q - UP) + 50.0 * (qd @ qd)

    return nlink.optimize(robot, cost, q0, horizon=2.0, step=0.02, final=final,
                          effort=[LIMIT, 0.0], iterations=300)


def swing_up_figure() -> Any:
    """Heights of the tips, and the forces of the motor."""
    from matplotlib.figure import Figure

    found = swung()
    print(found)
    robot = found.robot
    figure = Figure(figsize=(8.0, 4.6), layout="constrained")
    path, force = figure.subplots(1, 2, width_ratios=(1.0, 1.25))
    tips = robot.pose(found.q)[..., :2, 3]
    for tip, u in zip(tips[found.solved], found.u[found.solved], strict=True):
        path.plot(*tip.T, color="#0072b2", lw=0.8, alpha=0.35)
        force.stairs(u[:, 0], found.t, baseline=None, color="#d55e00", lw=0.8, alpha=0.35)
    path.plot(*tips[:, 0].T, ".", color="#1a1a1a", ms=4)
    path.plot(*tips[0, -1], "o", color="#009e73", ms=8)
    path.set(aspect="equal", title="path of the tip, m")
    for level in (-LIMIT, LIMIT):
        force.axhline(level, color="0.6", lw=0.8, zorder=0)
    force.set(title="force of the motor, N m", xlabel="time, s")
    for axes in (path, force):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    swing_up_figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "swing-up.png", dpi=150)
