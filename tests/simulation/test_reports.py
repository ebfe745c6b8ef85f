"""What the command line and the reports say about simulation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import nlink
from nlink import cli
from nlink.reports import bench_simulation
from nlink.reports.page import Page


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
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err == f"nlink: interrupted; the same command continues {tmp_path / 'runs'}\n"
    part = nlink.load_run(tmp_path / "runs")
    assert (part.status == "running").any()
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert nlink.load_run(tmp_path / "runs").ok


def test_simulate_controls_and_plots(capfd, tmp_path):
    pytest.importorskip("matplotlib")
    status, out, _ = run(capfd, "simulate", "planar3", "--t", 1, "--control", "computed-torque",
                         "--to", "1,0,0", "--method", "dop853", "--plot", tmp_path / "q.png")
    assert status == 0
    assert "planar3, dop853: 1 trajectory of 1 s" in out
    assert (tmp_path / "q.png").read_bytes().startswith(b"\x89PNG")


def test_simulate_reports_failures_and_returns_one(capfd):
    status, out, _ = run(capfd, "simulate", "puma_saha", "--t", 3, "--ensemble", 2, "--width", 0)
    assert status == 1
    assert "trajectory 1: step too small at t = 1.8" in out


def test_simulate_refuses_in_one_line(capfd):
    for arguments, message in ((("--to", "1,1,1"), "--to needs --control"),
                               (("--control", "pd"), "--control pd needs --to"),
                               (("--method", "euler"), "method: 'euler'"),
                               (("--ensemble", "0"), "--ensemble 0")):
        status, _, err = run(capfd, "simulate", "planar3", *arguments)
        assert status == 2
        assert err.startswith(f"nlink: {message}")


def test_pages_escape_and_colour():
    page = Page("a < b")
    page.section("one & two")
    page.table(("x", "verdict"), [("<i>", "agrees"), ("y", "differs: a lot")])
    page.markdown_tables("| a | b |\n|---|---|\n| 1 | **2** |")
    text = page.html()
    assert "a &lt; b" in text
    assert "<td>&lt;i&gt;</td>" in text
    assert '<td class="agrees">agrees</td>' in text
    assert '<td class="differs">' in text
    assert "<td>2</td>" in text
    assert "http" not in text


@pytest.mark.slow
def test_reproduction_is_one_page_with_every_figure(tmp_path):
    pytest.importorskip("matplotlib")
    from nlink.reports.reproduce import reproduce

    path = reproduce(tmp_path)
    text = path.read_text("utf-8")
    for figure in ("[Saha99] Fig. 5", "[Saha99] Fig. 6", "[Saha99] Fig. 8", "[Saha99] Fig. 9",
                   "[Saha03] Fig. 4(ii)", "[Saha03] Fig. 5(ii)", "[Saha03] Fig. 6(i)",
                   "[Saha03] Fig. 6(ii)", "[Saha03] Fig. 7"):
        assert figure in text, figure
    assert text.count("data:image/png;base64") == len(list(tmp_path.glob("*.png")))
    assert "1.8185" in text
    assert "http" not in text


@pytest.mark.slow
def test_the_bench_compares_equal_errors(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(bench_simulation, "ENSEMBLE", 16)
    bench = bench_simulation.run_simulation_bench(repeats=1)
    assert len(bench.lines) == 4
    assert bench.lines[0].error < 1e-8
    assert all(len(row) == len(bench_simulation.HEADINGS) for row in bench_simulation.rows(bench))
    assert json.loads(bench.to_json())["lines"][0]["what"].startswith("puma560")
