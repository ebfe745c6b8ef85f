"""Sweeps on a real Dask cluster: workers are processes, and are killed."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
import pytest

import nlink
from nlink import cli
from nlink.simulation import simulator
from nlink.studies import ChunksFailed, SweepResult, Uniform, chunks, cluster
from nlink.studies.cluster import Cluster, _Flight
from nlink.studies.study_files import study_of

distributed = pytest.importorskip("distributed")
for _package in ("zarr", "xarray", "fsspec", "scipy"):
    pytest.importorskip(_package)
pytestmark = pytest.mark.slow

ARM = nlink.load("double_pendulum")


@pytest.fixture(scope="module")
def local():
    """A scheduler, and two workers that a nanny starts again when they die."""
    import dask

    with (dask.config.set({"distributed.scheduler.allowed-failures": 10}),
          distributed.LocalCluster(n_workers=2, threads_per_worker=1,
                                   dashboard_address="127.0.0.1:0", silence_logs=60) as cluster):
        yield cluster


@pytest.fixture
def client(local):
    with distributed.Client(local, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


def sample(out, client=None, **more):
    given = {"t": 0.1, "count": 60, "chunk": 13, "seed": 3, "vary": {
        "payload": Uniform(0.0, 1.0), "q0": Uniform([-1.0, -1.0], [1.0, 1.0])}} | more
    return nlink.sweep(ARM, sample="latin", out=out, client=client, **given)


def sums(result):
    return {chunk: marker["sum"] for chunk, marker in result.markers.items()}


def tiny_study():
    return study_of(ARM, None, None, 0.1, None, vary={"payload": [0.0]}, sample="grid",
                    count=None, seed=0, every=None, keep=("q",), chunk=None, events=None,
                    reproducible=False, options={})


def test_numbers_do_not_depend_on_who_computes(tmp_path, client):
    def sway(t, q, qd, p):
        return [p[0] * nlink.sin(t) - q[0], -p[1] * qd[1]]

    own = {"tau": sway, "vary": {"p": Uniform([0.0, 0.0], [1.0, 2.0])}}
    here, there = sample(tmp_path / "a.zarr", **own), sample(tmp_path / "b.zarr", client, **own)
    assert sums(here) == sums(there)
    assert there.open().identical(here.open())
    for reduce in (lambda x, c: x.mean("q", client=c), lambda x, c: x.worst("q", 3, client=c)[0],
                   lambda x, c: x.quantiles("qd", [0.1, 0.9], client=c)):
        assert np.array_equal(reduce(there, client), reduce(here, None))
    # a table travels in parts, and an address is as good as a client
    table = {"sample": "table", "count": None, "vary": {"q0": np.random.default_rng(0).normal(
        size=(40, 2))}}
    results = [nlink.sweep(ARM, t=0.1, chunk=7, out=tmp_path / f"{k}.zarr", client=who, **{
        name: x for name, x in table.items() if x is not None}) for k, who in enumerate(
            (None, client.scheduler.address))]
    assert sums(results[0]) == sums(results[1])


def test_wrong_clusters_are_named_in_one_sentence(tmp_path, client):
    for address in ("tcp://127.0.0.1:9", "nonsense", "tcp://[", "other://here:1"):
        with pytest.raises(ConnectionError, match="client: no Dask scheduler answers at") as error:
            sample(tmp_path / "a.zarr", address)
        assert "\n" not in str(error.value)
    with pytest.raises(TypeError, match=r"client: a int, expected a dask.distributed.Client or"):
        sample(tmp_path / "a.zarr", 5)
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"tau: a controller .* cannot be sent .* can be pickled"):
        sample(tmp_path / "a.zarr", client, tau=lambda t, q, qd: [0.0, 0.0 if lock else 1.0])
    client.run(setattr, nlink, "__version__", "0.0.9", workers=[min(client.nthreads())])
    try:
        with pytest.raises(ValueError, match=r"worker tcp://\S+ has nlink 0.0.9, expected .* as "):
            sample(tmp_path / "a.zarr", client)
    finally:
        client.run(setattr, nlink, "__version__", nlink.__version__)
    assert not (tmp_path / "a.zarr").exists()


def test_chunks_that_fail_are_named_and_the_others_done(tmp_path, client):
    """One takes too long, then no worker can write."""
    slow = {"sample": "table", "vary": {"p": np.repeat([[1e-1], [1e5], [1e-1]], 4, axis=0)}}

    def swing(t, q, qd, p):
        return [nlink.sin(p[0] * t), 0.0]

    def go(timeout):
        return nlink.sweep(ARM, t=20.0, tau=swing, chunk=4, out=tmp_path / "s.zarr",
                           client=client, timeout=timeout, **slow)

    class Looks:
        """A clock that tells how often it was looked at: a chunk takes too long on any machine, or
        on none."""

        def __init__(self):
            self.count = 0

        def monotonic(self):
            self.count += 1
            return float(self.count)

    client.run(setattr, simulator, "SLICE", 1e-3)
    client.run(setattr, chunks, "time", Looks())
    try:
        with pytest.raises(ChunksFailed, match=r"chunk 1 failed: TimeoutError: not done within 8 "
                                               r"s; 1"):
            go(8.0)
    finally:
        client.run(setattr, chunks, "time", time)
        client.run(setattr, simulator, "SLICE", simulator.SLICE)
    assert list(SweepResult(tmp_path / "s.zarr").markers) == [0, 2]
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    client.run(resource.setrlimit, resource.RLIMIT_FSIZE, (64, limit[1]))
    try:
        with pytest.raises(ChunksFailed, match=r"File too large.*5 chunks are left") as error:
            sample(tmp_path / "full.zarr", client)
    finally:
        client.run(resource.setrlimit, resource.RLIMIT_FSIZE, limit)
    assert sorted(error.value.failures) == [0, 1, 2, 3, 4]
    assert sums(sample(tmp_path / "full.zarr", client)) == sums(sample(tmp_path / "here.zarr"))


def test_a_task_that_hangs_loses_its_worker(tmp_path, client, monkeypatch):
    """The worker that holds it is started anew, and after two of them the chunk is named."""
    study = tiny_study()
    monkeypatch.setattr(cluster, "GRACE", 5.0)
    flight = _Flight(Cluster(client), retries=0)
    before = set(client.run(os.getpid).values())
    flight.tasks[client.submit(time.sleep, 600, pure=False)] = (
        cluster.ChunkTask(study, 0, str(tmp_path), 1e-3), time.monotonic() - 100.0, 0)
    while not any(client.processing().values()):
        time.sleep(0.05)
    assert [(task.chunk, marker, why) for task, marker, why in flight.overdue()] == [
        (0, None, "hangs: not done within 0.001 s")]
    client.wait_for_workers(2, timeout=60)
    assert len(before & set(client.run(os.getpid).values())) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_scheduler_that_restarts_is_waited_for(tmp_path, monkeypatch):
    """It goes away when some chunks are done, its workers with it, and others come in its place."""
    def start(port=0):
        return distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False,
                                        dashboard_address="127.0.0.1:0", scheduler_port=port,
                                        protocol="tcp", silence_logs=60)

    out, study = tmp_path / "a.zarr", {"count": 60, "chunk": 2, "t": 2.0}
    first, after = start(), []

    def restart():
        while not (out / "chunks").is_dir() or len(list((out / "chunks").glob("*.json"))) < 3:
            time.sleep(0.001)
        port = int(first.scheduler_address.rpartition(":")[2])
        first.close()
        after.append(len(list((out / "chunks").glob("*.json"))))
        after.append(start(port))

    with ThreadPoolExecutor(1) as pool:
        restarted = pool.submit(restart)
        try:
            result = sample(out, first.scheduler_address, **study)
            restarted.result()
        finally:
            after[1].close()
    assert 3 <= after[0] < result.chunks
    assert sums(result) == sums(sample(tmp_path / "b.zarr", **study))
    # one that does not come back is named
    monkeypatch.setattr(cluster, "RESTART", 1.0)
    gone = start()
    with Cluster.of(gone.scheduler_address) as lost:
        gone.close()
        with pytest.raises(ConnectionError, match="was lost; chunks that are done are kept"):
            lost.rejoin(tiny_study())
    gc.collect()  # Dask leaves a socket of a scheduler that is gone: it is to warn here


def test_a_scheduler_that_goes_away_while_an_answer_is_read_keeps_the_task(tmp_path):
    """The future is done when it is asked, and cancelled with the connection when it is read."""
    client = Mock(status="running", scheduler=None, as_current=nullcontext)

    def cancelled():
        client.status = "connecting"
        raise distributed.client.FutureCancelledError("chunk", "scheduler-connection-lost")

    flight = _Flight(Cluster(client), retries=2)
    flight.tasks[Mock(done=lambda: True, result=cancelled)] = (
        cluster.ChunkTask(tiny_study(), 0, str(tmp_path), None), 0.0, 0)
    with (patch.object(distributed, "wait", lambda *_, **__: None),
          pytest.raises(distributed.comm.CommClosedError)):
        list(flight.landed())
    assert len(flight.tasks) == 1


STUDY = """
robot = "double_pendulum"
t = 0.5
method = "dop853"
sample = "sobol"
count = 240
chunk = 4
[vary]
payload = [0.0, 1.0]
q0 = [[-1.0, -1.0], [1.0, 1.0]]
"""


def test_workers_and_the_client_are_killed_and_nothing_is_lost(tmp_path, local):
    """60 chunks; two workers are killed with -9 on the way, and the client once."""
    (tmp_path / "study.toml").write_text(STUDY)
    arguments = ["sweep", str(tmp_path / "study.toml"), "--out"]
    out = tmp_path / "killed.zarr"
    done = out / "chunks"

    def start():
        return subprocess.Popen([sys.executable, "-m", "nlink", *arguments, str(out),
                                 "--scheduler", local.scheduler_address])

    def wait_for(chunks, driver):
        while not (done.is_dir() and len(list(done.glob("*.json"))) >= chunks):
            assert driver.poll() is None, "the sweep ended before it could be disturbed"
            time.sleep(0.01)

    rng = np.random.default_rng(1)
    driver = start()
    wait_for(5, driver)
    os.kill(local.workers[int(rng.integers(2))].pid, signal.SIGKILL)
    wait_for(15, driver)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() in (-signal.SIGKILL, 0)  # on a busy machine it may have been done
    driver = start()
    wait_for(30, driver)
    os.kill(local.workers[int(rng.integers(2))].pid, signal.SIGKILL)
    assert driver.wait() == 0
    assert cli.run([*arguments, str(tmp_path / "whole.zarr")]) == 0
    result = SweepResult(out)
    assert result.done == result.chunks == 60
    assert result.status() == {"done": 240}
    assert sums(result) == sums(SweepResult(tmp_path / "whole.zarr"))
    stores = [{str(file.relative_to(path)): file.read_bytes() for file in Path(path).rglob("*")
               if file.is_file() and file.parent.name != "chunks"}
              for path in (out, tmp_path / "whole.zarr")]
    assert stores[0] == stores[1]
