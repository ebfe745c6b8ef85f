"""Peers that read a URDF file: their calls are timed, and one that fails is named."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import nlink
from nlink.bench.bench_tables import markdown
from nlink.bench.timing import Bench
from nlink.bench.urdf_peers import bench_urdf_peers


def test_peers_are_called_with_states_and_failures_are_named(monkeypatch):
    robot, seen = nlink.load("panda"), []

    def from_urdf(path: str) -> Any:
        peer = nlink.load(path)
        assert peer.n == 7

        def inverse_dynamics(q, qd, qdd):
            seen.append(peer.inverse_dynamics(q, qd, qdd) - robot.inverse_dynamics(q, qd, qdd))

        return SimpleNamespace(inverse_dynamics=inverse_dynamics,
                               forward_dynamics=robot.forward_dynamics)

    fake = ModuleType("dynibo")
    fake.Robot = SimpleNamespace(from_urdf=from_urdf)
    monkeypatch.setitem(sys.modules, "dynibo", fake)
    broken = ModuleType("roboticstoolbox")  # has no Robot
    monkeypatch.setitem(sys.modules, "roboticstoolbox", broken)
    bench = Bench("a core", {}, ["frax"], 1.0)
    states = [np.random.default_rng(0).normal(size=(8, 7)) for _ in range(3)]
    bench_urdf_peers(bench, robot.description, dict.fromkeys(
        ("inverse_dynamics", "forward_dynamics"), states), 0.001)
    assert [(t.what, t.method) for t in bench.timings] == [
        ("inverse_dynamics", "dynibo call"), ("forward_dynamics", "dynibo call")]
    assert np.abs(seen).max() <= 1e-9
    assert bench.missing[0] == "frax"
    assert "roboticstoolbox-python for panda (" in bench.missing[1]
    assert "Further peers" in markdown(bench)
