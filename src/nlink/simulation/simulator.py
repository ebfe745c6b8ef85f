"""`nlink.simulate`: from a robot and initial states to trajectories."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from nlink.iterations.integration import STATUS, Method
from nlink.iterations.records import new_records
from nlink.programs.keys import key
from nlink.simulation.asking import Asking
from nlink.simulation.closing import Closing, check_closing
from nlink.simulation.control_scheme import Controller
from nlink.simulation.event_log import EventLog, stop_outside
from nlink.simulation.events import watched
from nlink.simulation.following import target_of
from nlink.simulation.implicit import expect_derivatives_of_control
from nlink.simulation.integration_kernels import kernel_of
from nlink.simulation.problem import Problem, limited, rubbing, whole_number
from nlink.simulation.resuming import create
from nlink.simulation.run import Run
from nlink.simulation.run_files import PART, write_run
from nlink.simulation.sensitivity import SensitiveSystem, sensitive
from nlink.simulation.store import Store
from nlink.simulation.system import System
from nlink.simulation.writing import one_writer, uninterrupted

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
SLICE = 0.1
"""Seconds of work between looks at the progress bar, the keyboard and the checkpoint."""
CHECKPOINT = 2.0
"""Seconds between checkpoints, and before a progress bar appears."""


@runtime_checkable
class Follows(Protocol):
    """A `progress` that is also told the times and coordinates that trajectories have reached, as
    `robot.view().follow()` is."""

    def __call__(self, share: float) -> None: ...
    def states(self, t: Array, q: Array) -> None: ...


def simulate(robot: Robot, q0: ArrayLike | None = None, qd0: ArrayLike | None = None,
             t: float | ArrayLike = 10.0, tau: ArrayLike | Controller | None = None,
             method: str | Method = "rkf45", rtol: float = 1e-9, atol: float = 1e-12,
             every: float = 0.01, *, vary: Mapping[str, Any] | None = None,
             step: float | None = None, max_step: float | None = None,
             algorithm: str | None = None, velocity: str = "qd", events: Any = None,
             limits: str = "ignore", restitution: float | None = None, friction: str = "dry",
             width: float = 1e-3, effort: str = "ignore", traced: bool = True,
             threads: int | None = None, max_steps: int = 10_000_000,
             save: str | Path | None = None,
             progress: bool | Callable[[float], None] | None = None,
             closing: Closing = "project", sensitivities: str | Sequence[str] = ()) -> Run:
    """Integrate the motion of a robot from states q0, qd0 over the time t.

    A batch of states is an ensemble of any leading shape; each trajectory has its own steps and its
    own status. States are recorded every `every` seconds, or at the times t if t is a sequence.

    `tau` is None (free fall), a controller (see `nlink.simulation.controllers`, or any function of
    t, q, qd written with `nlink.sin` and similar functions, which becomes part of the machine code;
    `traced=False` calls it as ordinary Python; docs/controllers.md describes those with a state, a
    sampling time, saturation, delay or noise), or joint forces at the output times, (..., times,
    n), linear in between.

    `vary` gives each trajectory numbers of its own, (..., count), which broadcast with q0:
    "payload" (point masses in the last frame, or a `nlink.simulation.Payload`), "viscous",
    "coulomb" and "armature" of the joints, "kp", "ki" and "kd" of the bundled controllers, and "p",
    which your own controller receives as controller(t, q, qd, p). One kernel serves all
    trajectories.

    `method` is "rkf45", "dopri5", "verner65", "dop853", "rkf78" or "abm" (error control by rtol and
    atol, `step` being the first step), "rodas5p" (the same for stiff motions), "rk4", "symplectic"
    or "semi_implicit" (fixed `step`, `every` if not given, shortened at outputs), "lsoda" or
    "radau" (by SciPy), or a method of your own (docs/adding-an-integrator.md). "dopri5", "dop853",
    "abm", "rodas5p" and SciPy's interpolate outputs within a step; the others stop at every output;
    with forces in a table all but SciPy's do.

    `velocity` is what is integrated besides q: "qd", or the quasi-velocities "nu" or "xi" of
    [Koz95], to which rtol and atol then apply (`Run.rates`). q0, qd0, controllers and `Run.qd`
    still use joint rates. "nu" needs a positive definite mass matrix.

    `events` are functions of t, q, qd written like a controller, or `nlink.Event` objects, one,
    several or a mapping of names to them: where one changes its sign, `Run.events` has the time and
    the state. Two changes of sign within a step are missed: `max_step` limits the step.

    `limits` is what the position limits of joints do: "ignore", "stop" (the trajectory ends there),
    "bounce" (an impulse on the joint reverses its rate, times `restitution`, 1 if not given) or
    "hold" (the same with a restitution of 0 if not given, and a joint that comes to rest on its
    limit is held there until the force is reversed).

    `friction` is what the dry friction of joints does: "dry" (joints that come to rest stick until
    the force that holds them exceeds their friction: `Run.modes`, docs/friction.md) or "smooth"
    (its sign is tanh(qd / width), so that joints creep instead of sticking).

    `effort` is what the effort limits of joints do: "ignore", or "saturate" (joint forces of a
    controller or table are kept within them). `Run.warnings` lists rates above the velocity limits.

    `save` names a directory, an .npz file or a .zarr group that is kept up to date: the same call
    continues an interrupted run and gives the same numbers.

    The loops of a mechanism are closed at the start (an almost closed q0 is projected, an open one
    refused or, in an ensemble, not started), and `closing` keeps them closed: "project" projects
    every step to the closed states, a number is the rate (1/s) of Baumgarte's stabilization,
    "drift" does nothing. Such runs stop at every output.

    `sensitivities` names what the states are differentiated by: "q0", "qd0", and whatever `vary`
    gives values for (`Run.sensitivity`, `Run.events.sensitivities`, docs/derivatives.md). The
    derivatives are integrated beside the states, and rtol and atol apply to them as well.

    >>> import nlink
    >>> run = nlink.simulate(nlink.load("double_pendulum"), [0.1, 0.0], t=1.0)
    >>> run.q.shape, run.status, bool(abs(run.energy - run.energy[0]).max() < 1e-8)
    ((101, 2), 'done', True)
    """
    problem, system, bounds = posed(
        robot, q0, qd0, t, tau, method, rtol, atol, every, vary=vary, step=step, max_step=max_step,
        algorithm=algorithm, velocity=velocity, events=events, limits=limits,
        restitution=restitution, friction=friction, width=width, effort=effort, traced=traced,
        max_steps=max_steps, closing=closing)
    if sensitivities:
        if not traced:
            raise ValueError("sensitivities: not with traced=False, expected a traced controller")
        system = sensitive(system, sensitivities, problem.method)
    if problem.method.solves:
        expect_derivatives_of_control(system, problem.method, traced=traced)
    if not (problem.method.compiles and (traced or system.asks)):
        from nlink.simulation.interpreted import integrate_in_python

        if save is not None:
            raise ValueError(f"save: not with method={problem.method.name!r}, traced={traced}; "
                             "use the run's own save() afterwards")
        return replace(integrate_in_python(problem, system, bounds, traced=traced),
                       target=target_of(problem.controller, robot))
    if save is not None and system.asks:
        raise ValueError("save: not with traced=False, expected a traced controller: a run can "
                         "only be continued by what decides it; use Run.save afterwards")
    return _compiled(problem, system, bounds, _threads(threads), save, progress)


def posed(robot: Robot, q0: ArrayLike | None, qd0: ArrayLike | None, t: float | ArrayLike,
          tau: ArrayLike | Controller | None, method: str | Method, rtol: float, atol: float,
          every: float, *, vary: Mapping[str, Any] | None, step: float | None,
          max_step: float | None, algorithm: str | None, velocity: str, events: Any, limits: str,
          restitution: float | None, friction: str, width: float, effort: str, traced: bool,
          max_steps: int, closing: Closing) -> tuple[Problem, System, dict[str, Any]]:
    """What the arguments of `simulate` ask for, checked: a problem, what is integrated, and the
    bounds of steps and errors."""
    problem = Problem.of(robot, q0, qd0, t, limited(robot, tau, effort), method, velocity, every,
                         step, vary)
    if not (rtol >= 0 and atol >= 0 and 0 < rtol + atol < np.inf):
        raise ValueError(f"rtol: {rtol} and atol: {atol}, expected finite numbers >= 0, not both 0")
    _check_combination(problem, algorithm, traced)
    closing = check_closing(robot, closing, problem.method, velocity)
    stepwise = getattr(problem.method, "stepwise", False)
    found = watched(robot, events, "ignore" if stepwise and limits == "hold" else limits)
    if limits == "bounce" and problem.varied.mechanical:
        raise ValueError("limits: 'bounce' does not go with a mechanism that varies, expected "
                         "'stop', 'ignore', or only gains and p in vary")
    restitution = (0.0 if limits == "hold" else 1.0) if restitution is None else restitution
    if not 0 <= restitution <= 1:
        raise ValueError(f"restitution: {restitution}, expected a number from 0 to 1")
    if max_step is not None and not max_step > 0:
        raise ValueError(f"max_step: {max_step}, expected a positive number of seconds")
    bounds = {"rtol": float(rtol), "atol": float(atol),
              "most": whole_number("max_steps", max_steps),
              "largest": np.inf if max_step is None else float(max_step),
              "least": 16 * np.finfo(float).eps * float(np.abs(problem.times).max())}
    modes, smooth = rubbing(problem, friction, width, limits)
    system = System(robot, problem.controller, problem.table is not None, problem.velocity,
                    algorithm, closing, problem.varied, found, float(restitution),
                    modes=modes, stepwise=stepwise and modes is not None, width=smooth)
    if not traced and problem.method.compiles and system.sampling is not None:
        system = replace(system, asks=True)
    return problem, system, bounds


def _check_combination(problem: Problem, algorithm: str | None, traced: bool) -> None:
    """Quasi-velocities have a dynamics of their own, which is compiled."""
    velocity, method = problem.velocity, problem.method
    if velocity.velocities is None:
        return
    if not (method.compiles and method.closes and traced) or algorithm is not None:
        raise ValueError(f"velocity: {velocity.name!r} does not go with method={method.name!r}, "
                         f"traced={traced}, algorithm={algorithm!r}, expected a traced controller, "
                         "a Runge-Kutta method or abm, and no algorithm")


def _threads(threads: int | None) -> int:
    from nlink.backends.llvm.threads import threads as allowed

    return allowed() if threads is None else whole_number("threads", threads)


def _compiled(problem: Problem, system: System, limits: dict[str, Any], threads: int,
              save: str | Path | None, progress: bool | Callable[[float], None] | None) -> Run:
    from nlink.backends.llvm.host import host
    from nlink.backends.llvm.loading import source_contents

    count, method, own = len(problem.y0), problem.method, problem.own
    wide = host().target.width
    kernel = kernel_of(system, method, wide if count > 2 else 2)
    records = new_records(count, system.iteration(method).layout, system.shape.size,
                          own.shape[1])
    records["own"] = own
    records["next"], records["t"], records["h"] = 1, problem.times[0], problem.step
    records["y"] = system.start(problem.initial, own, float(problem.times[0]))
    if system.sampling is not None:
        for name, value in system.sampling.first(float(problem.times[0])).items():
            records[name] = value
    records["status"][problem.unclosed] = STATUS["not closed"]
    head = {"method": method.name, "lead": problem.lead, "t": problem.times,
            "velocity": system.velocity.name, "closing": system.closing,
            "evaluations": method.evaluations, "stages": method.stages,
            "start": 2 if method.adaptive and not problem.step else 1,
            "nq": problem.robot.nq,
            "parts": [[part.name, part.size] for part in system.parts],
            "forces": not (problem.controller is None and problem.table is None) and not any(
                part.name == "held" for part in system.parts),
            "vary": None if problem.variation is None else problem.variation.head(),
            "events": system.event_names}
    target = _target(save)
    if target is not None:
        head |= {"digest": _digest(problem, system, limits), "source": source_contents(),
                 "robot": problem.robot.to_toml(), "record": records.dtype.descr}
    if system.asks:
        records["status"][records["status"] == STATUS["running"]] = STATUS["waiting"]
    log = EventLog(count, system.shape.size, len(system.event_names))
    stop_outside(records, log, system.watched)
    forces = problem.forces() if not head["forces"] or problem.controller is None else (
        _controller_kernel(system))
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
    place = None if save is None else Path(save)
    with nullcontext() if place is None else one_writer(place):
        store = create(records, head, target, log)
        asking = Asking(problem, system, limits["least"]) if system.asks else None
        _advance(kernel, store, problem, limits, threads, progress, forces, asking)
        run = replace(store.run(problem.robot, forces),
                      target=target_of(problem.controller, problem.robot))
        if isinstance(system, SensitiveSystem) and run.log is not None:
            rows = store.log.in_order()
            run = replace(run, log=replace(run.log, sensitivities=system.at_events(
                rows, problem.inputs(rows["trajectory"], rows["t"]))))
        if place is not None and target is not None and place != target:
            run = run.in_memory()  # Windows removes no file that is mapped
            write_run(run, place)
            shutil.rmtree(target)
    return run


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


def _digest(problem: Problem, system: System, limits: dict[str, Any]) -> str:
    """What decides the numbers of a run and the names of its events, besides nlink itself."""
    from nlink.backends.llvm.host import host

    names = system.event_names
    method = key(system.programs.recorded(problem.method).parts())
    digest = sha256(repr((system.programs.recipe(), names, host().identity, method,
                          problem.step, problem.lead, sorted(limits.items()))).encode())
    for array in (problem.y0, problem.times, problem.table, problem.own):
        if array is not None:
            digest.update(array.tobytes())
    return digest.hexdigest()


def _advance(kernel: Any, store: Store, problem: Problem, limits: dict[str, Any], threads: int,
             progress: bool | Callable[[float], None] | None, forces: Any,
             asking: Asking | None) -> None:
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
                while _running(records, out, asking):
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
                        if isinstance(progress, Follows):
                            progress.states(records["t"], records["y"][:, :problem.robot.nq])
            finally:  # records never say that all is done before the forces are written too
                with uninterrupted():
                    if (records["status"] == STATUS["running"]).any():
                        store.checkpoint()
                    else:
                        store.finish(problem.robot, forces if table is None else table)
            passed += len(records) * outputs
        store.close()


def _running(records: Array, out: Array, asking: Asking | None) -> bool:
    """Whether something is to be integrated, after those that wait have been answered."""
    running = bool((records["status"] == STATUS["running"]).any())
    if running or asking is None or not (records["status"] == STATUS["waiting"]).any():
        return running
    asking.answer(records, out)
    return _running(records, out, asking)


def _bar(progress: bool | Callable[[float], None] | None,
         ) -> AbstractContextManager[Callable[[float], None] | None]:
    if callable(progress):
        return nullcontext(progress)
    wanted = sys.stderr.isatty() if progress is None else progress
    if not wanted:
        return nullcontext(None)
    from nlink.reports.progress import bar

    return bar("simulating")


def _controller_kernel(system: System) -> Callable[..., Array]:
    """tau(t, q, qd, ...) of a traced controller over any leading shape; its state and what varies
    follow, if there are any."""
    from nlink.backends.llvm.loading import load_kernel

    kernel = load_kernel(system.programs.controller(rates=False))
    return lambda t, q, qd, *more: kernel(t[:, None], q, qd, *more)
