"""The logs that ship: an arm it has not seen is found from what drives write."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import nlink

LOGS = Path(__file__).parents[2] / "examples" / "arm_logs"
TRUTH = tomllib.loads((LOGS / "truth.toml").read_text("utf-8"))
A, GAINS = np.array(TRUTH["transmission"]), np.array(TRUTH["gains"])
ARM = nlink.load("ur5")
FRICTION = ("viscous", "coulomb", "offset", "stribeck")
DRIVES = {"transmission": A, "delay": TRUTH["delay"]}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fit():
    return nlink.identify(ARM, [LOGS / "run1.npz", LOGS / "run2.npz"], friction=FRICTION,
                          gains=GAINS, validate=LOGS / "run3.npz", **DRIVES)


def test_torques_of_a_motion_that_was_not_seen(fit):
    assert fit.validation < 0.03
    assert fit.physical
    assert abs(fit.cost_of_physics) < 0.01
    assert 0.8 < sum(link.mass for link in fit.robot.links) / sum(TRUTH["mass"]) < 1.2


def test_what_a_robot_has_no_words_for_is_said_and_shared(fit):
    assert any(each.startswith("motor6 turns with joint5 - joint6: a robot has no words for "
                               "its viscous") and "armature 0.1" in each for each in fit.warnings)
    assert fit.robot.joints[5].armature == pytest.approx(fit.values["motor6.armature"])
    motion = nlink.excite(ARM, 20, seed=2, limits={"velocity": 1.8, "acceleration": 5.0}).at(
        np.linspace(0, 20, 400))
    told = (fit.predict(*motion) - fit.offset)[:, 5]
    left = fit.robot.inverse_dynamics(*motion)[:, 5] - told
    assert np.linalg.norm(left) < 0.85 * np.linalg.norm(told)  # without its share: 0.996


def test_levels_of_friction(fit):
    """Of motors behind their gears, at the rates of the runs."""
    true = {name: np.array(x) for name, x in TRUTH["friction"].items()}
    C = A / np.diag(A)[:, None]
    for sign in (1, -1):
        rates = sign * np.outer([0.3, 0.5, 0.8, 1.2], np.ones(6))
        fall = true["excess"] * np.exp(-((rates / true["stribeck"]) ** 2))
        level = ((true["dry"] + fall) * np.sign(rates) + true["viscous"] * rates + true["offset"])
        found = fit.friction(rates @ np.linalg.inv(C).T) @ np.linalg.inv(C)
        np.testing.assert_allclose(found, level, rtol=0.05)


def test_the_delay_of_torques():
    found = nlink.identify(ARM, LOGS / "run3.npz", friction=FRICTION, gains=GAINS,
                           transmission=A, delay="estimate")
    assert abs(found.delay - TRUTH["delay"]) < 5e-4


def test_a_payload(fit):
    found = nlink.identify(fit.robot, LOGS / "loaded.npz", mode="payload", gains=GAINS, **DRIVES)
    assert abs(found.payload.mass / TRUTH["payload"]["mass"] - 1) < 0.02
    np.testing.assert_allclose(found.payload.com, TRUTH["payload"]["com"], atol=5e-3)


def test_gains_of_the_drives_from_a_run_under_the_payload():
    logs = [nlink.read_log(LOGS / f"{name}.npz", ARM) for name in ("run1", "run2", "loaded")]
    logs[2] = logs[2].with_payload(**TRUTH["payload"])
    found = nlink.identify(ARM, logs, friction=FRICTION, gains="estimate", **DRIVES)
    np.testing.assert_allclose(found.gains, GAINS, rtol=0.06)


def test_the_robot_is_the_same_in_every_format(fit, tmp_path):
    q, qd = fit.robot.random_state(0, (20,))
    plain = fit.robot.with_friction(breakaway=0.0, stribeck=0.0)  # of which MJCF has no word
    for suffix, robot in ((".toml", fit.robot), (".xml", plain), (".urdf", fit.robot)):
        robot.save(tmp_path / f"arm{suffix}")
        again = nlink.load(tmp_path / f"arm{suffix}", physical="error")
        np.testing.assert_allclose(again.inverse_dynamics(q, qd, qd),
                                   robot.inverse_dynamics(q, qd, qd), rtol=1e-6, atol=1e-6)


def test_other_libraries_load_the_robot(fit, tmp_path):
    fit.robot.save(tmp_path / "arm.urdf")
    fit.robot.save(tmp_path / "arm.xml")
    q = ARM.random_state(1)[0]
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(str(tmp_path / "arm.urdf"))
    np.testing.assert_allclose(pin.computeGeneralizedGravity(model, model.createData(), q),
                               fit.robot.gravity_torque(q), atol=1e-6)
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "arm.xml"))
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.qfrc_bias, fit.robot.gravity_torque(q), atol=1e-6)
