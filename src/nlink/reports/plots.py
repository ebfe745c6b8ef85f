"""Figures, drawn without a display and written in one step."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.formats.files import write_bytes
from nlink.robot import Robot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, RULE = "#1a1a1a", "#666666", "#d9d9d9"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
"""Okabe and Ito's palette, in an order whose neighbours differ for every kind of eye."""
STYLES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))


def joint_forces(robot: Robot, t: np.ndarray, curves: Mapping[str, np.ndarray], *, title: str,
                 subtitle: str = "", marks: Sequence[float] = ()) -> Figure:
    """Small multiples, one panel a joint; `curves` are named arrays of shape (len(t), n).

    `marks` are times at which the first curve gets a dot.
    """
    require_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(3, robot.n)
    rows = math.ceil(robot.n / columns)
    width, height = 3.4 * columns, 2.15 * rows + 1.1
    below_head = (0, 0, 1, 1 - 0.62 / height)
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(
        rect=below_head, w_pad=0.08, h_pad=0.06))
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    kinds = [joint.type.name for joint in robot.joints if joint.type.nv]
    for k, panel in enumerate(panels):
        if k >= robot.n:
            panel.set_visible(False)
            continue
        for (name, values), colour, style in zip(curves.items(), COLOURS, STYLES, strict=False):
            panel.plot(t, values[:, k], color=colour, linestyle=style, linewidth=1.8, label=name,
                       clip_on=False)
        first = next(iter(curves.values()))
        at = [int(np.argmin(np.abs(t - mark))) for mark in marks]
        panel.plot(t[at], first[at, k], "o", color=COLOURS[0], markersize=4, clip_on=False)
        dress(panel, f"joint {k + 1}", "N" if kinds[k] == "prismatic" else "N\N{MIDDLE DOT}m")
        panel.set_xlim(t[0], t[-1])
    for panel in panels[max(0, robot.n - columns):robot.n]:
        panel.set_xlabel("time, s", color=MUTED)
        panel.tick_params(labelbottom=True)
    head(figure, title, subtitle, panels[0])
    return figure


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PNG; its directory is made if it does not exist."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=160, metadata={"Software": None})
    write_bytes(path, picture.getvalue())
    return path


def require_matplotlib() -> None:
    """Refuse by a sentence that says what to install."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("plots need matplotlib: pip install nlink[plot]") from None


def dress(panel: Any, title: str, unit: str) -> None:
    """A panel's title, unit, grid and ticks."""
    panel.set_title(title, loc="left", fontsize=10, color=INK, fontweight="bold")
    panel.set_title(unit, loc="right", fontsize=9, color=MUTED)
    panel.axhline(0, color=RULE, linewidth=1, zorder=0)
    panel.grid(axis="y", color=RULE, linewidth=0.5, alpha=0.7)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.spines["bottom"].set_color(RULE)
    panel.tick_params(colors=MUTED, labelsize=8.5, length=0)
    panel.locator_params(axis="y", nbins=5)
    low, high = panel.get_ylim()
    if high - low < 1e-9:
        panel.set_ylim(-1, 1)


def head(figure: Figure, title: str, subtitle: str, panel: Any) -> None:
    """A figure's title, and a legend of the curves in `panel` if there are several."""
    height = figure.get_figheight()
    figure.text(0.012, 1 - 0.12 / height, title, fontsize=13, fontweight="bold", color=INK,
                va="top")
    figure.text(0.012, 1 - 0.38 / height, subtitle, fontsize=9.5, color=MUTED, va="top")
    if panel is None:
        return
    handles, labels = panel.get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="upper right", ncols=len(labels), frameon=False,
                      fontsize=9.5, labelcolor=INK, bbox_to_anchor=(0.995, 1.0))
