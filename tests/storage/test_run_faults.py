"""Faults around runs on disk: changed files, several writers, errors and interrupts."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import nlink
from nlink.backends.llvm import loading
from nlink.backends.llvm.threads import InterruptKeptBack
from nlink.formats.files import name_beside
from nlink.storage import checks, event_log
from nlink.storage.locking import one_writer

DOUBLE = nlink.load("double_pendulum")
STARTS = np.random.default_rng(0).normal(size=(6, 2))
OPTIONS = {"t": 4.0, "every": 0.1, "threads": 1, "method": "dop853", "rtol": 1e-7,
           "tau": lambda t, q, qd: [-0.1 * v for v in qd],
           "events": {"turns": lambda t, q, qd: qd[0], "passes": lambda t, q, qd: q[1]}}
KINDS = ["run", "run.npz", "run.zarr"]
kinds = pytest.mark.parametrize("name", KINDS)


class Stop(Exception):
    pass


def simulate(path=None, **options):
    return nlink.simulate(DOUBLE, STARTS, save=path, **(OPTIONS | options))


def interrupted(path, monkeypatch, looks=3):
    """A run that is stopped on its way."""
    monkeypatch.setattr("nlink.simulation.simulator.SLICE", 1e-6)
    seen = []

    def stop(share):
        seen.append(share)
        if len(seen) == looks:
            raise Stop

    with pytest.raises(Stop):
        simulate(path, progress=stop)
    return path


def equal(run, whole):
    return all(np.array_equal(getattr(run, name), getattr(whole, name), equal_nan=True)
               for name in ("q", "qd", "tau", "t_end")) and all(
        np.array_equal(getattr(run.events, name), getattr(whole.events, name))
        for name in ("trajectory", "t", "which", "q", "qd"))


def changed_records(path, change, *, sealed):
    """Records with other numbers, and sums that fit them or not."""
    raw = np.load(path / "records.npy")
    head = json.loads((path / "run.json").read_text())
    records, sums = checks.unseal(raw, head)
    change(records)
    new = checks.seal(records, sums)
    if not sealed:
        new[:, -8:] = raw[:, -8:]
    np.save(path / "records.npy", new)


def set_to(name, value):
    def change(records):
        records[name][0] = value
    return change


RECORDS = {"next": 10**7, "fill": 10**7, "status": 77, "events": -1, "steps": -5, "t": 1e9,
           "h": -1.0}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", RECORDS)
def test_changed_records_are_refused(tmp_path, monkeypatch, name):
    path = interrupted(tmp_path / "run", monkeypatch)
    for sealed, said in ((True, "out of range|status code 77"), (False, "a record was changed")):
        copy = shutil.copytree(path, tmp_path / str(sealed))
        changed_records(copy, set_to(name, RECORDS[name]), sealed=sealed)
        with pytest.raises(ValueError, match=f"no run under way: .*({said}).*; remove it"):
            simulate(copy)
        with pytest.raises(ValueError, match=f"not a run under way: .*({said})"):
            nlink.load_run(copy)


def wider_records(path):
    raw = np.load(path / "records.npy")
    np.save(path / "records.npy", np.hstack([raw, raw]))


def longer_times(path):
    head = json.loads((path / "run.json").read_text())
    head["t"] += [head["t"][-1] + 1.0]
    (path / "run.json").write_text(json.dumps(head))


def states(change):
    def rewrite(path):
        y = np.load(path / "y.npy")
        np.save(path / "y.npy", change(y))
    return rewrite


def one_state(y):
    y[0, 0, 1] = np.nextafter(y[0, 0, 1], 9)
    return y


def fewer_events(path):
    data = (path / event_log.EVENTS).read_bytes()
    (path / event_log.EVENTS).write_bytes(data[:-event_log.row_type(4).itemsize])


CHANGES = {"a wider records.npy": wider_records, "more times": longer_times,
           "states of another shape": states(lambda y: y[:, :-1]),
           "more states": states(lambda y: np.concatenate([y, y])),
           "states of another dtype": states(lambda y: y.astype("f4")),
           "states of the other byte order": states(lambda y: y.astype(">f8")),
           "states columns first": states(np.asfortranarray), "one state": states(one_state),
           "a lost event": fewer_events,
           "no events": lambda path: (path / event_log.EVENTS).unlink(),
           "no states": lambda path: (path / "y.npy").unlink()}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_directory_is_refused_in_one_sentence(tmp_path, monkeypatch, change):
    path = interrupted(tmp_path / "run", monkeypatch, 10)
    change(path)
    with pytest.raises(ValueError, match=f"{path} is damaged, or no run under way") as caught:
        simulate(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["q", "qd", "tau", "records"])
def test_a_changed_group_is_refused(tmp_path, name):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "run.zarr"
    simulate(path)
    group = zarr.open_group(str(path), mode="r+")
    values = group[name][...]
    values.view(np.uint8).reshape(-1)[40] ^= 1
    group[name][...] = values
    with pytest.raises(ValueError, match=r"was changed|were changed"):
        simulate(path)
    group.create_array(name, data=values[:, 1:], overwrite=True)
    for call in (simulate, nlink.load_run):
        with pytest.raises(ValueError, match="expected"):
            call(path)


def test_a_changed_force_of_a_finished_run_is_refused(tmp_path):
    simulate(tmp_path / "run")
    tau = np.load(tmp_path / "run" / "tau.npy", mmap_mode="r+")
    tau[3, 7, 0] += 1e-9
    tau.flush()
    with pytest.raises(ValueError, match="joint forces were changed"):
        simulate(tmp_path / "run")


def test_a_run_with_an_unknown_status_is_refused(tmp_path):
    path = simulate().save(tmp_path / "a.npz")
    with np.load(path) as data:
        arrays = dict(data)
    arrays["status"][0] = 99
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="the status code 99, expected one of 0 to"):
        nlink.load_run(path)


@kinds
def test_one_process_at_a_time_writes_an_output(tmp_path, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    path = tmp_path / name
    whole = simulate()
    with one_writer(path):
        with pytest.raises(ValueError, match=f"{path} is being written by another process"):
            simulate(path)
        if path.suffix:
            with pytest.raises(ValueError, match="is being written by another process"):
                whole.save(path)
    assert equal(simulate(path), whole)
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_dead_process_keeps_no_lock(tmp_path):
    path = tmp_path / "run"
    text = f"""
from pathlib import Path
from nlink.storage.locking import one_writer
with one_writer(Path({str(path)!r})):
    print("held", flush=True)
    input()
"""
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="another process"):
            simulate(path)
        process.kill()
        process.wait()
        assert simulate(path).ok


def test_what_killed_writers_left_is_removed(tmp_path):
    path, other = tmp_path / "run.npz", tmp_path / "run.np"
    mine, its = (name_beside(each, "0.tmp") for each in (path, other))
    mine.write_bytes(b"half")
    its.write_bytes(b"half")
    name_beside(path, "1.tmp").mkdir()
    run = simulate(path)
    assert {each.name for each in tmp_path.iterdir()} == {"run.npz", its.name}
    mine.write_bytes(b"half")
    run.save(path)
    assert not mine.exists()
    assert its.exists()


def test_a_run_that_became_a_file_is_in_memory(tmp_path):
    """Where files in use cannot be removed, nothing uses them any more."""
    run = simulate(tmp_path / "run.npz")
    for array in (run.q, run.qd, run.tau):
        while array is not None:
            assert not isinstance(array, np.memmap)
            array = array.base


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "run.zarr"])
def test_events_survive_an_error_of_the_disk(tmp_path, monkeypatch, name):
    """Rows that were written in part, or not at all, are written again."""
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    monkeypatch.setattr("nlink.simulation.simulator.SLICE", 1e-6)
    monkeypatch.setattr("nlink.simulation.simulator.CHECKPOINT", 0.0)
    whole, sync, calls = simulate(), os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) % 3 == 0 and len(calls) < 30:
            os.truncate(handle, os.fstat(handle).st_size - 7)
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(event_log.os, "fsync", full)
    for _ in range(100):
        try:
            run = simulate(tmp_path / name)
            break
        except OSError as error:
            assert error.errno == 28  # noqa: PT017
    assert len(calls) > 5
    assert equal(run, whole)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("seed", range(4))
def test_no_interrupt_is_badly_timed(tmp_path, monkeypatch, seed):
    """Ctrl-C at any line of what collects events, writes checkpoints and waits for threads."""
    monkeypatch.setattr("nlink.simulation.simulator.SLICE", 1e-6)
    monkeypatch.setattr("nlink.simulation.simulator.CHECKPOINT", 0.0)
    whole, rng, interrupts, left = simulate(), random.Random(seed), 0, 0

    def trace(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.endswith(("event_log.py", "run_store.py", "array_store.py",
                                                  "process_kernel.py")):
            return None
        if event == "line":
            left -= 1
            if left == 0 and interrupts < 30:
                signal.raise_signal(signal.SIGINT)
        return trace

    while True:
        left = rng.randrange(1, 1000)
        sys.settrace(trace)
        try:
            run = simulate(tmp_path / "run", threads=2)
            break
        except KeyboardInterrupt:
            interrupts += 1
        finally:
            sys.settrace(None)
    assert interrupts > 2
    assert equal(run, whole)


def test_an_interrupt_is_held_back_and_not_lost():
    done = []

    def held():
        with InterruptKeptBack():
            signal.raise_signal(signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        held()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_version_is_its_text_and_not_its_time(tmp_path, monkeypatch):
    for name in ("__init__.py", "a.py"):
        (tmp_path / name).write_text(f"# {name}")
    monkeypatch.setattr(nlink, "__file__", str(tmp_path / "__init__.py"))
    digest = loading.source_contents.__wrapped__
    before = digest()
    os.utime(tmp_path / "a.py", (0, 0))
    assert digest() == before
    (tmp_path / "a.py").write_text("# b.py")
    assert digest() != before


def test_the_sums_see_every_bit():
    words = np.random.default_rng(0).integers(0, 2**63, (1, 9), dtype=np.uint64)
    bits = [(k, bit) for k in range(9) for bit in range(64)]
    seen = {int(checks.checksum(words)[0])}
    for k, bit in bits:
        other = words.copy()
        other[0, k] ^= np.uint64(1 << bit)
        seen.add(int(checks.checksum(other)[0]))
    assert len(seen) == 1 + len(bits)
    signs = words ^ np.uint64(1 << 63) * np.isin(np.arange(9), (2, 5)).astype(np.uint64)
    assert checks.checksum(signs) != checks.checksum(words)
