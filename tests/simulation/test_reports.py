"""What the command line and the reports say about simulation."""

from __future__ import annotations

import json

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


def test_simulate_controls_and_plots(capfd, tmp_path):
    pytest.importorskip("matplotlib")
    status, out, _ = run(capfd, "simulate", "planar3", "--t", 1, "--control", "computed-torque",
                         "--to", "1,0,0", "--method", "dop853", "--plot", tmp_path / "q.png")
    assert status == 0
    assert "planar3, dop853: 1 trajectory of 1 s" in out
    assert (tmp_path / "q.png").read_bytes().startswith(b"\x89PNG")


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
