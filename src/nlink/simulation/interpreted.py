"""Integration with Python in the loop: laws that cannot be traced, and SciPy's stiff methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.compiler.integrator import STATUS
from nlink.engines import kernel
from nlink.simulation.closing import restore
from nlink.simulation.events import Events, Watched
from nlink.simulation.methods import TABLEAUX
from nlink.simulation.reference import Outcome, integrate
from nlink.simulation.run import Run, Stats
from nlink.simulation.system import Closing, System, evaluate_law
from nlink.simulation.variation import varied_kernel
from nlink.simulation.watcher import Watcher

if TYPE_CHECKING:
    from nlink.simulation.integration import _Problem

Array = np.ndarray
SCIPY = {"lsoda": "LSODA", "radau": "Radau"}


def integrate_in_python(problem: _Problem, algorithm: str | None, watched: tuple[Watched, ...],
                        restitution: float, *, rtol: float, atol: float, least: float,
                        largest: float, most: int, closing: Closing = "project") -> Run:
    """One trajectory after another; forward dynamics is compiled, all else is Python."""
    if problem.method in ("abm", "symplectic"):
        raise ValueError(f"traced: False does not go with method={problem.method!r}, "
                         "expected a Runge-Kutta method, lsoda or radau")
    robot, count = problem.robot, len(problem.y0)
    system = System(robot, watched=watched, restitution=restitution)
    watchers = [Watcher(system, least) if watched else None for _ in range(count)]
    outcomes = []
    for k in range(count):
        if problem.apart[k]:
            outcomes.append(_never(problem, k, "not closed"))
            continue
        table = None if problem.table is None else problem.table[k % len(problem.table)]
        f = rates(problem, table, algorithm, problem.own[k], closing)
        if problem.method in SCIPY:
            outcomes.append(_by_scipy(f, problem, k, rtol, atol, largest, most, watchers[k]))
        else:
            outcomes.append(integrate(
                f, problem.y0[k], problem.times, TABLEAUX[problem.method], rtol=rtol, atol=atol,
                h=problem.step, least=least, largest=largest, most=most,
                restore=restore(robot, _restore(robot), closing), watcher=watchers[k]))
    lead, (nq, n) = problem.lead, (robot.nq, robot.n)
    out = np.reshape([each.out for each in outcomes], (*lead, len(problem.times), nq + n))

    def column(name: str) -> Any:
        return np.array([getattr(each, name) for each in outcomes]).reshape(lead)

    codes = np.array([STATUS[each.status] for each in outcomes], int).reshape(lead)
    return Run(robot, problem.times, out[..., :nq], out[..., nq:], codes, column("t"),
               Stats(*(column(name)[()] for name in ("steps", "rejects", "evaluations"))),
               problem.method, forces=_forces(problem), variation=problem.variation,
               log=_log(robot, watched, watchers), closing=closing)


def _never(problem: _Problem, k: int, status: str) -> Outcome:
    """A trajectory that ends before it starts."""
    out = np.full((len(problem.times), problem.y0.shape[1]), np.nan)
    out[0] = problem.y0[k]
    return Outcome(out, status, float(problem.times[0]), 0, 0, 0)


def _log(robot: Any, watched: tuple[Watched, ...], watchers: list[Watcher | None],
         ) -> Events | None:
    rows = [(k, *row) for k, each in enumerate(watchers) if each is not None for row in each.rows]
    if not watched:
        return None
    trajectory, which = (np.array([row[k] for row in rows], int) for k in (0, 2))
    t, y = (np.array([row[k] for row in rows], float) for k in (1, 3))
    y = y.reshape(-1, robot.nq + robot.n)
    return Events(tuple(each.name for each in watched), trajectory, t, which, y[:, :robot.nq],
                  y[:, robot.nq:])


def rates(problem: _Problem, table: Array | None, algorithm: str | None, own: Array,
          closing: Closing = "project") -> Callable[[float, Array], Array]:
    """f(t, y) of one trajectory, on floats; `own` is what it has besides its state."""
    robot, times, varied = problem.robot, problem.times, problem.varied
    law = None if problem.law is None else varied.law(problem.law, own.tolist())
    request = System(robot, algorithm=algorithm, closing=closing).request()
    nq, zeros = robot.nq, np.zeros(robot.n)
    if varied.mechanical:
        loaded = varied_kernel(robot, varied, request)

        def accelerate(q: Array, qd: Array, tau: Array, qdd: Array) -> None:
            qdd[:] = loaded(q, qd, tau, own)
    else:
        accelerate = kernel(request).bare

    def forces(t: float, q: Array, qd: Array) -> Array:
        if table is not None:
            return np.array([np.interp(t, times, column) for column in table.T])
        return zeros if law is None else np.array(
            evaluate_law(law, t, q, qd, robot.n), dtype=float)

    def f(t: float, y: Array) -> Array:
        q, qd = np.ascontiguousarray(y[:nq]), np.ascontiguousarray(y[nq:])
        qdd = np.empty(robot.n)
        accelerate(q, qd, forces(t, q, qd), qdd)
        return np.concatenate([coordinate_rates(robot, q, qd), qdd])

    return f


def coordinate_rates(robot: Any, q: Array, qd: Array) -> Array:
    """qdot: the rates themselves, or those of quaternions."""
    mechanism = robot.mechanism
    if robot.nq == robot.n:
        return qd
    return np.array([x for joint, own, rate in zip(
        mechanism.joints, mechanism.split(q, "nq"), mechanism.split(qd, "nv"), strict=True)
        for x in joint.velocity(own, rate)], dtype=float)


def _restore(robot: Any) -> Callable[[Array], Array]:
    units = System(robot).shape.units

    def restore(y: Array) -> Array:
        for at in units:
            y[at:at + 4] /= np.linalg.norm(y[at:at + 4])
        return y

    return restore


@dataclass(frozen=True, slots=True)
class _Interpolant:
    """A step of SciPy's from the time `begin`."""

    begin: float
    dense: Callable[[float], Array]
    restore: Callable[[Array], Array]

    def state(self, t: float) -> Array:
        return self.restore(np.array(self.dense(t)))

    def __call__(self, x: float) -> tuple[float, Array]:
        return self.begin + x, self.state(self.begin + x)


def _by_scipy(f: Callable[[float, Array], Array], problem: _Problem, k: int, rtol: float,
              atol: float, largest: float, most: int, watcher: Watcher | None) -> Outcome:
    """A solver of SciPy's, started anew after every impact; outputs and events by its own
    interpolant."""
    try:
        from scipy import integrate as scipy_integrate
    except ImportError:
        raise ImportError(f"method={problem.method!r} needs scipy: pip install nlink[sim]"
                          ) from None
    times, restore = problem.times, _restore(problem.robot)
    t, y = float(times[0]), problem.y0[k]
    done = Outcome(np.full((len(times), len(y)), np.nan), "done", t, 0, 0, 0)
    done.out[0] = y
    if not (np.isfinite(y).all() and np.isfinite(problem.own[k]).all()):
        done.status = "not finite"
        return done
    if watcher is not None:
        watcher.start(t, y)
        done.status = watcher.status or "done"
    following, lost = 1, 0

    def rate(t: float, y: Array) -> Array:
        """f, and how often numbers were not finite: SciPy raises errors for them, as laws may."""
        nonlocal lost
        lost += not np.isfinite(y).all()
        found = f(t, y)
        lost += not np.isfinite(found).all()
        return found

    kind = getattr(scipy_integrate, SCIPY[problem.method])
    options = {"rtol": max(rtol, 100 * np.finfo(float).eps), "atol": atol, "max_step": largest}
    while done.status == "done" and following < len(times):
        first = min(problem.step, times[-1] - t) if problem.step else None
        solver = jump = None
        while jump is None and (solver is None or solver.status == "running"):
            before = lost
            try:
                with np.errstate(all="ignore"):
                    solver = solver or kind(rate, t, y, times[-1], **options, first_step=first)
                    solver.step()
            except (ValueError, ArithmeticError):
                if not lost:
                    raise
                done.status = "not finite"
                break
            if solver.status == "failed" or solver.t == t:  # LSODA stands still and says nothing
                done.status = "not finite" if lost > before else "step too small"
                break
            if not np.isfinite(solver.y).all():  # LSODA steps on through nan
                done.status = "not finite"
                break
            done.steps += 1
            at = _Interpolant(t, solver.dense_output(), restore)
            t = float(solver.t)
            if watcher is not None:
                jump = watcher.step(at, t - at.begin, (t, at.state(t)))
            t = t if jump is None else jump[0]
            while following < len(times) and times[following] <= t:
                done.out[following] = at.state(times[following])
                following += 1
            if jump is None and done.steps >= most and following < len(times):
                done.status = "too many steps"
                break
        done.evaluations += 0 if solver is None else solver.nfev
        if jump is not None and watcher is not None:
            y, done.status = jump[1], watcher.status or "done"
    done.t = t
    return done


def _forces(problem: _Problem) -> Any:
    law = problem.law
    if law is None:
        return problem.forces()

    def forces(t: Array, q: Array, qd: Array, *own: Array) -> Array:
        flat_q, flat_qd = (x.reshape(-1, len(t), x.shape[-1]) for x in (q, qd))
        rows = own[0].reshape(len(flat_q), own[0].shape[-1]).tolist() if own else [[]] * len(flat_q)
        laws = [problem.varied.law(law, row) for row in rows]
        tau = [[each(float(t[i]), a[i], b[i]) for i in range(len(t))]
               for each, a, b in zip(laws, flat_q, flat_qd, strict=True)]
        return np.array(tau, dtype=float).reshape(qd.shape)

    return forces
