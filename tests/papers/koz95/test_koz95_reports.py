"""[Koz95] Tables 2 and 3, counted beside published, and equation (39) term by term."""

from __future__ import annotations

import json

import numpy as np
import pytest
from koz95_case import assert_same

import nlink
from nlink.cli import run
from nlink.engines.complexity import cost_formula
from nlink.papers import koz_tables
from nlink.papers.explain import explain
from nlink.reports.page import Page
from nlink.testing import samples


@pytest.mark.parametrize("form", koz_tables.ENTRIES)
@pytest.mark.parametrize("column", [0, 1])
def test_table_2_rows_add_up_to_the_printed_totals(form, column):
    """With the errata: 345N additions in common, 13N-3 for z+."""
    assert koz_tables.published(form, column) == koz_tables.TOTALS[form][column]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", koz_tables.ENTRIES)
@pytest.mark.parametrize("axes", koz_tables.AXES)
@pytest.mark.slow
def test_counted_operations_are_below_the_published_ones(form, axes):
    ours = koz_tables.counted(form, axes).total
    theirs = koz_tables.published(form, koz_tables.AXES[axes][1]).total
    for n in (4, 6, 12, 100):
        assert ours(n) <= theirs(n)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "algorithm", "slope", "offset"), [
    ("quasi_motion", None, 613, -980),
    ("unnormalized_quasi_motion", None, 609, -980),
    ("forward_dynamics", "diagonalized", 687, -1110),
    ("forward_dynamics", "diagonalized-xi", 680, -1110),
])
def test_general_purpose_laws_do_not_grow(name, algorithm, slope, offset):
    """The paper's totals are 1135n-910 (normalized) and 926n-605 (unnormalized)."""
    for n in (6, 12):
        assert cost_formula(name, algorithm)(n).total <= slope * n + offset


@pytest.mark.parametrize("row", koz_tables.TABLE_3, ids=lambda row: row.name)
def test_table_3_laws_evaluate_to_the_printed_values(row):
    if row.note.startswith("the formula evaluates"):
        assert row.values == (5981, 21533)
    else:
        assert row.values == row.printed


@pytest.mark.slow
def test_tables_are_data_text_and_pages():
    data = json.loads(json.dumps(koz_tables.data()))
    assert {row["form"] for row in data["table_2"]} == set(koz_tables.ENTRIES)
    assert len(data["table_3"]) == len(koz_tables.TABLE_3) + 5
    assert len(koz_tables.table_2().rows) == 18
    page = Page("tables")
    page.printed_table(koz_tables.table_3())
    assert "<td class=words>Unnormalized equations of motion</td><td class=words>926n-605</td>" in (
        page.html())
    for counts in koz_tables.customized().values():
        assert counts["normalized"].total < koz_tables.published("normalized", 1).total(6)


def evaluated(robot, terms, x, state):
    """The sum of the terms' closed forms as a number: names are taken from the robot."""
    import sympy

    from nlink.model.parameters import named
    from nlink.scalars.tree import leaves

    numbers = {}
    symbols = list(leaves([j.inertia for j in named(robot.mechanism, sympy.Symbol).joints]))
    values = list(leaves([j.inertia for j in robot.mechanism.joints]))
    masses = {str(s): v for s, v in zip(symbols, values, strict=True) if str(s).startswith("m_")}
    numbers |= masses
    for k in range(robot.n):
        numbers |= {f"q_{k + 1}": x.q[state, k], f"qd_{k + 1}": x.qd[state, k],
                    f"qdd_{k + 1}": x.qdd[state, k], f"a_{k + 1}": 1.0, f"c_{k + 1}": 0.5,
                    f"Izz_{k + 1}": 1 / 12, "g": 9.81}
    total = 0.0
    for term in terms:
        expression = sympy.sympify(term.value)
        total += float(expression.subs({s: numbers[str(s)] for s in expression.free_symbols}))
    return total


@pytest.mark.parametrize("joint", [1, 2, 3])
def test_eq_39_terms_add_up_to_the_joint_force(joint):
    robot = nlink.load("planar3")
    x = samples(robot, states=2)
    terms = explain(robot, joint).terms
    for state in range(2):
        tau = robot.inverse_dynamics(x.q[state], x.qd[state], x.qdd[state], engine="numpy")
        assert_same(evaluated(robot, terms, x, state), tau[joint - 1], 1e-12)


def test_eq_39_has_the_papers_eight_terms_for_the_middle_joint():
    """Three accelerations, three bias accelerations (that of the base joint is zero), two bias
    forces; weights are kept apart."""
    found = explain(nlink.load("planar3"), 2)
    assert [term.operators for term in found.terms] == [
        "H(2) r(2) Phi*(1, 2) H*(1) qdd_1", "H(2) r(2) H*(2) qdd_2",
        "H(2) Phi(2, 3) r(3) H*(3) qdd_3", "H(2) r(2) a(2)", "H(2) Phi(2, 3) r(3) a(3)",
        "H(2) b(2)", "H(2) Phi(2, 3) b(3)", "H(2) g(2)", "H(2) Phi(2, 3) g(3)"]
    assert found.terms[2].reading == (
        "Link 3, accelerated by joint 3; its force taken to joint 2; "
        "projected on the axis of revolute joint 2.")


@pytest.mark.slow
def test_explain_command(capsys):
    assert run(["explain", "planar3", "--joint", "2"]) == 0
    assert "tau_2 is the sum of 9 terms" in capsys.readouterr().out
    assert run(["explain", "planar3", "--joint", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["terms"]) == 9
    assert run(["explain", "planar3", "--joint", "4"]) == 2
    assert "joint: 4, expected a number from 1 to 3" in capsys.readouterr().err


@pytest.mark.slow
def test_explain_trees_and_prismatic_joints():
    """Numbers instead of names: each term's program is right on its own."""
    robot = nlink.load("stanford")
    found = explain(robot, 3, simplify=False)
    assert any("prismatic joint 3" in term.reading for term in found.terms)
    assert np.all([term.value for term in found.terms])
