"""Motors: limits of effort and velocity, rotors behind gears, actuators of MJCF files."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.simulation import PD, Actuated, Sampled, Saturated

ROD = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0), "inertia": (0, 1/12, 1/12)}
ARM = nlink.Robot.from_dh(
    [ROD | {"limits": {"effort": 12.0, "velocity": 1.0}}, ROD | {"limits": {"effort": 4.0}}],
    gravity=(0, -9.81, 0), name="limited")
GOAL = [0.5, -0.5]

MJCF = """<mujoco><option gravity="0 -9.81 0"/><compiler angle="radian"/>
<worldbody><body name="a"><joint name="shoulder" axis="0 0 1" damping="0.1"/>
  <geom type="capsule" fromto="0 0 0 1 0 0" size="0.03" density="500" contype="0"/>
  <body name="b" pos="1 0 0"><joint name="elbow" axis="0 0 1" armature="0.02"/>
    <geom type="capsule" fromto="0 0 0 1 0 0" size="0.03" density="500" contype="0"/>
    <body name="c" pos="1 0 0"><joint name="slide" type="slide" axis="1 0 0" armature="0.1"/>
      <geom type="sphere" size="0.05" density="500" contype="0"/></body></body></body>
</worldbody>
<actuator>
  <position name="p" joint="shoulder" kp="60" kv="6" ctrlrange="-1 1" ctrllimited="true"/>
  <velocity name="v" joint="elbow" kv="8" forcerange="-5 5" forcelimited="true"/>
  <motor name="m" joint="slide" gear="3"/>
  <general name="g" joint="slide" dyntype="filter" dynprm="0.1"/>
</actuator></mujoco>"""


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.slow
def test_effort_limits_saturate(traced):
    pd = PD(ARM, GOAL, 100.0, 10.0)
    how = {"t": 0.3, "every": 0.05, "traced": traced}
    free, cut, own = (nlink.simulate(ARM, tau=tau, effort=effort, **how) for tau, effort in (
        (pd, "ignore"), (pd, "saturate"), (Saturated(pd), "ignore")))
    assert np.abs(free.tau).max() > 12.0
    assert (np.abs(cut.tau).max(axis=0) <= [12.0, 4.0]).all()
    assert np.array_equal(cut.q, own.q)
    assert any("force of joint1" in line for line in free.warnings)
    assert not any("force" in line for line in cut.warnings)


def test_tables_saturate_too_and_unknown_words_are_refused():
    table = np.full((11, 2), 20.0)
    run = nlink.simulate(ARM, t=0.1, tau=table, effort="saturate")
    assert np.array_equal(run.tau, np.broadcast_to([12.0, 4.0], (11, 2)))
    with pytest.raises(ValueError, match="effort: 'clip', expected 'ignore' or 'saturate'"):
        nlink.simulate(ARM, tau=table, effort="clip")
    with pytest.raises(ValueError, match="planar3 has no effort limits"):
        nlink.simulate(nlink.load("planar3"), tau=lambda t, q, qd: q, effort="saturate")


def test_rates_above_their_limits_are_in_the_report():
    run = nlink.simulate(ARM, t=0.5)
    peak = np.abs(run.qd[:, 0]).max()
    assert run.warnings == [f"rate of joint1 up to {peak:.4g}, its velocity limit is 1"]
    assert "its velocity limit is 1" in repr(run)
    assert not nlink.simulate(ARM, t=0.01).warnings


def test_a_rotor_behind_a_gear_is_an_armature():
    geared = nlink.Robot.from_dh([ROD | {"motor": {"ratio": -50.0, "inertia": 4e-5},
                                         "armature": 0.3}, ROD], name="geared")
    plain = nlink.Robot.from_dh([ROD | {"armature": 0.3 + 2500 * 4e-5}, ROD], name="plain")
    q, qd = geared.random_state(0)
    assert geared.mass_matrix(q) == pytest.approx(plain.mass_matrix(q), rel=1e-14)
    assert geared.forward_dynamics(q, qd, [1.0, 2.0]) == pytest.approx(
        plain.forward_dynamics(q, qd, [1.0, 2.0]), rel=1e-12)
    from nlink.formats.dh import parse_toml

    assert parse_toml(geared.to_toml()) == geared.description
    assert geared.with_armature(0.0).mass_matrix(q)[0, 0] < geared.mass_matrix(q)[0, 0] - 0.3
    for motor, said in (({"ratio": 0.0}, "gear ratio 0.0"), ({"inertia": -1.0}, "rotor inertia")):
        with pytest.raises(ValueError, match=said):
            nlink.Robot.from_dh([ROD | {"motor": motor}])


def test_actuators_of_a_file_do_what_mujoco_does():
    mujoco = pytest.importorskip("mujoco")
    from nlink.formats.mjcf import parse_mjcf

    robot = nlink.Robot(parse_mjcf(MJCF))
    assert [each.kind for each in robot.actuators] == ["position", "velocity", "motor"]
    assert any("actuator ignored" in line and "g" in line for line in robot.report)
    model = mujoco.MjModel.from_xml_string(MJCF)
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    for _ in range(5):
        q, qd, u = rng.normal(size=(3, 3)) * 2
        data.qpos[:], data.qvel[:], data.ctrl[:3], data.act[:] = q, qd, u, 0.0
        mujoco.mj_forward(model, data)
        tau = np.asarray(Actuated(u, robot)(0.0, q, qd), dtype=float)
        assert tau == pytest.approx(data.qfrc_actuator, abs=1e-10)
    held = nlink.simulate(robot, t=0.2, tau=Actuated([0.3, 0.0, 1.0], robot), every=0.1)
    asked = nlink.simulate(robot, np.zeros((4, 3)), t=0.2, every=0.1, traced=False, tau=Sampled(
        Actuated(lambda t, q, qd: np.tile([0.3, 0.0, 1.0], (len(q), 1)), robot), 0.001))
    assert held.ok
    assert asked.q[2] == pytest.approx(held.q, abs=2e-3)
    from nlink.formats.dh import parse_toml
    from nlink.formats.mjcf_writer import to_mjcf

    again = parse_toml(robot.to_toml()), parse_mjcf(to_mjcf(robot.description))
    assert all(each.actuators == robot.description.actuators for each in again)
    locked = robot.lock({"elbow": 0.1})
    assert [each.joint for each in locked.actuators] == ["shoulder", "slide"]


@pytest.mark.parametrize(("table", "said"), [
    ('joint = "none"', "actuator 'actuator1': joint 'none' does not exist"),
    ('joint = "joint1"\ngain = nan', "gain nan, expected a number"),
    ('joint = "joint1"\nforce_range = [2, 1]', "expected 2 numbers, low <= high"),
    ('joint = "joint1"\nforce = 3', "actuator 1: expected a table with name, joint, gain"),
])
def test_actuators_in_files_are_checked(table, said):
    from nlink.formats.dh import parse_toml

    with pytest.raises(ValueError, match=said):
        parse_toml(f"{ARM.to_toml()}\n[[actuator]]\n{table}\n")


def test_commands_are_checked():
    with pytest.raises(ValueError, match="limited has no actuators"):
        Actuated([1.0], ARM)
    pytest.importorskip("mujoco")
    from nlink.formats.mjcf import parse_mjcf

    robot = nlink.Robot(parse_mjcf(MJCF))
    with pytest.raises(ValueError, match="expected 3 finite commands"):
        Actuated([1.0], robot)
    with pytest.raises(ValueError, match=r"commands of shape \(2,\), expected 3"):
        nlink.simulate(robot, t=0.1, tau=Actuated(lambda t, q, qd: q[:2], robot))
