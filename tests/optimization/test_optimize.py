"""Optimal control: solutions against linear-quadratic theory, an independent solver, derivatives
by the adjoint, and replays; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import solve_discrete_are

import nlink
from nlink.testing import random_robot

GOAL = np.array([0.5, 0.2, -0.3])


def running(q: Any, qd: Any, u: Any) -> Any:
    return 1e-4 * (u @ u) + 0.1 * (qd @ qd)


def ending(q: Any, qd: Any) -> Any:
    return 1e3 * (q - GOAL) @ (q - GOAL) + 1e2 * (qd @ qd)


@pytest.fixture(scope="module")
def arm() -> nlink.Robot:
    return nlink.load("planar3")


@pytest.fixture(scope="module")
def reached(arm: nlink.Robot) -> Any:
    q0 = np.random.default_rng(0).uniform(-0.4, 0.4, (20, 3))
    return nlink.optimize(arm, running, q0, horizon=0.5, final=ending)


def test_forces_replayed_step_by_step_give_the_trajectory_and_its_cost(
        arm: nlink.Robot, reached: Any) -> None:
    assert bool(reached)
    assert (reached.status == "solved").all()
    assert not reached.gap.any()
    world = nlink.Stepper(arm, reached.q[:, 0], reached.qd[:, 0], step=0.01,
                          method="semi_implicit")
    cost = np.zeros(20)
    for k in range(50):
        u = reached.u[:, k]
        cost += 0.01 * (1e-4 * (u ** 2).sum(-1) + 0.1 * (world.qd ** 2).sum(-1))
        world.step(u)
        assert_allclose(world.q, reached.q[:, k + 1], atol=1e-12)
    e = world.q - GOAL
    cost += 1e3 * (e ** 2).sum(-1) + 1e2 * (world.qd ** 2).sum(-1)
    assert_allclose(reached.cost, cost, rtol=1e-12)


def test_no_small_change_of_forces_is_better(arm: nlink.Robot, reached: Any) -> None:
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-1):
        other = reached.u[0] + size * rng.normal(size=(10, *reached.u[0].shape))
        world = nlink.Stepper(arm, np.tile(reached.q[0, 0], (10, 1)), step=0.01,
                              method="semi_implicit")
        cost = np.zeros(10)
        for k in range(50):
            cost += 0.01 * (1e-4 * (other[:, k] ** 2).sum(-1) + 0.1 * (world.qd ** 2).sum(-1))
            world.step(other[:, k])
        cost += 1e3 * ((world.q - GOAL) ** 2).sum(-1) + 1e2 * (world.qd ** 2).sum(-1)
        assert (cost > reached.cost[0]).all()


def test_a_result_does_not_depend_on_its_neighbours_or_on_threads(reached: Any) -> None:
    alone = reached.again(reached.q[7, 0])
    assert alone.cost.shape == ()
    assert alone.q.shape == (51, 3)
    assert_allclose(alone.u, reached.u[7], atol=1e-9)
    before = nlink.threads()
    try:
        nlink.threads(2)
        assert np.array_equal(reached.again().u, reached.u)
    finally:
        nlink.threads(before)


def test_a_linear_robot_gets_riccatis_gains() -> None:
    """A cart without friction: dx' = A dx + B du exactly, whose solution is known."""
    cart = nlink.Robot(nlink.Description("cart", links=(nlink.Link(
        "cart", mass=2.0),), joints=(nlink.Joint("slide", nlink.Prismatic((1, 0, 0))),)))
    h, x0 = 0.1, np.array([1.0, 0.3])
    A, B = np.array([[1.0, h], [0.0, 1.0]]), np.array([[h * h / 2.0], [h / 2.0]])
    P = solve_discrete_are(A, B, h * np.diag([3.0, 0.5]), np.array([[h * 0.2]]))
    found = nlink.optimize(
        cart, lambda q, qd, u: 1.5 * (q @ q) + 0.25 * (qd @ qd) + 0.1 * (u @ u), x0[:1], x0[1:],
        horizon=2.0, step=h, final=lambda q, qd: 0.5 * (
            P[0, 0] * q[0] * q[0] + 2 * P[0, 1] * q[0] * qd[0] + P[1, 1] * qd[0] * qd[0]))
    assert found.iterations <= 2
    assert_allclose(found.cost, 0.5 * x0 @ P @ x0, rtol=1e-9)


@pytest.mark.slow
def test_gauss_newton_and_exact_second_derivatives_find_the_same(arm: nlink.Robot,
                                                                 reached: Any) -> None:
    def residuals(q: Any, qd: Any, u: Any) -> Any:
        return np.concatenate([np.sqrt(2e-4) * u, np.sqrt(0.2) * qd])

    def last(q: Any, qd: Any) -> Any:
        return np.sqrt(2e3) * (q - GOAL), 1e2 * (qd @ qd)  # one of each kind

    found = nlink.optimize(arm, residuals, reached.q[:5, 0], horizon=0.5, final=last)
    assert_allclose(found.cost, reached.cost[:5], rtol=1e-8)


@pytest.mark.slow
def test_gaps_of_a_guess_are_closed(arm: nlink.Robot, reached: Any) -> None:
    q0 = reached.q[:4, 0]
    line = q0[:, None] + np.linspace(0, 1, 51)[:, None] * (GOAL - q0)[:, None]
    found = nlink.optimize(arm, running, q0, horizon=0.5, final=ending,
                           guess=(line, np.zeros((51, 3)), np.zeros((50, 3))))
    assert bool(found)
    assert not found.gap.any()
    assert_allclose(found.cost, reached.cost[:4], rtol=1e-8)


@pytest.mark.slow
def test_bounds_are_kept_and_their_multipliers_have_the_right_sign(arm: nlink.Robot) -> None:
    """At a solution in a box the gradient by a force that is at its bound pushes outward, and is
    zero elsewhere: the gradient is that of `adjoint`, by steps of the same method."""
    most = np.array([80.0, 40.0, 10.0])
    found = nlink.optimize(arm, running, [0.3, 0.1, -0.2], horizon=0.5, final=ending, effort=most)
    assert found.solved
    assert (abs(found.u) <= most).all()
    gradient = by_differences(arm, found)
    at = abs(found.u) == most
    assert at.any()
    assert not at.all()
    assert abs(gradient[~at]).max() < 1e-5
    assert (gradient[at] * np.sign(found.u[at]) < 1e-9).all()


def by_differences(arm: nlink.Robot, found: Any) -> np.ndarray:
    """The gradient of the cost by all forces, from central differences of replays."""
    size, eps = found.u.size, 1e-4
    moved = np.concatenate([found.u.ravel() + s * eps * np.eye(size) for s in (1, -1)])
    world = nlink.Stepper(arm, np.tile(found.q[0], (2 * size, 1)), step=0.01,
                          method="semi_implicit")
    cost = np.zeros(2 * size)
    for u in moved.reshape(2 * size, *found.u.shape).swapaxes(0, 1):
        cost += 0.01 * (1e-4 * (u ** 2).sum(-1) + 0.1 * (world.qd ** 2).sum(-1))
        world.step(u)
    cost += 1e3 * ((world.q - GOAL) ** 2).sum(-1) + 1e2 * (world.qd ** 2).sum(-1)
    return ((cost[:size] - cost[size:]) / (2 * eps)).reshape(found.u.shape)


@pytest.mark.slow
def test_a_floating_robot_with_quaternions_and_smooth_friction() -> None:
    """Exact second derivatives in tangent spaces, on a random tree with balls and a friction that
    is differentiated as it is written; the gradient by all forces vanishes."""
    robot = random_robot(4, 2, types=("spherical", "revolute"), fixed=False, friction=False)
    robot = robot.with_friction(viscous=0.2, dry=0.1)
    assert not robot.mechanism.space.flat
    system = nlink.System(robot, friction="smooth", width=0.1)
    q0 = robot.mechanism.space.integrate(robot.neutral, 0.3 * np.ones(robot.n))
    wanted = robot.pose(robot.neutral)[:3, 3]

    def near(q: Any) -> Any:
        e = robot.pose(q)[:3, 3] - wanted
        return e @ e

    def cost(q: Any, qd: Any, u: Any) -> Any:
        return 0.1 * (qd @ qd) + 1e-2 * (u @ u) + near(q)

    found = nlink.optimize(system, cost, np.array(q0), horizon=0.2, step=0.02,
                           final=lambda q, qd: 10.0 * near(q) + qd @ qd, tolerance=1e-13)
    assert found.solved
    rng = np.random.default_rng(0)
    ways = rng.normal(size=(6, *found.u.shape))

    def total(u: np.ndarray) -> np.ndarray:
        world = nlink.Stepper(system, np.tile(found.q[0], (len(u), 1)), step=0.02,
                              method="semi_implicit")
        value = nlink.function(cost, robot.nq, robot.n, robot.n)
        last = nlink.function(lambda q, qd: 10.0 * near(q) + qd @ qd, robot.nq, robot.n)
        sum_of = np.zeros(len(u))
        for k in range(u.shape[1]):
            sum_of += 0.02 * value(world.q, world.qd, u[:, k])
            world.step(u[:, k])
        return sum_of + last(world.q, world.qd)

    assert_allclose(total(found.u[None]), found.cost, rtol=1e-10)
    eps = 1e-4
    slope = (total(found.u + eps * ways) - total(found.u - eps * ways)) / (2 * eps)
    assert abs(slope).max() < 1e-5 * (1 + found.cost)


def test_motors_that_are_left_out_do_nothing() -> None:
    """A swing of the acrobot, in which only the second joint has a motor."""
    robot = nlink.load("double_pendulum")
    up = np.array([np.pi / 2, 0.0])
    found = nlink.optimize(robot, lambda q, qd, u: 0.01 * (u @ u) + (q - up) @ (q - up),
                           up + np.array([0.1, -0.1]), horizon=0.5, effort=[0.0, 30.0])
    assert not found.u[:, 0].any()
    assert abs(found.u[:, 1]).max() <= 30.0


REFUSED = {
    "horizon": ({"horizon": 0.123, "step": 0.05}, "horizon: 0.123 s, expected a whole number"),
    "step": ({"step": -1.0}, "step: -1.0, expected a positive number"),
    "effort": ({"effort": "most"}, "effort: 'most', expected 'limit'"),
    "limit": ({"effort": "limit"}, "effort: 'limit', but planar3 has no effort limits"),
    "negative": ({"effort": [1.0, -1.0, 1.0]}, "effort: .*, expected 'limit', a number >= 0"),
    "no motor": ({"effort": 0.0}, "robot: no motor of planar3 may act"),
    "guess": ({"guess": np.zeros((3, 3))}, r"guess: u of shape \(3, 3\), expected \(..., 10, 3\)"),
    "tuple": ({"guess": (1, 2)}, r"guess: a tuple of 2, expected \(q, qd, u\)"),
    "iterations": ({"iterations": 1.5}, "iterations: 1.5, expected a whole number"),
    "tolerance": ({"tolerance": 0.0}, "tolerance: 0.0, expected a positive number"),
    "batch": ({"q0": np.zeros((2, 3)), "qd0": np.zeros((3, 3))}, "q0: the leading shapes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(arm: nlink.Robot, case: str) -> None:
    given, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        nlink.optimize(arm, running, **{"horizon": 0.1, "step": 0.01} | given)


@pytest.mark.parametrize(("cost", "words"), [
    (3.0, "cost: a float, expected a function of q, qd, u"),
    (lambda q, qd, u: "far", "cost: gives a str, expected a number")])
def test_costs_that_are_none(arm: nlink.Robot, cost: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        nlink.optimize(arm, cost, horizon=0.1)


@pytest.mark.parametrize(("given", "words"), [
    (lambda: nlink.load("four_bar"), "the loops of four_bar"),
    (lambda: nlink.load("planar3").with_friction(dry=0.1), "friction='dry'"),
    (lambda: nlink.System(nlink.load("planar3"), lambda t, q, qd: -t * qd), "depend on the time"),
    (lambda: nlink.System(nlink.load("panda"), limits="stop"), "limits='stop'"),
])
def test_what_has_no_derivatives_is_refused_by_name(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        nlink.optimize(given(), lambda q, qd, u: u @ u, horizon=0.1)


@pytest.mark.slow
def test_many_rates_in_tiles_are_what_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backward sweep in tiles against the one written out, on a robot that has both."""
    from importlib import import_module

    def solved() -> Any:
        robot = random_robot(2, 5, types=("revolute",), tree=False, fixed=False, friction=False)
        rest = np.linspace(-0.5, 0.5, 5)

        def cost(q: Any, qd: Any, u: Any) -> Any:
            return (np.concatenate([0.1 * (q - rest), 0.3 * qd + 0.01 * q, 0.01 * u + 1e-3 * qd]),
                    0.1 * q[1] * qd[0])

        return nlink.optimize(robot, cost, rest + np.array([[0.1] * 5, [-0.1, 0.2, 0, 0.1, 0.3]]),
                              horizon=0.1, effort=[np.inf] * 4 + [0.0],
                              final=lambda q, qd: np.concatenate([q - rest, 0.1 * qd]))

    few = solved()
    for name in ("shooting", "optimize"):
        monkeypatch.setattr(import_module(f"nlink.optimization.{name}"), "MOST_STRAIGHT", 2)
    many = solved()
    assert bool(few)
    assert_allclose(many.cost, few.cost, rtol=1e-12)
    assert_allclose(many.u, few.u, atol=1e-9)


def test_many_rates_have_no_bounds_and_no_quaternions() -> None:
    chain = random_robot(1, 16, types=("revolute",), fixed=False, friction=False)
    with pytest.raises(ValueError, match="16 rates and bounds on forces, expected at most 14"):
        nlink.optimize(chain, lambda q, qd, u: u @ u, horizon=0.1, effort=1.0)
    balls = random_robot(1, 8, types=("spherical",), fixed=False, friction=False)
    with pytest.raises(ValueError, match="24 rates and coordinates that are no plain numbers"):
        nlink.optimize(balls, lambda q, qd, u: u @ u, horizon=0.1)
    with pytest.raises(ValueError, match="guess: states of 16 rates, expected forces alone"):
        nlink.optimize(chain, lambda q, qd, u: u @ u, horizon=0.02, guess=(
            np.zeros((3, 16)), np.zeros((3, 16)), np.zeros((2, 16))))
