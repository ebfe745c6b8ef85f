"""A Dask scheduler and three workers on this machine, for trying sweeps on a cluster.

    python examples/local_cluster.py [PORT]

Then, elsewhere, `nlink sweep study.toml --out study.zarr --scheduler tcp://127.0.0.1:8786`. On
several machines the same is `dask scheduler` on one, and `dask worker tcp://HOST:8786 --nthreads 1
--nworkers auto` on each.
"""

from __future__ import annotations

import sys
import time

from distributed import LocalCluster


def main(port: int) -> None:
    """Serve until Ctrl-C."""
    with LocalCluster(n_workers=3, threads_per_worker=1, scheduler_port=port,
                      dashboard_address="127.0.0.1:0") as cluster:
        print(f"{cluster.scheduler_address}: three workers; Ctrl-C ends them", flush=True)
        while True:
            time.sleep(1)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 8786)
    except KeyboardInterrupt:
        print("ended")
