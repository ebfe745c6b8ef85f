"""What a cluster costs: a sweep of one-second tasks on local workers, beside `simulate` on as many
threads. A number of docs/scale.md.

    python examples/sweep_overhead.py [WORKERS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

import nlink

CHUNK, CHUNKS, REPEATS = 2**15, 8, 3


def main(workers: int) -> None:
    """Print trajectories per second of both, the best of some alternating runs."""
    robot = nlink.load("puma560")
    bounds = (-np.ones(6), np.ones(6))
    states = np.random.default_rng(0).uniform(*bounds, (CHUNK * CHUNKS, 6))
    rates: dict[str, list[float]] = {"simulate": [], "sweep": []}
    with (tempfile.TemporaryDirectory() as folder,
          LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
          Client(cluster) as client):
        def sweep(name: str, count: int, chunk: int) -> None:
            nlink.sweep(robot, t=1.0, vary={"q0": bounds}, sample="random", count=count,
                        chunk=chunk, out=Path(folder) / name, client=client)

        sweep("warm.zarr", 64 * workers, 16)  # kernels are compiled, packages imported
        nlink.simulate(robot, states[:64], t=[0.0, 1.0], threads=workers)
        for k in range(REPEATS):
            began = time.monotonic()
            nlink.simulate(robot, states, t=[0.0, 1.0], threads=workers)
            rates["simulate"].append(len(states) / (time.monotonic() - began))
            began = time.monotonic()
            sweep(f"{k}.zarr", len(states), CHUNK)
            rates["sweep"].append(len(states) / (time.monotonic() - began))
    best = {name: max(found) for name, found in rates.items()}
    print(f"{workers} threads of simulate: {best['simulate']:,.0f} trajectories/s")
    print(f"{workers} workers of a sweep: {best['sweep']:,.0f} trajectories/s, "
          f"{best['sweep'] / best['simulate']:.0%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
