"""What is wrong is said: in the status of a trajectory, or in one sentence."""

from __future__ import annotations

import numpy as np
import pytest

import nlink

DOUBLE = nlink.load("double_pendulum")
START = [0.1, 0.2]


def lost(t, q, qd):
    """Joint forces that are not numbers after half a second."""
    return [nlink.sqrt(0.5 - t), 0.0]


@pytest.mark.parametrize("method", ["rkf45", "lsoda"])
@pytest.mark.parametrize("tau", [lost, np.where(np.arange(101)[:, None] > 50, np.nan, [0.0, 0.0])],
                         ids=["law", "table"])
def test_a_trajectory_that_is_lost_says_so(method, tau):
    with np.errstate(invalid="ignore"):
        run = nlink.simulate(DOUBLE, START, t=1.0, tau=tau, method=method)
    assert run.status == "not finite"
    assert 0.4 <= run.t_end <= 0.51
    assert np.isfinite(run.q[:40]).all()
    assert np.isnan(run.q[-1]).all()


@pytest.mark.parametrize("method", ["rkf45", "rk4", "lsoda", "radau"])
def test_no_method_takes_more_steps_than_allowed(method):
    run = nlink.simulate(DOUBLE, START, t=1.0, method=method, max_steps=5)
    assert run.status == "too many steps"
    assert run.stats.steps + run.stats.rejects == 5
    assert run.t_end < 1.0


@pytest.mark.parametrize("method", ["rkf45", "dop853", "rk4", "lsoda"])
@pytest.mark.parametrize("t", [1e-12, 1e-4])
def test_a_time_shorter_than_between_outputs_has_its_two_ends(method, t):
    run = nlink.simulate(DOUBLE, START, t=t, every=1e6, method=method)
    assert run.t.tolist() == [0.0, t]
    assert run.ok
    assert np.abs(run.q - START).max() <= 100 * t * t
