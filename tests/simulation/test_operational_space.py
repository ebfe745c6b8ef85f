"""Control in operational space: the frame's error obeys the equation the gains say."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.simulation import Cycloid, OperationalSpace, Spline

START = {"panda": [0.1, -0.6, 0.2, -1.8, 0.1, 1.4, 0.3], "ur5": [0.3, -1.2, 1.4, -0.5, 1.0, 0.2]}
ROBOTS = {name: nlink.load(name) for name in START}
OFFSET = np.array([0.05, -0.08, 0.04])


def critical(t, start):
    """e'' + 10 e' + 25 e = 0 from rest."""
    return start * (1 + 5 * t[:, None]) * np.exp(-5 * t[:, None])


@pytest.mark.slow
@pytest.mark.parametrize("name", START)
@pytest.mark.parametrize("pose", [False, True])
def test_the_error_of_the_position_is_linear(name, pose):
    robot, q0 = ROBOTS[name], START[name]
    there = robot.pose(q0)
    controller = OperationalSpace(robot, there[:3, 3] + OFFSET, 25.0, 10.0,
                                  orientation=there[:3, :3] if pose else None)
    run = nlink.simulate(robot, q0, t=1.5, tau=controller)
    error = there[:3, 3] + OFFSET - run.path()
    assert np.abs(error - critical(run.t, OFFSET)).max() <= 1e-9
    if pose:
        assert np.abs(robot.pose(run.q)[:, :3, :3] - there[:3, :3]).max() <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", START)
def test_the_error_of_the_orientation_is_that_of_a_pendulum(name):
    """Turned about a fixed axis by an angle a: a'' + kd a' + kp sin a = 0."""
    from scipy.integrate import solve_ivp

    robot, q0 = ROBOTS[name], START[name]
    there, angle = robot.pose(q0), 0.6
    c, s = np.cos(angle), np.sin(angle)
    turned = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ there[:3, :3]
    controller = OperationalSpace(robot, there[:3, 3], 25.0, 10.0, orientation=turned)
    run = nlink.simulate(robot, q0, t=1.0, every=0.1, tau=controller)
    between = turned @ robot.pose(run.q)[:, :3, :3].transpose(0, 2, 1)
    got = np.arctan2(between[:, 1, 0] - between[:, 0, 1], between[:, 0, 0] + between[:, 1, 1])
    expected = solve_ivp(lambda t, y: [y[1], -10 * y[1] - 25 * np.sin(y[0])], (0, 1), [angle, 0],
                         t_eval=run.t, rtol=1e-11, atol=1e-13).y[0]
    assert np.abs(got - expected).max() <= 1e-8
    assert np.abs(between[:, 2, 2] - 1).max() <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Cycloid, Spline])
def test_a_path_is_followed(kind):
    robot, q0 = ROBOTS["panda"], START["panda"]
    x = robot.pose(q0)[:3, 3]
    path = Cycloid(x, x + OFFSET, 1.0) if kind is Cycloid else Spline(
        [0.0, 0.4, 1.0], [x, x + np.array([0, 0, 0.05]), x + OFFSET])
    run = nlink.simulate(robot, q0, t=1.2, tau=OperationalSpace(robot, path, 100.0, 20.0))
    assert np.abs(run.path() - path(run.t)[0]).max() <= 1e-7


@pytest.mark.slow
def test_an_orientation_may_move():
    """A turn about z by t^2/2: angular velocity t, angular acceleration 1."""
    robot, q0 = ROBOTS["panda"], START["panda"]
    there = robot.pose(q0)

    def turning(t):
        c, s = nlink.cos(t * t / 2), nlink.sin(t * t / 2)
        Rz = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        return Rz @ there[:3, :3], (0, 0, t), (0, 0, 1)

    run = nlink.simulate(robot, q0, t=0.6, tau=OperationalSpace(
        robot, there[:3, 3], 100.0, 20.0, orientation=turning))
    wanted = np.array(turning(float(run.t[-1]))[0], dtype=float)
    assert np.abs(robot.pose(run.q[-1])[:3, :3] - wanted).max() <= 1e-8


@pytest.mark.slow
def test_motion_the_task_does_not_see_is_damped():
    robot, q0 = ROBOTS["panda"], np.array(START["panda"])
    J, there = robot.jacobian(q0), robot.pose(q0)
    unseen = np.linalg.svd(J)[2][-1] * 0.3
    left = []
    for damping in (0.0, 4.0):
        controller = OperationalSpace(robot, there[:3, 3], 25.0, 10.0, orientation=there[:3, :3],
                                      damping=damping)
        run = nlink.simulate(robot, q0, unseen, t=1.5, tau=controller)
        assert np.abs(run.path() - there[:3, 3]).max() <= 1e-9
        left.append(np.linalg.norm(run.qd[-1]))
    assert left[0] > 0.1
    assert left[1] < 0.01


@pytest.mark.slow
def test_it_is_khatibs_law():
    robot = ROBOTS["panda"]
    rng = np.random.default_rng(0)
    q, qd = np.array(START["panda"]), rng.normal(size=7)
    goal, R = rng.normal(size=3), robot.pose(q)[:3, :3]
    controller = OperationalSpace(robot, goal, [1, 2, 3, 4, 5, 6], 2.0, orientation=R, damping=0.7)
    tau = np.array(controller(0.0, q, qd), dtype=float)
    J, M, L = robot.jacobian(q), robot.mass_matrix(q), robot.operational_inertia(q)
    a = np.concatenate([np.zeros(3), np.array([4, 5, 6]) * (goal - robot.pose(q)[:3, 3])])
    F = L @ (a - 2.0 * J @ qd - robot.jacobian_dot_qd(q, qd))
    N = np.eye(7) - J.T @ L @ J @ np.linalg.inv(M)
    friction = robot.inverse_dynamics(q, qd, np.zeros(7)) - robot.bias(q, qd)
    khatib = J.T @ F + robot.bias(q, qd) + friction + N @ (-0.7 * M @ qd)
    assert np.abs(tau - khatib).max() <= 1e-10 * np.abs(khatib).max()


def test_wrong_tasks_are_refused():
    panda, planar = ROBOTS["panda"], nlink.load("double_pendulum")
    with pytest.raises(ValueError, match="double_pendulum has 2 rates, expected at least 3"):
        OperationalSpace(planar, [0, 0, 0], 1.0, 1.0)
    with pytest.raises(ValueError, match="desired: 2 coordinates, expected 3"):
        OperationalSpace(panda, [0, 0], 1.0, 1.0)
    with pytest.raises(ValueError, match="expected a finite number, or 3 of them"):
        OperationalSpace(panda, [0, 0, 0], [1.0, 2.0], 1.0)
    with pytest.raises(ValueError, match="damping: -1, expected a number >= 0"):
        OperationalSpace(panda, [0, 0, 0], 1.0, 1.0, damping=-1)
    with pytest.raises(ValueError, match="orientation: expected a 3x3 rotation matrix"):
        OperationalSpace(panda, [0, 0, 0], 1.0, 1.0, orientation=2 * np.eye(3))
    with pytest.raises((ValueError, KeyError), match="nowhere"):
        OperationalSpace(panda, [0, 0, 0], 1.0, 1.0, frame="nowhere")
