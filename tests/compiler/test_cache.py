"""The cache: a second process compiles nothing, and nothing on disk can do harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from random_programs import random_program

from nlink.compiler import cache, load_kernel

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("NLINK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Builder:
    """Counts how often a program was asked for."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return random_program(3, size=20, shapes=((3,),), outs=((2,),))


def value(build, recipe="recipe"):
    return load_kernel(recipe, build)(np.array([0.1, 0.2, 0.3]))


def entry(place: Path) -> Path:
    (found,) = place.glob(f"*{cache.SUFFIX}")
    return found


def test_the_second_load_builds_nothing(place):
    build = Builder()
    assert (value(build) == value(build)).all()
    assert build.calls == 1
    value(build, "another recipe")
    assert build.calls == 2
    assert cache.info().entries == 2
    assert cache.info().size > 0
    assert cache.clear() == 2
    assert cache.info().entries == 0
    value(build)
    assert build.calls == 3


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


CORRUPTIONS = {
    "empty": lambda path, data: path.write_bytes(b""),
    "one byte": lambda path, data: path.write_bytes(data[:1]),
    "half": lambda path, data: path.write_bytes(data[:len(data) // 2]),
    "last byte gone": lambda path, data: path.write_bytes(data[:-1]),
    "longer": lambda path, data: path.write_bytes(data + b"\0"),
    "magic altered": lambda path, data: path.write_bytes(flip(data, 3)),
    "signature altered": lambda path, data: path.write_bytes(flip(data, len(cache.MAGIC) + 2)),
    "head altered": lambda path, data: path.write_bytes(flip(data, 60)),
    "code altered": lambda path, data: path.write_bytes(flip(data, len(data) - 900)),
    "zeros": lambda path, data: path.write_bytes(bytes(len(data))),
    "noise": lambda path, data: path.write_bytes(os.urandom(len(data))),
    "text": lambda path, data: path.write_text("not a kernel"),
    "a directory": lambda path, data: (path.unlink(), path.mkdir()),
    "another secret": lambda path, data: (path.parent / cache.SECRET).write_bytes(os.urandom(32)),
    "a short secret": lambda path, data: (path.parent / cache.SECRET).write_bytes(b"x"),
    "no secret": lambda path, data: (path.parent / cache.SECRET).unlink(),
}


@pytest.mark.parametrize("how", CORRUPTIONS)
def test_a_corrupt_entry_is_compiled_again(place, how):
    build = Builder()
    expected = value(build)
    path = entry(place)
    CORRUPTIONS[how](path, path.read_bytes())
    assert (value(build) == expected).all()
    assert build.calls == 2
    if how != "a directory":  # and the entry was mended
        value(build)
        assert build.calls == 2


def test_an_entry_of_another_key_is_foreign(place):
    build = Builder()
    value(build, "one")
    first = entry(place)
    content = first.read_bytes()
    cache.clear()
    value(build, "two")
    entry(place).write_bytes(content)
    value(build, "two")
    assert build.calls == 3


def test_a_signed_entry_of_nonsense_is_compiled_again(place, monkeypatch):
    build = Builder()
    expected = value(build)
    monkeypatch.setattr(cache, "read", lambda key: b"\x02" + bytes(7) + b"{}")
    assert (value(build) == expected).all()
    assert build.calls == 2


@pytest.mark.parametrize("off", ["off", "0", "", " OFF "])
def test_the_cache_can_be_switched_off(place, monkeypatch, off):
    monkeypatch.setenv("NLINK_CACHE", off)
    build = Builder()
    value(build)
    value(build)
    assert build.calls == 2
    assert not place.exists()
    assert cache.info().directory is None
    assert cache.clear() == 0


@posix
def test_files_are_private(place):
    value(Builder())
    assert place.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    assert sorted(path.suffix for path in place.iterdir()) == ["", cache.SUFFIX]


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_directory_others_may_write_to_is_not_used(place, mode):
    place.mkdir()
    place.chmod(mode)
    build = Builder()
    value(build)
    value(build)
    assert build.calls == 2
    assert not list(place.iterdir())


@posix
def test_a_directory_of_someone_else_or_a_link_is_not_used(place, monkeypatch, tmp_path):
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    place.symlink_to(real)
    build = Builder()
    value(build)
    assert not list(real.iterdir())
    place.unlink()
    value(build)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    value(build)
    assert build.calls == 3


def test_a_disk_that_cannot_be_written_is_no_cache(place, monkeypatch, tmp_path):
    build = Builder()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NLINK_CACHE", str(tmp_path / "file" / "below"))
    value(build)
    monkeypatch.setenv("NLINK_CACHE", str(place))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_replace", full)
    value(build)
    assert build.calls == 2
    assert cache.info().entries == 0


def test_the_oldest_entries_go_first(place, monkeypatch):
    for k in range(6):
        cache.write(f"key {k}", bytes(1000))
        os.utime(cache._path(place, f"key {k}"), (k, k))
    monkeypatch.setattr(cache, "BOUND", 4500)
    cache.write("newest", bytes(1000))
    assert [cache.read(f"key {k}") is not None for k in range(6)] == [False] * 3 + [True] * 3
    assert cache.read("newest") == bytes(1000)


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from random_programs import random_program
from nlink.compiler import load_kernel
def build():
    return random_program(3, size=20, shapes=((3,),), outs=((2,),))
for k in range(2):
    value = load_kernel(f"recipe {k}", build)(np.array([0.1, 0.2, 0.3]))
print(value.tobytes().hex())
"""


def test_eight_processes_on_an_empty_cache_at_once(place):
    here = str(Path(__file__).parent)
    running = [subprocess.Popen([sys.executable, "-c", SCRIPT, here], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for _ in range(8)]
    answers = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * 8, answers
    assert len({answer for answer, _ in answers}) == 1
    assert sorted(path.suffix for path in place.iterdir()) == ["", *[cache.SUFFIX] * 2]
    build = Builder()
    value(build, "recipe 0")
    assert build.calls == 0


def test_the_default_directory_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("NLINK_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.directory() == tmp_path / "xdg" / "nlink"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.directory() == tmp_path / ".cache" / "nlink"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.directory() == tmp_path / "Library" / "Caches" / "nlink"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache.directory() == tmp_path / "local" / "nlink" / "Cache"
