"""Centroidal momentum, frame velocities and accelerations: laws on random mechanisms of every
joint kind, and Pinocchio on floating humanoids."""

from __future__ import annotations

import numpy as np
import pytest

from nlink.testing import random_robot
from nlink.testing.mechanisms import EVERY
from nlink.testing.samples import along, difference, samples

ENGINES = ("compiled", "numpy", "python")
PLAIN = {"engine": "python"}


@pytest.fixture(scope="module")
def robots():
    return [random_robot(seed, types=EVERY, bodies=4) for seed in range(40, 46)]


def apply(A, x):
    return np.einsum("...ij,...j->...i", A, x)


def test_frames_move_as_their_jacobians_say(robots):
    for robot in robots:
        x = samples(robot, 3, states=4)
        J = robot.jacobian(x.q, **PLAIN)
        v, drift = apply(J, x.qd), robot.jacobian_dot_qd(x.q, x.qd, **PLAIN)
        assert difference(robot.frame_velocity(x.q, x.qd, **PLAIN), v, 1.0) < 1e-13
        a = robot.frame_acceleration(x.q, x.qd, x.qdd, **PLAIN)
        assert difference(a, apply(J, x.qdd) + drift, 1.0) < 1e-13
        rate = along("frame_velocity", robot, x).reshape(6, -1).T
        assert difference(a, rate, 1.0) < 1e-11


def test_momentum_is_that_of_the_bodies(robots):
    """h = sum of L_i + (c_i - c) x p_i and of p_i, link by link, each from its own Jacobian."""
    for robot in robots:
        x = samples(robot, 5, states=1)[0]
        c = robot.center_of_mass(x.q, **PLAIN)
        moving = {i + 1 for i, joint in enumerate(robot.joints) if _moves(robot, i)}
        h = np.zeros(6)
        for k, link in enumerate(robot.links, 1):
            if k not in moving:
                continue
            T, twist = (robot.pose(x.q, k, **PLAIN),
                        robot.frame_velocity(x.q, x.qd, k, **PLAIN))
            R, w = T[:3, :3], twist[:3]
            arm = R @ np.array(link.com)
            p = link.mass * (twist[3:] + np.cross(w, arm))
            h[:3] += R @ np.array(link.inertia) @ R.T @ w + np.cross(T[:3, 3] + arm - c, p)
            h[3:] += p
        assert difference(robot.centroidal_momentum(x.q, x.qd, **PLAIN), h) < 1e-12


def _moves(robot, i):
    while i >= 0:
        if robot.joints[i].type.nv:
            return True
        i = robot.joints[i].parent - 1
    return False


def test_center_of_mass_moves_as_its_jacobian_says(robots):
    for robot in robots:
        x = samples(robot, 4, states=3)
        v = apply(robot.com_jacobian(x.q, **PLAIN), x.qd)
        assert difference(v, along("center_of_mass", robot, x).reshape(3, -1).T, 1.0) < 1e-11
        h = robot.centroidal_momentum(x.q, x.qd, **PLAIN)
        mass = h[..., 3:] / v
        assert difference(mass, mass[0, 0]) < 1e-9
        A = along("centroidal_momentum_matrix", robot, x).reshape(6, robot.n, -1)
        drift = np.einsum("ijs,sj->si", A, x.qd)
        assert difference(robot.centroidal_momentum_drift(x.q, x.qd, **PLAIN), drift, 1.0) < 1e-10
        slow = robot.com_jacobian_dot_qd(x.q, x.qd, **PLAIN)
        assert difference(slow, drift[:, 3:] / mass[0, 0], 1) < 1e-10


@pytest.mark.slow
def test_engines_agree_and_several_frames_are_as_one_by_one(robots):
    for robot in robots[:1]:
        x = samples(robot, 2, states=2)
        for name, arguments in {"centroidal_momentum_matrix": (x.q,), "com_jacobian": (x.q,),
                                "centroidal_momentum_drift": (x.q, x.qd),
                                "frame_velocity": (x.q, x.qd), "poses": (x.q,)}.items():
            found = [getattr(robot, name)(*arguments, engine=engine) for engine in ENGINES]
            assert max(difference(each, found[-1], 1.0) for each in found) < 1e-13
        single = [robot.pose(x.q, k, **PLAIN) for k in range(len(robot.links) + 1)]
        one_by_one = np.stack(single, axis=1)
        assert difference(robot.poses(x.q), one_by_one, 1.0) < 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("name", ["talos_data/talos_reduced", "icub_description/icub"])
def test_humanoids_against_pinocchio(name):
    pin = pytest.importorskip("pinocchio")
    from formats.example_robots import Twin, example_files, state

    files = example_files()
    if not files:
        pytest.skip("example-robot-data is not installed")
    path = next(p for key, p in files.items() if name.split("/")[1] in key)
    twin = Twin.of(path, floating=True)
    q, qd, _ = state(twin.robot, 1)
    theirs, v = twin.exchange.q(q), twin.exchange.v(q, qd)
    A = pin.computeCentroidalMap(twin.model, twin.data, theirs)
    h = A @ v
    ours = twin.robot.centroidal_momentum(q, qd, **PLAIN)
    assert difference(ours, np.concatenate([h[3:], h[:3]])) < 1e-12
    A = np.vstack([A[3:], A[:3]])
    ours = twin.exchange.J(q, twin.robot.centroidal_momentum_matrix(q, **PLAIN))
    assert difference(ours, A) < 1e-12
    J = pin.jacobianCenterOfMass(twin.model, twin.data, theirs)
    linear = twin.robot.com_jacobian(q, **PLAIN)
    ours = twin.exchange.J(q, np.vstack([np.zeros_like(linear), linear]))
    assert difference(ours[3:], J) < 1e-12
