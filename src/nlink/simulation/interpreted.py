"""Integration with Python in the loop: laws that cannot be traced, and SciPy's stiff methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.compiler.integrator import STATUS
from nlink.engines import kernel
from nlink.simulation.closing import restore
from nlink.simulation.methods import TABLEAUX
from nlink.simulation.reference import Outcome, integrate
from nlink.simulation.run import Run, Stats
from nlink.simulation.system import Closing, System
from nlink.simulation.variation import varied_kernel

if TYPE_CHECKING:
    from nlink.simulation.integration import _Problem

Array = np.ndarray
SCIPY = {"lsoda": "LSODA", "radau": "Radau"}


def integrate_in_python(problem: _Problem, algorithm: str | None, *, rtol: float, atol: float,
                        least: float, most: int, closing: Closing = "project") -> Run:
    """One trajectory after another; forward dynamics is compiled, all else is Python."""
    if problem.method in ("abm", "symplectic"):
        raise ValueError(f"traced: False does not go with method={problem.method!r}, "
                         "expected a Runge-Kutta method, lsoda or radau")
    robot, count = problem.robot, len(problem.y0)
    outcomes = []
    for k in range(count):
        table = None if problem.table is None else problem.table[k % len(problem.table)]
        f = rates(problem, table, algorithm, problem.own[k], closing)
        if problem.method in SCIPY:
            outcomes.append(_by_scipy(f, problem, k, rtol, atol))
        else:
            outcomes.append(integrate(
                f, problem.y0[k], problem.times, TABLEAUX[problem.method], rtol=rtol, atol=atol,
                h=problem.step, least=least, most=most,
                restore=restore(robot, _restore(robot), closing)))
    out = np.array([each.out for each in outcomes])
    lead = problem.lead

    def column(name: str) -> Any:
        return np.array([getattr(each, name) for each in outcomes]).reshape(lead)

    codes = np.array([STATUS[each.status] for each in outcomes]).reshape(lead)
    return Run(robot, problem.times, out[..., :robot.nq].reshape(*lead, -1, robot.nq),
               out[..., robot.nq:].reshape(*lead, -1, robot.n), codes, column("t"),
               Stats(*(column(name)[()] for name in ("steps", "rejects", "evaluations"))),
               problem.method, forces=_forces(problem), variation=problem.variation)


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
        return zeros if law is None else np.array(law(t, q, qd), dtype=float)

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


def _by_scipy(f: Callable[[float, Array], Array], problem: _Problem, k: int, rtol: float,
              atol: float) -> Outcome:
    try:
        from scipy.integrate import solve_ivp
    except ImportError:
        raise ImportError(f"method={problem.method!r} needs scipy: pip install nlink[sim]"
                          ) from None
    times, first = problem.times, problem.step or None
    out = np.full((len(times), problem.y0.shape[1]), np.nan)
    out[0] = problem.y0[k]
    if not (np.isfinite(out[0]).all() and np.isfinite(problem.own[k]).all()):
        return Outcome(out, "not finite", float(times[0]), 0, 0, 0)
    with np.errstate(all="ignore"):
        result = solve_ivp(f, (times[0], times[-1]), problem.y0[k], SCIPY[problem.method],
                           times, rtol=max(rtol, 100 * np.finfo(float).eps), atol=atol,
                           first_step=first)
    reached = result.y.shape[1] if result.t.size else 0
    out[:reached] = result.y.T
    restore = _restore(problem.robot)
    for row in out[:reached]:
        restore(row)
    t = float(times[max(reached - 1, 0)])
    return Outcome(out, "done" if result.success else "step too small", t, reached, 0, result.nfev)


def _forces(problem: _Problem) -> Any:
    law = problem.law
    if law is None:
        return problem.forces()

    def forces(t: Array, q: Array, qd: Array, *own: Array) -> Array:
        flat_q, flat_qd = (x.reshape(-1, len(t), x.shape[-1]) for x in (q, qd))
        rows = own[0].reshape(len(flat_q), -1).tolist() if own else [[]] * len(flat_q)
        laws = [problem.varied.law(law, row) for row in rows]
        tau = [[each(float(t[i]), a[i], b[i]) for i in range(len(t))]
               for each, a, b in zip(laws, flat_q, flat_qd, strict=True)]
        return np.array(tau, dtype=float).reshape(qd.shape)

    return forces
