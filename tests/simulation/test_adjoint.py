"""Gradients backwards through a simulation are those of its forward sensitivities."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.testing.mechanisms import random_robot


class Leaky:
    """Forces against a filtered position."""

    state = 2

    def __call__(self, t, q, qd, x, p):
        return -p[0] * x - 0.2 * nlink.sin(qd)

    def rates(self, t, q, qd, x, p):
        return q - p[1] * x


@pytest.mark.slow
def test_gradients_of_an_ensemble_are_those_of_its_sensitivities():
    """Of a robot and its controller, exactly: the derivatives of the same large steps."""
    robot, rng = nlink.load("double_pendulum"), np.random.default_rng(3)
    q0, payload = rng.normal(size=(3, 2)), rng.uniform(0.5, 1.0, size=3)
    how = {"q0": q0, "t": 1.0, "every": 0.1, "tau": Leaky(),
           "vary": {"payload": payload, "p": [3.0, 0.5]}}
    names = ("q0", "qd0", "payload", "p")
    run = nlink.simulate(robot, method="rk4", sensitivities=names, **how)
    found = nlink.adjoint(robot, lambda q, qd: q @ q, running=lambda q, qd: qd @ qd, **how)
    np.testing.assert_array_equal(found.run.q, run.q)
    share = np.full(11, 0.1)
    share[[0, -1]] = 0.05
    energy = (run.qd**2).sum(axis=-1) @ share
    np.testing.assert_allclose(found.cost, (run.q[:, -1]**2).sum(axis=-1) + energy, rtol=1e-13)
    for name in names:
        s = run.sensitivity(name)
        expected = 2 * np.einsum("bi,bij->bj", run.q[:, -1], s.q[:, -1])
        expected += 2 * np.einsum("k,bki,bkij->bj", share, run.qd, s.qd)
        np.testing.assert_allclose(found.gradient[name], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_gradients_by_turns_are_in_the_tangent_space():
    robot = random_robot(3, 1, types=("spherical",), fixed=True, friction=False)
    q, qd = robot.random_state(np.random.default_rng(2))
    a = np.arange(1.0, 1.0 + robot.nq)
    run = nlink.simulate(robot, q, qd, t=0.3, every=0.05, method="rk4",
                         sensitivities=("q0", "qd0"))
    found = nlink.adjoint(robot, lambda q, qd: q @ a + qd @ qd, q, qd, t=0.3, every=0.05)
    T = np.transpose([robot.mechanism.space.tangent(run.q[-1], u) for u in np.eye(3).tolist()])
    for name in ("q0", "qd0"):
        s = run.sensitivity(name)
        expected = a @ T.astype(float) @ s.q[-1] + 2 * run.qd[-1] @ s.qd[-1]
        np.testing.assert_allclose(found.gradient[name], expected, rtol=1e-10, atol=1e-12)


def test_gradients_by_forces_in_a_table_are_those_of_differences():
    robot, rng = nlink.load("double_pendulum"), np.random.default_rng(5)
    times = np.array([0.0, 0.1, 0.25, 0.3, 0.5])
    tau, other = rng.normal(size=(2, 5, 2))

    def found(e):
        return nlink.adjoint(robot, lambda q, qd: q @ q + qd[0], [0.1, 0.2], t=times,
                             tau=tau + e * other)

    slope = (found(1e-5).cost - found(-1e-5).cost) / 2e-5
    gradient = found(0.0).gradient["tau"]
    assert gradient.shape == (5, 2)
    np.testing.assert_allclose((gradient * other).sum(), slope, rtol=1e-8)


def test_what_has_no_gradient_is_refused():
    robot = nlink.load("double_pendulum")
    with pytest.raises(ValueError, match="adjoint: not with friction='dry', expected 'smooth'"):
        nlink.adjoint(robot, lambda q, qd: q @ q, t=0.1, vary={"coulomb": [0.1, 0.1]})
    with pytest.raises(ValueError, match="adjoint: the forces have the sign of the state"):
        nlink.adjoint(robot, lambda q, qd: q @ q, t=0.1, tau=lambda t, q, qd: -nlink.sign(qd))
    with pytest.raises(ValueError, match="cost: 2 values, expected a number"):
        nlink.adjoint(robot, lambda q, qd: q, t=0.1)
    with pytest.raises(ValueError, match="cost: None, and so is running"):
        nlink.adjoint(robot, None, t=0.1)
    with pytest.raises(TypeError, match="f: 3, expected a function"):
        nlink.adjoint(robot, 3, t=0.1)


def bounded() -> nlink.Robot:
    """Two rods whose joints have limits."""
    row = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12), "limits": {"position": (-1.0, 1.0)}}
    return nlink.Robot.from_dh([row] * 2, gravity=(0, -9.81, 0))


BOUNCES = {"t": 1.0, "every": 0.05, "limits": "bounce", "restitution": 0.8}


def settled(t, q, qd, p):
    return -p[0] * q - 0.02 * qd + 0.2 * nlink.sin(3.0 * t)


@pytest.mark.slow
def test_gradients_through_impacts_are_differences_of_the_same_steps():
    """Two impacts within a step, in one trajectory of an ensemble and not in another, under forces
    that depend on the time of the impact."""
    q0, qd0, p = np.array([[0.5, 0.3], [0.9, 0.1]]), np.array([[0.0, 0.0], [0.5, 0.0]]), 0.3

    def adjoint(q0, qd0, p):
        return nlink.adjoint(bounded(), lambda q, qd: q @ q + 0.1 * qd @ qd, q0, qd0, tau=settled,
                             running=lambda q, qd: qd @ qd, vary={"p": np.array([p])}, **BOUNCES)

    found = adjoint(q0, qd0, p)
    counts = np.bincount(found.run.events.trajectory, minlength=2)
    steps = np.floor(found.run.events.t[found.run.events.trajectory == 0] / 0.05)
    assert counts[0] > len(np.unique(steps)) > 1  # two in one step, and in several
    eps = 1e-6
    for name, given in (("q0", q0), ("qd0", qd0)):
        for joint in range(2):
            change = np.zeros((2, 2))
            change[:, joint] = eps
            moved = [adjoint(**({"q0": q0, "qd0": qd0, "p": p} | {name: given + sign * change}))
                     for sign in (1, -1)]
            slope = (moved[0].cost - moved[1].cost) / (2 * eps)
            np.testing.assert_allclose(found.gradient[name][:, joint], slope, rtol=2e-6, atol=2e-6)
    slope = (adjoint(q0, qd0, p + eps).cost - adjoint(q0, qd0, p - eps).cost) / (2 * eps)
    np.testing.assert_allclose(found.gradient["p"][:, 0], slope, rtol=2e-6, atol=2e-6)


@pytest.mark.slow
def test_gradients_through_impacts_come_to_those_of_sensitivities():
    """Those follow the motion, by the saltation matrix; small steps come close to it."""
    how = {"limits": "bounce", "restitution": 0.8, "t": 0.73}
    start, names = ([0.5, 0.3], [0.0, 0.0]), ("q0", "qd0")
    run = nlink.simulate(bounded(), *start, method="dop853", rtol=1e-11, atol=1e-13,
                         sensitivities=names, every=0.365, **how)
    found = nlink.adjoint(bounded(), lambda q, qd: q @ q, *start, every=0.005, **how)
    assert len(run.events) == len(found.run.events) > 1
    for name in names:
        expected = 2 * run.q[-1] @ run.sensitivity(name).q[-1]
        np.testing.assert_allclose(found.gradient[name], expected, rtol=1e-5, atol=1e-6)


def test_events_that_are_recorded_change_no_gradient_and_ends_are_refused():
    arm, how = nlink.load("double_pendulum"), {"t": 0.3, "every": 0.1}

    def passes(t, q, qd):
        return q[0] - 0.05

    found = nlink.adjoint(arm, lambda q, qd: q @ q, [0.1, 0.2], events=[passes], **how)
    plain = nlink.adjoint(arm, lambda q, qd: q @ q, [0.1, 0.2], **how)
    assert len(found.run.events) > 0
    for name, gradient in plain.gradient.items():
        np.testing.assert_array_equal(found.gradient[name], gradient)
    with pytest.raises(ValueError, match="adjoint: not with events or limits that end a motion"):
        nlink.adjoint(bounded(), lambda q, qd: q @ q, [0.5, 0.3], limits="stop", **how)
