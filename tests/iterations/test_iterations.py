"""Iterations: one text on floats and in lanes, and what a recording may and may not do."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.iterations.driver import drive
from nlink.iterations.integration import STATUS, Attempt, Integration, OneStep
from nlink.iterations.methods import METHODS
from nlink.iterations.recording import Call, Gives, Pass, Recorder, When, record
from nlink.iterations.rules import not_finite
from nlink.iterations.text import Layout, State, kept, total, when
from nlink.scalars.functions import less, where

methods = pytest.mark.parametrize("method", METHODS)
GIVEN = {"rtol": 1e-9, "atol": 1e-12, "least": 1e-15, "largest": np.inf, "most": 10_000}


SLIDE = nlink.Robot.from_dh([
    {"joint": "prismatic", "mass": 1.0, "limits": {"position": [0.0, 2.0]}}])
CASES = {
    "free": (nlink.load("double_pendulum"), [[0.1, 0.2], [0.5, -0.3]], {}),
    "events": (nlink.load("double_pendulum"), [[0.1, 0.2], [0.5, -0.3]],
               {"events": {"first": lambda t, q, qd: q[0] - 0.08}}),
    "bounce": (SLIDE, [[0.01], [0.02]], {"limits": "bounce", "restitution": 0.5}),
}


@methods
@pytest.mark.parametrize("case", CASES)
def test_lanes_do_what_the_text_does_on_floats(method, case):
    """The same steps and events; numbers differ by rounding."""
    robot, q0, options = CASES[case]
    # momenta cost a mass matrix for each evaluation on floats
    end = 0.1 if METHODS[method].canonical else 0.45
    options = options | {"t": end, "every": 0.05, "method": method, "step": 0.01}
    lanes = nlink.simulate(robot, q0, **options)
    floats = nlink.simulate(robot, q0, traced=False, **options)
    assert (lanes.status_codes == floats.status_codes).all()
    assert (lanes.stats.steps == floats.stats.steps).all()
    np.testing.assert_allclose(lanes.q, floats.q, rtol=0, atol=1e-10)
    assert (lanes.events.which == floats.events.which).all()
    np.testing.assert_allclose(lanes.events.t, floats.events.t, rtol=0, atol=1e-12)
    assert case == "free" or len(lanes.events)


def test_a_recording_is_a_short_list_of_statements():
    """Classical Runge-Kutta: four stages, each a pass and a call, and a pass that commits."""
    body = record(Integration(METHODS["rk4"], dense=False), {"rates": Gives()}).step.body
    assert [type(each) for each in body] == [When, *[Pass, Call] * 4, Pass]
    assert {each.name for each in body if isinstance(each, Call)} == {"rates"}


class Euler(OneStep):
    name, evaluations = "euler", 1

    def attempt(self, s, trial, given):
        new = kept(s.y + trial.size * s.k0)
        error = total(not_finite(new))
        return Attempt(s, new, given.rates(trial.time, new), error)


@pytest.mark.slow
def test_a_method_of_a_users_own_is_compiled_and_of_its_order():
    robot, t = nlink.load("double_pendulum"), [0.0, 0.5]
    exact = nlink.simulate(robot, [0.3, 0.1], t=t, method="dop853").q[-1]
    runs = [nlink.simulate(robot, [0.3, 0.1], t=t, method=Euler(), step=h)
            for h in (0.001, 0.0005)]
    errors = [np.abs(run.q[-1] - exact).max() for run in runs]
    assert runs[0].stats.steps == 500
    assert abs(np.log2(errors[0] / errors[1]) - 1) < 0.05
    floats = nlink.simulate(robot, [0.3, 0.1], t=t, method=Euler(), step=0.001, traced=False)
    np.testing.assert_allclose(floats.q[-1], runs[0].q[-1], rtol=0, atol=1e-13)


class Late(Euler):
    """Euler's method, edited."""

    def attempt(self, s, trial, given):
        new = kept(s.y + 0.5 * trial.size * s.k0)
        error = total(not_finite(new))
        return Attempt(s, new, given.rates(trial.time, new), error)


def test_other_texts_have_other_kernels():
    """The cache knows a method by its statements, not by its name."""
    robot = nlink.load("double_pendulum")
    ends = [nlink.simulate(robot, [0.3, 0.1], t=0.1, method=each, step=0.01).q[-1]
            for each in (Euler(), Late())]
    assert np.abs(ends[0] - ends[1]).max() > 1e-3


def test_what_is_neither_name_nor_method_is_refused():
    with pytest.raises(TypeError, match="method: a int, expected a name or a method"):
        nlink.simulate(nlink.load("planar3"), method=3)


LAYOUT = Layout(("y",), {"t": 0.0}, ("brief",), ("status",))


def test_columns_that_were_overwritten_are_not_read_again():
    recorder = Recorder(LAYOUT, "step")
    s = recorder.start()
    old = s.y
    s = when(less(s.t, 1.0), s, lambda s: s.replace(y=2.0 * s.y))
    with pytest.raises(ValueError, match="read after it was overwritten"):
        recorder.finish(s.replace(y=s.y + old))


def test_states_are_replaced_and_know_their_names():
    s = State({"t": 0.0, "y": np.zeros(2)})
    assert s.replace(t=1.0).t == 1.0
    assert s.t == 0.0
    with pytest.raises(KeyError, match="no 'x'"):
        s.replace(x=1.0)
    with pytest.raises(AttributeError, match="replaced, not changed"):
        s.t = 1.0
    with pytest.raises(AttributeError, match="no 'x', only t, y"):
        _ = s.x


@methods
def test_a_rate_that_is_not_finite_ends_a_process(method):
    given = GIVEN | {"rates": lambda t, y: where(less(t, 0.2), -y, y * np.nan), "coordinates": 1,
                     "factor": lambda t, y, cells, rate: cells[0],
                     "solve": lambda t, b, cells, g: b / (1 + g)}
    done = drive(Integration(METHODS[method], dense=False), given, {"y": [1.0, 2.0], "h": 0.01},
                 np.array([0.0, 1.0]), dense=False)
    assert done.status in (STATUS["not finite"], STATUS["step too small"])
    assert done.state.t <= 0.25
    assert np.isnan(done.out[-1]).all()


def test_a_run_is_not_resumed_by_an_edited_method(tmp_path):
    robot = nlink.load("double_pendulum")
    options = {"t": 0.1, "step": 0.01, "save": tmp_path / "run"}
    nlink.simulate(robot, [0.3, 0.1], method=Euler(), **options)
    with pytest.raises(ValueError, match="holds another run"):
        nlink.simulate(robot, [0.3, 0.1], method=Late(), **options)
