"""Fits of simulated logs: parameters come back, intervals are true, bodies are physical."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.identification.consistent import parameters_of, pseudo_inertia
from nlink.identification.signals import RowFilter, differentiated

ARM = nlink.load("puma560", physical="ignore")
FRICTION = ("viscous", "coulomb")


def motion(robot, seed, seconds=8.0, rate=200.0, ragged=0.0, tones=5):
    """Sums of sines within 40 % of the limits: t, q, qd, qdd."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1 / rate)
    t = t + ragged / rate * rng.uniform(-0.5, 0.5, len(t))
    w = 2 * np.pi * 0.15 * np.arange(1, tones + 1)
    a, b = rng.normal(size=(2, tones, robot.n))
    S, C = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    q, qd, qdd = (S / w) @ a - (C / w) @ b, C @ a + S @ b, (-S * w) @ a + (C * w) @ b
    low, high = (np.where(np.isfinite(x), x, s) for x, s in (
        (robot.limits.lower, -2.0), (robot.limits.upper, 2.0)))
    scale = 0.4 * (high - low) / np.abs(q).max(axis=0)
    return t, (low + high) / 2 + scale * q, scale * qd, scale * qdd


def changed(robot, seed, amount=0.2):
    """Other masses, inertias and friction."""
    rng = np.random.default_rng(seed)
    links = tuple(replace(link, mass=link.mass * s, com=tuple(np.array(link.com) + rng.normal(
        scale=0.01, size=3)), inertia=tuple(map(tuple, np.array(link.inertia) * s)))
        for link in robot.description.links for s in [1 + amount * rng.uniform(-1, 1)])
    found = nlink.Robot(replace(robot.description, links=links, physical="ignore"))
    return found.with_friction(viscous=rng.uniform(0.3, 1.0, robot.n),
                               dry=rng.uniform(0.3, 1.0, robot.n)).with_armature(
        rng.uniform(0.05, 0.2, robot.n))


def recorded(true, seed, noise=0.0, **how):
    t, q, qd, qdd = motion(true, seed, **how)
    tau = true.inverse_dynamics(q, qd, qdd)
    rng = np.random.default_rng(seed + 1000)
    return {"t": t, "q": q, "tau": tau + noise * np.sqrt((tau**2).mean(axis=0))
            * rng.normal(size=tau.shape)}


def error(found, true, seed=77):
    _, q, qd, qdd = motion(true, seed)
    tau = true.inverse_dynamics(q, qd, qdd)
    return np.linalg.norm(found(q, qd, qdd) - tau) / np.linalg.norm(tau)


TRUE = changed(ARM, 0)


@pytest.fixture(scope="module")
def fit():
    return nlink.identify(ARM, recorded(TRUE, 1, 0.05), friction=FRICTION)


@pytest.mark.slow
def test_noisy_torques_give_a_robot_that_predicts(fit):
    assert error(fit.predict, TRUE) < 0.01
    assert error(fit.robot.inverse_dynamics, TRUE) < 0.01
    assert fit.physical
    assert not fit.robot.description.objection
    mass = sum(link.mass for link in fit.robot.links) / sum(link.mass for link in TRUE.links)
    assert 0.8 < mass < 1.2
    assert fit.score(recorded(TRUE, 5, 0.0)) < 0.01
    assert fit.validation < 0.03


@pytest.mark.slow
def test_intervals_are_true():
    inside = []
    for seed in range(8):
        fit = nlink.identify(ARM, recorded(TRUE, 1, 0.05) | {"tau": recorded(
            TRUE, 1)["tau"] + (recorded(TRUE, 1, 0.05)["tau"] - recorded(TRUE, 1)["tau"])
            * np.random.default_rng(seed).choice([-1, 1], size=(1600, 1))},
            friction=FRICTION, validate=None)
        truth = fit.base_parameters.matrix @ TRUE.parameters(FRICTION, True)
        inside.append((fit.intervals[:, 0] <= truth) & (truth <= fit.intervals[:, 1]))
    assert 0.88 < np.mean(inside) <= 0.995


@pytest.mark.slow
def test_the_fit_does_not_depend_on_ragged_stamps_or_rows_that_are_missing():
    log = recorded(TRUE, 2, ragged=0.6)
    keep = np.random.default_rng(3).random(len(log["t"])) > 0.02
    fit = nlink.identify(ARM, {name: x[keep] for name, x in log.items()}, friction=FRICTION)
    assert error(fit.predict, TRUE) < 3e-3


@pytest.mark.slow
def test_motors_behind_gears_and_a_coupling():
    A = np.diag([-76.0, 107.0, -53.0, 76.0, 71.0, 76.0])
    A[5, 4] = 30.0
    true = changed(ARM, 4).with_friction(viscous=0.0, dry=0.0).with_armature(0.0)
    log = recorded(true, 1, 0.01)
    log = {"t": log["t"], "q": log["q"] @ A.T, "current": log["tau"] @ np.linalg.inv(A) / 0.05}
    fit = nlink.identify(ARM, log, transmission=A, gains=0.05, friction=(), armature=False)
    assert error(fit.predict, true) < 5e-3
    with pytest.raises(ValueError, match="expected gains= in N m per A"):
        nlink.identify(ARM, log, transmission=A)


@pytest.mark.slow
def test_gains_from_a_known_payload():
    gains = np.array([5.0, 6.0, 4.0, 0.9, 1.1, 0.7])
    runs = []
    for k, robot in enumerate((TRUE, TRUE.with_payload(3.0, (0.05, 0.0, 0.1)))):
        log = recorded(robot, 10 + k, 0.01)
        runs.append(nlink.read_log({"t": log["t"], "q": log["q"], "current": log["tau"] / gains},
                                   ARM))
    with pytest.raises(ValueError, match="without a known payload"):
        nlink.identify(ARM, runs, gains="estimate")
    runs[1] = runs[1].with_payload(3.0, (0.05, 0.0, 0.1))
    fit = nlink.identify(ARM, runs, gains="estimate", friction=FRICTION)
    np.testing.assert_allclose(fit.gains, gains, rtol=0.02)
    assert error(fit.predict, TRUE) < 0.03


@pytest.mark.slow
def test_modes(fit):
    carried = TRUE.with_payload(2.5, (0.03, -0.02, 0.1), (0.01, 0.012, 0.008))
    found = nlink.identify(TRUE, recorded(carried, 20, 0.02), mode="payload", friction=FRICTION)
    assert abs(found.payload.mass - 2.5) < 0.05
    np.testing.assert_allclose(found.payload.com, (0.03, -0.02, 0.1), atol=0.01)
    assert found.payload.mass_interval[0] < 2.5 < found.payload.mass_interval[1]
    assert error(found.robot.inverse_dynamics, carried) < 0.01
    bare = TRUE.with_friction(viscous=0.0, dry=0.0).with_armature(0.0)
    found = nlink.identify(bare, recorded(TRUE, 21, 0.003), mode="friction", friction=FRICTION)
    for joint, true in zip(found.robot.joints, TRUE.joints, strict=True):
        assert abs(joint.friction.coulomb - true.friction.coulomb) < 0.1
        assert abs(joint.armature - true.armature) < 0.03
    assert all(a == b for a, b in zip(found.robot.links, TRUE.links, strict=True)) or (
        np.allclose(found.robot.inertias, TRUE.inertias))


@pytest.mark.slow
def test_gravity_from_poses():
    rng = np.random.default_rng(0)
    q, _ = ARM.random_state(rng, (60,))
    zero = np.zeros_like(q)
    log = {"q": q, "qd": zero, "qdd": zero, "tau": TRUE.gravity_torque(q)}
    found = nlink.identify(ARM, log, mode="gravity", friction=())
    q, _ = ARM.random_state(rng, (50,))
    np.testing.assert_allclose(found.robot.gravity_torque(q), TRUE.gravity_torque(q), atol=0.05)
    assert any("would tell" in each for each in found.unknown)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [-0.01, 0.003, 0.03])
def test_delays_are_found(delay):
    log = recorded(TRUE, 3, 0.02)
    later = np.column_stack([np.interp(log["t"] - delay, log["t"], x) for x in log["tau"].T])
    found = nlink.identify(ARM, {**log, "tau": later}, friction=FRICTION, delay="estimate")
    assert abs(found.delay - delay) < 5e-4


@pytest.mark.slow
def test_outliers_lose_their_weight():
    log = recorded(TRUE, 1, 0.02)
    log["tau"] = log["tau"].copy()
    log["tau"][300:310] += 4000.0
    plain, firm = (nlink.identify(ARM, log, friction=FRICTION, robust=robust)
                   for robust in (False, True))
    assert error(firm.predict, TRUE) < 0.01 < error(plain.predict, TRUE)


SMALL = nlink.load("double_pendulum")


def small_log(seed=0, robot=SMALL):
    t, q, qd, qdd = motion(robot, seed, seconds=6.0, rate=100.0)
    return {"t": t, "q": q, "tau": robot.inverse_dynamics(q, qd, qdd)}


def test_exact_data_give_exact_parameters():
    true = SMALL.with_payload(0.3, (0.1, 0.0, 0.0)).with_friction(viscous=0.2, dry=0.1)
    fit = nlink.identify(SMALL, small_log(1, true), friction=("viscous", "coulomb"))
    base = fit.base_parameters
    np.testing.assert_allclose(fit.base, base.matrix @ true.parameters(("viscous", "coulomb"),
                                                                      True), atol=2e-3)
    assert "base parameters" in fit.summary()


def turned(x, j):
    x = x.copy()
    x[:, j] *= -1
    return x


def test_what_is_wrong_with_units_signs_and_lengths_is_said():
    log = small_log()
    with pytest.raises(ValueError, match="as degrees, expected radians"):
        nlink.identify(SMALL, {**log, "q": np.degrees(log["q"])})
    with pytest.raises(ValueError, match="look like N mm"):
        nlink.identify(SMALL, {**log, "tau": 1000 * log["tau"]})
    with pytest.raises(ValueError, match="sign of the torque of joint 'joint2'"):
        nlink.identify(SMALL, {**log, "tau": turned(log["tau"], 1)}, friction=())
    with pytest.raises(ValueError, match="too short"):
        nlink.identify(SMALL, {name: x[:15] for name, x in log.items()})
    with pytest.raises(ValueError, match="more rows than parameters"):
        nlink.identify(SMALL, {name: x[:100] for name, x in log.items()}, cutoff=0.8)


def test_positions_that_are_turned_or_from_another_zero_are_said():
    log = small_log()
    with pytest.raises(ValueError, match="joint 'joint2' seems to be counted the other way round"):
        nlink.identify(SMALL, {**log, "q": turned(log["q"], 1)}, friction=(), armature=False)
    with pytest.raises(ValueError, match="joint 'joint1' seems to be 90 degrees from the model's"):
        nlink.identify(SMALL, {**log, "q": log["q"] + [np.pi / 2, 0.0]}, friction=(),
                       armature=False)


def test_torques_of_another_size_are_doubted():
    log = small_log()
    fit = nlink.identify(SMALL, {**log, "tau": log["tau"] / 10}, friction=())
    assert any("'joint1' are 0.1 times what the robot's own masses give" in each
               for each in fit.warnings)


def test_gaps_and_joints_that_never_move_are_said():
    log = small_log()
    keep = (log["t"] < 2.0) | (log["t"] > 2.7)
    fit = nlink.identify(SMALL, {name: x[keep] for name, x in log.items()}, friction=())
    assert any("a gap of 0.7" in each and "at t = 1.99" in each for each in fit.warnings)
    q = log["q"].copy()
    q[:, 1] = 0.3
    fit = nlink.identify(SMALL, {**log, "q": q})
    assert any("'joint2' never moves" in each for each in fit.warnings)
    assert any(each.startswith("joint2.viscous: not told at all; joint2 ") for each in fit.unknown)


def test_arguments_are_checked():
    log = small_log()
    for how, said in (({"mode": "all"}, "mode: 'all'"), ({"gains": "guess"}, "gains: 'guess'"),
                      ({"fixed": ["link9.m"]}, "fixed: 'link9.m'"), ({"cutoff": -1}, "cutoff: -1"),
                      ({"validate": 2.0}, "validate: 2.0"), ({"prior": "none"}, "prior: 'none'"),
                      ({"delay": "some"}, "delay: 'some'"), ({"weight": -1}, "weight: -1")):
        with pytest.raises(ValueError, match=said):
            nlink.identify(SMALL, log, **how)
    with pytest.raises(ValueError, match="has loops"):
        nlink.identify(nlink.load("four_bar"), log)


def test_fixed_parameters_stay():
    fit = nlink.identify(SMALL, small_log(2, SMALL.with_payload(0.2)), friction=(),
                         fixed=["link1", "link2.m"], armature=False)
    prior = dict(zip(SMALL.parameter_names(), SMALL.parameters(), strict=True))
    for name, value in fit.values.items():
        if name.startswith("link1.") or name == "link2.m":
            assert value == pytest.approx(prior[name], abs=1e-9)


def test_a_singular_prior_is_repaired_and_said():
    links = tuple(replace(link, mass=0.0, inertia=((0.0,) * 3,) * 3) for link in SMALL.links)
    bare = nlink.Robot(replace(SMALL.description, links=links, physical="ignore"))
    fit = nlink.identify(bare, small_log(), friction=(), armature=False)
    assert any("no real body" in each for each in fit.warnings)
    assert error(fit.predict, SMALL) < 0.01


def test_without_a_solver_the_base_fit_is_returned(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "clarabel", None)
    fit = nlink.identify(SMALL, small_log(), friction=())
    assert not fit.physical
    assert any("pip install nlink[identify]" in each for each in fit.warnings)
    assert error(fit.predict, SMALL) < 0.01


def test_pseudo_inertias_go_both_ways():
    pi = np.random.default_rng(0).normal(size=10)
    np.testing.assert_allclose(parameters_of(pseudo_inertia(pi)), pi)


def test_rates_by_true_stamps():
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.002, 0.008, 2000))
    w = np.array([3.0, 5.0])
    smooth = differentiated(t, np.sin(w * t[:, None]), 6.0)
    at = w * smooth.t[:, None]
    np.testing.assert_allclose(smooth.qd, w * np.cos(at), atol=2e-3)
    np.testing.assert_allclose(smooth.qdd, -w**2 * np.sin(at), atol=5e-2)
    before = differentiated(t, np.sin(w * t[:, None]), 6.0, delay=0.01)
    np.testing.assert_allclose(before.q, np.sin(w * (before.t[:, None] - 0.01)), atol=1e-4)


def test_filtered_rows_of_white_noise_are_independent():
    t = np.arange(40_000) * 0.001
    sieve = RowFilter(t, ((0, len(t)),), 5.0)
    noise = np.random.default_rng(0).normal(size=len(t))
    rows = np.concatenate([(w / np.linalg.norm(w, axis=1)[:, None]) @ noise[r]
                           for _, r, w in sieve.chunks()])
    assert abs(np.std(rows) - 1) < 0.12
    assert abs(np.corrcoef(rows[1:], rows[:-1])[0, 1]) < 0.15
