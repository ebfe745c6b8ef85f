"""Forward dynamics and contact forces of arms on one object, against a dense KKT solve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kkt import Dense, relative

from nlink import Friction, Robot
from nlink.engines.engines import ENGINES
from nlink.model.constraints import CONSTRAINTS
from nlink.testing.closed import random_arms, random_closed_robot

BAR = 1e-10
SYSTEMS, BLOCK = 12, 3


def random_motion(dense: Dense, q: np.ndarray, seed: int):
    """Closed rates, joint forces and wrenches on links."""
    rng, n, links = np.random.default_rng(seed), dense.tree.n, len(dense.tree.links)
    qd = dense.closed_rates(q, rng.normal(size=n))
    return qd, rng.normal(size=n) * 5, rng.normal(size=(links, 6))


def assert_agrees(robot: Robot, seed: int, algorithms: tuple[str, ...], engine: str = "python"):
    dense, q = Dense(robot), robot.neutral
    qd, tau, f_ext = random_motion(dense, q, seed)
    assert np.abs(dense.rows(q, qd)[2]).max() < 1e-13, "the state is not closed"
    qdd, forces, J = dense.solve(q, qd, tau, f_ext)
    for algorithm in algorithms:
        found = robot.forward_dynamics(q, qd, tau, f_ext, engine=engine, algorithm=algorithm)
        assert relative(found, qdd) < BAR
    assert np.linalg.matrix_rank(J) == len(J)
    request = robot.request("closure_forces", wrenches=True)
    found = ENGINES[engine](request)(q, qd, tau, f_ext)
    assert relative(found, np.array(forces)) < BAR


@pytest.mark.slow
@pytest.mark.parametrize("block", range(SYSTEMS // BLOCK))
def test_arms_on_an_object_agree_with_kkt(block):
    """12 systems of 2 to 4 arms of 6 to 8 joints, held by every type of loop."""
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        assert_agrees(random_closed_robot(seed), seed, ("elimination", "early"))


@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_each_type_of_loop_agrees_with_kkt(kind):
    assert_agrees(random_closed_robot(1, arms=2, types=[kind]), 1, ("elimination", "early"))


@pytest.mark.parametrize("seed", range(8))
def test_deficient_arms_agree_with_kkt(seed):
    """Arms of 4 or 5 joints, which cannot follow an object everywhere."""
    kinds = ("fixed", "prismatic") if seed % 3 == 0 else tuple(CONSTRAINTS)
    robot = random_closed_robot(seed, arms=2, joints=4 + seed % 2, types=kinds)
    assert_agrees(robot, seed, ("elimination",))


def test_early_rows_are_refused_where_arms_are_too_short():
    robot = random_closed_robot(0, arms=2, joints=5, types=["fixed"])
    q = robot.neutral
    with pytest.raises(ValueError, match=r"'early', but no loop is held by a branch .*"
                                         r"expected 'elimination'"):
        robot.forward_dynamics(q, np.zeros(robot.n), np.zeros(robot.n), algorithm="early")


@pytest.mark.slow
def test_armature_and_friction_agree_with_kkt():
    """Armature on all joints but the object's own, which has none; friction on all."""
    rng, plain = np.random.default_rng(0), random_arms(3, arms=2, joints=6)
    joints = [replace(joint, armature=float(rng.uniform(0.1, 0.5)),
                      friction=Friction(*rng.uniform(0.1, 0.5, size=2).tolist()))
              for joint in plain.joints]
    joints[-1] = replace(joints[-1], armature=0.0)
    robot = Robot(replace(plain, joints=tuple(joints)))
    assert_agrees(robot, 3, ("elimination", "early"))
    dense, q = Dense(robot), robot.neutral
    qd, tau, _ = random_motion(dense, q, 3)
    found = robot.forward_dynamics(q, qd, tau, engine="python")
    assert relative(found, dense.solve(q, qd, tau)[0]) < BAR


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_the_default_agrees_with_kkt(seed):
    robot = random_closed_robot(seed, arms=2, joints=5 + seed)
    dense, q = Dense(robot), robot.neutral
    qd, tau, f_ext = random_motion(dense, q, seed)
    expected = dense.solve(q, qd, tau, f_ext)[0]
    assert relative(robot.forward_dynamics(q, qd, tau, f_ext, engine="numpy"), expected) < BAR


@pytest.mark.slow
def test_the_spin_of_a_soft_finger_needs_gamma():
    """Without Qdot (V_a - V_oa) the answer is far from right: the bias is really there."""
    robot = random_closed_robot(5, arms=2, joints=6, types=["soft_finger"])
    dense, q = Dense(robot), robot.neutral
    qd, tau, _ = random_motion(dense, q, 5)
    right = dense.solve(q, qd, tau)[0]
    J, gamma, _, _ = dense.rows(q, qd)
    spin = [0, 4]  # the rows that forbid spin about the normal
    change = dense.tree.jacobian_dot_qd
    naive = gamma.copy()
    for k, row in enumerate(spin):
        n = dense.tree.pose(q, f"end {2 * k + 1}")[:3, 2]
        naive[row] = n @ (change(q, qd, f"end {2 * k}") - change(q, qd, f"end {2 * k + 1}"))[:3]
    M = dense.tree.mass_matrix(q)
    K = np.block([[M, -J.T], [J, np.zeros((len(J), len(J)))]])
    wrong = np.linalg.solve(K, np.r_[tau - dense.tree.bias(q, qd), -naive])[:robot.n]
    assert np.abs(wrong - right).max() > 0.1
    assert relative(robot.forward_dynamics(q, qd, tau, engine="python"), right) < BAR


PAIRS = [("fixed",), ("soft_finger", "universal"), ("helical", "matrix")]


@pytest.mark.slow
@pytest.mark.parametrize("types", PAIRS)
def test_arrays_agree_with_kkt(types):
    robot = random_closed_robot(2, arms=2, joints=6, types=types)
    assert_agrees(robot, 2, ("elimination", "early"), "numpy")


@pytest.mark.slow
@pytest.mark.parametrize("types", PAIRS[:1])
def test_compiled_kernels_agree_with_kkt(types):
    robot = random_closed_robot(2, arms=2, joints=6, types=types)
    assert_agrees(robot, 2, ("elimination", "early"), "compiled")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_batches_equal_single_calls(engine):
    robot = random_closed_robot(4, arms=2, joints=6, types=["fixed", "soft_finger"])
    rng = np.random.default_rng(0)
    q, dense = np.broadcast_to(robot.neutral, (5, robot.nq)), Dense(robot)
    qd = np.array([dense.closed_rates(x, rng.normal(size=robot.n)) for x in q])
    tau = rng.normal(size=(5, robot.n))
    together = robot.forward_dynamics(q, qd, tau, engine=engine)
    for k in range(5):
        alone = robot.forward_dynamics(q[k], qd[k], tau[k], engine=engine)
        assert relative(together[k], alone) < 1e-13


@pytest.mark.slow
def test_nan_in_a_batch_stays_alone():
    robot = random_closed_robot(4, arms=2, joints=6, types=["fixed", "soft_finger"])
    q = robot.neutral
    qd, tau, _ = random_motion(Dense(robot), q, 4)
    many = np.tile(tau, (3, 1))
    many[1, 0] = np.nan
    found = robot.forward_dynamics(q, qd, many, engine="numpy")
    assert np.isnan(found[1]).any()
    assert np.array_equal(found[0], found[2])
    assert np.isfinite(found[0]).all()
