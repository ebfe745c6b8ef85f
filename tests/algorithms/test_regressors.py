"""Regressors: what is linear in the parameters, with friction and rotors, beside Pinocchio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlink
from nlink import Friction, Robot
from nlink.formats.bridges import to_pinocchio
from nlink.testing import robots, samples
from nlink.testing.samples import difference, friction, inertial_parameters, torque_scale

ALL = ("viscous", "dry", "stribeck")


def rubbing(robot: Robot, seed: int) -> Robot:
    """The same mechanism with Stribeck's curve in its joints."""
    rng = np.random.default_rng(seed)
    return Robot(replace(robot.description, joints=tuple(replace(joint, friction=Friction(
        *rng.uniform(0.1, 1.0, 2), 1.5, rng.uniform(0.1, 1.0))) if joint.type.nv else joint
        for joint in robot.joints)))


@pytest.mark.slow
@given(robot=robots(max_bodies=4), seed=st.integers(0, 99))
def test_forces_are_the_regressor_times_the_parameters(robot, seed):
    robot = rubbing(robot, seed)
    x = samples(robot, seed, states=4)
    Y = robot.regressor(x.q, x.qd, x.qdd, friction=ALL, armature=True, width=1e-300,
                        engine="numpy")
    assert Y.shape[-1] == len(robot.parameter_names(ALL, armature=True))
    tau = robot.inverse_dynamics(x.q, x.qd, x.qdd, engine="numpy")
    pi = robot.parameters(ALL, armature=True)
    assert difference(Y @ pi, tau, torque_scale(robot)) < 1e-12
    assert difference(robot.parameters(), inertial_parameters(robot)) < 1e-12


def test_friction_columns_are_what_they_say():
    robot = nlink.load("double_pendulum")
    q, qd = robot.random_state(1, (5,))
    plain = robot.regressor(q, qd, qd)
    Y = robot.regressor(q, qd, qd, friction=("viscous", "coulomb", "offset", "asymmetric"),
                        width=0.5)
    assert np.array_equal(Y[..., :20], plain)
    blocks = np.split(Y[..., 20:], 4, axis=-1)
    for block, expected in zip(blocks, (qd, np.tanh(qd / 0.5), np.ones_like(qd), np.abs(qd)),
                               strict=True):
        assert np.allclose(block, expected[..., None] * np.eye(2))
    two = robot.regressor(q, qd, qd, friction=["asymmetric"], width=0.5)[..., 22:]
    assert np.allclose(two, np.abs(np.tanh(qd / 0.5))[..., None] * np.eye(2))
    out = np.empty_like(Y)
    assert robot.regressor(q, qd, qd, friction=("viscous", "coulomb", "offset", "asymmetric"),
                           width=0.5, out=out) is out
    assert np.array_equal(out, Y)


def test_pinocchio_has_the_same_columns_where_links_are_fixed_to_links():
    """Its parameters are those of merged bodies in the frames of joints, which a URDF's links
    share."""
    robot = nlink.testing.random_robot(8, 5, types=("revolute", "prismatic"), friction=False)
    d = robot.description
    robot = Robot(replace(d, frames=(), joints=tuple(replace(
        joint, placement=nlink.Mount(joint.placement.before)) for joint in d.joints)))
    assert len(robot.links) > robot.n
    model = to_pinocchio(robot.description)
    x = samples(robot, states=1)[0]
    expected = pin.computeJointTorqueRegressor(model, model.createData(), x.q, x.qd, x.qdd)
    axes = [joint.type.axis for joint in robot.moving_joints]
    assert expected.shape == (robot.n, 10 * robot.n), axes
    assert difference(robot.regressor(x.q, x.qd, x.qdd, engine="numpy"), expected) < 1e-12


def test_momenta_change_by_what_joints_feel():
    """d/dt (M qd) = tau - gravity forces + C^T qd: regressors of momenta and of forces agree."""
    robot = nlink.load("planar3")
    x = samples(robot, states=3)
    h = 1e-6

    def momentum(s: float) -> np.ndarray:
        return robot.momentum_regressor(x.q + s * x.qd, x.qd + s * x.qdd, engine="numpy")

    C = robot.coriolis_matrix(x.q, x.qd, engine="numpy")
    tau = robot.regressor(x.q, x.qd, x.qdd, engine="numpy") @ robot.parameters()
    rate = (momentum(h) - momentum(-h)) @ robot.parameters() / (2 * h)
    known = robot.gravity_torque(x.q) - np.einsum("kji,kj->ki", C, x.qd)
    assert np.allclose(rate, tau - known, atol=1e-6)
    assert not friction(robot, x.qd).any()


def test_what_is_no_column_is_refused():
    robot = nlink.load("double_pendulum")
    state = np.zeros((3, 2))
    with pytest.raises(ValueError, match="friction: 'drag', expected some of viscous, coulomb"):
        robot.regressor(*state, friction=("drag",))
    with pytest.raises(ValueError, match="friction: 'viscous', expected names"):
        robot.parameters("viscous")
    with pytest.raises(ValueError, match=r"width: 0.0, expected a positive number, or 2 of them"):
        robot.regressor(*state, friction=("coulomb",), width=0.0)
    with pytest.raises(ValueError, match=r"out: shape \(2, 20\), expected \(2, 22\)"):
        robot.regressor(*state, friction=("viscous",), out=np.empty((2, 20)))
