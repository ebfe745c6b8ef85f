"""Base parameters: counts that are known, and laws on random mechanisms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nlink
from nlink import Mount, Pose, Robot
from nlink.identification.base_parameters import base_parameters
from nlink.scalars.residues import PRIME, Residue, reduced, residue_of
from nlink.testing import robots
from nlink.testing.samples import difference

COUNTS = {"double_pendulum": 6, "planar3": 9, "stanford": 33, "puma560": 36, "ur5": 36,
          "panda": 43}
"""[Gautier, Khalil 1990] for the PUMA; 43 for the Panda as in [Gaz et al. 2019]."""


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_counts_of_known_robots(name, count):
    base = base_parameters(nlink.load(name))
    assert len(base) == count == len(base.formulas) == len(base.matrix)


def any_states(robot: Robot, seed: int, states: int):
    """Whatever the limits are."""
    rng = np.random.default_rng(seed)
    q = np.array(np.broadcast_arrays(*robot.mechanism.space.random(rng, (states,)))).T
    return q, *rng.normal(size=(2, states, robot.n))


def aligned(robot: Robot) -> Robot:
    """The same mechanism with exact quarter turns: random ones have some as files round them."""
    def exact(pose: Pose) -> Pose:
        R = np.round(pose.R)
        return Pose.of(R, pose.origin) if np.abs(R - pose.R).max() < 1e-4 else pose

    return Robot(replace(robot.description, joints=tuple(replace(joint, placement=Mount(
        exact(joint.placement.before), exact(joint.placement.after))) for joint in robot.joints)))


@pytest.mark.slow
@given(robot=robots(max_bodies=3), seed=st.integers(0, 99))
@settings(max_examples=12)
def test_base_columns_give_all_forces_and_are_independent(robot, seed):
    robot = aligned(robot)
    friction = ("viscous", "offset")
    base = base_parameters(robot, friction, armature=True)
    states = any_states(robot, seed, 3 * len(base.names) // robot.n + 20)
    Y = robot.regressor(*states, friction=friction, armature=True, engine="numpy")
    pi = robot.parameters(friction, armature=True)
    own = Y[..., base.columns]
    assert difference(own @ (base.matrix @ pi), Y @ pi) < 1e-11
    rows = own.reshape(-1, len(base))
    values = np.linalg.svd(rows / np.linalg.norm(rows, axis=0), compute_uv=False)
    assert values[-1] > 1e-7 * values[0]
    rank = np.linalg.matrix_rank(Y.reshape(len(rows), -1), tol=1e-9 * values[0])
    assert rank == len(base)


def test_a_quarter_turn_in_a_file_is_meant_as_one():
    """Rounded to five digits, it makes axes that are parallel but for 4e-6."""
    exact = nlink.load("ur5")

    def rounded(pose: Pose) -> Pose:
        turn = Pose.turn("x", 3.7e-6) @ Pose.turn("z", -2e-6)
        return pose @ turn

    robot = Robot(replace(exact.description, joints=tuple(replace(joint, placement=Mount(
        joint.placement.before, rounded(joint.placement.after))) for joint in exact.joints)))
    assert len(base_parameters(robot)) == 36
    states = any_states(robot, 0, 10)
    base, Y = base_parameters(robot), robot.regressor(*states, engine="numpy")
    error = difference(Y[..., base.columns] @ (base.matrix @ robot.parameters()),
                       Y @ robot.parameters())
    assert 1e-9 < error < 1e-4


def test_what_is_absorbed_is_said():
    base = base_parameters(nlink.load("planar3"))
    assert base.formulas[0] == "link1.mx + link1.m + link2.m + link3.m"
    assert base.absorbed["link3.m"] == ("link1.mx", "link1.Jzz", "link2.mx", "link2.Jzz",
                                        "link3.mx", "link3.Jzz")
    assert base.absorbed["link1.mz"] == ()
    assert "without effect: link1.mz" in str(base)
    locked = nlink.load("planar3").lock(["joint1"])
    flying = base_parameters(locked.with_base(floating=True))
    assert len(flying) == 10 + 7 + 7  # all of a free body, and what a hinge shows of a link
    assert len(base_parameters(locked.lock(["joint2", "joint3"]))) == 0


def test_coupled_motors_have_friction_of_their_own():
    robot = nlink.load("puma560")
    A = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
    A[5, 4] = 32.0
    base = base_parameters(robot, ("viscous", "offset"), armature=True, transmission=A)
    assert "motor6.viscous" in base.names
    assert "motor6.armature" in base.names
    assert "motor6.offset" not in base.names
    assert "joint6.armature" not in base.names
    assert len(base) == 36 + 6 + 1 + 6 + 4  # rotors of the first two joints are absorbed


@pytest.mark.parametrize(("given", "why"), [
    (np.eye(3), r"shape \(3, 3\), expected 2 ratios or a matrix \(2, 2\)"),
    (np.ones((2, 2)), "a singular matrix"), ([1.0, 0.0], "a singular matrix")])
def test_transmissions_that_are_none(given, why):
    with pytest.raises(ValueError, match=f"transmission: {why}"):
        base_parameters(nlink.load("double_pendulum"), transmission=given)


def test_arithmetic_modulo_a_prime():
    rng = np.random.default_rng(0)
    x, y = Residue.random((5,), rng), Residue.random((5,), rng)
    assert (((x + y) * (x - y) - (x * x - y * y)).values == 0).all()
    assert ((x / y * y - x).values == 0).all()
    assert (2 / x * x).values.tolist() == [2] * 5
    assert residue_of(0.75) * 4 % PRIME == 3
    assert (nlink.tanh(x).values == nlink.tanh(x).values).all()
    with pytest.raises(TypeError, match="atan2 of a number modulo a prime"):
        nlink.atan2(x, y)
    rows = np.array([[1, 2, 3], [2, 4, 6], [0, 1, 1]])
    pivots, echelon = reduced(rows)
    assert pivots == [0, 1]
    assert echelon.tolist() == [[1, 0, 1], [0, 1, 1]]
