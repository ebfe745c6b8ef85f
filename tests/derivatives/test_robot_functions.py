"""One door to derivatives: a computation of a robot as a function."""

from __future__ import annotations

import numpy as np
import pytest

import nlink


@pytest.fixture(scope="module")
def state():
    robot = nlink.load("double_pendulum")
    return robot, *np.random.default_rng(0).normal(size=(3, 5, 2))


def test_products_agree_with_matrices(state):
    robot, *x = state
    f = nlink.function(robot, "forward_dynamics")
    np.testing.assert_array_equal(f(*x), robot.forward_dynamics(*x))
    matrices = f.jacobian(*x)
    v, w = np.ones((3, 2)), np.array([1.0, -2.0])
    np.testing.assert_allclose(f.jvp(x, list(v)), sum(J @ d for J, d in zip(
        matrices, v, strict=True)), atol=1e-12)
    for gradient, J in zip(f.vjp(x, w), matrices, strict=True):
        np.testing.assert_allclose(gradient, w @ J, atol=1e-12)
    np.testing.assert_array_equal(f.vjp(x, w), nlink.vjp(robot, "forward_dynamics", x, w))


def test_second_derivatives_times_rates_are_their_product(state):
    robot, q, _, _ = state
    f, v, w = nlink.function(robot, "potential_energy"), np.array([1.0, -2.0]), 1.0
    np.testing.assert_allclose(f.hvp(q, w, v), f.hessian(q) @ v, atol=1e-12)


def test_parameters_are_behind_the_same_door(state):
    robot, q, _, _ = state
    f = nlink.function(robot, "gravity_torque")
    np.testing.assert_array_equal(
        f.by("gravity")(q), nlink.parameter_derivatives(robot, "gravity_torque", (q,), "gravity"))


def test_external_wrenches_may_come_last(state):
    robot, q, qd, tau = state
    f_ext = np.ones((len(robot.links), 6))
    f = nlink.function(robot, "forward_dynamics")
    np.testing.assert_array_equal(f(q, qd, tau, f_ext),
                                  robot.forward_dynamics(q, qd, tau, f_ext=f_ext))


def test_what_does_not_fit_is_refused(state):
    robot, q, _, _ = state
    with pytest.raises(ValueError, match="is not computed here"):
        nlink.function(robot, "no_dynamics")
    with pytest.raises(TypeError, match=r"args: 1 arrays, expected 3 \(q, qd, tau\)"):
        nlink.function(robot, "forward_dynamics")(q)
    with pytest.raises(TypeError, match="name: 0 arguments, expected one"):
        nlink.function(robot)
    with pytest.raises(TypeError, match="frame: given with a Python function"):
        nlink.function(abs, 1, frame=2)
