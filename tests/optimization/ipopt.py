"""Optimal control by CasADi and IPOPT: the same problems as one nonlinear program.

    python tests/optimization/ipopt.py [problems]

States and forces of all knots are variables, steps of `nlink.casadi.step` are constraints. Costs
are compared, and the gradients of the cost by all forces along nlink's own trajectories.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import nlink


@dataclass(frozen=True)
class ReachTask:
    """A robot that takes the point of its last frame to goals."""

    robot: nlink.Robot
    horizon: float
    step: float
    effort: Any
    q0: np.ndarray
    goal: np.ndarray

    def cost(self, q: Any, qd: Any, u: Any, p: Any) -> Any:
        e = self.robot.pose(q)[:3, 3] - p
        return 10.0 * (e @ e) + 0.1 * (qd @ qd) + 1e-3 * (u @ u)

    def final(self, q: Any, qd: Any, p: Any) -> Any:
        e = self.robot.pose(q)[:3, 3] - p
        return 100.0 * (e @ e) + 10.0 * (qd @ qd)

    def solved(self) -> Any:
        """By nlink."""
        return nlink.optimize(self.robot, self.cost, self.q0, horizon=self.horizon, step=self.step,
                              final=self.final, effort=self.effort, parameters=self.goal,
                              tolerance=1e-13)


def task(name: str, count: int, *, effort: Any = None) -> ReachTask:
    robot, rng = nlink.load(name), np.random.default_rng(3)
    middle = np.array([0.0, -0.4, 0.0, -2.0, 0.0, 1.8, 0.7]) if name == "panda" else np.array(
        [0.4, 0.5, 0.3])
    q0 = middle + rng.uniform(-0.2, 0.2, (count, robot.n))
    goal = robot.pose(q0 + rng.uniform(-0.4, 0.4, q0.shape))[:, :3, 3]
    return ReachTask(robot, 0.5, 0.025, effort, q0, goal)


class Program:
    """One nonlinear program for all problems of a task."""

    def __init__(self, given: ReachTask) -> None:
        import casadi

        self.task, robot, n = given, given.robot, given.robot.n
        knots = round(given.horizon / given.step)
        advance = nlink.casadi.step(robot, given.step)
        running = nlink.casadi.function(given.cost, n, n, n, 3)
        ending = nlink.casadi.function(given.final, n, n, 3)
        start, goal = casadi.SX.sym("x0", 2 * n), casadi.SX.sym("goal", 3)
        U, X = casadi.SX.sym("U", n, knots), casadi.SX.sym("X", 2 * n, knots)
        along, total, gaps = start, 0, []
        for k in range(knots):
            total += given.step * running(along[:n], along[n:], U[:, k], goal)
            gaps.append(advance(along, U[:, k], 0) - X[:, k])
            along = X[:, k]
        total += ending(along[:n], along[n:], goal)
        z, p = casadi.vertcat(casadi.vec(U), casadi.vec(X)), casadi.vertcat(start, goal)
        self.solver = casadi.nlpsol("reach", "ipopt", {
            "x": z, "f": total, "g": casadi.vertcat(*gaps), "p": p},
            {"print_time": 0, "ipopt": {"print_level": 0, "tol": 1e-10, "sb": "yes",
                                        "max_iter": 500, "bound_relax_factor": 0}})
        self.gradient: Callable[..., Any] = casadi.Function("gradient", [casadi.vec(U), casadi.vec(
            X), p], [casadi.gradient(total, z), casadi.jacobian(casadi.vertcat(*gaps), z)])
        most = np.inf if given.effort is None else np.broadcast_to(given.effort, (n,))
        self.most = np.concatenate([np.tile(np.broadcast_to(most, (n,)), knots),
                                    np.full(2 * n * knots, np.inf)])

    def _p(self, k: int) -> np.ndarray:
        return np.concatenate([self.task.q0[k], 0 * self.task.q0[k], self.task.goal[k]])

    def least(self, k: int, found: Any) -> float:
        """The least cost of problem k near nlink's trajectory, moved away from it."""
        n = self.task.robot.n
        rng = np.random.default_rng(k)
        x = np.concatenate([found.q[k, 1:], found.qd[k, 1:]], axis=-1)
        z = np.concatenate([found.u[k].ravel(), x.ravel()])
        z = z + 0.02 * rng.normal(size=z.size) * (1 + abs(z))
        result = self.solver(x0=z, p=self._p(k), lbg=0, ubg=0, lbx=-self.most, ubx=self.most)
        assert self.solver.stats()["success"], n
        return float(result["f"])

    def slope(self, k: int, found: Any) -> np.ndarray:
        """dC/du along a trajectory, with states that follow: by the multipliers of its steps."""
        x = np.concatenate([found.q[k, 1:], found.qd[k, 1:]], axis=-1)
        g, J = (np.array(a) for a in self.gradient(found.u[k].ravel(), x.ravel(), self._p(k)))
        size = found.u[k].size
        multipliers = np.linalg.solve(J[:, size:].T, -g[size:, 0])
        return (g[:size, 0] + J[:, :size].T @ multipliers).reshape(found.u[k].shape)


def compare(given: ReachTask) -> tuple[np.ndarray, np.ndarray]:
    """Relative differences of costs, and the largest element of each gradient by forces that are
    not at a bound."""
    found, program = given.solved(), Program(given)
    assert bool(found), found
    costs = np.array([program.least(k, found) for k in range(len(given.q0))])
    slopes = np.array([program.slope(k, found) for k in range(len(given.q0))])
    if given.effort is not None:
        slopes[abs(found.u) >= given.effort] = 0.0
    return (found.cost - costs) / costs, abs(slopes).max(axis=(1, 2))


if __name__ == "__main__":
    problems = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for label, each in (("planar3", task("planar3", problems)),
                        ("planar3, bounds", task("planar3", problems, effort=[60., 30., 8.])),
                        ("panda", task("panda", problems)),
                        ("panda, bounds", task("panda", problems, effort=[10., 35., 10., 25., 3.,
                                                                          3., 1.]))):
        costs, slopes = compare(each)
        print(f"{label}: {problems} problems, costs differ by at most {abs(costs).max():.1e}, "
              f"gradients {slopes.max():.1e}")
