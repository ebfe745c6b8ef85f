"""Inverse kinematics: what was asked for is there, whatever the robot, the tasks and the batch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.iterations.descent import OUTCOME, Descent
from nlink.iterations.driver import drive
from nlink.kinematics.steps import Reaching
from nlink.model.joints import Revolute, Spherical
from nlink.model.mimics import Mimic
from nlink.testing import random_robot
from nlink.testing.mechanisms import EVERY

ARMS = ("panda", "ur5", "puma560")


def within(robot):
    """Limits for each rate, a turn where there are none."""
    lower, upper = Reaching(robot, (), posture=False).bounds()
    return (np.where(np.isfinite(lower), lower, -np.pi),
            np.where(np.isfinite(upper), upper, np.pi))


def targets(robot, count, seed=0):
    lower, upper = within(robot)
    q = np.random.default_rng(seed).uniform(lower, upper, (count, robot.n))
    return robot.pose(q)


def angle(R):
    """Of rotation matrices, also where it is small: |R - 1| = 2 sqrt(2) sin(angle / 2)."""
    size = np.linalg.norm(R - np.eye(3), axis=(-1, -2)) / math.sqrt(8)
    return 2 * np.arcsin(np.minimum(size, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("name", ARMS)
def test_reachable_poses_are_reached_within_the_limits(name):
    robot = nlink.load(name)
    T = targets(robot, 500)
    found = nlink.ik(robot, T)
    assert found.solved.mean() >= 0.998
    here = robot.pose(found.q)
    distance = np.linalg.norm(here[:, :3, 3] - T[:, :3, 3], axis=-1)
    turned = angle(np.swapaxes(here[:, :3, :3], -1, -2) @ T[:, :3, :3])
    assert (distance[found.solved] <= 1.001e-6).all()
    assert (turned[found.solved] <= 1.001e-6).all()
    assert np.allclose(found.distance, distance, atol=1e-9)
    assert np.allclose(found.angle, turned, atol=1e-8)
    lower, upper = Reaching(robot, (), posture=False).bounds()
    assert (found.q >= lower).all()
    assert (found.q <= upper).all()


@pytest.mark.slow
def test_results_depend_on_the_target_alone():
    robot = nlink.load("panda")
    T = targets(robot, 40)
    T[7, :3, 3] *= 10  # out of reach
    all_at_once = nlink.ik(robot, T)
    for threads in (1, 2):
        again = nlink.ik(robot, T[::-1].reshape(5, 8, 4, 4), threads=threads)
        assert np.array_equal(again.q.reshape(40, -1)[::-1], all_at_once.q)
    one = nlink.ik(robot, T[5])
    assert one.q.shape == (7,)
    assert one.error.shape == ()
    assert np.allclose(one.q, all_at_once.q[5], atol=1e-12)


def test_what_is_out_of_reach_ends_at_a_stationary_point():
    robot = nlink.load("planar3")
    found = nlink.ik(robot, [4.0, 3.0, 0.0])
    assert found.status == "stationary"
    # three unit rods stretched towards a point five metres away
    assert abs(found.distance - 2.0) < 1e-9
    assert np.allclose(robot.pose(found.q)[:2, 3], [2.4, 1.8], atol=1e-6)
    bad = nlink.ik(robot, [[math.nan, 0, 0], [1, 1, 0]])
    assert bad.status.tolist() == ["not finite", "solved"]
    assert np.isnan(bad.q[0]).all()


def test_limits_hold_and_may_be_left_out():
    arm = nlink.Robot.from_dh([
        {"joint": "revolute", "a": 1.0, "mass": 1, "com": (0, 0, 0), "inertia": (0.1, 0.1, 0.1),
             "limits": {"position": (-0.5, 0.5)}}] * 2)
    found = nlink.ik(arm, [0.0, 2.0, 0.0])
    assert found.status == "stationary"
    assert np.allclose(found.q, 0.5, atol=1e-9)
    free = nlink.ik(arm, [0.0, 1.5, 0.0], limits=False)
    assert free.solved
    assert np.abs(free.q).max() > 0.5


@pytest.mark.slow
def test_the_float_driver_takes_the_same_steps():
    robot = nlink.load("puma560")
    T = targets(robot, 3, seed=4)
    found = nlink.ik(robot, T)
    for k in range(3):
        problem = Reaching(robot, (nlink.ReachPose(T[k]),), posture=False)
        own = np.concatenate([T[k].ravel(), [1e6, 1e6]])
        programs = problem.programs()

        def called(name, own=own, programs=programs):
            return lambda t, y: np.array(
                [float(x) for x in programs[name]([t], list(y), list(own))[0]])

        end = drive(Descent(robot.nq), {"move": called("move"), "begin": called("begin"),
                                        "start_limit": 100.0},
                    {"y": np.zeros(problem.size)})
        assert end.status == OUTCOME["solved"]
        assert end.state.steps == found.iterations[k]
        assert np.allclose(end.state.best[:robot.nq], found.q[k], atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_mechanisms_of_every_joint_kind(seed):
    robot = random_robot(60 + seed, bodies=4, types=EVERY, fixed=False, tree=False)
    q, _ = robot.random_state(np.random.default_rng(seed))
    T = robot.pose(q, engine="python")
    found = nlink.ik(robot, T)
    assert found.solved
    assert np.abs(robot.pose(found.q, engine="python") - T).max() < 3e-6


@pytest.mark.slow
def test_tasks_of_several_frames_axes_points_and_the_mass_center():
    robot = nlink.load("panda")
    T = targets(robot, 20, seed=3)
    middle = robot.links[3].name
    found = nlink.ik(robot, T[:, :3, 3], tasks=[nlink.AlignAxis([0, 0, -1])])
    here = robot.pose(found.q[found.solved])
    assert found.solved.sum() >= 10
    assert np.abs(here[:, :3, 2] - [0, 0, -1]).max() < 2e-6

    point = np.array([1.0, 0.2, 0.3])
    found = nlink.ik(robot, tasks=[nlink.LookAt(point), nlink.ReachPosition([0.4, 0.1, 0.5])])
    here = robot.pose(found.q)
    assert found.solved
    assert np.linalg.norm(here[:3, 3] - [0.4, 0.1, 0.5]) < 2e-6
    away = (point - here[:3, 3]) / np.linalg.norm(point - here[:3, 3])
    assert np.linalg.norm(np.cross(here[:3, 2], away)) < 2e-6
    assert here[:3, 2] @ away > 0

    q = np.array([0.4, -0.3, 0.2, -1.8, 0.3, 1.5, 0.1])
    wanted = robot.pose(q, middle)[:3, 3], robot.center_of_mass(q)
    found = nlink.ik(robot, tasks=[nlink.ReachPosition(wanted[0], frame=middle),
                                   nlink.ReachMassCenter(wanted[1]),
                                   nlink.ReachOrientation(robot.pose(q)[:3, :3])])
    assert found.solved
    assert np.abs(robot.center_of_mass(found.q) - wanted[1]).max() < 2e-6


@pytest.mark.slow
def test_a_posture_moves_what_the_task_leaves_free():
    robot = nlink.load("panda")
    q = np.array([0.4, -0.3, 0.2, -1.8, 0.3, 1.5, 0.1])
    T = robot.pose(q)
    found = nlink.ik(robot, T, q0=q + 0.2, posture=q)
    assert found.solved
    assert np.abs(found.q - q).max() < 1e-5
    moved = q + 0.3 * np.eye(7)[0]
    other = nlink.ik(robot, T, q0=q, posture=moved)
    assert other.solved
    assert abs(other.q[0] - q[0]) > 0.05
    J = robot.jacobian(other.q)
    # no motion that the task allows comes closer to the posture
    free = np.linalg.svd(J)[2][6:]
    assert abs(free @ (moved - other.q)).max() < 1e-4


@pytest.mark.slow
def test_a_posture_beyond_the_limits_is_come_as_close_to_as_they_allow():
    """z - J^T l = mu, which pushes outward at bounds and is zero elsewhere, also from a start that
    has the target already."""
    robot = nlink.load("panda")
    lower, upper = robot.limits.lower, robot.limits.upper
    rng = np.random.default_rng(0)
    q0 = rng.uniform(lower, upper, (60, 7))
    wanted = rng.uniform(lower - 0.5, upper + 0.5, (60, 7))
    found = nlink.ik(robot, robot.pose(q0)[:, :3, 3], posture=wanted, q0=q0)
    assert found.error.max() < 1e-6
    assert found.solved.mean() > 0.7
    held = 0
    for q, posture in zip(found.q[found.solved], wanted[found.solved], strict=True):
        z, J, free = posture - q, robot.jacobian(q)[3:], (lower < q) & (q < upper)
        mu = z - J.T @ np.linalg.lstsq(J[:, free].T, z[free])[0]
        assert np.abs(mu[free]).max() < 1e-5
        assert (mu[~free] * np.where(q >= upper, 1, -1)[~free] > -1e-5).all()
        held += int((~free).any())
    assert held > 10


@pytest.mark.slow
@pytest.mark.parametrize("first", [Revolute(), Spherical()])
def test_joints_that_mimic_follow(first):
    """Also where coordinates and rates of the joints before are not as many."""
    robot = random_robot(3, 4, types=("revolute",), fixed=False, tree=False)
    joints = list(robot.joints)
    joints[0] = replace(joints[0], type=first)
    joints[2] = replace(joints[2], mimic=Mimic("joint2", 0.5, 0.1))
    robot = nlink.Robot(replace(robot.description, joints=tuple(joints)))
    q, _ = robot.random_state(1)
    lead, own = (robot.q_index(name) for name in ("joint2", "joint3"))
    q[own] = 0.5 * q[lead] + 0.1
    found = nlink.ik(robot, robot.pose(q), q0=q + 0.01)
    assert found.solved
    assert np.isclose(found.q[own], 0.5 * found.q[lead] + 0.1, atol=1e-8)
    qd = robot.velocity_ik(q, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    lead, own = (robot.qd_index(name) for name in ("joint2", "joint3"))
    assert abs(qd[lead]) > 1e-3
    assert abs(qd[own] - 0.5 * qd[lead]) < 1e-5


@pytest.mark.slow
def test_loops_stay_closed():
    bar = nlink.load("four_bar")
    q = bar.loops.assemble(bar.neutral)
    frame = bar.links[1].name
    start = bar.pose(q, frame)[:3, 3]
    found = nlink.ik(bar, start, frame=frame, q0=q)
    assert found.solved
    assert bar.loops.closed(found.q).all()


@pytest.mark.slow
def test_a_guess_is_where_the_search_begins():
    robot = nlink.load("ur5")
    q = np.array([0.3, -1.0, 1.2, -0.4, 0.5, 0.6])
    found = nlink.ik(robot, robot.pose(q), q0=q + 0.05)
    assert found.starts == 1
    assert np.abs(found.q - q).max() < 1e-4


@pytest.mark.parametrize("target", [np.empty((0, 4, 4)), np.empty((2, 0, 3))])
def test_no_targets_are_no_results(target):
    lead = target.shape[:target.shape.index(0) + 1]
    found = nlink.ik(nlink.load("planar3"), target)
    assert found.q.shape == (*lead, 3)
    assert found.status.shape == found.error.shape == lead


def test_a_rotation_is_one_solution():
    """A quaternion and its opposite are one configuration."""
    ball = random_robot(3, 1, types=("spherical",), fixed=False)
    q, _ = ball.random_state(1)
    ways = nlink.ik_all(ball, ball.pose(q), starts=20)
    assert len(ways) == 1
    assert np.isclose(abs(ways[0] @ q), 1.0)


@pytest.mark.parametrize(("wrong", "message"), [
    (lambda: nlink.ReachMassCenter([0, 0, 1], weight=-1), "weight: -1"),
    (lambda: nlink.ReachPosition([0, 0, 1], weight="heavy"), "weight: 'heavy'"),
    (lambda: nlink.AlignAxis([0, 0, 1], axis=np.eye(3)), "axis: shape"),
    (lambda: nlink.AlignAxis([0, 0, 0]), "target: a vector of length zero"),
    (lambda: nlink.ik_all(nlink.load("planar3"), None), "target: shape"),
    (lambda: nlink.ik(nlink.load("planar3").lock(["joint1", "joint2", "joint3"]), [1, 0, 0]),
     "no joint of planar3 moves"),
    (lambda: nlink.ik_all(nlink.load("planar3"), [1, 0, 0], starts=-1), "starts: -1"),
    (lambda: nlink.ik_all(nlink.load("planar3"), [1, 0, 0], apart=math.nan), "apart: nan"),
])
def test_wrong_tasks_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


@pytest.mark.parametrize(("arguments", "message"), [
    ({"target": np.eye(2)}, "expected poses"),
    ({"target": None}, "expected a pose"),
    ({"target": np.full((4, 4), 2.0)}, "last row"),
    ({"target": np.diag([2.0, 1, 1, 1])}, "not a rotation"),
    ({"target": np.eye(4), "frame": "nothing"}, "frame: 'nothing'"),
    ({"target": np.eye(4), "tolerance": 0.0}, "tolerance: 0.0"),
    ({"target": np.eye(4), "starts": 0}, "starts: 0"),
    ({"target": np.eye(4), "threads": -3}, "threads: -3"),
    ({"target": np.zeros((2, 4, 4)) + np.eye(4), "q0": np.zeros((3, 6))}, "do not broadcast"),
])
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        nlink.ik(nlink.load("puma560"), **arguments)


@pytest.mark.parametrize("search", [nlink.ik, nlink.ik_all, nlink.reach])
def test_what_is_no_robot_is_refused(search):
    with pytest.raises(TypeError, match=r"robot: <System of planar3: .*, expected a Rob"):
        search(nlink.System(nlink.load("planar3")), [1.0, 1.0, 0.0])
