"""Derivatives of whole simulations: closed forms, variational equations, differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from event_cases import G, slider
from scipy.integrate import solve_ivp

import nlink
from nlink.simulation import PD
from nlink.testing.mechanisms import random_robot

EXACT = {"method": "dop853", "rtol": 1e-12, "atol": 1e-13}


def state_change(run, *names):
    """d(q, qd)/d(names) at the last time, (..., 2n, numbers)."""
    found = [run.sensitivity(name) for name in names]
    return np.concatenate([np.concatenate([each.q, each.qd], axis=-2)[..., -1, :, :]
                           for each in found], axis=-1)


def variational(robot, q, qd, t):
    """The same by SciPy, with the equations dx' = A dx of `nlink.linearize` in tangent space."""
    n, nq = robot.n, robot.nq

    def rates(_t, y):
        q, qd, S = y[:nq], y[nq:nq + n], y[nq + n:].reshape(2 * n, 2 * n)
        A, _ = nlink.linearize(robot, q, qd, np.zeros(n))
        return np.concatenate([np.array(robot.mechanism.space.tangent(q, qd), float),
                               robot.forward_dynamics(q, qd, np.zeros(n)), (A @ S).ravel()])

    y0 = np.concatenate([q, qd, np.eye(2 * n).ravel()])
    found = solve_ivp(rates, (0.0, t), y0, method="DOP853", rtol=1e-12, atol=1e-13)
    return found.y[nq + n:, -1].reshape(2 * n, 2 * n)


def differences(after, size, e=1e-5):
    """Central differences of a function of `size` numbers."""
    return np.stack([(after(e * u) - after(-e * u)) / (2 * e) for u in np.eye(size)], axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("robot", [
    nlink.load("double_pendulum"),
    random_robot(3, 1, types=("spherical",), fixed=True, friction=False),
    *(pytest.param(robot, marks=pytest.mark.slow) for robot in (
        random_robot(1, 2, types=("free", "revolute"), fixed=False, friction=False),
        nlink.load("puma560")))], ids=lambda robot: robot.name)
def test_states_change_as_the_variational_equations_say(robot):
    q, qd = robot.random_state(np.random.default_rng(2))
    run = nlink.simulate(robot, q, qd, t=0.5, every=0.5, sensitivities=("q0", "qd0"), **EXACT)
    expected = variational(robot, q, qd, 0.5)
    error = state_change(run, "q0", "qd0") - expected
    assert np.abs(error).max() < 1e-9 * np.abs(expected).max()


def test_states_change_with_parameters_of_robot_and_controller():
    """An ensemble with payloads, friction and a controller that has a state and parameters."""
    robot, rng = nlink.load("double_pendulum"), np.random.default_rng(3)
    q0, payload = rng.normal(size=(3, 2)), rng.uniform(0.5, 1.0, size=3)
    own = {"viscous": np.array([0.1, 0.2]), "p": np.array([3.0, 0.5])}

    class Leaky:
        """Forces against a filtered position."""
        state = 2

        def __call__(self, t, q, qd, x, p):
            return -p[0] * x - 0.2 * nlink.sin(qd)

        def rates(self, t, q, qd, x, p):
            return q - p[1] * x

    def run(by=(), q0=q0, **change):
        return nlink.simulate(robot, q0, t=1.0, every=0.5, tau=Leaky(), sensitivities=by,
                              vary={"payload": payload} | own | change, **EXACT)

    def last(run):
        return np.concatenate([run.q, run.qd], axis=-1)[:, -1]

    found = run(("payload", "p", "viscous", "q0"))
    assert found.sensitivity("p").q.shape == (3, 3, 2, 2) == found.sensitivity("p").x.shape
    for name, after in (
            ("payload", lambda d: last(run(payload=payload + d))),
            ("p", lambda d: last(run(p=own["p"] + d))),
            ("viscous", lambda d: last(run(viscous=own["viscous"] + d))),
            ("q0", lambda d: last(run(q0=q0 + d)))):
        expected = differences(after, found.sensitivity(name).q.shape[-1])
        np.testing.assert_allclose(state_change(found, name), expected, rtol=1e-6, atol=1e-7)


def test_states_change_with_gains():
    robot = nlink.load("double_pendulum")

    def run(kp, by=()):
        return nlink.simulate(robot, [0.1, 0.2], t=0.5, every=0.5, vary={"kp": kp},
                              tau=PD(robot, [0.3, 0.4], kp=20.0, kd=2.0),
                              sensitivities=by, **EXACT)

    kp = np.array([20.0, 10.0])
    expected = differences(lambda d: run(kp + d).q[-1], 2, 1e-3)
    np.testing.assert_allclose(run(kp, "kp").sensitivity("kp").q[-1], expected, rtol=1e-6,
                               atol=1e-9)


def bouncing(z, v, t, restitution):
    """Height and rate of a bouncing mass and the times of its impacts, of complex numbers too."""
    times, now = [], 0.0
    while True:
        w = np.sqrt(v * v + 2 * G * z)
        end = now + (v + w) / G
        if end.real > t:
            return np.array([z + v * (t - now) - G * (t - now)**2 / 2, v - G * (t - now), *times])
        times.append(end)
        now, z, v = end, 0.0, restitution * w


@pytest.mark.parametrize(("method", "accuracy"), [("dopri5", 1e-8), ("rk4", 1e-8), ("abm", 1e-6)])
@pytest.mark.parametrize("restitution", [1.0, 0.7])
def test_a_bouncing_mass_changes_by_the_saltation_matrix(method, accuracy, restitution):
    run = nlink.simulate(slider(low=0.0), [1.0], [0.5], t=2.0, every=0.1, method=method,
                         limits="bounce", restitution=restitution,
                         sensitivities=("q0", "qd0"))
    step = 1e-30j
    columns = [bouncing(1.0 + step, 0.5 + 0j, 2.0, restitution).imag / 1e-30,
               bouncing(1.0 + 0j, 0.5 + step, 2.0, restitution).imag / 1e-30]
    expected = np.transpose(columns)
    assert len(run.events) == len(expected) - 2 >= 2
    np.testing.assert_allclose(state_change(run, "q0", "qd0"), expected[:2], rtol=accuracy)
    for k, name in enumerate(("q0", "qd0")):
        events = run.events.sensitivities[name]
        np.testing.assert_allclose(events.t[:, 0], expected[2:, k], rtol=accuracy)
        np.testing.assert_allclose(events.q, 0.0, atol=1e-7)  # an impact is at the limit


def test_the_state_at_the_end_of_a_trajectory_changes_with_the_time_of_it():
    run = nlink.simulate(slider(low=0.0), [1.0], [0.5], t=2.0, limits="stop",
                         sensitivities=("q0", "qd0"))
    w = np.sqrt(0.5**2 + 2 * G)
    found = [run.events.sensitivities[name] for name in ("q0", "qd0")]
    assert run.status == "limit reached"
    np.testing.assert_allclose([x.t[0, 0] for x in found], [1 / w, (1 + 0.5 / w) / G], rtol=1e-9)
    np.testing.assert_allclose([x.qd[0, 0, 0] for x in found], [-G / w, -0.5 / w], rtol=1e-9)
    np.testing.assert_allclose([x.q[0, 0, 0] for x in found], 0.0, atol=1e-12)


def limited_pendulum(low, high):
    """A double pendulum whose elbow has limits."""
    robot = nlink.load("double_pendulum").description
    shoulder, elbow = robot.joints
    return nlink.Robot(replace(robot, joints=(
        shoulder, replace(elbow, limits=nlink.Limits((low, high))))))


def test_impacts_and_events_of_coupled_joints_change_as_differences_say():
    """Bounces of one joint jerk the other; the events of both, with forces in a table."""
    robot, x0 = limited_pendulum(-0.2, 9.0), np.array([0.3, 0.4, 0.1, -1.0])
    tau = np.linspace(0.0, 1.0, 11)[:, None] * [3.0, -4.0]

    def run(x, by=()):
        return nlink.simulate(robot, x[:2], x[2:], t=np.linspace(0.0, 1.0, 11), tau=tau,
                              limits="bounce", restitution=0.6, sensitivities=by,
                              events={"low": lambda t, q, qd: q[0] + 0.5 * t}, **EXACT)

    found = run(x0, ("q0", "qd0"))
    names = {found.events.names[k] for k in found.events.which}
    assert names == {"low", f"lower limit of {robot.joints[1].name}"}

    def after(d):
        other = run(x0 + d)
        assert (other.events.which == found.events.which).all()
        return np.concatenate([other.q[-1], other.qd[-1], other.events.t,
                               other.events.q.ravel(), other.events.qd.ravel()])

    expected = differences(after, 4)
    events = [found.events.sensitivities[name] for name in ("q0", "qd0")]
    got = np.concatenate([state_change(found, "q0", "qd0"), *(
        np.concatenate([x.reshape(-1, x.shape[-1]) for x in each], axis=-1)
        for each in zip(*events, strict=True))])
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    assert found.events["low"].sensitivities["q0"].t.shape == (len(found.events["low"]), 2)


def test_fixed_steps_have_the_derivative_of_their_own_map():
    """Not that of the motion: five large steps of rk4 and their linear models."""
    robot = nlink.load("double_pendulum")
    run = nlink.simulate(robot, [0.3, 0.8], [1.0, 2.0], t=1.0, every=0.2, method="rk4",
                         sensitivities=("q0", "qd0"))
    A, _ = nlink.linearize(robot, run.q[:-1], run.qd[:-1], [0.0, 0.0], step=0.2, method="rk4")
    product = np.linalg.multi_dot(A[::-1])
    np.testing.assert_allclose(state_change(run, "q0", "qd0"), product, rtol=1e-11)


def test_runs_with_sensitivities_are_kept_in_files(tmp_path):
    run = nlink.simulate(nlink.load("double_pendulum"), [0.1, 0.2], t=0.1, save=tmp_path / "run",
                         sensitivities="qd0")
    again = nlink.load_run(tmp_path / "run")
    np.testing.assert_array_equal(again.sensitivity("qd0").q, run.sensitivity("qd0").q)


def test_datasets_have_sensitivities():
    pytest.importorskip("xarray")
    q0, p = np.array([[0.1, 0.2], [0.3, 0.4]]), {"p": [1.0, 2.0, 3.0]}
    run = nlink.simulate(nlink.load("double_pendulum"), q0, t=0.1, every=0.05, vary=p,
                         tau=lambda t, q, qd, p: -p[0] * q - p[1] * qd + p[2],
                         sensitivities=("q0", "p"))
    data = run.to_xarray()
    assert data.dq_dp.dims == ("ensemble", "time", "rate", "p_number")
    for name in ("q0", "p"):
        np.testing.assert_array_equal(data[f"dq_d{name}"], run.sensitivity(name).q)
        np.testing.assert_array_equal(data[f"dqd_d{name}"], run.sensitivity(name).qd)


@pytest.mark.parametrize(("how", "sentence"), [
    ({"sensitivities": "kp"}, "'kp', expected some of q0, qd0"),
    ({"sensitivities": ("q0", "q0")}, "'q0' twice"),
    ({"sensitivities": True}, "True, expected names"),
    ({"method": "symplectic"}, "method='symplectic', expected a Runge-Kutta method or abm"),
    ({"method": "radau"}, "method='radau'"),
    ({"limits": "hold"}, "limits='hold'.* has no derivative"),
    ({"vary": {"coulomb": [0.1]}}, "friction='dry'.*'smooth': where rates stick"),
    ({"tau": lambda t, q, qd: -nlink.sign(qd)}, "the forces have the sign of the state"),
    ({"traced": False}, "not with traced=False")])
def test_what_has_no_derivative_is_refused(how, sentence):
    with pytest.raises(ValueError, match=f"^sensitivities:.*{sentence}"):
        nlink.simulate(slider(0.0, 1.0), [0.5], t=0.1, **{"sensitivities": "q0"} | how)


def test_more_derivatives_than_can_be_compiled_are_refused():
    with pytest.raises(ValueError, match=r"sensitivities: 1296 derivatives \(36 elements"):
        nlink.simulate(random_robot(1, 21, types=("revolute",), fixed=True), t=0.1,
                       friction="smooth", sensitivities=("q0", "qd0"))
    with pytest.raises(ValueError, match="this run has no sensitivities"):
        nlink.simulate(slider(), [0.5], t=0.1).sensitivity("q0")
