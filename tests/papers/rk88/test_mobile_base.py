"""[RK88] Appendix B: a mobile base is a joint of six rates; Pinocchio's free flyer agrees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

import nlink
from nlink.formats.bridges import pinocchio_order, to_pinocchio
from nlink.model.description import Joint
from nlink.model.joints import Free
from nlink.model.quaternions import quaternion_matrix
from nlink.testing import random_description

FORMULATIONS = ("fd1", "fd2", "fd3", "fd4")


def mobile(seed: int) -> nlink.Robot:
    """A random tree whose first link floats."""
    d = random_description(seed, 6, fixed=False, friction=False, armature=False)
    base = replace(d.joints[0], type=Free())
    joints = (base, *(joint if joint.parent else replace(joint, parent=1)
                      for joint in d.joints[1:]))
    return nlink.Robot(replace(d, joints=joints))


def state(robot: nlink.Robot, seed: int):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=robot.nq)
    q[3:7] /= np.linalg.norm(q[3:7])
    return q, *rng.normal(size=(2, robot.n))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("algorithm", FORMULATIONS)
@pytest.mark.parametrize("seed", range(4))
def test_free_flyer(seed, algorithm):
    """(b.1), (b.9), (b.10)."""
    robot = mobile(seed)
    q, W, T = state(robot, seed)
    model, order = to_pinocchio(robot.description), pinocchio_order(robot.description)
    expected = np.empty(robot.n)
    expected[order.rates] = pin.aba(model, model.createData(), q[order.coordinates],
                                    W[order.rates], T[order.rates])
    found = robot.forward_dynamics(q, W, T, algorithm=algorithm, engine="numpy")
    # Pinocchio's rates of a free flyer are a spatial derivative in body axes, as ours are
    condition = np.linalg.cond(robot.mass_matrix(q, engine="numpy"))
    assert np.abs(found - expected).max() <= 1e-13 * condition * max(1, np.abs(expected).max())


@pytest.mark.parametrize("seed", range(4))
def test_free_joint_passes_on_everything(seed):
    """(b.2), (b.6), (b.7), (b.8): H = 1 in body axes, so a(N) is what turning axes leave,
    T(N) = f(N), and D(N) = P(N)."""
    robot = mobile(seed)
    q, W, _ = state(robot, seed)
    o = robot.operators(q, W)
    R = o.links.rotation[0]
    turn = np.block([[R, np.zeros((3, 3))], [np.zeros((3, 3)), R]])
    assert np.abs(o.H(1).T - turn).max() <= 1e-14
    assert np.abs(turn @ o.D(1) @ turn.T - o.P(1)).max() <= 1e-12 * np.abs(o.P(1)).max()
    assert np.abs(o.V[:6] - turn @ W[:6]).max() <= 1e-14
    w, v = (turn @ W[:6]).reshape(2, 3)
    assert np.abs(o.a[:6] - np.concatenate([np.zeros(3), np.cross(w, v)])).max() <= 1e-13


def test_quaternion_rates():
    """(b.3)-(b.5): q' = Lambda(q) w, pi = 4 Lambda^T, pi Lambda = 1 for w in body axes."""
    joint = Joint("base", Free(), 0, random_description(0, 1).joints[0].placement)
    rng = np.random.default_rng(0)
    q = rng.normal(size=4)
    q /= np.linalg.norm(q)
    columns = [joint.type.space.tangent((0, 0, 0, *q), (*e, 0, 0, 0))[3:] for e in np.eye(3)]
    Lambda = np.array(columns).T
    s, x, y, z = q
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    assert np.abs(Lambda - np.vstack([-q[1:], s * np.eye(3) + cross]) / 2).max() <= 1e-15
    assert np.abs(4 * Lambda.T @ Lambda - np.eye(3)).max() <= 1e-15
    # along q' the rotation turns by w~ in its own axes
    h, w = 1e-40, rng.normal(size=3)
    R = np.array(quaternion_matrix(*(q + 1j * h * (Lambda @ w))).rows)
    spin = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    assert np.abs(R.imag / h - R.real @ spin).max() <= 1e-14


@pytest.mark.parametrize("seed", range(3))
def test_station_moves_nothing_but_gravity(seed):
    """(b.7): without gravity a free mechanism under no force keeps its momentum."""
    robot = mobile(seed)
    free = nlink.Robot(replace(robot.description, gravity=(0.0, 0.0, 0.0)))
    q, W, _ = state(free, seed)
    T = np.concatenate([np.zeros(6), np.ones(free.n - 6)])
    qdd = free.forward_dynamics(q, W, T, algorithm="fd4", engine="numpy")
    o = free.operators(q, W)
    f = o.phi @ (o.M @ o.alpha(qdd) + o.b)
    assert np.abs(f[:6]).max() <= 1e-10 * max(1, np.abs(f).max())
