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
