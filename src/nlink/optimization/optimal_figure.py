"""Pictures of optimal trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.reports import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nlink.optimization.optimized import Optimized

MOST_LINES = 50
"""Problems of a batch that are drawn, at most."""
MOST_NAMED = 12
"""Coordinates up to which the lines have a legend."""


def draw(found: Optimized) -> Figure:
    """The cost over the iterations, above less the last one, then coordinates, then forces."""
    plots.require_matplotlib()
    from matplotlib.figure import Figure

    robot = found.robot
    q, u, history = (x.reshape(-1, *x.shape[x.ndim - own:])[:MOST_LINES] for x, own in (
        (found.q, 2), (found.u, 2), (found.history, 1)))
    figure = Figure(figsize=(7.2, 7.2), layout="constrained")
    cost, position, force = figure.subplots(3, 1)
    faint = 1.0 if len(q) == 1 else max(0.15, 1.0 / np.sqrt(len(q)))
    for row in history:
        row = row[np.isfinite(row)]
        cost.semilogy(range(len(row)), row, color=plots.COLOURS[0], alpha=faint, marker=".",
                      markersize=4)
    cost.set(xlabel="iteration", ylabel="cost")
    cost.xaxis.get_major_locator().set_params(integer=True)
    used = [k for k in range(robot.n) if np.any(u[..., k])]
    for axes, values, names, which, unit, rows in (
            (position, q, robot.q_names, range(robot.nq), "coordinates (rad, m)", found.t),
            (force, u, robot.qd_names, used, "forces (N m, N)", found.t)):
        for line, k in enumerate(which):
            style: dict[str, Any] = {
                "color": plots.COLOURS[line % len(plots.COLOURS)], "alpha": faint,
                "linestyle": plots.STYLES[line // len(plots.COLOURS) % len(plots.STYLES)]}
            for n, each in enumerate(values):
                label = names[k] if n == 0 else None
                if axes is force:
                    axes.stairs(each[:, k], rows, baseline=None, label=label, **style)
                else:
                    axes.plot(rows, each[:, k], label=label, **style)
        axes.set(xlabel="time (s)", ylabel=unit, xlim=(rows[0], rows[-1]))
        if 1 < len(which) <= MOST_NAMED:
            shown = axes.legend(fontsize=8, frameon=False, loc="center left",
                                bbox_to_anchor=(1.0, 0.5))
            for handle in shown.legend_handles:
                handle.set_alpha(1.0)
    for axes in (cost, position, force):
        axes.grid(color=plots.RULE, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    return figure
