"""Optimal control by CasADi and IPOPT, with exact Hessians: a swing-up, and a controller that plans
the reach of a Panda again and again.

The pendulum's motors hold a third of what its links weigh. The Panda holds 2 kg that its controller
does not know about: every 50 ms it plans from where the arm really is.

    python examples/casadi_ipopt.py [FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import casadi
import numpy as np

import nlink

HANGING, UPRIGHT = np.array([-np.pi / 2, 0, 0, 0]), np.array([np.pi / 2, 0, 0, 0])
READY = np.array([0.0, -0.3, 0.0, -2.0, 0.0, 2.0, 0.7])
TARGET = np.array([0.4, 0.3, 0.5])
EVERY = 5
"""Knots after which the Panda's motion is planned anew."""


class Plan:
    """Joint forces of knots h seconds apart, the states after each, and what is best of them.

    Every step is a constraint: y_(k+1) = step(y_k, u_k).
    """

    def __init__(self, robot: nlink.Robot, knots: int, h: float, method: str, effort: Any,
                 cost: Callable[[Any, Any], Any], last: Any = None) -> None:
        self.size, self.knots, self.last = 2 * robot.n, knots, last
        step = nlink.casadi.step(robot, h, method)
        Y, U = casadi.MX.sym("Y", self.size, knots + 1), casadi.MX.sym("U", robot.n, knots)
        after = step.map(knots)(Y[:, :-1], U, casadi.DM.zeros(1, knots))
        self.solver = casadi.nlpsol("plan", "ipopt", {
            "x": casadi.veccat(Y, U), "f": cost(Y, U), "g": casadi.vec(Y[:, 1:] - after)},
            {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes"})
        free = np.full(self.size * (knots + 1), np.inf)
        self.upper = np.concatenate([free, np.tile(np.broadcast_to(effort, robot.n), knots)])

    def solve(self, start: np.ndarray, guess: tuple[np.ndarray, np.ndarray]) -> Any:
        """States (knots + 1, size) and joint forces (knots, n) from a state on."""
        low, high, size = -self.upper, self.upper.copy(), self.size
        low[:size] = high[:size] = start
        if self.last is not None:
            end = slice(self.knots * size, (self.knots + 1) * size)
            low[end] = high[end] = self.last
        found = self.solver(x0=np.concatenate([x.ravel() for x in guess]), lbx=low, ubx=high,
                            lbg=0, ubg=0)
        if not self.solver.stats()["success"]:
            raise RuntimeError(self.solver.stats()["return_status"])
        x = np.array(found["x"]).ravel()
        at = (self.knots + 1) * size
        return x[:at].reshape(-1, size), x[at:].reshape(self.knots, -1)


def swing_up(knots: int = 100, duration: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """States and joint forces that take the pendulum from hanging to upright."""
    robot, h = nlink.load("double_pendulum"), duration / knots
    plan = Plan(robot, knots, h, "rk4", (10.0, 5.0), lambda Y, U: h * casadi.sumsqr(U), UPRIGHT)
    return plan.solve(HANGING, (np.linspace(HANGING, UPRIGHT, knots + 1), np.zeros((knots, 2))))


def reach(knots: int = 100, rounds: int = 4, h: float = 0.01,
          ) -> tuple[np.ndarray, list[np.ndarray]]:
    """Where the hand goes, (times, 3), and where each plan says that it will."""
    robot = nlink.load("panda")
    pose, weight = nlink.casadi.function(robot, "pose"), robot.gravity_torque(READY)

    def cost(Y: Any, U: Any) -> Any:
        miss = pose(Y[:7, -1])[:3, 3] - TARGET
        return (500 * casadi.sumsqr(miss) + 5 * casadi.sumsqr(Y[7:, -1])
                + h * (0.1 * casadi.sumsqr(Y[7:, :]) + 1e-3 * casadi.sumsqr(U - weight)))

    plan = Plan(robot, knots, h, "semi_implicit", 87.0, cost)
    loaded = robot.with_payload(2.0)
    y = np.concatenate([READY, np.zeros(7)])
    guess = np.tile(y, (knots + 1, 1)), np.tile(weight, (knots, 1))
    went, plans = [y], []
    for _ in range(rounds):
        states, forces = guess = plan.solve(y, guess)
        plans.append(robot.pose(states[:, :7])[:, :3, 3])
        for tau in forces[:EVERY]:
            y = nlink.System(loaded, tau).step(y, h, method="semi_implicit")
            went.append(y)
        guess = tuple(np.concatenate([x[EVERY:], np.repeat(x[-1:], EVERY, axis=0)]) for x in guess)
    return robot.pose(np.array(went)[:, :7])[:, :3, 3], plans


def figure() -> Any:
    """The swing-up, and the distance of the Panda's hand from its target."""
    from matplotlib.figure import Figure

    found = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = found.subplots(1, 2)
    states, _ = swing_up()
    times = np.linspace(0.0, 3.0, len(states))
    left.plot(times, np.degrees(states[:, :2]), label=["joint 1", "joint 2"])
    left.set(title="swing-up with weak motors", xlabel="time, s", ylabel="angle, degrees")
    left.legend(frameon=False)
    went, plans = reach()
    for k, plan in enumerate(plans):
        right.plot(0.05 * k + 0.01 * np.arange(len(plan)), np.linalg.norm(plan - TARGET, axis=1),
                   color="0.7", label="planned" if k == 0 else None)
    right.plot(0.01 * np.arange(len(went)), np.linalg.norm(went - TARGET, axis=1), label="real")
    right.set(title="Panda with 2 kg it does not know about", xlabel="time, s",
              ylabel="distance of the hand, m")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return found


if __name__ == "__main__":
    figure().savefig(sys.argv[1] if len(sys.argv) > 1 else "casadi-ipopt.png", dpi=110)
