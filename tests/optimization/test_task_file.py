"""Tasks in TOML, and the command that solves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nlink
from nlink.cli import run
from nlink.optimization.task_file import TaskFile

EXAMPLE = Path(__file__).parents[2] / "examples" / "reach.toml"
TASK = """
robot = "planar3"
horizon = 0.3
step = 0.02
effort = [90.0, 60.0, 30.0]
q0 = [0.1, 0.2, 0.3]
[cost]
qd = 0.2
effort = {weight = [1e-3, 1e-3, 2e-3], target = [1.0, 0.0, 0.0]}
[final]
q = {target = [0.3, 0.0, 0.1], weight = 200.0}
qd = 10.0
[[final.frame]]
position = [2.0, 1.0, 0.0]
rpy = [0.0, 0.0, 0.5]
weight = 40.0
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "task.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_file_means_the_costs_that_it_names(tmp_path: Path) -> None:
    found = TaskFile.read(written(tmp_path, TASK)).solved()
    robot = nlink.load("planar3")
    goal, R = np.array([2.0, 1.0, 0.0]), nlink.matrix_from_rpy([0.0, 0.0, 0.5])
    u0, most = np.array([1.0, 0.0, 0.0]), np.array([1e-3, 1e-3, 2e-3])
    q1 = np.array([0.3, 0.0, 0.1])

    def final(q: Any, qd: Any) -> Any:
        T = robot.pose(q)
        e, turn = T[:3, 3] - goal, (T[:3, :3] - R).ravel()
        return (100.0 * (q - q1) @ (q - q1) + 5.0 * (qd @ qd) + 20.0 * (e @ e)
                + 10.0 * (turn @ turn))

    other = nlink.optimize(
        robot, lambda q, qd, u: 0.1 * (qd @ qd) + 0.5 * (most * (u - u0)) @ (u - u0),
        [0.1, 0.2, 0.3], horizon=0.3, step=0.02, final=final, effort=[90.0, 60.0, 30.0])
    assert found.solved
    assert other.solved
    np.testing.assert_allclose(found.cost, other.cost, rtol=1e-7)


@pytest.mark.slow
def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    task = written(tmp_path, TASK)
    assert run(["optimize", str(task), "--json", "--out", str(tmp_path / "a.npz"),
                "--plot", str(tmp_path / "a.svg")]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["status"] == ["solved"]
    with np.load(tmp_path / "a.npz") as saved:
        assert saved["u"].shape == (15, 3)
        assert saved["q"].shape == (16, 3)
    assert (tmp_path / "a.svg").stat().st_size > 1000
    assert run(["optimize", str(task), "--out", str(tmp_path / "a.csv")]) == 0
    rows = (tmp_path / "a.csv").read_text().splitlines()
    assert len(rows) == 17
    assert rows[0].startswith("t,joint1,")
    assert run(["optimize", str(EXAMPLE), "--out", "a.txt"]) == 2
    assert "expected a name that ends in .npz or .csv" in capfd.readouterr().err


@pytest.mark.parametrize(("old", "new", "words"), [
    ("horizon = 0.3", "", "no horizon, expected robot, horizon and cost"),
    ("step", "stepp", "'stepp', expected .*; did you mean"),
    ("[cost]", "[cost]\nq = [1, 2]", "cost.q.weight: .*, expected a number >= 0, or 3 of them"),
    ("qd = 0.2", "qd = -1", "cost.qd.weight: -1, expected a number >= 0"),
    ("target = [1.0, 0.0, 0.0]", "target = [1.0]", "cost.effort.target: .*, expected 3 numbers"),
    ("position = [2.0, 1.0, 0.0]\nrpy = [0.0, 0.0, 0.5]", "", "neither position nor rpy"),
    ("[final]", "[final]\neffort = 1.0", "final: 'effort', expected q, qd, frame"),
    ("[cost]\nqd = 0.2\neffort = {weight = [1e-3, 1e-3, 2e-3], target = [1.0, 0.0, 0.0]}",
     "[cost]", "cost: empty, expected some of q, qd, effort, frame"),
    ("robot = ", "robot == ", "expected TOML"),
])
def test_refusals(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TASK
    with pytest.raises(ValueError, match=words):
        TaskFile.read(written(tmp_path, TASK.replace(old, new, 1)))
