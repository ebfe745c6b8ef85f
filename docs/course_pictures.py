"""The pictures of the course: `python docs/course_pictures.py DIR` draws them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import nlink

INK, SOFT = "#333333", "#9a9a9a"
BLUE, RED, GREEN = "#0072b2", "#d55e00", "#009e73"
RODS = [np.array([0.35, 0.75]), np.array([0.5, 0.9, -1.2])]
"""Angles of the arms that are drawn."""

Array = np.ndarray


def panel(figure: Figure, place: int = 111) -> Any:
    """Axes for a drawing in the plane, without ticks."""
    axes = figure.add_subplot(place, aspect="equal")
    axes.axis("off")
    return axes


def arrow(axes: Any, tail: Array, vector: Array, colour: str, label: str = "",
          gap: float = 0.06) -> None:
    head = np.add(tail, vector)
    axes.annotate("", head, tail, arrowprops={"arrowstyle": "-|>", "color": colour,
                                              "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0})
    if label:
        side = np.array([-vector[1], vector[0]]) / (np.hypot(*vector) + 1e-12)
        axes.text(*(np.add(tail, np.multiply(vector, 0.55)) + gap * side), label, color=colour,
                  ha="center", va="center", fontsize=12)


def joints_of(q: Array) -> Array:
    """The points of a chain of rods of 1 m, (n + 1, 2)."""
    angle = np.cumsum(q)
    steps = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([[[0.0, 0.0]], np.cumsum(steps, axis=0)])


def rods(axes: Any, points: Array) -> None:
    axes.plot(*points.T, color=SOFT, linewidth=9, solid_capstyle="round", zorder=1)
    axes.plot(*points[:-1].T, "o", color="white", markeredgecolor=INK, markersize=8, zorder=3)


def turning_body() -> Figure:
    """Lesson 1: a twist, at three points, and the point that rests."""
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = panel(figure)
    outline = np.array([[-0.4, -0.25], [0.1, -0.5], [0.9, -0.35], [1.1, 0.2], [0.5, 0.45],
                        [-0.3, 0.35], [-0.4, -0.25]])
    axes.fill(*outline.T, color="#eceff3", edgecolor=SOFT)
    omega, v = 2.0, np.array([1.0, 0.0])

    def velocity(x: Array) -> Array:
        return v + omega * np.array([-x[1], x[0]])

    for x, name in ((np.zeros(2), "C"), (np.array([0.5, 0.0]), "C′"), (np.array([0.8, -0.2]), "")):
        axes.plot(*x, "o", color=INK, markersize=4)
        axes.text(x[0] - 0.03, x[1] - 0.1, name, ha="right", fontsize=12)
        arrow(axes, x, 0.3 * velocity(x), BLUE, "v" if name == "C" else "v′" if name else "")
    rest = np.array([0.0, v[0] / omega])
    axes.plot(*rest, "o", color=RED, markersize=7)
    axes.text(rest[0] + 0.07, rest[1] + 0.02, "the screw's axis: this point rests", color=RED,
              va="center")
    axes.set(xlim=(-0.7, 1.6), ylim=(-0.65, 0.85))
    return figure


def two_passes() -> Figure:
    """Lesson 2: motion outward, forces inward."""
    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    points = joints_of(RODS[1])
    for place, title, colour, inward in ((121, "outward: motion", BLUE, False),
                                         (122, "inward: forces", RED, True)):
        axes = panel(figure, place)
        rods(axes, points)
        axes.set_title(title, color=colour)
        for i, (tail, head) in enumerate(pairwise(points)):
            along = head - tail
            across = 0.16 * np.array([-along[1], along[0]])
            if inward:
                arrow(axes, tail + 0.85 * along + across, -0.7 * along, colour,
                      f"$\\tilde w_{i + 1}$", -0.13)
                axes.text(tail[0] + 0.2, tail[1] - 0.14, f"$\\tau_{i + 1}$", color=colour,
                          ha="center", va="center", fontsize=12)
            else:
                arrow(axes, tail + 0.15 * along + across, 0.7 * along, colour,
                      f"$t_{i + 1},\\ \\dot t_{i + 1}$", 0.16)
        axes.margins(0.16)
    return figure


def two_rods() -> Figure:
    """Lesson 3: the arm with two joints."""
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = panel(figure)
    points = joints_of(RODS[0])
    rods(axes, points)
    centres = (points[1:] + points[:-1]) / 2
    for k, x in enumerate(centres):
        axes.plot(*x, "o", color=INK, markersize=5, zorder=4)
        axes.text(x[0] + 0.1, x[1] - 0.06, f"$C_{k + 1}$", fontsize=12)
    arrow(axes, centres[0], centres[1] - centres[0], GREEN, "$c_{12}$", 0.09)
    for k in range(2):
        arrow(axes, points[k], centres[k] - points[k], BLUE, f"$d_{k + 1}$", 0.1)
    axes.plot([0, 0.55], [0, 0], ":", color=SOFT)
    axes.text(0.27, 0.035, "$q_1$", fontsize=12)
    ahead = points[1] + 0.5 * (points[1] - points[0])
    axes.plot(*np.array([points[1], ahead]).T, ":", color=SOFT)
    axes.text(*(points[1] + [0.26, 0.18]), "$q_2$", fontsize=12)
    axes.set(xlim=(-0.15, 1.75), ylim=(-0.2, 1.4))
    return figure


def felt_inertia() -> Figure:
    """Lesson 4: the mass felt at the hand in each direction, joints frozen or loose."""
    arm = nlink.load("planar3")
    q = RODS[1]
    points = joints_of(q)
    W = arm.operational_inertia(q, inverse=True)[3:5, 3:5]
    angle = np.linspace(0, 2 * np.pi, 361)
    push = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    loose = 1 / np.einsum("ai,ij,aj->a", push, W, push)
    lever = points[-1, 0] * push[:, 1] - points[-1, 1] * push[:, 0]
    frozen = arm.mass_matrix(q)[0, 0] / lever**2
    figure = Figure(figsize=(7.6, 3.6), layout="constrained")
    axes = panel(figure, 121)
    rods(axes, points)
    axes.plot(*(points[-1] + 0.35 * push * loose[:, None]).T, color=BLUE)
    axes.set_title("mass felt at the hand, by direction", fontsize=11)
    axes.margins(0.1)
    plot = figure.add_subplot(122)
    plot.semilogy(np.degrees(angle), frozen, color=RED, label="one joint, the others frozen")
    plot.semilogy(np.degrees(angle), loose, color=BLUE, label="all joints loose")
    plot.set(xlabel="direction of the push, degrees", ylabel="mass felt, kg", ylim=(0.1, 1e4),
              xticks=range(0, 361, 90))
    plot.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    plot.spines[["top", "right"]].set_visible(False)
    return figure


def whitening() -> Figure:
    """Lesson 5: correlations of joint forces under noise, and of their innovations."""
    robot = nlink.load("puma560")
    o = robot.operators(*robot.random_state(1)).spatial
    rng = np.random.default_rng(0)
    noise = np.linalg.cholesky(o.M.dense()) @ rng.normal(size=(36, 20_000))
    forces = (o.H @ o.phi).dense() @ noise
    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    image = None
    for place, title, values in (
            (121, "joint forces: the mass matrix", forces),
            (122, "innovations: white", (1 - o.H @ o.Psi @ o.L).dense() @ forces)):
        axes = figure.add_subplot(place)
        image = axes.imshow(np.corrcoef(values), cmap="RdBu", vmin=-1, vmax=1)
        axes.set_title(title, fontsize=11)
        axes.set(xticks=range(6), yticks=range(6), xticklabels=range(1, 7),
                 yticklabels=range(1, 7), xlabel="joint")
    figure.colorbar(image, ax=figure.axes, label="correlation", shrink=0.9)
    return figure


def energies() -> Figure:
    """Lesson 6: energies of the quasi-velocities in free motion."""
    arm = nlink.load("planar3").with_gravity([0.0, 0.0, 0.0])
    run = nlink.simulate(arm, [0.4, 0.9, -0.6], [1.0, -0.5, 0.8], t=6.0, velocity="nu",
                         every=0.01)
    share = run.rates**2 / 2
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    axes = figure.subplots()
    axes.stackplot(run.t, share.T, labels=[f"$\\nu_{k}^2/2$" for k in (1, 2, 3)],
                   colors=("#7fb3d5", "#f0b27a", "#82c9a8"))
    axes.plot(run.t, share.sum(axis=1), color=INK, label="kinetic energy")
    axes.set(xlabel="time, s", ylabel="energy, J", xlim=(0, 6), ylim=(0, 4.0))
    axes.legend(frameon=False, ncols=4, loc="upper center")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def coupler_curve() -> Figure:
    """Lesson 7: paths of points of a coupler, and the force in the pin."""
    robot = nlink.load("four_bar")
    turn = np.linspace(0.0, 2 * np.pi, 361)
    q = robot.neutral
    states = []
    for angle in turn:
        q = robot.loops.assemble([robot.neutral[0] + angle, *q[1:]], keep=["crank"])
        states.append(q)
    states = np.array(states)
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    axes = panel(figure, 121)
    crank = 0.4 * np.stack([np.cos(states[:, 0]), np.sin(states[:, 0])], axis=1)
    heading = states[:, 0] + states[:, 1]
    along = np.stack([np.cos(heading), np.sin(heading)], axis=1)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    for share, height, colour in ((0.5, 0.0, SOFT), (0.5, 0.35, BLUE), (0.8, 0.5, RED)):
        axes.plot(*(crank + share * along + height * across).T, color=colour)
    now = 25
    points = np.array([[0, 0], crank[now], crank[now] + along[now], [1.0, 0.0]])
    rods(axes, points)
    axes.plot(1.0, 0.0, "o", color="white", markeredgecolor=INK, markersize=8, zorder=3)
    axes.set_title("paths of three points of the coupler", fontsize=11)
    run = nlink.simulate(robot, t=3.0)
    force = robot.loops.forces(run.q, run.qd, np.zeros_like(run.q))[..., 0, 3:]
    right = figure.add_subplot(122)
    right.plot(run.t, np.linalg.norm(force, axis=-1), color=BLUE)
    right.set(xlabel="time, s", ylabel="force in the pin, N", title="it falls freely")
    right.spines[["top", "right"]].set_visible(False)
    return figure


def precision() -> Figure:
    """Lesson 8: error against work."""
    robot = nlink.load("double_pendulum")
    start = [0.6, 0.5]
    exact = nlink.simulate(robot, start, t=2.0, method="dop853", rtol=1e-13, atol=1e-13).q[-1]
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()

    def line(name: str, options: list[dict[str, float]], marker: str) -> None:
        runs = [nlink.simulate(robot, start, t=2.0, method=name, every=2.0, **own)
                for own in options]
        axes.loglog([int(np.sum(run.stats.evaluations)) for run in runs],
                    [np.abs(run.q[-1] - exact).max() for run in runs], marker, label=name,
                    markersize=4)

    steps = [{"step": float(h)} for h in np.geomspace(2e-2, 2e-5, 10)]
    bounds = [{"rtol": float(r), "atol": float(r)} for r in np.geomspace(1e-3, 1e-12, 10)]
    line("semi_implicit", steps, "o-")
    line("rk4", steps, "s-")
    line("rkf45", bounds, "^-")
    line("dop853", bounds, "v-")
    axes.set(xlabel="evaluations of the accelerations", ylabel="error after 2 s, rad")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


PICTURES: tuple[Callable[[], Figure], ...] = (
    turning_body, two_passes, two_rods, felt_inertia, whitening, energies, coupler_curve, precision)


def draw_pictures(directory: Path) -> list[Path]:
    """One picture for each lesson, in their order."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for lesson, picture in enumerate(PICTURES, 1):
        written.append(directory / f"course-{lesson}.png")
        picture().savefig(written[-1], dpi=110)
    return written


if __name__ == "__main__":
    print(*draw_pictures(Path(sys.argv[1])), sep="\n")
