"""`nlink.simulate`: from a robot and initial states to trajectories."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.compiler.integrator import new_records
from nlink.iterations.integration import STATUS
from nlink.iterations.methods import METHODS
from nlink.robot import expect_robot
from nlink.simulation.closing import check_closing, closed_start
from nlink.simulation.event_log import EventLog, stop_outside
from nlink.simulation.events import watched
from nlink.simulation.files import PART, write_run
from nlink.simulation.run import Run
from nlink.simulation.store import Store, create
from nlink.simulation.system import MOTION, RATES_TO, Closing, Law, System, kernel_of
from nlink.simulation.variation import NOTHING, Variation, Varied
from nlink.simulation.writing import one_writer, uninterrupted

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
SCIPY = ("lsoda", "radau")

SLICE = 0.1
"""Seconds of work between looks at the progress bar, the keyboard and the checkpoint."""
OUTPUTS = 10**8
"""The most output times of a run."""
LARGEST = 10**18
"""The most steps, or threads, that can be asked for: what a record has room for."""
CHECKPOINT = 2.0
"""Seconds between checkpoints, and before a progress bar appears."""


def simulate(robot: Robot, q0: ArrayLike | None = None, qd0: ArrayLike | None = None,
             t: float | ArrayLike = 10.0, tau: ArrayLike | Law | None = None,
             method: str = "rkf45", rtol: float = 1e-9, atol: float = 1e-12,
             every: float = 0.01, *, vary: Mapping[str, Any] | None = None,
             step: float | None = None, max_step: float | None = None,
             algorithm: str | None = None, velocity: str = "qd", events: Any = None,
             limits: str = "ignore", restitution: float = 1.0, traced: bool = True,
             threads: int | None = None, max_steps: int = 10_000_000,
             save: str | Path | None = None,
             progress: bool | Callable[[float], None] | None = None,
             closing: Closing = "project") -> Run:
    """Integrate the motion of a robot from states q0, qd0 over the time t.

    A batch of states is an ensemble: any leading shape, each trajectory with its own steps and
    its own failure. States are given every `every` seconds, or at the times t if t is a sequence.

    `tau` is None (free fall), a control law (see `nlink.simulation.controllers`, or any function
    of t, q, qd written with `nlink.sin` and friends, which becomes part of the machine code;
    `traced=False` calls it as ordinary Python), or joint forces on the output times, linear
    in between, (..., times, n).

    `vary` gives trajectories numbers of their own, (..., how many), which broadcast with q0:
    "payload" (masses held in the last frame, or a `nlink.simulation.Payload`), "viscous",
    "coulomb" and "armature" of the joints, "kp" and "kd" of the bundled laws, and "p", which a
    law of yours gets as law(t, q, qd, p). One kernel serves them all.

    `method` is "rkf45", "dopri5", "verner65", "dop853" or "abm" (error control by rtol and atol,
    `step` being the first step), "rk4" or "symplectic" (fixed `step`, `every` if not given, cut
    short at outputs), or "lsoda" or "radau" (by SciPy). "dopri5", "dop853", "abm" and SciPy's
    interpolate outputs within a step; the others stop at every output, as all but SciPy's do
    with forces in a table.

    `velocity` is what is integrated besides q: "qd", or the quasi-velocities "nu" or "xi" of
    [Koz95], to which rtol and atol then apply (`Run.rates`). q0, qd0, laws and `Run.qd` stay as
    they are. "nu" needs a positive definite mass matrix.

    `events` are functions of t, q, qd written like a law, or `nlink.Event` objects, one, several
    or a mapping of names to them: where one changes its sign, `Run.events` says when, and the
    state. What comes and goes within a step is not seen: `max_step` says how long one may be.

    `limits` is what the position limits of joints do: "ignore", "stop" (the trajectory ends
    there) or "bounce" (an impulse on the joint turns its rate round, times `restitution`).

    `save` names a directory, or an .npz file or .zarr group, that is kept up to date: an
    interrupted run is continued by the same call and gives the same numbers.

    A mechanism with loops starts closed (an almost closed q0 is projected, an open one refused,
    or, in an ensemble, not started) and `closing` keeps it so: "project" takes every step back
    to the closed states, a number is the rate (1/s) of Baumgarte's stabilization, "drift" does
    nothing. Such runs stop at every output.

    >>> import nlink
    >>> run = nlink.simulate(nlink.load("double_pendulum"), [0.1, 0.0], t=1.0)
    >>> run.q.shape, run.status, bool(abs(run.energy - run.energy[0]).max() < 1e-8)
    ((101, 2), 'done', True)
    """
    problem = _Problem.of(robot, q0, qd0, t, tau, method, every, step, vary)
    if not (rtol >= 0 and atol >= 0 and rtol + atol > 0):
        raise ValueError(f"rtol: {rtol} and atol: {atol}, expected numbers >= 0, not both 0")
    _check_velocity(velocity, method, algorithm, traced)
    closing = check_closing(robot, closing, method, velocity)
    found = watched(robot, events, limits)
    if limits == "bounce" and problem.varied.mechanical:
        raise ValueError("limits: 'bounce' does not go with a mechanism that varies, expected "
                         "'stop', 'ignore', or only gains and p in vary")
    if not 0 <= restitution <= 1:
        raise ValueError(f"restitution: {restitution}, expected a number from 0 to 1")
    if max_step is not None and not max_step > 0:
        raise ValueError(f"max_step: {max_step}, expected a positive number of seconds")
    bounds = {"rtol": float(rtol), "atol": float(atol), "most": _whole("max_steps", max_steps),
              "largest": np.inf if max_step is None else float(max_step),
              "least": 16 * np.finfo(float).eps * float(np.abs(problem.times).max())}
    if method in SCIPY or not traced:
        from nlink.simulation.interpreted import integrate_in_python

        if save is not None:
            raise ValueError(f"save: not with method={method!r}, traced={traced}; "
                             "use the run's own save() afterwards")
        return integrate_in_python(problem, algorithm, found, float(restitution), **bounds,
                                   closing=closing)
    system = System(robot, problem.law, problem.table is not None,
                    "p" if method == "symplectic" else velocity, algorithm, closing,
                    problem.varied, found, float(restitution))
    return _compiled(problem, system, bounds, _threads(threads), save, progress)


@dataclass(frozen=True)
class _Problem:
    """The arguments of `simulate`, checked."""

    robot: Robot
    lead: tuple[int, ...]
    y0: Array
    """(count, nq + n)"""
    apart: Array
    """(count,): whose loops do not close, so that they never start."""
    times: Array
    law: Law | None
    table: Array | None
    """(count or 1, times, n)"""
    method: str
    step: float
    """The size of steps, or of the first; 0 if it is to be found."""
    variation: Variation | None = None
    """Values of (*lead, width)."""

    @staticmethod
    def of(robot: Robot, q0: ArrayLike | None, qd0: ArrayLike | None, t: float | ArrayLike,
           tau: ArrayLike | Law | None, method: str, every: float, step: float | None,
           vary: Mapping[str, Any] | None = None) -> _Problem:
        expect_robot(robot)
        if method not in (*METHODS, *SCIPY):
            names = ", ".join((*METHODS, *SCIPY))
            raise ValueError(f"method: {method!r}, expected one of {names}")
        times = _times(t, every)
        q = _state("q0", robot.neutral if q0 is None else q0, robot.nq)
        qd = _state("qd0", np.zeros(robot.n) if qd0 is None else qd0, robot.n)
        table = None if tau is None or callable(tau) else _table(tau, len(times), robot.n)
        law = tau if callable(tau) else None
        variation = Variation.of(robot, law, vary)
        shapes = {"q0": q.shape[:-1], "qd0": qd.shape[:-1],
                  "tau": () if table is None else table.shape[:-2]}
        if variation is not None:
            shapes["vary"] = variation.values.shape[:-1]
        try:
            lead = np.broadcast_shapes(*shapes.values())
        except ValueError:
            raise ValueError("leading shapes do not broadcast: "
                             f"{', '.join(f'{k} {v}' for k, v in shapes.items())}") from None
        y0 = np.concatenate([np.broadcast_to(q, (*lead, robot.nq)),
                             np.broadcast_to(qd, (*lead, robot.n))], axis=-1)
        y0 = np.ascontiguousarray(y0.reshape(-1, robot.nq + robot.n))
        if table is not None:
            whole = table.shape[:-2] == () or np.prod(table.shape[:-2]) == 1
            table = np.ascontiguousarray(
                table.reshape(1, len(times), robot.n) if whole else np.broadcast_to(
                    table, (*lead, len(times), robot.n)).reshape(-1, len(times), robot.n))
        fixed = method in METHODS and not METHODS[method].adaptive
        if step is not None and not (np.isfinite(step) and step > 0):
            raise ValueError(f"step: {step}, expected a positive number of seconds")
        if step is None and fixed:
            step = _interval(every)
        size = 0.0 if step is None else step
        y0, apart = closed_start(robot, _unit(robot, y0))
        return _Problem(robot, lead, y0, apart, times, law, table, method, float(size),
                        None if variation is None else variation.spread(lead))

    @property
    def varied(self) -> Varied:
        return NOTHING if self.variation is None else self.variation.varied

    @property
    def own(self) -> Array:
        """(count, width): what each trajectory has of its own."""
        return (np.empty((len(self.y0), 0)) if self.variation is None
                else self.variation.values.reshape(len(self.y0), self.varied.width))

    def forces(self) -> Any:
        """What `Run.tau` is computed from."""
        if self.table is not None:
            return self.table.reshape(*self.lead, *self.table.shape[1:]) if len(
                self.table) == len(self.y0) else self.table[0]
        return None if self.law is None else self.law


def _times(t: float | ArrayLike, every: float) -> Array:
    try:
        given = np.asarray(t, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"t: {t!r}, expected a positive number of seconds or a sequence of times"
                         ) from None
    if given.ndim == 1:
        if len(given) < 2 or not np.isfinite(given).all() or (np.diff(given) <= 0).any():
            raise ValueError("t: expected at least two increasing, finite times")
        return np.ascontiguousarray(given)
    if given.ndim or not (np.isfinite(given) and given > 0):
        raise ValueError(f"t: {t}, expected a positive number of seconds or a sequence of times")
    every, end = _interval(every), float(given)
    if end / every > OUTPUTS:
        raise ValueError(f"every: {every} gives {end / every:.1e} outputs until t = {end}, "
                         f"expected at most {OUTPUTS:.0e}")
    whole = int(end / every * (1 + 1e-12))
    times = every * np.arange(whole + 1)
    if whole == 0 or end - times[-1] > 1e-9 * every:
        return np.append(times, end)
    times[-1] = end
    return times


def _interval(every: float) -> float:
    if not (np.isfinite(every) and every > 0):
        raise ValueError(f"every: {every}, expected a positive number of seconds")
    return float(every)


def _state(name: str, values: ArrayLike, size: int) -> Array:
    array = _numbers(name, values, f"(..., {size})")
    if array.ndim < 1 or array.shape[-1] != size:
        raise ValueError(f"{name}: shape {array.shape}, expected (..., {size})")
    return array


def _table(tau: Any, outputs: int, n: int) -> Array:
    shape = f"(..., {outputs}, {n}): joint forces at each output time"
    table = _numbers("tau", tau, shape)
    if table.ndim < 2 or table.shape[-2:] != (outputs, n):
        raise ValueError(f"tau: shape {table.shape}, expected {shape}")
    return table


def _numbers(name: str, values: ArrayLike, shape: str) -> Array:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name}: rows of several lengths, expected {shape}") from None
    if not np.can_cast(array.dtype, np.float64, "safe"):
        raise TypeError(f"{name}: dtype {array.dtype} does not convert to float64 safely")
    return array.astype(float)


def _unit(robot: Robot, y: Array) -> Array:
    """States with q brought into its space: quaternions of any length but zero, made unit."""
    y, nq = y.copy(), robot.nq
    with np.errstate(all="ignore"):
        for k, x in enumerate(robot.mechanism.space.normalize(tuple(y[:, :nq].T.copy()))):
            y[:, k] = x
    return y


def _check_velocity(velocity: str, method: str, algorithm: str | None, traced: bool) -> None:
    if velocity == "qd":
        return
    if velocity not in MOTION:
        raise ValueError(f"velocity: {velocity!r}, expected one of {', '.join(('qd', *MOTION))}")
    if method in (*SCIPY, "symplectic") or not traced or algorithm is not None:
        raise ValueError(f"velocity: {velocity!r} does not go with method={method!r}, "
                         f"traced={traced}, algorithm={algorithm!r}, expected a traced law, a "
                         "Runge-Kutta method or abm, and no algorithm")


def _threads(threads: int | None) -> int:
    from nlink.compiler.threads import cores

    return cores() if threads is None else _whole("threads", threads)


def _whole(name: str, given: Any) -> int:
    if not (isinstance(given, int | float | np.integer | np.floating) and 1 <= given <= LARGEST
            and float(given).is_integer()):
        raise ValueError(f"{name}: {given!r}, expected a whole number from 1 to {LARGEST:.0e}")
    return int(given)


def _compiled(problem: _Problem, system: System, limits: dict[str, Any], threads: int,
              save: str | Path | None, progress: bool | Callable[[float], None] | None) -> Run:
    from nlink.compiler.host import host
    from nlink.compiler.loading import source_contents

    count = len(problem.y0)
    wide = host().target.width
    kernel = kernel_of(system, problem.method, wide if count > 2 else 2)
    method = METHODS[problem.method]
    own = problem.own
    records = new_records(count, system.iteration(problem.method).layout, problem.y0.shape[1],
                          own.shape[1])
    records["own"] = own
    records["next"], records["t"], records["h"] = 1, problem.times[0], problem.step
    records["y"] = _initial(problem, system.velocity)
    records["status"][problem.apart] = STATUS["not closed"]
    head = {"method": problem.method, "lead": problem.lead, "t": problem.times,
            "velocity": system.velocity, "closing": system.closing,
            "evaluations": method.evaluations, "stages": method.stages,
            "start": 2 if method.adaptive and not problem.step else 1,
            "nq": problem.robot.nq, "record": records.dtype.descr, "forces": not (problem.law is None and problem.table is None),
            "vary": None if problem.variation is None else problem.variation.head(),
            "events": [each.name for each in system.watched]}
    target = _target(save)
    if target is not None:
        head |= {"digest": _digest(problem, system, limits), "source": source_contents(),
                 "robot": problem.robot.to_toml()}
    log = EventLog(count, problem.y0.shape[1], len(system.watched))
    stop_outside(records, log, system.watched)
    forces = problem.forces() if problem.law is None else _law_kernel(system)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
    place = None if save is None else Path(save)
    with nullcontext() if place is None else one_writer(place):
        store = create(records, head, target, log)
        _advance(kernel, store, problem, limits, threads, progress, forces)
        run = store.run(problem.robot, forces)
        if place is not None and target is not None and place != target:
            run = run.in_memory()  # Windows removes no file that is mapped
            write_run(run, place)
            shutil.rmtree(target)
    return run


def _initial(problem: _Problem, velocity: str) -> Array:
    """The states to start from, with the velocities that are integrated in place of qd."""
    if velocity == "qd":
        return problem.y0
    if velocity == "p":
        return _momenta(problem)
    nq, y = problem.robot.nq, problem.y0.copy()
    y[:, nq:] = _compute(problem, RATES_TO[velocity], y[:, :nq], y[:, nq:])
    return y


def _compute(problem: _Problem, name: str, *columns: Array) -> Array:
    """An algorithm on one state of each trajectory, each with its own mechanism."""
    if problem.variation is None:
        return problem.robot.compute(name, *columns)
    each = problem.variation.taken(slice(None))
    return each.compute(problem.robot, name, *(x[:, None] for x in columns))[:, 0]


def _momenta(problem: _Problem) -> Array:
    """(q, p) with p = M qd, for Hamilton's equations."""
    robot, y = problem.robot, problem.y0.copy()
    if not robot.mechanism.space.flat:
        raise ValueError(f"method: 'symplectic' needs as many coordinates as rates, and "
                         f"{robot.name} has {robot.nq} and {robot.n}")
    M = _compute(problem, "mass_matrix", y[:, :robot.nq])
    y[:, robot.nq:] = np.einsum("nij,nj->ni", M, y[:, robot.nq:])
    return y


def _target(save: str | Path | None) -> Path | None:
    if save is None:
        return None
    path = Path(save)
    if path.suffix == ".npz":
        return path.with_name(path.name + PART)
    if path.suffix not in ("", ".zarr", PART):
        raise ValueError(f"save: {str(save)!r} has the suffix {path.suffix!r}, expected .npz, "
                         ".zarr, or none for a directory")
    return path


def _digest(problem: _Problem, system: System, limits: dict[str, Any]) -> str:
    """What decides the numbers of a run and the names of its events, besides nlink itself."""
    from nlink.compiler.host import host

    names = [each.name for each in system.watched]
    digest = sha256(repr((system.recipe(), names, host().identity, problem.method,
                          problem.step, problem.lead, sorted(limits.items()))).encode())
    for array in (problem.y0, problem.times, problem.table, problem.own):
        if array is not None:
            digest.update(array.tobytes())
    return digest.hexdigest()


def _advance(kernel: Any, store: Store, problem: _Problem, limits: dict[str, Any], threads: int,
             progress: bool | Callable[[float], None] | None, forces: Any) -> None:
    """Block after block, slice after slice until nothing runs; whatever interrupts it leaves a
    checkpoint."""
    outputs = len(problem.times) - 1
    passed, total = 0, store.count * outputs
    saved = begin = time.monotonic()
    with _bar(progress) as tell:
        for block in range(store.blocks):
            rows = slice(block * store.rows, (block + 1) * store.rows)
            if not store.waits(rows):
                passed += store.records[rows].size * outputs
                continue
            records, out = store.take(block)
            table = problem.table
            if table is not None and len(table) > 1:
                table = table[rows]
            log = store.log.buffer
            try:
                while (records["status"] == STATUS["running"]).any():
                    with uninterrupted():
                        if time.monotonic() - saved > CHECKPOINT:
                            store.checkpoint()
                            saved = time.monotonic()
                        kernel.run(records, out, problem.times, table, **limits, budget=SLICE,
                                   threads=threads, log=None if log is None else log[rows])
                        store.log.collect(store.records)
                    late = time.monotonic() - begin > CHECKPOINT
                    if tell is not None and (callable(progress) or late):
                        failed = records["status"] > STATUS["done"]
                        here = np.where(failed, outputs, records["next"] - 1).sum()
                        tell(float(passed + here) / total)
            finally:  # records never say that all is done before the forces are written too
                with uninterrupted():
                    if (records["status"] == STATUS["running"]).any():
                        store.checkpoint()
                    else:
                        store.finish(problem.robot, forces if table is None else table)
            passed += len(records) * outputs
        store.close()


def _bar(progress: bool | Callable[[float], None] | None,
         ) -> AbstractContextManager[Callable[[float], None] | None]:
    if callable(progress):
        return nullcontext(progress)
    wanted = sys.stderr.isatty() if progress is None else progress
    if not wanted:
        return nullcontext(None)
    from nlink.reports.progress import bar

    return bar("simulating")


def _law_kernel(system: System) -> Callable[..., Array]:
    """tau(t, q, qd) of a traced law, or tau(t, q, qd, own), over any leading shape."""
    from nlink.compiler.loading import load_kernel

    kernel = load_kernel(system.law_program())
    return lambda t, q, qd, *own: kernel(t[:, None], q, qd, *own)
