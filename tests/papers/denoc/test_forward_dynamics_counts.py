"""Operation counts of forward dynamics: golden formulas, bounds, and fairness to P."""

from __future__ import annotations

import pytest

from nlink.engines.complexity import cost_formula


@pytest.mark.slow
def test_law_of_forward_dynamics():
    assert str(cost_formula("forward_dynamics")) == "(193n-297)M (178n-296)A (n-1) div"


@pytest.mark.slow
def test_law_of_the_solution():
    assert str(cost_formula("solve")) == "(132n-224)M (122n-226)A (n-1) div"


@pytest.mark.slow
def test_the_default_formulation_is_the_cheapest_of_the_linear_ones():
    for n in range(4, 20):
        denoc = cost_formula("forward_dynamics", "denoc")(n)
        assert cost_formula("forward_dynamics")(n).total < denoc.total


@pytest.mark.parametrize("n", range(4, 13))
def test_at_or_below_the_bars(n):
    """Divisions count as multiplications, as in the papers."""
    solve, whole = cost_formula("solve")(n), cost_formula("forward_dynamics")(n)
    assert solve.mul + solve.div <= 192 * n - 284
    assert solve.add <= 187 * n - 325
    assert whole.mul + whole.div <= 207 * n - 296
    assert whole.add <= 199 * n - 312
    assert whole.total <= 470 * n - 420


@pytest.mark.parametrize("name", ["solve", "forward_dynamics"])
@pytest.mark.parametrize("n", range(4, 13))
def test_prismatic_joints_cost_no_more(name, n):
    sliding, turning = cost_formula(name, joint="prismatic")(n), cost_formula(name)(n)
    assert sliding.mul <= turning.mul
    assert sliding.add <= turning.add
    assert sliding.div <= turning.div
