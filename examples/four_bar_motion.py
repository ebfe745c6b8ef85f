"""A closed chain: a four-bar falls, its coupler draws a curve, its pins carry forces.

    python examples/four_bar_motion.py [FILE]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import nlink


def four_bar_figure() -> Any:
    """The path of each link's mass centre, and the size of the force that closes the loop."""
    from matplotlib.figure import Figure

    robot = nlink.load("four_bar")
    run = nlink.simulate(robot, t=4.0)
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    paths, forces = figure.subplots(1, 2)
    for link in robot.links:
        way = (robot.pose(run.q, link.name) @ [*link.com, 1.0])[:, :3]
        spread = way[:, np.argsort(-np.ptp(way, axis=0))[:2]]
        paths.plot(*spread.T, label=link.name)
    paths.set(xlabel="x, m", ylabel="y, m", aspect="equal", title="mass centres of the links")
    paths.legend(frameon=False)
    forces.plot(run.t, np.linalg.norm(run.closure_forces, axis=-1))
    forces.set(xlabel="time, s", ylabel="closure force, N",
               title=f"the loop stays closed to {np.abs(run.closure_error).max():.0e} m")
    for axes in (paths, forces):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    four_bar_figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "four-bar.png", dpi=110)
