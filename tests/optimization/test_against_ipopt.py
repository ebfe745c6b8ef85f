"""Optimality by an independent solver: CasADi with IPOPT on the same steps and costs. All ten
problems of each kind: `python tests/optimization/ipopt.py`."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("casadi", reason="CasADi is not installed: pip install nlink[casadi]")

from ipopt import compare, task


@pytest.mark.slow
@pytest.mark.parametrize("effort", [None, [60.0, 30.0, 20.0]])
def test_the_least_cost_is_that_of_ipopt(effort: Any) -> None:
    costs, slopes = compare(task("planar3", 2, effort=effort))
    assert abs(costs).max() < 1e-8
    assert slopes.max() < 1e-6
