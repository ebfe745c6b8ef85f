"""`nlink view` and what other commands write of motions."""

from __future__ import annotations

import pytest

from nlink.cli import run


def test_a_picture(tmp_path, capsys):
    path = tmp_path / "arm.png"
    assert run(["view", "planar3", "--q", "0.5,0.5,0.5", "--png", str(path), "--width", "64",
                "--show", "axes", "--dark"]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert f"{path} written" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_page_of_a_run(tmp_path):
    kept, page = tmp_path / "run.npz", tmp_path / "fall.html"
    assert run(["simulate", "planar3", "--t", "0.5", "--out", str(kept), "--html",
                str(tmp_path / "at_once.html")]) == 0
    assert run(["view", "planar3", "--run", str(kept), "--html", str(page)]) == 0
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "at_once.html").stat().st_size > 10_000


@pytest.mark.parametrize(("arguments", "reason"), [
    (["--html", "x.html"], "--html needs --run"),
    (["--png", "x.gif"], "suffix '.gif', expected .png"),
    (["--png", "x.png", "--show", "bones"], "layers: 'bones'"),
    (["--run", "x.npz", "--png", "x.png"], "--run does not go with"),
    (["--q", "1,2"], "--q"),
])
def test_what_is_wrong_is_one_sentence(arguments, reason, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["view", "planar3", *arguments]) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
