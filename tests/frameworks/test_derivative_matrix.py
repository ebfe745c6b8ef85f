"""A selection of `derivative_matrix.py`, whose whole takes minutes."""

from __future__ import annotations

import pytest
from derivative_matrix import CHECKS
from framework_cases import QUADRUPED, robot_named


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "which", "name"), [
    ("torch", "four_bar", "inverse_dynamics"), ("torch", "four_bar", "regressor"),
    ("torch", "four_bar", "step"), ("torch", QUADRUPED, "pose"), ("casadi", "four_bar", "step"),
    ("casadi", QUADRUPED, "pose")])
def test_derivatives_are_those_that_frameworks_check(framework, which, name):
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    CHECKS[framework](robot_named(which), name)
