"""What a quasi-velocity is, drawn on a two-link arm: the picture of docs/diagonal.md.

    python examples/two_link_quasi_velocities.py [FILE]
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.reports.plots import COLOURS, INK, MUTED, RULE, require_matplotlib, save
from nlink.robot import Robot, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIGURATION = (0.45, 1.15)
POINTS = np.linspace(0.0, 1.0, 5)


def two_link_figure(robot: Robot | None = None) -> Figure:
    """Three panels: the motion of nu_1 alone, that of nu_2 alone, and the rates of both on the
    ellipse of one kinetic energy, where they are conjugate directions.

    nu_1 alone turns joint 1 while joint 2 yields as if it were free; nu_2 alone turns joint 2
    while joint 1 rests.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    robot = robot or load("double_pendulum")
    q = np.array(CONFIGURATION)
    d = robot.diagonal(q)
    modes = np.stack([d.from_nu(unit) for unit in np.eye(2)])
    figure = Figure(figsize=(11.0, 4.1), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for k, (panel, what) in enumerate(zip(
            (left, middle),
            ("joint 1 turns, joint 2 yields freely", "joint 1 rests, joint 2 turns"),
            strict=True)):
        _arm(panel, robot, q, modes[k], COLOURS[k])
        panel.set_title(f"$\\nu_{k + 1} = 1$ alone: {what}", loc="left", fontsize=9.5, color=INK)
        rates = ", ".join(f"{x:+.2f}".replace("-", "\N{MINUS SIGN}") for x in modes[k])
        panel.text(0.02, 0.02, f"joint rates ({rates}) rad/s, energy 1/2 J",
                   transform=panel.transAxes, fontsize=8.5, color=MUTED)
    _ellipse(right, d.l.dense().T, modes)
    return figure


def _arm(panel: Any, robot: Robot, q: np.ndarray, qd: np.ndarray, colour: str) -> None:
    """The links, and arrows for the velocities of points on them."""
    start = np.zeros(2)
    for link in (1, 2):
        pose, J = robot.pose(q, link, engine="numpy"), robot.jacobian(q, link, engine="numpy")
        end = pose[:2, 3]
        twist = J @ qd
        panel.plot(*zip(start, end, strict=True), color=INK, linewidth=5, solid_capstyle="round",
                   zorder=1)
        for x in POINTS[1:]:
            point = start + x * (end - start)
            arm = point - end
            velocity = twist[3:5] + twist[2] * np.array([-arm[1], arm[0]])
            panel.annotate("", point + 0.75 * velocity, point, zorder=3, arrowprops={
                "arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "shrinkA": 0,
                "shrinkB": 0})
        panel.plot(*start, "o", markersize=11, markerfacecolor="white", markeredgecolor=INK,
                   markeredgewidth=2, zorder=2)
        start = end
    panel.set_aspect("equal")
    panel.set_xlim(-0.35, 1.75)
    panel.set_ylim(-0.35, 1.95)
    panel.axis("off")


def _ellipse(panel: Any, L: np.ndarray, modes: np.ndarray) -> None:
    """qd = l^T nu for all nu of length one."""
    angle = np.linspace(0, 2 * np.pi, 200)
    panel.plot(*(L @ np.stack([np.cos(angle), np.sin(angle)])), color=MUTED, linewidth=1.6)
    for k, mode in enumerate(modes):
        panel.annotate("", mode, (0, 0), arrowprops={
            "arrowstyle": "-|>", "color": COLOURS[k], "linewidth": 2, "shrinkA": 0, "shrinkB": 0})
        away = 1.12 * mode
        panel.text(*away, f"$\\nu_{k + 1}$", color=COLOURS[k], fontsize=12, ha="center",
                   va="center", fontweight="bold")
    panel.set_title("in joint rates: conjugate directions", loc="left",
                    fontsize=9.5, color=INK)
    panel.axhline(0, color=RULE, linewidth=0.8, zorder=0)
    panel.axvline(0, color=RULE, linewidth=0.8, zorder=0)
    panel.set_xlabel("rate of joint 1, rad/s", color=MUTED, fontsize=9)
    panel.set_ylabel("rate of joint 2, rad/s", color=MUTED, fontsize=9)
    panel.margins(0.16)
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color(RULE)
    panel.tick_params(colors=MUTED, labelsize=8.5, length=0)


if __name__ == "__main__":
    save(two_link_figure(), sys.argv[1] if len(sys.argv) > 1 else "nu-two-link.png")
