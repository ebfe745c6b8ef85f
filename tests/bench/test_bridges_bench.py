"""The lines of `nlink bench --bridges`."""

from __future__ import annotations

import json

import pytest

from nlink.backends.llvm.threads import threads
from nlink.bench import bridges_bench as bridges
from nlink.bench.bridges_bench import BridgeLine, BridgesBench, rows, run_bridges_bench


def test_rows_compare_both_ways():
    bench = BridgesBench("cpu", {}, [], 1e11, [
        BridgeLine("float32", "panda", 20e-9, 10e-9), BridgeLine("numba", "a", 1e-6, 1.5e-6),
        BridgeLine("other", "b", None, 2e-9, "peer", 8e-9)])
    assert rows(bench) == [
        ("panda", "20.0 ns", "float32", "10.0 ns", "-10.0 ns", "2.00x", ""),
        ("a", "1.00 us", "numba", "1.50 us", "+500.0 ns", "0.67x", ""),
        ("b", "", "other", "2.0 ns", "", "", "peer 8.0 ns, 4.0x")]
    assert all(len(row) == len(bridges.HEADINGS) for row in rows(bench))
    assert json.loads(bench.to_json())["lines"][0]["bridge"] == "float32"


def test_what_is_not_installed_is_told(monkeypatch):
    monkeypatch.setitem(bridges.BRIDGES, "absent", "nlink.bench.absent:lines")
    before = threads()
    bench = run_bridges_bench(("absent",), seconds=0.01)
    assert bench.missing == ["absent"]
    assert not bench.lines
    assert threads() == before
    with pytest.raises(ValueError, match="robots: 'rust', expected some of float32, numba"):
        run_bridges_bench(("rust",))


@pytest.mark.slow
def test_numba_is_measured():
    pytest.importorskip("numba")
    lines = run_bridges_bench(("numba",), seconds=0.01).lines
    assert [line.bridge for line in lines] == ["numba", "numba"]
    assert all(line.alone > 0 and line.through > 0 for line in lines)


@pytest.mark.slow
def test_casadi_is_measured():
    pytest.importorskip("casadi")
    lines = run_bridges_bench(("casadi",), seconds=0.01).lines
    assert [line.bridge for line in lines] == ["casadi", "casadi"]
    assert all(line.through > 0 for line in lines)
