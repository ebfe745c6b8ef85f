"""Floating robots, and arms that are pushed: rows with wrenches that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.testing.samples import difference

FLYING = nlink.load("puma560", physical="ignore").lock(["joint1"]).with_base(floating=True)
LINKS = len(FLYING.links)


def pushed(robot, states, seed=0):
    """Random states, wrenches on all links, and the torques: those of the base are zero, because
    the first link is pushed as the motion needs it."""
    rng = np.random.default_rng(seed)
    q, qd = robot.random_state(rng, (states,))
    qdd = rng.normal(size=(states, robot.n))
    f_ext = rng.normal(scale=20.0, size=(states, LINKS, 6))
    return q, qd, qdd, f_ext, robot.inverse_dynamics(q, qd, qdd, f_ext=f_ext)


def test_regressor_rows_of_a_floating_base_with_known_wrenches():
    q, qd, qdd, f_ext, tau = pushed(FLYING, 30)
    felt = sum(np.einsum("kij,ki->kj", FLYING.jacobian(q, link), f_ext[:, link - 1])
               for link in range(1, LINKS + 1))
    own = FLYING.regressor(q, qd, qdd) @ FLYING.parameters()
    assert difference(own, tau + felt) < 1e-12


@pytest.mark.slow
def test_a_floating_robot_is_found_from_pushes(tmp_path):
    rng = np.random.default_rng(1)
    links = tuple(replace(link, mass=link.mass * s, inertia=tuple(map(tuple, np.array(
        link.inertia) * s))) for link in FLYING.description.links for s in [rng.uniform(0.8, 1.2)])
    true = nlink.Robot(replace(FLYING.description, links=links, physical="ignore"))
    q, qd, qdd, f_ext, tau = pushed(true, 400, 2)
    # what the base lacks comes from a push on the first link, whose origin is the base's
    base = true.jacobian(q, 1)[..., :6]
    f_ext[:, 0] += np.linalg.solve(base.transpose(0, 2, 1), tau[:, :6, None])[..., 0]
    tau = true.inverse_dynamics(q, qd, qdd, f_ext=f_ext)
    np.testing.assert_allclose(tau[:, :6], 0.0, atol=1e-9)
    seen = tau[:, 6:] + 0.02 * rng.normal(size=(400, 5)) * tau[:, 6:].std(axis=0)
    log = {"q": q, "qd": qd, "qdd": qdd, "tau": seen, "f_ext": f_ext}
    np.savez(tmp_path / "run.npz", **log)
    fit = nlink.identify(FLYING, tmp_path / "run.npz", friction=(), armature=False)
    q, qd, qdd, f_ext, tau = pushed(true, 50, 3)
    assert difference(fit.robot.inverse_dynamics(q, qd, qdd, f_ext=f_ext), tau) < 0.02
    assert fit.physical
    found, mass = (sum(link.mass for link in each.links) for each in (fit.robot, true))
    assert abs(found / mass - 1) < 0.02  # a body that flies has no mass that is not told
    assert difference(fit.predict(q, qd, qdd), true.inverse_dynamics(q, qd, qdd)) < 0.02
    fit.report(tmp_path / "page.html")


@pytest.mark.slow
def test_pushes_on_an_arm_are_taken_off_its_torques():
    arm = nlink.load("double_pendulum")
    true = arm.with_payload(0.4, (0.1, 0.0, 0.0))
    t = np.arange(0, 8, 0.01)[:, None]
    w, a = np.array([2.0, 3.1]), np.array([1.0, 0.8])
    q, qd, qdd = a * np.sin(w * t), a * w * np.cos(w * t), -a * w * w * np.sin(w * t)
    push = np.zeros((len(t), 6))
    push[:, 3:] = 5 * np.sin(0.7 * t + np.arange(3))
    wrenches = np.stack([np.zeros_like(push), push], axis=1)
    log = {"t": t[:, 0], "q": q, "tau": true.inverse_dynamics(q, qd, qdd, f_ext=wrenches),
           "f_ext": {arm.links[1].name: push}}
    fit = nlink.identify(arm, log, mode="payload", friction=(), output_error=True)
    assert abs(fit.payload.mass - 0.4) < 0.005
    assert fit.output_error.score < 0.01


def test_what_a_floating_robot_needs_is_said():
    q, qd, qdd, f_ext, tau = pushed(FLYING, 40)
    log = {"t": np.arange(40) * 0.01, "q": q, "tau": tau, "f_ext": f_ext}
    with pytest.raises(ValueError, match="no qd and qdd, expected both"):
        nlink.read_log(log, FLYING)
    with pytest.raises(ValueError, match=r"f_ext has shape \(40, 2, 6\), expected \(rows,"):
        nlink.read_log({**log, "f_ext": f_ext[:, :2]}, FLYING)
    with pytest.raises(ValueError, match="f_ext of 'hand', expected links"):
        nlink.read_log({**log, "f_ext": {"hand": f_ext[:, 0]}}, FLYING)
    with pytest.raises(ValueError, match="30 rows of f_ext, expected 40"):
        nlink.read_log({**log, "qd": qd, "qdd": qdd, "f_ext": f_ext[:30]}, FLYING)
