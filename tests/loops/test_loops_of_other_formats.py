"""Loops of URDF and MJCF files, read and written."""

import numpy as np
import pytest

import nlink
from nlink.formats.convert import convert
from nlink.formats.mjcf import from_mujoco
from nlink.formats.mjcf_writer import mjcf_losses, to_mjcf
from nlink.formats.urdf import parse_urdf

mujoco = pytest.importorskip("mujoco")

ROD = """<inertial><origin xyz="0.5 0 0"/><mass value="2"/>
<inertia ixx="0.01" iyy="0.2" izz="0.2" ixy="0" ixz="0" iyz="0"/></inertial>"""
URDF = f"""<robot name="linkage"><link name="ground"/>
<link name="crank">{ROD}</link><link name="coupler">{ROD}</link><link name="rocker">{ROD}</link>
<joint name="a" type="continuous"><parent link="ground"/><child link="crank"/>
  <axis xyz="0 0 1"/></joint>
<joint name="b" type="continuous"><parent link="crank"/><child link="coupler"/>
  <origin xyz="1 0 0"/><axis xyz="0 0 1"/></joint>
<joint name="c" type="continuous"><parent link="ground"/><child link="rocker"/>
  <origin xyz="1.5 0 0"/><axis xyz="0 0 1"/></joint>
{{loop}}</robot>"""
LOOP = """<loop_joint name="pin" type="{type}"><link1 link="rocker" xyz="1 0 0"/>
<link2 link="{link}" xyz="1 0 0"/><axis xyz="0 0 1"/></loop_joint>"""


def linkage(type: str = "continuous", link: str = "coupler") -> nlink.Robot:
    return nlink.Robot(parse_urdf(URDF.format(loop=LOOP.format(type=type, link=link))))


def held() -> nlink.Robot:
    """A UR5 whose hand is on a point of the world."""
    return nlink.load("ur5").with_loops([
        {"name": "wall", "joint": "spherical", "of": {"link": "link6", "xyz": (0.0, 0.0, 0.1)},
             "on": {"link": "base", "xyz": (0.3, 0.3, 0.3)}}])


def test_loop_joint_of_a_urdf_is_a_loop() -> None:
    robot = linkage()
    assert robot.report == ["link without <inertial> read as massless: 1 (ground)"]
    q = robot.loops.assemble([1.2, -1.0, 1.4])
    ends = [robot.pose(q, name) @ [1, 0, 0, 1] for name in ("coupler", "rocker")]
    np.testing.assert_allclose(*ends, atol=1e-12)
    assert robot.loops.mobility(q).freedom == 1


@pytest.mark.parametrize(("change", "message"), [
    ({"type": "gearbox"}, "loop_joint 'pin': type 'gearbox', expected one of fixed, revolute"),
    ({"link": "nobody"}, "loop_joint 'pin': link2 'nobody' does not exist"),
])
def test_wrong_loop_joints_get_one_sentence(change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        linkage(**change)


@pytest.mark.slow
def test_what_is_written_as_mjcf_is_read_back() -> None:
    robot = held()
    text = to_mjcf(robot.description)
    again = nlink.Robot(from_mujoco(mujoco.MjModel.from_xml_string(text)))
    assert again.loops.names == ("wall",)
    assert "loops become MuJoCo's soft equalities: 1 (wall)" in mjcf_losses(robot.description)
    assert to_mjcf(again.description).count("<site") == 2
    q, qd = robot.random_state(0)
    tau = np.arange(6.0)
    np.testing.assert_allclose(again.forward_dynamics(q, qd, tau),
                               robot.forward_dynamics(q, qd, tau), rtol=1e-9)


@pytest.mark.slow
def test_stiff_equalities_of_mujoco_approach_the_loop() -> None:
    """MuJoCo's constraints are springs: nearly ours, where they are made nearly rigid."""
    robot = held()
    model = mujoco.MjModel.from_xml_string(to_mjcf(robot.description))
    model.opt.tolerance, model.opt.iterations = 0, 200
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_REFSAFE
    model.eq_solref[:] = 1e-3, 1.0
    model.eq_solimp[:] = 0.9999999, 0.9999999, 1e-3, 0.5, 2.0
    data = mujoco.MjData(model)
    for seed in range(5):
        q, qd = robot.random_state(seed)
        tau = np.random.default_rng(seed).normal(size=6)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, qd, tau
        mujoco.mj_forward(model, data)
        ours = robot.forward_dynamics(q, qd, tau)
        assert np.abs(data.qacc - ours).max() < 1e-3 * np.abs(ours).max()


@pytest.mark.slow
def test_welds_between_free_bodies_are_read() -> None:
    text = """<mujoco><worldbody>
      <body name="a" pos="0 0 1"><freejoint/><inertial pos="0 0 0" mass="0.8"
        diaginertia="0.01 0.011 0.012"/></body>
      <body name="b" pos="0.5 0.2 1" quat="0.9 0.1 0.3 0.2"><freejoint/>
        <inertial pos="0.1 0 0" mass="1.8" diaginertia="0.01 0.011 0.012"/></body></worldbody>
      <equality><weld name="w" body1="a" body2="b" anchor="0.1 0.2 0.3"/>
        <connect name="off" body1="a" body2="b" anchor="0 0 0" active="false"/></equality>
      </mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    robot = nlink.Robot(from_mujoco(model))
    assert "equality that is not active ignored: 1 (off)" in robot.report
    assert np.abs(robot.loops.error(model.qpos0)).max() < 1e-12
    # welded, both fall as one body: the wrench between them is that of free fall, none
    qdd = robot.forward_dynamics(model.qpos0, np.zeros(12), np.zeros(12))
    np.testing.assert_allclose(robot.loops.forces(model.qpos0, np.zeros(12), np.zeros(12)), 0,
                               atol=1e-12)
    np.testing.assert_allclose(qdd[[3, 4, 5]], [0, 0, -9.81], atol=1e-12)


def test_converting_says_what_becomes_of_loops(tmp_path) -> None:
    lost = convert("four_bar", tmp_path / "bar.urdf", physical="ignore")
    assert any("loops" in line and "pin" in line for line in lost)
    lost = convert("four_bar", tmp_path / "bar.xml", physical="ignore")
    assert any("loops left open: 1 (pin)" in line for line in lost)
