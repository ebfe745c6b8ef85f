"""Every example runs by itself and draws a picture, and stands on the page of examples."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("local_cluster", "sweep_overhead")
"""A cluster that waits for Ctrl-C and a measurement: see docs/scale.md."""
NEEDS = {"torch_controller": "torch", "ppo_swing_up": "torch",
         "stable_baselines_reach": "stable_baselines3"}
SCRIPTS = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem not in TOOLS)
SHORTER = {"joint_decoupled_control": ("STEPS = 5e-3, 300", "STEPS = 5e-3, 10"),
           "ppo_swing_up": ("SECONDS, SOLVED = 60.0", "SECONDS, SOLVED = 1.0"),
           "stable_baselines_reach": ("STEPS, ROBOTS = 600_000", "STEPS, ROBOTS = 8_192")}
"""What takes long is done less in the test: an integrator written out in Python, learning."""


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_draws_its_picture(script, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    if script.stem in NEEDS:
        pytest.importorskip(NEEDS[script.stem], reason="an extra that is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    text = script.read_text("utf-8")
    if script.stem in SHORTER:
        whole, part = SHORTER[script.stem]
        assert whole in text
        text = text.replace(whole, part)
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(compile(text, str(script), "exec"), module.__dict__)
    drawn = list(tmp_path.rglob("*.png"))
    assert drawn
    assert all(picture.stat().st_size > 5000 for picture in drawn)


def test_page_has_every_example():
    page = (ROOT / "docs" / "examples.md").read_text("utf-8")
    assert [script.name for script in SCRIPTS if f"examples/{script.name}" not in page] == []
