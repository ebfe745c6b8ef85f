"""Pinocchio confirms from outside, on random mechanisms and on every bundled robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink import Description, Friction, Robot
from nlink.testing import random_description, samples
from nlink.testing.samples import difference, torque_scale
from oracle import Oracle

BAR = 1e-12
MECHANISMS = 200


def without_friction(description: Description) -> Description:
    return replace(description, joints=tuple(
        replace(joint, friction=Friction()) for joint in description.joints))


def residuals(description: Description, seed: int, engine: str) -> dict[str, float]:
    """Relative differences of everything both compute, in one random state."""
    robot, oracle = Robot(without_friction(description)), Oracle.of(description)
    x = samples(robot, seed, states=1)[0]
    q, qd, qdd = x.q, x.qd, x.qdd
    how = {"engine": engine}
    weight = torque_scale(robot)
    link = len(robot.links)
    M = oracle.mass_matrix(q)
    tau = oracle.inverse_dynamics(q, qd, qdd)
    error = robot.forward_dynamics(q, qd, tau, **how) - oracle.forward_dynamics(q, qd, tau)
    J = oracle.jacobian(q, link)
    size = float(np.abs(J).max(initial=0.0) * np.square(qd).max())
    return {
        "inverse dynamics": difference(robot.inverse_dynamics(q, qd, qdd, **how), tau, weight),
        "external wrenches": difference(
            robot.inverse_dynamics(q, qd, qdd, f_ext=x.f_ext, **how),
            oracle.inverse_dynamics(q, qd, qdd, x.f_ext), weight),
        "forward dynamics": difference(M @ error, 0.0, float(np.abs(tau).max()), weight),
        "mass matrix": difference(robot.mass_matrix(q, **how), M),
        "pose": difference(robot.pose(q, link, **how), oracle.pose(q, link)),
        "jacobian": difference(robot.jacobian(q, link, **how), J, 1.0),
        "jacobian rate": difference(robot.jacobian_dot_qd(q, qd, link, **how),
                                    oracle.jacobian_dot_qd(q, qd, link), size),
        "kinetic energy": difference(robot.kinetic_energy(q, qd, **how),
                                     oracle.kinetic_energy(q, qd)),
        "potential energy": difference(robot.potential_energy(q, **how),
                                       oracle.potential_energy(q), weight),
    }


def assert_confirmed(found: dict[str, float], name: str) -> None:
    for quantity, residual in found.items():
        assert residual <= BAR, f"{name}: {quantity} differs by {residual:.2e}"


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("block", range(4))
def test_random_mechanisms(block):
    """200 chains and trees, a quarter in each test."""
    for seed in range(block, MECHANISMS, 4):
        description = random_description(seed, tree=bool(seed // 4 % 2))
        assert_confirmed(residuals(description, seed, "python"), f"seed {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(nlink.robots()) - {
    "humanoid", "puma_saha", "quadruped", "stewart", "two_arms_box"}))
def test_bundled_robots(name):
    """But for the one that Pinocchio refuses, which test_reference.py has, and those with joints
    of several rates, which closed/test_pinocchio_constraints.py has; loops are opened."""
    description = nlink.load(name).tree.description
    for seed in range(5):
        assert_confirmed(residuals(description, seed, "numpy"), name)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
def test_compiled_kernels_of_random_mechanisms(seed):
    assert_confirmed(residuals(random_description(seed, 6), seed, "compiled"), f"seed {seed}")
