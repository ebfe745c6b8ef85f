"""Dry friction: a block that sticks and slips on a belt, and an arm that stops joint by joint.

On the left a block on a moving belt is held by a spring: it is carried along until the spring is
stronger than the breakaway friction, slips back, and sticks again. On the right two rods swing
until friction holds them, off the vertical. Grey is where a joint sticks. Run with a path to
draw `docs/dry-friction.png`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import nlink

BELT, SPRING = 0.1, 4.0


def block() -> nlink.Robot:
    """A kilogram on a line, with Stribeck's friction."""
    return nlink.Robot.from_dh([{
        "joint": "prismatic", "mass": 1.0, "inertia": (1.0, 1.0, 1.0),
        "friction": {"coulomb": 0.5, "breakaway": 1.0, "stribeck": 0.2}}],
        gravity=(-9.81, 0.0, 0.0), name="block")


def arm() -> nlink.Robot:
    """Two rods of a metre and a kilogram, whose joints rub."""
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12)}
    return nlink.Robot.from_dh([rod | {"theta": -np.pi / 2, "friction": {"coulomb": 1.0}},
                                rod | {"friction": {"coulomb": 0.5}}],
                               gravity=(0, -9.81, 0), name="arm")


def friction_figure() -> Any:
    """Coordinates over time, with the times of sticking in grey."""
    from matplotlib.figure import Figure

    # q of the block is relative to the belt
    slip = nlink.simulate(block(), t=12.0, tau=lambda t, q, qd: -SPRING * (q + BELT * t))
    swing = nlink.simulate(arm(), [1.0, 0.5], t=14.0)
    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    axes = figure.subplots(2, 2, sharex="col")
    curves = [[(slip, 0, slip.q[:, 0] + BELT * slip.t, "position of the block, m"),
               (swing, 0, swing.q[:, 0], "angle of joint 1, rad")],
              [(slip, 0, slip.qd[:, 0] + BELT, "its velocity, m/s"),
               (swing, 1, swing.q[:, 1], "angle of joint 2, rad")]]
    for row, line in zip(axes, curves, strict=True):
        for ax, (run, joint, values, label) in zip(row, line, strict=True):
            ax.plot(run.t, values, lw=1.3)
            low, high = ax.get_ylim()
            ax.fill_between(run.t, low, high, where=run.modes[:, joint] == 0, color="0.9",
                            lw=0, zorder=0)
            ax.set_ylim(low, high)
            ax.set_ylabel(label)
            ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[1]:
        ax.set_xlabel("time, s")
    axes[0, 0].set_title("a block on a belt")
    axes[0, 1].set_title("two rods")
    return figure


if __name__ == "__main__":
    from nlink.simulation.figures import save

    save(friction_figure(), sys.argv[1] if len(sys.argv) > 1 else "dry-friction.png")
