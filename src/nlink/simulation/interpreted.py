"""Integration that calls Python in every step: what cannot be traced, and SciPy's stiff methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.engines.engines import kernel
from nlink.iterations.driver import drive
from nlink.iterations.integration import STATUS
from nlink.scalars.functions import Scalar, Scalars
from nlink.simulation.asking import asked
from nlink.simulation.contact_reports import ContactStats
from nlink.simulation.drives import Untraced
from nlink.simulation.events import Events, changes
from nlink.simulation.implicit import solving_in_python
from nlink.simulation.moment import PUSHED, WRENCHED, Change, Moment, Text
from nlink.simulation.prescribed_motion import ForcesOfStates
from nlink.simulation.run import Run, Stats
from nlink.simulation.scipy_methods import SciPyMethod
from nlink.simulation.system import System
from nlink.simulation.variation import varied_kernel

if TYPE_CHECKING:
    from nlink.simulation.ensemble import Ensemble

Array = np.ndarray


def integrate_in_python(ensemble: Ensemble, bounds: dict[str, Any]) -> Run:
    """One trajectory after another; forward dynamics is compiled, all else is Python. A sampled
    controller that is not traced gets arrays with one row."""
    system, lead = ensemble.system, ensemble.lead
    outcomes = [_trajectory(ensemble, k, bounds) for k in range(len(ensemble.y0))]

    def column(name: str, kind: type = float) -> Any:
        return np.array([each[name] for each in outcomes], kind).reshape(lead)[()]

    out = np.reshape([each["out"] for each in outcomes],
                     (*lead, len(ensemble.times), system.shape.size))
    q, v, parts = system.layout.split(out)
    stats = Stats(column("steps", int), column("rejects", int), column("evaluations", int),
                  ContactStats.of({name: column(name) for name in outcomes[0]
                                   if name.startswith("contact_")}, lead) if outcomes else None)
    return Run(system.robot, ensemble.times, q, v,
               np.array([each["status"] for each in outcomes], int).reshape(lead), column("t"),
               stats, ensemble.method.name, system.velocity.name, forces=_forces(ensemble),
               variation=ensemble.variation, log=_log(
                   system.robot, system.event_names, outcomes, system.layout.sizes),
               closing=system.closing, parts=parts, wrenches=system.wrenches is not None)


def _trajectory(ensemble: Ensemble, k: int, bounds: dict[str, Any]) -> dict[str, Any]:
    """One of them: its outputs, its events, and how it ended."""
    system, method = ensemble.system, ensemble.method
    times, table, own = ensemble.times, ensemble.table, ensemble.own[k].tolist()
    y = system.before_sample(ensemble.initial)[k]
    end = {"t": times[0], "steps": 0, "rejects": 0, "evaluations": 0, "log": []}
    if ensemble.unclosed[k] or not (np.isfinite(y).all() and np.isfinite(ensemble.own[k]).all()):
        why = "not closed" if ensemble.unclosed[k] else "not finite"
        return end | {"out": _only(y, times), "status": STATUS[why]}
    for number, each in enumerate(system.watched):
        if each.trigger.bounds and each.g(0.0, y, None) < 0:  # outside a limit, that is the end
            return end | {"out": _only(y, times), "status": STATUS["limit reached"],
                          "log": [(times[0], number, y)]}
    which = np.array([k])
    found = _on_floats(
        system, (lambda t: ensemble.inputs(which, np.array([t]))[0]) if table is not None else (
            lambda t: own), _compiled(system, ensemble.own[k]))
    if system.sampling is not None and isinstance(system.drive, Untraced):
        found["sample"] = _asked_sample(system, own)
    if "derivatives" in method.needs:
        found |= solving_in_python(ensemble, k)
    if system.sampling is not None:
        y = found["sample"](times[0], y)
    f = CountedCalls(found["rates"])
    if isinstance(method, SciPyMethod):
        method = method.started(ensemble.step, bounds["largest"])
    iteration = system.iteration(method)
    given = bounds | {"coordinates": ensemble.robot.nq,
                      "discrete": system.shape.discrete} | found | {"rates": f}
    start = {"t": times[0], "h": ensemble.step, "y": y}
    if system.sampling is not None:
        start |= system.sampling.first(times[0])
    done = drive(iteration, given, start, times, dense=iteration.dense)
    return {"out": done.out, "status": done.status, "log": done.log, "evaluations": f.count} | {
        name: done.state[name] for name in done.state
        if name in ("t", "steps", "rejects") or name.startswith("contact_")}


def _on_floats(system: System, inputs: Callable[[float], Scalars],
               kernel: Callable[[str, Change], Callable[..., list[Scalar]] | None],
               ) -> dict[str, Callable[..., Any]]:
    """All that an iteration calls, on floats; `inputs` gives u without cells at a time."""
    def bound(text: Text) -> Callable[..., Any]:
        def call(t: float, y: Array, cells: Sequence[Any] = (), shared: Any = None) -> Any:
            u = [*inputs(float(t)), *map(float, cells)]
            found = text.function(Moment(system, float(t), y.tolist(), u, kernel, shared))
            if text.gives.shared:
                return found
            if not text.gives.column:
                return [np.float64(x) for x in found]
            column = np.array(found[:len(y)], dtype=float)
            cells = [np.float64(x) for x in found[len(y):]]
            return (column, cells) if text.gives.cells else column

        return call

    return {name: bound(text) for name, text in system.texts.items()}


def _compiled(system: System, own: Array) -> Callable[..., Callable[..., list[float]] | None]:
    """What of a system's mechanics is compiled: its motion, hybrid dynamics, the projection."""
    @cache
    def made(name: str, change: Change) -> Callable[..., list[float]] | None:
        if name not in (system.velocity.motion, "hybrid_dynamics", "project", "hybrid_projection",
                        WRENCHED, PUSHED):
            return None
        robot, request = system.robot, system.request(name)
        more = (own,) if system.varied.mechanical else ()
        function = varied_kernel(robot, system.varied, request, change) if more else kernel(
            replace(request, mechanism=change(robot.mechanism)))

        def compute(*columns: Scalars) -> list[float]:
            results = function(*(np.array(x, dtype=float).reshape(port.shape) for x, port in zip(
                columns, request.ports[0], strict=True)), *more)
            return results.tolist() if isinstance(results, np.ndarray) else [
                x for each in results for x in np.ravel(each).tolist()]

        return compute

    return made


def _asked_sample(system: System, own: list[float]) -> Callable[..., Array]:
    """A sample of a controller that is ordinary Python, of one trajectory."""
    scheme = system.drive.varied(system, [np.array([x]) for x in own])

    def sample(t: float, y: Array) -> Array:
        at = Moment(system, float(t), y, own)
        after, mine = y.copy(), system.remembered
        after[mine] = asked(scheme, float(t), np.array([at.q]), np.array([at.qd]),
                            y[None, mine])[0]
        return after

    return sample


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


def _log(robot: Any, names: Sequence[str], outcomes: list[dict[str, Any]],
         parts: Mapping[str, int]) -> Events | None:
    rows = [(k, *row) for k, each in enumerate(outcomes) for row in each["log"]]
    if not names:
        return None
    trajectory, which = (np.array([row[k] for row in rows], int) for k in (0, 2))
    t, y = (np.array([row[k] for row in rows], float) for k in (1, 3))
    y = y.reshape(len(rows), -1 if rows else robot.nq + robot.n)
    these, which = changes(names, trajectory, which, y, parts)
    trajectory, t, y = trajectory[these], t[these], y[these]
    return Events(tuple(names), trajectory, t, which, y[:, :robot.nq],
                  y[:, robot.nq:robot.nq + robot.n])


def _forces(ensemble: Ensemble) -> Any:
    system, drive = ensemble.system, ensemble.system.drive
    if system.motion is not None:
        return ForcesOfStates(system)
    if drive.scheme is None:
        return drive.forces(ensemble)

    def forces(t: Array, q: Array, qd: Array, *more: Array) -> Array:
        flat = [x.reshape(-1, len(t), x.shape[-1]) for x in (q, qd)]
        states, own = more, np.empty((len(flat[0]), 0))
        if ensemble.variation is not None:  # what varies comes last
            states, own = more[:-1], more[-1].reshape(len(flat[0]), -1)
        flat += [x.reshape(-1, len(t), x.shape[-1]) for x in states]
        tau = []
        for k, columns in enumerate(zip(*flat, strict=True)):
            scheme = drive.varied(system, own[k].tolist())
            tau.append([scheme.tau(float(t[i]), *(x[i] for x in columns))
                        for i in range(len(t))])
        return np.array(tau, dtype=float).reshape(qd.shape)

    return forces
