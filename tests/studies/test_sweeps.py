"""Sweeps: numbers are those of `simulate`, and do not depend on the order or the interruptions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nlink
from nlink import cli
from nlink.backends.llvm.host import host, portable
from nlink.simulation import PD, Payload
from nlink.studies import ChunksFailed, LogUniform, Normal, SweepResult, Uniform, chunks, read_study
from nlink.studies.drawing import unit_points
from nlink.studies.reductions import BINS
from nlink.studies.sweep_store import SweepStore

for _package in ("zarr", "xarray", "fsspec", "scipy"):
    pytest.importorskip(_package)

ARM = nlink.load("double_pendulum")
BOUNDS = {"payload": Uniform(0.0, 1.0), "q0": Uniform([-1.0, -1.0], [1.0, 1.0])}


def sample(out, sample="latin", **more):
    given = {"t": 0.1, "vary": BOUNDS, "count": 60, "chunk": 13, "seed": 3} | more
    return nlink.sweep(ARM, sample=sample, out=out, **given)


def sums(result):
    return {chunk: marker["sum"] for chunk, marker in result.markers.items()}


def files(path):
    """All that a store holds but its markers, which say how long things took."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(Path(path).rglob("*"))
            if file.is_file() and file.parent.name != "chunks"}


def test_a_grid_is_the_ensemble_of_all_combinations(tmp_path):
    masses, friction = np.array([0.0, 0.5, 1.0]), np.array([[0.0, 0.1], [0.2, 0.0]])
    result = nlink.sweep(ARM, [0.3, -0.2], t=0.1, out=tmp_path / "grid.zarr", chunk=2, vary={
        "payload": masses, "viscous": friction, "qd0": [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]})
    data = nlink.open_sweep(tmp_path / "grid.zarr")
    assert data.q.dims == ("payload", "viscous", "qd0", "coordinate")
    assert result.chunks == result.done == 3 * 2 * 2
    run = nlink.simulate(ARM, [0.3, -0.2], data.qd0_values.values, [0.0, 0.1], vary={
        "payload": masses[:, None, None], "viscous": friction[None, :, None]})
    assert np.array_equal(data.q, run.q[..., -1, :])
    assert np.array_equal(data.qd, run.qd[..., -1, :])
    assert np.array_equal(data.payload, masses)
    assert list(data.coordinate) == list(ARM.q_names)


@pytest.mark.slow
def test_dry_friction_varies_under_both_of_its_names(tmp_path):
    given = [[0.1, 0.2], [0.3, 0.0]]
    for name in ("dry", "coulomb"):
        nlink.sweep(ARM, [0.3, -0.2], t=0.1, out=tmp_path / f"{name}.zarr", vary={name: given})
    dry, coulomb = (nlink.open_sweep(tmp_path / f"{name}.zarr") for name in ("dry", "coulomb"))
    run = nlink.simulate(ARM, [0.3, -0.2], t=[0.0, 0.1], vary={"dry": given})
    assert dry.q.dims == coulomb.q.dims == ("coulomb", "coordinate")
    assert np.array_equal(dry.q, coulomb.q)
    assert np.array_equal(dry.q, run.q[:, -1])


def test_dry_friction_is_named_once(tmp_path):
    with pytest.raises(ValueError, match="vary: dry and coulomb, expected one of them"):
        nlink.sweep(ARM, t=0.1, out=tmp_path / "s.zarr", vary={"dry": [0.1], "coulomb": [0.1]})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["latin", "sobol", "random"])
@pytest.mark.slow
def test_chunks_are_functions_of_their_numbers(tmp_path, kind):
    """In any order, and twice, they give the same store; trajectories are those of simulate."""
    result = sample(tmp_path / "a.zarr", kind, every=0.05, keep=("q", "tau", "energy"))
    data = result.open()
    study = nlink.studies.asking_study.study_of(
        ARM, None, None, 0.1, None, vary=BOUNDS, sample=kind, count=60, seed=3, every=0.05,
        keep=("q", "tau", "energy"), chunk=13, events=None, reproducible=False, options={})
    store = SweepStore(tmp_path / "b.zarr")
    store.prepare(study)
    for k in (3, 1, 4, 0, 2, 1):
        chunks.ChunkTask(study, k, store.path)()
    assert files(tmp_path / "b.zarr") == files(tmp_path / "a.zarr")
    run = nlink.simulate(ARM, data.q0.values, t=0.1, every=0.05,
                         vary={"payload": data.payload.values})
    assert np.array_equal(data.q, run.q)
    assert np.array_equal(data.energy, run.energy)
    assert np.array_equal(data.steps, run.stats.steps)


def test_points_of_samples():
    from scipy.stats import qmc

    whole = unit_points("sobol", 3, 5, 0, 0, 100)
    for begin, end in ((1, 7), (31, 64), (64, 100)):
        assert np.array_equal(unit_points("sobol", 3, 5, 9, begin, end), whole[begin:end])
    sequence = qmc.Sobol(3, bits=32, rng=np.random.default_rng(5)).fast_forward(12_345)
    assert np.array_equal(sequence.random(8), unit_points("sobol", 3, 5, 0, 12_345, 12_353))
    cube = unit_points("latin", 4, 5, 2, 26, 39)
    assert (np.sort(np.floor(13 * cube), axis=0) == np.arange(13)[:, None]).all()
    assert not np.array_equal(cube, unit_points("latin", 4, 5, 3, 39, 52))


def test_distributions_have_their_quantiles():
    from scipy import stats

    u = np.linspace(0.01, 0.99, 50)[:, None]
    for mine, theirs in ((Uniform(1.0, 3.0), stats.uniform(1.0, 2.0)),
                         (LogUniform(0.1, 10.0), stats.loguniform(0.1, 10.0)),
                         (Normal(2.0, 0.3), stats.norm(2.0, 0.3))):
        assert mine.quantile(u) == pytest.approx(theirs.ppf(u), rel=1e-12)


def test_an_interrupted_sweep_goes_on(tmp_path, until_done):
    whole = sample(tmp_path / "whole.zarr")
    seen = []

    def go(progress):
        return sample(tmp_path / "parts.zarr", progress=lambda share, _: progress(share))

    result, _ = until_done(go, 4, lambda _: seen.append(len(
        SweepResult(tmp_path / "parts.zarr").markers)))
    assert seen
    assert seen == sorted(seen)
    assert sums(result) == sums(whole)
    assert files(tmp_path / "parts.zarr") == files(tmp_path / "whole.zarr")


class Killed(BaseException):
    """What nothing in a task catches."""


@pytest.mark.parametrize("written", [0, 2, 99])
def test_killed_during_a_write_nothing_is_lost_or_counted_twice(tmp_path, monkeypatch, written):
    """After so many arrays of the third chunk, or before its marker."""
    whole = sample(tmp_path / "whole.zarr")
    write = SweepStore.write_chunk

    def killed(self, study, chunk, arrays):
        if chunk == 2:
            write(self, study, chunk, dict(list(arrays.items())[:written]))
            raise Killed
        write(self, study, chunk, arrays)

    monkeypatch.setattr(SweepStore, "write_chunk", killed)
    with pytest.raises(Killed):
        sample(tmp_path / "parts.zarr")
    monkeypatch.undo()
    left = SweepResult(tmp_path / "parts.zarr")
    assert list(left.markers) == [0, 1]
    assert left.moments("t_end")[2] == 26
    again = sample(tmp_path / "parts.zarr")
    assert sums(again) == sums(whole)
    assert sum(again.status().values()) == 60


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of file sizes")
def test_a_disk_that_is_full_fails_by_name_and_goes_on_later(tmp_path):
    """The system refuses to write more than some bytes, from the third chunk on."""
    import resource

    whole = sample(tmp_path / "whole.zarr", count=5000, chunk=1000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(share, _):
        if share > 0.4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))

    try:
        with pytest.raises(ChunksFailed, match=r"chunk 2 failed: .*File too large.* 3 chunks are "):
            sample(tmp_path / "full.zarr", count=5000, chunk=1000, progress=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(SweepResult(tmp_path / "full.zarr").markers) == [0, 1]
    result = sample(tmp_path / "full.zarr", count=5000, chunk=1000)
    assert sums(result) == sums(whole)
    assert files(tmp_path / "full.zarr") == files(tmp_path / "whole.zarr")


@pytest.mark.slow
def test_other_studies_and_versions_are_refused(tmp_path, monkeypatch):
    sample(tmp_path / "s.zarr")
    for other in ({"seed": 4}, {"chunk": 12}, {"rtol": 1e-8}, {"keep": ("q",)}, {"t": 0.2},
                  {"vary": BOUNDS | {"payload": (0.0, 2.0)}}, {"tau": PD(ARM, [0, 0], 1.0, 1.0)},
                  {"vary": BOUNDS | {"payload": Payload(Uniform(0.0, 1.0), frame=1)}},
                  {"reproducible": True}, {"sample": "sobol"}, {"limits": "stop"}):
        with pytest.raises(ValueError, match="holds another study; remove it or choose"):
            sample(tmp_path / "s.zarr", **other)
    sample(tmp_path / "s.zarr", vary=BOUNDS | {"payload": (0.0, 1.0)})
    monkeypatch.setattr("nlink.backends.llvm.loading.source_contents", lambda: "other")
    with pytest.raises(ValueError, match="by another version of nlink"):
        sample(tmp_path / "s.zarr")
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").write_text("something")
    with pytest.raises(ValueError, match="holds something else than a sweep"):
        sample(tmp_path / "else")
    with pytest.raises(ValueError, match="no such store"):
        nlink.open_sweep(tmp_path / "nowhere.zarr")


def test_what_was_changed_is_found_and_repeated(tmp_path):
    whole = sample(tmp_path / "whole.zarr")
    sample(tmp_path / "changed.zarr")
    file = tmp_path / "changed.zarr" / "q" / "c" / "2" / "0"
    data = bytearray(file.read_bytes())
    data[17] ^= 1
    file.write_bytes(data)
    (tmp_path / "changed.zarr" / "chunks" / "1.json").write_text("{")
    (tmp_path / "changed.zarr" / "chunks" / "4.json").unlink()
    assert list(SweepResult(tmp_path / "changed.zarr").markers) == [0, 2, 3]
    result = sample(tmp_path / "changed.zarr", verify=True)
    assert sums(result) == sums(whole)
    assert files(tmp_path / "changed.zarr") == files(tmp_path / "whole.zarr")


@pytest.mark.parametrize("damage", [
    lambda path: (path / "q/c/2/0").write_bytes((path / "q/c/2/0").read_bytes()[:37]),
    lambda path: (path / "qd/c/1/0").write_bytes(b""),
    lambda path: shutil.rmtree(path / "q"),
    lambda path: shutil.rmtree(path / "chunks"),
], ids=["short", "empty", "array gone", "markers gone"])
def test_what_cannot_be_read_is_repeated(tmp_path, damage):
    whole = sample(tmp_path / "whole.zarr")
    shutil.copytree(tmp_path / "whole.zarr", tmp_path / "damaged.zarr")
    damage(tmp_path / "damaged.zarr")
    result = sample(tmp_path / "damaged.zarr", verify=True)
    assert sums(result) == sums(whole)
    assert files(tmp_path / "damaged.zarr") == files(tmp_path / "whole.zarr")


def study_here(**more):
    return nlink.studies.asking_study.study_of(ARM, None, None, 0.1, None, **{
        "vary": BOUNDS, "sample": "latin", "count": 60, "seed": 3, "every": None,
        "keep": ("q", "qd"), "chunk": 13, "events": None, "reproducible": False,
        "options": {}} | more)


@pytest.mark.parametrize("more", [{}, {"sample": "grid", "count": None, "every": 0.05, "vary": {
    "payload": [0.0, 1.0], "qd0": np.eye(2)}, "chunk": 2}], ids=["latin", "grid"])
def test_two_clients_that_make_a_store_do_no_harm(tmp_path, more):
    """The second sees it unfinished, and makes it when the first has computed a chunk."""
    study = study_here(**more)
    first, second = (SweepStore(tmp_path / "s.zarr") for _ in range(2))
    first.prepare(study)
    chunks.ChunkTask(study, 1, first.path)()
    before = files(tmp_path / "s.zarr")
    second._create(study)
    assert list(second.markers(study.digest, study.chunks)) == [1]
    assert files(tmp_path / "s.zarr") == before


def test_workers_that_do_not_reach_the_store_say_so(tmp_path):
    task = chunks.ChunkTask(study_here(), 0, str(tmp_path / "elsewhere.zarr"))
    with pytest.raises(FileNotFoundError, match=r"elsewhere.zarr: no such store on .*, expected a"):
        task()


@pytest.mark.slow
def test_robots_are_an_axis(tmp_path):
    robots = {"light": ARM, "heavy": ARM.with_payload(2.0)}
    controllers = {name: PD(robot, [0.5, 0.5], 30.0, 5.0) for name, robot in robots.items()}
    given = {"t": 0.1, "sample": "latin", "count": 20, "chunk": 8, "vary": {"kp": (10.0, 50.0)}}
    both = nlink.sweep(robots, tau=controllers, out=tmp_path / "both.zarr", **given).open()
    assert dict(both.q.sizes) == {"robot": 2, "trajectory": 20, "coordinate": 2}
    for name, robot in robots.items():
        alone = nlink.sweep(robot, tau=controllers[name], out=tmp_path / f"{name}.zarr", **given)
        assert np.array_equal(both.q.sel(robot=name), alone.open().q)
        assert np.array_equal(both.kp, alone.open().kp)
    assert not np.array_equal(both.q[0], both.q[1])
    bare = nlink.sweep(robots, t=0.1, out=tmp_path / "bare.zarr")  # nothing else varies
    assert dict(bare.open().q.sizes) == {"robot": 2, "coordinate": 2}
    assert bare.worst("q", 1)[0].shape == (1, 1)
    with pytest.raises(ValueError, match="expected 2 and 2 as double_pendulum has"):
        nlink.sweep([ARM, nlink.load("planar3")], t=0.1, out=tmp_path / "no.zarr")


def test_final_states_of_events_are_theirs(tmp_path):
    events = {"low": nlink.Event(lambda t, q, qd: q[0] + 0.2, terminal=True),
              "turn": lambda t, q, qd: qd[1]}
    q0 = np.linspace([-0.19, 0.3], [0.9, 0.3], 12)
    result = nlink.sweep(ARM, t=0.4, sample="table", vary={"q0": q0}, events=events, chunk=5,
                         out=tmp_path / "e.zarr").open()
    run = nlink.simulate(ARM, q0, t=[0.0, 0.4], events=events)
    stopped = np.array([word == "event" for word in run.status])
    assert 0 < stopped.sum() < 12
    assert np.array_equal(result.q[~stopped], run.q[~stopped, -1])
    assert result.q[:, 0].values[stopped] == pytest.approx(-0.2, abs=1e-12)
    assert np.array_equal(result.t_end, run.t_end)
    for k, name in enumerate(("low", "turn")):
        counts = np.bincount(run.events[name].trajectory, minlength=12)
        assert np.array_equal(result.event_count[:, k], counts)
        first = [run.events[name].of(i).t.min(initial=np.inf) for i in range(12)]
        assert np.array_equal(result.event_time.values[counts > 0, k],
                              np.array(first)[counts > 0])


def test_reductions_are_those_of_all_trajectories(tmp_path, monkeypatch):
    masses = np.random.default_rng(0).uniform(0.0, 2.0, 200)
    masses[[3, 150]] = np.nan
    result = nlink.sweep(ARM, t=0.1, sample="table", vary={"payload": masses}, every=0.05,
                         out=tmp_path / "r.zarr", chunk=37)
    q = result.open().q.values
    assert result.failures().tolist() == [[3], [150]]
    assert result.status() == {"done": 198, "not finite": 2}
    known = np.delete(q, [3, 150], axis=0)
    mean, deviation, count = result.moments("q")
    assert mean == pytest.approx(known.mean(axis=0), rel=1e-13)
    assert deviation == pytest.approx(known.std(axis=0), rel=1e-9, abs=1e-15)
    assert (count[1:] == 198).all()
    levels = [0.05, 0.5, 0.95]
    assert np.array_equal(result.quantiles("q", levels)[:, 1:],
                          np.quantile(known, levels, axis=0)[:, 1:])
    counts, edges = result.histogram(lambda chunk: chunk["q"][:, -1, 0], 7)
    expected, at = np.histogram(known[:, -1, 0], 7)
    assert np.array_equal(counts, expected)
    assert np.array_equal(edges, at)
    places, sizes = result.worst(lambda chunk: chunk["q"][:, -1, 1], 4)
    order = np.argsort(-np.nan_to_num(np.abs(q[:, -1, 1])))[:4]
    assert places[:, 0].tolist() == order.tolist()
    assert np.array_equal(sizes, np.abs(q[order, -1, 1]))
    monkeypatch.setattr("nlink.studies.reductions.EXACT", 100)
    near = result.quantiles("q", levels)[:, -1]
    for column in range(2):  # a bin holds what lies between two neighbours in the order
        x, width = np.sort(known[:, -1, column]), np.ptp(known[:, -1, column]) / BINS
        for level, found in zip(levels, near[:, column], strict=True):
            k = level * 198
            assert x[int(k) - 2] - width <= found <= x[int(k) + 1] + width


@pytest.mark.parametrize("robots", [ARM, {"light": ARM, "heavy": ARM.with_payload(2.0)}],
                         ids=["one", "two"])
def test_reductions_of_a_grid_know_what_varied(tmp_path, robots):
    result = nlink.sweep(robots, t=0.1, out=tmp_path / "g.zarr", chunk=4, vary={
        "payload": [0.0, 1.0, 2.0], "viscous": [0.0, 0.1], "qd0": np.eye(2)})
    data = result.open()
    assert result.mean("payload") == pytest.approx(1.0)
    assert result.mean("qd0") == pytest.approx([0.5, 0.5])
    weighted = result.mean(lambda chunk: (chunk["payload"] + chunk["viscous"]) * chunk["q"][:, 0])
    assert weighted == pytest.approx(float(
        ((data.payload + data.viscous) * data.q[..., 0]).mean()), rel=1e-13)


@pytest.mark.parametrize(("ask", "why"), [
    (lambda r: r.mean("colour"), "what: 'colour', expected one of payload, q, q0, qd, status"),
    (lambda r: r.mean(3), "what: a int, expected the name"),
    (lambda r: r.mean(lambda chunk: 1.0), r"what: numbers of shape \(\), expected \(13, ...\)"),
    (lambda r: r.worst(lambda chunk: chunk["q"][:3]), r"shape \(3, 2\), expected \(13, ...\)"),
    (lambda r: r.worst("q", -1), "count: -1, expected a whole number"),
    (lambda r: r.histogram("q", 0), "bins: 0, expected a whole number"),
    (lambda r: r.histogram("q", 5, (1.0, 0.0)), r"range: \(1.0, 0.0\), expected \(lower, upper"),
    (lambda r: r.quantiles("q", 0.5), "at: 0.5, expected a sequence"),
    (lambda r: r.quantiles("q", [2.0]), "expected a sequence of numbers from 0 to 1"),
])
def test_wrong_reductions_are_named(tmp_path, ask, why):
    with pytest.raises((ValueError, TypeError), match=why):
        ask(sample(tmp_path / "s.zarr"))


def test_the_worst_of_conditions(tmp_path):
    places, sizes = sample(tmp_path / "s.zarr").worst(lambda chunk: chunk["q"][:, 0] > 0, 2)
    assert len(places) == 2
    assert (sizes == 1).all()


@pytest.mark.slow
def test_reproducible_code_is_that_of_a_common_processor(tmp_path):
    plain, common = sample(tmp_path / "p.zarr"), sample(tmp_path / "c.zarr", reproducible=True)
    with portable():
        wanted = host()
        run = nlink.simulate(ARM, common.open().q0.values, t=[0.0, 0.1], vary={
            "payload": common.open().payload.values})
    assert {marker["cpu"] for marker in common.markers.values()} == {wanted.cpu}
    assert {marker["cpu"] for marker in plain.markers.values()} == {host().cpu}
    assert wanted.cpu != host().cpu
    assert np.array_equal(common.open().q, run.q[:, -1])
    assert np.abs(common.open().q - plain.open().q).max() < 1e-9


def test_addresses_of_other_file_systems(tmp_path):
    here, there = sample(tmp_path / "a.zarr"), sample("memory://sweep/a.zarr")
    assert sums(here) == sums(there) == sums(sample("memory://sweep/a.zarr"))
    assert there.open().identical(here.open())
    with pytest.raises(ValueError, match=r"out: 'nothing://x'.*expected a path or an address"):
        sample("nothing://x")


STUDY = """
robot = "double_pendulum"
t = 0.1
sample = "sobol"
count = 60
chunk = 13
seed = 3
q0 = [0.1, 0.2]
[vary]
payload = [0.0, 1.0]
viscous = {log = [0.01, 1.0]}
kp = {normal = [20.0, 1.0]}
[controller]
kind = "pd-gravity"
to = [0.5, 0.5]
kp = 20.0
kd = 2.0
"""


@pytest.mark.slow
def test_the_command_and_files_of_studies(tmp_path, capsys):
    (tmp_path / "study.toml").write_text(STUDY)
    out = str(tmp_path / "s.zarr")
    assert cli.run(["sweep", str(tmp_path / "study.toml"), "--out", out, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == {"done": 60}
    assert said["chunks"] == said["done"] == 5
    assert nlink.open_sweep(out).kp.dims == ("trajectory",)
    study = read_study(tmp_path / "study.toml")
    assert study.digest == said["study"]
    for text, why in (("", "expected one of robot, robots"),
                      ('robot = "x"\ncolour = 1', "'colour'"),
                      (STUDY.replace("log", "cauchy"), "expected one of uniform, log, normal"),
                      (STUDY.replace("kd = 2.0", ""), "expected kp, kd"),
                      (STUDY.replace("sobol", "halton"), "expected one of grid, table"),
                      (STUDY.replace("payload", "load"), "vary: 'load', expected some of"),
                      (STUDY.replace("[0.5, 0.5]", "0.5"), "to 0.5, expected 2 coordinates"),
                      (STUDY.replace("pd-gravity", "gravity"), "to, kp, kd with kind 'gravity'"),
                      ('robot = "ur5"\ncontroller = "pd"', "controller: 'pd', expected a table"),
                      ('robot = "ur5"', "vary: none, expected something that varies"),
                      ('robots = ["ur5", "ur5"]', "expected each once"),
                      ('robot = "ur5"\nsample = "table"\ntable = 5', "table: 5, expected the")):
        (tmp_path / "wrong.toml").write_text(text)
        assert cli.run(["sweep", str(tmp_path / "wrong.toml"), "--out", out]) == 2
        error = capsys.readouterr().err
        assert why in error
        assert error.count("\n") == 1
    (tmp_path / "cases.csv").write_text("payload, q0_1, q0_2\n0.5, 0.1, 0.2\n0.7, 0.3, 0.4\n")
    (tmp_path / "table.toml").write_text(
        'robot = "double_pendulum"\nt = 0.1\nsample = "table"\ntable = "cases.csv"\n')
    shutil.rmtree(out)
    assert cli.run(["sweep", str(tmp_path / "table.toml"), "--out", out]) == 0
    assert np.array_equal(nlink.open_sweep(out).q0, [[0.1, 0.2], [0.3, 0.4]])
    assert "2 trajectories in 1 chunks" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "why"), [
    ("\ufeffq0_2, payload, q0_1\n0.2, 0.5, 0.1\n", None),
    ("viscous, viscous\n0.2, 0.5\n", "has 'viscous' twice"),
    ("q0_1, q0_3\n0.2, 0.5\n", "has q0 with numbers 1, 3, expected 1 to 2"),
    ("payload; q0_1\n0.2; 0.5\n", "expected numbers, as many in each row"),
], ids=["any order", "twice", "gap", "semicolons"])
def test_columns_of_tables(tmp_path, text, why):
    (tmp_path / "cases.csv").write_text(text, encoding="utf-8")
    (tmp_path / "table.toml").write_text(
        'robot = "double_pendulum"\nt = 0.1\nsample = "table"\ntable = "cases.csv"\n')
    if why is None:
        study = read_study(tmp_path / "table.toml")
        assert study.values("q0").tolist() == [[0.1, 0.2]]
        assert study.values("payload").tolist() == [[0.5]]
    else:
        with pytest.raises(ValueError, match=why):
            read_study(tmp_path / "table.toml")


@pytest.mark.parametrize(("given", "why"), [
    ({"sample": "grid", "count": 3, "vary": {"payload": [1.0]}}, "count: 3 with sample='grid'"),
    ({"count": None}, "count: none, expected one with sample='latin'"),
    ({"vary": {"payload": 3.0}}, r"payload: 3.0, expected \(lower, upper\), or a distribution"),
    ({"vary": {"payload": (2.0, 1.0)}}, "expected the lower bound first"),
    ({"vary": {"q0": (0.0, 1.0)}}, "q0 has 1 numbers, expected 2"),
    ({"vary": {"kp": (0.0, 1.0)}}, "'kp' needs a controller as tau"),
    ({"q0": [0.0, 0.0]}, "q0: given, and in vary too"),
    ({"method": "rk4"}, "step: None with method='rk4'"),
    ({"keep": ("q", "colour")}, "expected some of q, qd, tau, energy"),
    ({"keep": ("q", "q")}, "expected some of q, qd, tau, energy, each once"),
    ({"keep": 3}, "keep: 3, expected some of q"),
    ({"seed": -1}, "seed: -1, expected a whole number >= 0"),
    ({"sample": "grid", "count": None, "vary": None}, "vary: none, expected something that"),
    ({"timeout": 0}, "timeout: 0, expected a positive"),
    ({"timeout": "1"}, "timeout: '1', expected a positive"),
    ({"chunk": 0}, "chunk: 0, expected a whole number"),
    ({"t": -1.0}, "t: -1.0, expected a positive number"),
    ({"sample": "table", "count": None, "vary": {"payload": [1.0], "viscous": [0.0, 1.0]}},
     "expected columns of one length"),
])
def test_wrong_arguments_are_named_before_anything_is_written(tmp_path, given, why):
    with pytest.raises(ValueError, match=why):
        sample(tmp_path / "s.zarr", **given)
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.slow
def test_a_sweep_here_needs_no_cluster():
    code = ("import sys, nlink; a = set(sys.modules); nlink.sweep; "
            "assert not {'zarr', 'scipy', 'xarray'} & a, a; "
            "assert not {'dask', 'distributed'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)
