"""Errors, Jacobians and accelerations of loops are one another's derivatives, for every type."""

from __future__ import annotations

import numpy as np
import pytest
from kkt import Dense, relative

import nlink
from nlink import Robot
from nlink.engines.engines import ENGINES
from nlink.model.constraints import CONSTRAINTS
from nlink.testing import Samples, close_at_random, random_arms, random_description
from nlink.testing.loop_laws import LOOP_LAWS

H = 1e-3


def derivative(f, h: float = H) -> np.ndarray:
    """f'(0) by central differences of order 6."""
    weights = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
    return sum(w * (f(k * h) - f(-k * h)) for k, w in weights) / h


def of(robot: Robot, name: str):
    """A function of closures on plain floats."""
    return ENGINES["python"](robot.request(name))


def assert_consistent(robot: Robot, seed: int) -> None:
    """d/dt error = J qd in any direction, d/dt (J qd) = J qdd + Jdot qd on closed motions."""
    rng, q = np.random.default_rng(seed), robot.neutral
    v = rng.normal(size=robot.n)
    error, J = of(robot, "closure_error"), of(robot, "closure_jacobian")(q)
    velocity = of(robot, "closure_velocity")
    assert np.abs(error(q)).max() < 1e-13
    assert relative(velocity(q, v), J @ v) < 1e-12
    holds = np.array([x for loop in robot.description.loops for x in places(loop.constraint)])
    rate = derivative(lambda t: error(robot.integrate(q, v * t)))
    assert relative(rate[holds], (J @ v)[holds]) < 1e-8
    assert (rate[~holds] == 0).all()
    qd, qdd = Dense(robot).closed_rates(q, v), rng.normal(size=robot.n)
    assert np.abs(velocity(q, qd)).max() < 1e-12
    change = derivative(lambda t: velocity(robot.integrate(q, qd * t), qd + qdd * t))
    expected = J @ qdd + of(robot, "closure_acceleration")(q, qd)
    assert relative(change, expected) < 1e-8


def places(constraint) -> list[bool]:
    """Of each row, whether it holds a place and not a velocity alone."""
    if constraint.name == "soft_finger":
        return [False, True, True, True]
    if constraint.name == "matrix":
        return [not any(row[:3]) for row in constraint.matrix]
    return [True] * constraint.count


@pytest.mark.parametrize("kind", list(CONSTRAINTS))
@pytest.mark.parametrize("seed", range(2))
def test_loops_to_the_base_are_consistent(kind, seed):
    """Chains with joints of all types, closed on the base; `of` and `on` are swapped at random."""
    tree = random_description(seed, 4, tree=False, fixed=False, types=(
        "revolute", "prismatic", "helical", "universal", "spherical", "planar"))
    assert_consistent(Robot(close_at_random(seed, tree, [(4, 0)], [kind])), seed)


@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_loops_between_branches_are_consistent(kind):
    for seed in range(2):
        tree = random_description(seed, 7, tree=True, fixed=False)
        moving = [k for k in range(1, 7) if k != 3]
        robot = Robot(close_at_random(seed, tree, [(7, 3), (moving[seed], 7)], [kind]))
        assert_consistent(robot, seed)


@pytest.mark.parametrize("seed", range(4))
def test_grasps_are_consistent(seed):
    assert_consistent(Robot(random_arms(seed, arms=2, joints=6)), seed)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_rows_span_what_independent_equations_span(kind):
    """J of either text has the rank of both together."""
    for seed in range(2):
        robot = Robot(random_arms(seed, arms=2, joints=6, types=[kind]))
        q = robot.neutral
        ours, theirs = of(robot, "closure_jacobian")(q), Dense(robot).rows(q, np.zeros(robot.n))[0]
        ranks = [np.linalg.matrix_rank(x, tol=1e-9) for x in (
            ours, theirs, np.vstack([ours, theirs]))]
        assert ranks[0] == ranks[1] == ranks[2]


def clear_ranks(kind: str, count: int):
    """Trees with loops inside, but for those with rows that are dependent to a rounded quarter
    turn (1.5708) only: J M^-1 J^T has the square of such a number."""
    found = 0
    for seed in range(100):
        tree = random_description(seed, 8, tree=True, fixed=False)
        robot = Robot(close_at_random(seed, tree, [(8, 0), (7, 4)][:1 + seed % 2], [kind]))
        dense = Dense(robot)
        s = np.linalg.svd(dense.rows(robot.neutral, np.zeros(8))[0], compute_uv=False)
        if not ((s > 1e-10 * s[0]) & (s < 1e-3 * s[0])).any():
            found += 1
            yield seed, robot, dense
        if found == count:
            return


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_loops_among_random_trees_agree_with_kkt(kind):
    """Loops inside one tree share bodies on their ways to the base."""
    for seed, robot, dense in clear_ranks(kind, 3):
        rng, q = np.random.default_rng(seed), robot.neutral
        qd, tau = dense.closed_rates(q, rng.normal(size=8)), rng.normal(size=8)
        expected, _, J = dense.solve(q, qd, tau)
        size = np.abs(np.linalg.solve(dense.tree.mass_matrix(q, engine="python"), tau)).max()
        found = robot.forward_dynamics(q, qd, tau, engine="python")
        assert np.abs(found - expected).max() < 1e-9 * (size + np.abs(expected).max())
        gamma = dense.rows(q, qd)[1]
        assert np.abs(J @ found + gamma).max() < 1e-9 * (np.abs(gamma).max() + size)


@pytest.mark.parametrize("kind", [k for k in CONSTRAINTS if k not in ("matrix",)])
def test_nothing_but_a_closed_state_has_no_error(kind):
    """Half a turn away rows must not be met: an assembly would end there."""
    robot = Robot(random_arms(1, arms=1, joints=6, types=[kind]))
    error, q = of(robot, "closure_error"), robot.neutral
    dense = Dense(robot)
    rng = np.random.default_rng(0)
    for _ in range(10):
        moved = robot.integrate(q, rng.normal(size=robot.n))
        open_by = np.abs(dense.rows(moved, np.zeros(robot.n))[2]).max()
        assert np.abs(error(moved)).max() > 0.1 * min(open_by, 1.0)


@pytest.mark.slow
def test_laws_of_loops_hold_for_random_arms():
    robot = Robot(random_arms(0, arms=2, joints=6))
    q, rng, dense = np.tile(robot.neutral, (2, 1)), np.random.default_rng(0), Dense(robot)
    qd = np.array([dense.closed_rates(robot.neutral, rng.normal(size=robot.n)) for _ in q])
    qdd, tau = rng.normal(size=(2, *qd.shape))
    x = Samples(q, qd, qdd, tau, np.zeros((2, len(robot.links), 6)))
    for law in LOOP_LAWS:
        residual = law(robot, x, "numpy")
        assert residual <= law.bound(robot), f"{law.statement} by {residual:.2e}"


def test_a_rod_without_mass_makes_a_pendulum_of_a_body():
    """A free ball on a distance swings as a point mass on a hinge, and does not turn."""
    ball = ((0.1, 0.0, 0.0), (0.0, 0.2, 0.0), (0.0, 0.0, 0.3))
    free = Robot(nlink.Description("ball", (nlink.Link("ball", 2.0, inertia=ball),),
                                   (nlink.Joint("ball", nlink.Free()),)))
    held = free.with_loops([{"name": "rod", "joint": "distance", "length": 0.5,
                             "of": {"link": "ball"}, "on": {"link": "base"}}])
    bob = Robot(nlink.Description("bob", (nlink.Link("bob", 2.0, (0.5, 0.0, 0.0)),),
                                  (nlink.Joint("hinge", nlink.Revolute((0, -1, 0))),)))
    how = {"t": 1.0, "every": 0.1, "rtol": 1e-11, "atol": 1e-12}
    run = nlink.simulate(held, [0.5, 0, 0, 1, 0, 0, 0], **how)
    swing = nlink.simulate(bob, [0.0], **how).q[:, 0]
    np.testing.assert_allclose(run.q[:, [0, 2]], 0.5 * np.stack(
        [np.cos(swing), np.sin(swing)], axis=1), atol=1e-9)
    np.testing.assert_allclose(run.q[:, 3:], [[1, 0, 0, 0]] * 11, atol=1e-12)
    tension = -run.closure_forces[:, 0, 3:]
    rate = nlink.simulate(bob, [0.0], **how).qd[:, 0]
    along = 2.0 * (0.5 * rate**2 - 9.81 * np.sin(swing))
    np.testing.assert_allclose(np.linalg.norm(tension, axis=1), along, atol=1e-7)
