"""First calls are timed in new processes: one that compiles, one that finds its kernels on disk."""

from __future__ import annotations

import pytest

from nlink.bench import bench_tables
from nlink.bench.first_calls import CALLS, COMPILED, LOADED, SIMULATION, bench_first_calls
from nlink.bench.timing import Bench


@pytest.mark.slow
def test_first_calls_of_both_processes_have_a_row():
    bench = Bench("cpu", {}, [], 1e9)
    bench_first_calls(bench, ("double_pendulum", "random100"))
    for what in (*CALLS, SIMULATION):
        assert bench.ratio("double_pendulum", what, LOADED, COMPILED) > 0
    assert bench.seconds("random100", "mass_matrix", COMPILED)
    assert "| double_pendulum | on disk |" in bench_tables.markdown(bench)
