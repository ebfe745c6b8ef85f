"""Rates that are held: accelerations and forces against dense equations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nlink
from nlink.engines.engines import ENGINES
from nlink.formats.dh import parse_toml
from nlink.simulation import apply
from nlink.testing import random_robot, robots, samples
from nlink.testing.mechanisms import EVERY


@pytest.mark.parametrize("engine", ["python", "numpy"])
@given(robot=robots(), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=8)
@pytest.mark.slow
def test_holding_is_a_constraint(engine, robot, seed):
    """[M -E; E^T 0] [qdd; force] = [tau - bias; qdd*] with E the unit vectors of held rates."""
    x = samples(robot, seed, states=2)
    qdd, force = robot.compute("hybrid_dynamics", x.q, x.qd, x.tau, x.held, x.qdd, engine=engine)
    still = robot.inverse_dynamics(x.q, x.qd, np.zeros_like(x.qd), engine="numpy")
    for k, M in enumerate(robot.mass_matrix(x.q, engine="numpy")):
        E = np.eye(robot.n)[:, x.held[k] > 0]
        A = np.block([[M, -E], [E.T, np.zeros((E.shape[1],) * 2)]])
        found = np.linalg.solve(A, np.concatenate([x.tau[k] - still[k], E.T @ x.qdd[k]]))
        scale = np.linalg.cond(A) * (1 + np.abs(found).max())
        assert np.abs(qdd[k] - found[:robot.n]).max(initial=0.0) <= 1e-14 * scale
        assert np.abs(E.T @ force[k] - found[robot.n:]).max(initial=0.0) <= 1e-14 * scale


@pytest.mark.parametrize("engine", ENGINES)
def test_with_none_held_it_is_forward_dynamics(engine):
    robot = random_robot(14, 5, types=EVERY)
    x = samples(robot, states=5)
    qdd, force = robot.compute("hybrid_dynamics", x.q, x.qd, x.tau, 0 * x.qd, x.qdd, engine=engine)
    assert not force.any()
    np.testing.assert_allclose(qdd, robot.forward_dynamics(x.q, x.qd, x.tau), rtol=1e-11)


def test_rates_that_are_free_by_structure_cost_nothing():
    """With the number 0 for `held`, the graph is that of forward dynamics."""
    robot = nlink.load("puma560")
    q, qd = robot.random_state(0)
    zeros = [0.0] * robot.n
    found = apply(robot, "hybrid_dynamics", q.tolist(), qd.tolist(), zeros, zeros, zeros)
    assert found == [*apply(robot, "forward_dynamics", q.tolist(), qd.tolist(), zeros,
                            algorithm="articulated"), *zeros]


def test_breakaway_friction_falls_with_the_rate():
    """tau - tau without friction = (c + (b - c) exp(-(qd/w)^2)) sign(qd) + viscous qd, and forward
    dynamics undoes it; files keep it."""
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0), "inertia": (0, 1, 1)}
    rough = {"viscous": 0.5, "coulomb": 2.0, "breakaway": 3.0, "stribeck": 0.1}
    robot, ideal = (nlink.Robot.from_dh([row, row]) for row in (rod | {"friction": rough}, rod))
    q, qd = np.zeros(2), np.array([[0.1, -0.05], [2.0, 0.0]])
    drag = robot.inverse_dynamics(q, qd, q) - ideal.inverse_dynamics(q, qd, q)
    wanted = 0.5 * qd + (2 + np.exp(-(qd / 0.1) ** 2)) * np.sign(qd)
    np.testing.assert_allclose(drag, wanted, rtol=1e-12)
    tau = robot.inverse_dynamics(q, qd, q + 1)
    np.testing.assert_allclose(robot.forward_dynamics(q, qd, tau), np.ones_like(qd), rtol=1e-12)
    assert parse_toml(robot.to_toml()) == robot.description
