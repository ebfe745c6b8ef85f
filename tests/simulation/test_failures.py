"""What is wrong is said: in the status of a trajectory, or in one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.simulation import PD, Cycloid, FeedForward, OperationalSpace, Payload, apply

DOUBLE = nlink.load("double_pendulum")
START = [0.1, 0.2]


def lost(t, q, qd):
    """Joint forces that are not numbers after half a second."""
    return [nlink.sqrt(0.5 - t), 0.0]


@pytest.mark.parametrize("method", ["rkf45", "lsoda"])
@pytest.mark.parametrize("tau", [lost, np.where(np.arange(101)[:, None] > 50, np.nan, [0.0, 0.0])],
                         ids=["law", "table"])
def test_a_trajectory_that_is_lost_says_so(method, tau):
    with np.errstate(invalid="ignore"):
        run = nlink.simulate(DOUBLE, START, t=1.0, tau=tau, method=method)
    assert run.status == "not finite"
    assert 0.4 <= run.t_end <= 0.51
    assert np.isfinite(run.q[:40]).all()
    assert np.isnan(run.q[-1]).all()


@pytest.mark.parametrize("method", ["rkf45", "rk4", "lsoda", "radau"])
def test_no_method_takes_more_steps_than_allowed(method):
    run = nlink.simulate(DOUBLE, START, t=1.0, method=method, max_steps=5)
    assert run.status == "too many steps"
    assert run.stats.steps + run.stats.rejects == 5
    assert run.t_end < 1.0


@pytest.mark.parametrize("method", ["rkf45", "dop853", "rk4", "lsoda"])
@pytest.mark.parametrize("t", [1e-12, 1e-4])
def test_a_time_shorter_than_between_outputs_has_its_two_ends(method, t):
    run = nlink.simulate(DOUBLE, START, t=t, every=1e6, method=method)
    assert run.t.tolist() == [0.0, t]
    assert run.ok
    assert np.abs(run.q - START).max() <= 100 * t * t


def test_laws_of_another_width_are_refused_in_a_sentence():
    planar = nlink.load("planar3")
    law = PD(planar, [0.0, 0.0, 0.0], 1.0, 1.0)
    for traced in (True, False):
        with pytest.raises(ValueError, match="a control law for planar3, of 3 coordinates"):
            nlink.simulate(DOUBLE, t=0.1, tau=law, traced=traced)
        with pytest.raises(ValueError, match="gave 3 values, expected 2"):
            nlink.simulate(DOUBLE, t=0.1, tau=lambda t, q, qd: [1.0, 2.0, 3.0], traced=traced)
    with pytest.raises(ValueError, match="desired: 3 coordinates, expected 2"):
        FeedForward(DOUBLE, Cycloid([0, 0, 0], [1, 1, 1], 1.0))
    with pytest.raises(ValueError, match="desired: 1 accelerations, expected 2"):
        FeedForward(DOUBLE, lambda t: ([0, 0], [0, 0], [0]))
    with pytest.raises(ValueError, match="desired: 2 values at t = 0"):
        FeedForward(DOUBLE, lambda t: ([0, 0], [0, 0]))
    held = FeedForward(DOUBLE, [0.3, 0.1])(0.0, START, START)
    assert np.allclose(held, DOUBLE.gravity_torque([0.3, 0.1]))


def test_an_algorithm_in_a_law_names_what_has_the_wrong_width():
    with pytest.raises(ValueError, match="q: 3 values, expected 2 for gravity_torque"):
        apply(DOUBLE, "gravity_torque", [0.0, 1.0, 2.0])
    with pytest.raises(TypeError, match="inverse_dynamics: 2 arguments, expected q, qd, qdd"):
        apply(DOUBLE, "inverse_dynamics", [0.0, 1.0], [0.0, 1.0])


def test_a_control_of_a_coupled_robot_has_its_width():
    lead, follow = DOUBLE.description.joints
    two = replace(DOUBLE.description, joints=(
        lead, replace(follow, mimic=nlink.Mimic(lead.name, -2.0))))
    law = nlink.Coupled(nlink.Robot(two)).law(lambda t, q, qd: [1.0, 2.0])
    for traced in (True, False):
        with pytest.raises(ValueError, match="gave 2 values, expected 1"):
            nlink.simulate(nlink.Robot(two), t=0.1, tau=law, traced=traced)


@pytest.mark.parametrize(("inertia", "said"), [
    ([[1, 2, 3], [0, 1, 0], [0, 0, 1]], "not symmetric"), (-np.eye(3), "principal moment -1")])
def test_payloads_have_inertias(inertia, said):
    with pytest.raises(ValueError, match=f"vary: inertia .*{said}"):
        nlink.simulate(DOUBLE, t=0.1, vary={"payload": Payload(1.0, inertia=inertia)})
    some = Payload([1.0, 1.0], inertia=[np.eye(3), np.full((3, 3), np.nan)])
    assert nlink.simulate(DOUBLE, t=0.1, vary={"payload": some}).status.tolist() == [
        "done", "not finite"]


def test_a_reflection_is_no_orientation():
    with pytest.raises(ValueError, match="orientation: expected a 3x3 rotation matrix"):
        OperationalSpace(nlink.load("puma560"), [0.3, 0.2, 0.4], 1.0, 1.0,
                         orientation=np.diag([1.0, 1.0, -1.0]))
