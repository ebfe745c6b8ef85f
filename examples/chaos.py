"""A thousand double pendulums, one millionth of a degree apart.

    python examples/chaos.py [FILE]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import nlink


def chaos_figure(pendulums: int = 1000) -> Any:
    """The second angle of some, and how fast all of them part."""
    from matplotlib.figure import Figure

    robot = nlink.load("double_pendulum")
    q0 = np.tile([1.2, 0.8], (pendulums, 1))
    q0[:, 0] += np.radians(1e-6) * np.linspace(0, 1, pendulums)
    run = nlink.simulate(robot, q0, t=15.0, method="dop853", rtol=1e-10)
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    angles, spread = figure.subplots(1, 2)
    angles.plot(run.t, run.q[::pendulums // 20, :, 1].T, linewidth=0.7)
    angles.set(xlabel="time, s", ylabel="angle of the second rod, rad",
               title="twenty of a thousand pendulums")
    spread.semilogy(run.t, run.q[..., 1].std(axis=0))
    spread.set(xlabel="time, s", ylabel="spread, rad", title="spread of a thousand pendulums")
    for axes in (angles, spread):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    chaos_figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "chaos.png", dpi=110)
