"""One chunk: simulated, written, and then marked as done."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

import nlink
from nlink.iterations.integration import STATUS
from nlink.simulation.run import MESSAGES, Run
from nlink.simulation.simulator import simulate
from nlink.storage.checks import bytes_sum
from nlink.studies.asking_study import initial
from nlink.studies.study import Study
from nlink.studies.sweep_store import SweepStore

Array = np.ndarray
STOPPED = (STATUS["event"], STATUS["limit reached"])
"""How a trajectory ends whose last state is that of an event."""


@dataclass(frozen=True)
class ChunkTask:
    """A chunk to be computed, by anybody who reaches the store; called, it gives its marker.

    It may be called any number of times, and by several at once: what is written is the same.
    """

    study: Study
    chunk: int
    path: str
    timeout: float | None = None

    def __call__(self, threads: int | None = 1,
                 tell: Callable[[float], None] | None = None) -> dict[str, Any]:
        from nlink.backends.llvm.host import host, portable
        from nlink.backends.llvm.loading import source_contents

        if source_contents() != self.study.source:
            raise RuntimeError(f"nlink {nlink.__version__} at {nlink.__file__} is another version "
                               "than the one that started the sweep")
        begin = time.monotonic()
        with portable() if self.study.reproducible else nullcontext():
            run, drawn = simulate_chunk(self.study, self.chunk, threads, self._watch(tell))
            arrays = _arrays(self.study, self.chunk, run, drawn)
            here = host()
        store = SweepStore(self.path)
        store.write_chunk(self.study, self.chunk, arrays)
        codes, counts = np.unique(run.status_codes, return_counts=True)
        marker = {
            "chunk": self.chunk, "study": self.study.digest, "sum": bytes_sum(arrays),
            "trajectories": int(run.status_codes.size),
            "status": {MESSAGES[int(code)]: int(n) for code, n in zip(codes, counts, strict=True)},
            "steps": int(np.sum(run.stats.steps)),
            "seconds": round(time.monotonic() - begin, 6), "nlink": nlink.__version__,
            "cpu": here.cpu, "width": here.target.width, "features": ",".join(
                name for name in here.features.split(",") if name.startswith("+"))}
        store.mark(self.chunk, marker)
        return marker

    def _watch(self, tell: Callable[[float], None] | None) -> Callable[[float], None]:
        """A function to call between slices of work, which ends a chunk that takes too long."""
        end = None if self.timeout is None else time.monotonic() + self.timeout

        def look(share: float) -> None:
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"not done within {self.timeout:g} s")
            if tell is not None:
                tell(share)

        return look


def simulate_chunk(study: Study, chunk: int, threads: int | None,
                   look: Callable[[float], None] | None = None) -> tuple[Run, dict[str, Array]]:
    """The simulations of a chunk, and what varied in them."""
    _, robot, controller = study.robot_of(chunk)
    drawn = study.drawn(chunk)
    rows = int(np.prod([s.stop - s.start for s in study.region(chunk)]))
    q0, qd0, vary = initial(study, drawn, rows)
    run = simulate(robot, q0, qd0, study.times, controller, vary=vary, events=study.events,
                   f_ext=study.f_ext, threads=threads, progress=look or False, **study.options)
    return run, drawn


def _arrays(study: Study, chunk: int, run: Run, drawn: dict[str, Array]) -> dict[str, Array]:
    """The arrays of a chunk, each in the shape of its part of the store."""
    found: dict[str, Array] = {}
    last = _last_events(run) if study.final else None
    for name in study.keep:
        values = np.asarray(getattr(run, name))
        if study.final:
            values = np.array(values[:, -1])
            if last is not None and name in ("q", "qd"):
                rows, events = last
                values[rows] = getattr(run.events, name)[events]
        found[name] = values
    found |= {"status": run.status_codes, "t_end": run.t_end, "steps": run.stats.steps}
    if study.event_names:
        found |= _event_summary(run, len(study.event_names))
    if study.axes[0] != "robot" or study.region(chunk)[0].start == 0:  # the same for all robots
        found |= drawn
    shape = tuple(s.stop - s.start for s in study.region(chunk))
    return {array.name: np.ascontiguousarray(found[array.name], array.dtype).reshape(
        *shape[len(shape) - len(array.axes):], *(size for _, size in array.further))
        for array in study.arrays() if array.name in found}


def _last_events(run: Run) -> tuple[Array, Array] | None:
    """Trajectories that ended at an event, and the numbers of these events."""
    rows = np.flatnonzero(np.isin(run.status_codes, STOPPED))
    if not rows.size or not len(run.events):
        return None
    return rows, np.searchsorted(run.events.trajectory, rows, side="right") - 1


def _event_summary(run: Run, names: int) -> dict[str, Array]:
    """How often each event was, and when first."""
    count = run.status_codes.size
    counts = np.zeros((count, names), np.int32)
    first = np.full((count, names), np.inf)
    np.add.at(counts, (run.events.trajectory, run.events.which), 1)
    np.minimum.at(first, (run.events.trajectory, run.events.which), run.events.t)
    return {"event_count": counts, "event_time": np.where(counts > 0, first, np.nan)}
