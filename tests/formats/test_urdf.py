"""URDF: every element that is dynamics is read, every other is reported."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from mutations import URDF

import nlink
from nlink import (
    Description,
    Fixed,
    Free,
    NonPhysicalWarning,
    Planar,
    Pose,
    Prismatic,
    Revolute,
    Robot,
)
from nlink.formats.exchange import Exchange
from nlink.formats.urdf import parse_urdf
from nlink.formats.urdf_writer import roll_pitch_yaw, to_urdf, urdf_losses
from nlink.testing import random_description
from nlink.testing.samples import difference

BODY = ('<inertial><mass value="1"/>'
        '<inertia ixx="0.1" iyy="0.2" izz="0.2" ixy="0" ixz="0" iyz="0"/></inertial>')


def one_joint(type: str, inside: str = "", inertial: str = BODY) -> Description:
    return parse_urdf(
        f'<robot name="r"><link name="world"/><link name="body">{inertial}</link>'
        f'<joint name="j" type="{type}"><parent link="world"/><child link="body"/>{inside}</joint>'
        "</robot>")


def test_inertia_turns_with_its_origin():
    """R diag R^T: a quarter turn about z swaps xx and yy, a small one mixes them."""
    turned = BODY.replace("<mass", '<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/><mass')
    link = one_joint("continuous", inertial=turned).links[1]
    R = (Pose.turn("z", 0.3) @ Pose.turn("y", 0.2) @ Pose.turn("x", 0.1)).R
    np.testing.assert_allclose(link.inertia, R @ np.diag([0.1, 0.2, 0.2]) @ R.T, atol=1e-16)
    assert link.com == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(("type", "kind"), [
    ("revolute", Revolute((1.0, 0.0, 0.0))), ("continuous", Revolute((1.0, 0.0, 0.0))),
    ("prismatic", Prismatic((1.0, 0.0, 0.0))), ("fixed", Fixed()), ("floating", Free()),
    ("planar", Planar())])
def test_joint_types_with_the_default_axis(type, kind):
    assert one_joint(type).joints[1].type == kind


def test_planar_joints_move_across_their_axis():
    robot = Robot(one_joint("planar", '<axis xyz="0 1 0"/>'))
    place = robot.pose([0.3, 0.4, 0.5], "body", engine="python")
    assert abs(place[1, 3]) < 1e-16
    assert math.isclose(np.linalg.norm(place[:3, 3]), 0.5)
    np.testing.assert_allclose(place[:3, :3], Pose.turn("y", 0.5).R, atol=1e-16)


def test_dynamics_and_limits():
    joint = one_joint("revolute", '<dynamics damping="1" friction="2"/>'
                      '<limit lower="-3" upper="4" velocity="5" effort="inf"/>').joints[1]
    assert (joint.friction.viscous, joint.friction.coulomb) == (1.0, 2.0)
    assert joint.limits == nlink.Limits((-3.0, 4.0), 5.0, math.inf)


def test_lossless_files_have_an_empty_report():
    description = parse_urdf(
        f'<robot name="r"><link name="a">{BODY}</link><link name="b">{BODY}</link>'
        '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint></robot>')
    assert description.report == ()


def test_everything_ignored_is_reported():
    report = parse_urdf(URDF.replace("<robot", '<robot xmlns="" odd="1"').replace(
        "</robot>", '<gazebo reference="a"/><transmission name="t"/></robot>').replace(
            'friction="0.2"', 'friction="0.2" K="1"'), physical="ignore").report
    for line in ("robot/gazebo ignored: 1 (a)", "robot/transmission ignored: 1 (t)",
                 "attribute 'odd' of robot ignored: 1 (robot)",
                 "attribute 'K' of dynamics ignored: 1 (j1)",
                 "axis scaled to unit length: 1 (j1)",
                 "mimic joint read as independent, unless by robot.geared: 1 (j2 = 2 j1 + 0)",
                 "link without <inertial> read as massless: 1 (base)",
                 "product of inertia not given, read as zero: 6 (b, c)"):
        assert line in report


def test_a_link_called_base_keeps_its_name():
    text = (f'<robot name="r"><link name="stand"/><link name="base">{BODY}</link>'
            '<joint name="j" type="fixed"><parent link="stand"/><child link="base"/>'
            '<origin xyz="1 0 0"/></joint></robot>')
    robot = Robot(parse_urdf(text))
    assert robot.frames == ("world", "stand", "base")
    assert robot.pose([], "base")[0, 3] == 1.0
    assert robot.report[-1] == ("frame 'base' is the file's link; the one that never moves is "
                                "'world'")
    taken = Robot(parse_urdf(text.replace("stand", "world")))
    assert taken.frames == ("world_2", "world", "base")


def test_a_root_link_called_base_needs_no_remark():
    robot = Robot(parse_urdf(f'<robot name="r"><link name="base">{BODY}</link></robot>'))
    assert robot.frames == ("world", "base")
    assert robot.report == []
    np.testing.assert_array_equal(robot.pose([], "base"), robot.pose([], "world"))


def test_massless_links_within_a_chain_are_links():
    description = parse_urdf(
        f'<robot name="r"><link name="a"/><link name="b"/><link name="c">{BODY}</link>'
        '<joint name="i" type="continuous"><parent link="a"/><child link="b"/></joint>'
        '<joint name="j" type="continuous"><parent link="b"/><child link="c"/>'
        '<axis xyz="0 0 1"/></joint></robot>')
    assert np.isfinite(Robot(description).forward_dynamics([0, 1], [1, 1], [0, 0],
                                                           engine="python")).all()


def test_singular_mechanisms_load_if_asked():
    text = URDF.replace('<mass value="0.3"/><inertia ixx="1" iyy="1" izz="1"/>',
                        '<mass value="0"/><inertia ixx="0" iyy="0" izz="0"/>')
    with pytest.raises(ValueError, match="joint 'j3': moves no mass"):
        parse_urdf(text, physical="error")
    with pytest.warns(NonPhysicalWarning, match="no mass moves with j3"):
        robot = Robot(parse_urdf(text))
    assert robot.n == Robot(parse_urdf(text, physical="ignore")).n == 8
    q = robot.neutral
    assert np.isfinite(robot.gravity_torque(q, engine="python")).all()
    with pytest.raises(ValueError, match="solve: joint 'j3' moves no mass"):
        robot.solve(q, np.zeros(8))


def test_axes_parallel_but_for_1_5708_keep_their_digits():
    """The classic rounding of files: nothing is lost to a common normal at the horizon."""
    pin = pytest.importorskip("pinocchio")
    links = "".join(f'<link name="l{k}">{BODY}</link>' for k in range(7))
    joints = "".join(
        f'<joint name="j{k}" type="continuous"><parent link="l{k}"/><child link="l{k + 1}"/>'
        f'<origin xyz="0.3 0.1 0.2" rpy="{"1.5708 0 0" if k % 2 else "-1.5708 0 1.57"}"/>'
        '<axis xyz="0 0 1"/></joint>' for k in range(6))
    text = f'<robot name="r">{links}{joints}</robot>'
    description = parse_urdf(text)
    robot, model = Robot(description), pin.buildModelFromXML(text)
    x, data = Exchange.pinocchio(description, model), model.createData()
    q, qd = robot.random_state(0)
    tau = x.tau_back(q, pin.rnea(model, data, x.q(q), x.v(q, qd), x.v(q, qd)))
    assert difference(robot.inverse_dynamics(q, qd, qd, engine="numpy"), tau) < 1e-13
    M = pin.crba(model, data, x.q(q))
    assert difference(robot.mass_matrix(q, engine="numpy"), x.M_back(q, M)) < 1e-13


TYPES = ("revolute", "prismatic", "planar", "free")


@pytest.mark.parametrize("seed", range(20))
def test_written_files_read_back_to_the_same_dynamics(seed):
    """Joints may be in another order, by name; URDF has no gravity."""
    original = random_description(seed, types=TYPES, armature=False)
    copy = replace(parse_urdf(to_urdf(original)), gravity=original.gravity)
    ours, theirs = Robot(original), Robot(copy)
    q_at, v_at = by_name(original, copy)
    q, qd = ours.random_state(seed)
    tau = ours.inverse_dynamics(q, qd, qd, engine="python")
    again = theirs.inverse_dynamics(q[q_at], qd[v_at], qd[v_at], engine="python")
    assert difference(tau[v_at], again) < 1e-13
    for frame in ours.frames[1:]:
        assert difference(ours.pose(q, frame, engine="python"),
                          theirs.pose(q[q_at], frame, engine="python")) < 1e-13


def by_name(ours: Description, theirs: Description) -> tuple[np.ndarray, np.ndarray]:
    """Places in our q and qd of their entries."""
    places, at_q, at_v = {}, 0, 0
    for joint in ours.joints:
        nq, nv = joint.type.nq, joint.type.nv
        places[joint.name] = range(at_q, at_q + nq), range(at_v, at_v + nv)
        at_q, at_v = at_q + nq, at_v + nv
    moving = [places[joint.name] for joint in theirs.joints if joint.type.nv]
    return (np.array([k for q, _ in moving for k in q], dtype=int),
            np.array([k for _, v in moving for k in v], dtype=int))


@pytest.mark.parametrize("name", sorted(set(nlink.robots()) - {"stewart"}))
def test_pinocchio_reads_what_is_written(name):
    """But for the one with universal joints, for which URDF has no word."""
    pin = pytest.importorskip("pinocchio")
    description = nlink.load(name, physical="ignore").description
    assert pin.buildModelFromXML(to_urdf(description)).nv == Robot(description).n


@pytest.mark.parametrize("kind", ["helical", "universal", "spherical"])
def test_joints_without_a_word_are_refused(kind):
    with pytest.raises(ValueError, match=f"URDF has no {kind} joint"):
        to_urdf(random_description(0, 1, types=(kind,)))


def test_a_bundled_robot_with_universal_joints_is_refused():
    with pytest.raises(ValueError, match="joint 'leg1': URDF has no universal joint"):
        to_urdf(nlink.load("stewart").description)


def test_loops_are_named_as_lost():
    """URDF has trees alone: what is written is the tree, and the losses say so."""
    description = nlink.load("four_bar").description
    lost = " ".join(urdf_losses(description))
    for words in ("loops left open: 1 (pin)", "(coupler, rocker)", "home"):
        assert words in lost
    assert "loops" not in " ".join(urdf_losses(replace(description, loops=())))


def test_losses_are_named():
    lost = " ".join(urdf_losses(nlink.load("puma560").description))
    for word in ("source", "DH parameters: 6", "massless links added"):
        assert word in lost


@pytest.mark.parametrize("pitch", [0.3, math.pi / 2, -math.pi / 2, math.pi / 2 - 1e-9, 3.0])
def test_angles_give_the_rotation_back_even_where_they_are_not_unique(pitch):
    R = (Pose.turn("z", 0.7) @ Pose.turn("y", pitch) @ Pose.turn("x", -0.4)).R
    roll, back, yaw = roll_pitch_yaw(R)
    again = (Pose.turn("z", yaw) @ Pose.turn("y", back) @ Pose.turn("x", roll)).R
    np.testing.assert_allclose(again, R, atol=4e-16)


def test_base_body_is_freed_only_where_there_is_one(tmp_path):
    text = 'name = "x"\n[[link]]\njoint = "fixed"\nmass = 1.0\ninertia = [1.0, 1.0, 1.0]\n'
    path = tmp_path / "x.toml"
    path.write_text(text)
    assert repr(nlink.load(path, floating=True)) == "<Robot x: 1 joint, 6 rates, floating base>"
    with pytest.raises(ValueError, match=r"floating: puma560 has no base body: joint 'joint1'"):
        nlink.load("puma560", floating=True)


def test_a_file_that_floats_is_left_as_it_is(tmp_path):
    path = tmp_path / "x.urdf"
    path.write_text(to_urdf(one_joint("floating")))
    assert nlink.load(path, floating=True).n == nlink.load(path).n == 6
