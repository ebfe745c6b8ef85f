"""`nlink.mpc`: a controller that optimises what lies ahead, anew at every step.

Each robot has a plan of its own. At a step the plan moves on by a knot: the feedback of the last
sweep carries it from the predicted state to the measured one. One sweep back and one forward then
improve it [Diehl, Bock, Schloeder 05: real-time iterations], and the forces of its first knot act.
Where the sweep would not improve a plan, that stays as it was carried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.backends.llvm.threads import threads
from nlink.optimization.accelerations import Accelerations
from nlink.optimization.costs import Cost
from nlink.optimization.optimal_control import OptimalControl
from nlink.optimization.optimize import Effort, knots_of, normalized, positive, prepare, whole
from nlink.optimization.shooting_solver import (
    LEAST_DAMPING,
    Bounds,
    Sweeps,
    Trajectories,
)
from nlink.robot import Robot
from nlink.scalars.arrays import batch
from nlink.scalars.graph import Node
from nlink.simulation.system import System

Array = np.ndarray
STEPS = 1.0, 0.25
"""Steps that are tried at a time."""
MOST_DAMPED = 1e3
FIRST = Bounds(1e-6, 50)
"""How a plan is made where there is none."""


def mpc(robot: Robot | System, cost: Cost, horizon: float, step: float = 0.01,
        final: Cost | None = None, effort: Effort = None, *,
        parameters: ArrayLike | Callable[[float], ArrayLike] | None = None,
        iterations: int = 1) -> MPC:
    """A controller of model predictive control: forces of least cost over `horizon` seconds ahead,
    planned anew every `step` seconds.

    `cost`, `final` and `effort` are as for `nlink.optimize`. The controller is called with times,
    states and nothing else, and goes into `nlink.simulate` as `tau`; in a loop of your own it is
    `world.step(controller(world.t, world.q, world.qd))` of a `nlink.Stepper`. Robots of a batch
    have plans of their own, improved by `iterations` sweeps at a step. `parameters` (..., k) are
    those of the costs, for all robots or for each; or a function of time that gives them.

    >>> import nlink, numpy as np
    >>> arm = nlink.load("planar3")
    >>> goal = np.array([0.4, 0.2, -0.3])
    >>> controller = nlink.mpc(arm, lambda q, qd, u: 1e2 * (q - goal) @ (q - goal) + qd @ qd
    ...     + 1e-4 * (u @ u), horizon=0.3, step=0.02)
    >>> run = nlink.simulate(arm, [[0.0, 0.0, 0.0], [0.3, 0.3, 0.3]], t=2.0, tau=controller)
    >>> bool(abs(run.q[:, -1] - goal).max() < 0.05)
    True
    """
    motion = Accelerations.of(robot)
    given = parameters(0.0) if callable(parameters) else parameters
    size = 0 if given is None else np.atleast_1d(np.asarray(given, dtype=float)).shape[-1]
    task = prepare(motion, cost, final, positive("step", step), effort, size)
    if whole("iterations", iterations) < 1:
        raise ValueError("iterations: 0, expected at least 1")
    return MPC(task, knots_of(horizon, step), parameters, int(iterations))


class MPC:
    """The controller that `nlink.mpc` makes; see there.

    `plan` has the trajectories that are planned, `cost` what they cost.
    """

    traced = False
    """Simulations ask it in Python, once a step for all robots."""
    state = 1
    """What a simulation remembers of it: which robot a row is."""

    def __init__(self, task: OptimalControl, knots: int, parameters: Any, iterations: int) -> None:
        self._task, self._knots, self._parameters = task, knots, parameters
        self._iterations = iterations
        self.period = task.step
        self._sweeps: Sweeps | None = None
        self._time = np.empty(0)
        self.cost = np.empty(0)

    @property
    def robot(self) -> Robot:
        return self._task.robot

    def __repr__(self) -> str:
        return (f"<MPC of {len(self._time)} {self.robot.name}, {self._knots} knots of "
                f"{self.period:g} s>")

    def start(self, rows: Array) -> Array:
        """The first state of the controller of some rows: their numbers."""
        self.reset()
        return np.asarray(rows, dtype=float)[:, None]

    def update(self, t: float, q: Array, qd: Array, x: Array) -> Array:
        """Rows stay what they are."""
        return x

    def reset(self) -> None:
        """Forget all plans."""
        self._sweeps, self._time, self.cost = None, np.empty(0), np.empty(0)

    def __call__(self, t: ArrayLike, q: ArrayLike, qd: ArrayLike, x: Array | None = None) -> Array:
        """Forces (..., n) for states (..., nq) and (..., n)."""
        robot = self.robot
        if any(isinstance(each, Node) for each in np.ravel(np.asarray(q, dtype=object))[:1]):
            raise TypeError("tau: an MPC among traced values, expected it as the controller itself")
        states = batch("q", q, (robot.nq,)), batch("qd", qd, (robot.n,))
        lead = np.broadcast_shapes(states[0].shape[:-1], states[1].shape[:-1])
        flat = [np.ascontiguousarray(np.broadcast_to(s, (*lead, s.shape[-1])).reshape(
            -1, s.shape[-1])) for s in states]
        count = len(flat[0])
        rows = np.arange(count) if x is None else np.asarray(x)[:, 0].astype(np.int64)
        times = np.broadcast_to(np.asarray(t, dtype=float), lead).reshape(-1) if np.ndim(
            t) else np.full(count, float(np.asarray(t)))
        with np.errstate(all="ignore"):
            tau = self._step(rows, times, normalized(robot, flat[0]), flat[1])
        return tau.reshape(*lead, robot.n) if lead else tau[0]

    @property
    def plan(self) -> tuple[Array, Array, Array]:
        """q (robots, knots + 1, nq), qd and the forces of all plans."""
        if self._sweeps is None:
            raise ValueError("plan: none yet, expected a call before")
        return self._sweeps.trajectories.current()

    def _step(self, rows: Array, times: Array, q: Array, qd: Array) -> Array:
        """Move plans on, improve them, and give the forces of their first knots."""
        sweeps = self._room(int(rows.max(initial=-1)) + 1)
        if self._task.parameters:
            given = self._parameters(float(times[0])) if callable(
                self._parameters) else self._parameters
            own = np.atleast_1d(np.asarray(given, dtype=float))
            sweeps.parameters[rows] = own if own.ndim == 1 else np.broadcast_to(
                own.reshape(-1, own.shape[-1]), (len(self._time), own.shape[-1]))[rows]
        # a robot whose time has not gone on by a step begins anew
        sweeps.start[0][rows], sweeps.start[1][rows] = q, qd
        later = times - self._time[rows]
        follows = abs(later - self.period) < 1e-6 * self.period
        self._time[rows] = times
        self._follow(rows[follows])
        lost = ~follows | ~np.isfinite(self.cost[rows])
        if lost.any():
            self._plan(rows[lost])
        at = sweeps.trajectories
        tau = at.tau[at.places(rows), 0]
        return np.where(np.isfinite(tau), tau, 0.0)

    def _room(self, count: int) -> Sweeps:
        """Sweeps for so many robots; plans are kept."""
        old = self._sweeps
        if old is not None and len(self._time) >= count:
            return old
        task, robot = self._task, self.robot
        problem = task.shooting(gaps=False, bounded=True)
        start = np.zeros((count, robot.nq)), np.zeros((count, robot.n))
        self._sweeps = new = Sweeps(
            problem, start, Trajectories.empty(problem, count, self._knots),
            np.zeros((count, task.parameters)), count, threads())
        new.slot[:] = np.arange(count)
        self._time, before = np.full(count, np.nan), self._time
        self.cost, cost = np.full(count, np.nan), self.cost
        if old is not None:
            have = len(before)
            self._time[:have], self.cost[:have] = before, cost
            new.trajectories.q[:2 * have] = old.trajectories.q
            new.trajectories.qd[:2 * have] = old.trajectories.qd
            new.trajectories.tau[:2 * have] = old.trajectories.tau
            new.trajectories.which[:have] = old.trajectories.which
            new.K[:have], new.k[:have] = old.K[:have], old.k[:have]
        return new

    def _plan(self, rows: Array) -> None:
        """New plans."""
        sweeps = self._sweeps
        assert sweeps is not None
        found = self._task.solve(sweeps.start[0][rows], sweeps.start[1][rows], self._knots,
                                 sweeps.parameters[rows], None, FIRST)
        at = sweeps.trajectories
        here = at.places(rows)
        at.q[here], at.qd[here] = found.q, found.qd
        at.tau[here, :-1], self.cost[rows] = found.tau, found.cost
        sweeps.K[rows] = 0.0
        sweeps.numbers["damping"][rows] = LEAST_DAMPING
        if len(rows):
            sweeps.backward(rows)

    def _follow(self, rows: Array) -> None:
        """Plans a knot later, improved."""
        if not len(rows):
            return
        sweeps = self._sweeps
        assert sweeps is not None
        at, numbers = sweeps.trajectories, sweeps.numbers
        here = at.places(rows)
        at.tau[here, -1] = at.tau[here, -2]
        numbers["alpha"][rows] = 0.0
        self.cost[rows] = sweeps.forward(rows, later=1)
        at.which[rows] ^= 1
        numbers["alpha"][rows] = 1.0
        for _ in range(self._iterations):
            sweeps.backward(rows)
            left = rows
            for alpha in STEPS:
                numbers["alpha"][left] = alpha
                cost = sweeps.forward(left)
                better = cost < self.cost[left]
                taken = left[better]
                at.which[taken] ^= 1
                self.cost[taken] = cost[better]
                left = left[~better]
                if not len(left):
                    break
            damping = numbers["damping"]
            damping[rows] = np.maximum(damping[rows] / 10, LEAST_DAMPING)
            damping[left] = np.clip(damping[left] * 1000, 1e-6, MOST_DAMPED)
