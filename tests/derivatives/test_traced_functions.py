"""Functions of users with their derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.simulation import apply

ROBOT = nlink.load("planar3")


def reach(q, target):
    """How far the hand is from a target, squared, and a price of bending."""
    pose = np.array(apply(ROBOT, "pose", q)).reshape(4, 4)
    miss = pose[:3, 3] - target
    return miss @ miss + 0.1 * nlink.where(nlink.less(0.0, q[1]), nlink.sqrt(q[1]), q[1] ** 2)


@pytest.fixture(scope="module")
def cost():
    return nlink.function(reach, 3, 3)


Q, TARGET = np.array([0.3, -0.4, 0.5]), np.array([1.0, 2.0, 0.0])


def test_derivatives_are_limits_of_differences(cost):
    h, rng = 1e-5, np.random.default_rng(0)
    dq, dt = rng.normal(size=(2, 3))
    slope = (cost(Q + h * dq, TARGET + h * dt) - cost(Q - h * dq, TARGET - h * dt)) / (2 * h)
    by_q, by_target = cost.gradient(Q, TARGET)
    assert np.isclose(by_q @ dq + by_target @ dt, slope, rtol=1e-8)
    assert np.isclose(cost.jvp((Q, TARGET), (dq, dt)), slope, rtol=1e-8)
    assert np.allclose(cost.vjp((Q, TARGET), 2.0)[0], 2 * by_q)
    qq, qt, tq, tt = cost.hessian(Q, TARGET)
    rates = cost.hvp((Q, TARGET), 1.0, (dq, dt))
    assert np.allclose(rates[0], qq @ dq + qt @ dt)
    assert np.allclose(tt, 2 * np.eye(3))
    assert np.allclose(qt, tq.T)
    there, back = cost.gradient(Q + h * dq, TARGET), cost.gradient(Q - h * dq, TARGET)
    assert np.allclose(qq @ dq, (there[0] - back[0]) / (2 * h), rtol=1e-7)


def test_engines_and_batches(cost):
    q = np.random.default_rng(1).normal(size=(4, 2, 3))
    expected, _ = cost.gradient(q, TARGET)
    assert expected.shape == (4, 2, 3)
    for engine in ("numpy", "python"):
        assert np.allclose(cost.gradient(q, TARGET, engine=engine)[0], expected, rtol=1e-12)
    out = np.empty((4, 2)), np.empty((4, 2, 3))
    assert cost(q, TARGET, out=out[0]) is out[0]


def test_arrays_of_any_shape():
    product = nlink.function(lambda A, x, s: s * (A @ x), (2, 3), 3, ())
    A, x = np.arange(6.0).reshape(2, 3), np.array([1.0, 0.5, 2.0])
    by_A, by_x, by_s = product.jacobian(A, x, 2.0, engine="numpy")
    assert by_A.shape == (2, 2, 3)
    assert np.array_equal(by_x, 2 * A)
    assert np.array_equal(by_s, A @ x)
    with pytest.raises(ValueError, match=r"gives an array of shape \(2,\), expected a number"):
        product.gradient(A, x, 2.0)
    with pytest.raises(ValueError, match=r"A: shape \(3,\), expected \(..., 2, 3\)"):
        product(x, x, 2.0)


@pytest.mark.parametrize(("f", "shapes", "message"), [
    (lambda x: "no number", (1,), "gives a str, expected a number"),
    (lambda x: (x[0], x), (2,), "gives a ndarray, expected a number"),
    (lambda x: x, (-1,), "shapes: -1, expected"),
    (lambda x: x, ("ab",), "shapes: 'ab', expected"),
    (lambda: 1.0, (), "shapes: none, expected one for each argument"),
    (3, (1,), "f: 3, expected a function"),
])
def test_what_is_no_function_of_arrays_is_refused(f, shapes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        nlink.function(f, *shapes)


def test_a_function_says_what_it_takes():
    assert repr(nlink.function(lambda x, A: A @ x, 2, (3, 2))).endswith("x (2,), A (3, 2) -> (3,)>")


@pytest.mark.parametrize("use", [
    lambda x: np.linalg.solve(np.array([[x[0], 1.0], [0.0, 2.0]]), x),
    lambda x: np.linalg.inv(np.outer(x, x)),
    lambda x: np.hypot(x, 1.0),
    lambda x: np.round(x, 1),
    lambda x: np.heaviside(x, 1.0),
], ids=["solve", "inv", "hypot", "round", "heaviside"])
def test_what_numpy_cannot_do_with_traced_values_is_said_in_a_sentence(use):
    message = "traced values, expected numbers: use functions of nlink, or simulate with traced="
    with pytest.raises(TypeError, match=message):
        nlink.function(use, 2)
    with pytest.raises(TypeError, match=message):
        nlink.simulate(ROBOT, t=0.1, tau=lambda t, q, qd: np.resize(use(q[:2]), 3))


def test_products_take_what_those_of_robots_take():
    one, two = nlink.function(lambda x: x * x, 2), nlink.function(lambda x, u: x @ x * u, 2, ())
    x, v = np.array([1.0, 2.0]), np.array([0.5, -0.3])
    np.testing.assert_array_equal(one.jvp(x, v), one.jvp((x,), (v,)))
    np.testing.assert_array_equal(one.hvp(x, v, v), one.hvp((x,), v, (v,)))
    np.testing.assert_array_equal(two.jvp((x, 3.0), (v, None)), two.jvp((x, 3.0), (v, 0.0)))


@pytest.mark.parametrize(("call", "message"), [
    (lambda f, x: f.jvp(x, (x, 1.0)), r"args: 1 array, expected 2 \(x, u\)"),
    (lambda f, x: f.jvp((x, 1.0), (x,)), r"tangents: 1 array, expected 2 \(x, u\)"),
    (lambda f, x: f.jvp((x, 1.0), (x[:1], 1.0)),
     r"tangents \(x\): shape \(1,\), expected \(..., 2\)"),
    (lambda f, x: f.vjp((x, 1.0), None), "cotangent: dtype object does not convert"),
])
def test_products_name_the_argument_that_does_not_fit(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(nlink.function(lambda x, u: x @ x * u, 2, ()), np.ones(2))
