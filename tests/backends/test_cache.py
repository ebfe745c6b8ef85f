"""The cache: a second process compiles nothing, and nothing on disk can do harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import platformdirs
import pytest
from random_programs import random_program

from nlink.backends.llvm import cache, loading, translate
from nlink.backends.llvm.loading import load_kernel

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("NLINK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Compilations:
    """Kernels of a program, and how often one was compiled."""

    def __init__(self, monkeypatch):
        self.count = 0
        monkeypatch.setattr(translate, "compile_program", self._compile)

    def _compile(self, *args, compile_program=translate.compile_program):
        self.count += 1
        return compile_program(*args)

    def __call__(self, seed=3):
        loading._LOADED.clear()  # as in another process
        program = random_program(seed, size=20, shapes=((3,),), outs=((2,),))
        return load_kernel(program)(np.array([0.1, 0.2, 0.3]))


@pytest.fixture
def value(monkeypatch):
    with monkeypatch.context() as patch:  # what kernels have in common is known, and no entry
        patch.setenv("NLINK_CACHE", "off")
        translate.compile_program(random_program(3, size=20, shapes=((3,),), outs=((2,),)))
    return Compilations(monkeypatch)


def entry(place: Path) -> Path:
    (found,) = place.glob(f"*{cache.SUFFIX}")
    return found


def test_the_second_load_compiles_nothing(value):
    assert (value() == value()).all()
    assert value.count == 1
    value(4)
    assert value.count == 2
    assert cache.info().entries == 2
    assert cache.info().size > 0
    assert cache.clear() == 2
    assert cache.info().entries == 0
    value()
    assert value.count == 3


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


@pytest.mark.sampled(6)
@pytest.mark.parametrize("how", CORRUPTIONS)
def test_a_corrupt_entry_is_compiled_again(place, value, how):
    expected = value()
    path = entry(place)
    CORRUPTIONS[how](path, path.read_bytes())
    assert (value() == expected).all()
    assert value.count == 2
    if how != "a directory":  # and the entry was mended
        value()
        assert value.count == 2


def test_an_entry_of_another_key_is_foreign(place, value):
    value(3)
    content = entry(place).read_bytes()
    cache.clear()
    expected = value(4)
    entry(place).write_bytes(content)
    assert (value(4) == expected).all()
    assert value.count == 3


def test_a_signed_entry_of_nonsense_is_compiled_again(value, monkeypatch):
    expected = value()
    monkeypatch.setattr(cache, "read", lambda key: b"\x02" + bytes(7) + b"{}")
    assert (value() == expected).all()
    assert value.count == 2


@pytest.mark.parametrize("off", ["off", "0", "", " OFF "])
def test_the_cache_can_be_switched_off(place, value, monkeypatch, caplog, off):
    monkeypatch.setenv("NLINK_CACHE", off)
    value()
    value()
    assert value.count == 2
    assert not place.exists()
    assert cache.info().directory is None
    assert "off" in cache.info().problem
    assert cache.clear() == 0
    assert not caplog.records


@posix
def test_files_are_private(place, value):
    value()
    assert place.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    assert sorted(path.suffix for path in place.iterdir()) == ["", cache.SUFFIX]


def told(caplog):
    """The one line about a directory that is not used."""
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("nlink", "WARNING")
    assert record.getMessage() == f"compiled kernels are not kept: {cache.info().problem}"
    caplog.clear()
    return cache.info().problem


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_directory_others_may_write_to_is_not_used_and_told_of_once(place, value, caplog, mode):
    place.mkdir()
    place.chmod(mode)
    value()
    value()
    assert value.count == 2
    assert not list(place.iterdir())
    assert f"mode {mode:o}" in told(caplog)


@posix
def test_a_directory_of_someone_else_or_a_link_is_not_used(place, value, monkeypatch, tmp_path,
                                                           caplog):
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    place.symlink_to(real)
    value()
    assert not list(real.iterdir())
    assert "link" in told(caplog)
    place.unlink()
    value()
    assert not cache.info().problem
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    value()
    assert "another user" in told(caplog)
    assert value.count == 3


@posix
def test_a_home_that_does_not_exist_is_no_cache(value, monkeypatch, caplog):
    monkeypatch.setenv("NLINK_CACHE", "~nosuchuser/x")
    value()
    assert "~nosuchuser/x" in told(caplog)
    assert cache.clear() == 0


def test_a_disk_that_cannot_be_written_is_no_cache(place, value, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NLINK_CACHE", str(tmp_path / "file" / "below"))
    value()
    monkeypatch.setenv("NLINK_CACHE", str(place))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_replace", full)
    value()
    assert value.count == 2
    assert cache.info().entries == 0


def test_the_oldest_entries_go_first(place, monkeypatch):
    for k in range(6):
        cache.write(f"key {k}", bytes(1000))
        os.utime(cache._path(place, f"key {k}"), (k, k))
    monkeypatch.setattr(cache, "BOUND", 4500)
    cache.write("newest", bytes(1000))
    assert [cache.read(f"key {k}") is not None for k in range(6)] == [False] * 3 + [True] * 3
    assert cache.read("newest") == bytes(1000)


def test_all_entries_are_looked_at_once_in_a_while(place, monkeypatch):
    """The first write of a process looks, and then one for each sixteenth of the bound."""
    looks = []
    monkeypatch.setattr(cache, "_evict", looks.append)
    monkeypatch.setattr(cache, "BOUND", 16 * 10_000)
    for k in range(100):
        cache.write(f"key {k}", bytes(1000))
    assert len(looks) == 1 + 99 // 11


def test_what_killed_processes_left_is_removed(place):
    place.mkdir(mode=0o700)
    old, fresh = (place / f".{name}{cache.TEMPORARY}" for name in ("old", "fresh"))
    for path in (old, fresh):
        path.write_bytes(b"half an ent")
    os.utime(old, (0, 0))
    cache.write("key", b"payload")
    assert (old.exists(), fresh.exists()) == (False, True)
    assert cache.clear() == 1
    assert [path.name for path in place.iterdir()] == [cache.SECRET]


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from random_programs import random_program
from nlink.backends.llvm.loading import load_kernel
for seed in (3, 4):
    program = random_program(seed, size=20, shapes=((3,),), outs=((2,),))
    value = load_kernel(program)(np.array([0.1, 0.2, 0.3]))
print(value.tobytes().hex())
"""


@pytest.mark.slow
def test_several_processes_on_an_empty_cache_at_once(place, value):
    here = str(Path(__file__).parent)
    running = [subprocess.Popen([sys.executable, "-c", SCRIPT, here], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0] * 4, answers
    assert len({answer for answer, _ in answers}) == 1
    assert {path.suffix for path in place.iterdir()} == {"", cache.SUFFIX}
    value(3)
    assert value.count == 0


@pytest.mark.skipif(sys.platform != "linux", reason="XDG directories are Linux's")
def test_the_default_directory_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("NLINK_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.directory() == tmp_path / "xdg" / "nlink"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.directory() == tmp_path / ".cache" / "nlink"


def test_a_default_directory_that_would_move_with_the_process_is_no_cache(monkeypatch):
    monkeypatch.delenv("NLINK_CACHE")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_, **__: Path("~/.cache/nlink"))
    assert cache.directory() is None
    assert cache.info().problem == "no home directory"
