"""Runs on disk: what is saved is what is loaded; what was interrupted goes on to the same bits."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest

import nlink

PUMA = nlink.load("puma560")
OPTIONS = {"t": 1.0, "every": 0.05, "method": "dop853"}


def test_a_saved_run_is_loaded_as_it_was(tmp_path):
    q0, qd0 = PUMA.random_state(0, (3,))
    qd0[1, 0] = np.nan
    run = nlink.simulate(PUMA, q0, qd0, tau=lambda t, q, qd: [-v for v in qd], **OPTIONS)
    path = run.save(tmp_path / "a.npz")
    again = nlink.load_run(path)
    for name in ("t", "q", "qd", "tau", "t_end", "energy"):
        assert np.array_equal(getattr(run, name), getattr(again, name), equal_nan=True), name
    assert again.status.tolist() == run.status.tolist()
    assert repr(again) == repr(run)


@pytest.mark.slow
def test_what_is_no_run_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a run that nlink wrote"):
        nlink.load_run(path)
    with pytest.raises(FileNotFoundError):
        nlink.load_run(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"expected \.npz or \.zarr"):
        nlink.simulate(PUMA, t=0.1).save(tmp_path / "a.csv")


def test_spoiled_runs_are_refused_in_one_sentence(tmp_path):
    whole = nlink.simulate(PUMA, t=0.1).save(tmp_path / "a.npz")
    data = whole.read_bytes()
    with np.load(whole) as arrays:
        np.savez(tmp_path / "no_q.npz", **{k: arrays[k] for k in arrays.files if k != "q"})
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "cut.npz").write_bytes(data[:len(data) // 2])
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "folder.zarr").mkdir()
    for name in ("no_q.npz", "array.npy", "cut.npz", "empty.npz", "folder.zarr"):
        if name.endswith("zarr"):
            pytest.importorskip("zarr")
        with pytest.raises(ValueError, match="not a run that nlink wrote") as caught:
            nlink.load_run(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_spoiled_run_under_way_is_refused(tmp_path):
    nlink.simulate(PUMA, save=tmp_path / "run", **OPTIONS)
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(ValueError, match=r"not a run under way: run\.json has no robot"):
        nlink.load_run(tmp_path / "run")


class Stop(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize(("method", "name"), [
    ("rkf45", "run"), ("dop853", "run.zarr"), ("abm", "run.npz"), ("symplectic", "run")])
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, monkeypatch, until_done, method,
                                                     name):
    if name.endswith(".zarr"):
        pytest.importorskip("zarr")
    monkeypatch.setattr("nlink.simulation.simulator.SLICE", 1e-5)
    monkeypatch.setattr("nlink.storage.run_store.BLOCK", 4 * 101 * 12 * 8)  # four trajectories
    q0, qd0 = PUMA.random_state(0, (6,))
    options = OPTIONS | {"method": method, "every": 0.01}
    options["tau"] = lambda t, q, qd: [nlink.sin(t) - v for v in qd]
    whole = nlink.simulate(PUMA, q0, qd0, **options)
    path = tmp_path / name

    def so_far(looks):
        part = nlink.load_run(path)
        q = np.asarray(part.q)
        known = np.isfinite(q)
        assert np.array_equal(q[known], whole.q[known])
        assert "running" in part.status or looks[-1] == 1.0

    run, looks = until_done(lambda progress: nlink.simulate(
        PUMA, q0, qd0, save=path, progress=progress, **options), 9, so_far)
    assert len(looks) > 3
    assert np.array_equal(run.q, whole.q)
    assert np.array_equal(nlink.load_run(path).qd, whole.qd)
    assert np.array_equal(nlink.load_run(path).tau, whole.tau)
    assert looks == sorted(looks)


def test_a_run_interrupted_before_its_first_output_keeps_its_start(tmp_path, monkeypatch):
    monkeypatch.setattr("nlink.simulation.simulator.SLICE", 1e-5)
    options = {"t": [0.0, 1.0], "method": "rkf45"}
    whole, calls = nlink.simulate(PUMA, **options), []

    def interrupt(share):
        calls.append(share)
        if share == 0 and len(calls) < 3:
            raise Stop

    for _ in range(2):
        with pytest.raises(Stop):
            nlink.simulate(PUMA, save=tmp_path / "run", progress=interrupt, **options)
    run = nlink.simulate(PUMA, save=tmp_path / "run", progress=interrupt, **options)
    assert np.array_equal(run.q, whole.q)


def test_a_run_interrupted_before_its_first_step_keeps_the_modes_of_its_start(tmp_path,
                                                                             monkeypatch):
    """Whether rates stick or slide is decided before the first step."""
    monkeypatch.setattr("nlink.simulation.simulator.SLICE", 1e-7)
    robot = nlink.load("planar3").with_friction(dry=0.3)
    q0 = np.random.default_rng(0).normal(size=(3, 3))
    options = {"t": 0.1, "every": 0.05, "method": "dop853", "threads": 1}

    def interrupt(_share):
        raise Stop

    with pytest.raises(Stop):
        nlink.simulate(robot, q0, save=tmp_path / "run", progress=interrupt, **options)
    run = nlink.simulate(robot, q0, save=tmp_path / "run", **options)
    assert np.array_equal(run.modes, nlink.simulate(robot, q0, **options).modes)


def test_a_directory_of_another_run_is_not_touched(tmp_path):
    nlink.simulate(PUMA, save=tmp_path / "run", **OPTIONS)
    with pytest.raises(ValueError, match="holds another run"):
        nlink.simulate(PUMA, save=tmp_path / "run", **(OPTIONS | {"t": 2.0}))


def test_what_is_no_run_under_way_is_not_touched(tmp_path):
    pytest.importorskip("zarr")
    (tmp_path / "empty.zarr").mkdir()
    nlink.simulate(PUMA, t=0.1).save(tmp_path / "whole.zarr")
    for name in ("empty.zarr", "whole.zarr"):
        with pytest.raises(ValueError, match=r"is damaged, or no run under way: .*; remove it"):
            nlink.simulate(PUMA, t=0.1, save=tmp_path / name)
    assert nlink.load_run(tmp_path / "whole.zarr").ok


@pytest.mark.slow
def test_a_finished_run_is_not_computed_again(tmp_path):
    pytest.importorskip("zarr")
    for name in ("run", "run.zarr"):
        shares = []
        first, again = (nlink.simulate(PUMA, PUMA.random_state(0, (3,))[0], save=tmp_path / name,
                                       progress=shares.append, **OPTIONS) for _ in range(2))
        assert shares == sorted(shares)
        assert np.array_equal(first.q, again.q)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "name"), [
    (signal.SIGINT, "run.zarr"), (signal.SIGKILL, "run")])
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_killed_run_resumes_to_the_same_numbers(tmp_path, how, name):
    if name.endswith(".zarr"):
        pytest.importorskip("zarr")
    path = tmp_path / name
    text = f"""
import time, nlink
robot = nlink.load("puma560")
q0, qd0 = robot.random_state(0, (1000,))
def wait(share):  # to be killed
    if share > 0.2:
        print("far enough", flush=True)
        time.sleep(3600)
nlink.simulate(robot, q0, qd0, t=20.0, every=1.0, method="dop853", save={str(path)!r},
               threads=1, progress=wait)
"""
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "far enough\n"
    process.send_signal(how)
    process.communicate()
    part = nlink.load_run(path)
    running = part.status == "running"
    assert running.any()
    q0, qd0 = PUMA.random_state(0, (1000,))
    options = {"t": 20.0, "every": 1.0, "method": "dop853"}
    run = nlink.simulate(PUMA, q0, qd0, save=path, threads=1, **options)
    some = np.array([0, 1, 500, 999])
    alone = nlink.simulate(PUMA, q0[some], qd0[some], **options)
    assert np.array_equal(np.asarray(run.q)[some], alone.q)


def test_xarray_has_labels():
    pytest.importorskip("xarray")
    data = nlink.simulate(PUMA, PUMA.random_state(0, (2,))[0], t=0.1).to_xarray()
    assert data.q.dims == ("ensemble", "time", "coordinate")
    assert float(data.time[-1]) == 0.1


def test_zarr_holds_the_same(tmp_path):
    pytest.importorskip("zarr")
    run = nlink.simulate(PUMA, t=0.1)
    again = nlink.load_run(run.save(tmp_path / "a.zarr"))
    assert np.array_equal(again.q, run.q)
    assert again.method == run.method


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory, as Linux counts it")
@pytest.mark.parametrize("name", ["run", "run.zarr"])
def test_memory_does_not_grow_with_the_ensemble(tmp_path, name):
    """30,000 trajectories of one second, 290 MB of states; 1 % of them fail, and alone."""
    if name.endswith(".zarr"):
        pytest.importorskip("zarr")
    text = f"""
import re
from pathlib import Path
import nlink, numpy as np
from nlink.storage import run_store

run_store.BLOCK //= 8
def peak():  # of this process alone; that of `resource` begins with its parent's
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

robot = nlink.load("puma560")
q0, qd0 = robot.random_state(0, (30_000,))
bad = np.arange(0, 30_000, 100)
q0[bad[::2], 2], qd0[bad[1::2], 0] = np.nan, 1e300
options = {{"t": 1.0, "method": "dop853", "rtol": 1e-6}}
nlink.simulate(robot, q0[:8], qd0[:8], save={str(tmp_path / f"small{name[3:]}")!r}, **options)
before = peak()
shares = []
run = nlink.simulate(robot, q0, qd0, save={str(tmp_path / name)!r}, progress=shares.append,
                     **options)
print((peak() - before) / 1024)
assert run.q.shape == (30_000, 101, 6)
assert np.array_equal(run.failed.ravel(), bad)
assert set(run.status[bad]) == {{"not finite"}}
assert len(shares) > 3 and shares == sorted(shares) and shares[-1] == 1.0
some = slice(15_000, 15_008)
alone = nlink.simulate(robot, q0[some], qd0[some], **options)
assert np.array_equal(run.q[some], alone.q, equal_nan=True)
assert "300 not to the end" in repr(run)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 120


@pytest.mark.parametrize("name", ["run", "run.zarr"])
def test_events_of_other_names_and_other_versions_are_other_runs(tmp_path, monkeypatch, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    path = tmp_path / name
    nlink.simulate(PUMA, events={"A": lambda t, q, qd: q[0]}, save=path, **OPTIONS)
    with pytest.raises(ValueError, match="holds another run"):
        nlink.simulate(PUMA, events={"B": lambda t, q, qd: q[0]}, save=path, **OPTIONS)
    from nlink.backends.llvm import loading

    monkeypatch.setattr(loading, "source_contents", lambda: "another")
    with pytest.raises(ValueError, match="holds this run by another version of nlink"):
        nlink.simulate(PUMA, events={"A": lambda t, q, qd: q[0]}, save=path, **OPTIONS)


def test_an_interrupted_run_beside_an_older_one_is_mentioned(tmp_path):
    path = tmp_path / "run.npz"
    older = nlink.simulate(PUMA, save=path, **OPTIONS)

    def interrupt(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nlink.simulate(PUMA, np.full(6, 0.1), save=path, progress=interrupt, **OPTIONS)
    with pytest.warns(UserWarning, match=r"an interrupted one of the same name is in .*\.part"):
        assert np.array_equal(nlink.load_run(path).q, older.q)
    assert nlink.load_run(f"{path}.part").q[0].tolist() == [0.1] * 6


class Bomb:
    """What makes a directory when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def test_no_pickle_of_a_zarr_store_is_read(tmp_path, monkeypatch):
    """Format 2 knows a filter that unpickles, as older numcodecs do unasked; only 3 is read."""
    pytest.importorskip("zarr")
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    store, array = tmp_path / "evil.zarr", tmp_path / "evil.zarr" / "t"
    array.mkdir(parents=True)
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    (store / ".zattrs").write_text('{"lead": []}')
    (array / ".zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "compressor": None,
        "fill_value": "", "order": "C", "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]}))
    (array / "0").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    with pytest.raises(ValueError, match="not a run that nlink wrote"):
        nlink.load_run(store)
    assert not (tmp_path / "exploded").exists()


def test_an_old_zarr_is_refused_by_a_sentence(tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr")
    monkeypatch.setattr(zarr, "__version__", "2.18.3")
    (tmp_path / "run.zarr").mkdir()
    with pytest.raises(ImportError, match=r"need zarr 3\.1 or later, not 2\.18\.3"):
        nlink.load_run(tmp_path / "run.zarr")
