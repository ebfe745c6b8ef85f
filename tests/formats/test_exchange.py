"""States, forces and mass matrices in Pinocchio's terms and back."""

from __future__ import annotations

import numpy as np
import pytest
from mutations import URDF

from nlink import Robot
from nlink.formats.bridges import to_pinocchio
from nlink.formats.exchange import Exchange
from nlink.formats.urdf import parse_urdf
from nlink.testing import random_description
from nlink.testing.samples import difference

pin = pytest.importorskip("pinocchio")
TYPES = ("revolute", "prismatic", "helical", "universal", "planar", "spherical", "free")


@pytest.mark.parametrize("seed", range(15))
def test_pinocchio_agrees_on_every_joint(seed):
    description = random_description(seed, types=TYPES, friction=False)
    model = to_pinocchio(description)
    robot, x = Robot(description), Exchange.pinocchio(description, model)
    data = model.createData()
    q, qd = robot.random_state(seed)
    qdd = np.random.default_rng(seed).normal(size=robot.n)
    v, a = x.v(q, qd), x.a(q, qd, qdd)
    tau = pin.rnea(model, data, x.q(q), v, a)
    ours = robot.inverse_dynamics(q, qd, qdd, engine="python")
    assert difference(ours, x.tau_back(q, tau)) < 1e-12
    assert difference(x.tau(q, ours), tau) < 1e-12
    assert difference(qd @ ours, v @ tau) < 1e-12  # power is the same in both
    columns = np.array([pin.rnea(model, data, x.q(q), v, a + unit) - tau
                        for unit in np.eye(robot.n)]).T
    M = robot.mass_matrix(q, engine="python")
    assert difference(x.M(q, M), columns) < 1e-9
    assert difference(x.M_back(q, x.M(q, M)), M) < 1e-15


def test_frames_and_jacobians():
    description = random_description(2, 5, types=TYPES)
    model = to_pinocchio(description)
    robot, x, data = Robot(description), Exchange.pinocchio(description, model), model.createData()
    q, _ = robot.random_state(0)
    pin.framesForwardKinematics(model, data, x.q(q))
    for link in description.links:
        frame = model.getFrameId(link.name)
        assert difference(robot.pose(q, link.name, engine="python"),
                          data.oMf[frame].homogeneous) < 1e-13
        J = pin.computeFrameJacobian(model, data, x.q(q), frame, pin.LOCAL_WORLD_ALIGNED)
        ours = x.J(q, robot.jacobian(q, link.name, engine="python"))
        assert difference(ours, np.vstack([J[3:], J[:3]]), 1.0) < 1e-13


def test_continuous_joints_go_around():
    """(cos, sin) there, an angle here; batches go as they are."""
    text = ('<robot name="r"><link name="a"/><link name="b"><inertial><mass value="1"/>'
            '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
            '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>')
    x = Exchange.pinocchio(parse_urdf(text), pin.buildModelFromXML(text))
    q = np.array([[0.1], [3.0], [-3.0]])
    np.testing.assert_allclose(x.q(q), np.hstack([np.cos(q), np.sin(q)]))
    np.testing.assert_allclose(x.q_back(x.q(q)), q)


def test_joints_of_another_model_are_refused():
    description = parse_urdf(URDF, physical="ignore")
    other = to_pinocchio(random_description(0, 2))
    with pytest.raises(ValueError, match=r"joint 'joint\d' of the model does not exist in seed"):
        Exchange.pinocchio(description, other)


def test_mujoco_round_trip_in_batches():
    description = random_description(5, 4, types=("free", "revolute"))
    robot, x = Robot(description), Exchange.mujoco(description)
    q, qd = robot.random_state(0, (2, 3))
    qdd = np.random.default_rng(0).normal(size=qd.shape)
    np.testing.assert_allclose(x.q_back(x.q(q)), q)
    np.testing.assert_allclose(x.v_back(q, x.v(q, qd)), qd, atol=1e-14)
    np.testing.assert_allclose(x.a_back(q, qd, x.a(q, qd, qdd)), qdd, atol=1e-14)
    M = robot.mass_matrix(q, engine="numpy")
    np.testing.assert_allclose(x.M_back(q, x.M(q, M)), M, atol=1e-13)
