"""Integration that calls Python in every step: what cannot be traced, and SciPy's stiff methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.compute.engines import kernel
from nlink.iterations.driver import drive
from nlink.iterations.integration import STATUS
from nlink.simulation.events import Events, Watched
from nlink.simulation.run import Run, Stats
from nlink.simulation.scipy_methods import SciPyMethod
from nlink.simulation.system import System, evaluate_controller
from nlink.simulation.variation import varied_kernel

if TYPE_CHECKING:
    from nlink.simulation.problem import Problem

Array = np.ndarray


def integrate_in_python(problem: Problem, system: System, bounds: dict[str, Any]) -> Run:
    """One trajectory after another; forward dynamics is compiled, all else is Python."""
    robot, lead = problem.robot, problem.lead
    outcomes = [_trajectory(problem, system, k, bounds) for k in range(len(problem.y0))]

    def column(name: str, kind: type = float) -> Any:
        return np.array([each[name] for each in outcomes], kind).reshape(lead)[()]

    out = np.reshape([each["out"] for each in outcomes],
                     (*lead, len(problem.times), problem.y0.shape[1]))
    stats = Stats(*(column(name, int) for name in ("steps", "rejects", "evaluations")))
    return Run(robot, problem.times, out[..., :robot.nq], out[..., robot.nq:],
               np.array([each["status"] for each in outcomes], int).reshape(lead), column("t"),
               stats, problem.method.name, problem.velocity.name, forces=_forces(problem),
               variation=problem.variation, log=_log(robot, system.watched, outcomes),
               closing=system.closing)


def _trajectory(problem: Problem, system: System, k: int, bounds: dict[str, Any],
                ) -> dict[str, Any]:
    """One of them: its outputs, its events, and how it ended."""
    y, times, table = problem.initial[k], problem.times, problem.table
    end = {"t": times[0], "steps": 0, "rejects": 0, "evaluations": 0, "log": []}
    if problem.unclosed[k] or not (np.isfinite(y).all() and np.isfinite(problem.own[k]).all()):
        why = "not closed" if problem.unclosed[k] else "not finite"
        return end | {"out": _only(y, times), "status": STATUS[why]}
    for number, each in enumerate(system.watched):
        if each.trigger.bounds and each.g(0.0, y, None) < 0:  # outside a limit, that is the end
            return end | {"out": _only(y, times), "status": STATUS["limit reached"],
                          "log": [(times[0], number, y)]}
    f = CountedCalls(rates(problem, system, None if table is None else table[k % len(table)],
                           problem.own[k]))
    method = problem.method
    if isinstance(method, SciPyMethod):
        method = method.started(problem.step, bounds["largest"])
    iteration = system.iteration(method)
    given = bounds | {"rates": f, "coordinates": problem.robot.nq} | programs(system)
    done = drive(iteration, given, {"t": times[0], "h": problem.step, "y": y}, times,
                 dense=iteration.dense)
    return {"out": done.out, "status": done.status, "log": done.log, "evaluations": f.count} | {
        name: done.state[name] for name in ("t", "steps", "rejects")}


def _only(y: Array, times: Array) -> Array:
    """The outputs of a trajectory that ends before it starts."""
    out = np.full((len(times), len(y)), np.nan)
    out[0] = y
    return out


@dataclass
class CountedCalls:
    """A function that knows how often it was called."""

    function: Callable[..., Array]
    count: int = 0

    def __call__(self, t: float, y: Array) -> Array:
        self.count += 1
        return self.function(float(t), y)


def programs(system: System) -> dict[str, Callable[..., Any]]:
    """What an iteration calls besides the rates, on floats."""
    robot, nq = system.robot, system.robot.nq
    found: dict[str, Callable[..., Any]] = {}
    if system.restores:
        def restore(t: float, y: Array) -> Array:
            q = np.array(robot.mechanism.space.normalize(y[:nq]))
            return np.concatenate(robot.loops.project(q, y[nq:]) if system.projects
                                  else (q, y[nq:]))

        found["restore"] = restore
    if system.watched:
        bounded = [each.trigger.element for each in system.watched if each.trigger.bounds]
        found["watch"] = lambda t, y: [np.float64(each(float(t), *system.joint_rates(y)))
                                       for each in system.watched]
        found["limited"] = lambda t, y: [y[k] for k in bounded]
        found["impact"] = lambda t, y, acts: np.array(
            system.after_impact(y.tolist(), [float(x) for x in acts]))
    return found


def _log(robot: Any, watched: tuple[Watched, ...], outcomes: list[dict[str, Any]],
         ) -> Events | None:
    rows = [(k, *row) for k, each in enumerate(outcomes) for row in each["log"]]
    if not watched:
        return None
    trajectory, which = (np.array([row[k] for row in rows], int) for k in (0, 2))
    t, y = (np.array([row[k] for row in rows], float) for k in (1, 3))
    y = y.reshape(-1, robot.nq + robot.n)
    return Events(tuple(each.name for each in watched), trajectory, t, which, y[:, :robot.nq],
                  y[:, robot.nq:])


def rates(problem: Problem, system: System, table: Array | None, own: Array,
          ) -> Callable[[float, Array], Array]:
    """f(t, y) of one trajectory, on floats; `own` is what it has besides its state."""
    robot, times, varied = problem.robot, problem.times, problem.varied
    controller = problem.controller and varied.controller(problem.controller, own.tolist())
    space, nq, zeros = robot.mechanism.space, robot.nq, np.zeros(robot.n)
    if varied.mechanical:
        loaded = varied_kernel(robot, varied, system.request())

        def accelerate(q: Array, qd: Array, tau: Array, qdd: Array) -> None:
            qdd[:] = loaded(q, qd, tau, own)
    else:
        accelerate = kernel(system.request()).bare

    def forces(t: float, q: Array, qd: Array) -> Array:
        if table is not None:
            return np.array([np.interp(t, times, column) for column in table.T])
        return zeros if controller is None else np.array(
            evaluate_controller(controller, t, q, qd, robot.n), dtype=float)

    def f(t: float, y: Array) -> Array:
        q, v = np.ascontiguousarray(y[:nq]), np.ascontiguousarray(y[nq:])
        if system.velocity.rates is not None:
            q, qd = (np.array(x) for x in system.joint_rates(y))
            change = system.change(robot.mechanism, q, v, qd, forces(t, q, qd))
            return np.concatenate([qd, change])
        qdd = np.empty(robot.n)
        accelerate(q, v, forces(t, q, v), qdd)
        return np.concatenate([v if space.flat else np.array(space.tangent(q, v)), qdd])

    return f


def _forces(problem: Problem) -> Any:
    controller = problem.controller
    if controller is None:
        return problem.forces()

    def forces(t: Array, q: Array, qd: Array, *own: Array) -> Array:
        flat_q, flat_qd = (x.reshape(-1, len(t), x.shape[-1]) for x in (q, qd))
        rows = own[0].reshape(len(flat_q), own[0].shape[-1]).tolist() if own else [[]] * len(flat_q)
        controllers = [problem.varied.controller(controller, row) for row in rows]
        tau = [[each(float(t[i]), a[i], b[i]) for i in range(len(t))]
               for each, a, b in zip(controllers, flat_q, flat_qd, strict=True)]
        return np.array(tau, dtype=float).reshape(qd.shape)

    return forces
