"""Errors over times of published problems, as small multiples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nlink.bench.multibody.published import problem
from nlink.bench.multibody.runs import TOLERANCES, Benchmarks
from nlink.reports.plots import COLOURS, MUTED, RULE, STYLES, dress, figure_class, head

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 4
"""In a row of the plot."""


def draw(bench: Benchmarks) -> Figure:
    """Small multiples: the error over the time it takes, a point for each tolerance."""
    names = bench.names
    methods = list(dict.fromkeys(each.method for each in bench.solutions))
    high = -(-len(names) // PANELS)
    figure = figure_class()(figsize=(10.2, 0.75 + 2.2 * high))
    panels = figure.subplots(high, PANELS, sharex=True, sharey=True, squeeze=False)
    for name, panel in zip(names, panels.flat, strict=False):
        panel.loglog()
        for k, method in enumerate(methods):
            line = bench.of(name, method)
            if line:
                panel.plot([1e3 * x.seconds for x in line], [x.error for x in line], "o",
                           linestyle=STYLES[k], color=COLOURS[k], linewidth=1.3, markersize=4,
                           label=method)
        dress(panel, name, "", log=True)
        panel.set_title(problem(name).title, loc="right", fontsize=8, color=MUTED)
        panel.set_ylim(1e-15, 20.0)
        panel.tick_params(labelbottom=True)
        panel.grid(axis="x", color=RULE, linewidth=0.5, alpha=0.7)
    for panel in panels.flat[len(names):]:
        panel.set_visible(False)
    for panel in panels[:, 0]:
        panel.set_ylabel("error, m or rad", fontsize=8.5, color=MUTED)
    for column in range(PANELS):
        shown = [row[column] for row in panels if row[column].get_visible()]
        if shown:
            shown[-1].set_xlabel("time, ms", fontsize=8.5, color=MUTED)
    figure.subplots_adjust(left=0.07, right=0.985, bottom=0.45 / (0.75 + 2.2 * high),
                           top=1 - 0.85 / (0.75 + 2.2 * high), hspace=0.42, wspace=0.14)
    head(figure, "Published problems", "error at the reference's times over the time of a "
         f"simulation; points at tolerances {', '.join(f'{x:.0e}' for x in TOLERANCES)}", None)
    lines = {line.get_label(): line for panel in panels.flat for line in panel.lines}
    figure.legend([lines[method] for method in methods], methods, loc="upper right",
                  ncols=len(methods), frameon=False, fontsize=9.5, bbox_to_anchor=(0.995, 1.0))
    return figure
