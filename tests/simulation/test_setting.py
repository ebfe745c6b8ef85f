"""Options as values, and doors that open the same rooms."""

import inspect
from dataclasses import fields

import numpy as np
import pytest

import nlink
from nlink.simulation.setting import OPTIONS, Physics, Saving, Solver


def arm(**more):
    row = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12), "limits": {"position": (-1.0, 1.0), "effort": 3.0}}
    return nlink.Robot.from_dh([row | more] * 2, gravity=(0, -9.81, 0))


class Held:
    """The controller of a loop around a stepper, as one that is sampled."""

    period = 0.01

    def __call__(self, t, q, qd):
        return -1.0 * qd - 8.0 * q


@pytest.mark.slow
@pytest.mark.parametrize("limits", ["hold", "stop", "bounce"])
@pytest.mark.parametrize("method", ["rk4", pytest.param("rkf45", marks=pytest.mark.slow),
                                    pytest.param("semi_implicit", marks=pytest.mark.slow)])
def test_steps_with_every_option_are_those_of_simulate_to_the_bit(method, limits):
    if method == "semi_implicit" and limits == "bounce":
        pytest.skip("the method decides modes in its steps")
    robot = arm(friction={"coulomb": 0.2})
    vary = {"f_ext": {2: np.array([[0, 0, 0, 2.0, 1, 0], [0, 0, 0, 0, 3.0, 0]])}}
    if limits != "bounce":
        vary["payload"] = np.array([0.0, 2.0])
    options = {"method": method, "limits": limits, "effort": "saturate", "vary": vary,
               "events": [lambda t, q, qd: q[1] - 0.3],
               "f_ext": {1: lambda t, q, qd: np.array([0, 0, 0, 1, 0, 0]) * nlink.sin(9 * t)}}
    start = np.full((2, 2), 0.5)
    robots = nlink.Stepper(robot, np.zeros((2, 2)), start, step=0.01, **options)
    states, times = [], []
    for _ in range(60):
        robots.step(-1.0 * robots.qd - 8.0 * robots.q)
        states.append(robots.q.copy())
        times.extend(robots.events.t)
    run = nlink.simulate(robot, np.zeros((2, 2)), start, t=0.6, tau=Held(), **options,
                         **({} if method == "rkf45" else {"step": 0.01}))
    for k in range(2):
        there = np.isfinite(run.q[k, 1:]).all(axis=1)
        assert there.any()
        assert np.array_equal(np.array(states)[there, k], run.q[k, 1:][there])
    assert np.array_equal(np.sort(times), np.sort(run.events.t))


def test_wrenches_of_a_step():
    robot, wrench = arm(), np.array([0, 0, 0, 0, 5.0, 0])
    pushed = nlink.Stepper(robot, np.zeros((3, 2)), step=0.01, f_ext={2: wrench})
    other = nlink.Stepper(robot, np.zeros((3, 2)), step=0.01, f_ext={2: 0 * wrench})
    for _ in range(5):
        pushed.step()
        other.step(f_ext={2: wrench})
    assert np.array_equal(pushed.q, other.q)
    assert pushed.q.any()
    pushed.reset([True, False, False])
    pushed.step()
    assert pushed.t[0] == 0.01
    with pytest.raises(ValueError, match="f_ext: a link that Stepper was not made with"):
        pushed.step(f_ext={1: wrench})
    with pytest.raises(ValueError, match="f_ext: a table, expected numbers or functions"):
        nlink.Stepper(robot, step=0.01, f_ext={2: np.zeros((2, 6))})


def test_a_value_is_its_keywords():
    robot = nlink.load("planar3").with_friction(dry=0.5)
    values = nlink.simulate(robot, [0.1, 0.2, 0.3], physics=Physics(friction="smooth", width=1e-2),
                            solver=Solver("dopri5", rtol=1e-7), saving=Saving(t=0.3, every=0.1))
    keywords = nlink.simulate(robot, [0.1, 0.2, 0.3], friction="smooth", width=1e-2,
                              method="dopri5", rtol=1e-7, t=0.3, every=0.1)
    assert np.array_equal(values.q, keywords.q)
    steps = [nlink.Stepper(robot, step=0.01, **each) for each in (
        {"physics": Physics(friction="smooth"), "solver": Solver("dopri5", max_steps=10_000)},
        {"friction": "smooth", "method": "dopri5"})]
    for each in steps:
        each.step([1.0, 0, 0])
    assert np.array_equal(steps[0].q, steps[1].q)


@pytest.mark.parametrize(("options", "sentence"), [
    ({"physics": Physics(), "limits": "stop"}, "limits: 'stop' beside physics, expected"),
    ({"physics": Physics(friction="smooth"), "friction": "dry"}, "friction: 'dry' beside physics"),
    ({"solver": Solver(), "method": "rk4"}, "method: 'rk4' beside solver"),
    ({"saving": Saving(), "t": [0.0, 1.0]}, "t: \\[0.0, 1.0\\] beside saving")])
def test_a_value_beside_one_of_its_keywords_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        nlink.simulate(nlink.load("planar3"), **options)


def test_what_is_no_setting_is_refused():
    with pytest.raises(TypeError, match=r"physics: a dict, expected a nlink\.Physics"):
        nlink.simulate(nlink.load("planar3"), physics={"limits": "stop"})


DOORS = {
    "simulate": nlink.simulate, "Stepper": nlink.Stepper, "System": nlink.System,
    "linearize": lambda robot, **more: nlink.linearize(robot, np.zeros(3), np.zeros(3), **more),
    "adjoint": lambda robot, **more: nlink.adjoint(robot, lambda q, qd: q @ q, **more),
    "sweep": lambda robot, **more: nlink.sweep(robot, vary={"payload": [0.0]}, out="x", **more)}


@pytest.mark.parametrize("door", DOORS)
def test_misspelt_options_are_recognized(door):
    with pytest.raises(TypeError, match=r"frictoin.*(expected|did you mean) '?friction"):
        DOORS[door](nlink.load("planar3"), frictoin="smooth")


@pytest.mark.parametrize("door", DOORS)
def test_every_function_refuses_a_keyword_beside_its_value(door):
    with pytest.raises(ValueError, match=r"width: 0\.001 beside physics, expected it in the Phys"):
        DOORS[door](nlink.load("planar3"), physics=Physics(), width=1e-3)


@pytest.mark.parametrize(("kind", "name", "meant"), [
    (Physics, "frictoin", "friction"), (Solver, "metod", "method"), (Saving, "sav", "save")])
def test_misspelt_settings_are_recognized(kind, name, meant):
    with pytest.raises(TypeError, match=f"{kind.__name__}: unknown argument '{name}', expected "
                                        f"{meant}"):
        kind(**{name: 1})


def test_sweeps_have_wrenches_and_constant_forces(tmp_path):
    robot, wrench = nlink.load("planar3"), [0, 0, 0, 0, 5.0, 0]
    acts = {"tau": [1.0, 0.0, -1.0], "f_ext": {
        "link3": wrench, "link2": lambda t, q, qd: np.array(wrench) * nlink.sin(9 * t)}}
    vary = {"payload": [0.0, 1.0]}
    run = nlink.simulate(robot, t=0.1, every=0.1, vary=vary, **acts)
    for k, (what, more) in enumerate(((robot, acts), (nlink.System(robot, **acts), {}))):
        found = nlink.sweep(what, t=0.1, vary=vary, out=tmp_path / f"{k}.zarr", progress=False,
                            **more).open()
        assert np.array_equal(found.q.values, run.q[:, -1])
    with pytest.raises(ValueError, match=r"another study|expected"):
        nlink.sweep(robot, t=0.1, vary=vary, out=tmp_path / "0.zarr", progress=False,
                    **acts | {"tau": [2.0, 0.0, 0.0]})
    for wrong, sentence in (({"f_ext": {"link3": np.zeros((2, 6))}}, "f_ext: a table"),
                            ({"tau": np.zeros((2, 3))}, r"tau: shape \(2, 3\), expected \(3,\)")):
        with pytest.raises(ValueError, match=sentence):
            nlink.sweep(robot, t=0.1, vary=vary, out=tmp_path / "2.zarr", **wrong)


def test_values_are_used_again_in_sweeps_and_gradients(tmp_path):
    robot = nlink.load("planar3").with_friction(dry=0.5)
    physics, solver = Physics(friction="smooth", width=1e-2), Solver("rk4", step=0.01)
    found = nlink.sweep(robot, t=0.1, vary={"payload": [0.0, 1.0]}, physics=physics, solver=solver,
                        out=tmp_path / "values.zarr", progress=False).open()
    same = nlink.simulate(robot, t=0.1, every=0.1, vary={"payload": [0.0, 1.0]}, physics=physics,
                          solver=solver)
    assert np.array_equal(found.q.values, same.q[:, -1])
    one, two = (nlink.adjoint(robot, lambda q, qd: q @ q, [0.1, 0.2, 0.3], physics=physics, **how)
                for how in ({"saving": Saving(t=0.1, every=0.05)}, {"t": 0.1, "every": 0.05}))
    assert np.array_equal(one.gradient["q0"], two.gradient["q0"])


def test_options_of_simulate_are_those_of_the_values():
    known = inspect.signature(nlink.simulate).parameters
    for name, usual in OPTIONS.items():
        assert known[name].default == usual
    for each in fields(Saving):
        assert known[each.name].default == each.default
