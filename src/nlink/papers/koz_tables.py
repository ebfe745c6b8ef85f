"""The complexity tables of [Koz95], published rows beside counted ones.

Published rows are as printed; a note says where a printed number is wrong. What nlink counts are
the operations left in the traced algorithms `quasi_motion` and `unnormalized_quasi_motion`:
from (q, nu, tau) to (qd, nud), gravity included, sines and cosines not counted, which is what
the paper totals. Divisions and square roots count as multiplications.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from nlink.algorithms.catalogue import Algorithm
from nlink.engines.complexity import Cost, CostFormula, Polynomial, cost_formula, count, count_chain
from nlink.model.mechanism import Mechanism
from nlink.programs.products import find
from nlink.reports.terminal import PrintedTable
from nlink.robot import Robot, load
from nlink.scalars.counting import Count
from nlink.spatial import Turn

LENGTHS = (6, 12)
"""The numbers of joints of the paper's Table 3."""


COMMON = {
    "P": (Cost.of((101, -108), (94, -105)), Cost.of((51, -58), (53, -64))),
    "G": (Cost.of((5, -1), (0, 0)), Cost.of((5, -1), (0, 0))),
    "V+": (Cost.of((6, -12), (6, -12)), Cost.of((2, -4), (2, -4))),
    "V": (Cost.of((16, -29), (9, -17)), Cost.of((8, -16), (5, -9))),
    "z": (Cost.of((6, -12), (6, -12)), Cost.of((2, -4), (2, -4))),
    "Psi": (Cost.of((44, -1), (19, -1)), Cost.of((12, -1), (5, -1))),
    "b": (Cost.of((59, -43), (40, -27)), Cost.of((55, -53), (38, -35))),
    "X": (Cost.of((18, -12), (0, 0)), Cost.of((18, -12), (0, 0))),
    "lambda'": (Cost.of((159, -6), (171, -6)), Cost.of((95, -6), (113, -6))),
}
"""[Koz95] Table 2: recursions both forms share, (any axes, parallel or perpendicular axes)."""

NORMALIZED = {
    "theta'": (Cost.of((7, -10), (6, -10)), Cost.of((7, -11), (6, -11))),
    "eps": (Cost.of((1, 0), (1, -1)), Cost.of((1, 0), (1, -1))),
    "z+": (Cost.of((23, -4), (15, -8)), Cost.of((14, -3), (10, -7))),
    "y": (Cost.of((158, -223), (162, -249)), Cost.of((134, -211), (140, -217))),
    "C": (Cost.of((2, -1), (0, 0)), Cost.of((2, -1), (0, 0))),
    "nu'": (Cost.of((0, 0), (1, 0)), Cost.of((0, 0), (1, 0))),
}

UNNORMALIZED = {
    "theta'": (Cost.of((5, -8), (5, -8)), Cost.of((5, -9), (5, -9))),
    "kappa": (Cost.of((0, 0), (1, -1)), Cost.of((0, 0), (1, -1))),
    "z+": (Cost.of((21, -4), (13, -8)), Cost.of((13, -3), (9, -7))),
    "y": (Cost.of((59, -83), (61, -89)), Cost.of((47, -71), (50, -78))),
    "C": (Cost.of((0, 0), (0, 0)), Cost.of((0, 0), (0, 0))),
    "xi'": (Cost.of((1, 0), (1, 0)), Cost.of((1, 0), (1, 0))),
}

TOTALS = {
    "normalized": (Cost.of((605, -462), (530, -448)), Cost.of((406, -381), (376, -359))),
    "unnormalized": (Cost.of((500, -319), (426, -286)), Cost.of((314, -238), (284, -218))),
}
"""The last rows of Table 2, as printed."""

NOTES = (
    "common additions, any axes, are printed as 354N-180; the rows add up to 345N-180, and the "
    "normalized total follows the rows",
    "unnormalized z+, parallel or perpendicular axes, is printed as 43N-3; the total needs 13N-3",
)

ENTRIES = {"normalized": "quasi_motion", "unnormalized": "unnormalized_quasi_motion"}
STAGES = {
    "P, G, V, theta'": ("P", "G", "V+", "V", "theta'"),
    "b, lambda', C and forces": (
        "z", "Psi", "b", "X", "lambda'", "eps", "kappa", "z+", "y", "C", "nu'", "xi'"),
}
"""What the sweeps of `quasi_motion` do, and the rows of Table 2 that do it there."""


def published(form: str, column: int, rows: tuple[str, ...] | None = None) -> Cost:
    """The sum of rows of Table 2 (all if None); column 0 is any axes, 1 parallel or
    perpendicular ones.

    >>> str(published("normalized", 0).total)
    '1135n-910'
    """
    own = NORMALIZED if form == "normalized" else UNNORMALIZED
    costs = [cost[column] for name, cost in (COMMON | own).items()
             if rows is None or name in rows]
    return sum(costs[1:], costs[0])


Axes = Callable[[Mechanism], Mechanism]


def any_axes(mechanism: Mechanism) -> Mechanism:
    return mechanism


def _tilted(c: int, s: int) -> Axes:
    """Links that reach the next joint along x alone, its axis tilted by a quarter or not."""

    def change(mechanism: Mechanism) -> Mechanism:
        first, *others = mechanism.joints
        return replace(mechanism, joints=(first, *(
            replace(joint, fixed=(joint.fixed[0], Turn("x", c, s)), rise=0) for joint in others)))

    return change


AXES: dict[str, tuple[Axes, int]] = {
    "any axes": (any_axes, 0),
    "perpendicular axes": (_tilted(0, 1), 1),
    "parallel axes": (_tilted(1, 0), 1),
}
"""Kinds of revolute chains, and the column of Table 2 that is about them."""


@cache
def counted(form: str, axes: str = "any axes", stage: str | None = None) -> Cost:
    """The formula of an algorithm for chains with such axes, or of one of its stages: finding the
    rates, and what is left.

    >>> counted("normalized").total(6) < published("normalized", 0).total(6)
    True
    """
    if stage is None:
        return _formula(find(ENTRIES[form]), axes)
    prefix = "" if form == "normalized" else "unnormalized_"
    rates = _formula(find(f"rates_from_{prefix}quasi_velocities"), axes)
    return rates if stage == next(iter(STAGES)) else counted(form, axes) - rates


def _formula(algorithm: Algorithm, axes: str) -> Cost:
    change, _ = AXES[axes]
    counts = {n: count_chain(n, algorithm, change=change) for n in (6, 7, 8, 12)}
    return CostFormula.through(counts, f"{algorithm.name} for {axes}").cost


@dataclass(frozen=True, slots=True)
class PublishedMethod:
    """A row of Table 3: all operations of a forward dynamics, as a formula in n."""

    name: str
    formula: Polynomial
    printed: tuple[int, int] | None
    """For 6 and 12 joints, as the paper prints them; None if counted here."""
    note: str = ""

    @property
    def values(self) -> tuple[int, ...]:
        return tuple(round(self.formula(n)) for n in LENGTHS)


TABLE_3 = (
    PublishedMethod("Articulated body (Featherstone 1987)", Polynomial.of(579, -526), (2948, 6422)),
    PublishedMethod("1st Walker and Orin (1982)", Polynomial.of("1/3", "261/2", "1183/6", -33),
                    (5920, 21701)),
    PublishedMethod("2nd Walker and Orin (1982)", Polynomial.of("1/3", "133/2", "1567/6", -33),
                    (4000, 13253)),
    PublishedMethod("3rd Walker and Orin (1982)", Polynomial.of("1/3", "43/2", "2149/6", -113),
                    (2882, 7857), "printed with N^3/6; its values are those of N^3/3"),
    PublishedMethod("4th Walker and Orin (1982)", Polynomial.of("265/2", 207, -31), (5967, 21537),
                    "the formula evaluates to 5981 and 21533"),
    PublishedMethod("Brandl et al. (1986)", Polynomial.of(470, -420), (2400, 5220)),
    PublishedMethod("Numerical solution (Kozlowski 1992)",
                    Polynomial.of("1/3", "41/2", "2047/6", -395), (2462, 7227)),
    PublishedMethod("Kalman filtering and smoothing (Kozlowski 1993)", Polynomial.of(477, -503),
                    (2359, 5221)),
    PublishedMethod("Normalized equations of motion", Polynomial.of(1135, -910), (5900, 12710)),
    PublishedMethod("Unnormalized equations of motion", Polynomial.of(926, -605), (4951, 10507)),
)
"""[Koz95] Table 3, as printed."""


@cache
def counted_methods() -> tuple[PublishedMethod, ...]:
    """What nlink counts for the methods of Table 3."""
    rows = [PublishedMethod(f"nlink, {form} equations of motion", counted(form).total, None,
                            "to (qd, nud) or (qd, xid)") for form in ENTRIES]
    for algorithm, note in (("diagonalized", "from qd and back to qdd by way of nud"),
                            ("diagonalized-xi", "from qd and back to qdd by way of xid"),
                            ("articulated", "the standard form")):
        total = cost_formula("forward_dynamics", algorithm).cost.total
        rows.append(PublishedMethod(f"nlink, {algorithm}", total, None, note))
    return tuple(rows)


def customized(*names: str) -> dict[str, dict[str, Count]]:
    """Counts for robots with their own zeros and ones folded: the paper's customization."""
    robots: tuple[Robot, ...] = tuple(load(name) for name in names or ("stanford", "puma560"))
    return {robot.name: {form: count(robot, entry) for form, entry in ENTRIES.items()}
            for robot in robots}


def data() -> dict[str, Any]:
    """Both tables, for JSON."""
    def formulas_of(cost: Cost) -> dict[str, str]:
        return {"mul": str(cost.mul), "add": str(cost.add), "total": str(cost.total)}

    return {
        "table_2": [
            {"form": form, "axes": axes, "stage": stage,
             "published": formulas_of(published(form, column, rows)),
             "counted": formulas_of(counted(form, axes, stage))}
            for form in ENTRIES for axes, (_, column) in AXES.items()
            for stage, rows in ((None, None), *STAGES.items())],
        "table_2_notes": list(NOTES),
        "table_3": [
            {"method": row.name, "formula": str(row.formula), "counted": row.printed is None,
             "operations": dict(zip(map(str, LENGTHS), row.values, strict=True)),
             "printed": row.printed, "note": row.note}
            for row in (*TABLE_3, *counted_methods())],
        "customized": {name: {form: {"mul": c.mul + c.div + c.sqrt, "add": c.add}
                              for form, c in counts.items()}
                       for name, counts in customized().items()},
    }


def _rows_2() -> list[tuple[str, ...]]:
    rows = []
    for form in ENTRIES:
        for axes, (_, column) in AXES.items():
            for stage, names in (*STAGES.items(), (None, None)):
                theirs, ours = published(form, column, names), counted(form, axes, stage)
                rows.append((form, axes, stage or "all", str(theirs.total), str(ours),
                             str(ours.total)))
    return rows


def _rows_3() -> list[tuple[str, ...]]:
    rows = [(row.name, str(row.formula), *map(str, row.values), row.note)
            for row in (*TABLE_3, *counted_methods())]
    rows += [(f"nlink, {form}, {name}", "its zeros and ones folded",
              *(str(counts[form].total) if load(name).n == n else "" for n in LENGTHS), "")
             for name, counts in customized().items() for form in ENTRIES]
    return rows


HEAD_2 = ("form", "axes", "recursions", "published", "counted", "total")
HEAD_3 = ("method", "operations", *(f"n = {n}" for n in LENGTHS), "note")


def table_2() -> PrintedTable:
    """Table 2: published operations beside counted ones."""
    return PrintedTable("[Koz95] Table 2: diagonalized equations of motion", HEAD_2, _rows_2(),
                        ("form", "axes", "recursions", "counted"), NOTES,
                        strong=lambda row: row[2] == "all")


def table_3() -> PrintedTable:
    """Table 3: all operations of a forward dynamics."""
    return PrintedTable("[Koz95] Table 3: forward dynamics, all operations", HEAD_3, _rows_3(),
                        ("method", "operations", "note"))
