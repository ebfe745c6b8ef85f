"""Figures of runs: joint motions over time, one panel for each joint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.names import plain
from nlink.reports import plots
from nlink.reports.plots import COLOURS, MUTED, STYLES, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nlink.simulation.run import Run

__all__ = ["loops_figure", "panels", "run_figure", "save", "single_panels"]

SHOWN = 12
"""Trajectories of an ensemble that are drawn."""


def run_figure(run: Run, *, what: str = "q", title: str = "") -> Figure:
    """q, qd, tau (one panel an element), energy or loops of a run, over time."""
    if what not in ("q", "qd", "tau", "energy", "loops"):
        raise ValueError(f"what: {what!r}, expected q, qd, tau, energy or loops")
    if not run.status_codes.size:
        raise ValueError(f"plot: the run of {run.robot.name} has no trajectories to draw")
    if what == "loops":
        return loops_figure(run, title=title)
    values = getattr(next(run.pieces(SHOWN)), what)
    values = values[..., None] if what == "energy" else values
    count = values.shape[0]
    curves = {f"trajectory {k + 1}": each for k, each in enumerate(values)}
    names = [what] if what == "energy" else [f"{what} {k + 1}" for k in range(values.shape[2])]
    note = f"{run.method}, {run.stats}"
    if count > 1:
        note = f"{count} of {run.status_codes.size} trajectories, {note}"
    return panels(run.t, curves, names, ["J" if what == "energy" else ""] * len(names),
                  title=title or f"{plain(run.robot.name)}: {what}", subtitle=note,
                  legend=1 < count <= len(COLOURS))


def loops_figure(run: Run, *, title: str = "") -> Figure:
    """How far the loops of a run are open, and what they carry, of its first trajectory."""
    loops, count = run.robot.loops, len(run.t)
    error = run.closure_error.reshape(-1, count)[0]
    forces = run.closure_forces.reshape(-1, count, len(loops.names), 6)[0]
    panel_count = 1 + 2 * len(loops.names)
    names, units = ["largest opening"], ["rad or m"]
    curves = {axis: np.full((count, panel_count), np.nan) for axis in "xyz"}
    curves["x"][:, 0] = np.maximum(error, 1e-18)
    for k, name in enumerate(loops.names):
        names += [f"{plain(name)}: force", f"{plain(name)}: moment"]
        units += ["N", "N m"]
        for i, values in enumerate(curves.values()):
            values[:, 1 + 2 * k] = forces[:, k, 3 + i]
            values[:, 2 + 2 * k] = forces[:, k, i]
    figure = panels(run.t, curves, names, units, title=title or f"{plain(run.robot.name)}: loops",
                    subtitle="wrenches of `of` on `on`, world axes")
    first = figure.axes[0]
    first.lines[0].set(color=MUTED, linestyle="-", linewidth=1.0)
    first.set_yscale("log")
    first.set_ylim(1e-18, max(1e-12, 2 * float(np.nanmax(error, initial=0.0))))
    return figure


def panels(t: np.ndarray, curves: Mapping[str, np.ndarray], names: Sequence[str],
           units: Sequence[str], *, title: str, subtitle: str = "", legend: bool = True,
           log: bool = False) -> Figure:
    """Small multiples; `curves` are named arrays of shape (len(t), len(names)), nan where
    there is nothing to draw."""
    plots.require_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    height = 2.15 * rows + 1.1
    figure = Figure(figsize=(3.4 * columns, height), layout=ConstrainedLayoutEngine(
        rect=(0, 0, 1, 1 - 0.62 / height), w_pad=0.08, h_pad=0.06))
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    for k, axis in enumerate(axes):
        if k >= len(names):
            axis.set_visible(False)
            continue
        _draw(axis, t, curves, k, names[k], units[k], log=log,
              styles=STYLES if legend else ("-",))
    for axis in axes[max(0, len(names) - columns):len(names)]:
        axis.set_xlabel("time, s", color=MUTED)
        axis.tick_params(labelbottom=True)
    plots.head(figure, title, subtitle, axes[0] if legend else None)
    return figure


def single_panels(t: np.ndarray, curves: Mapping[str, np.ndarray], names: Sequence[str],
                  units: Sequence[str], *, log: bool = False) -> list[Figure]:
    """The panels of such a figure as figures of their own, for a page that arranges them."""
    plots.require_matplotlib()
    from matplotlib.figure import Figure

    figures = []
    for k, name in enumerate(names):
        figure = Figure(figsize=(3.4, 2.2), layout="constrained")
        axis = figure.subplots()
        _draw(axis, t, curves, k, name, units[k], log=log)
        axis.set_xlabel("time, s", color=MUTED, fontsize=8.5)
        figures.append(figure)
    return figures


def _draw(axis: Any, t: np.ndarray, curves: Mapping[str, np.ndarray], k: int, name: str,
          unit: str, *, styles: Sequence[Any] = STYLES, log: bool = False) -> None:
    """Element k of all curves in one panel."""
    for number, (label, values) in enumerate(curves.items()):
        axis.plot(t, values[:, k], color=COLOURS[number % len(COLOURS)], linewidth=1.6,
                  linestyle=styles[number % len(styles)], label=label)
    if log:
        axis.set_yscale("log")
    plots.dress(axis, name, unit, log=log)
    axis.set_xlim(t[0], t[-1])
