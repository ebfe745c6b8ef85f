"""`nlink.sweep`: a study of simulations, on this machine's cores or on a Dask cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from nlink.reports.progress import bar
from nlink.robot import Robot
from nlink.simulation.setting import PHYSICS, SOLVER, door, setting
from nlink.simulation.system import System
from nlink.studies.asking_study import study_of
from nlink.studies.chunks import ChunkTask
from nlink.studies.cluster import Cluster
from nlink.studies.reductions import SweepResult
from nlink.studies.study import Study
from nlink.studies.sweep_store import SweepStore

FAILURES = 10
"""Chunks that may fail before a sweep gives up."""
RETRIES = 2
"""Times that a cluster tries a chunk again."""
TIMEOUT = 3600.0
"""Seconds that a chunk may take, if not said otherwise."""
Told = Callable[..., None]


class ChunksFailed(RuntimeError):
    """Chunks that could not be computed, by their numbers; all others are done, and the same call
    tries these again.

    >>> from nlink.studies import ChunksFailed
    >>> issubclass(ChunksFailed, RuntimeError)
    True
    """

    def __init__(self, path: str, failures: Mapping[int, str], left: int) -> None:
        self.failures = dict(failures)
        chunk, why = next(iter(failures.items()))
        more = "" if len(failures) == 1 else (
            f" (and chunks {', '.join(map(str, list(failures)[1:FAILURES]))})")
        super().__init__(f"{path}: chunk {chunk}{more} failed: {why}; {left} chunks are left, "
                         "which the same call computes")


@door("vary")
def sweep(robot: Robot | System | Mapping[str, Robot] | Sequence[Robot],
          q0: ArrayLike | None = None, qd0: ArrayLike | None = None, t: float | ArrayLike = 10.0,
          tau: Any = None, *,
          vary: Mapping[str, Any] | None = None, sample: str = "grid", count: int | None = None,
          seed: int = 0, every: float | None = None, keep: Sequence[str] = ("q", "qd"),
          out: str | Path, client: Any = None, chunk: int | None = None, events: Any = None,
          f_ext: Any = None,
          reproducible: bool = False, timeout: float | None = TIMEOUT, verify: bool = False,
          progress: bool | Told | None = None, **options: Any) -> SweepResult:
    """Simulate a study in chunks and write it to a zarr store.

    `vary` says what varies: "q0", "qd0", and the keys that `simulate` takes ("payload", "viscous",
    "coulomb", "armature", gains, "p"). `sample` says how:

    - "grid": every combination of values, (values,) or (values, numbers), one axis each;
    - "table": rows of columns of one length;
    - "latin", "sobol", "random": `count` trajectories drawn from distributions, (lower, upper) or
      `nlink.studies.Uniform, LogUniform, Normal`, by `seed` (see `nlink.studies.drawing`).

    `tau` is a controller, or joint forces (n,) that never change, `f_ext` wrenches on links as
    `simulate` has them, in numbers or functions, the same in all simulations.

    Several robots, by their names, are one more axis, with a controller for each if `tau` is a
    mapping. Without `every` only final states are kept (if an event ends a trajectory, the state at
    the event); with it, or with times t, those of "q", "qd", "tau" and "energy" that `keep` names
    are kept at all output times. The status of each trajectory is kept too, and for each of
    `events` how often it occurred and when first.

    `out` is a path or an fsspec address. The same call continues an interrupted sweep, even from
    another machine. `client` is a `dask.distributed.Client`, or the address of a scheduler; without
    one this process computes, with the threads of `simulate`. A task is one chunk of at most
    `chunk` trajectories, and its numbers do not depend on which worker computes it: bit for bit on
    processors of one kind, and with `reproducible` on all that have x86-64-v3. A chunk that is not
    done after `timeout` seconds fails alone. `verify` reads all finished chunks and recomputes
    those that something else has changed.

    Further arguments are those of `simulate`: method, rtol, atol, step, max_step, algorithm,
    velocity, limits, restitution, friction, width, effort, max_steps, closing, contact, or
    `physics` and `solver` as values.

    >>> import nlink, tempfile
    >>> result = nlink.sweep(nlink.load("double_pendulum"), t=0.1, vary={
    ...     "payload": [0.0, 1.0], "viscous": [0.0, 0.1, 0.2]}, out=tempfile.mkdtemp() + "/s.zarr")
    >>> result.done, result.chunks, dict(result.open().q.sizes)
    (1, 1, {'payload': 2, 'viscous': 3, 'coordinate': 2})
    """
    physics, solver = options.pop("physics", None), options.pop("solver", None)
    if physics is not None:
        options |= vars(setting(physics, PHYSICS))
    if solver is not None:
        options |= vars(setting(solver, SOLVER))
    if isinstance(robot, System):
        robot, tau, events, f_ext, options = _parts_of(robot, options)
    study = study_of(robot, q0, qd0, t, tau, vary=vary, sample=sample, count=count, seed=seed,
                     every=every, keep=keep, chunk=chunk, events=events, f_ext=f_ext,
                     reproducible=reproducible, options=options)
    return run_study(study, out, client=client, timeout=timeout, verify=verify, progress=progress)


def _parts_of(system: System, options: Mapping[str, Any],
              ) -> tuple[Robot, Any, Any, Any, dict[str, Any]]:
    """Robot, controller, events, wrenches and options of a system given in place of a robot."""
    given = system.arguments
    if given["vary"] is not None:
        raise ValueError("robot: a System with vary, expected one without: a sweep has a vary of "
                         "its own")
    if not given["traced"]:
        raise ValueError("robot: a System with traced=False, expected a traced controller")
    return (system.robot, given["tau"], given["events"], given["f_ext"],
            vars(system.physics) | dict(options))


def run_study(study: Study, out: str | Path, *, client: Any = None,
              timeout: float | None = TIMEOUT, verify: bool = False,
              progress: bool | Told | None = None) -> SweepResult:
    """Compute the chunks of a study that are not done; see `sweep`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from nlink.studies import read_study, run_study
    >>> path = Path(tempfile.mkdtemp()) / "study.toml"
    >>> _ = path.write_text('robot = "double_pendulum"\\nt = 0.1\\nvary = {payload = [0.0, 1.0]}')
    >>> result = run_study(read_study(path), path.with_suffix(".zarr"))
    >>> result.done, result.chunks
    (1, 1)
    """
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise ValueError(f"timeout: {timeout!r}, expected a positive number of seconds, or None")
    store = SweepStore(out)
    with nullcontext() if client is None else Cluster.of(client) as cluster:
        if cluster is not None:
            cluster.check(study)
        store.prepare(study, verify=verify)
        markers = store.markers(study.digest, study.chunks)
        if verify:
            for chunk in store.damaged(study, markers):
                store.unmark(chunk)
                del markers[chunk]
        todo = [k for k in range(study.chunks) if k not in markers]
        if todo:
            path = store.root if store.local else store.path
            tasks = (ChunkTask(study.cut(k), k, path, timeout) for k in todo)
            with _bar(progress) as tell:
                told = _Telling(study, markers, tell)
                failures = (_here(tasks, told) if cluster is None else
                            cluster.compute(tasks, told, retries=RETRIES, most=FAILURES))
            if failures:
                raise ChunksFailed(store.path, failures, len(todo) - told.fresh)
            store.tidy()
    return SweepResult(store.path)


def open_sweep(path: str | Path) -> Any:
    """The store of a sweep as an xarray Dataset, read when something is taken from it; values not
    computed yet are nan, or -1 in arrays of integers.

    >>> import nlink, tempfile
    >>> robot = nlink.load("double_pendulum")
    >>> path = tempfile.mkdtemp() + "/study.zarr"
    >>> _ = nlink.sweep(robot, t=0.1, vary={"payload": [0.0, 1.0]}, out=path)
    >>> nlink.open_sweep(path).q.shape
    (2, 2)
    """
    return SweepResult(path).open()


class _Telling:
    """The progress of a sweep under way: the share that is done, the rate, the time left."""

    def __init__(self, study: Study, markers: Mapping[int, Any], tell: Told | None) -> None:
        self._tell, self._total = tell, study.trajectories
        self._before = self._done = sum(marker["trajectories"] for marker in markers.values())
        self._begin = time.monotonic()
        self.fresh = 0
        """Chunks that were computed by this call."""

    def __call__(self, trajectories: float, *, done: bool = False) -> None:
        """So many more are done, or, for now, in the chunk at hand."""
        if done:
            self._done += int(trajectories)
            self.fresh += 1
            trajectories = 0
        if self._tell is None:
            return
        known = self._done + trajectories
        rate = (known - self._before) / max(time.monotonic() - self._begin, 1e-9)
        left = (self._total - known) / rate if rate else float("inf")
        self._tell(known / self._total, f"{known:,.0f} of {self._total:,}, {rate:,.0f}/s, "
                                        f"{duration(left)} left")


def duration(seconds: float) -> str:
    """A time in two parts.

    >>> duration(7.2), duration(3725.0), duration(float("inf"))
    ('7 s', '1 h 2 min', 'unknown time')
    """
    if seconds == float("inf"):
        return "unknown time"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, s = divmod(whole, 60)
    hours, m = divmod(minutes, 60)
    return f"{hours} h {m} min" if hours else f"{minutes} min {s} s"


def _here(tasks: Iterable[ChunkTask], told: _Telling) -> dict[int, str]:
    """Chunk after chunk with the threads of `simulate`; what failed, and why."""
    failures: dict[int, str] = {}
    for task in tasks:
        places = 1
        for part in task.study.region(task.chunk):
            places *= part.stop - part.start
        try:
            marker = task(threads=None, tell=lambda share, n=places: told(share * n))
        except Exception as error:
            failures[task.chunk] = f"{type(error).__name__}: {' '.join(str(error).split())}"
            if len(failures) >= FAILURES or _hopeless(error):
                break
        else:
            told(marker["trajectories"], done=True)
    return failures


def _hopeless(error: Exception) -> bool:
    """Whether the next chunk would fail as well: a full disk, a store that cannot be written."""
    return isinstance(error, OSError) and not isinstance(error, TimeoutError)


def _bar(progress: bool | Told | None) -> AbstractContextManager[Told | None]:
    if callable(progress):
        return nullcontext(progress)
    wanted = sys.stderr is not None and sys.stderr.isatty() if progress is None else progress
    return bar("sweeping") if wanted else nullcontext(None)
