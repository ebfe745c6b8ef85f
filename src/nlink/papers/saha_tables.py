"""The complexity tables of [Saha99] and [Saha03], published rows beside counted ones.

Published rows are as printed; where a printed number is wrong the row says so. Rows of nlink
are counted on the traced algorithms for revolute chains of any length (`complexity.cost_formula`).
M are multiplications and divisions, A additions and subtractions, as in the papers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nlink.algorithms.matrices import dense_solve
from nlink.engines.complexity import (
    INVERSE_DYNAMICS_TABLE,
    Cost,
    CostFormula,
    Polynomial,
    Published,
    cost_formula,
)
from nlink.reports.plots import COLOURS, INK, MUTED, RULE, save
from nlink.reports.terminal import PrintedTable
from nlink.scalars.counting import Count, Counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (6, 10, 12)
LONGEST = 60
"""Break-even points are looked for up to this number of joints."""

WALKER_ORIN = Cost.of(("1/6", "23/2", "115/3", -47), ("1/6", 7, "233/6", -46))
FEATHERSTONE = Cost.of((199, -198), (174, -173))

PRINTED = {("Walker and Orin (1982)", 6): (633, 480)}
"""Entries of the tables of forward dynamics that are not what their formulas give."""
PRINTED_NOTE = "480 additions for n = 6 are as printed; the formula gives 475"

SAHA99_TABLE_2 = (
    Published("Saha (1997)", Cost.of((201, -335), (193, -361))),
    Published("Featherstone (1983)", FEATHERSTONE),
    Published("Walker and Orin (1982)", WALKER_ORIN, PRINTED_NOTE),
)
"""[Saha99] Table 2: the solution of I qdd = phi, phi given."""

SAHA03_TABLE_I = (
    Published("Saha (2003)", Cost.of((191, -284), (187, -325)),
              note="the counts of its steps add up to 192n-284 multiplications, not 191n-284"),
    Published("Featherstone (1983)", FEATHERSTONE),
    Published("Valasek (1996)", Cost.of((226, -343), (206, -345))),
    Published("Brandl et al. (1986)", Cost.of((250, -222), (220, -198))),
    Published("Walker and Orin (1982)", WALKER_ORIN, PRINTED_NOTE),
)
"""[Saha03] Table I: the same solution, five ways."""

SAHA03 = Published("Saha (2003), corrected", Cost.of((192, -284), (187, -325)))


@dataclass(frozen=True, slots=True)
class CostRow:
    """An algorithm's cost: its formula, and its counts (M, A) for some numbers of joints."""

    algorithm: str
    formula: str
    counts: dict[int, tuple[int, int]]
    counted: bool
    """By nlink; else published."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of a paper with the rows of nlink below its own."""

    source: str
    title: str
    rows: tuple[CostRow, ...]

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {"source": self.source, "title": self.title, "rows": [
            {"algorithm": row.algorithm, "counted": row.counted, "formula": row.formula,
             "note": row.note,
             "counts": {str(n): {"mul": m, "add": a} for n, (m, a) in row.counts.items()}}
            for row in self.rows]}

    def printed(self) -> PrintedTable:
        """For a terminal or a page; notes go below, by number."""
        notes = list(dict.fromkeys(row.note for row in self.rows if row.note))
        rows = [(f"{row.algorithm} ({notes.index(row.note) + 1})" if row.note else row.algorithm,
                 row.formula, *(f"{mul}M {add}A" for mul, add in row.counts.values()))
                for row in self.rows]
        return PrintedTable(f"{self.source}: {self.title}",
                            ("algorithm", "formula", *(f"n = {n}" for n in LENGTHS)), rows,
                            ("algorithm", "formula"),
                            [f"({k}) {note}" for k, note in enumerate(notes, 1)])


@cache
def composite_solve() -> Cost:
    """M and A of I qdd = phi by Walker and Orin: the inertia matrix, then a dense elimination."""
    solve = CostFormula.through({n: _count_dense_solve(n) for n in range(1, 8)}, "dense_solve")
    return cost_formula("mass_matrix").cost + solve.cost


def _count_dense_solve(n: int) -> Count:
    tally: Counter[str] = Counter()
    dense_solve([[Counted(tally)] * n for _ in range(n)], [Counted(tally)] * n)
    return Count(**tally)


@cache
def tables() -> tuple[PaperTable, ...]:
    """[Saha99] Tables 1 and 2 and [Saha03] Table I, ours below theirs."""
    ridim = _counted("nlink", cost_formula("inverse_dynamics").cost)
    ours = (
        _counted("nlink, U D U^T", cost_formula("solve").cost),
        _counted("nlink, composite inertias", composite_solve()),
        _counted("nlink, U D U^T, bias included", cost_formula("forward_dynamics").cost,
                 "computes phi = tau - C qd - g too, which Saha's algorithms are given"),
    )
    return (
        PaperTable("[Saha99] Table 1", "inverse dynamics",
                   (*map(_published, INVERSE_DYNAMICS_TABLE), ridim)),
        PaperTable("[Saha99] Table 2", "forward dynamics",
                   (*(_published(row, PRINTED) for row in SAHA99_TABLE_2), *ours)),
        PaperTable("[Saha03] Table I", "forward dynamics",
                   (*(_published(row, PRINTED) for row in SAHA03_TABLE_I), *ours)),
    )


def merged() -> tuple[PrintedTable, ...]:
    """The tables for one page: [Saha99] Table 2 and [Saha03] Table I are about the same solution,
    and share rows."""
    inverse, *forward = tables()
    rows = {row.algorithm: row for table in forward for row in table.rows if not row.counted}
    rows |= {row.algorithm: row for table in forward for row in table.rows if row.counted}
    source = " and ".join(table.source for table in forward)
    return inverse.printed(), PaperTable(source, forward[0].title, tuple(rows.values())).printed()


def _published(row: Published, printed: Mapping[tuple[str, int], tuple[int, int]] | None = None,
               ) -> CostRow:
    """As printed; what a paper did not print is evaluated from its formula."""
    counts = {n: (printed or {}).get((row.algorithm, n), row.cost.at(n)) for n in LENGTHS}
    return CostRow(row.algorithm, str(row.cost), counts, False, row.note)


def _counted(name: str, cost: Cost, note: str = "") -> CostRow:
    return CostRow(name, str(cost), {n: cost.at(n) for n in LENGTHS}, True, note)


@dataclass(frozen=True, slots=True)
class BreakEven:
    """From how many joints on an O(n) method takes fewer operations than an O(n^3) one."""

    linear: str
    cubic: str
    cost: Cost = field(repr=False)
    against: Cost = field(repr=False)

    @property
    def multiplications(self) -> int | None:
        return self._first(self.cost.mul, self.against.mul)

    @property
    def operations(self) -> int | None:
        return self._first(self.cost.total, self.against.total)

    @staticmethod
    def _first(ours: Polynomial, theirs: Polynomial) -> int | None:
        """The least n from which the linear method stays below; None if beyond `LONGEST`."""
        last = max((n for n in range(1, LONGEST + 1) if ours(n) >= theirs(n)), default=0)
        return last + 1 if last < LONGEST else None

    def data(self) -> dict[str, Any]:
        return {"linear": self.linear, "cubic": self.cubic,
                "multiplications": self.multiplications, "operations": self.operations}


@cache
def break_evens() -> tuple[BreakEven, ...]:
    """The papers' O(n) methods and ours, each against the O(n^3) method of its own kind."""
    walker = "Walker and Orin (1982)"
    return (
        BreakEven("Saha (1997)", walker, SAHA99_TABLE_2[0].cost, WALKER_ORIN),
        BreakEven(SAHA03.algorithm, walker, SAHA03.cost, WALKER_ORIN),
        BreakEven("Featherstone (1983)", walker, FEATHERSTONE, WALKER_ORIN),
        BreakEven("nlink, U D U^T", "nlink, composite inertias", cost_formula("solve").cost,
                  composite_solve()),
        BreakEven("nlink, U D U^T, bias included", "nlink, composite inertias, bias included",
                  cost_formula("forward_dynamics").cost,
                  cost_formula("forward_dynamics", "composite").cost),
    )


def break_even_table() -> PrintedTable:
    """For a terminal or a page."""
    rows = [(row.linear, row.cubic, *map(_number, (row.multiplications, row.operations)))
            for row in break_evens()]
    return PrintedTable("From how many joints O(n) takes fewer operations",
                        ("O(n)", "O(n^3)", "multiplications", "all operations"), rows,
                        ("O(n)", "O(n^3)"))


def _number(n: int | None) -> str:
    return f"> {LONGEST}" if n is None else str(n)


def data() -> dict[str, Any]:
    """All tables and break-even points, for JSON."""
    return {"tables": [table.data() for table in tables()],
            "break_even": [row.data() for row in break_evens()]}


def figure(longest: int = 20) -> Figure:
    """Operations over the number of joints, published and counted, break-even points marked."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install nlink[plot]") from None

    _, published, _, ours, whole = break_evens()
    drawing = Figure(figsize=(9.6, 4.6), layout="constrained")
    left, right = drawing.subplots(1, 2, sharey=True)
    _panel(left, zip((published, ours), COLOURS, strict=False), longest,
           "phi given, as in [Saha99] and [Saha03]")
    _panel(right, ((whole, COLOURS[1]),), longest, "bias included")
    left.set_ylabel("operations for one state (M + A)", color=MUTED)
    drawing.suptitle("Forward dynamics of revolute chains", x=0.012, ha="left", color=INK,
                     fontweight="bold", fontsize=13)
    return drawing


def _panel(panel: Any, pairs: Iterable[tuple[BreakEven, str]], longest: int, title: str) -> None:
    lengths = list(range(4, longest + 1))
    top = 0.0
    for pair, colour in pairs:
        for name, cost, style in ((pair.linear, pair.cost, "-"),
                                        (pair.cubic, pair.against, (0, (4, 2)))):
            values = [float(cost.total(n)) for n in lengths]
            panel.plot(lengths, values, color=colour, linestyle=style, linewidth=1.8, label=name)
            top = max(top, values[-1] if style == "-" else 0.0)
        n = pair.operations
        if n is not None and n <= longest:
            at = float(pair.cost.total(n))
            panel.plot([n], [at], "o", color=colour, markersize=7, markeredgecolor="white")
            panel.annotate(f"n = {n}", (n, at), xytext=(6, -14), textcoords="offset points",
                           color=colour, fontsize=9.5, fontweight="bold")
    panel.set_ylim(0, 1.25 * top)
    panel.set_xlim(lengths[0], lengths[-1])
    panel.set_xlabel("joints n", color=MUTED)
    panel.set_title(title, loc="left", fontsize=10, color=INK)
    panel.grid(axis="y", color=RULE, linewidth=0.5, alpha=0.7)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.spines["bottom"].set_color(RULE)
    panel.tick_params(colors=MUTED, labelsize=8.5, length=0)
    panel.legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="upper left")


def plot(path: str | Path) -> Path:
    """Write the figure as PNG, SVG or PDF."""
    return save(figure(), path)
