"""Where runs are saved: no file of anybody else is written over, removed or written through."""

from __future__ import annotations

import os
import random
import shutil

import numpy as np
import pytest

import nlink
from nlink import cli
from nlink.storage.array_store import DirectoryArrays

ARM = nlink.load("double_pendulum")


def simulate(path):
    return nlink.simulate(ARM, [[1.0, 0.0]], t=1.0, every=0.1, save=path,
                          tau=lambda t, q, qd: [-v for v in qd],
                          events={"half": lambda t, q, qd: t - 0.55})


def contents(path):
    return {each.name: each.read_bytes() for each in path.iterdir() if each.is_file()}


@pytest.mark.parametrize("name", ["y.npy", "events.bin", "notes.txt", "records.npy"])
def test_a_directory_of_other_files_is_refused_and_left_as_it_is(tmp_path, name):
    place = tmp_path / "mine"
    place.mkdir()
    (place / name).write_text("mine")
    with pytest.raises(ValueError, match=rf"save: .*mine holds {name}, and no run; expected a new"):
        simulate(place)
    assert contents(place) == {name: b"mine"}
    assert cli.run(["simulate", "double_pendulum", "--t", "0.1", "--out", str(place)]) == 2
    assert contents(place) == {name: b"mine"}


@pytest.mark.parametrize("name", ["", ".", "..", "below/.."])
def test_a_run_wants_a_name_of_its_own(tmp_path, monkeypatch, capsys, name):
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ValueError, match=r"save: .*, expected the name of a new file or directory"):
        simulate(name)
    for command in (["simulate", "double_pendulum"], ["demo"], ["reproduce"]):
        assert cli.run([*command, "--out", name]) == 2
        assert "--out: " in capsys.readouterr().err
    assert {each.name for each in tmp_path.rglob("*")} == {"here", "below"}


def test_a_file_and_a_link_are_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="file is a file, expected a new name or an empty"):
        simulate(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    for name in ("link", "link.zarr"):
        (tmp_path / name).symlink_to(tmp_path / "empty")
        with pytest.raises(ValueError, match=rf"save: .*{name} is a link, expected a name of its"):
            simulate(tmp_path / name)
    assert not any((tmp_path / "empty").iterdir())
    assert simulate(tmp_path / "empty").ok


@pytest.mark.skipif(os.name != "posix", reason="pipes")
@pytest.mark.parametrize("name", ["run.json", "y.npy", "tau.npy", "records.npy", "events.bin"])
def test_files_of_a_run_that_are_links_or_pipes_are_refused(tmp_path, name):
    simulate(tmp_path / "run")
    file, other = tmp_path / "run" / name, tmp_path / "other"
    os.replace(file, other)
    before = other.read_bytes()
    for kind, make in (("link", lambda: file.symlink_to(other)), ("pipe", lambda: os.mkfifo(file)),
                       ("link", lambda: file.symlink_to("/dev/zero"))):
        make()
        for call in (simulate, nlink.load_run):
            with pytest.raises(ValueError, match=f"{name} is a {kind}, expected a file") as caught:
                call(tmp_path / "run")
            assert "\n" not in str(caught.value)
        file.unlink()
    assert other.read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
@pytest.mark.parametrize("seed", range(10))
def test_hostile_directories_again_and_again(tmp_path, seed):
    """Files, links, pipes and directories under the names that a run has, among them parts of a
    real one: refused in one sentence, or continued to the same numbers; all else stays as it is."""
    rng, outside, place = random.Random(seed), tmp_path / "outside", tmp_path / "place"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    whole = simulate(tmp_path / "whole")
    names = sorted(contents(tmp_path / "whole"))
    for _ in range(8):
        if rng.random() < 0.5:
            shutil.copytree(tmp_path / "whole", place)
        else:
            place.mkdir()
        for name in rng.sample([*names, "notes.txt", ".hidden", "y.npy.tmp"], rng.randrange(1, 4)):
            file = place / name
            file.unlink(missing_ok=True)
            match rng.choice(["text", "bytes", "link", "pipe", "directory", "json", "none"]):
                case "text":
                    file.write_text("mine")
                case "bytes":
                    file.write_bytes(rng.randbytes(rng.randrange(3000)))
                case "link":
                    file.symlink_to(rng.choice([outside / "mine", outside / "new", outside,
                                                "/dev/zero"]))
                case "pipe":
                    os.mkfifo(file)
                case "directory":
                    file.mkdir()
                case "json":
                    file.write_text(rng.choice(["[" * 10**5, "{}", '{"digest": 1e999}', "null"]))
        before = contents(place)
        run, said = None, ""
        try:
            run = simulate(place)
        except ValueError as error:
            said = str(error)
        assert "\n" not in said
        assert contents(place) == before if run is None else np.array_equal(run.q, whole.q)
        assert contents(outside) == {"mine": b"mine"}
        shutil.rmtree(place)


class Killed(BaseException):
    """What ends a process at once, as far as files are concerned."""


def test_the_making_of_a_directory_may_be_killed_at_any_file(tmp_path, monkeypatch):
    """The same call makes it again, in the same directory; another run may have it as well."""
    whole = simulate(None)
    steps = {"add": 3, "add_records": 1, "publish": 1}
    for method, times in steps.items():
        for allowed in range(times):
            path, left = tmp_path / f"{method}{allowed}", [allowed]
            true = getattr(DirectoryArrays, method)

            def dies(self, *given, left=left, true=true):
                if not left[0]:
                    (self.folder / ".half.tmp").write_text("half")
                    raise Killed
                left[0] -= 1
                return true(self, *given)

            with monkeypatch.context() as patched:
                patched.setattr(DirectoryArrays, method, dies)
                try:
                    simulate(path)
                except Killed:
                    assert not (path / "run.json").exists()
            assert np.array_equal(simulate(path).q, whole.q)
            assert not any(each.name.startswith(".") for each in path.iterdir())
            assert np.array_equal(nlink.load_run(path).tau, whole.tau)


def test_what_lies_beside_a_run_that_became_a_file_stays(tmp_path):
    part = tmp_path / "run.npz.part"
    path = tmp_path / "run.npz"

    def note(_share):
        (part / "notes.txt").write_text("mine")

    nlink.simulate(ARM, [1.0, 0.0], t=0.1, save=path, progress=note)
    assert contents(part) == {"notes.txt": b"mine"}
    assert path.exists()


def test_a_group_replaces_runs_only(tmp_path):
    zarr = pytest.importorskip("zarr")
    run = nlink.simulate(ARM, [1.0, 0.0], t=0.1)
    zarr.open_group(tmp_path / "other.zarr", mode="w").create_array("x", data=np.ones(3))
    with pytest.raises(ValueError, match="holds something else than a run"):
        run.save(tmp_path / "other.zarr")
    assert zarr.open_group(tmp_path / "other.zarr", mode="r")["x"][0] == 1
    (tmp_path / "link.zarr").symlink_to(tmp_path / "other.zarr")
    with pytest.raises(ValueError, match=r"link.zarr is a link, expected a new name or that of a"):
        run.save(tmp_path / "link.zarr")
    for _ in range(2):
        run.save(tmp_path / "mine.zarr")
    assert nlink.load_run(tmp_path / "mine.zarr").ok


def test_a_file_replaces_runs_only(tmp_path):
    run = nlink.simulate(ARM, [1.0, 0.0], t=0.1)
    path, link = tmp_path / "mine.npz", tmp_path / "link.npz"
    for write in (lambda: path.write_text("mine"), lambda: np.savez(path, q=np.ones(3))):
        write()
        before = path.read_bytes()
        for argument, call in (("path", run.save), ("save", simulate)):
            with pytest.raises(ValueError, match=f"^{argument}: .*holds something else than a run"):
                call(path)
        assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["mine.npz"]
    link.symlink_to(path)
    for call in (run.save, simulate):
        with pytest.raises(ValueError, match=r"link.npz is a link, expected a new name or that of"):
            call(link)
    path.write_bytes(b"")
    for _ in range(2):  # an empty file is as good as none, and its own run is replaced
        run.save(path)
        assert simulate(path).ok
    assert nlink.load_run(path).ok


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_group_writes_through_no_link(tmp_path):
    pytest.importorskip("zarr")
    simulate(tmp_path / "run.zarr")
    outside = tmp_path / "outside"
    os.replace(tmp_path / "run.zarr" / "q", outside)
    (tmp_path / "run.zarr" / "q").symlink_to(outside)
    for call in (simulate, nlink.load_run):
        with pytest.raises(ValueError, match="q is a link, expected a file or") as caught:
            call(tmp_path / "run.zarr")
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="it is a device, expected a file"):
        nlink.load_run("/dev/zero")
