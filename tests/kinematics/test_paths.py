"""Paths: lines and arcs are followed, and no limit is passed on the way."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.kinematics.time_optimal import time_along

REST = np.array([0.0, -0.3, 0.0, -2.2, 0.0, 2.0, 0.8])


@pytest.fixture(scope="module")
def panda():
    return nlink.load("panda")


def shifted(T, *d):
    T = T.copy()
    T[:3, 3] += d
    return T


@pytest.mark.slow
def test_a_line_and_an_arc_are_followed_within_all_limits(panda):
    start = panda.pose(REST)
    end = shifted(start, 0.0, 0.15, 0.0)
    via, last = start[:3, 3] + [0.05, 0.1, 0.1], shifted(start, 0.05, 0.0, 0.05)
    way = nlink.reach(panda, [start, end, nlink.Arc(via, last)], q0=REST, acceleration=6.0,
                      spacing=0.01)
    moves = [way(t) for t in np.linspace(0, way.duration, 400)]
    q, qd, qdd = (np.array([m[k] for m in moves]) for k in range(3))
    assert (np.abs(qd) <= panda.limits.velocity * (1 + 1e-6)).all()
    assert (np.abs(qdd) <= 6.0 * (1 + 1e-6)).all()
    assert (np.abs(panda.inverse_dynamics(q, qd, qdd)) <= panda.limits.effort * (1 + 1e-6)).all()
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
    assert time_along(arm, q, 100.0, 4.0, None).duration == pytest.approx(1.0, abs=1e-6)
    slow = time_along(arm, q, 0.5, 4.0, None)
    assert slow.duration == pytest.approx(1 / 0.5 + 0.5 / 4.0, rel=1e-3)


def sampled(motion, count, offset=0.0):
    """q, qd, qdd at times that no grid of the motion shares."""
    moves = [motion(t) for t in np.linspace(offset, motion.duration - offset, count)]
    return (np.array([move[k] for move in moves]) for k in range(3))


def random_configurations(robot, seed):
    """A path through three to eight random configurations."""
    rng = np.random.default_rng(seed)
    count = rng.integers(3, 9)
    middle = 0.5 * (robot.limits.lower + robot.limits.upper)
    return middle + rng.uniform(-0.4, 0.4, (count, robot.n)) * np.ptp(
        [robot.limits.lower, robot.limits.upper], axis=0)


@pytest.mark.parametrize("acceleration", [5.0, 0.01, 0.1, 1.0, 2.0, 10.0, 20.0, 1000.0])
@pytest.mark.slow
def test_a_sharp_corner_is_passed_with_any_limits(panda, corner, acceleration):
    """What can be timed within limits can be timed within twice as much, and faster."""
    slower, faster = (time_along(panda, corner, None, a, None)
                      for a in (acceleration, 2 * acceleration))
    assert faster.duration <= slower.duration * (1 + 1e-3)
    q, qd, qdd = sampled(slower, 997)
    assert (np.abs(qd) <= panda.limits.velocity * (1 + 1e-6)).all()
    assert (np.abs(qdd) <= acceleration * (1 + 1e-6)).all()
    tau = panda.inverse_dynamics(q, qd, qdd)
    assert (np.abs(tau) <= panda.limits.effort * (1 + 1e-6)).all()


@pytest.fixture(scope="module")
def corner(panda):
    """Configurations along two lines that meet in a corner, where timing was once refused."""
    start = panda.pose(REST)
    way = nlink.reach(panda, [start, shifted(start, 0.1, 0, -0.1), shifted(start, 0.1, 0, 0)],
                      q0=REST, acceleration=5.0)
    return way.q


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_rates_and_accelerations_keep_their_limits_at_any_spacing(panda, seed):
    """Samples at three spacings, from coarse to fine, find nothing beyond a limit."""
    motion = time_along(panda, random_configurations(panda, seed), None, 7.0, None)
    for count, offset in ((101, 0.0), (1009, 1e-3), (9973, 1e-5)):
        q, qd, qdd = sampled(motion, count, offset)
        assert (np.abs(qd) <= panda.limits.velocity * (1 + 1e-6)).all()
        assert (np.abs(qdd) <= 7.0 * (1 + 1e-6)).all()
        tau = panda.inverse_dynamics(q, qd, qdd)
        assert (np.abs(tau) <= panda.limits.effort * (1 + 1e-6)).all()


@pytest.mark.slow
@pytest.mark.parametrize("first", [(0.1, 0, -0.1), (0, 0.1, -0.1), (-0.1, 0, 0.1)])
@pytest.mark.parametrize("second", [(0, 0, 0.1), (0, 0.1, 0), (0.05, -0.05, 0)])
def test_no_corner_is_refused(panda, first, second):
    start = panda.pose(REST)
    middle = shifted(start, *first)
    q = nlink.reach(panda, [start, middle, shifted(middle, *second)], q0=REST, acceleration=5.0).q
    durations = [time_along(panda, q, None, a, None).duration for a in (0.5, 2.0, 5.0, 20.0, 100.0)]
    assert (np.diff(durations) < 0).all()


@pytest.fixture(scope="module")
def line(panda):
    start = panda.pose(REST)
    return nlink.reach(panda, [start, shifted(start, 0.0, 0.2, 0.1)], q0=REST, acceleration=2.0)


def test_a_line_is_straight(panda, line):
    q, _, _ = line(np.linspace(0, line.duration, 1001))
    way = panda.pose(q)[:, :3, 3] - panda.pose(REST)[:3, 3]
    along = np.array([0.0, 0.2, 0.1]) / np.hypot(0.2, 0.1)
    assert np.abs(way - np.outer(way @ along, along)).max() < 1e-7


def test_an_array_of_times_gives_arrays(line):
    times = np.linspace(-0.1, line.duration + 0.1, 7)
    for part, rows in zip(line(times), zip(*map(line, times.tolist()), strict=True), strict=True):
        assert part.shape == (7, 7)
        assert (part == np.array(rows)).all()


def test_waypoints_are_passed_at_their_times(line):
    assert np.abs(line(line.t)[0] - line.q).max() < 1e-12


@pytest.mark.slow
def test_a_followed_line_is_cheap_to_integrate(panda, line):
    """An integrator stops at each change of sddot, so there are few."""
    tau = nlink.simulation.ComputedTorque(panda, line, 400.0, 40.0)
    run = nlink.simulate(panda, line.q[0], t=line.duration, tau=tau)
    assert run.stats.steps < 1000


def test_rates_and_accelerations_are_derivatives(panda, corner):
    motion = time_along(panda, corner, None, 5.0, None)
    step = 1e-6
    for t in np.linspace(0.0123, motion.duration - 0.0123, 23):
        # u is constant on an interval: differences within one
        k = np.searchsorted(motion.t, t)
        t = 0.5 * (motion.t[k - 1] + motion.t[k])
        _, qd, qdd = motion(t)
        before, after = motion(t - step), motion(t + step)
        assert np.allclose((np.array(after[0]) - before[0]) / (2 * step), qd, atol=1e-7)
        assert np.allclose((np.array(after[1]) - before[1]) / (2 * step), qdd, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("friction", [
    {"viscous": 2.0}, {"dry": 1.5}, {"viscous": 1.0, "dry": 1.0}])
def test_efforts_with_friction_keep_their_limits(panda, corner, friction):
    robot = panda.with_friction(**friction)
    motion = time_along(robot, corner, None, 100.0, None)
    q, qd, qdd = sampled(motion, 997)
    share = np.abs(robot.inverse_dynamics(q, qd, qdd)) / robot.limits.effort
    assert 0.97 < share.max() <= 1 + 1e-6


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.slow
def test_durations_are_those_of_toppra(panda, seed):
    """Never refused, and within 1 % of an independent solver on the same spline."""
    pytest.importorskip("toppra", reason="toppra is not installed")
    q = random_configurations(panda, seed)
    acceleration = float(np.random.default_rng(seed).choice([0.5, 2.0, 8.0, 30.0]))
    motion = time_along(panda, q, None, acceleration, 1e9)
    expected = toppra_duration(motion.path, panda.limits.velocity, np.full(7, acceleration))
    assert motion.duration == pytest.approx(expected, rel=0.01)


def toppra_duration(path, velocity, acceleration):
    from toppra import SplineInterpolator, constraint
    from toppra.algorithm import TOPPRA
    limits = [constraint.JointVelocityConstraint(np.stack([-velocity, velocity], -1)),
              constraint.JointAccelerationConstraint(
                  np.stack([-acceleration, acceleration], -1),
                  discretization_scheme=constraint.DiscretizationType.Interpolation)]
    spline = SplineInterpolator(path.t, path.q, bc_type=tuple((1, rate) for rate in path.rates))
    solver = TOPPRA(limits, spline, gridpoints=np.linspace(0, path.t[-1], 1001),
                    parametrizer="ParametrizeConstAccel")
    return solver.compute_trajectory(0, 0).duration


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


@pytest.mark.slow
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
