"""The ratio scalar: exact division, lowest terms, and what has no such form."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlink
from nlink.closed_forms.harmonics import Harmonics
from nlink.closed_forms.ratios import Divisors, Ratio, divide_exactly

NAMES = ("a", "b", "q")


@st.composite
def polynomials(draw) -> Harmonics:
    """A few terms in two symbols and the angle q, negative frequencies and all."""
    terms = {}
    for _ in range(draw(st.integers(1, 4))):
        powers = {name: draw(st.integers(0, 2)) for name in ("a", "b")}
        turns = draw(st.integers(-2, 2))
        monomial = tuple((name, k) for name, k in powers.items() if k)
        value = Fraction(draw(st.integers(-3, 3).filter(bool)), draw(st.integers(1, 3)))
        terms[monomial, (("q", turns),) if turns else ()] = (value, Fraction(draw(
            st.integers(-1, 1))))
    return Harmonics(terms)


@given(f=polynomials(), g=polynomials())
def test_a_product_divides_by_its_factors(f, g):
    assert divide_exactly(f * g, g) == f


@given(f=polynomials(), g=polynomials())
def test_a_quotient_times_the_divisor_is_the_dividend(f, g):
    quotient = divide_exactly(f, g)
    assert quotient is None or quotient * g == f


def scalars() -> list[Ratio]:
    make = Ratio.maker(Divisors())
    return [make(Harmonics.symbol(name)) for name in NAMES]


def test_common_factors_cancel():
    a, b, q = scalars()
    pivot = a + b * q.cos()
    x = (a * a - b * b * q.cos() * q.cos()) / pivot
    assert not x.powers
    assert x == a - b * q.cos()
    y = 1 / pivot + 1 / (pivot * pivot)
    assert y.powers == {0: 2}
    assert y * pivot * pivot == pivot + 1


def test_ratios_are_a_field():
    a, b, q = scalars()
    x, y, z = (a + 1) / (b + q.sin()), b / (a - 2), 3 / (a + q.cos())
    assert (x + y) * z == x * z + y * z
    assert x / y * y == x
    assert x - x == 0
    assert (1 - x) + x == 1
    assert x / x == 1


def test_what_is_zero_in_every_state_is_no_divisor():
    a, _, q = scalars()
    zero = q.sin() * q.sin() + q.cos() * q.cos() - 1
    with pytest.raises(ZeroDivisionError, match="zero in every state"):
        a / zero


@pytest.mark.parametrize("function", [nlink.sign, nlink.sqrt, nlink.exp, nlink.abs])
def test_what_is_no_ratio_is_refused(function):
    with pytest.raises(ArithmeticError, match="not a ratio of trigonometric polynomials"):
        function(scalars()[0])


def test_the_angle_must_be_a_combination_of_symbols():
    a, b, _ = scalars()
    with pytest.raises(ArithmeticError, match="no whole combination"):
        (a / (a + b)).cos()


@pytest.mark.slow
def test_long_quotients_are_refused_in_words():
    robot = nlink.load("stanford")
    with pytest.raises(OverflowError, match="use common subexpressions"):
        str(nlink.symbolic(robot, "inverse_mass_matrix").simplified())


def test_long_programs_print_their_shared_parts():
    text = nlink.symbolic(nlink.load("ur5"), "inverse_mass_matrix").latex()
    assert "x_{0} &= " in text
    assert len(text) < 20_000
