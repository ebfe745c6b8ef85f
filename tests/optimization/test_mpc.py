"""Model predictive control: in simulations, in loops of one's own, each robot for itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nlink

UP = np.array([np.pi / 2, 0.0])
LIMITS = [30.0, 20.0]


def swing(q: Any, qd: Any, u: Any) -> Any:
    return 10.0 * (q - UP) @ (q - UP) + 0.1 * (qd @ qd) + 1e-3 * (u @ u)


@pytest.fixture(scope="module")
def pendulum() -> nlink.Robot:
    return nlink.load("double_pendulum")


@pytest.mark.slow
def test_pendulums_swing_up_within_their_limits(pendulum: nlink.Robot) -> None:
    controller = nlink.mpc(pendulum, swing, horizon=1.0, step=0.02, effort=LIMITS)
    q0 = np.array([-np.pi / 2, 0]) + np.random.default_rng(0).uniform(-0.1, 0.1, (10, 2))
    run = nlink.simulate(pendulum, q0, t=5.0, tau=controller)
    assert (run.status == "done").all()
    assert abs(run.q[:, -1] - UP).max() < 1e-5
    assert (abs(run.tau).max(axis=(0, 1)) <= LIMITS).all()
    assert repr(controller) == "<MPC of 10 double_pendulum, 50 knots of 0.02 s>"


def test_a_loop_of_ones_own_is_the_simulation(pendulum: nlink.Robot) -> None:
    """Each robot as if it were alone, whether the simulation asks or the user."""
    controller = nlink.mpc(pendulum, swing, horizon=0.4, step=0.02, effort=LIMITS)
    q0 = UP + np.array([[0.2, 0.1], [-0.1, 0.3], [0.3, -0.2]])
    method: dict[str, Any] = {"method": "semi_implicit", "step": 0.02}
    run = nlink.simulate(pendulum, q0, t=0.4, every=0.02, tau=controller, **method)
    controller.reset()
    world = nlink.Stepper(pendulum, q0, **method)
    for _ in range(20):
        world.step(controller(world.t, world.q, world.qd))
    assert_allclose(world.q, run.q[:, -1], atol=1e-12)
    alone = nlink.mpc(pendulum, swing, horizon=0.4, step=0.02, effort=LIMITS)
    one = nlink.simulate(pendulum, q0[1], t=0.4, every=0.02, tau=alone, **method)
    assert_allclose(one.q, run.q[1], atol=1e-7)


def test_a_plan_that_nothing_disturbs_is_the_best_from_where_it_is(pendulum: nlink.Robot) -> None:
    """The first plan is the solution of `optimize`; after many steps at rest so is the last."""
    controller = nlink.mpc(pendulum, swing, horizon=0.4, step=0.02, effort=LIMITS)
    world = nlink.Stepper(pendulum, UP + 0.1, step=0.02, method="semi_implicit")
    found = nlink.optimize(pendulum, swing, UP + 0.1, horizon=0.4, step=0.02, effort=LIMITS)
    tau = controller(world.t, world.q, world.qd)
    assert_allclose(tau, found.u[0], atol=0.02)
    for _ in range(30):
        world.step(tau)
        q, qd = world.q, world.qd
        tau = controller(world.t, q, qd)
    found = found.again(q, qd)
    assert_allclose(tau, found.u[0], atol=1e-4)
    assert_allclose(controller.cost, found.cost, atol=1e-6)
    assert controller.plan[0].shape == (1, 21, 2)


def test_robots_that_are_reset_begin_anew(pendulum: nlink.Robot) -> None:
    controller = nlink.mpc(pendulum, swing, horizon=0.4, step=0.02)
    world = nlink.Stepper(pendulum, UP + np.array([[0.1, 0.0], [0.0, 0.1]]), step=0.02)
    first = controller(world.t, world.q, world.qd)
    for _ in range(3):
        world.step(controller(world.t, world.q, world.qd))
    world.reset([True, False])
    again = controller(world.t, world.q, world.qd)
    assert_allclose(again[0], first[0], atol=1e-9)
    assert abs(again[1] - first[1]).max() > 1e-3


def test_parameters_of_each_robot_and_of_time(pendulum: nlink.Robot) -> None:
    def reach(q: Any, qd: Any, u: Any, goal: Any) -> Any:
        return 100.0 * (q - goal) @ (q - goal) + qd @ qd + 1e-4 * (u @ u)

    goals = UP + np.array([[0.2, 0.0], [-0.2, 0.1]])
    each = nlink.mpc(pendulum, reach, horizon=0.3, step=0.02, parameters=goals)
    world = nlink.Stepper(pendulum, np.tile(UP, (2, 1)), step=0.02)
    moving = nlink.mpc(pendulum, reach, horizon=0.3, step=0.02,
                       parameters=lambda t: goals[0] if t < 0.5 else goals[1])
    other = nlink.Stepper(pendulum, UP, step=0.02)
    for _ in range(75):
        world.step(each(world.t, world.q, world.qd))
        other.step(moving(other.t, other.q, other.qd))
    assert abs(world.q - goals).max() < 0.02
    assert abs(other.q - goals[1]).max() < 0.02


def test_refusals(pendulum: nlink.Robot) -> None:
    with pytest.raises(ValueError, match="iterations: 0, expected at least 1"):
        nlink.mpc(pendulum, swing, horizon=0.4, iterations=0)
    with pytest.raises(ValueError, match="plan: none yet, expected a call before"):
        _ = nlink.mpc(pendulum, swing, horizon=0.4).plan
    controller = nlink.mpc(pendulum, swing, horizon=0.4)
    with pytest.raises(TypeError, match="tau: an MPC among traced values"):
        nlink.simulate(pendulum, UP, t=0.1, tau=lambda t, q, qd: controller(t, q, qd))
