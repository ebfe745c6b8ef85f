"""What a Panda reaches on a table with its hand pointing down, and how freely it moves there.

    python examples/reachable_table.py [FILE]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import nlink


def table_figure(points: int = 60) -> Any:
    """Inverse kinematics over a grid of points, and the manipulability of what was found."""
    from matplotlib.figure import Figure

    robot = nlink.load("panda")
    x, y = np.meshgrid(*[np.linspace(-1.0, 1.0, points)] * 2)
    found = nlink.ik(robot, np.stack([x, y, np.full_like(x, 0.1)], axis=-1),
                     tasks=[nlink.AlignAxis([0, 0, -1])])
    free = np.where(found.solved, robot.manipulability(found.q), np.nan)
    figure = Figure(figsize=(5.6, 4.6), layout="constrained")
    axes = figure.subplots()
    picture = axes.pcolormesh(x, y, free, cmap="viridis")
    figure.colorbar(picture, label="manipulability")
    axes.plot(0, 0, "k^", label="base")
    axes.legend(frameon=False)
    axes.set(xlabel="x, m", ylabel="y, m", aspect="equal",
             title=f"{found.solved.mean():.0%} of the square can be reached")
    return figure


if __name__ == "__main__":
    table_figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "reachable-table.png", dpi=110)
