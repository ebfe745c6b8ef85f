"""`nlink.Stepper`: many robots, one step at a time, for control loops of your own.

The step is the one that `nlink.simulate` compiles for a sampled controller: joint forces are held
from one multiple of `step` to the next, and a method integrates in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.iterations.integration import STATUS, Method
from nlink.iterations.records import new_records
from nlink.scalars.arrays import batch
from nlink.simulation.closing import check_closing
from nlink.simulation.event_log import FEW
from nlink.simulation.integration_kernels import kernel_of
from nlink.simulation.problem import Problem, rubbing, whole_number
from nlink.simulation.run import MESSAGES
from nlink.simulation.system import System

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray


@dataclass(frozen=True)
class HeldForces:
    """A controller whose forces are set from outside, every `period` seconds."""

    period: float

    def __call__(self, t: Any, q: Any, qd: Any) -> Any:
        return 0.0 * qd


class Stepper:
    """Robots from states q, qd, (..., nq) and (..., n), that move `step` seconds at each call.

    `method`, `rtol`, `atol`, `friction` and `width` are those of `nlink.simulate`; a fixed step is
    `step`. `t`, `q` and `qd` are the current times and states of the robots; `status` is "running",
    or says why a robot has failed, which then stays where it was until it is reset.

    >>> import nlink
    >>> robots = Stepper(nlink.load("planar3"), q=np.zeros((100, 3)), step=0.01)
    >>> for _ in range(20):
    ...     robots.step(-5.0 * robots.qd - 40.0 * robots.q)
    >>> robots.q.shape, float(robots.t[0])
    ((100, 3), 0.2)
    """

    def __init__(self, robot: Robot, q: ArrayLike | None = None, qd: ArrayLike | None = None, *,
                 step: float = 1e-3, method: str | Method = "rk4", rtol: float = 1e-9,
                 atol: float = 1e-12, max_steps: int = 10_000, threads: int | None = None,
                 friction: str = "dry", width: float = 1e-3) -> None:
        if not (np.isfinite(step) and step > 0):
            raise ValueError(f"step: {step}, expected a positive number of seconds")
        problem = Problem.of(robot, q, qd, [0.0, float(step)], HeldForces(float(step)), method,
                             "qd", float(step), None)
        if not problem.method.compiles or problem.velocity.rates is not None:
            raise ValueError(f"method: {problem.method.name!r}, expected one that is compiled and "
                             "integrates qd")
        closing = check_closing(robot, "project", problem.method, "qd")
        self.robot, self.lead, self._start = robot, problem.lead, problem.y0
        modes, smooth = rubbing(problem, friction, width, "ignore")
        system = System(robot, problem.controller, velocity=problem.velocity, closing=closing,
                        asks=True, modes=modes, width=smooth,
                        stepwise=getattr(problem.method, "stepwise", False) and modes is not None)
        from nlink.backends.llvm.host import host
        from nlink.backends.llvm.threads import threads as allowed

        count, sampling = len(problem.y0), system.sampling
        assert sampling is not None
        self._kernel = kernel_of(system, problem.method, host().target.width if count > 2 else 2)
        self._threads = allowed() if threads is None else whole_number("threads", threads)
        size = system.shape.size
        self._blank = new_records(1, system.iteration(problem.method).layout, size)
        self._blank["next"], self._blank["h"] = 1, problem.step
        for name, value in sampling.first(0.0).items():
            self._blank[name] = value
        self._records = np.repeat(self._blank, count)
        self._records["status"] = STATUS["waiting"]
        self._y = self._records["y"]
        self._y[:, :robot.nq + robot.n] = problem.y0
        self._records["status"][problem.unclosed] = STATUS["not closed"]
        self._held = self._y[:, system.remembered][:, :robot.n]
        # changes of modes are logged, and forgotten
        self._log = np.empty((count, FEW, 2 + size)) if system.event_names else None
        self._out, self._times = np.empty((count, 2, size)), np.array([0.0, np.inf])
        self._most = whole_number("max_steps", max_steps)
        self._bounds = {"rtol": float(rtol), "atol": float(atol),
                        "least": 16 * np.finfo(float).eps * float(step)}

    def step(self, tau: ArrayLike | None = None) -> None:
        """Advance all robots by one step under joint forces (..., n), zero if not given.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> world = nlink.Stepper(robot, [0.5, 0.0], step=1e-3)
        >>> world.step([0.0, 0.0])
        >>> float(world.t)
        0.001
        """
        records, status = self._records, self._records["status"]
        if tau is None:
            self._held[:] = 0.0
        else:
            given = batch("tau", tau, (self.robot.n,))
            if given.shape != (*self.lead, self.robot.n):
                try:
                    given = np.broadcast_to(given, (*self.lead, self.robot.n))
                except ValueError:
                    raise ValueError(f"tau: shape {given.shape}, expected "
                                     f"{(*self.lead, self.robot.n)}") from None
            self._held[:] = given.reshape(-1, self.robot.n)
        status[status == STATUS["waiting"]] = STATUS["running"]
        # the bound on steps is one on each call
        records["steps"] = records["rejects"] = 0
        while (status == STATUS["running"]).any():
            self._kernel.run(records, self._out, self._times, None, most=self._most,
                             threads=self._threads, log=self._log, **self._bounds)
            records["fill"] = 0

    def reset(self, where: Any = None, q: ArrayLike | None = None, qd: ArrayLike | None = None,
              ) -> None:
        """Restart at t = 0 the robots that `where` selects, an index or booleans of the batch's
        shape; all if not given. They start from q and qd, or from their first states if none are
        given.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> world = nlink.Stepper(robot, [[0.0, 0.0], [0.5, 0.0]], step=0.01)
        >>> world.step()
        >>> world.reset([True, False])
        >>> world.t
        array([0.  , 0.01])
        """
        robot, picked = self.robot, np.zeros(self.lead, bool)
        picked[... if where is None else where] = True
        rows, states = np.flatnonzero(picked), self._start[picked.ravel()].copy()
        for name, given, part in (("q", q, slice(0, robot.nq)), ("qd", qd, slice(robot.nq, None))):
            if given is None:
                continue
            width = states[:, part].shape[1]
            values = batch(name, given, (width,))
            try:
                states[:, part] = np.broadcast_to(values, (len(rows), width)) if (
                    values.ndim < 3) else values.reshape(len(rows), width)
            except ValueError:
                raise ValueError(f"{name}: shape {values.shape}, expected ({len(rows)}, {width}) "
                                 "for the robots that are reset") from None
        checked = Problem.of(robot, states[:, :robot.nq], states[:, robot.nq:], [0.0, 1.0], None,
                             "rk4", "qd", 1.0, None)
        self._records[rows] = self._blank
        self._y[rows, :robot.nq + robot.n] = checked.y0
        self._records["status"][rows] = np.where(
            checked.unclosed, STATUS["not closed"], STATUS["waiting"])

    @property
    def t(self) -> Array:
        """The time of each robot since its last reset, (...)."""
        return self._records["t"].reshape(self.lead)[()]

    @property
    def q(self) -> Array:
        """Coordinates, (..., nq)."""
        return self._y[:, :self.robot.nq].reshape(*self.lead, self.robot.nq)

    @property
    def qd(self) -> Array:
        """Rates, (..., n)."""
        nq, n = self.robot.nq, self.robot.n
        return self._y[:, nq:nq + n].reshape(*self.lead, n)

    @property
    def status(self) -> Any:
        """"running", or why a robot no longer moves; an array of such words for a batch."""
        words = np.array(["running" if code == STATUS["waiting"] else MESSAGES[int(code)]
                          for code in self._records["status"]], object)
        return words.reshape(self.lead)[()]

    def __repr__(self) -> str:
        return (f"<Stepper of {self._records.size} {self.robot.name}, "
                f"t = {float(self._records['t'].max(initial=0.0)):g}>")
