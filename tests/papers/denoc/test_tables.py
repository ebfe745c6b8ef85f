"""The complexity tables of the papers: printed numbers, formulas, and ours."""

from __future__ import annotations

import html
import json
import re

import pytest
from rich.console import Console

from nlink.engines.complexity import cost_formula
from nlink.papers import saha_tables as tables
from nlink.reports.page import Page

PRINTED = {
    ("[Saha99] Table 1", 6): {
        "Hollerbach (1980)": (2195, 1719), "Luh et al. (1980)": (852, 834),
        "Walker and Orin (1982)": (800, 595), "RIDIM (Saha 1999)": (676, 527),
        "Khalil et al. (1986)": (538, 478), "Angeles et al. (1989)": (521, 435),
        "Balafoutis et al. (1988)": (489, 421)},
    ("[Saha99] Table 2", 6): {
        "Saha (1997)": (871, 797), "Featherstone (1983)": (996, 871),
        "Walker and Orin (1982)": (633, 480)},
    ("[Saha99] Table 2", 12): {
        "Saha (1997)": (2077, 1955), "Featherstone (1983)": (2190, 1915),
        "Walker and Orin (1982)": (2357, 1716)},
    ("[Saha03] Table I", 6): {
        "Saha (2003)": (862, 797), "Featherstone (1983)": (996, 871),
        "Valasek (1996)": (1013, 891), "Brandl et al. (1986)": (1278, 1122),
        "Walker and Orin (1982)": (633, 480)},
    ("[Saha03] Table I", 10): {
        "Saha (2003)": (1626, 1545), "Featherstone (1983)": (1792, 1567),
        "Valasek (1996)": (1917, 1715), "Brandl et al. (1986)": (2278, 2002),
        "Walker and Orin (1982)": (1653, 1209)},
}
STEPS_OF_SAHA03 = {
    "A.1": (4, 0, 2, 0), "A.2": (0, 0, 3, -3), "A.3a": (0, 16, 0, 17),
    "A.3b": (86, -179, 101, -215), "A.4a": (0, 2, 0, 0), "A.4b": (12, -36, 12, -36),
    "A.5": (2, 0, 2, 0), "A.6": (6, -7, 0, 0), "A.7a": (0, 15, 0, 8),
    "A.7b": (21, -42, 21, -42), "A.8a": (0, 5, 0, 0), "A.8b": (6, -12, 6, -12),
    "A.9": (22, -26, 14, -18), "A.10": (2, -2, 3, -3), "B": (1, 0, 0, 0),
    "C.1": (6, -6, 6, -6), "C.2a": (0, 12, 0, 2), "C.2b": (18, -18, 11, -11),
    "C.3": (6, -6, 6, -6),
}
"""What the braces say: M = a n + b, A = c n + d."""


def by_name(source: str) -> dict[str, tables.CostRow]:
    table = next(table for table in tables.tables() if table.source == source)
    return {row.algorithm: row for row in table.rows}


@pytest.mark.parametrize(("source", "n"), PRINTED)
def test_published_rows_are_as_printed(source, n):
    rows = by_name(source)
    for algorithm, counts in PRINTED[source, n].items():
        assert rows[algorithm].counts[n] == counts, algorithm
        assert not rows[algorithm].counted


def test_the_misprint_of_walker_and_orin():
    row = tables.SAHA99_TABLE_2[-1]
    assert row.cost.at(6) == (633, 475)
    assert "475" in row.note


def test_the_steps_of_saha03_add_up_to_the_corrected_formula():
    totals = [sum(column) for column in zip(*STEPS_OF_SAHA03.values(), strict=True)]
    assert f"({totals[0]}n{totals[1]:+})M" == f"({tables.SAHA03.cost.mul})M"
    assert f"({totals[2]}n{totals[3]:+})A" == f"({tables.SAHA03.cost.add})A"


@pytest.mark.parametrize("source", ["[Saha99] Table 2", "[Saha03] Table I"])
def test_rows_of_nlink_are_as_counted(source):
    rows = by_name(source)
    for n in tables.LENGTHS:
        for name, what in (("nlink, U D U^T", "solve"),
                           ("nlink, U D U^T, bias included", "forward_dynamics")):
            counted = cost_formula(what)(n)
            assert rows[name].counts[n] == (counted.mul + counted.div, counted.add)


@pytest.mark.slow
def test_composite_solve_and_bias_cost_no_less_than_sharing_them():
    whole, bias = cost_formula("forward_dynamics", "composite"), cost_formula("bias")
    solve = tables.composite_solve()
    for n in range(4, 12):
        assert whole(n).mul + whole(n).div <= solve.mul(n) + bias(n).mul
        assert whole(n).add <= solve.add(n) + bias(n).add + n  # tau - bias


def test_break_even_points():
    points = {row.linear: (row.multiplications, row.operations) for row in tables.break_evens()}
    assert points == {
        "Saha (1997)": (11, 12), "Saha (2003), corrected": (10, 12),
        "Featherstone (1983)": (12, 13), "nlink, U D U^T": (9, 10),
        "nlink, U D U^T, bias included": (8, 8)}


def test_a_break_even_point_is_where_the_sign_changes():
    for row in tables.break_evens():
        n = row.operations
        ours, theirs = row.cost.total, row.against.total
        assert ours(n) < theirs(n)
        assert ours(n - 1) >= theirs(n - 1)


def test_every_form_has_every_row():
    console = Console(width=160, record=True, file=None)
    with console.capture() as captured:
        for table in tables.tables():
            console.print(table.printed())
        console.print(tables.break_even_table())
    data = json.loads(json.dumps(tables.data()))
    page = Page("tables")
    for table in (*(t.printed() for t in tables.tables()), tables.break_even_table()):
        page.printed_table(table)
    text = html.unescape(page.html())
    for table in data["tables"]:
        for row in table["rows"]:
            assert row["algorithm"] in captured.get()
            assert row["algorithm"] in text
            assert row["formula"] in text
    for row in data["break_even"]:
        assert row["linear"] in text
    assert not re.search(r"\((\d)\).*\(\1\).*\(\1\)", captured.get())


@pytest.mark.slow
def test_the_plot_marks_the_break_even_points(tmp_path):
    figure = tables.figure()
    texts = {text.get_text() for panel in figure.axes for text in panel.texts}
    assert texts == {"n = 12", "n = 10", "n = 8"}
    path = tables.plot(tmp_path / "tables.png")
    assert path.read_bytes().startswith(b"\x89PNG")
