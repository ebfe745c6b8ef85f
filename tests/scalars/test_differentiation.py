"""The passes that differentiate graphs: every primitive, choices, kinks and higher orders."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nlink
from nlink.scalars.differentiation import pullback, pushforward
from nlink.scalars.graph import Graph
from nlink.scalars.lookup import LookupTable
from nlink.scalars.primitives import PRIMITIVES
from nlink.scalars.traversal import evaluate

NUMERIC = [row for row in PRIMITIVES.values() if not row.is_truth and row.arity
           and not row.truths and row.name not in ("float_bits", "from_float_bits", "scramble")]


def both(function, *at, tangents=None):
    """The slope along tangents by both passes, and the value."""
    g = Graph()
    x = [g.input(k) for k in range(len(at))]
    y = g.lift(function(*x))
    tangents = (1.0,) * len(at) if tangents is None else tangents
    (forward,) = pushforward([y], {a: g.const(t) for a, t in zip(x, tangents, strict=True)})
    reverse = pullback([y], [g.const(1)], x)
    with np.errstate(all="ignore"):
        values = evaluate([forward, *reverse], dict(enumerate(at)))
    return values[0], values[1:]


@pytest.mark.parametrize("row", NUMERIC, ids=lambda row: row.name)
def test_slopes_of_primitives_are_limits_of_differences(row):
    rng = np.random.default_rng(0)
    for _ in range(5):
        at = rng.uniform(0.3, 2.0, row.arity)
        forward, reverse = both(row.apply, *at)
        h = 1e-6
        slopes = [(row.floats(*(at + h * e)) - row.floats(*(at - h * e))) / (2 * h)
                  for e in np.eye(row.arity)]
        np.testing.assert_allclose(reverse, slopes, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(forward, sum(slopes), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("function", "at", "slope"), [
    (nlink.abs, 0.0, 0.0),
    (nlink.sign, 0.0, 0.0),
    (nlink.floor, 1.0, 0.0),
    (LookupTable([1.0, 5.0]), 0.5, 0.0),
    (nlink.sqrt, 0.0, math.inf),
    (lambda x: nlink.minimum(x, 2 * x), 0.0, 1.0),
    (lambda x: nlink.maximum(x, 2 * x), 0.0, 1.0),
    (lambda x: nlink.clip(x, -1.0, 1.0), 2.0, 0.0),
    (lambda x: nlink.clip(x, -1.0, 1.0), 0.5, 1.0),
    (lambda x: nlink.pow(x, 2.0), 0.0, 0.0),
    (lambda x: x**3, -2.0, 12.0),
])
def test_slopes_where_functions_have_kinks(function, at, slope):
    forward, (reverse,) = both(function, at)
    assert forward == reverse == slope


@pytest.mark.parametrize("function", [
    lambda x: nlink.where(nlink.less(0.0, x), nlink.sqrt(x), 3.0 * x),
    lambda x: nlink.where(nlink.less(0.0, x) & nlink.less(x, 1.0), nlink.log(x) + nlink.sqrt(x),
                          3.0 * x),
    lambda x: nlink.where(nlink.less(0.0, x), nlink.where(nlink.less(x, 5.0), 1 / x, 1 / x**2),
                          3 * x),
    lambda x: nlink.maximum(nlink.minimum(1 / x, -1e300), 3.0 * x),
])
def test_what_is_not_chosen_has_no_part_in_the_slope(function):
    forward, (reverse,) = both(function, 0.0)
    assert forward == reverse == 3.0


def test_orders_of_a_polynomial():
    g = Graph()
    x = g.input("x")
    y, expected = x**5, 5 * 2.0**4
    for power in (4, 3, 2, 1):
        (y,) = pullback([y], [g.const(1)], [x]) if power % 2 else pushforward([y], {x: g.const(1)})
        assert evaluate([y], {"x": 2.0}) == [expected]
        expected *= power / 2.0


def test_what_is_no_input_is_refused():
    g = Graph()
    x, y = g.input("x"), g.input("y")
    for refused in (lambda: pushforward([-x * y], {-x: g.const(1)}),
                    lambda: pullback([-x * y], [g.const(1)], [-x])):
        with pytest.raises(ValueError, match="expected one by inputs"):
            refused()


def test_structural_zeros_are_zeros():
    g = Graph()
    x, y = g.input("x"), g.input("y")
    (zero,) = pushforward([nlink.sin(x)], {y: g.const(1)})
    assert zero.op == "const"
    assert zero.value == 0
    assert [n.op for n in pullback([nlink.sin(x)], [g.const(1)], [y])] == ["const"]
