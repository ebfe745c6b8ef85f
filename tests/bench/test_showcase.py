"""`nlink demo`; the whole page, with its motions, is made by `.ci/run`."""

from __future__ import annotations

import sys

import pytest

from nlink.bench import showcase
from nlink.cli import run


@pytest.mark.slow
def test_page_has_panels_and_times(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    measured = showcase._timings
    for part in ("_path", "_live", "_closed_chain"):
        monkeypatch.setattr(showcase, part, lambda page, out: None)
    monkeypatch.setattr(showcase, "EXPERIMENTS", (sys.executable, "-c", ""))
    monkeypatch.setattr(showcase, "_timings",
                        lambda robot, what: measured(robot, what, seconds=0.01))
    assert run(["demo", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("<svg") >= 3
    for words in ("Error of the first joint", "nlink reproduce", "papers/report.html", "puma560",
                  "forward dynamics"):
        assert words in page
    told = capsys.readouterr().err
    for words in ("a controller", "the papers' experiments", "speed"):
        assert f"nlink: {words}" in told


def test_experiments_that_fail_are_said(tmp_path):
    failing = (sys.executable, "-c", "raise SystemExit('no ink')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(showcase, "EXPERIMENTS", failing)
        with (showcase._Experiments(tmp_path) as experiments,
              pytest.raises(RuntimeError, match="nlink reproduce: failed: no ink")):
            experiments.page()
