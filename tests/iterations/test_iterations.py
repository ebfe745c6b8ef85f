"""Iterations: one text on floats and in lanes, and what a recording may and may not do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.backends.llvm.lanes import compile_iteration
from nlink.backends.llvm.process_kernel import ProcessKernel
from nlink.iterations.contact_steps import ContactEuler
from nlink.iterations.driver import drive
from nlink.iterations.event_handling import EventHandling
from nlink.iterations.integration import STATUS, Attempt, Integration, OneStep, StepCost
from nlink.iterations.iteration import (
    Layout,
    Shape,
    State,
    kept,
    largest,
    new_records,
    repeat,
    total,
    when,
)
from nlink.iterations.methods import METHODS
from nlink.iterations.recording import Call, Gives, Pass, Recorder, Repeat, When, flat, record
from nlink.iterations.rules import not_finite
from nlink.iterations.sampling import Sampling
from nlink.iterations.switching import Switching
from nlink.iterations.triggers import Trigger
from nlink.programs.program import Port
from nlink.programs.tracing import trace_function
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
    end = 0.1 if "momenta" in METHODS[method].needs else 0.45
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
    """Classical Runge-Kutta: four stages, each a call, with passes between them and after the last,
    and a pass that commits."""
    body = record(Integration(METHODS["rk4"], dense=False), {"rates": Gives()}).step.body
    assert [type(each) for each in body] == [*[Call, Pass] * 4, Pass]
    assert {each.name for each in body if isinstance(each, Call)} == {"rates"}


class Euler(OneStep):
    name, cost = "euler", StepCost(1)

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


class Roots:
    """Heron's method: the square roots of numbers that a process has of its own."""

    layout = Layout(("y",), {"steps": 0.0}, (), ("status",))

    def step(self, s, given):
        new = kept(given.halfway(s.steps, s.y))
        change = largest(abs(new - s.y))
        ended = where(less(change, given.tolerance), 1.0,
                      where(less(given.patience, s.steps + 1.5), 2.0, 0.0))
        return s.replace(y=new, steps=s.steps + 1.0, status=ended)


def test_an_iteration_without_times_brings_its_own_numbers():
    """In lanes and on floats: each process ends by itself, and nothing is due on the way."""
    a = np.array([[0.9, 1.2], [9.0, 0.1], [1.0, 1.5], [6.0, 2.0], [1.1, 1.1]])
    ports = Port("t", (1,)), Port("y", (2,)), Port("u", (2,))
    halfway = trace_function("halfway", ports, ports[1:2], lambda t, y, u: [
        0.5 * (y[k] + u[k] / y[k]) for k in range(2)])
    recorded = record(Roots(), {"halfway": Gives()})
    kernel = ProcessKernel(compile_iteration(recorded, {"halfway": halfway}, Shape(2, own=2), 2,
                                             evaluations=1))
    assert kernel.given == ("patience", "tolerance")
    records = new_records(5, Roots.layout, 2, 2)
    records["y"], records["own"] = 1.0, a
    numbers = {"tolerance": 1e-9, "patience": 5.0}
    kernel.run(records, numbers)
    assert set(records["status"]) == {1, 2}
    for record_, u in zip(records, a, strict=True):
        done = drive(Roots(), numbers | {"halfway": lambda t, y, u=u: np.array(
            halfway([t], y, u)[0])}, {"y": [1.0, 1.0]})
        assert (done.status, done.state.steps) == (record_["status"], record_["steps"])
        np.testing.assert_allclose(record_["y"], done.state.y, rtol=1e-15)
        assert record_["status"] == 2 or np.allclose(record_["y"] ** 2, u, rtol=1e-14)
    with pytest.raises(KeyError, match="tolerance"):
        kernel.run(records, {"patience": 5.0})


def test_a_kernel_with_outputs_wants_rows_for_them():
    rates = trace_function("rates", (Port("t", (1,)), Port("y", (1,)), Port("u", (0,))),
                           (Port("ydot", (1,)),), lambda t, y, u: [-y[0]])
    recorded = record(Integration(METHODS["rk4"], dense=False), {"rates": Gives()})
    kernel = ProcessKernel(compile_iteration(recorded, {"rates": rates}, Shape(1), 2,
                                             evaluations=4))
    with pytest.raises(TypeError, match="out: None, expected rows for the outputs"):
        kernel.run(new_records(1, recorded.layout, 1), GIVEN)


LAYOUT = Layout(("y",), {"t": 0.0}, ("brief",), ("status",))


def test_columns_that_were_overwritten_are_not_read_again():
    recorder = Recorder(LAYOUT, "step")
    s = recorder.start()
    old = s.y
    s = when(less(s.t, 1.0), s, lambda s: s.replace(y=2.0 * s.y))
    with pytest.raises(ValueError, match="read after it was overwritten"):
        recorder.finish(s.replace(y=s.y + old))


def test_a_state_whose_column_was_overwritten_is_refused():
    recorder = Recorder(LAYOUT, "step")
    s = recorder.start()
    when(less(s.t, 1.0), s, lambda s: s.replace(y=2.0 * s.y))
    with pytest.raises(ValueError, match="read after it was overwritten"):
        recorder.finish(s)


class Reckless(Euler):
    """Euler's method with bodies that change all they can, where `truth` holds and elsewhere."""

    name, layout = "reckless", Layout((), {"inner": 0.0, "outer": 0.0})

    def attempt(self, s, trial, given):
        s = when(less(total(s.y), 0.0), s, self._outer)
        return super().attempt(s, trial, given)

    def _outer(self, s):
        s = s.replace(outer=s.outer + 1.0, k0=s.k0 + 1.0)
        s = when(less(0.05, s.t), s, lambda s: s.replace(inner=s.inner + 1.0, k0=2.0 * s.k0))
        return s.replace(outer=s.outer + s.inner, k0=s.k0 + s.outer)


@pytest.mark.slow
def test_no_body_of_when_touches_a_lane_where_it_does_not_hold():
    robot, q0 = nlink.load("double_pendulum"), np.array([[0.3, 0.1], [-0.3, 0.1], [-0.1, 0.0]])
    options = {"t": 0.1, "step": 0.01, "method": Reckless()}
    lanes, floats = (nlink.simulate(robot, q0, traced=traced, **options)
                     for traced in (True, False))
    np.testing.assert_allclose(lanes.q, floats.q, rtol=1e-13, atol=1e-14)
    alone = nlink.simulate(robot, q0[[0, 0, 0]], **options)
    assert (alone.q == lanes.q[0]).all()


class Halving(Euler):
    """Euler's method with rates that depend on how often a column was halved, and on what was left
    of it, where that is done at all."""

    name = "halving"
    layout = Layout(("rest",), {"count": 0.0, "twice": 0.0}, ("other",))

    def attempt(self, s, trial, given):
        s = s.replace(rest=1.0 + abs(s.y), other=s.y, count=0.0)
        return super().attempt(when(less(0.02, s.t), s, self._halved), trial, given)

    def _halved(self, s):
        start, size = kept(3.0 * s.rest), total(s.rest)

        def change(s):
            halved = kept(0.5 * s.rest)
            return s.replace(count=s.count + 1.0, rest=halved + 0.01 * s.other,
                             twice=s.twice + total(start * halved))

        s = repeat(5, ("count", "twice"), lambda s: less(3.0 * s.count, size), s, change)
        return s.replace(k0=s.k0 + s.count + s.rest + 0.1 * s.twice)


@pytest.mark.slow
def test_repeated_statements_end_for_each_lane_by_itself():
    recorded = record(Integration(Halving(), dense=False), {"rates": Gives()})
    assert any(isinstance(each, Repeat) for each in flat(recorded.step.body))
    robot, q0 = nlink.load("double_pendulum"), np.array([[0.3, 0.1], [-2.3, 0.1], [-0.1, 4.0]])
    options = {"t": 0.1, "step": 0.01, "method": Halving()}
    lanes, floats = (nlink.simulate(robot, q0, traced=traced, **options)
                     for traced in (True, False))
    np.testing.assert_allclose(lanes.q, floats.q, rtol=1e-12, atol=1e-13)
    for k in range(3):
        alone = nlink.simulate(robot, q0[[k, k, k]], **options)
        assert (alone.q == lanes.q[k]).all()


def test_cells_that_a_repeated_body_changes_are_named():
    recorder = Recorder(Layout(("y",), {"t": 0.0, "u": 0.0}), "step")
    s = recorder.start()
    with pytest.raises(ValueError, match="repeat: 'u' changes, expected it among the cells t"):
        repeat(3, ("t",), lambda s: less(s.t, 1.0), s, lambda s: s.replace(t=s.t + 1, u=2 * s.u))


HELD = Trigger(-1, "hold", 0, 1.0)
WAYS = {
    "plain": lambda method: {},
    "events": lambda method: {"events": EventHandling([Trigger(0, "record"), replace(
        HELD, action="bounce")])},
    "modes": lambda method: {"events": EventHandling([HELD], Switching(impacts=True))},
    "samples": lambda method: {"sampling": Sampling(0.1)},
    "loops": lambda method: {"projects": "momenta" not in method.needs},
}
PROGRAMS = {name: Gives() for name in (
    "rates", "sample", "arrest", "propose", "slack", "touch", "impulses", "collide", "impact",
    "solve")} | {"close": Gives(cells=1), "watch": Gives(False, 2), "limited": Gives(False, 1),
                 "factor": Gives(shared=True), "contact_rows": Gives(shared=True),
                 "contact_sweep": Gives(cells=2), "contact_move": Gives(cells=3),
                 "contact_newton": Gives(cells=1), "contact_clear": Gives(cells=2)}
PROGRAMS |= {f"{name}_few": gives for name, gives in PROGRAMS.items() if name[:8] == "contact_"}


@pytest.mark.parametrize(("text", "way"), [
    *(pytest.param(text, way, id=f"{way}-{name}") for way in WAYS
      for name, text in METHODS.items()),
    *(pytest.param(ContactEuler(1, few=few), "plain", id=f"contact-{few}")
      for few in (False, True))])
def test_every_column_is_stored_where_all_conditions_around_hold(text, way):
    """In all that is recorded: a store within bodies is a choice, by a truth that implies theirs,
    between a new value and the column as it is."""
    programs = PROGRAMS | {"watch": Gives(False, 1 if way == "modes" else 2)}
    for dense in (False, *([True] if text.interpolates and way != "loops" else [])):
        recording = record(Integration(text, dense=dense, **WAYS[way](text)), programs, 2).step
        columns = {*recording.graph.layout.columns, *recording.graph.layout.brief_columns}

        def look(body, conditions, names=recording.graph.columns, columns=columns):
            for each in body:
                if isinstance(each, When | Repeat):
                    within = conditions | parts(each.truth)
                    look(each.body, within)
                    for cell, inside, outside in each.merged:
                        before = cell if isinstance(each, Repeat) else outside
                        assert inside is before or keeps(
                            inside, lambda old, x=before: old is x, within)
                for column, value in each.stores if isinstance(each, Pass) else ():
                    if conditions and names[column.index] in columns:
                        assert keeps(value, lambda old, x=names[column.index]: (
                            names.get(old.index) == x), conditions)

        look(recording.body, set())


def parts(truth):
    return set().union(*map(parts, truth.args)) if truth.op == "logical_and" else {truth.index}


def keeps(value, is_old, conditions):
    """Whether a value is an old one but where the conditions hold."""
    truth, yes, no = value.args
    if is_old(no):
        return conditions <= parts(truth)
    return is_old(yes) and conditions <= {(~truth).index}  # a choice by `~` has its sides swapped


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
