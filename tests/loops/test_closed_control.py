"""Control of mechanisms with loops: motors do what is done, and targets are closed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink import Robot
from nlink.simulation import (
    PD,
    ComputedTorque,
    Cycloid,
    FeedForward,
    OperationalSpace,
    PDGravity,
    Rest,
    Spline,
)

FOUR_BAR = nlink.load("four_bar")
HOME = FOUR_BAR.neutral
THERE = FOUR_BAR.loops.assemble(HOME + np.array([0.4, 0.0, 0.0]), keep=["crank"])
OPEN = HOME + np.array([0.4, 0.0, 0.0])


def driven(robot: Robot) -> Robot:
    """With a motor on every joint."""
    d = robot.description
    return Robot(replace(d, joints=tuple(replace(joint, actuated=True) for joint in d.joints)))


@pytest.mark.slow
def test_tracking_laws_act_on_motors_alone():
    run = nlink.simulate(FOUR_BAR, t=3.0, every=0.1, rtol=1e-6, atol=1e-9,
                         tau=PD(FOUR_BAR, Cycloid(HOME, THERE, 2.0), 2e4, 500.0))
    assert run.status == "done"
    assert (run.tau[:, 1:] == 0).all()
    assert np.abs(run.tau[:, 0]).max() > 1
    assert np.abs(run.q[-1] - THERE).max() < 2e-3  # but for the sag of a spring
    balance = FOUR_BAR.loops.inverse_dynamics(run.q[-1], np.zeros(3), np.zeros(3))[0]
    assert run.tau[-1] == pytest.approx(balance, abs=0.05)


def test_joints_of_trees_without_motors_are_left_alone():
    d = nlink.load("double_pendulum").description
    shoulder, elbow = d.joints
    acrobot = Robot(replace(d, joints=(replace(shoulder, actuated=False), elbow)))
    assert PD(acrobot, [1.0, 1.0], 10.0, 1.0)(0.0, [0.0, 0.0], [0.0, 0.0]) == [0.0, 10.0]


@pytest.mark.slow
def test_computed_torque_moves_a_linkage_that_has_motors_everywhere():
    robot = driven(FOUR_BAR)
    run = nlink.simulate(robot, OPEN_FROM_THERE, t=3.0, every=0.1, rtol=1e-6, atol=1e-9,
                         tau=ComputedTorque(robot, Rest(THERE), 25.0, 10.0))
    assert np.abs(run.q[-1] - THERE).max() < 1e-3


OPEN_FROM_THERE = FOUR_BAR.loops.assemble(THERE + np.array([0.1, 0.0, 0.0]), keep=["crank"])


@pytest.mark.parametrize("controller", [
    lambda robot: PDGravity(robot, HOME, 1.0, 1.0),
    lambda robot: ComputedTorque(robot, HOME, 1.0, 1.0),
    lambda robot: FeedForward(robot, Rest(HOME))])
def test_forces_on_joints_without_motors_are_refused(controller):
    controller(driven(FOUR_BAR))
    with pytest.raises(ValueError, match=r"robot: four_bar has no motor on coupler, rocker, .*"
                                         r"; robot\.loops\.inverse_dynamics has"):
        controller(FOUR_BAR)


def test_an_object_in_hands_has_no_motor():
    arms = nlink.load("two_arms_box")
    with pytest.raises(ValueError, match="robot: two_arms_box has no motor on box, expected"):
        FeedForward(arms, Rest(arms.neutral))


@pytest.mark.parametrize("desired", [
    OPEN, Rest(OPEN), Cycloid(HOME, OPEN, 1.0), Spline([0.0, 1.0, 2.0], [HOME, OPEN, HOME]),
    lambda _t: (tuple(OPEN), (0.0,) * 3, (0.0,) * 3)])
def test_targets_are_closed(desired):
    with pytest.raises(ValueError, match=r"desired: the loop 'pin' is open by .* m, expected"):
        PD(FOUR_BAR, desired, 1.0, 1.0)


def test_operational_space_is_for_trees():
    arms = nlink.load("two_arms_box")
    with pytest.raises(ValueError, match="robot: two_arms_box has loops, expected a tree"):
        OperationalSpace(arms, [0.0, 0.0, 0.0], 1.0, 1.0)
