"""A design study: how stiff must a controller be for loads that it does not know?

900 simulations with loads and gains of their own, in one call.

    python examples/stiffness_study.py [FILE]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import nlink
from nlink.simulation import PDGravity, Quintic

GOAL = np.array([0.6, -1.0, 1.2, -0.4, 0.5, 0.0])


def study_figure(loads: int = 30, gains: int = 30) -> Any:
    """How far a UR5 is from its goal, by load and stiffness."""
    from matplotlib.figure import Figure

    robot = nlink.load("ur5").with_armature([1.0] * 3 + [0.1] * 3)
    inertia = np.diag(robot.mass_matrix(GOAL))
    load, omega = np.meshgrid(np.linspace(0.0, 5.0, loads), np.geomspace(5.0, 80.0, gains))
    kp, kd = omega[..., None]**2 * inertia, 2.0 * omega[..., None] * inertia
    controller = PDGravity(robot, Quintic(np.zeros(6), GOAL, 1.5), kp=1.0, kd=1.0)
    runs = nlink.simulate(robot, np.zeros(6), t=3.0, every=0.5, tau=controller, rtol=1e-5,
                          vary={"payload": load, "kp": kp, "kd": kd})
    sag = np.degrees(np.abs(runs.q[..., -1, :] - GOAL).max(axis=-1))
    figure = Figure(figsize=(5.8, 4.2), layout="constrained")
    axes = figure.subplots()
    picture = axes.pcolormesh(load, omega, np.log10(np.maximum(sag, 1e-3)), cmap="cividis")
    lines = axes.contour(load, omega, sag, levels=[0.1, 0.3, 1.0, 3.0], colors="white")
    axes.clabel(lines, fmt="%g degrees")
    figure.colorbar(picture, label="log10 of the sag in degrees")
    axes.set(xlabel="load, kg", ylabel="decay of errors, 1/s", yscale="log",
             title="sag under a load that the controller does not know")
    axes.set_yticks([5, 10, 20, 40, 80], labels=["5", "10", "20", "40", "80"])
    axes.minorticks_off()
    return figure


if __name__ == "__main__":
    study_figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "stiffness-study.png", dpi=110)
