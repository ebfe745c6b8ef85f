"""Stepper: the compiled step of `simulate`, one call at a time."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.simulation import Sampled

ARM = nlink.load("planar3")
START = np.random.default_rng(0).normal(scale=0.3, size=(2, 3, 3))
STEP = 1 / 512


def control(t, q, qd):
    return -40.0 * q - 5.0 * qd


@pytest.mark.parametrize("method", ["rk4", "rkf45"])
def test_steps_are_those_of_simulate_to_the_last_bit(method):
    robots = nlink.Stepper(ARM, START, step=STEP, method=method, threads=2)
    run = nlink.simulate(ARM, START, t=50 * STEP, tau=Sampled(control, STEP), every=STEP,
                         traced=False, method=method)
    for k in range(50):
        assert np.array_equal(robots.q, run.q[..., k, :])
        assert np.array_equal(robots.qd, run.qd[..., k, :])
        robots.step(control(0.0, robots.q, robots.qd))
    assert np.array_equal(robots.t, np.full((2, 3), 50 * STEP))
    assert np.array_equal(robots.q, run.q[..., -1, :])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk4", "rkf45", "dop853", "rodas5p", "semi_implicit"])
def test_steps_with_dry_friction_are_those_of_simulate_to_the_last_bit(method):
    """Joints stick and slide, long before the last step and near it."""
    arm, step = ARM.with_friction(dry=0.4, viscous=0.1), 1 / 64
    robots = nlink.Stepper(arm, START, START[..., ::-1], step=step, method=method)
    run = nlink.simulate(arm, START, START[..., ::-1], t=60 * step, tau=Sampled(control, step),
                         every=step, traced=False, method=method)
    assert (run.modes == 0).any()
    assert (run.modes != 0).any()
    for k in range(60):
        assert np.array_equal(robots.q, run.q[..., k, :])
        assert np.array_equal(robots.qd, run.qd[..., k, :])
        robots.step(control(0.0, robots.q, robots.qd))
    assert np.array_equal(robots.q, run.q[..., -1, :])


def test_reset_begins_anew_with_some():
    robots = nlink.Stepper(ARM, START, step=STEP)
    for _ in range(4):
        robots.step(np.ones(3))
    moved = robots.q
    some = np.zeros((2, 3), bool)
    some[1, 2] = True
    robots.reset(some, qd=[0.0, 0.0, 0.5])
    assert np.array_equal(robots.q[some], START[some])
    assert robots.qd[1, 2, 2] == 0.5
    assert np.array_equal(robots.q[~some], moved[~some])
    assert robots.t[1, 2] == 0.0
    robots.reset()
    for _ in range(4):
        robots.step(np.ones(3))
    assert np.array_equal(robots.q, moved)


def test_a_robot_that_fails_stays_and_can_be_reset():
    robots = nlink.Stepper(ARM, START, step=STEP)
    tau = np.zeros_like(START)
    tau[0, 1] = np.nan
    with pytest.warns(UserWarning, match=r"\(0, 1\) stopped at t = 0 \(not finite\)"):
        robots.step(tau)
    assert robots.status[0, 1] == "not finite"
    assert (robots.status != "running").sum() == 1
    robots.step()
    assert robots.t[0, 1] == 0.0
    assert robots.t[0, 0] == 2 * STEP
    robots.reset((0, 1))
    robots.step()
    assert (robots.status == "running").all()
    assert robots.t[0, 1] == STEP


def test_one_robot_has_no_batch():
    robot = nlink.Stepper(ARM, step=STEP)
    robot.step([1.0, 0.0, 0.0])
    assert robot.q.shape == (3,)
    assert robot.t == STEP
    assert robot.status == "running"
    assert "1 planar3" in repr(robot)


@pytest.mark.parametrize(("make", "said"), [
    (lambda: nlink.Stepper(ARM, step=0.0), "step: 0.0, expected a positive"),
    (lambda: nlink.Stepper(ARM, method="lsoda"), "method: 'lsoda', expected one that is compiled"),
    (lambda: nlink.Stepper(ARM).step([1.0]), r"tau: "),
    (lambda: nlink.Stepper(ARM, START).step(np.zeros((5, 3))), r"tau: shape \(5, 3\), expected"),
    (lambda: nlink.Stepper(ARM, START).reset(q=np.zeros((5, 3))), r"q: shape \(5, 3\), expected"),
])
def test_wrong_arguments_are_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()
