"""What a cluster costs: a sweep of one-second tasks on local workers, beside `simulate` on as many
threads, with as many trajectories at a time (it is slower with all of them at once, for memory). A
number of docs/scale.md.

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

TRIED, CHUNKS, REPEATS = 2**14, 8, 3


def main(workers: int) -> None:
    """Print trajectories per second of both, the best of some alternating runs."""
    robot = nlink.load("puma560")
    bounds = (-np.ones(6), np.ones(6))
    states = np.random.default_rng(0).uniform(*bounds, (TRIED, 6))
    nlink.simulate(robot, states[:64], t=[0.0, 1.0])  # kernels are compiled
    began = time.thread_time()
    nlink.simulate(robot, states, t=[0.0, 1.0], threads=1)
    chunk = round(TRIED / (time.thread_time() - began))  # a second's work
    states = np.random.default_rng(0).uniform(*bounds, (chunk * CHUNKS, 6))
    rates: dict[str, list[float]] = {"simulate": [], "sweep": []}
    with (tempfile.TemporaryDirectory() as folder,
          LocalCluster(n_workers=workers, threads_per_worker=1,
                       dashboard_address="127.0.0.1:0") as cluster,
          Client(cluster) as client):
        def sweep(name: str, count: int, chunk: int) -> None:
            nlink.sweep(robot, t=1.0, vary={"q0": bounds}, sample="random", count=count,
                        chunk=chunk, out=Path(folder) / name, client=client)

        sweep("warm.zarr", 64 * workers, 16)  # packages are imported
        for k in range(REPEATS):
            began = time.monotonic()
            for part in np.array_split(states, max(1, CHUNKS // workers)):  # a second's work each
                nlink.simulate(robot, part, t=[0.0, 1.0], threads=workers)
            rates["simulate"].append(len(states) / (time.monotonic() - began))
            began = time.monotonic()
            sweep(f"{k}.zarr", len(states), chunk)
            rates["sweep"].append(len(states) / (time.monotonic() - began))
    best = {name: max(found) for name, found in rates.items()}
    print(f"tasks of {chunk:,} trajectories")
    print(f"{workers} threads of simulate: {best['simulate']:,.0f} trajectories/s")
    print(f"{workers} workers of a sweep: {best['sweep']:,.0f} trajectories/s, "
          f"{best['sweep'] / best['simulate']:.0%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
