"""The page on a fit: what it was made from, how well it predicts, what is known and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import nlink
from nlink.formats.files import write_text
from nlink.model.coordinates import effort_units, rate_units
from nlink.reports.page import Page
from nlink.reports.plots import COLOURS, MUTED, dress, figure_class

if TYPE_CHECKING:
    from nlink.identification.fit import Fit
    from nlink.identification.fit_columns import FitRows

Array = np.ndarray
MOST_POINTS = 600
"""Of a curve: more are not seen."""


def write_report(fit: Fit, path: str | Path) -> Path:
    """Write the page."""
    page = Page(f"{fit.columns.robot.name}: identification")
    _result(page, fit)
    _data(page, fit)
    _torques(page, fit)
    _parameters(page, fit)
    _friction(page, fit)
    _prior(page, fit)
    _again(page, fit)
    write_text(path, page.html())
    return Path(path)


def _percent(x: float) -> str:
    return f"{100 * x:.2g} %"


def _motors(fit: Fit) -> tuple[str, ...]:
    """Names of what torques are of."""
    if fit.columns.to_motors is None:
        return fit.columns.robot.qd_names
    return tuple(f"motor{k + 1}" for k in range(fit.columns.robot.n))


def _result(page: Page, fit: Fit) -> None:
    page.section("Result")
    unseen = ("" if fit.validation is None else
              f" On rows that a first fit did not see it is {_percent(fit.validation)}.")
    page.text(f"Predicted torques differ from measured ones by {_percent(fit.training)} of their "
              f"size.{unseen} That bodies must be physical costs {_percent(fit.cost_of_physics)}.")
    if not fit.physical:
        page.text("The semidefinite problem was not solved: the numbers need not be those of real "
                  "bodies.")
    if fit.output_error is not None:
        page.text(f"Simulated positions differ from measured ones by "
                  f"{_percent(fit.output_error.score)} of their swing; before the second stage "
                  f"by {_percent(fit.output_error.before)}.")
    if fit.payload is not None:
        low, high = fit.payload.mass_interval
        centre = ", ".join(f"{x:.4f}" for x in fit.payload.com)
        page.text(f"Payload in {fit.payload.frame}: {fit.payload.mass:.4g} kg "
                  f"({low:.4g} to {high:.4g} kg), mass centre at ({centre}) m.")
    if fit.gains is not None:
        page.text("Gains: " + ", ".join(f"{x:.4g}" for x in fit.gains) + " N m per A.")
    for each in fit.warnings:
        page.text(f"Note: {each}.")
    names = _motors(fit)
    rows = [[name, _percent(a), _percent(b), "" if fit.validation is None else
             _percent(fit.validation.joints[k]), f"{fit.sigma[k]:.3g}"] for k, (name, a, b)
            in enumerate(zip(names, fit.training.joints, fit.base_training.joints, strict=True))]
    page.table(("joint", "error", "least squares alone", "unseen rows", "noise of a sample"), rows)


def _data(page: Page, fit: Fit) -> None:
    page.section("Data")
    rows = []
    for each in fit.rows:
        log = each.log
        step = np.diff(log.t) if log.t is not None else np.zeros(0)
        rows.append([log.name, str(len(log)), f"{log.duration:.4g} s",
                     f"{1 / np.median(step):.4g} Hz" if len(step) else "",
                     f"{1e3 * float(np.std(step)):.3g} ms" if len(step) else "",
                     f"{1e3 * float(step.max()):.3g} ms" if len(step) else "",
                     str(int(each.fit.sum()))])
    page.table(("log", "rows", "length", "rate", "jitter", "longest step", "rows fitted"), rows)
    page.text(f"Filtered at {fit.cutoff:.3g} Hz, delay {1e3 * fit.delay:.3g} ms. A row fitted is "
              "one motor's torque in half a period of that frequency.", "muted")


def _torques(page: Page, fit: Fit) -> None:
    page.section("Torques")
    for each in fit.rows[:4]:
        page.panels(_curves(fit, each, each.X @ fit.pi),
                    f"{each.log.name}: measured and predicted", ("measured", "predicted", "error"))
    for each, predicted in fit.held_out[:2]:
        page.panels(_curves(fit, each, predicted),
                    f"{each.log.name}: rows that the fit did not see",
                    ("measured", "predicted", "error"))


def _curves(fit: Fit, rows: FitRows, predicted: Array) -> list[Any]:
    scale = np.where(rows.scale > 0, rows.scale, np.nan)
    y, p = (np.where(rows.fit, x / scale, np.nan) for x in (rows.y, predicted))
    step = max(1, len(rows.t) // MOST_POINTS)
    units, found = effort_units(fit.columns.robot.description), []
    for j, name in enumerate(_motors(fit)):
        figure, panel = _panel()
        panel.plot(rows.t[::step], y[::step, j], color=COLOURS[0], linewidth=1.6)
        panel.plot(rows.t[::step], p[::step, j], color=COLOURS[1], linewidth=1.2,
                   linestyle=(0, (4, 2)))
        panel.plot(rows.t[::step], (y - p)[::step, j], color=COLOURS[2], linewidth=1.0,
                   linestyle=(0, (1, 1.5)))
        dress(panel, name, units[j])
        found.append(figure)
    return found


def _panel() -> tuple[Any, Any]:
    figure = figure_class()(figsize=(3.4, 2.2), layout="constrained")
    return figure, figure.add_subplot()


def _parameters(page: Page, fit: Fit) -> None:
    page.section("Base parameters")
    page.text("Combinations of parameters that torques depend on, by least squares, with 95 % "
              "intervals. What is smaller than its interval is not told apart from zero.")
    rows = []
    for formula, value, (low, high) in zip(fit.base_parameters.formulas, fit.base, fit.intervals,
                                           strict=True):
        half = (high - low) / 2
        rows.append([_short(formula), f"{value:.5g}", f"{half:.2g}" if np.isfinite(half) else
                     "not told", "yes" if np.isfinite(half) and abs(value) > half else "no"])
    with page.folded(f"{len(rows)} base parameters"):
        page.table(("combination", "value", "+-", "told apart from 0"), rows)
    page.heading("What the logs do not tell")
    if not fit.unknown:
        page.text("Nothing: all combinations are known to half of their plausible size.")
    for each in fit.unknown:
        page.text(f"{each}.")


def _short(formula: str) -> str:
    return formula if len(formula) < 64 else f"{formula[:60]} ..."


def _friction(page: Page, fit: Fit) -> None:
    columns = fit.columns
    if not any(each.kind != "armature" for each in columns.extras):
        return
    page.section("Friction")
    keep = np.array([*[False] * columns.inertial,
                     *(each.kind != "armature" for each in columns.extras)])
    top = fit.how["top"]
    units = rate_units(columns.robot.description)
    C = columns.A / np.abs(columns.A).max(axis=1, keepdims=True)
    found = []
    for j, name in enumerate(_motors(fit)):
        figure, panel = _panel()
        speed = _speeds(fit, j)
        for rows, w in speed:
            scale = np.where(rows.scale[:, j] > 0, rows.scale[:, j], np.nan)
            own = (rows.y[:, j] - rows.X[:, j] @ np.where(keep, 0.0, fit.pi)) / scale
            good = rows.fit[:, j] & np.isfinite(own)
            step = max(1, int(good.sum()) // 300)
            panel.plot(w[good][::step], own[good][::step], ".", color=COLOURS[0], markersize=2.5)
        reach = max([float(np.abs(w).max()) for _, w in speed if len(w)] or [float(top[j])])
        line = np.linspace(-reach, reach, 201)
        motors = np.zeros((201, columns.robot.n))
        motors[:, j] = line
        joints = motors @ np.linalg.inv(C).T
        panel.plot(line, (fit.friction(joints) @ np.linalg.inv(columns.A))[:, j],
                   color=COLOURS[1], linewidth=1.6)
        dress(panel, name, f"{effort_units(columns.robot.description)[j]} over {units[j]}/s")
        panel.spines["bottom"].set_color(MUTED)
        found.append(figure)
    page.panels(found, "Friction: what is left of measured torques, and the curve that was found",
                ("measured", "found"))


def _speeds(fit: Fit, j: int) -> list[tuple[FitRows, Array]]:
    """The filtered rate of a motor in every row, at the gear's other side."""
    found = []
    C = fit.columns.A / np.abs(fit.columns.A).max(axis=1, keepdims=True)
    for rows in fit.rows:
        log = rows.log
        if log.t is None:
            found.append((rows, log.qd @ C[j]))
            continue
        q = log.q if fit.columns.to_motors is None else log.q @ fit.columns.to_motors
        w = q @ C[j]
        half = 0.25 / max(rows.cutoff, 1e-9)
        ahead, behind = (np.interp(rows.t - fit.delay + s * half, log.t, w) for s in (1, -1))
        found.append((rows, (ahead - behind) / (2 * half)))
    return found


def _prior(page: Page, fit: Fit) -> None:
    page.section("Links")
    page.text("Masses and mass centres of the robot before and after.")
    before, after = fit.columns.robot.links, fit.robot.links
    page.table(("link", "mass before", "mass", "centre before, m", "centre, m"), [
        [a.name, f"{a.mass:.4g}", f"{b.mass:.4g}", ", ".join(f"{x:.3g}" for x in a.com),
         ", ".join(f"{x:.3g}" for x in b.com)] for a, b in zip(before, after, strict=True)])


def _again(page: Page, fit: Fit) -> None:
    page.section("How to reproduce")
    words = []
    for name, value in fit.how.items():
        if name != "top" and value is not None:
            shown = np.asarray(value).tolist() if isinstance(value, np.ndarray) else value
            words.append(f"{name}={shown!r}")
    logs = ", ".join(repr(each.log.name) for each in fit.rows)
    page.text(f"`nlink.identify(nlink.load({fit.columns.robot.name!r}), [{logs}], "
              f"{', '.join(words)})`")
    page.text(f"nlink {nlink.__version__}, NumPy {np.__version__}.", "muted")
