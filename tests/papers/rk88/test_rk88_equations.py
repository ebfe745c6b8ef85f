"""Every computable equation of [RK88] Part I and Appendix A, by its number, on random chains and
trees, with joints of one rate and of several, fixed and mobile."""

from __future__ import annotations

import re
from pathlib import Path

import dynamics_equations  # noqa: F401  (registers)
import numpy as np
import pytest
import recursion_equations  # noqa: F401
from operator_equations import EQUATIONS
from rk88_cases import CASES, case, residual

PAGE = Path(__file__).parents[3] / "docs" / "equations-rk88.md"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("label", EQUATIONS)
def test_equation_holds(label, name):
    for seed in range(3):
        c = case(name, seed)
        assert residual(*EQUATIONS[label](c)) <= c.tolerance


def test_the_report_order_is_lower_triangular():
    """Tip first, phi and Phi are as printed in (3.4) and (4.9)."""
    c = case("chain", 0)
    phi, Phi = c.o.from_tip(c.o.phi), c.o.from_tip(c.o.Phi)
    assert (np.triu(phi, 6) == 0).all()
    assert (np.triu(Phi, 0) == 0).all()
    n = c.o.n
    assert residual(phi[6:12, :6], c.o.phi(n - 1, n)) == 0
    assert (Phi[6:12, :6] == np.eye(6)).all()
    tip_first = c.o.from_tip(c.o.V).reshape(n, 6)
    assert (tip_first == c.parts(c.o.V)[::-1]).all()


def test_every_equation_checked_is_on_the_page():
    listed = set(re.findall(r"`([^`]+)`", PAGE.read_text("utf-8")))
    assert not set(EQUATIONS) - listed
