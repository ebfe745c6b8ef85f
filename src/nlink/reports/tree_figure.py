"""A tree of bodies with arcs across it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nlink.model.names import visible
from nlink.reports.plots import COLOURS, INK, MUTED, figure_class, head

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class TreeEdge:
    """What a body hangs by: from which body, and the name of the joint or loop."""

    parent: int
    name: str
    loop: bool = False


@dataclass(frozen=True, slots=True)
class CutEdge:
    """What is cut, between two bodies."""

    first: int
    second: int
    name: str


def draw_tree(title: str, subtitle: str, bodies: Sequence[str], numbers: Mapping[int, int],
              tree: Sequence[TreeEdge], arcs: Sequence[CutEdge]) -> Figure:
    """Bodies by their distance from the first one, the base; `tree` has one entry for each other
    body, and `numbers` are shown in their circles."""
    x, y = _places(tree)
    deep = -min(y)
    figure = figure_class()(figsize=(max(6.5, 1.3 * (max(x) + 2)), 1.1 + 1.15 * (deep + 0.6)))
    panel = figure.add_axes((0.02, 0.02, 0.96, 1 - 0.75 / figure.get_figheight()))
    for body, edge in enumerate(tree, 1):
        ends = [x[body], x[edge.parent]], [y[body], y[edge.parent]]
        panel.plot(*ends, color=COLOURS[0] if edge.loop else INK, linewidth=1.6, zorder=1)
        if edge.name != bodies[body]:
            panel.annotate(visible(edge.name), (sum(ends[0]) / 2, sum(ends[1]) / 2), xytext=(4, 0),
                           textcoords="offset points", fontsize=7.5, color=MUTED, va="center")
    for arc in arcs:
        ends = [(x[k], y[k]) for k in (arc.first, arc.second)]
        ends.sort()
        bend = -min(0.5, max(0.25, 0.45 / math.dist(*ends)))
        panel.annotate("", ends[0], ends[1], arrowprops={
            "arrowstyle": "-", "color": COLOURS[1], "linestyle": (0, (4, 2)), "linewidth": 1.4,
            "connectionstyle": f"arc3,rad={bend}", "shrinkA": 9, "shrinkB": 9}, zorder=1)
        (a, b), (c, d) = ends
        panel.annotate(visible(arc.name), ((a + c) / 2 - bend / 2 * (d - b),
                                           (b + d) / 2 + bend / 2 * (c - a)),
                       fontsize=7.5, color=COLOURS[1], ha="center", va="center",
                       bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8}, zorder=2)
    for body, name in enumerate(bodies):
        panel.plot([x[body]], [y[body]], "o", markersize=17, color="white", zorder=3,
                   markeredgecolor=INK, markeredgewidth=1.2)
        panel.annotate(str(numbers.get(body, "")), (x[body], y[body]), fontsize=8, color=INK,
                       ha="center", va="center", zorder=4)
        panel.annotate(visible(name), (x[body], y[body]), xytext=(13, 0), fontsize=8.5, color=INK,
                       textcoords="offset points", va="center", zorder=4,
                       bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
    panel.set_xlim(-0.6, max(x) + 1.0)
    panel.set_ylim(-deep - 0.55, 0.35)
    panel.axis("off")
    head(figure, visible(title), subtitle, None)
    return figure


def _places(tree: Sequence[TreeEdge]) -> tuple[list[float], list[float]]:
    """x and y of each body: one column for each tip, parents above the middle of their children,
    the base on top."""
    children: list[list[int]] = [[] for _ in range(len(tree) + 1)]
    for body, edge in enumerate(tree, 1):
        children[edge.parent].append(body)
    x, y, columns = [0.0] * len(children), [0.0] * len(children), 0
    stack = [(0, False)]
    while stack:
        body, done = stack.pop()
        if done:
            x[body] = sum(x[child] for child in children[body]) / len(children[body])
        elif children[body]:
            stack += [(body, True), *((child, False) for child in reversed(children[body]))]
            for child in children[body]:
                y[child] = y[body] - 1.0
        else:
            x[body], columns = float(columns), columns + 1
    return x, y
