"""How equations of the papers' report are set, and what it says of misprints."""

from __future__ import annotations

import pytest

import nlink
from nlink.papers.equations import MISPRINTS, MovingState
from nlink.reports.mathml import mathml
from nlink.reports.page import Page


@pytest.mark.parametrize(("tex", "set_as"), [
    ("x_1^2", "<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>"),
    (r"\frac{a}{12}", "<mfrac><mrow><mi>a</mi></mrow><mrow><mn>12</mn></mrow></mfrac>"),
    (r"\left[a\right]", "<mrow><mo>[</mo><mi>a</mi><mo>]</mo></mrow>"),
    ("a < b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
])
def test_mathml(tex, set_as):
    assert mathml(tex) == f"<math>{set_as}</math>"


@pytest.mark.parametrize("tex", ["{a", "a}", r"\frac{a}", r"\href{x}", "x^"])
def test_equations_that_are_none_are_refused(tex):
    with pytest.raises(ValueError, match="tex: "):
        mathml(tex)


def test_text_between_dollar_signs_is_an_equation():
    page = Page("x")
    page.text("rates $q'$ & more")
    assert "<math>" in page.parts[0]
    assert "&amp; more" in page.parts[0]


@pytest.mark.parametrize("misprint", MISPRINTS, ids=lambda m: m.printed.number)
def test_printed_form_is_off_and_the_other_holds(misprint):
    state = [MovingState.random(nlink.load("stanford"), 1)]
    assert misprint.printed.residual(state) > 1e-2
    assert misprint.corrected.residual(state) < 1e-12
