"""Linear models of systems with all that simulations have, against differences of simulations."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.simulation import PD, PID
from nlink.testing.mechanisms import random_robot

ARM = nlink.load("planar3")
Q, QD, TAU = np.array([0.3, -0.4, 0.5]), np.array([2.2, 1.1, -3.3]), np.array([1.0, -2.0, 0.5])
ROUGH = ARM.with_friction(dry=[0.5, 0.0, 0.2], viscous=0.1)


def spring(t, q, qd):
    return ARM.gravity_torque(q) - 5.0 * qd - 20.0 * q + nlink.sin(t)


def drag(t, q, qd, *_):
    return [0, 0, 0, -0.3 * qd[0], nlink.sin(3 * t) + q[1], 0]


CASES = {
    "controller that calls the robot": (ARM, {"tau": spring}),
    "controller with a state": (ARM, {"tau": PID(ARM, [0.1, 0.2, 0.3], 80.0, 20.0, 40.0)}),
    "wrenches": (ARM, {"f_ext": {"link2": drag, "link3": [0, 0, 1.0, 2.0, 0, 0]}}),
    "smooth friction": (ROUGH, {"friction": "smooth", "width": 0.5}),
    "what slides": (ROUGH, {"tau": spring}),
    "what varies": (ARM, {"tau": PD(ARM, [0.1, 0.2, 0.3], 80.0, 20.0), "vary": {"payload": 2.0}}),
    "saturation": (ARM.with_friction(viscous=0.2), {"tau": nlink.simulation.Saturated(
        spring, [1.0, 1e3, 1e3])}),
}
FALLING = random_robot(1, 2, types=("free", "revolute"), fixed=False, friction=False)


def differences(robot, how, h, method, e=1e-5):
    """dx after a step by x before it and by forces beside the drive; x has integrals of PID."""
    n, tau = robot.n, how.get("tau")
    states = getattr(tau, "state", 0)
    count = 2 * n + (len(states) if np.ndim(states) else states)

    def after(dx):
        """States after the step, of an ensemble; its controllers begin with the same integrals."""
        def beside(t, q, qd, *rest):
            *x, p = rest
            return p + (0.0 if tau is None else np.asarray(tau(t, q, qd, *x)))

        if count > 2 * n:
            beside.state = dx[0, 2 * n:count].copy()
            beside.rates = lambda t, q, qd, x, p: tau.rates(t, q, qd, x)
        vary = how.get("vary", {}) | {"p": dx[:, count:]}
        run = nlink.simulate(robot, Q + dx[:, :n], QD + dx[:, n:2 * n], t=h, every=h, step=h,
                             method=method, **(how | {"tau": beside, "rtol": 1e3, "vary": vary}))
        parts = [run.parts["x"][:, -1]] if count > 2 * n else []
        return np.concatenate([run.q[:, -1], run.qd[:, -1], *parts], axis=1)

    units = e * np.eye(count + n)
    ends = np.empty((2, count + n, count))
    for side, dx in zip(ends, (units, -units), strict=True):
        alike = ~dx[:, 2 * n:count].any(axis=1)
        side[alike] = after(dx[alike])
        for k in np.flatnonzero(~alike):
            side[k] = after(dx[k:k + 1])
    return (ends[0] - ends[1]).T / (2 * e)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["semi_implicit", "rk4"])
@pytest.mark.parametrize("case", CASES)
def test_steps_change_as_their_models_say(case, method):
    robot, how = CASES[case]
    A, B = nlink.linearize(robot, Q, QD, step=0.02, method=method, **how)
    exact = differences(robot, how, 0.02, method)
    np.testing.assert_allclose(np.concatenate([A, B], axis=1), exact, atol=2e-8)


@pytest.mark.parametrize("case", CASES)
def test_short_steps_tend_to_the_motion(case):
    robot, how = CASES[case]
    A, B = nlink.linearize(robot, Q, QD, **how)
    h, unit = 1e-4, np.eye(len(A))
    steps = [nlink.linearize(robot, Q, QD, step=step, **how) for step in (h, h / 2)]
    np.testing.assert_allclose(4 * (steps[1][0] - unit) / h - (steps[0][0] - unit) / h, A,
                               atol=1e-4 * np.abs(A).max())
    np.testing.assert_allclose(4 * steps[1][1] / h - steps[0][1] / h, B,
                               atol=1e-4 * np.abs(B).max())


@pytest.mark.slow
def test_the_general_model_is_the_one_of_forces_alone():
    """A controller that gives constant forces has the recursions' model, quaternions included."""
    q, qd = FALLING.random_state(0)
    tau = np.linspace(-1, 1, FALLING.n)
    for how in ({}, {"step": 0.02}, {"step": 0.02, "method": "dopri5"}):
        given = nlink.linearize(FALLING, q, qd, tau, **how)
        traced = nlink.linearize(FALLING, q, qd, lambda t, q, qd: tau, **how)
        system = nlink.linearize(nlink.System(FALLING, lambda t, q, qd: 0.5 * tau), q, qd,
                                 0.5 * tau, **how)
        for a, b, c in zip(given, traced, system, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(a, c, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_what_is_held_stays_held():
    still = np.zeros(3)
    weight, tip = ROUGH.gravity_torque(Q), np.array([0.3, 0.0, 0.1])
    A, B = nlink.linearize(ROUGH, Q, still, weight + tip)
    assert not np.concatenate([A, B], axis=1)[[3, 5]].any()  # joints 1 and 3 stick
    assert A[4, 1] != 0
    assert B[4, 1] > 0
    A, B = nlink.linearize(ROUGH, Q, still, weight + 3 * tip * [1, 0, 1 / 3])
    assert B[3, 0] > 0  # joint 1 breaks away
    assert not B[5].any()
    lower, first = np.array([-1.0, 0.2, 0.1]), np.array([1.0, 0.0, 0.0])
    row = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-.5, 0, 0),
           "inertia": (0, 1/12, 1/12), "limits": {"position": (-1.0, 1.0)}}
    arm = nlink.Robot.from_dh([row] * 3, gravity=(0, -9.81, 0))
    held, free = (nlink.linearize(arm, lower, still, arm.gravity_torque(lower) + push * first,
                                  limits="hold")[1] for push in (-1.0, 1.0))
    assert not held[3].any()
    assert free[3, 0] > 0


@pytest.mark.slow
def test_batches_times_and_numbers_of_trajectories():
    system = nlink.System(ARM, spring, vary={"payload": [0.0, 1.0, 2.0]})
    rng = np.random.default_rng(0)
    q, qd = rng.normal(size=(2, 4, 1, 3))
    for how in ({}, {"step": 0.01}, {"step": 0.01, "method": "rk4"}):
        A, B = nlink.linearize(system, q, qd, **how)
        assert (A.shape, B.shape) == ((4, 3, 6, 6), (4, 3, 6, 3))
        one = nlink.System(ARM, spring, vary={"payload": 2.0})
        np.testing.assert_allclose(nlink.linearize(one, q[1, 0], qd[1, 0], **how)[0], A[1, 2],
                                   rtol=1e-12, atol=1e-13)
        later = nlink.linearize(system, q, qd, t=1.0, **how)[1]
        np.testing.assert_allclose(later, B, rtol=1e-2, atol=1e-4)
    moved = nlink.linearize(ARM, Q, QD, lambda t, q, qd: -nlink.sin(t) * q, t=0.5)[0]
    free = nlink.linearize(ARM, Q, QD, np.zeros(3))[0]
    assert np.abs(moved - free).max() > 0.1


@pytest.mark.parametrize(("how", "message"), [
    ({"tau": nlink.simulation.Sampled(PD(ARM, [0.1, 0.2, 0.3], 80.0, 20.0), 0.01)},
     "linearize: not with a controller with a period, expected one that acts at all times"),
    ({"physics": nlink.Physics(velocity="nu")}, "linearize: not with velocity='nu', expected 'qd'"),
    ({"f_ext": {"link1": np.zeros((5, 6))}}, "linearize: not with forces or wrenches in a table"),
    ({"x": [1.0]}, r"x: shape \(1,\), expected \(..., 0\)"),
    ({"friction": "some"}, "friction: 'some', expected one of dry, smooth"),
])
def test_what_has_no_model_is_refused(how, message):
    with pytest.raises(ValueError, match=message):
        nlink.linearize(ARM, Q, QD, **({"tau": lambda t, q, qd: -qd} | how))


@pytest.mark.slow
def test_models_of_many_joints_are_those_of_few(monkeypatch):
    """Columns by products, where matrices would be long programs."""
    falling = nlink.System(FALLING, lambda t, q, qd: -0.3 * qd)
    q, qd = FALLING.random_state(0, (3,))
    calls = [(nlink.System(*CASES["controller with a state"][:1],
                           **CASES["controller with a state"][1]), Q, QD), (falling, q, qd)]
    steps = ({}, {"step": 0.01}, {"step": 0.01, "method": "dopri5"})
    few = [nlink.linearize(*call, **how) for call in calls for how in steps]
    monkeypatch.setattr(nlink.simulation.linearization, "MOST_DERIVATIVES", 0)
    many = [nlink.linearize(*call, **how) for call in calls for how in steps]
    for one, other in zip(few, many, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_dry_friction_with_a_stribeck_curve_has_its_slope():
    row = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-.5, 0, 0),
           "inertia": (0, 1/12, 1/12), "friction": {"coulomb": 1.0, "breakaway": 2.0,
                                                    "stribeck": 0.5}}
    rod = nlink.Robot.from_dh([row])
    A, B = nlink.linearize(rod, [0.0], [0.4], [0.0])
    slope = -np.exp(-(0.4 / 0.5)**2) * (-2 * 0.4 / 0.5**2)  # of -(1 + exp(-(v/0.5)^2))
    np.testing.assert_allclose(A[1, 1], slope * B[1, 0], rtol=1e-12)


@pytest.mark.slow
def test_batches_in_which_some_joints_rest():
    q = np.tile(Q, (4, 1))
    qd = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    tau = ROUGH.gravity_torque(q)
    together = nlink.linearize(ROUGH, q, qd, tau)
    for k in range(4):
        alone = nlink.linearize(ROUGH, q[k], qd[k], tau[k])
        general = nlink.linearize(ROUGH, q[k], qd[k], lambda t, x, v, k=k: tau[k])
        for a, b, c in zip(together, alone, general, strict=True):
            np.testing.assert_allclose(a[k], b, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(a[k], c, rtol=1e-9, atol=1e-10)
