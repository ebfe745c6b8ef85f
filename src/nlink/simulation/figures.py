"""Figures of runs: joint motions over time, one panel for each joint."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.coordinates import coordinate_units, effort_units, rate_units
from nlink.model.names import did_you_mean, plain
from nlink.reports import plots
from nlink.reports.plots import COLOURS, MUTED, STYLES, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nlink.simulation.run import Run

__all__ = ["loops_figure", "panels", "run_figure", "save", "single_panels"]

CURVES = len(COLOURS)
"""Trajectories that are drawn as curves; more are drawn as bands."""
SAMPLED = 2000
"""Trajectories of which bands are taken, evenly from an ensemble that has more."""
BANDS = ((0.05, 0.95, 0.16, "90 %"), (0.25, 0.75, 0.3, "50 %"))
"""Lower and upper quantile, opacity and label."""
OPENING = 1e-16
"""Openings of loops below this are rounding, and drawn as this."""
WORDS = {"q": "positions", "qd": "rates", "tau": "joint forces", "energy": "energy",
         "error": "desired - q", "loops": "loops"}


def run_figure(run: Run, *, what: str = "q", title: str = "") -> Figure:
    """q, qd, tau, error (one panel an element), energy or loops of a run, over time."""
    if what not in WORDS:
        raise ValueError(f"what: {what!r}, expected one of {', '.join(WORDS)}"
                         f"{did_you_mean(what, WORDS)}")
    if not run.status_codes.size:
        raise ValueError(f"plot: the run of {run.robot.name} has no trajectories to draw")
    if what == "error" and run.target is None:
        raise ValueError(f"what: 'error', but the run of {run.robot.name} has followed no "
                         "trajectory of its coordinates")
    if what == "loops":
        return loops_figure(run, title=title)
    values = _sampled(run, what)
    count, total = len(values), run.status_codes.size
    names, units = _names_and_units(run, what)
    note = f"{run.method}, {run.stats}"
    curves: dict[str, np.ndarray] = {}
    if total > CURVES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where all have ended: nan
            curves["median"] = np.nanmedian(values, axis=0)
        some = "" if count == total else f"bands of {count} of them, "
        note = f"{total} trajectories, {some}{note}"
    else:
        curves |= {f"trajectory {k + 1}" if total > 1 else what: each
                   for k, each in enumerate(values)}
    if what == "energy" and total == 1:
        kinetic = run.robot.kinetic_energy(run.q, run.qd) if run.variation is None else (
            run.variation.compute(run.robot, "kinetic_energy", run.q, run.qd))
        kinetic = np.asarray(kinetic).reshape(-1, 1)
        curves |= {"kinetic": kinetic, "potential": curves["energy"] - kinetic}
    if what == "q" and run.desired is not None:
        curves["desired"] = run.desired
    failed = len(run.failed)
    note = f"{note}, {failed} not to the end" if failed else note
    return panels(run.t, curves, names, units, subtitle=note,
                  title=title or f"{plain(run.robot.name)}: {WORDS[what]}",
                  bands=values if total > CURVES else None, bounds=_bounds(run, what))


def _sampled(run: Run, what: str) -> np.ndarray:
    """(trajectories, times, elements) of a run, of an ensemble evenly some."""
    step = max(1, math.ceil(run.status_codes.size / SAMPLED))
    found, begin = [], 0
    for piece in run.pieces():
        values = getattr(piece, {"error": "tracking_error"}.get(what, what))
        found.append(np.asarray(values)[-begin % step::step])
        begin += len(values)
    values = np.concatenate(found)
    return values[..., None] if what == "energy" else values


def _names_and_units(run: Run, what: str) -> tuple[list[str], list[str]]:
    """What the panels are called, and what they are measured in."""
    d = run.robot.description
    if what == "energy":
        return ["energy"], ["J"]
    names = run.robot.q_names if what == "q" else run.robot.qd_names
    units = {"q": lambda: coordinate_units(d), "qd": lambda: [f"{u}/s" for u in rate_units(d)],
             "tau": lambda: effort_units(d), "error": lambda: rate_units(d)}[what]()
    return [plain(name) for name in names], [unit or "quaternion" for unit in units]


def _bounds(run: Run, what: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Limits of what is drawn, lower and upper, of each element."""
    limits = run.robot.limits
    if what == "q":
        return (limits.lower, limits.upper) if run.robot.mechanism.space.flat else None
    if what in ("qd", "tau"):
        largest = limits.velocity if what == "qd" else limits.effort
        return -largest, largest
    return None


def loops_figure(run: Run, *, title: str = "") -> Figure:
    """How far the loops of a run are open, and what they carry, of its first trajectory."""
    loops, count = run.robot.loops, len(run.t)
    error = run.closure_error.reshape(-1, count)[0]
    forces = run.closure_forces.reshape(-1, count, len(loops.names), 6)[0]
    panel_count = 1 + 2 * len(loops.names)
    names, units = ["largest opening"], ["rad or m"]
    curves = {axis: np.full((count, panel_count), np.nan) for axis in "xyz"}
    curves["x"][:, 0] = np.maximum(error, OPENING)
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
    first.set_ylim(OPENING / 2, max(1e-12, 4 * float(np.nanmax(error, initial=0.0))))
    return figure


def panels(t: np.ndarray, curves: Mapping[str, np.ndarray], names: Sequence[str],
           units: Sequence[str], *, title: str, subtitle: str = "", legend: bool = True,
           log: bool = False, bands: np.ndarray | None = None,
           bounds: tuple[np.ndarray, np.ndarray] | None = None) -> Figure:
    """Small multiples; `curves` are named arrays of shape (len(t), len(names)), nan where
    there is nothing to draw. `bands` are trajectories, (many, len(t), len(names)), whose quantiles
    are shaded, `bounds` the limits of each element, drawn where the curves come near."""
    figure_class = plots.figure_class()
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    height = 2.15 * rows + 1.1
    figure = figure_class(figsize=(max(7.0, 3.4 * columns), height), layout=ConstrainedLayoutEngine(
        rect=(0, 0, 1, 1 - 0.62 / height), w_pad=0.08, h_pad=0.06))
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    near = False
    for k, axis in enumerate(axes):
        if k >= len(names):
            axis.set_visible(False)
            continue
        if bands is not None:
            _shade(axis, t, bands[:, :, k])
        _draw(axis, t, curves, k, names[k], units[k], log=log,
              styles=STYLES if legend else ("-",))
        if bounds is not None:
            near |= _draw_bounds(axis, bounds[0][k], bounds[1][k])
    if not log:
        _level(list(axes), units)
    for axis in axes[max(0, len(names) - columns):len(names)]:
        axis.set_xlabel("time, s", color=MUTED)
        axis.tick_params(labelbottom=True)
    subtitle += "; dotted: limits" if near else ""
    plots.head(figure, title, subtitle, axes[0] if legend else None)
    return figure


def _shade(axis: Any, t: np.ndarray, values: np.ndarray) -> None:
    """Bands between quantiles over the trajectories, (many, len(t))."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for low, high, opacity, label in BANDS:
            between = np.nanquantile(values, (low, high), axis=0)
            axis.fill_between(t, *between, color=COLOURS[0], alpha=opacity, linewidth=0,
                              label=label)


def _draw_bounds(axis: Any, *bounds: float) -> bool:
    """Limits that are within the panel, or almost; whether there are any."""
    low, high = axis.get_ylim()
    room = 0.3 * (high - low)
    near = [bound for bound in bounds if low - room <= bound <= high + room]
    for bound in near:
        axis.axhline(bound, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
    return bool(near)


def _level(axes: Sequence[Any], units: Sequence[str]) -> None:
    """Panels of one unit show at least a tenth of what the largest of them does."""
    for unit in set(units):
        own = [axis for axis, its in zip(axes, units, strict=False) if its == unit]
        scale = max((float(np.ptp(axis.dataLim.intervaly)) for axis in own
                     if not plots.steady(axis)), default=0.0)
        for axis in own:
            plots.least_span(axis, scale)


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
