"""A system is one value: its rates, its steps, and every function that takes it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate

import nlink
from nlink.simulation import PID, Sampled
from nlink.simulation.moment import Moment
from nlink.testing.mechanisms import random_robot

ARM = nlink.load("planar3").with_friction(viscous=0.2)
GOAL = np.array([0.3, -0.5, 0.8])
START, RATES = np.array([0.1, 0.2, 0.3]), np.array([1.0, -0.5, 0.2])


def hold(t, q, qd):
    return ARM.gravity_torque(q) + 60.0 * (GOAL - q) - 15.0 * qd


def pid():
    return PID(ARM, GOAL, 40.0, 10.0, 5.0)


def push(t, q, qd):
    return np.array([0, 0, 0, 4, 0, 0]) * nlink.sin(3 * t)


def test_rates_are_forward_dynamics_with_all_that_acts():
    system = nlink.System(ARM, hold, f_ext={"link3": push})
    y = system.start(START, [RATES, 2 * RATES])
    for t, row, rates in zip((0.4, 0.4), y, system.rates(0.4, y), strict=True):
        q, qd = row[:3], row[3:]
        wrenches = np.zeros((3, 6))
        wrenches[2] = push(t, q, qd)
        qdd = ARM.forward_dynamics(q, qd, hold(t, q, qd), wrenches)
        np.testing.assert_allclose(rates, [*qd, *qdd], atol=1e-12)


@pytest.mark.parametrize("kind", ["free", "varied", "state", "smooth", "tree"])
def test_text_program_and_kernel_agree(kind):
    """On floats as they are, on floats through the program, compiled."""
    rough = random_robot(1, bodies=5)
    vary = {"payload": 2.0, "gravity": [0, -3, 1]}
    system = {"free": lambda: nlink.System(ARM),
              "varied": lambda: nlink.System(ARM, hold, vary=vary),
              "state": lambda: nlink.System(ARM, pid()),
              "smooth": lambda: nlink.System(rough, friction="smooth", width=0.1),
              "tree": lambda: nlink.System(rough, lambda t, q, qd: nlink.sin(t) * qd)}[kind]()
    rng = np.random.default_rng(0)
    q, qd = system.robot.random_state(0)
    y, t = system.start(q, qd), 0.7
    y[system.remembered] = rng.normal(size=len(y[system.remembered]))
    own = [] if system.numbers.variation is None else system.numbers.variation.values.tolist()
    text = system.derivative(Moment(system, t, y.tolist(), own))
    program = system.straight("rates")([t], y.tolist(), own)[0]
    scale = 1 + np.abs(text)
    assert (np.abs(np.array(program, float) - text) / scale).max() < 1e-12
    assert (np.abs(system.rates(t, y) - text) / scale).max() < 1e-12


def test_a_step_is_that_of_simulate_to_the_bit():
    system = nlink.System(ARM, hold, f_ext={"link3": push}, vary={"payload": [0.0, 1.0]})
    y = system.step(system.start(START, RATES), 0.01, method="rk4")
    run = nlink.simulate(system, START, RATES, t=0.01, every=0.01, step=0.01, method="rk4")
    np.testing.assert_array_equal(y, np.concatenate([run.q[:, -1], run.qd[:, -1]], axis=-1))


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"method": "semi_implicit", "step": 1e-3},
                                 {"method": "symplectic", "step": 1e-3}])
def test_a_system_in_place_of_a_robot_changes_no_bit(how):
    options = {"f_ext": {"link3": push}, "vary": {"payload": np.array([0.0, 1.0])}}
    run = nlink.simulate(nlink.System(ARM, hold, **options), START, t=0.2, **how)
    same = nlink.simulate(ARM, START, t=0.2, tau=hold, **options, **how)
    np.testing.assert_array_equal(run.q, same.q)
    np.testing.assert_array_equal(run.tau, same.tau)
    if not how:
        one, two = (nlink.adjoint(robot, lambda q, qd: q @ q, START, t=0.1, **more)
                    for robot, more in ((nlink.System(ARM, hold), {}), (ARM, {"tau": hold})))
        np.testing.assert_array_equal(one.gradient["q0"], two.gradient["q0"])


@pytest.mark.slow
def test_a_stepper_drives_beside_the_controller_of_its_system():
    """tau of a step is added to what the system's own controller gives."""
    extra = np.array([2.0, -1.0, 0.5])
    world = nlink.Stepper(nlink.System(ARM, hold), START, RATES, step=0.01, method="dop853")
    for _ in range(5):
        world.step(extra)
    run = nlink.simulate(ARM, START, RATES, t=0.05, tau=lambda t, q, qd: hold(t, q, qd) + extra,
                         method="dop853")
    np.testing.assert_allclose(world.q, run.q[-1], atol=1e-9)
    with_state = nlink.Stepper(nlink.System(ARM, pid()), START, RATES,
                               step=0.01, method="dop853")
    for _ in range(5):
        with_state.step()
    run = nlink.simulate(ARM, START, RATES, t=0.05, tau=pid(),
                         method="dop853")
    np.testing.assert_allclose(with_state.q, run.q[-1], atol=1e-9)


def test_other_solvers_integrate_its_rates():
    system = nlink.System(ARM, hold, f_ext={"link3": push})
    run = nlink.simulate(system, START, RATES, t=0.5, rtol=1e-11)
    other = scipy.integrate.solve_ivp(system.rates, (0.0, 0.5), system.start(START, RATES),
                                      method="DOP853", rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(other.y[:, -1], [*run.q[-1], *run.qd[-1]], atol=1e-9)


@pytest.mark.slow
def test_adjoint_and_sensitivities_of_a_controller_with_a_state_agree():
    system = nlink.System(ARM, pid(), vary={"payload": 1.0})
    run = nlink.simulate(system, START, t=0.2, every=0.01, step=0.01, method="rk4",
                         sensitivities=["q0", "x0", "payload"])
    back = nlink.adjoint(system, lambda q, qd: q @ q, START, t=0.2, every=0.01)
    for name in ("q0", "payload"):
        forward = 2 * run.q[-1] @ run.sensitivity(name).q[-1]
        np.testing.assert_allclose(back.gradient[name], forward, rtol=1e-9, atol=1e-12)
    assert np.abs(run.sensitivity("x0").q[-1]).max() > 1e-4
    np.testing.assert_allclose(run.sensitivity("x0").x[0], np.eye(3))


@pytest.mark.parametrize(("call", "message"), [
    (lambda s: nlink.simulate(s, tau=hold), "tau: given beside a System"),
    (lambda s: nlink.simulate(s, limits="stop"), "limits: given beside a System"),
    (lambda s: nlink.simulate(s, traced=False), "traced: given beside a System"),
    (lambda s: nlink.simulate(s, friction="dry"), "friction: given beside a System"),
    (lambda s: s.step(np.zeros(6), -0.1), "step: -0.1, expected a positive number of seconds"),
    (lambda s: s.step(np.zeros(6), np.nan), "step: nan, expected a positive number of seconds"),
    (lambda s: nlink.Stepper(s, vary={"payload": 1.0}), "vary: given beside a System"),
    (lambda s: nlink.adjoint(s, lambda q, qd: q @ q, events=lambda t, q, qd: q[0]),
     "events: given beside a System"),
    (lambda s: nlink.linearize(s, START, RATES, hold), "tau: given beside a System"),
    (lambda s: nlink.sweep(s, vary={"qd0": [RATES]}, out="nowhere", width=1.0),
     "width: given beside a System"),
    (lambda s: s.program("rate"), "name: 'rate', expected one of rates"),
    (lambda s: s.rates(0.0, np.zeros(5)), r"y: shape \(5,\), expected \(..., 6\)"),
    (lambda s: nlink.Stepper(nlink.System(ARM, Sampled(hold, 0.1))), "robot: a System whose"),
    (lambda s: nlink.System(ARM, np.zeros((4, 3))).rates(0.0, np.zeros(6)),
     "robot: a System with a table"),
    (lambda s: nlink.System("planar3"), "robot: 'planar3', expected a Robot"),
])
def test_what_does_not_go_together_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        call(nlink.System(ARM, hold))


@pytest.mark.parametrize("method", ["rk4", "semi_implicit"])
def test_states_of_float32_are_advanced_in_float32(method):
    rng = np.random.default_rng(5)
    robot = nlink.load("planar3")
    system = nlink.System(robot, tau=lambda t, q, qd: nlink.sin(t) - 2.0 * qd,
                          vary={"gravity": rng.normal(size=(6, 3))})
    wide = system.start(rng.normal(size=(6, 3)))
    y = wide.astype(np.float32)
    for k in range(20):
        wide, y = (system.step(x, 0.01, 0.01 * k, method) for x in (wide, y))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, wide, atol=1e-4)
    other = nlink.System(robot, tau=lambda t, q, qd: nlink.sin(t) - 2.0 * qd,
                         vary={"gravity": np.zeros((6, 3))})  # numbers are no part of the code
    start = other.start(rng.normal(size=(6, 3)))
    np.testing.assert_allclose(other.step(start.astype(np.float32), 0.01, 0.0, method),
                               other.step(start, 0.01, 0.0, method), atol=1e-5)


def test_what_is_not_advanced_in_float32_says_so():
    closed = nlink.System(nlink.load("four_bar"))
    with pytest.raises(ValueError, match="y: dtype float32, expected float64: states of closed"):
        closed.step(closed.start().astype(np.float32), 0.01)
