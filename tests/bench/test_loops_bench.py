"""Many loops beside Pinocchio: times, and errors that are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from nlink import Robot
from nlink.bench.dense_reference import dense_accelerations
from nlink.bench.loops_bench import HEADINGS, LoopsBench, LoopsLine, rows, run_loops_bench
from nlink.testing.linkages import net, walker


@pytest.mark.slow
def test_a_ladder_and_a_net_are_right_beside_pinocchio():
    bench = run_loops_bench(("ladder 2", "net 4x4"), seconds=0.01)
    for line in bench.lines:
        assert line.error < 1e-10
        assert line.lcaba > 0
        assert line.lcaba_error < 1e-2
        assert line.first_call > 0


def test_a_line_without_peers_has_empty_cells():
    (row,) = rows(LoopsBench("", {}, [], [LoopsLine("walker 2", 4, 1.5, 2**27, 4e-7)]))
    assert dict(zip(HEADINGS[:5], row, strict=False)) == {
        "mechanism": "walker 2", "loops": "4", "first call": "1.50 s", "memory": "128 MB",
        "a state": "400 ns"}
    assert set(row[5:]) == {""}


def test_unknown_mechanisms_are_refused():
    with pytest.raises(ValueError, match="robots: 'puma560', expected some of ladder 2,"):
        run_loops_bench(("puma560",))


@pytest.mark.parametrize("description", [net(2, 3), walker(1)], ids=["net", "walker"])
def test_the_dense_reference_is_another_way_to_the_same(description):
    """Also with the rows of pins that depend on others."""
    robot = Robot(description)
    tau = np.random.default_rng(0).normal(size=robot.n)
    exact = dense_accelerations(robot, robot.neutral, tau)
    found = robot.forward_dynamics(robot.neutral, np.zeros(robot.n), tau)
    assert np.abs(found - exact).max() < 1e-12 * np.abs(exact).max()
