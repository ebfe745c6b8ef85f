"""An optimal control problem without its states: prepared once, solved for many.

With bounds on forces, problems that have no guess are solved without the bounds first. Where the
forces stay within them, that is the solution. Elsewhere its states, with the forces cut to the
bounds, are where multiple shooting begins: its gaps close while forces leave the bounds no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nlink.engines.kernels import kept
from nlink.optimization.accelerations import Accelerations
from nlink.optimization.costs import Cost, CostTerms
from nlink.optimization.shooting import ShootingProblem
from nlink.optimization.shooting_solver import (
    SOLVED,
    Bounds,
    ShootingSolver,
    Sweeps,
    sweeps_of,
)
from nlink.programs.keys import key
from nlink.robot import Robot
from nlink.scalars.graph import Graph

Array = np.ndarray
Told = Callable[[float], None]
Box = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass
class Solutions:
    """What a search leaves, a row for each problem."""

    q: Array
    qd: Array
    tau: Array
    cost: Array
    status: Array
    iterations: Array
    history: Array
    """(problems, iterations + 1)"""
    gap: Array

    @staticmethod
    def of(solver: ShootingSolver) -> Solutions:
        numbers = solver.sweeps.numbers
        return Solutions(*solver.sweeps.trajectories.current(), solver.cost, solver.status,
                         solver.iterations, solver.history.T,
                         (numbers["open"] * numbers["wide"])[:, 0])

    def put(self, rows: Array, others: Solutions) -> None:
        """Others in place of some rows: their iterations come after those of the rows."""
        before = self.iterations[rows]
        longest = int((before + others.iterations).max(initial=0)) + 1
        width = self.history.shape[1]
        if longest > width:
            self.history = np.pad(self.history, ((0, 0), (0, longest - width)),
                                  constant_values=np.nan)
        for row, first, count, history in zip(rows, before, others.iterations, others.history,
                                              strict=True):
            self.history[row, first + 1:first + 1 + count] = history[1:1 + count]
        others.iterations = others.iterations + before
        for name in ("q", "qd", "tau", "cost", "status", "iterations", "gap"):
            getattr(self, name)[rows] = getattr(others, name)


@dataclass(frozen=True, eq=False)
class OptimalControl:
    """What moves, what it costs, and the bounds on forces."""

    motion: Accelerations
    cost: Cost
    final: Cost | None
    step: float
    box: Box | None
    motors: tuple[int, ...]
    parameters: int

    @staticmethod
    def prepared(motion: Accelerations, cost: Cost, final: Cost | None, step: float,
                 box: Box | None, motors: tuple[int, ...], parameters: int) -> OptimalControl:
        """The problem; that of before if it is the same. Costs are traced to find out."""
        made = OptimalControl(motion, cost, final, step, box, motors, parameters)
        return kept(motion.robot, ("optimal control", motion.key, step, box, motors, parameters,
                                   made._digest()), lambda: made)

    @property
    def robot(self) -> Robot:
        return self.motion.robot

    def _digest(self) -> str:
        graph, robot = Graph(), self.robot
        sizes = {"q": robot.nq, "qd": robot.n, "u": robot.n, "p": self.parameters}
        x = {name: [graph.input(f"{name}[{k}]") for k in range(size)]
             for name, size in sizes.items()}
        u = [x["u"][k] if k in self.motors else 0.0 for k in range(robot.n)]
        more = [x["p"]] if self.parameters else []
        terms = [CostTerms.of("cost", self.cost, graph, [x["q"], x["qd"], u, *more])]
        if self.final is not None:
            terms.append(CostTerms.of("final", self.final, graph, [x["q"], x["qd"], *more]))
        return key([(each.numbers, each.residuals) for each in terms])

    def shooting(self, *, gaps: bool, bounded: bool) -> ShootingProblem:
        """The problem as sweeps."""
        return kept(self, ("shooting", gaps, bounded), lambda: ShootingProblem(
            self.motion, self.cost, self.final, self.step, self.box if bounded else None,
            self.motors, self.parameters, gaps))

    def limited(self, tau: Array) -> Array:
        """Forces of the motors that are used, within their bounds."""
        most = np.zeros(self.robot.n)
        most[list(self.motors)] = np.inf if self.box is None else self.box[1]
        return np.clip(tau, -most, most)

    def balancing(self, q0: Array) -> Array:
        """Forces (count, 1, n) that keep the robot at rest as well as they can."""
        weight = self.robot.gravity_torque(q0)
        return np.where(np.isfinite(weight), weight, 0.0)[:, None]

    def solve(self, q0: Array, qd0: Array, knots: int, p: Array, guess: tuple[Array, ...] | None,
              bounds: Bounds, told: Told = lambda _share: None) -> Solutions:
        """Problems from states (count, ...). A guess is tau, or q, qd and tau."""
        free_first = self.box is not None and guess is None
        share = 0.5 if free_first else 1.0
        first = guess or (self.balancing(q0),)
        found = self._search(q0, qd0, knots, p, first, bounds, lambda x: told(share * x),
                             bounded=not free_first)
        if not free_first:
            return found
        cut = self.limited(found.tau)
        beyond = (cut != found.tau).any(axis=(1, 2))
        # what has no solution without bounds begins once more, with them
        lost = np.flatnonzero(found.status != SOLVED)
        again = np.flatnonzero(beyond & (found.status == SOLVED))
        for rows, start in ((again, (found.q[again], found.qd[again], cut[again])),
                            (lost, (first[0][lost],))):
            if len(rows):
                found.put(rows, self._search(
                    q0[rows], qd0[rows], knots, p[rows], start, bounds,
                    lambda x: told(share + share * x), bounded=True))
        return found

    def _search(self, q0: Array, qd0: Array, knots: int, p: Array, guess: tuple[Array, ...],
                bounds: Bounds, told: Told, *, bounded: bool) -> Solutions:
        gaps = len(guess) > 1
        sweeps = sweeps_of(self.shooting(gaps=gaps, bounded=bounded), q0, qd0, knots, p)
        self._place(sweeps, guess, bounded=bounded)
        solver = ShootingSolver(sweeps, bounds, feasible=not gaps,
                                told=lambda done, count: told(done / count))
        with np.errstate(all="ignore"):
            solver.run()
        return Solutions.of(solver)

    def _place(self, sweeps: Sweeps, guess: tuple[Array, ...], *, bounded: bool) -> None:
        """Write first trajectories, both of each problem."""
        at, (q0, qd0) = sweeps.trajectories, sweeps.start
        used = np.zeros(self.robot.n)
        used[list(self.motors)] = 1.0
        tau = self.limited(guess[-1]) if bounded else guess[-1] * used
        at.tau[:, :-1] = np.repeat(tau, 2, axis=0)
        if len(guess) == 1:
            at.q[:], at.qd[:] = (np.repeat(x, 2, axis=0)[:, None] for x in (q0, qd0))
            return
        for own, given, start in ((at.q, guess[0], q0), (at.qd, guess[1], qd0)):
            own[:] = np.repeat(given, 2, axis=0)
            own[:, 0] = np.repeat(start, 2, axis=0)
