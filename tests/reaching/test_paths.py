"""Paths: lines and arcs are followed, and no limit is passed on the way."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.reaching.time_optimal import time_along

REST = np.array([0.0, -0.3, 0.0, -2.2, 0.0, 2.0, 0.8])


@pytest.fixture(scope="module")
def panda():
    return nlink.load("panda")


def shifted(T, *d):
    T = T.copy()
    T[:3, 3] += d
    return T


def test_a_line_and_an_arc_are_followed_within_all_limits(panda):
    start = panda.pose(REST)
    end = shifted(start, 0.0, 0.15, 0.0)
    via, last = start[:3, 3] + [0.05, 0.1, 0.1], shifted(start, 0.05, 0.0, 0.05)
    way = nlink.reach(panda, [start, end, nlink.Arc(via, last)], q0=REST, acceleration=6.0,
                      spacing=0.01)
    moves = [way(t) for t in np.linspace(0, way.duration, 400)]
    q, qd, qdd = (np.array([m[k] for m in moves]) for k in range(3))
    assert (np.abs(qd) <= panda.limits.velocity * (1 + 1e-6)).all()
    assert (np.abs(qdd) <= 6.0 * (1 + 1e-3)).all()
    assert (np.abs(panda.inverse_dynamics(q, qd, qdd)) <= panda.limits.effort * 1.001).all()
    assert np.abs(qd[[0, -1]]).max() < 1e-9
    # some limit counts nearly everywhere: it is fast
    used = np.maximum(np.abs(qd) / panda.limits.velocity, np.abs(qdd) / 6.0).max(axis=1)
    assert np.median(used) > 0.6
    p = panda.pose(q)[:, :3, 3]
    line = p[:np.argmax(p[:, 1] - start[1, 3] > 0.1)]
    assert len(line) > 10
    assert np.abs(line[:, 0] - start[0, 3]).max() < 1e-4
    assert np.abs(panda.pose(way.q[-1]) - last).max() < 3e-6
    assert min(np.linalg.norm(p - via, axis=1)) < 5e-3


def test_time_of_one_joint_is_that_of_full_acceleration_and_braking():
    """From rest to rest over a distance d with |qdd| <= a: 2 sqrt(d / a)."""
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (0, 0, 0), "inertia": (1, 1, 1)}
    arm = nlink.Robot.from_dh([rod], gravity=(0, 0, 0))
    q = np.linspace(0, 1.0, 201)[:, None]
    t = time_along(arm, q, 100.0, 4.0, None)
    assert abs(t[-1] - 2 * np.sqrt(1 / 4.0)) < 0.02
    slow = time_along(arm, q, 0.5, 4.0, None)
    assert abs(slow[-1] - (1 / 0.5 + 0.5 / 4.0)) < 0.03


@pytest.mark.parametrize(("waypoints", "message"), [
    (lambda T: [T], "expected a pose to begin with"),
    (lambda T: [T, T], "no joint moves"),
    (lambda T: [T, shifted(T, 3.0, 0, 0)], r"along the path .* are left"),
    (lambda T: [T, nlink.Arc(T[:3, 3] + [0.1, 0, 0], shifted(T, 0.2, 0, 0))], "via"),
])
def test_paths_that_cannot_be_followed_are_refused(panda, waypoints, message):
    start = panda.pose(REST)
    with pytest.raises(ValueError, match=message):
        nlink.reach(panda, waypoints(start), q0=None if len(waypoints(start)) == 1 else REST,
                    acceleration=5.0, spacing=0.02)


def test_a_limit_is_needed(panda):
    free = nlink.load("puma560")
    start = free.pose([0.1, -0.5, 0.3, 0.2, 0.7, 0.1])
    with pytest.raises(ValueError, match="acceleration: no limit"):
        nlink.reach(free, [start, shifted(start, 0, 0, 0.05)], q0=[0.1, -0.5, 0.3, 0.2, 0.7, 0.1])


def test_manipulability_and_its_gradient(panda):
    q = REST + 0.1
    gradient = panda.manipulability_gradient(q)
    step = 1e-6
    numeric = [(panda.manipulability(q + e) - panda.manipulability(q - e)) / (2 * step)
               for e in step * np.eye(7)]
    assert np.abs(gradient - numeric).max() < 1e-7
    assert panda.limit_distance(panda.limits.upper) == 0
