"""What a study will cost, from a few of its trajectories."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from nlink.studies.chunks import simulate_chunk
from nlink.studies.study import Study

TRIED = 4096
"""The most trajectories that are simulated to find out."""
MARKER = 1000
"""Bytes of a marker, roughly."""


@dataclass(frozen=True)
class Estimate:
    """The cost of a study."""

    trajectories: int
    chunks: int
    tried: int
    """Trajectories that were simulated to find out."""
    seconds_each: float
    """Seconds of one core for one trajectory."""
    bytes_each: int
    """In the store, for one trajectory."""
    files: int
    """Chunks of arrays, and markers."""

    @property
    def core_hours(self) -> float:
        return self.trajectories * self.seconds_each / 3600

    @property
    def bytes(self) -> int:
        return self.trajectories * self.bytes_each + self.chunks * MARKER

    @property
    def seconds_per_chunk(self) -> float:
        return self.seconds_each * self.trajectories / self.chunks


def estimate(study: Study) -> Estimate:
    """Simulate some trajectories of a study on one core, without a store, and extrapolate.

    >>> from nlink.studies.asking_study import study_of
    >>> import nlink
    >>> study = study_of(nlink.load("double_pendulum"), None, None, 0.1, None, sample="sobol",
    ...     vary={"payload": (0.0, 1.0)}, count=10**9, seed=0, every=None, keep=("q",),
    ...     chunk=2**16, events=None, reproducible=False, options={})
    >>> cost = estimate(study)
    >>> cost.chunks, cost.bytes_each, cost.core_hours > 0
    (15259, 37, True)
    """
    from nlink.backends.llvm.host import portable

    few = replace(study, chunk=min(study.chunk, TRIED))
    with portable() if study.reproducible else nullcontext():
        simulate_chunk(replace(few, chunk=8), 0, 1)  # what is compiled is compiled
        begin = time.thread_time()
        run, _ = simulate_chunk(few, 0, 1)
        seconds = time.thread_time() - begin
    tried = run.status_codes.size
    arrays = study.arrays()
    each = sum(np.dtype(array.dtype).itemsize * math.prod(size for _, size in array.further)
               for array in arrays)
    return Estimate(study.trajectories, study.chunks, tried, seconds / tried, each,
                    study.chunks * (len(arrays) + 1))
