"""Follow a path with the Panda: a line and an arc, as fast as the joints allow.

    python examples/follow_a_path.py path.png
"""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np

import nlink
from nlink.simulation import ComputedTorque

mpl.use("Agg")
from matplotlib import pyplot as plt


def main(path: str = "path.png") -> None:
    robot, q = nlink.load("panda"), [0.0, -0.3, 0.0, -2.2, 0.0, 2.0, 0.8]
    start = robot.pose(q)
    corner, end = start.copy(), start.copy()
    corner[:3, 3] += [0.0, 0.25, 0.0]
    end[:3, 3] += [0.0, -0.05, 0.2]
    way = nlink.reach(robot, [start, corner, nlink.Arc(start[:3, 3] + [0.1, 0.15, 0.2], end)],
                      q0=q, acceleration=8.0)
    run = nlink.simulate(robot, way.q[0], t=way.duration, every=way.duration / 300,
                         tau=ComputedTorque(robot, way, kp=400.0, kd=40.0), method="dop853")
    wanted, done = way.poses[:, :3, 3], robot.pose(run.q)[:, :3, 3]

    figure = plt.figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.add_subplot(1, 2, 1, projection="3d")
    axes.plot(*wanted.T, color="0.7", linewidth=5, label="path")
    axes.plot(*done.T, color="C0", label="simulated")
    axes.set(xlabel="x, m", ylabel="y, m", zlabel="z, m", title="path of the hand")
    axes.locator_params(nbins=4)
    axes.set_box_aspect(np.ptp(wanted, axis=0) + 0.05)
    axes.legend(loc="upper left", frameon=False)
    axes = figure.add_subplot(1, 2, 2)
    axes.plot(run.t, run.qd / robot.limits.velocity, label=robot.qd_names)
    axes.axhline(1, color="0.5", linestyle=":")
    axes.axhline(-1, color="0.5", linestyle=":")
    axes.set(xlabel="time, s", ylabel="rate / its limit", title="rates of the joints")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower left", frameon=False, fontsize=7, ncols=2)
    figure.savefig(path, dpi=110)
    far = np.abs(done[-1] - end[:3, 3]).max()
    print(f"{way.duration:.2f} s, {len(way.t)} configurations, {far:.1e} m from the end")


if __name__ == "__main__":
    main(*sys.argv[1:])
