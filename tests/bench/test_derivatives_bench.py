"""The peers of derivatives do what ours do."""

from __future__ import annotations

from dataclasses import replace
from shutil import which

import numpy as np
import pytest

import nlink
from nlink.bench.bench_robots import QUADRUPED
from nlink.bench.bench_tables import markdown, rows
from nlink.bench.casadi_peer import CASADI, bench_casadi, casadi_derivatives
from nlink.bench.derivatives_bench import (
    STEP,
    bench_linearized_step,
    mujoco_step,
)
from nlink.bench.timing import Bench


@pytest.fixture(scope="module")
def states():
    robot = nlink.load("planar3")
    rng = np.random.default_rng(0)
    q, qd = robot.random_state(rng, (16,))
    return robot, {"q": q, "qd": qd, "tau": rng.normal(size=qd.shape)}


def test_linear_models_of_a_step_are_those_of_mujoco(states):
    pytest.importorskip("mujoco")
    robot, given = states
    A, B = nlink.linearize(robot, *given.values(), step=STEP)
    for centred, tolerance in ((True, 1e-8), (False, 1e-5)):
        step = mujoco_step(robot.description, *given.values(), centred=centred)
        np.testing.assert_allclose(step(3)[0], A[3], atol=tolerance)
        np.testing.assert_allclose(step(3)[1], B[3], atol=tolerance)


def test_both_kinds_of_differences_have_a_row(states):
    pytest.importorskip("mujoco")
    robot, given = states
    bench = Bench("a core", {}, [], 1.0)
    named = nlink.Robot(replace(robot.description, name=QUADRUPED))
    bench_linearized_step(bench, named, given, 0.001)
    assert [row.peer for row in rows(bench)] == [
        "MuJoCo, centred differences", "MuJoCo, one-sided differences"]
    assert "x MuJoCo, centred differences (" in markdown(bench)


@pytest.mark.skipif(not which("cc"), reason="there is no C compiler")
@pytest.mark.parametrize("what", ["inverse_dynamics_derivatives", "forward_dynamics_derivatives"])
def test_casadi_finds_our_derivatives(states, what):
    pytest.importorskip("casadi")
    robot, given = states
    run, out = casadi_derivatives(robot, what, [*given.values()])
    run()
    ours = np.concatenate(robot.compute(what, *given.values()), -1)
    np.testing.assert_allclose(np.swapaxes(out, -1, -2), ours, rtol=1e-10, atol=1e-10)


def test_a_missing_compiler_is_named_once(states, monkeypatch):
    robot, given = states
    monkeypatch.setattr("shutil.which", lambda _name: None)
    bench = Bench("a core", {}, [], 1.0)
    for what in ("inverse_dynamics_derivatives", "forward_dynamics_derivatives"):
        bench_casadi(bench, robot, what, [*given.values()], 0.001)
    assert bench.missing == ["cc"]
    assert not bench.timings
    assert CASADI not in markdown(bench)
