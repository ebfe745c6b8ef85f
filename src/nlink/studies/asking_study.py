"""From the arguments of `nlink.sweep` to a study, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.iterations.methods import METHODS
from nlink.model.names import did_you_mean
from nlink.programs.keys import key
from nlink.robot import Robot, expect_robot
from nlink.simulation.ensemble import Ensemble
from nlink.simulation.setting import (
    OPTIONS,
    Saving,
    output_times,
    settings_of,
    whole_number,
)
from nlink.simulation.system import System
from nlink.simulation.variation import NAMES, Payload, Variation, with_coulomb
from nlink.studies.drawing import BITS, DRAWN, SAMPLES, Uniform
from nlink.studies.study import KEEP, STATES, Study

Array = np.ndarray
CHUNK, BYTES = 2**15, 2**24
"""The most trajectories of a chunk, and bytes of its states, if not given."""
SHARE, FEWEST = 32, 2**9
"""Chunks that a study has at least, if not given and if they have so many trajectories: several
workers want some each."""
LARGEST_CHUNK = 2**30
"""Bytes of the states of a chunk that are refused: a worker holds them in memory."""
FORMAT = 1


@dataclass(frozen=True)
class StudyDesign:
    """What varies in a study, how its values are drawn, and what is kept of it: arguments of
    `nlink.sweep`, under the same names."""

    vary: Mapping[str, Any] | None
    sample: str
    count: int | None
    seed: int
    every: float | None
    keep: Sequence[str]
    chunk: int | None
    events: Any
    reproducible: bool
    options: Mapping[str, Any]
    """Further arguments of `simulate`."""
    f_ext: Any = None


def study_of(robot: Any, q0: ArrayLike | None, qd0: ArrayLike | None, t: float | ArrayLike,
             tau: Any, **design: Any) -> Study:
    """The study of these arguments and of a `StudyDesign`; see `nlink.sweep`."""
    d = StudyDesign(**design)
    sample, count, seed, every, keep = d.sample, d.count, d.seed, d.every, d.keep
    robots = _robots(robot)
    first = next(iter(robots.values()))
    unknown = [name for name in d.options if name not in OPTIONS]
    if unknown:
        raise TypeError(f"{unknown[0]}: no argument of sweep, expected some of "
                        f"{', '.join(OPTIONS)}{did_you_mean(unknown[0], OPTIONS)}")
    if sample not in SAMPLES:
        raise ValueError(f"sample: {sample!r}, expected one of {', '.join(SAMPLES)}")
    if not isinstance(d.vary, Mapping | None):
        raise TypeError(f"vary: a {type(d.vary).__name__}, expected a mapping of names")
    payload, varied = _varied(first, with_coulomb(d.vary or {}), sample)
    if not varied and len(robots) == 1:
        raise ValueError("vary: none, expected something that varies, or several robots "
                         "(nlink.simulate computes one trajectory)")
    count = _count(count, varied, sample)
    if not (isinstance(seed, int | np.integer) and 0 <= seed < 2**63):
        raise ValueError(f"seed: {seed!r}, expected a whole number >= 0")
    if (not isinstance(keep, Sequence) or isinstance(keep, str)
            or any(name not in KEEP for name in keep) or len(set(keep)) < len(keep)):
        raise ValueError(f"keep: {keep!r}, expected some of {', '.join(KEEP)}, each once")
    final = every is None and np.ndim(t) == 0
    times = _times(t, every)
    state = sum({"q": first.nq, "energy": 1}.get(name, first.n) for name in keep)
    each = 8 * max(1, state) * (1 if final else len(times))
    places = (int(np.prod([len(values) for values in varied.values()])) if sample == "grid" else
              count)
    most = whole_number("chunk", d.chunk) if d.chunk is not None else max(
        1, min(CHUNK, BYTES // each, max(FEWEST, places // SHARE)))
    study = Study(
        {name: each.to_toml() for name, each in robots.items()}, _controllers(robots, tau),
        _state("q0", q0, first.neutral, varied), _state("qd0", qd0, np.zeros(first.n), varied),
        times, final, sample, varied, payload, count, int(seed), tuple(keep), most,
        OPTIONS | dict(d.options), d.events, d.f_ext,
        reproducible=bool(d.reproducible))
    from nlink.backends.llvm.loading import source_contents

    held = each * int(np.prod(study.chunk_shape))
    if held > LARGEST_CHUNK:
        raise ValueError(f"chunk: {most} trajectories are {held / 2**30:.1f} GiB, expected at most "
                         f"{LARGEST_CHUNK / 2**30:g} GiB: a worker holds a chunk in memory")
    names, digest = _digest(study, robots)
    return replace(study, event_names=names, digest=digest, source=source_contents())


def _robots(given: Any) -> dict[str, Robot]:
    """Robots by their names, all with the same coordinates and rates."""
    robots: dict[str, Any]
    if isinstance(given, Mapping):
        robots = {str(name): each for name, each in given.items()}
    elif isinstance(given, Sequence) and not isinstance(given, str):
        robots = {getattr(each, "name", ""): each for each in given}
        if len(robots) < len(given):
            raise ValueError("robot: two of one name, expected a mapping of names to robots")
    else:
        robots = {getattr(given, "name", ""): given}
    if not robots:
        raise ValueError("robot: none, expected at least one")
    for each in robots.values():
        expect_robot(each)
    first, *others = robots.values()
    for other in others:
        if (other.nq, other.n) != (first.nq, first.n):
            raise ValueError(f"robot: {other.name} has {other.nq} coordinates and {other.n} rates, "
                             f"expected {first.nq} and {first.n} as {first.name} has")
    return robots


def _controllers(robots: Mapping[str, Robot], tau: Any) -> dict[str, Any]:
    found = dict.fromkeys(robots, tau)
    if isinstance(tau, Sequence | np.ndarray) and not isinstance(tau, str):
        n = next(iter(robots.values())).n
        if np.shape(tau) != (n,):
            raise ValueError(f"tau: shape {np.shape(tau)}, expected ({n},): sweeps have no tables")
        return dict.fromkeys(robots, np.array(tau, dtype=float))
    if isinstance(tau, Mapping):
        missing = [name for name in robots if name not in tau]
        if missing:
            raise ValueError(f"tau: no controller for {missing[0]!r}, expected one for each robot")
        found = {name: tau[name] for name in robots}
    wrong = [each for each in found.values() if each is not None and not callable(each)]
    if wrong:
        raise TypeError(f"tau: a {type(wrong[0]).__name__}, expected None, a controller, joint "
                        "forces (n,), or a mapping of robots' names to controllers")
    return found


def _varied(robot: Robot, vary: dict[str, Any], sample: str) -> tuple[Payload | None, dict]:
    known = (*STATES, *NAMES)
    unknown = [name for name in vary if name not in known]
    if unknown:
        raise ValueError(f"vary: {unknown[0]!r}, expected some of {', '.join(known)}")
    payload = vary.get("payload")
    if isinstance(payload, Payload):
        vary["payload"] = payload.mass
    else:
        payload = None
    widths = {"q0": robot.nq, "qd0": robot.n, "payload": 1}
    found = {}
    for name, given in vary.items():
        found[name] = (_distribution(name, given) if sample in DRAWN
                       else _column(name, given, widths.get(name)))
        size = found[name].size if sample in DRAWN else found[name].shape[1]
        if name in widths and size != widths[name]:
            raise ValueError(f"vary: {name} has {size} numbers, expected {widths[name]}")
    return payload, found


def _distribution(name: str, given: Any) -> Any:
    if callable(getattr(given, "quantile", None)) and hasattr(given, "size"):
        return given
    if isinstance(given, Sequence | np.ndarray) and len(given) == 2:
        return Uniform(*given)
    raise ValueError(f"vary: {name}: {given!r:.60}, expected (lower, upper), or a distribution "
                     "such as nlink.studies.Uniform, LogUniform or Normal")


def _column(name: str, given: Any, width: int | None) -> Array:
    """(values, width) of a grid's axis or a table's column."""
    try:
        x = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"vary: {name}: {given!r:.60}, expected numbers") from None
    if x.ndim == 1 and width in (None, 1):
        x = x[:, None]
    if x.ndim != 2 or not len(x):
        raise ValueError(f"vary: {name}: shape {np.shape(given)}, expected (values,) or "
                         "(values, numbers), at least one")
    return x


def _count(count: int | None, varied: Mapping[str, Any], sample: str) -> int:
    if sample in DRAWN:
        if not varied or count is None:
            missing = "vary" if not varied else "count"
            raise ValueError(f"{missing}: none, expected one with sample={sample!r}")
        count = whole_number("count", count)
        if sample == "sobol" and count > 2**BITS:
            raise ValueError(f"count: {count}, expected at most 2^{BITS} Sobol points")
        return count
    if count is not None:
        raise ValueError(f"count: {count} with sample={sample!r}, expected none: the values of "
                         "vary say how many")
    lengths = {name: len(x) for name, x in varied.items()}
    if sample == "table" and len(set(lengths.values())) != 1:
        raise ValueError(f"vary: a table with {lengths or 'no columns'}, expected columns of one "
                         "length")
    return next(iter(lengths.values()), 1)


def _state(name: str, given: ArrayLike | None, default: Array, varied: Mapping[str, Any]) -> Array:
    if given is not None and name in varied:
        raise ValueError(f"{name}: given, and in vary too, expected one of them")
    x = np.array(default if given is None else given, dtype=float)
    if x.shape != default.shape:
        raise ValueError(f"{name}: shape {x.shape}, expected {default.shape}; states that vary "
                         f"are in vary, as {name!r}")
    return x


def _times(t: Any, every: float | None) -> Array:
    """Output times; those of final states alone are the first and the last."""
    if every is not None or np.ndim(t):
        return output_times(t, 0.01 if every is None else every)
    positive = isinstance(t, int | float | np.number) and 0 < float(t) < np.inf
    return output_times(t, float(t) if positive else 1.0)


def _digest(study: Study, robots: Mapping[str, Robot]) -> tuple[tuple[str, ...], str]:
    """The names of events, and a digest of what decides the numbers besides nlink itself and
    the processor. Wrong arguments are found on the way: before anything is computed."""
    o = study.options
    systems, names, numbers = [], [], []
    for name, robot in robots.items():
        controller = study.controllers[name]
        for column, given in study.varied.items():
            if isinstance(given, np.ndarray) and column in NAMES:
                Variation.of(robot, controller, {column: given if column != "payload" else
                                                 given[:, 0]})
        q0, qd0, vary = initial(study, {key: x[:1] for key, x in study.drawn(0).items()}, 1)
        physics, solver = settings_of({**o, "step": _step(o)})
        system = System(robot, controller, f_ext=study.f_ext, vary=vary, events=study.events,
                        physics=physics)
        if system.columns:
            raise ValueError("f_ext: a table, expected numbers or functions of t, q, qd: sweeps "
                             "have no tables")
        ensemble = Ensemble.of(system, q0, qd0, solver, Saving(
            study.times, float(study.times[-1])))
        if ensemble.lead != (1,):
            raise ValueError(f"f_ext: leading shape {ensemble.lead}, expected one wrench for all "
                             "trajectories of a sweep, (6,)")
        system, method = ensemble.system, ensemble.method
        if study.f_ext is not None or isinstance(controller, np.ndarray):
            numbers.append(ensemble.own.tobytes())
        solver.bounds(float(np.abs(ensemble.times).max()))
        method = key(system.recorded(method).parts()) if "python" not in method.needs else (
            method.name)
        systems.append((name, study.robots[name], system.recipe(), method))
        names.append(tuple(system.event_names))
    if len(set(names)) > 1:
        raise ValueError("limits: robots whose limits have different names, expected the same for "
                         "all robots of a study, or 'ignore'")
    digest = sha256(repr((
        FORMAT, systems, names[0], study.sample, study.count, study.seed, study.chunk_shape,
        study.keep, study.final, study.reproducible,
        sorted((name, repr(x)) for name, x in o.items() if name != "method"),
        [(name, None if isinstance(x, np.ndarray) else repr(x))
         for name, x in study.varied.items()])).encode())
    for array in (study.q0, study.qd0, study.times, *(
            x for x in study.varied.values() if isinstance(x, np.ndarray))):
        digest.update(repr(array.shape).encode() + array.tobytes())
    for each in numbers:
        digest.update(each)
    if study.payload is not None:
        digest.update(repr((study.payload.frame, *(None if x is None else np.asarray(x).tolist()
                                                   for x in (study.payload.com,
                                                             study.payload.inertia)))).encode())
    return names[0], digest.hexdigest()


def _step(options: Mapping[str, Any]) -> float | None:
    method = options["method"]
    method = METHODS.get(method) if isinstance(method, str) else method
    if options["step"] is None and method is not None and not method.adaptive:
        raise ValueError(f"step: None with method={method.name!r}, expected the size of its steps "
                         "in seconds")
    return options["step"]


def initial(study: Study, drawn: Mapping[str, Array], rows: int) -> tuple[Array, Array, dict]:
    """Initial states, and the argument `vary` of `simulate`, for some trajectories."""
    q0 = np.broadcast_to(drawn.get("q0", study.q0), (rows, len(study.q0)))
    qd0 = np.broadcast_to(drawn.get("qd0", study.qd0), (rows, len(study.qd0)))
    vary: dict[str, Any] = {name: x for name, x in drawn.items() if name not in STATES}
    if "payload" in vary:
        mass = vary["payload"][:, 0]
        vary["payload"] = mass if study.payload is None else replace(study.payload, mass=mass)
    return q0, qd0, vary
