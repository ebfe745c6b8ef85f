"""Integration that calls Python in every step: what cannot be traced, and SciPy's stiff methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.compute.engines import kernel
from nlink.iterations.driver import drive
from nlink.iterations.integration import STATUS
from nlink.simulation.asking import asked
from nlink.simulation.events import Events, spread_switches
from nlink.simulation.implicit import solving_in_python
from nlink.simulation.interpreted_modes import Control, mode_programs
from nlink.simulation.run import Run, Stats
from nlink.simulation.scipy_methods import SciPyMethod
from nlink.simulation.system import System
from nlink.simulation.variation import varied_kernel

if TYPE_CHECKING:
    from nlink.simulation.problem import Problem

Array = np.ndarray


def integrate_in_python(problem: Problem, system: System, bounds: dict[str, Any], *,
                        traced: bool = True) -> Run:
    """One trajectory after another; forward dynamics is compiled, all else is Python. A sampled
    controller that is not `traced` gets arrays with one row."""
    robot, lead = problem.robot, problem.lead
    outcomes = [_trajectory(problem, system, k, bounds, traced=traced)
                for k in range(len(problem.y0))]

    def column(name: str, kind: type = float) -> Any:
        return np.array([each[name] for each in outcomes], kind).reshape(lead)[()]

    out = np.reshape([each["out"] for each in outcomes],
                     (*lead, len(problem.times), system.shape.size))
    q, v, parts = system.layout.split(out)
    stats = Stats(*(column(name, int) for name in ("steps", "rejects", "evaluations")))
    return Run(robot, problem.times, q, v,
               np.array([each["status"] for each in outcomes], int).reshape(lead), column("t"),
               stats, problem.method.name, problem.velocity.name, forces=_forces(problem, system),
               variation=problem.variation, log=_log(robot, system.event_names, outcomes,
                                                     len(system.modes or ())),
               closing=system.closing, parts=parts)


def _trajectory(problem: Problem, system: System, k: int, bounds: dict[str, Any], *,
                traced: bool) -> dict[str, Any]:
    """One of them: its outputs, its events, and how it ended."""
    times, table, own = problem.times, problem.table, problem.own[k].tolist()
    y = system.before_sample(problem.initial)[k]
    end = {"t": times[0], "steps": 0, "rejects": 0, "evaluations": 0, "log": []}
    if problem.unclosed[k] or not (np.isfinite(y).all() and np.isfinite(problem.own[k]).all()):
        why = "not closed" if problem.unclosed[k] else "not finite"
        return end | {"out": _only(y, times), "status": STATUS[why]}
    for number, each in enumerate(system.watched):
        if each.trigger.bounds and each.g(0.0, y, None) < 0:  # outside a limit, that is the end
            return end | {"out": _only(y, times), "status": STATUS["limit reached"],
                          "log": [(times[0], number, y)]}
    found = programs(system, own, traced=traced)
    held = None if table is None else table[k % len(table)]
    if system.modes:
        found |= mode_programs(problem, system, control_of(problem, system, held, problem.own[k]),
                               problem.own[k])
    else:
        found["rates"] = rates(problem, system, held, problem.own[k])
    if problem.method.solves:
        found |= solving_in_python(problem, system, k)
    if system.sampling is not None:
        y = found["sample"](times[0], y)
    f = CountedCalls(found["rates"])
    method = problem.method
    if isinstance(method, SciPyMethod):
        method = method.started(problem.step, bounds["largest"])
    iteration = system.iteration(method)
    given = bounds | {"coordinates": problem.robot.nq,
                      "discrete": system.shape.discrete} | found | {"rates": f}
    start = {"t": times[0], "h": problem.step, "y": y}
    if system.sampling is not None:
        start |= system.sampling.first(times[0])
    done = drive(iteration, given, start, times, dense=iteration.dense)
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


def programs(system: System, own: list[float], *, traced: bool) -> dict[str, Callable[..., Any]]:
    """What an iteration calls besides the rates, on floats; `own` is what a trajectory has
    besides its state."""
    robot = system.robot
    found: dict[str, Callable[..., Any]] = {}
    if system.sampling is not None and traced:
        found["sample"] = lambda t, y: np.array(
            system.after_sample(float(t), y, own), dtype=float)
    elif system.sampling is not None:
        scheme = system.scheme([np.array([x]) for x in own])
        assert scheme is not None

        def sample(t: float, y: Array) -> Array:
            q, qd = (np.array([x]) for x in system.joint_rates(y))
            after, mine = y.copy(), system.remembered
            after[mine] = asked(scheme, float(t), q, qd, y[None, mine])[0]
            return after

        found["sample"] = sample
    if system.restores or system.projects:
        def restore(t: float, y: Array) -> Array:
            return np.array([*robot.mechanism.space.normalize(y[:robot.nq]), *y[robot.nq:]])

        def close(t: float, y: Array) -> tuple[Array, list[Any]]:
            q, v, _ = system.layout.split(restore(t, y))
            q, v, left = robot.compute("project", q, v)
            return np.concatenate([q, v, y[len(q) + len(v):]]), [left]

        found |= {"restore": restore, "close": close}
    if system.watched:
        bounded = [each.trigger.element for each in system.watched if each.trigger.bounds]
        found["watch"] = lambda t, y: [np.float64(x) for x in system.watch(
            float(t), *system.joint_rates(y), system.layout.split(y)[2].get("mode", ()))]
        found["limited"] = lambda t, y: [y[k] for k in bounded]
        found["impact"] = lambda t, y, acts: np.array(
            system.after_impact(y.tolist(), [float(x) for x in acts]))
    return found


def _log(robot: Any, names: Sequence[str], outcomes: list[dict[str, Any]],
         modes: int) -> Events | None:
    rows = [(k, *row) for k, each in enumerate(outcomes) for row in each["log"]]
    if not names:
        return None
    trajectory, which = (np.array([row[k] for row in rows], int) for k in (0, 2))
    t, y = (np.array([row[k] for row in rows], float) for k in (1, 3))
    y = y.reshape(len(rows), -1 if rows else robot.nq + robot.n)
    if modes:
        these, which = spread_switches(names, trajectory, which, y[:, -modes:])
        trajectory, t, y = trajectory[these], t[these], y[these]
    return Events(tuple(names), trajectory, t, which, y[:, :robot.nq],
                  y[:, robot.nq:robot.nq + robot.n])


def control_of(problem: Problem, system: System, table: Array | None, own: Array) -> Control:
    """What drives one trajectory, on floats."""
    times, scheme = problem.times, system.scheme(own.tolist())

    def control(t: float, q: Array, qd: Array, parts: Any) -> tuple[Array, Array]:
        if table is not None:
            return np.array([np.interp(t, times, column) for column in table.T]), np.empty(0)
        tau, further = system.control(scheme, t, q, qd, parts)
        return np.array(tau, dtype=float), np.array(further, dtype=float)

    return control


def rates(problem: Problem, system: System, table: Array | None, own: Array,
          ) -> Callable[[float, Array], Array]:
    """f(t, y) of one trajectory, on floats; `own` is what it has besides its state."""
    robot, varied = problem.robot, problem.varied
    control, space = control_of(problem, system, table, own), robot.mechanism.space
    mechanism = varied.mechanism(robot, own.tolist())
    if varied.mechanical:
        loaded = varied_kernel(robot, varied, system.request(), system.bare)

        def accelerate(q: Array, qd: Array, tau: Array, qdd: Array) -> None:
            qdd[:] = loaded(q, qd, tau, own)
    else:
        accelerate = kernel(replace(system.request(),
                                    mechanism=system.bare(robot.mechanism))).bare

    def f(t: float, y: Array) -> Array:
        q, v, parts = system.layout.split(y)
        if system.velocity.rates is not None:
            q, qd = (np.array(x) for x in system.joint_rates(y))
            tau, further = control(t, q, qd, parts)
            tau = system.rubbed(mechanism, qd, tau)
            return np.concatenate([
                qd, system.change(system.bare(robot.mechanism), q, v, qd, tau), further])
        q, v, qdd = np.ascontiguousarray(q), np.ascontiguousarray(v), np.empty(robot.n)
        tau, further = control(t, q, v, parts)
        accelerate(q, v, np.array(system.rubbed(mechanism, v, tau)), qdd)
        return np.concatenate([v if space.flat else np.array(space.tangent(q, v)), qdd, further])

    return f


def _forces(problem: Problem, system: System) -> Any:
    if problem.controller is None:
        return problem.forces()

    def forces(t: Array, q: Array, qd: Array, *more: Array) -> Array:
        flat = [x.reshape(-1, len(t), x.shape[-1]) for x in (q, qd)]
        states, own = more, np.empty((len(flat[0]), 0))
        if problem.variation is not None:  # what varies comes last
            states, own = more[:-1], more[-1].reshape(len(flat[0]), -1)
        flat += [x.reshape(-1, len(t), x.shape[-1]) for x in states]
        tau = []
        for k, columns in enumerate(zip(*flat, strict=True)):
            scheme = system.scheme(own[k].tolist())
            assert scheme is not None
            tau.append([scheme.tau(float(t[i]), *(x[i] for x in columns))
                        for i in range(len(t))])
        return np.array(tau, dtype=float).reshape(qd.shape)

    return forces
