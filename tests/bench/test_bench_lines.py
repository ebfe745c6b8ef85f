"""The table of `nlink bench` fits a terminal, with every name in full."""

from __future__ import annotations

import pytest

from nlink.bench import loops_bench
from nlink.bench.bench_robots import HUMANOID
from nlink.bench.bench_tables import BenchRow, rows
from nlink.bench.casadi_peer import CASADI
from nlink.bench.derivatives_bench import DERIVATIVES
from nlink.bench.dynamics import LARGE_BATCH, PLAIN
from nlink.bench.loops_bench import LoopsBench, LoopsLine
from nlink.bench.timing import CPP, Bench, Timing
from nlink.cli.printing import _print_bench, bench_lines, print_bench


@pytest.fixture
def bench():
    """A bench with the longest names that there are."""
    found = Bench("a core", {"nlink": "1"}, [], 1e9)
    for robot in ("double_pendulum", HUMANOID):
        for what in (*(name for name, _ in (*PLAIN, *DERIVATIVES)),
                     f"inverse_dynamics of {LARGE_BATCH}"):
            found.timings += [Timing(robot, what, method, 123.4567e-6) for method in (
                "nlink batch", "nlink call", "Pinocchio call", "MuJoCo call", CPP, CASADI,
                "Robotics Toolbox call", "nlink 1 thread", "nlink 2 threads")]
    return found


def test_a_bench_at_eighty_columns_cuts_no_name_and_wraps_no_row(bench, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_bench(bench)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("..." in line or "\u2026" in line for line in lines)
    for row in rows(bench):
        assert row.what in lines
        below = lines[lines.index(row.what) + 1:]
        assert any(line.startswith(f"  {row.peer} ") and line.endswith(row.ratio)
                   for line in below), row


def test_peers_of_one_row_stand_below_one_name():
    table = bench_lines([BenchRow("arm", 1e-9, "one", 2e-9), BenchRow("arm", 1e-9, "two", None),
                         BenchRow("leg", 1e-9, "one", 30e-9)])
    assert table == [
        "beside   nlink  its time    ratio",
        "arm",
        "  one   1.0 ns    2.0 ns     2.0x",
        "  two   1.0 ns            missing",
        "leg",
        "  one   1.0 ns   30.0 ns    30.0x"]


@pytest.mark.parametrize("width", ["80", "160"])
def test_a_wide_table_is_told_row_by_row_on_a_narrow_terminal(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    line = LoopsLine("ladder 160", 160, 0.98, 165e6, 946e-9, 5.5e-15, 114e-6, 1.6e-6, 11214e-6)
    found = LoopsBench("a core", {}, [], [line])
    _print_bench(loops_bench, found, ("mechanism",), save=None, as_json=False)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= int(width)
    assert "\u2026" not in out
    for cell in loops_bench.rows(found)[0]:
        assert cell in out
