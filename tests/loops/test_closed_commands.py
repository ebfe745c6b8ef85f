"""Commands on mechanisms with loops."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nlink
from nlink.cli import run as command
from nlink.cli.simulate import spread

FOUR_BAR = nlink.load("four_bar")


def text(q: np.ndarray) -> str:
    return ",".join(map(repr, q.tolist()))


@pytest.fixture
def run(capfd):
    def call(*arguments: str):
        status = command(arguments)
        return status, *capfd.readouterr()

    return call


@pytest.mark.parametrize(("q", "qd", "words"), [
    (FOUR_BAR.neutral, np.zeros(3), ""),
    (FOUR_BAR.neutral + 0.1, np.zeros(3), "1 of 1 states are not closed: the loop 'pin' is open"),
    (FOUR_BAR.neutral, np.ones(3), "1 of 1 states are not closed: their rates open the loops"),
])
def test_accelerations_of_open_states_come_with_a_warning(run, q, qd, words):
    status, out, error = run("fd", "four_bar", "--q", text(q), "--qd", text(qd), "--json")
    assert status == 0
    assert json.loads(out)["qdd"] == [FOUR_BAR.forward_dynamics(q, qd, np.zeros(3)).tolist()]
    assert error.startswith(f"nlink: warning: {words}" if words else "")
    assert bool(error) == bool(words)


def test_a_warning_counts_states_of_a_table(run, tmp_path):
    states = np.tile(np.r_[FOUR_BAR.neutral, np.zeros(6)], (4, 1))
    states[1, 0] += 0.1
    np.save(tmp_path / "states.npy", states)
    _, _, error = run("fd", "four_bar", str(tmp_path / "states.npy"))
    assert "1 of 4 states are not closed" in error


@pytest.mark.slow
def test_closing_is_an_option(run):
    data = {}
    for how in ("project", "drift", "20"):
        status, out, _ = run("simulate", "four_bar", "--t", "2", "--rtol", "1e-5", "--closing", how,
                             "--json")
        assert status == 0
        data[how] = json.loads(out)["closure_error"]
    assert data["project"] < 1e-12 < data["20"] < data["drift"]
    status, _, error = run("simulate", "four_bar", "--closing", "weld")
    assert (status, error) == (2, "nlink: closing: 'weld', expected 'project', 'drift' or a "
                                  "positive rate (1/s)\n")


@pytest.mark.slow
def test_a_target_is_closed_around_its_motors(run, tmp_path):
    status, _, _ = run("simulate", "four_bar", "--control", "pd", "--to", "2.0,-1.0,1.7",
                       "--t", "1", "--kp", "2000", "--kd", "200", "--rtol", "1e-6",
                       "--out", str(tmp_path / "run.npz"))
    assert status == 0
    found = nlink.load_run(tmp_path / "run.npz")
    assert (found.tau[:, 1:] == 0).all()
    assert abs(found.q[-1, 0] - 2.0) < 0.1
    status, _, error = run("simulate", "slider_crank", "--control", "computed-torque", "--to",
                           "2.0,-1.0,1.7", "--t", "1")
    assert (status, error.startswith("nlink: robot: slider_crank has no motor on")) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four_bar", "two_arms_box"])
@pytest.mark.parametrize("width", [0.01, 0.5])
def test_wide_ensembles_are_closed(name, width):
    robot = nlink.load(name)
    states = spread(robot, robot.neutral, 40, width, 0)
    assert robot.loops.closed(states).all()
    assert np.array_equal(states[0], robot.neutral)
    away = np.abs(robot.difference(robot.neutral, states[1:])).max(axis=1)
    assert width / 10 < np.median(away) < 10 * width
    assert away.max() < 12 * width  # nothing is thrown to far turns


@pytest.mark.slow
def test_ensembles_that_cannot_close_are_refused():
    """Around a four-bar that is pulled straight only itself is closed."""
    d = FOUR_BAR.description
    bar = FOUR_BAR.with_loops([{"name": "lock", "joint": "fixed", "of": {"link": "crank"},
                                "on": {"link": "base", "xyz": [9.0, 0.0, 0.0]}}], home=d.home)
    with pytest.raises(ValueError, match=r"--width 0.1: the loops do not close around 2 of 3"):
        spread(bar, bar.neutral, 3, 0.1, 0)
