"""Environments beside Gymnasium's on MuJoCo: the same motion, and rows of a run."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

from nlink.bench.learners_bench import (
    ROBOTS,
    _environment,
    _model,
    _peer,
    rows,
    run_learners_bench,
)
from nlink.formats.load import load_description
from nlink.robot import Robot


@pytest.mark.parametrize("name", ROBOTS)
def test_both_sides_see_the_same_and_are_paid_the_same(name):
    """Classical Runge-Kutta from one state: the observations of an episode to float32."""
    robot = Robot(load_description(name))
    step = ROBOTS[name]
    ours = _environment(robot, name, step, "rk4", 1)
    peer = _peer(robot, _model(robot, step, "rk4"), name).envs[0]
    ours.reset(seed=0)
    peer.reset(seed=0)
    peer.data.qpos[:] = ours.q[0]
    action = np.full(robot.n, 0.3, np.float32)
    for _ in range(40):
        seen, rewards, *_ = ours.step(action[None])
        theirs, reward, *_ = peer.step(action)
        scale = max(1.0, np.abs(theirs).max())
        # MuJoCo's positions of bodies are those before the last stage of a step
        np.testing.assert_allclose(seen[0, :2 * robot.n], theirs[:2 * robot.n], rtol=0,
                                   atol=1e-5 * scale)
        assert rewards[0] == pytest.approx(reward, abs=0.02)


@pytest.mark.slow
def test_a_short_run_fills_all_rows_without_failures():
    bench = run_learners_bench(("double_pendulum",), seconds=0.01, counts=(8,))
    assert [row.failures for row in bench.rows] == [0] * 2
    for row in bench.rows:
        assert min(row.environment, row.gymnasium, row.mujoco, row.stepper, row.kernels) > 0
    assert [line[:2] for line in rows(bench)] == [
        ("double pendulum, rk4", "8"), ("double pendulum, Euler", "8")]
    with pytest.raises(ValueError, match="robots: 'ur5', expected some of panda, double_pendulum"):
        run_learners_bench(("ur5",))
