"""A humanoid with a floating base that holds a bar with both hands."""

import numpy as np
import pytest

import nlink
from nlink.bench.bench_robots import example_robot

HANDS = "gripper_left_base_link", "gripper_right_base_link"


@pytest.fixture(scope="module")
def robot() -> nlink.Robot:
    path = example_robot("talos_reduced.urdf")
    if path is None:
        pytest.skip("example-robot-data is not installed")
    free = nlink.load(path, floating=True, physical="ignore")
    left, right = (free.pose(free.neutral, hand, engine="numpy") for hand in HANDS)
    apart = np.linalg.inv(right) @ left
    return free.with_loops([{
        "name": "bar", "joint": "fixed", "of": {"link": HANDS[0]},
        "on": {"link": HANDS[1], "xyz": apart[:3, 3].tolist(),
               "rotation": apart[:3, :3].tolist()}}])


@pytest.mark.slow
def test_a_bar_between_the_hands_obeys_the_dense_equations(robot: nlink.Robot) -> None:
    """J and Jdot qd from the Jacobians of the hands, the system solved densely."""
    q, n = robot.neutral, robot.n
    rng = np.random.default_rng(0)
    tau = rng.normal(size=n)
    tree = robot.tree

    def moving(hand: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return (tree.pose(q, hand, engine="numpy")[:3, 3],
                tree.jacobian(q, hand, engine="numpy"), hand)

    (p, J, left), (other, K, right) = map(moving, HANDS)
    r = p - other
    shift = np.eye(6)
    shift[3:, :3] = -np.array([[0, -r[2], r[1]], [r[2], 0, -r[0]], [-r[1], r[0], 0]])
    rows = J - shift @ K  # twist of the left hand against the bar in the right one
    rates = rng.normal(size=n)
    qd = rates - np.linalg.pinv(rows) @ (rows @ rates)
    w = (K @ qd)[:3]
    gamma = (tree.jacobian_dot_qd(q, qd, left, engine="numpy")
             - shift @ tree.jacobian_dot_qd(q, qd, right, engine="numpy"))
    gamma[3:] -= np.cross(w, np.cross(w, r))
    M = tree.mass_matrix(q, engine="numpy")
    h = tree.inverse_dynamics(q, qd, np.zeros(n), engine="numpy")
    system = np.block([[M, rows.T], [rows, np.zeros((6, 6))]])
    qdd = np.linalg.solve(system, np.concatenate([tau - h, -gamma]))[:n]
    ours = robot.forward_dynamics(q, qd, tau, engine="numpy")
    np.testing.assert_allclose(ours, qdd, atol=1e-10 * np.abs(qdd).max())


@pytest.mark.slow
def test_it_has_six_freedoms_less(robot: nlink.Robot) -> None:
    mobility = robot.loops.mobility()
    assert mobility.freedom == robot.n - 6
    assert mobility.redundant == 0
