"""`nlink demo`; the whole page, with its motions, is made by `.ci/run`."""

from __future__ import annotations

import pytest

from nlink.bench import showcase
from nlink.cli import run


@pytest.mark.slow
def test_page_has_panels_and_times(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    measured = showcase._timings
    for part in ("_path", "_closed_chain"):
        monkeypatch.setattr(showcase, part, lambda page, out: None)
    monkeypatch.setattr(showcase, "reproduce", lambda out: out / "report.html")
    monkeypatch.setattr(showcase, "_timings",
                        lambda robot, what: measured(robot, what, seconds=0.01))
    assert run(["demo", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("<svg") >= 3
    for words in ("Error of the first joint", "nlink reproduce", "papers/report.html", "puma560",
                  "forward dynamics"):
        assert words in page
