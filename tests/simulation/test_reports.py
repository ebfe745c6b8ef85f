"""What the command line and the reports say about simulation."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import nlink
from nlink import cli
from nlink.bench import integration_bench as bench_simulation
from nlink.reports.page import Page
from nlink.reports.terminal import PrintedTable


def run(capfd, *arguments):
    status = cli.run([str(a) for a in arguments])
    return status, *capfd.readouterr()


def test_simulate_writes_what_it_computes(capfd, tmp_path):
    status, out, _ = run(capfd, "simulate", "planar3", "--t", 0.5, "--every", 0.1, "--out",
                         tmp_path / "a.csv", "--json")
    assert status == 0
    assert json.loads(out)["outputs"] == 6
    table = np.genfromtxt(tmp_path / "a.csv", delimiter=",", names=True)
    expected = nlink.simulate(nlink.load("planar3"), t=0.5, every=0.1)
    assert np.array_equal(table["q_2"], expected.q[:, 1])
    run(capfd, "simulate", "planar3", "--t", 0.5, "--every", 0.1, "--out", tmp_path / "a.npz")
    assert np.array_equal(nlink.load_run(tmp_path / "a.npz").q, expected.q)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".npz", ".zarr", ""])
def test_ensembles_go_to_every_kind_of_file(capfd, tmp_path, suffix):
    if suffix == ".zarr":
        pytest.importorskip("zarr")
    path = tmp_path / f"runs{suffix}"
    status, out, _ = run(capfd, "simulate", "planar3", "--t", 0.2, "--every", 0.1, "--ensemble", 5,
                         "--payload", "0,2", "--out", path, "--json")
    assert status == 0
    assert json.loads(out)["trajectories"] == 5
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    q0 = 0.01 * np.random.default_rng(0).normal(size=(5, 3))
    q0[0] = 0.0
    masses = np.random.default_rng(0).uniform(0, 2, size=5)
    expected = nlink.simulate(nlink.load("planar3"), q0, t=0.2, every=0.1, vary={"payload": masses})
    if suffix == ".csv":
        table = np.genfromtxt(path, delimiter=",", names=True)
        assert table["trajectory"].tolist() == np.repeat(np.arange(5), 3).tolist()
        assert np.array_equal(table["q_3"], expected.q[..., 2].ravel())
    else:
        assert np.array_equal(nlink.load_run(path).q, expected.q)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupted_command_goes_on(tmp_path):
    """Ctrl-C leaves what was computed; the same command finishes it."""
    command = [sys.executable, "-m", "nlink", "simulate", "puma560", "--ensemble", "3000", "--t",
               "30", "--every", "1", "--method", "dop853", "--out", str(tmp_path / "runs")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "runs" / "run.json").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err == f"nlink: interrupted; the same command continues {tmp_path / 'runs'}\n"
    part = nlink.load_run(tmp_path / "runs")
    assert (part.status == "running").any()
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert nlink.load_run(tmp_path / "runs").ok


@pytest.mark.slow
def test_simulate_controls_and_plots(capfd, tmp_path):
    pytest.importorskip("matplotlib")
    status, out, _ = run(capfd, "simulate", "planar3", "--t", 1, "--control", "computed-torque",
                         "--to", "1,0,0", "--method", "dop853", "--plot", tmp_path / "q.png")
    assert status == 0
    assert "planar3, dop853: 1 trajectory of 1 s" in out
    assert (tmp_path / "q.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "begins"), [
    ("q.svg", b"<?xml"), ("q.PDF", b"%PDF"), ("q.png", b"\x89PNG")])
@pytest.mark.slow
def test_a_picture_is_what_its_name_says(tmp_path, name, begins):
    pytest.importorskip("matplotlib")
    run = nlink.simulate(nlink.load("planar3"), t=0.1)
    first, again = (run.plot(tmp_path / name).read_bytes() for _ in range(2))
    assert first.startswith(begins)
    assert first == again
    with pytest.raises(ValueError, match=r"path: .* has the suffix '.txt', expected .png"):
        run.plot(tmp_path / "q.txt")


def test_a_picture_makes_no_directory(capfd, tmp_path):
    place = tmp_path / "none" / "q.png"
    status, _, error = run(capfd, "simulate", "planar3", "--t", 0.1, "--plot", place,
                           "--out", tmp_path / "run.csv")
    assert status == 2
    assert error == f"nlink: --plot: {str(place)!r} is in no directory that exists\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_simulate_follows_waypoints_of_a_file(capfd, tmp_path):
    path = tmp_path / "way.csv"
    path.write_text("t,q_1,q_2,q_3\n0,0.1,0.2,0.3\n0.5,0.2,0.1,0.0\n1,0,0,0\n")
    status, _, _ = run(capfd, "simulate", "planar3", "--trajectory", path, "--control",
                       "computed-torque", "--out", tmp_path / "run.npz")
    followed = nlink.load_run(tmp_path / "run.npz")
    assert status == 0
    assert followed.t[-1] == 1.0
    assert np.abs(followed.q[[0, 50, 100]] - [[0.1, 0.2, 0.3], [0.2, 0.1, 0], [0, 0, 0]]
                  ).max() <= 1e-6
    for arguments, message in (
            (("planar3", "--trajectory", path), "--trajectory needs --control"),
            (("puma560", "--trajectory", path, "--control", "pd"), "3 coordinates, expected 6"),
            (("planar3", "--control", "pd"), "needs --to, the configuration to go to, or")):
        status, _, error = run(capfd, "simulate", *arguments)
        assert status == 2
        assert message in error


@pytest.mark.slow
def test_simulate_says_which_limit_ended_it(capfd):
    status, out, _ = run(capfd, "simulate", "panda", "--q", "0,0,0,-1.5,0,1.5,0", "--t", 5,
                         "--limits", "stop")
    assert status == 1
    assert "limit of" in out
    assert "limit reached at t = " in out
    status, _, error = run(capfd, "simulate", "panda", "--limits", "hard")
    assert status == 2
    assert "limits: 'hard', expected one of ignore, stop, bounce" in error


def test_simulate_reports_failures_and_returns_one(capfd):
    status, out, _ = run(capfd, "simulate", "puma_saha", "--t", 3, "--ensemble", 2, "--width", 0)
    assert status == 1
    assert "trajectory 1: step too small at t = 1.8" in out


@pytest.mark.slow
def test_simulate_refuses_in_one_line(capfd):
    for arguments, message in ((("--to", "1,1,1"), "--to needs --control"),
                               (("--control", "pd"), "--control pd needs --to"),
                               (("--method", "euler"), "method: 'euler'"),
                               (("--ensemble", "0"), "--ensemble 0"),
                               (("--width", "-1"), "--width -1.0, expected"),
                               (("--seed", "-1"), "--seed -1, expected"),
                               (("--ensemble", "3", "--payload", "5,1"), "--payload 5,1, expected"),
                               (("--payload", "-1"), "--payload -1, expected"),
                               (("--every", "1e-13"), "every: 1e-13 gives"),
                               (("--method", "lsoda", "--out", "folder"),
                                "--out folder with --method lsoda, expected")):
        status, _, err = run(capfd, "simulate", "planar3", *arguments)
        assert status == 2
        assert err.startswith(f"nlink: {message}")


def test_lack_of_memory_is_one_line(capfd, monkeypatch):
    def greedy(*_arguments, **_options):
        raise MemoryError("unable to allocate 72 TiB")

    monkeypatch.setattr(nlink, "simulate", greedy)
    status, _, err = run(capfd, "simulate", "planar3")
    assert status == 2
    assert err == "nlink: out of memory: unable to allocate 72 TiB\n"


def test_pages_escape_and_fold():
    page = Page("a < b")
    page.section("one & two")
    page.table(("x", "why"), [("<i>", "a lot")])
    page.printed_table(PrintedTable("T: title", ("a", "b"), [("nlink", "2")], ("a",), ["(1) note"]))
    text = page.html()
    assert "a &lt; b" in text
    assert "<td class=words>&lt;i&gt;</td>" in text
    assert '<tr class="ours"><td class=words>nlink</td><td>2</td></tr>' in text
    assert "<details><summary>T: title</summary>" in text
    assert '<p class="muted">(1) note</p>' in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


@pytest.mark.slow
def test_figures_take_the_colours_of_the_page():
    pytest.importorskip("matplotlib")
    from nlink.simulation import figures as trajectories

    t = np.linspace(0, 1, 50)
    (figure,) = trajectories.single_panels(t, {"a": np.sin(t)[:, None], "b": t[:, None]}, ["q 1"],
                                           ["rad"])
    page = Page("x")
    page.panels([figure], "two curves", ["a", "b"])
    text = page.html().split("</style>")[1]
    assert text.count("<svg") == 3  # the panel, and two pieces of line in the legend
    for colour in ("--ink", "--muted", "--rule", "--c1", "--c2"):
        assert f"var({colour})" in text
    assert "#" not in text.replace('href="#', "").replace("url(#", "").replace("&#", "")
    assert "http" not in text
    assert ">rad</text>" in text


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    pytest.importorskip("matplotlib")
    from nlink.papers.reproduce import reproduce

    shares = []
    path = reproduce(tmp_path_factory.mktemp("report"),
                     lambda share, what: shares.append((share, what)))
    assert shares == sorted(shares)
    assert shares[-1][0] == 1
    return path


@pytest.mark.slow
def test_the_report_has_every_figure_and_table(report):
    text = report.read_text("utf-8")
    for figure in ("[Saha99] Fig. 5", "[Saha99] Fig. 6", "[Saha99] Fig. 8", "[Saha99] Fig. 9",
                   "[Saha03] Fig. 4(i)", "[Saha03] Fig. 4(ii)", "[Saha03] Fig. 5(i)",
                   "[Saha03] Fig. 5(ii)", "[Saha03] Fig. 6(i)", "[Saha03] Fig. 6(ii)",
                   "[Saha03] Fig. 7", "[Saha99] Table 1", "[Saha99] Table 2", "[Saha99] Table 3",
                   "[Saha03] Table I:", "[Saha03] Table II(i)", "[Saha03] Table II(ii)",
                   "[Koz95] Table 2", "[Koz95] Table 3", "by tolerance", "Theorem 4.1", "FD4",
                   "each decaying alone", f"nlink {nlink.__version__}"):
        assert figure in text, figure
    pictures, motions = len(list(report.parent.glob("*.png"))), text.count("<iframe")
    assert motions == 3
    assert text.count("<picture>") == 3
    assert text.count("<figure>") == pictures + motions + 3
    assert "$" not in re.sub(r"<script.*?</script>|srcdoc=\".*?\"", "", text, flags=re.DOTALL)
    assert "ABM, 1e-6" in text
    assert "1.8185" in text
    assert not re.search(r"https?://(?!www.w3.org)", text)
    assert "prefers-color-scheme: dark" in text


@pytest.mark.slow
def test_the_report_says_what_agrees_and_what_does_not(report):
    """The verdicts are those of the errata: what was checked by hand."""
    text = report.read_text("utf-8")
    head, body = text.split("<h2", 1)
    assert "Of 47 statements, 35 agree with what was computed here and 12 do not." in head
    differ = head[head.index("What does not agree"):head.index("What agrees")]
    assert differ.count("<tr>") == 1 + 12
    agree = head[head.index("What agrees"):]
    assert agree.count("<tr>") == 1 + 6
    assert body.count("deviates after") == 0  # each sentence stands on the page once
    for computed in ("at rest, 44.145, 19.62, 4.905 N m", "(0.5 s) = 0.567 rad",
                     "joints 1 and 3 end at 3.1416 rad and 3.1416 m",
                     "smallest eigenvalue in 200 configurations: -0.895"):
        assert computed in text, computed


@pytest.mark.slow
def test_the_bench_compares_equal_errors(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(bench_simulation, "ENSEMBLE", 16)
    bench = bench_simulation.run_simulation_bench(repeats=1)
    assert len(bench.lines) == 5
    assert bench.lines[0].error < 1e-8
    assert all(len(row) == len(bench_simulation.HEADINGS) for row in bench_simulation.rows(bench))
    assert json.loads(bench.to_json())["lines"][0]["what"].startswith("puma560")
