"""Formats on disk, to the byte: what is in tests/data/runs is read, and is written again as it is.

A change that fails here makes files of users unreadable, or other than they were: it wants a new
number of the format, and a reader of the old one.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import nlink
from nlink.storage.array_store import DirectoryArrays
from nlink.storage.event_log import EventLog
from nlink.storage.run_store import SavedStore, checked_head, open_store

RUNS = Path(__file__).parents[1] / "data" / "runs"
UNDER_WAY, FINISHED = RUNS / "rod", RUNS / "rod.npz"


def rod() -> nlink.Robot:
    return nlink.Robot.from_dh(
        [{"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
          "inertia": (0, 1 / 12, 1 / 12)}], gravity=(0, -9.81, 0), name="rod")


def falls(**options) -> nlink.simulation.Run:
    """What the files hold: a rod falls with two payloads, and passes an angle."""
    return nlink.simulate(rod(), [[0.1], [0.2]], t=[0.0, 0.05, 0.1], vary={"payload": [0.0, 1.0]},
                          events=[lambda t, q, qd: q[0] - 0.05], progress=False, **options)


@pytest.fixture
def under_way(tmp_path) -> Path:
    """A copy: a reader may lock what it reads."""
    return Path(shutil.copytree(UNDER_WAY, tmp_path / "rod"))


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_files_of_earlier_versions_are_read(kind, under_way):
    run, again = nlink.load_run(FINISHED if kind == "file" else under_way), falls()
    assert run.robot.to_toml() == rod().to_toml()
    assert list(run.status) == ["done", "done"]
    assert (run.stats.steps == again.stats.steps).all()
    assert run.events.names == again.events.names
    assert len(run.events) == len(again.events) > 0
    np.testing.assert_array_equal(run.variation.values, again.variation.values)
    for name in ("t", "q", "qd", "tau"):
        np.testing.assert_allclose(getattr(run, name), getattr(again, name), rtol=0, atol=1e-12)
    for name in ("trajectory", "t", "which", "q", "qd"):
        np.testing.assert_allclose(getattr(run.events, name), getattr(again.events, name),
                                   rtol=0, atol=1e-9)


def test_a_finished_run_is_written_as_it_was(tmp_path):
    path = nlink.load_run(FINISHED).save(tmp_path / "again.npz")
    with zipfile.ZipFile(FINISHED) as old, zipfile.ZipFile(path) as new:
        assert new.namelist() == old.namelist()
        for name in old.namelist():
            assert new.read(name) == old.read(name), name


def test_a_run_under_way_is_written_as_it_was(under_way, tmp_path):
    head, store = checked_head(DirectoryArrays, under_way), open_store(DirectoryArrays, under_way)
    log = EventLog(store.count, store.size, len(head["events"]))
    log.rows, log.sums = store.log.rows.copy(), store.log.sums.copy()
    place = tmp_path / "again"
    new = SavedStore.create(store.records, head, log, place, DirectoryArrays)
    new.take(0)
    new.out[:] = np.concatenate(
        list(store.known()[0].values()), axis=-1)
    new.finish(None)
    new.close()
    files = sorted(each.name for each in UNDER_WAY.iterdir())
    assert files == ["events.bin", "records.npy", "run.json", "y.npy"]
    for name in files:
        assert (place / name).read_bytes() == (UNDER_WAY / name).read_bytes(), name


def test_the_head_names_what_readers_rely_on():
    head = json.loads((UNDER_WAY / "run.json").read_text("utf-8"))
    assert {"method", "lead", "t", "velocity", "closing", "evaluations", "stages", "start", "nq",
            "parts", "forces", "vary", "events", "digest", "source", "robot", "record", "check",
            } <= set(head)
