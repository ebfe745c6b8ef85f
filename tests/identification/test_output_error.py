"""The second stage: simulated positions pass through measured ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.identification.fit_signals import all_rows
from nlink.identification.fit_task import FitTask
from nlink.identification.output_error import _linearized, _windows

ARM = nlink.load("double_pendulum")
TRUE = ARM.with_payload(0.3, (0.1, 0.0, 0.0)).with_friction(viscous=0.2, dry=0.1)
FRICTION = ("viscous", "coulomb")


def moved(robot, t):
    w, a = np.array([2.0, 3.1]), np.array([1.0, 0.8])
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    more = np.cos(2.7 * np.outer(t, w))
    q = a * s - 0.3 * more
    qd = a * w * c + 0.81 * w * np.sin(2.7 * np.outer(t, w))
    qdd = -a * w * w * s + 0.3 * (2.7 * w) ** 2 * more
    return q, robot.inverse_dynamics(q, qd, qdd)


def noisy(seed=0, noise=0.03):
    t = np.arange(0, 6, 0.01)
    q, tau = moved(TRUE, t)
    rng = np.random.default_rng(seed)
    return {"t": t, "q": q + 1e-4 * rng.normal(size=q.shape),
            "tau": tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)}


@pytest.mark.slow
def test_positions_tell_the_parameters():
    inside = []
    for seed in range(3):
        fit = nlink.identify(ARM, noisy(seed), friction=FRICTION, output_error=True)
        second = fit.output_error
        truth = fit.base_parameters.matrix @ TRUE.parameters(FRICTION, True)
        inside.append((second.intervals[:, 0] <= truth) & (truth <= second.intervals[:, 1]))
        assert second.rounds > 0
        assert second.score < 0.01
        q, tau = moved(TRUE, np.arange(0, 3, 0.02) + 7)
        assert fit.score({"t": np.arange(0, 3, 0.02), "q": q, "tau": tau}) < 0.02
        assert not fit.robot.description.objection
        assert "simulated positions" in fit.summary()
    assert np.mean(inside) > 0.85


@pytest.mark.slow
def test_it_mends_what_a_bad_start_leaves():
    """Of parameters that are 30 % off, one stage on positions alone finds the true ones."""
    t = np.arange(0, 6, 0.01)
    q, tau = moved(TRUE, t)
    log = {"t": t, "q": q, "tau": tau}
    good = nlink.identify(ARM, log, friction=FRICTION, validate=None)
    task, setting = asked(log)
    from nlink.identification.output_error import refined
    from nlink.identification.solved_fit import solve

    rows, _, _ = all_rows(task, (), None, 0.0)
    first, _ = solve(task, rows)
    pi, second, _ = refined(task, task.logs, setting, replace(
        first, pi=np.where(np.abs(first.pi) > 0, 1.3, 1.0) * first.pi))
    assert second.score < 0.05 * second.before
    M = good.base_parameters.matrix
    np.testing.assert_allclose(M @ pi, M @ TRUE.parameters(FRICTION, True), atol=0.05)


def asked(log, friction=FRICTION):
    task = FitTask.of(ARM, log, friction, True, None, None, (), "full", "robot", None, False)
    _, _, setting = all_rows(task, (), None, 0.0)
    return replace(task, columns=setting.columns), setting


@pytest.mark.slow
def test_derivatives_are_those_of_simulate():
    robot, tau = ARM.with_friction(viscous=0.2), np.array([3.0, -1.0])
    run = nlink.simulate(robot, [0.3, -0.4], [0.2, 0.5], t=2.0, every=0.005, tau=tau,
                         vary={"payload": 0.0, "viscous": [0.2, 0.2]},
                         sensitivities=("payload", "viscous"), rtol=1e-10, atol=1e-10)
    task, setting = asked({"t": run.t, "q": run.q, "tau": np.tile(tau, (len(run.t), 1))},
                          ("viscous",))
    windows = _windows(task, task.logs, setting)
    pi = robot.parameters(("viscous",), True)
    got = _linearized(task.columns, windows, pi, task.base.columns)
    assert np.abs(got.left).max() < 1e-3
    M = task.base.matrix
    heavy, bare = (each.parameters(("viscous",), True) for each in (ARM.with_payload(1.0), ARM))
    first = np.searchsorted(run.t, windows.t[:, 0])
    n, own = 2, got.J[:, 0]
    # from a later start: the derivatives by initial states carry on what was there before
    for change, name, column in ((heavy - bare, "payload", 0), (np.eye(len(pi))[-4], "viscous", 0)):
        true = run.sensitivity(name)
        start = np.concatenate([true.q[first[0], :, column], true.qd[first[0], :, column]])
        mine = own[..., :2 * n] @ start + own[..., 2 * n:] @ (M @ change)
        size = np.abs(true.q[first, :, column]).max()
        np.testing.assert_allclose(mine, true.q[first, :, column], atol=5e-3 * size)


def test_what_has_no_second_stage_is_refused():
    log = noisy()
    with pytest.raises(ValueError, match="output_error: with mode='gravity'"):
        nlink.identify(ARM, log, mode="gravity", friction=(), output_error=True)
    states = {"q": log["q"], "qd": log["q"], "qdd": log["q"], "tau": log["tau"]}
    with pytest.raises(ValueError, match="output_error: no two windows"):
        nlink.identify(ARM, states, friction=(), output_error=True)
