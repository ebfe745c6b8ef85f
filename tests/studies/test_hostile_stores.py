"""Stores of sweeps that somebody damaged, or whose maker was killed: one sentence, nothing
believed, nothing written outside, and no hang."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nlink
from nlink.studies import ChunksFailed, SweepResult

for _package in ("zarr", "xarray", "fsspec", "scipy"):
    pytest.importorskip(_package)
pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, pipes and forks")
ARM = nlink.load("double_pendulum")


def sweep(path, **more):
    return nlink.sweep(ARM, t=0.1, sample="latin", count=12, chunk=4, seed=3,
                       vary={"payload": (0.0, 1.0)}, out=path, **more)


def sums(result):
    return {chunk: marker["sum"] for chunk, marker in result.markers.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "whole.zarr"
    return path, sums(sweep(path))


def edit(file: Path, **changes):
    """Change attributes of a group, or what is said of an array."""
    said = json.loads(file.read_text())
    (said["attributes"] if said["node_type"] == "group" else said).update(changes)
    file.write_text(json.dumps(said))


def replace(file: Path, make):
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    make(file)


DEEP = "[" * 100_000 + "]" * 100_000
LARGE = [10**15]
DAMAGE = {
    "deep": lambda path: (path / "zarr.json").write_text(DEEP),
    "deep array": lambda path: (path / "status/zarr.json").write_text(DEEP),
    "deep marker": lambda path: (path / "chunks/1.json").write_text(DEEP),
    "superscript": lambda path: (path / "chunks/\u00b2.json").write_text("{}"),
    "long number": lambda path: (path / f"chunks/{'9' * 200}.json").write_text("{}"),
    "beyond the end": lambda path: (path / "chunks/99.json").write_text(
        json.dumps(json.loads((path / "chunks/1.json").read_text()) | {"chunk": 99})),
    "numbers that are none": lambda path: (path / "chunks/1.json").write_text(
        json.dumps(json.loads((path / "chunks/1.json").read_text()) | {"steps": "many"})),
    "no markers": lambda path: shutil.rmtree(path / "chunks"),
    "no array": lambda path: shutil.rmtree(path / "q"),
    "no status": lambda path: shutil.rmtree(path / "status"),
    "empty": lambda path: (path / "zarr.json").write_text("{}"),
    "empty array": lambda path: (path / "q/zarr.json").write_text("{}"),
    "a list": lambda path: (path / "zarr.json").write_text("[]"),
    "large": lambda path: edit(path / "zarr.json", shape=LARGE),
    "large and fine": lambda path: edit(path / "zarr.json", shape=LARGE, chunk_shape=[1]),
    "large array": lambda path: edit(path / "q/zarr.json", shape=[10**15, 2]),
    "large chunks": lambda path: edit(path / "q/zarr.json", chunk_grid={
        "name": "regular", "configuration": {"chunk_shape": [10**15, 2]}}),
    "a shape of words": lambda path: edit(path / "zarr.json", shape=["a"]),
    "no labels": lambda path: edit(path / "zarr.json", labels=None),
    "a device": lambda path: replace(path / "zarr.json", lambda x: x.symlink_to("/dev/zero")),
    "a pipe": lambda path: replace(path / "zarr.json", os.mkfifo),
    "a pipe as array": lambda path: replace(path / "q/zarr.json", os.mkfifo),
    "a pipe as chunk": lambda path: replace(path / "q/c/1/0", os.mkfifo),
    "a device as chunk": lambda path: replace(
        path / "q/c/1/0", lambda x: x.symlink_to("/dev/zero")),
    "a pipe as marker": lambda path: replace(path / "chunks/1.json", os.mkfifo),
    "a device as marker": lambda path: replace(
        path / "chunks/1.json", lambda x: x.symlink_to("/dev/zero")),
    "a directory": lambda path: replace(path / "zarr.json", Path.mkdir),
    "a directory as array": lambda path: replace(path / "q/zarr.json", Path.mkdir),
    "a directory as chunk": lambda path: replace(path / "q/c/1/0", Path.mkdir),
    "a directory as marker": lambda path: replace(path / "chunks/1.json", Path.mkdir),
    "a link as array": lambda path: replace(
        path / "q", lambda x: x.symlink_to(path.parent / "outside")),
    "a link as markers": lambda path: replace(
        path / "chunks", lambda x: x.symlink_to(path.parent / "outside")),
}


def asks(path):
    yield lambda: repr(SweepResult(path))
    yield lambda: SweepResult(path).status()
    yield lambda: SweepResult(path).mean("q")
    yield lambda: nlink.open_sweep(path).sizes
    yield lambda: sweep(path)
    yield lambda: sweep(path, verify=True)


def check_asked(path: Path, outside: Path, expected) -> None:
    """Whatever is asked of a store is answered or one sentence, and nothing outside is touched;
    what the last question, a repair, gives is what an undamaged store has."""
    said = ""
    for ask in asks(path):
        said = ""
        try:
            ask()
        except (ValueError, ChunksFailed) as error:
            said = str(error)
        assert "\n" not in said
        assert not said or str(path) in said or said.startswith("what: 'q', expected one of")
    assert {each.name: each.read_text() for each in outside.iterdir()} == {"mine": "mine"}
    if not said:
        result = SweepResult(path)
        assert sums(result) == expected
        assert sum(result.status().values()) == 12


@pytest.fixture
def damaged(tmp_path, whole):
    """A store to be damaged, and a directory outside of it."""
    path, outside = tmp_path / "s.zarr", tmp_path / "outside"
    shutil.copytree(whole[0], path)
    outside.mkdir()
    (outside / "mine").write_text("mine")
    return path, outside


@pytest.mark.sampled(6)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_store_is_repaired_or_refused_in_one_sentence(damaged, whole, damage):
    DAMAGE[damage](damaged[0])
    check_asked(*damaged, whole[1])


MONSTERS = [b"nan", b"1e308", b"-1", b"9" * 20, b"null", b"[]", b"{}", b'"\\u001b[2J"',
            b"\xff\xfe", "\u00b2".encode()]


def spoil(path: Path, outside: Path, rng: random.Random) -> str:
    """Damage one thing of a store; what was done."""
    files = sorted(each for each in path.rglob("*") if each.is_file() and not each.is_symlink())
    file = rng.choice(files)
    data, kind = bytearray(file.read_bytes()), rng.choice(
        ["bits", "cut", "number", "word", "grow", "other", "remove", "link", "pipe", "directory",
         "folder", "name"])
    at = rng.randrange(len(data)) if data else 0
    if kind == "bits":
        data[at:at + 1] = bytes([data[at] ^ 1 << rng.randrange(8)]) if data else b"?"
    elif kind == "cut":
        del data[at:]
    elif kind == "number":  # some number of a text, or some bytes
        numbers = list(re.finditer(rb"\d+", data))
        begin, end = rng.choice(numbers).span() if numbers else (at, at + 1)
        data[begin:end] = rng.choice(MONSTERS)
    elif kind == "word":
        data[at:at + 4] = rng.choice(MONSTERS)
    elif kind == "grow":
        data += rng.randbytes(rng.randrange(1, 5000))
    elif kind == "other":
        data = bytearray(rng.choice(files).read_bytes())
    if kind in ("remove", "link", "pipe", "directory"):
        file.unlink()
    if kind in ("remove", "folder", "name"):
        if kind == "folder":
            shutil.rmtree(file.parent if file.parent != path else path / "q")
        elif kind == "name":
            file.rename(file.with_name(rng.choice(["\u00b2.json", "0.json", "x" * 200, "1", "\n"])))
    elif kind == "link":
        file.symlink_to(rng.choice([outside / "mine", outside, Path("/dev/zero"), path, files[0]]))
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    else:
        file.write_bytes(data)
    return f"{file.relative_to(path)}: {kind}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_hostile_stores_again_and_again(damaged, whole, seed):
    """Up to three things are damaged at once."""
    path, outside = damaged
    rng = random.Random(seed)
    print([spoil(path, outside, rng) for _ in range(rng.randrange(1, 4))])
    check_asked(path, outside, whole[1])


def test_a_link_is_no_place_for_a_sweep(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "s.zarr").symlink_to(tmp_path / "mine")
    with pytest.raises(ValueError, match=r"out: .*s.zarr is a link, expected a name of its own"):
        sweep(tmp_path / "s.zarr")
    assert not any((tmp_path / "mine").iterdir())


def test_names_from_a_store_are_spelled_out(tmp_path, whole):
    path = tmp_path / "s.zarr"
    shutil.copytree(whole[0], path)
    labels = json.loads((path / "zarr.json").read_text())["attributes"]["labels"]
    edit(path / "zarr.json", labels=labels | {"robot": ["\x1b[2J\x1b]0;mine\x07arm"]})
    assert repr(SweepResult(path)).isprintable()
    assert "\\x1b[2J" in repr(SweepResult(path))
    (path / "status/zarr.json").write_text('{"zarr_format": "\x1b[2J"}'.replace("\x1b", "\\u001b"))
    with pytest.raises(ValueError, match="not the store of a sweep") as caught:
        SweepResult(path)
    assert str(caught.value).isprintable()


KILLS = """
import os, sys
from pathlib import Path

import fsspec.implementations.local, xarray, zarr

import nlink
from nlink.studies.asking_study import study_of
from nlink.studies.sweep_store import SweepStore

root = Path(sys.argv[1])
study = study_of(nlink.load("double_pendulum"), None, None, 0.1, None, vary={"payload": [0.0, 1.0]},
                 sample="grid", count=None, seed=3, every=0.05, keep=("q",), chunk=1, events=None,
                 reproducible=False, options={})
seen = {"os.mkdir", "os.rename", "os.link", "os.remove"}

def files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*"))
            if file.is_file() and not file.name.endswith(".partial")}

def forked(path, kill=None):
    # the parent never uses zarr, so every child starts afresh
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status, count = 3, 0

    def hook(event, arguments):
        nonlocal count
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (
            os.O_WRONLY | os.O_RDWR)
        if (writes or event in seen) and any(str(path) in str(each) for each in arguments):
            if count == kill:
                os._exit(9)
            count += 1

    try:
        if kill is not None:
            sys.addaudithook(hook)
        SweepStore(path).prepare(study)
        status = 0
    finally:
        os._exit(status)

assert forked(root / "whole.zarr") == 0
whole, kills = files(root / "whole.zarr"), 0
while True:
    path = root / f"{kills}.zarr"
    status = forked(path, kills)
    if status == 0:
        break
    assert status == 9, status
    assert forked(path) == 0, f"the same call refuses what was killed at write {kills}"
    assert files(path) == whole, kills
    kills += 1
print(kills)
"""


@pytest.mark.slow
def test_a_client_may_be_killed_at_every_write_of_a_new_store(tmp_path):
    found = subprocess.run([sys.executable, "-c", KILLS, str(tmp_path)], text=True,
                           capture_output=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 20
