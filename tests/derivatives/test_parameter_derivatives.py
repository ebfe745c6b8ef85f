"""Derivatives by masses, lengths, friction and gravity, against robots with other numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.model.pose import Mount, Pose
from nlink.testing.mechanisms import EVERY, random_robot

H = 1e-5


def with_gravity(robot, d):
    return nlink.Robot(replace(robot.description, gravity=tuple(robot.gravity + d)))


def with_inertia(robot, d):
    """Other moments of mass about the origins of links."""
    links = []
    for link, (m, *rest) in zip(robot.links, d, strict=True):
        com, mass = np.array(link.com), link.mass + m
        shift = np.dot(com, com) * np.eye(3) - np.outer(com, com)
        xx, yy, zz, xy, xz, yz = rest[3:]
        J = np.array(link.inertia) + link.mass * shift + [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
        c = (link.mass * com + rest[:3]) / mass
        inertia = J - mass * (np.dot(c, c) * np.eye(3) - np.outer(c, c))
        links.append(replace(link, mass=mass, com=tuple(c), inertia=tuple(map(tuple, inertia))))
    return nlink.Robot(replace(robot.description, links=tuple(links), physical="ignore"))


def with_placement(robot, d):
    """Other places of joints in their parents."""
    rows, joints = iter(d), []
    for joint in robot.joints:
        if joint.type.nv:
            row = next(rows)
            moved = Pose.of(np.eye(3), row[3:])
            for axis, angle in zip("xyz", row[:3], strict=True):
                moved = moved @ Pose.turn(axis, angle)
            joint = replace(joint, placement=Mount(moved @ joint.placement.before,
                                                   joint.placement.after))
        joints.append(joint)
    return nlink.Robot(replace(robot.description, joints=tuple(joints)))


CHANGED = {"gravity": with_gravity, "inertia": with_inertia, "placement": with_placement}


@pytest.mark.slow
@pytest.mark.parametrize("by", CHANGED)
@pytest.mark.parametrize("seed", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_derivatives_by_parameters_are_limits_of_differences(by, seed):
    robot = random_robot(seed, min(seed + 1, 4), types=EVERY)
    rng = np.random.default_rng(seed)
    q, qd = robot.random_state(rng)
    qdd = rng.normal(size=robot.n)
    how = {"engine": "numpy"}
    for name, args in (("inverse_dynamics", (q, qd, qdd)), ("forward_dynamics", (q, qd, qdd)),
                       ("pose", (q,))):
        slopes = nlink.parameter_derivatives(robot, name, args, by, **how)
        value = robot.compute(name, *args, **how)
        d = rng.normal(size=slopes.shape[value.ndim:]) * 0.1
        there, back = (CHANGED[by](robot, sign * H * d).compute(name, *args, **how)
                       for sign in (1, -1))
        found = np.sum(slopes * d, axis=tuple(range(value.ndim, slopes.ndim)))
        np.testing.assert_allclose(found, (there - back) / (2 * H), rtol=1e-6,
                                   atol=1e-6 * max(1.0, abs(found).max()))
        w = rng.normal(size=value.shape)
        weighted = nlink.parameter_derivatives(robot, name, args, by, cotangent=w, **how)
        np.testing.assert_allclose(weighted, np.tensordot(w, slopes, value.ndim), rtol=1e-9,
                                   atol=1e-9 * max(1.0, abs(weighted).max()))


@pytest.mark.slow
def test_inverse_dynamics_is_linear_in_masses_friction_and_rotors():
    robot = nlink.load("puma560")
    q, qd = robot.random_state(0, (5,))
    tau = robot.inverse_dynamics(q, qd, qd)
    Y = nlink.parameter_derivatives(robot, "inverse_dynamics", (q, qd, qd), "inertia")
    pi = []
    for link in robot.links:
        c = np.array(link.com)
        J = np.array(link.inertia) + link.mass * (c @ c * np.eye(3) - np.outer(c, c))
        pi.append([link.mass, *link.mass * c, *J[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]])
    forces = np.einsum("...jlk,lk", Y, pi)
    for name in ("armature", "viscous", "coulomb"):
        by = nlink.parameter_derivatives(robot, "inverse_dynamics", (q, qd, qd), name,
                                         engine="numpy")
        forces += by @ [x for joint in robot.mechanism.joints for x in getattr(joint, name)]
    np.testing.assert_allclose(forces, tau, rtol=1e-10, atol=1e-10)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="by: 'colour', expected one of gravity, inertia"):
        nlink.parameter_derivatives(nlink.load("planar3"), "bias", (), "colour")
