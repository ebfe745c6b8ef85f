"""Pinocchio's aba, crba and computeMinverse on 200 random chains and trees, every formulation.

The bar is an error of 100 cond(M) eps relative to the largest number.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nlink import Description, Robot
from nlink.algorithms.catalogue import ALGORITHMS
from nlink.formats.bridges import to_pinocchio
from nlink.testing import random_description, samples
from nlink.testing.samples import EPS, difference

pin = pytest.importorskip("pinocchio")

MECHANISMS, BLOCKS = 200, 8
FORMULATIONS = [name for name in ALGORITHMS["forward_dynamics"]
                if name in ("articulated", "denoc", "composite")]


def depth_first(description: Description) -> Description:
    """The same mechanism with every subtree numbered in one piece, as Pinocchio's matrices need
    it."""
    children: dict[int, list[int]] = {}
    for number, joint in enumerate(description.joints, 1):
        children.setdefault(joint.parent, []).append(number)
    order, stack = [0], children.get(0, [])[::-1]
    while stack:
        order.append(stack.pop())
        stack += children.get(order[-1], [])[::-1]
    new = {old: at for at, old in enumerate(order)}
    joints = tuple(replace(description.joints[old - 1], parent=new[description.joints[
        old - 1].parent]) for old in order[1:])
    frames = tuple(replace(frame, link=new[frame.link]) for frame in description.frames)
    return replace(description, links=tuple(description.links[old - 1] for old in order[1:]),
                   joints=joints, frames=frames)


def assert_confirmed(seed: int, engine: str) -> None:
    description = depth_first(random_description(seed, tree=bool(seed % 3), friction=False))
    robot, model = Robot(description), to_pinocchio(description)
    data, x = model.createData(), samples(robot, seed, states=1)[0]
    upper = np.triu(pin.crba(model, data, x.q))
    M = upper + np.triu(upper, 1).T
    bar = 100 * np.linalg.cond(M) * EPS
    assert difference(robot.mass_matrix(x.q, engine=engine), M) <= 100 * EPS * robot.n, seed
    half = np.triu(pin.computeMinverse(model, data, x.q))
    Minv = half + np.triu(half, 1).T
    assert difference(robot.inverse_mass_matrix(x.q, engine=engine), Minv) <= bar, seed
    U, D = robot.factor_mass_matrix(x.q, engine=engine)
    assert difference((U * D) @ U.T, M) <= bar, seed
    qdd = pin.aba(model, data, x.q, x.qd, x.tau)
    for algorithm in FORMULATIONS:
        ours = robot.forward_dynamics(x.q, x.qd, x.tau, algorithm=algorithm, engine=engine)
        assert difference(ours, qdd) <= bar, (seed, algorithm)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_mechanisms(block):
    for seed in range(block, MECHANISMS, BLOCKS):
        assert_confirmed(seed, "python")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, MECHANISMS, 20))
def test_traced_programs(seed):
    assert_confirmed(seed, "numpy")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_compiled_kernels(seed):
    assert_confirmed(seed, "compiled")


@pytest.mark.parametrize("seed", range(40))
def test_coriolis_matrix_gives_pinocchios_velocity_forces(seed):
    """Pinocchio's C is another matrix with the same two laws; what both must share is C qd."""
    description = depth_first(random_description(seed, tree=bool(seed % 3), friction=False))
    robot, model = Robot(description), to_pinocchio(description)
    x = samples(robot, seed, states=1)[0]
    C = robot.coriolis_matrix(x.q, x.qd, engine="python")
    theirs = pin.computeCoriolisMatrix(model, model.createData(), x.q, x.qd)
    M, speed = robot.mass_matrix(x.q, engine="python"), float(np.abs(x.qd).max())
    size, bar = float(np.abs(M).max()) * speed, 100 * EPS * robot.n
    assert difference(C + C.T, theirs + theirs.T, float(np.abs(theirs).max()), size) <= bar
    assert difference(C @ x.qd, theirs @ x.qd, float(np.abs(C).max()) * speed, size * speed) <= bar
