"""Published problems: nlink reaches the references, and the references are right.

Equations that do not come from nlink are in independent_motions.py.
"""

from __future__ import annotations

import json
import math

import independent_motions as independent
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipj

import nlink
from nlink.bench.multibody import runs, work_precision
from nlink.bench.multibody.elliptic import jacobi, swinging, turning_over
from nlink.bench.multibody.problem import MODELS, Solution
from nlink.bench.multibody.published import PROBLEMS, problem
from nlink.bench.multibody.runs import Benchmarks
from nlink.cli import run
from nlink.formats.dh import parse_toml
from nlink.robot import Robot

SMALL = [name for name in PROBLEMS if name != "A02-40"]
"""Those that compile in a moment."""
LARGEST = {"A01": 1e-3, "A02-2": 1e-7}
"""Errors at a tolerance of 1e-9, where they are not below 1e-8: over 2000 s, and through states
where branches meet."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_problem_reaches_its_reference(name):
    each = problem(name)
    robot = each.robot()
    found = each.simulate(robot, each.methods[0], 1e-9)
    assert found.status == "done"
    assert 0 < each.error(robot, found) < LARGEST.get(name, 1e-8)
    if robot.description.loops:
        assert found.closure_error.max() < 1e-12


@pytest.mark.slow
def test_five_four_bars_pass_the_horizontal_many_times():
    """As forty do, whose problem the command solves."""
    from nlink.bench.multibody.pendulums import four_bars

    each = four_bars(5)
    robot = each.robot()
    found = each.simulate(robot, "dop853", 1e-9)
    assert (np.abs(found.q[:, 0]) > 20).any(), "it does not turn over"
    assert each.error(robot, found) < 1e-6


def test_a_run_that_fails_has_no_finite_error():
    each = problem("A01")
    robot = each.robot()
    q0, qd0 = each.start(robot)
    found = nlink.simulate(robot, q0, qd0, t=each.reference.times, max_steps=10)
    assert each.error(robot, found) == math.inf


# references

def test_jacobis_functions_are_those_of_scipy():
    u = np.linspace(-30.0, 30.0, 301)
    for m in (0.0, 0.1, 0.5, 0.9, 0.9999):
        for ours, theirs in zip(jacobi(u, m), ellipj(u, m)[:3], strict=True):
            assert ours == pytest.approx(theirs, abs=2e-13)


@pytest.mark.parametrize("rate", [1.0, 3.3])
def test_closed_forms_of_pendulums_obey_their_equation(rate):
    times = np.linspace(0.0, 3.0, 31)

    def found(start):
        return solve_ivp(lambda t, y: (y[1], -rate**2 * math.sin(y[0])), (0, 3.0), start, "DOP853",
                         times, rtol=1e-13, atol=1e-13).y[0]

    assert swinging(times, rate, 2.5) == pytest.approx(found((2.5, 0.0)), abs=1e-10)
    over = found((math.pi, 1.0))
    sine, cosine = turning_over(times, rate, 1.0)
    assert sine == pytest.approx(np.sin(over), abs=1e-10)
    assert cosine == pytest.approx(np.cos(over), abs=1e-10)


def first(name, count):
    """The first times and values of a reference."""
    reference = problem(name).reference
    return reference.times[1:1 + count].tolist(), reference.values[:count]


@pytest.mark.slow
def test_references_without_publication_follow_from_equations_by_hand():
    times, values = first("A03", 3)
    beta = independent.squeezer_motion(times, -0.0620)[:, 0]
    assert values == pytest.approx(0.007 * np.array([np.cos(beta), np.sin(beta)]).T, abs=1e-13)
    for name, motion, count in (("A04", independent.bricard_motion, 2),
                                ("A05", independent.governor_motion, 4),
                                ("top", independent.top_motion, 2),
                                ("slider-crank", independent.slider_crank_motion, 2)):
        times, values = first(name, count)
        found = motion(times)[:, :values.shape[1]]
        assert found == pytest.approx(values, abs=3e-11), name


@pytest.mark.slow
def test_the_squeezers_published_angles_are_right_to_nine_digits():
    """Two solvers agree to 1e-11 and differ from them by the same 1.4e-9."""
    each = problem("Andrews")
    robot = each.robot()
    ours = each.measure(robot, each.simulate(robot, "dop853", 1e-12))[-1]
    theirs = independent.squeezer_motion([0.03], robot.neutral[0])[-1]
    assert ours == pytest.approx(theirs, abs=2e-11)
    published = each.reference.values[-1]
    assert np.abs(theirs - published).max() == pytest.approx(1.43e-9, abs=2e-11)


def test_the_tops_reference_is_that_of_kynema():
    """kynema/kynema, tests/regression_tests/regression/verification/dynamic_heavy_top.cpp: the
    displacement from (0, 1, 0) at 2 s, by steps of 2e-6 s of a method of second order."""
    displacement = (-0.150416985652933, -1.724164450779749, -0.673023460701136)
    assert problem("top").reference.values[-1] - (0, 1, 0) == pytest.approx(displacement, abs=2e-6)


def test_the_sliders_reference_is_that_of_the_library():
    """The solution of F. Gonzalez in the library of the IFToMM committee, at 1 to 5 s."""
    gonzalez = (0.211754668, 0.289063554, 0.228450093, 0.188208161, 0.240761815)
    assert problem("slider-crank").reference.values[:, 0] == pytest.approx(gonzalez, abs=5e-5)


@pytest.mark.slow
def test_another_slider_crank_of_the_library_has_the_rods_moments_exchanged():
    """The solution of R. Masoudi at 5 s, slider and crank, with a rod whose small moment of inertia
    is about the axis across rod and hinge."""
    text = (MODELS / "spatial_slider_crank.toml").read_text("utf-8")
    exchanged = Robot(parse_toml(text.replace("[4e-4, 4e-3, 4e-3]", "[4e-3, 4e-3, 4e-4]")))
    q0, qd0 = problem("slider-crank").start(exchanged)
    found = nlink.simulate(exchanged, q0, qd0, t=[0.0, 5.0], method="dop853", rtol=1e-10)
    assert found.q[-1, 1] == pytest.approx(0.261012849, abs=2e-5)
    assert found.q[-1, 0] == pytest.approx(51.50682085, abs=5e-4)


# models, the table, the command

@pytest.mark.slow
def test_models_are_closed_and_without_objection():
    for name in PROBLEMS:
        robot = problem(name).robot()
        assert not robot.description.objection
        if robot.description.loops:
            assert robot.loops.closed(*problem(name).start(robot))
        assert problem(name).source


def test_model_files_are_written_and_read(tmp_path):
    paths = runs.write_models(tmp_path / "models")
    assert {path.suffix for path in paths} == {".toml"}
    for name in PROBLEMS:
        robot = problem(name).robot()
        again = nlink.load(tmp_path / "models" / f"{robot.name}.toml")
        assert again.description == robot.description, name


def solved(*names):
    """Solutions that nobody computed."""
    return Benchmarks("cpu", {"python": "3", "numpy": "2"}, [
        Solution(name, method, tolerance, 10 * tolerance, 1.0, 0.4 * k, 100, 3)
        for name in names for k, method in enumerate(problem(name).methods, 1)
        for tolerance in runs.TOLERANCES], dict.fromkeys(names, 1.25))


def test_rows_are_those_of_the_first_method():
    assert runs.rows(solved("A05", "top")) == [
        ("A05", "rodas5p", "1.2 s", "1e-05 400 ms", "1e-08 400 ms", "1e-11 400 ms"),
        ("top", "dop853", "1.2 s", "1e-05 400 ms", "1e-08 400 ms", "1e-11 400 ms")]


def test_markdown_has_every_problem_its_loops_and_the_source_of_its_reference():
    text = runs.markdown(solved(*PROBLEMS))
    for name in PROBLEMS:
        each = problem(name)
        assert f"| {name} | {len(each.robot().description.loops)} |" in text
        assert f"| {name}, {each.title} | {each.measured}, at" in text
        assert each.reference.source in text


def test_the_plot_has_a_panel_for_each_problem():
    pytest.importorskip("matplotlib")
    figure = work_precision.draw(solved("A01", "A05", "Andrews", "top", "slider-crank"))
    shown = [panel.get_title("left") for panel in figure.axes if panel.get_visible()]
    assert shown == ["A01", "A05", "Andrews", "top", "slider-crank"]
    assert [len(panel.lines) for panel in figure.axes[:2]] == [2, 1]  # one for each method


@pytest.mark.slow
def test_the_command_prints_a_table_of_eighty_columns_and_writes_files(tmp_path, capsys,
                                                                        monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("COLUMNS", "80")
    files = ["--plot", str(tmp_path / "a.png"), "--markdown", str(tmp_path / "a.md")]
    assert run(["benchmarks", "a05", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if "A05" in line]
    assert row.split()[1] == "rodas5p"
    assert max(map(len, lines)) <= 80
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert "| A05 |" in (tmp_path / "a.md").read_text("utf-8")


def test_the_command_writes_models_and_refuses_unknown_problems(tmp_path, capsys):
    assert run(["benchmarks", "--models", str(tmp_path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == len(list(tmp_path.iterdir()))
    assert run(["benchmarks", "A06"]) == 2
    assert "'A06', expected one of A01, A02-2," in capsys.readouterr().err
