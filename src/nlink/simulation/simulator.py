"""`nlink.simulate`: from a robot and initial states to trajectories."""

from __future__ import annotations

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

from nlink.backends.llvm.threads import InterruptKeptBack
from nlink.engines.kernels import kept
from nlink.formats.files import own_name
from nlink.iterations.integration import STATUS, Method
from nlink.iterations.iteration import new_records
from nlink.programs.keys import key
from nlink.simulation.asking import Asking
from nlink.simulation.closing import Closing
from nlink.simulation.control_scheme import Controller
from nlink.simulation.drives import Asked, Controlled, Untraced
from nlink.simulation.ensemble import Ensemble
from nlink.simulation.events import stop_outside
from nlink.simulation.following import target_of
from nlink.simulation.implicit import expect_derivatives_of_control
from nlink.simulation.integration_kernels import kernel_of
from nlink.simulation.prescribed_loops import LoopsOfStates
from nlink.simulation.prescribed_motion import ForcesOfStates
from nlink.simulation.run import Run
from nlink.simulation.run_files import (
    PART,
    check_replaceable,
    finish_block,
    run_of,
    write_run,
)
from nlink.simulation.sensitivity import SensitiveSystem, sensitive
from nlink.simulation.setting import (
    PHYSICS,
    SAVING,
    SOLVER,
    Physics,
    Saving,
    Solver,
    door,
    setting,
    whole_number,
)
from nlink.simulation.system import System, system_of
from nlink.storage.array_store import remove_directory
from nlink.storage.event_log import EventLog
from nlink.storage.locking import one_writer
from nlink.storage.run_store import RunStore, create

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


@door(dt="step, of methods with fixed steps, or every, between outputs",
      timestep="step", h="step", t_end="t", T="t", t_span="t", duration="t", q="q0", qd="qd0",
      v0="qd0", x0="q0 and qd0", y0="q0 and qd0", controller="tau", u="tau", control="tau")
def simulate(robot: Robot | System, q0: ArrayLike | None = None, qd0: ArrayLike | None = None,
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
             closing: Closing = "project", sensitivities: str | Sequence[str] = (),
             f_ext: Any = None, motion: Mapping[str, Any] | None = None, contact: str = "rigid",
             physics: Physics | None = None, solver: Solver | None = None,
             saving: Saving | None = None) -> Run:
    """Integrate the motion of a robot from states q0, qd0 over the time t.

    A batch of states is an ensemble of any leading shape; each trajectory has its own steps and its
    own status. States are recorded every `every` seconds, or at the times t if t is a sequence.

    `tau` is None (free fall), a controller (see `nlink.simulation.controllers`, or any function of
    t, q, qd written with `nlink.sin` and similar functions, which becomes part of the machine code;
    `traced=False` calls it as ordinary Python; docs/controllers.md describes those with a state, a
    sampling time, saturation, delay or noise), or joint forces: (n,) that never change, or (...,
    times, n) at the output times, linear in between.

    `f_ext` are wrenches on links, (moment, force) about the origin of a link's frame in world axes
    (`nlink.simulation.Wrenches` has those in link axes): {"link": wrench} with six numbers, a table
    (..., times, 6) or a traced function of t, q, qd for each link; or the same for all links,
    (links, 6).

    `motion` are joints that move as functions of time say: {"crank": function of t} gives its
    place, and `nlink.Prescribed` a rate or an acceleration instead; numbers are a place that never
    changes. What q0 and qd0 say of them does not matter, loops are closed around them, and
    `Run.tau` has the forces that this takes (docs/prescribed-motion.md). A loop's name gives the
    angle of its hinge or the length of its slide, and `Run.closure_forces` has what that takes.

    `vary` gives each trajectory numbers of its own, (..., count), which broadcast with q0:
    "payload" (point masses in the last frame, or a `nlink.simulation.Payload`), "viscous",
    "coulomb" and "armature" of the joints, "gravity" (..., 3), "inertia" (..., links, 10) and
    "placement" (..., joints, 6) as `nlink.parameter_derivatives` has them, "contact_friction" of
    all contacts and "ground", by which the world is raised, "kp", "ki" and "kd" of
    the bundled controllers, "tau" and "f_ext" that never change, and "p", which your own controller
    receives as controller(t, q, qd, p), and functions in `f_ext` likewise. One kernel serves all
    trajectories.

    `method` is "rkf45", "dopri5", "verner65", "dop853", "rkf78" or "abm" (error control by rtol and
    atol, `step` being the first step), "rodas5p" (the same for stiff motions), "rk4", "symplectic"
    or "semi_implicit" (fixed `step`, `every` if not given, shortened at outputs), "lsoda" or
    "radau" (by SciPy), or a method of your own (docs/adding-an-integrator.md). States q0 and qd0
    of float32 have their rates computed in float32 by "rk4" and "semi_implicit"; all else stays in
    float64 (docs/back-ends.md). "dopri5", "dop853",
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

    `contact` is what shapes that touch do (`robot.with_contacts`, docs/contact.md): "rigid"
    (Signorini's and Coulomb's laws in every step of method="semi_implicit": `Run.contacts`) or
    "ignore".

    `sensitivities` names what the states are differentiated by: "q0", "qd0", and whatever `vary`
    gives values for (`Run.sensitivity`, `Run.events.sensitivities`, docs/derivatives.md). The
    derivatives are integrated beside the states, and rtol and atol apply to them as well.

    `physics`, `solver` and `saving` hold these options as values: `nlink.Physics`, `nlink.Solver`,
    `nlink.Saving`.

    >>> import nlink
    >>> run = nlink.simulate(nlink.load("double_pendulum"), [0.1, 0.0], t=1.0)
    >>> run.q.shape, run.status, bool(abs(run.energy - run.energy[0]).max() < 1e-8)
    ((101, 2), 'done', True)
    """
    physics = setting(physics, PHYSICS, algorithm=algorithm, velocity=velocity, limits=limits,
                      restitution=restitution, friction=friction, width=width, effort=effort,
                      closing=closing, contact=contact)
    solver = setting(solver, SOLVER, method=method, rtol=rtol, atol=atol, step=step,
                     max_step=max_step, max_steps=max_steps)
    saving = setting(saving, SAVING, t=t, every=every, save=save)
    system = system_of(robot, physics, tau=tau, f_ext=f_ext, vary=vary, events=events,
                       motion=motion, traced=traced)
    ensemble = Ensemble.of(system, q0, qd0, solver, saving)
    return simulated(ensemble, solver, sensitivities, saving.save, threads, progress)


def simulated(ensemble: Ensemble, solver: Solver, sensitivities: str | Sequence[str] = (),
              save: str | Path | None = None, threads: int | None = None,
              progress: bool | Callable[[float], None] | None = False) -> Run:
    """The run of an ensemble."""
    system, method = ensemble.system, ensemble.method
    bounds = solver.bounds(float(np.abs(ensemble.times).max()))
    traced = not isinstance(system.drive, Untraced)
    if sensitivities:
        ensemble = replace(ensemble, system=sensitive(system, sensitivities, method),
                           dtype="float64")
    if "derivatives" in method.needs:
        expect_derivatives_of_control(system, method)
    compiled = "python" not in method.needs
    if not (compiled and (traced or isinstance(system.drive, Asked))):
        from nlink.simulation.interpreted import integrate_in_python

        if save is not None:
            raise ValueError(f"save: not with method={method.name!r}, traced={traced}; "
                             "use the run's own save() afterwards")
        return replace(integrate_in_python(ensemble, bounds),
                       target=target_of(system.drive.forces(ensemble), system.robot))
    if save is not None and isinstance(system.drive, Asked):
        raise ValueError("save: not with traced=False, expected a traced controller: a run can "
                         "only be continued by what decides it; use Run.save afterwards")
    return _compiled(ensemble, bounds, _threads(threads), save, progress)


def forces_of(ensemble: Ensemble) -> Any:
    """The forces, or their function, from which `Run.tau` is computed."""
    system = ensemble.system
    if system.motion is not None:
        return ForcesOfStates(system.plain)
    return system.drive.forces(ensemble)


def _threads(threads: int | None) -> int:
    from nlink.backends.llvm.threads import threads as allowed

    return allowed() if threads is None else whole_number("threads", threads)


def new_records_of(ensemble: Ensemble) -> Array:
    """The records of trajectories that have not started."""
    system, method, begin = ensemble.system, ensemble.method, float(ensemble.times[0])
    records = new_records(len(ensemble.y0), system.iteration(method).layout, system.shape.size,
                          system.varied.width)
    records["own"] = own = ensemble.own
    records["next"], records["t"], records["h"] = 1, begin, ensemble.step
    records["y"] = system.initial(ensemble.initial, own, begin)
    if system.sampling is not None:
        for name, value in system.sampling.first(begin).items():
            records[name] = value
        if system.sampling.asks:
            records["status"] = STATUS["waiting"]
    records["status"][ensemble.unclosed] = STATUS["not closed"]
    return records


def _compiled(ensemble: Ensemble, limits: dict[str, Any], threads: int,
              save: str | Path | None, progress: bool | Callable[[float], None] | None) -> Run:
    from nlink.backends.llvm.loading import source_contents

    system, method, robot = ensemble.system, ensemble.method, ensemble.robot
    records, count = new_records_of(ensemble), len(ensemble.y0)
    kernel = kernel_of(system, method, count, ensemble.dtype)
    forces = forces_of(ensemble)
    head = {"method": method.name, "lead": ensemble.lead, "t": ensemble.times,
            "velocity": system.velocity.name, "closing": system.closing,
            "evaluations": method.cost.evaluations, "stages": method.cost.stages,
            "start": _evaluations_before(ensemble),
            "nq": robot.nq,
            "parts": [[part.name, part.size] for part in system.parts],
            "forces": forces is not None and (system.motion is not None or not any(
                part.name == "held" for part in system.parts)),
            "vary": None if ensemble.variation is None else ensemble.variation.head(),
            "events": system.event_names}
    loops = LoopsOfStates.of(system.plain)
    if system.wrenches is not None or (loops is not None and system.modes is not None):
        head["wrenches"] = True
    if system.motion is not None and system.motion.loops:
        head["moved_loops"] = True
    target = _target(save)
    if target is not None:
        head |= {"digest": _digest(ensemble, limits), "source": source_contents(),
                 "robot": robot.to_toml(), "record": records.dtype.descr}
    log = EventLog(count, system.shape.size, system.entries)
    stop_outside(records, log, system.watched)
    followed = target_of(system.drive.forces(ensemble), robot)
    if head["forces"] and isinstance(system.drive, Controlled) and system.motion is None:
        forces = _controller_kernel(system)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
    place = None if save is None else Path(save)
    with nullcontext() if place is None else one_writer(place):
        if place is not None and place != target:
            check_replaceable(place, "save")
        store = create(records, head, target, log)
        asking = Asking(ensemble, limits["least"]) if isinstance(system.drive, Asked) else None
        _advance(kernel, store, ensemble, limits, threads, progress, forces, asking)
        run = replace(run_of(store, robot, forces), target=followed, loops=loops)
        if place is None and ensemble.dtype == "float32":
            run = replace(run, **{name: np.float32(getattr(run, name)) for name in ("q", "rates")},
                          parts={name: np.float32(x) for name, x in run.parts.items()})
        if isinstance(system, SensitiveSystem) and run.log is not None:
            rows = store.log.in_order()
            run = replace(run, log=replace(run.log, sensitivities=system.at_events(
                rows, ensemble.inputs(rows["trajectory"], rows["t"]))))
        if place is not None and target is not None and place != target:
            run = run.in_memory()  # Windows removes no file that is mapped
            write_run(run, place)
            remove_directory(target)
    return run


def _evaluations_before(ensemble: Ensemble) -> int:
    """Evaluations of the rates before the first step."""
    method = ensemble.method
    if "k0" not in ensemble.system.iteration(method).layout.columns:
        return 0
    return 2 if method.adaptive and not ensemble.step else 1


def _target(save: str | Path | None) -> Path | None:
    if save is None:
        return None
    path = own_name("save", Path(save))
    if path.suffix == ".npz":
        return path.with_name(path.name + PART)
    if path.suffix not in ("", ".zarr", PART):
        raise ValueError(f"save: {str(save)!r} has the suffix {path.suffix!r}, expected .npz, "
                         ".zarr, or none for a directory")
    return path


def _digest(ensemble: Ensemble, limits: dict[str, Any]) -> str:
    """A digest of all inputs that decide the numbers of a run and the names of its events."""
    from nlink.backends.llvm.host import host

    system = ensemble.system
    method = key(system.recorded(ensemble.method).parts())
    digest = sha256(repr((system.recipe(), system.event_names, host().identity, method,
                          ensemble.step, ensemble.dtype, ensemble.lead,
                          sorted(limits.items()))).encode())
    for array in (ensemble.y0, ensemble.times, ensemble.table, ensemble.own):
        if array is not None:
            digest.update(array.tobytes())
    return digest.hexdigest()


def _advance(kernel: Any, store: RunStore, ensemble: Ensemble, limits: dict[str, Any], threads: int,
             progress: bool | Callable[[float], None] | None, forces: Any,
             asking: Asking | None) -> None:
    """Block after block, slice after slice until nothing runs; whatever interrupts it leaves a
    checkpoint."""
    outputs = len(ensemble.times) - 1
    passed, total = 0, store.count * outputs
    saved = begin = time.monotonic()
    with _bar(progress) as tell:
        for block in range(store.blocks):
            rows = slice(block * store.rows, (block + 1) * store.rows)
            if not store.waits(rows):
                passed += store.records[rows].size * outputs
                continue
            records, out = store.take(block)
            table = ensemble.table
            if table is not None and len(table) > 1:
                table = table[rows]
            log = store.log.buffer
            try:
                while _running(records, out, asking):
                    with InterruptKeptBack():
                        if time.monotonic() - saved > CHECKPOINT:
                            store.checkpoint()
                            saved = time.monotonic()
                        kernel.run(records, limits, out, ensemble.times, held=table,
                                   log=None if log is None else log[rows], budget=SLICE,
                                   threads=threads)
                        store.log.collect(store.records)
                    late = time.monotonic() - begin > CHECKPOINT
                    if tell is not None and (callable(progress) or late):
                        failed = records["status"] > STATUS["done"]
                        here = np.where(failed, outputs, records["next"] - 1).sum()
                        tell(float(passed + here) / total)
                        if isinstance(progress, Follows):
                            progress.states(records["t"], records["y"][:, :ensemble.robot.nq])
            finally:  # records never say that all is done before the forces are written too
                if store.on_disk:
                    with InterruptKeptBack():
                        if (records["status"] == STATUS["running"]).any():
                            store.checkpoint()
                        else:
                            finish_block(store, ensemble.robot, table[..., :ensemble.robot.n]
                                         if table is not None and ensemble.system.drive.tabled
                                         else forces)
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

    program = system.control_program
    forces = replace(program, outputs=program.outputs[:1], results=program.results[:system.robot.n])
    kernel = kept(system.robot, ("controller", system.recipe()), lambda: load_kernel(forces))
    return lambda t, q, qd, *more: kernel(t[:, None], q, qd, *more)
