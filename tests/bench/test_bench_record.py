"""What all benches of `nlink bench` have in common: JSON, and a table as Markdown."""

from __future__ import annotations

import json
from importlib import import_module

import pytest
from typer.testing import CliRunner

from nlink.bench import bridges_bench, contact_bench, ik_bench, integration_bench, loops_bench
from nlink.bench.bench_record import BenchRecord, table
from nlink.bench.integration_bench import Comparison
from nlink.cli import run

WHERE = ("a core", {"nlink": "1"}, ["peer"])
BENCHES = {
    "--simulation": (integration_bench, integration_bench.SimulationBench(
        *WHERE, [Comparison("free fall", 1e-3, "SciPy", 1.0)])),
    "--ik": (ik_bench, ik_bench.ReachingBench(
        *WHERE, [ik_bench.SolverLine("panda", "nlink.ik", 100, 1.0, 4e-6)])),
    "--loops": (loops_bench, loops_bench.LoopsBench(
        *WHERE, [loops_bench.LoopsLine("ladder 5", 5, 0.1, 1e8, 1e-7)])),
    "--bridges": (bridges_bench, bridges_bench.BridgesBench(
        *WHERE, 1e11, [bridges_bench.BridgeLine("numba", "panda", 1e-6, 2e-6)])),
    "--contact": (contact_bench, contact_bench.ContactBench(
        *WHERE, seconds={"nlink.Stepper": 1e-5}))}


@pytest.mark.parametrize("option", BENCHES)
def test_every_bench_writes_its_table_to_the_file_that_is_asked_for(option, monkeypatch, tmp_path):
    measure, bench = BENCHES[option]
    (runner,) = (name for name in vars(measure) if name.startswith("run_"))
    monkeypatch.setattr(measure, runner, lambda *_arguments, **_options: bench)
    path = tmp_path / "table.md"
    app = import_module("nlink.cli.app").app
    answer = CliRunner().invoke(app, ["bench", option, "--markdown", str(path), "--json"])
    assert answer.exit_code == 0, answer.output
    shown = json.loads(answer.stdout)
    assert {name: shown[name] for name in ("cpu", "versions", "missing")} == dict(
        zip(("cpu", "versions", "missing"), WHERE, strict=True))
    lines = path.read_text("utf-8").splitlines()
    assert lines[0] == f"| {' | '.join(measure.HEADINGS)} |"
    assert lines[2:] == [f"| {' | '.join(row)} |" for row in measure.rows(bench)] != []


def test_tables_put_text_to_the_left():
    assert table(("what", "ratio"), [("a", "2.00x")], ("what",)) == (
        "| what | ratio |\n|---|---:|\n| a | 2.00x |\n")
    assert json.loads(BenchRecord(*WHERE).to_json())["missing"] == ["peer"]


@pytest.mark.parametrize("option", ["--simulation", "--ik", "--loops", "--contact", "--learn"])
def test_portable_code_beside_a_bench_that_has_none_is_refused(option, capsys):
    """It was taken without a word, and the numbers were those of this processor's code."""
    assert run(["bench", "--portable", option]) == 2
    assert "--portable: given beside another bench" in capsys.readouterr().err
