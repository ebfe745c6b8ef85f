"""Differential inverse kinematics: the solution of a box-constrained problem, in one call."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import nlink
from nlink.kinematics.steps import Reaching

Q = np.array([0.1, -0.3, 0.2, -2.2, 0.1, 2.0, 0.8])


@pytest.fixture(scope="module")
def panda():
    return nlink.load("panda")


@pytest.mark.slow
def test_it_solves_the_boxed_least_squares(panda):
    """Against SciPy's bounded least squares, twists so fast that many limits count."""
    rng = np.random.default_rng(0)
    q = Q + rng.uniform(-0.4, 0.4, (200, 7))
    twist = rng.normal(size=(200, 6)) * rng.uniform(0.1, 6.0, (200, 1))
    posture = Q + rng.uniform(-1, 1, (200, 7))
    qd = panda.velocity_ik(q, twist, posture=posture, gain=2.0, damping=0.05)
    fast = panda.limits.velocity
    assert (np.abs(qd) <= fast).all()
    scale = np.array([1] * 3 + [1 / Reaching(panda, (), posture=False).length] * 3)
    at_bounds = 0
    for k in range(200):
        A = np.vstack([scale[:, None] * panda.jacobian(q[k]), 0.05 * np.eye(7)])
        b = np.concatenate([scale * twist[k], 0.05 * 2.0 * (posture[k] - q[k])])
        best = lsq_linear(A, b, (-fast, fast), tol=1e-14, method="bvls").x
        assert np.abs(qd[k] - best).max() < 1e-9
        at_bounds += int((np.abs(best) >= fast).any())
    assert at_bounds > 50


def test_no_coordinate_is_led_past_its_limit(panda):
    q = panda.limits.upper - 1e-4
    qd = panda.velocity_ik(q, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0], dt=1e-2)
    assert (q + 1e-2 * qd <= panda.limits.upper + 1e-15).all()
    assert panda.velocity_ik(q, np.ones(6)).max() > 1e-2


def test_a_posture_does_not_disturb_the_twist(panda):
    twist = np.array([0.1, 0, 0, 0, 0.05, 0])
    qd = panda.velocity_ik(Q, twist, posture=np.zeros(7), damping=1e-4)
    assert np.abs(panda.jacobian(Q) @ qd - twist).max() < 1e-5
    assert np.abs(qd - panda.velocity_ik(Q, twist, damping=1e-4)).max() > 0.05


def test_loops_stay_closed():
    bar = nlink.load("four_bar")
    q = bar.loops.assemble(bar.neutral)
    along = bar.velocity_ik(q, [0, 0, 0.3, 0, 0, 0], frame=bar.links[0].name)
    assert np.abs(along).max() > 0.1
    assert np.abs(bar.compute("closure_jacobian", q) @ along).max() < 1e-5


def test_an_ik_loop_reaches_its_target(panda):
    T = panda.pose(Q + 0.1)
    q = Q.copy()
    for _ in range(60):
        here = panda.pose(q)
        error = nlink.log3(T[:3, :3] @ here[:3, :3].T)
        qd = panda.velocity_ik(q, 10 * np.concatenate([error, T[:3, 3] - here[:3, 3]]), dt=0.05)
        q = q + 0.05 * qd
    assert np.abs(panda.pose(q) - T).max() < 1e-8


def test_wrong_arguments_are_named(panda):
    with pytest.raises(ValueError, match="damping: 0"):
        panda.velocity_ik(Q, np.zeros(6), damping=0)
    with pytest.raises(ValueError, match="twist"):
        panda.velocity_ik(Q, np.zeros(5))
    with pytest.raises(ValueError, match=r"out .qd.: shape \(2, 7\), expected \(7,\)"):
        panda.velocity_ik(Q, np.zeros(6), out=np.empty((2, 7)))
