"""The graph scalar: folding, sharing, evaluation on any scalar."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nlink.scalars.functions import cos, less, maximum, minimum, sign, sin, sqrt, where
from nlink.scalars.graph import Graph
from nlink.scalars.lookup import LookupTable
from nlink.scalars.traversal import evaluate, reachable, substitute

EPS = np.finfo(float).eps


@pytest.fixture
def graph() -> Graph:
    return Graph()


@pytest.fixture
def x(graph):
    return graph.input("x")


@pytest.fixture
def y(graph):
    return graph.input("y")


FOLDING = {
    "x + 0 = x": lambda x, y: (x + 0, x),
    "0 + x = x": lambda x, y: (0.0 + x, x),
    "x - 0 = x": lambda x, y: (x - 0, x),
    "0 - x = -x": lambda x, y: (0 - x, -x),
    "x - x = 0": lambda x, y: (x - x, x * 0),
    "x * 1 = x": lambda x, y: (x * 1, x),
    "1 * x = x": lambda x, y: (1.0 * x, x),
    "0 / x = 0": lambda x, y: (0 / x, x * 0),
    "x / 1 = x": lambda x, y: (x / 1, x),
    "x / 4 = 0.25 x": lambda x, y: (x / 4, 0.25 * x),
    "-(-x) = x": lambda x, y: (0 - (-x), x),
    "+x = x": lambda x, y: (+x, x),
    "-(x - y) = y - x": lambda x, y: (-(x - y), y - x),
    "x + -y = x - y": lambda x, y: (x + -y, x - y),
    "-x + y = y - x": lambda x, y: (-x + y, y - x),
    "x - -y = x + y": lambda x, y: (x - -y, x + y),
    "-x - y = -(x + y)": lambda x, y: (-x - y, -(x + y)),
    "-x * y = -(x y)": lambda x, y: (-x * y, -(x * y)),
    "-x * -y = x y": lambda x, y: (-x * -y, x * y),
    "(-2) x = -(2 x)": lambda x, y: (-2 * x, -(2 * x)),
    "2 (3 x) = 6 x": lambda x, y: (2 * (3 * x), 6 * x),
    "-x / y = -(x / y)": lambda x, y: (-x / y, -(x / y)),
    "x / -y = -(x / y)": lambda x, y: (x / -y, -(x / y)),
    "sin(-x) = -sin x": lambda x, y: (sin(-x), -sin(x)),
    "cos(-x) = cos x": lambda x, y: (cos(-x), cos(x)),
    "x + y = y + x": lambda x, y: (x + y, y + x),
    "x y = y x": lambda x, y: (x * y, y * x),
    "|-x| = |x|": lambda x, y: (abs(-x), abs(x)),
    "||x|| = |x|": lambda x, y: (abs(abs(x)), abs(x)),
    "min(x, x) = x": lambda x, y: (minimum(x, x), x),
    "max(x, x) = x": lambda x, y: (maximum(x, x), x),
    "x > y is y < x": lambda x, y: (x > y, less(y, x)),
    "where(c, x, x) = x": lambda x, y: (where(x < y, x, x), x),
    "where(true, x, y) = x": lambda x, y: (where(True, x, y), x),
    "where(x < x, x, y) = y": lambda x, y: (where(x < x, x, y), y),
    "where(~c, x, y) = where(c, y, x)": lambda x, y: (where(~(x < y), x, y), where(x < y, y, x)),
    "c & c = c": lambda x, y: ((x < y) & (x < y), x < y),
    "c & true = c": lambda x, y: (True & (x < y), x < y),
    "c & false = false": lambda x, y: ((x < y) & (x < x), y < y),
    "c | false = c": lambda x, y: ((x < y) | (np.float64(2) < 1), x < y),
    "c | true = true": lambda x, y: ((x < y) | True, ~(y < y)),
    "c & d = d & c": lambda x, y: ((x < y) & (x <= y), (x <= y) & (x < y)),
    "~~c = c": lambda x, y: (~~(x < y), x < y),
    "where(c, d, c) = c & d": lambda x, y: (where(x < y, x <= y, False), (x < y) & (x <= y)),
}


@pytest.mark.parametrize("rule", FOLDING)
def test_folding_rule(rule, x, y):
    left, right = FOLDING[rule](x, y)
    assert left is right


def test_zero_times_anything_is_the_constant_zero(x):
    assert (x * 0).op == "const"
    assert (x * 0).value == 0
    assert math.copysign(1, (x * -0.0).value) == 1


@pytest.mark.parametrize(("function", "reference"), [
    (sin, math.sin), (cos, math.cos), (sqrt, math.sqrt), (sign, lambda v: 1.0)])
def test_functions_of_constants_fold(graph, function, reference):
    assert float(function(graph.const(0.7))) == reference(0.7)


def test_equal_expressions_are_one_node(graph, x, y):
    before = (x * y + sin(x)) / y
    size = len(graph.nodes)
    assert (sin(x) + y * x) / y is before
    assert len(graph.nodes) == size


def test_constants_do_not_hold_what_they_do_not_need(graph):
    assert graph.const(float("nan")) is graph.const(float("nan"))
    assert float(1 / graph.const(4.0)) == 0.25


def test_division_by_constant_zero_is_ieee(graph):
    zero, one = graph.const(0), graph.const(1)
    assert float(one / zero) == math.inf
    assert math.isnan(float(zero / zero))


def test_a_node_has_no_truth_value(x):
    with pytest.raises(TypeError, match="no truth value"):
        bool(x)
    with pytest.raises(TypeError, match="no truth value"):
        assert not (x * 2)


def test_an_expression_is_not_a_number(x):
    with pytest.raises(TypeError, match="not a number"):
        float(x + 1)


def test_nodes_of_two_graphs_do_not_mix(x):
    with pytest.raises(ValueError, match="two graphs"):
        x + Graph().input("x")


@pytest.mark.parametrize("thing", ["1", None, 1j, {1.0}, ["1"]])
def test_only_numbers_become_nodes(x, thing):
    with pytest.raises(TypeError, match="cannot become a graph node"):
        x + thing


@pytest.mark.parametrize("make", [np.array, list, tuple])
def test_a_node_beside_an_array_or_a_list_works_element_by_element(x, y, make):
    many = make([2.0, 3.0])
    for got, expected in (
            (many * x, [2 * x, 3 * x]), (x * many, [2 * x, 3 * x]),
            (many + x, [2 + x, 3 + x]), (x + many, [2 + x, 3 + x]),
            (many - x, [2 - x, 3 - x]), (x - many, [x - 2, x - 3]),
            (many / x, [2 / x, 3 / x]), (x / many, [x / 2, x / 3]),
            (np.array([x, y]) * y, [x * y, y * y])):
        assert isinstance(got, np.ndarray)
        assert all(a is b for a, b in zip(got, expected, strict=True))
    assert (np.ones((2, 3)) * x).shape == (2, 3)
    assert np.array(2.0) * x is 2 * x


def test_a_table_is_looked_up_by_any_scalar(graph, x):
    table = LookupTable([1.0, 4.0, 9.0])
    places = np.array([-np.inf, -1.0, 0.0, 0.5, 1.0, 2.9, 3.0, 1e300, np.nan])
    expected = [1, 1, 1, 1, 4, 9, 9, 9, np.nan]
    assert np.array_equal(table(places), expected, equal_nan=True)
    assert np.array_equal([table(v) for v in places.tolist()], expected, equal_nan=True)
    node = table(x + 1)
    assert node is LookupTable([1.0, 4.0, 9.0])(x + 1)
    assert node is not LookupTable([1.0, 4.0, 8.0])(x + 1)
    assert evaluate([node], {"x": 0.5}) == [4.0]
    assert table(graph.const(2.5)) is graph.const(9.0)
    copies = substitute([node], Graph(), {})
    assert evaluate(copies, {"x": 1.5}) == [9.0]
    with pytest.raises(TypeError, match="a Symbol cannot be looked up in a table"):
        table(sympy.Symbol("s"))
    with pytest.raises(ValueError, match="values: none, expected at least one"):
        LookupTable([])


def test_numpy_scalars_defer_to_nodes(x):
    assert np.float64(2.0) * x is x * 2
    assert np.int64(3) + x is x + 3


def test_offline_is_what_parameters_alone_determine(graph, x):
    p = graph.parameter("p")
    assert sin(p * 2 + 1).offline
    assert not (p * x).offline
    assert graph.const(1).offline


def test_reachable_leaves_out_dead_code(graph, x, y):
    dead = x * y * 3
    live = reachable([sin(x) + 1])
    assert dead not in live
    assert y not in live
    assert [n.index for n in live] == sorted(n.index for n in live)
    assert all(a.index < n.index for n in live for a in n.args)


def test_evaluate_needs_every_live_input_only(x, y):
    assert evaluate([x * 2, x], {"x": 3.0}) == [6.0, 3.0]
    with pytest.raises(KeyError, match="'y'"):
        evaluate([x * y], {"x": 3.0})


def test_evaluate_on_any_scalar(graph, x, y):
    node = sin(x) * y + sqrt(y) / (cos(x) + 3) - x

    def f(x, y):
        return np.sin(x) * y + np.sqrt(y) / (np.cos(x) + 3) - x

    assert evaluate([node], {"x": 0.3, "y": 2.0})[0] == pytest.approx(f(0.3, 2.0), rel=4 * EPS)
    xs, ys = np.linspace(-1, 1, 5), np.linspace(1, 2, 5)
    np.testing.assert_allclose(evaluate([node], {"x": xs, "y": ys})[0], f(xs, ys), rtol=8 * EPS)
    z = 0.3 + 0.2j
    assert evaluate([node], {"x": z, "y": 2 + 0j})[0] == pytest.approx(f(z, 2 + 0j), rel=8 * EPS)
    sx, sy = sympy.symbols("x y", positive=True)
    exact = evaluate([node], {"x": sx, "y": sy})[0]
    assert float(exact.subs({sx: 0.3, sy: 2.0})) == pytest.approx(f(0.3, 2.0), rel=8 * EPS)


def test_evaluate_into_another_graph_copies_and_folds(x, y):
    other = Graph()
    a = other.input("a")
    (copy,) = evaluate([sin(x) * y + x], {"x": a, "y": 0})
    assert copy is a


def test_substitute_replaces_nodes_and_folds(graph, x, y):
    inner = x * y
    other = Graph()
    z = other.input("z")
    root, again = substitute([inner + sin(inner), inner], other, {inner.index: z})
    assert root is z + sin(z)
    assert again is z
    (zero,) = substitute([inner * 2], other, {x.index: other.const(0)})
    assert float(zero) == 0


def test_substitute_keeps_parameters_off_line(graph):
    other = Graph()
    (copy,) = substitute([graph.parameter("p") * 2], other, {})
    assert copy.offline
    assert copy.graph is other


@dataclass(frozen=True)
class Rounded:
    """A float with a first-order bound of its rounding error."""

    value: float
    error: float = 0.0

    def _result(self, value: float, error: float) -> Rounded:
        return Rounded(value, error + EPS * abs(value))

    def __add__(self, other: Rounded) -> Rounded:
        return self._result(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Rounded) -> Rounded:
        return self + -other

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.error)

    def __mul__(self, other: Rounded) -> Rounded:
        return self._result(self.value * other.value,
                            abs(self.value) * other.error + abs(other.value) * self.error)

    def __truediv__(self, other: Rounded) -> Rounded:
        value = self.value / other.value
        return self._result(value, (self.error + abs(value) * other.error) / abs(other.value))

    def sin(self) -> Rounded:
        return self._result(math.sin(self.value), self.error)

    def cos(self) -> Rounded:
        return self._result(math.cos(self.value), self.error)

    def sqrt(self) -> Rounded:
        value = math.sqrt(self.value)
        return self._result(value, self.error / value)


LEAVES = st.one_of(
    st.sampled_from(["x", "y", "z"]),
    st.sampled_from([0.0, 1.0, -1.0, 0.5, -2.0, 3.0]),
    st.floats(-4, 4, allow_nan=False))
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "/"]), inner, inner),
        st.tuples(st.sampled_from(["neg", "sin", "cos", "sqrt"]), inner)),
    max_leaves=30)


def run(expression, scalar):
    """An expression on scalars: `scalar` makes one of a name or a number."""
    if not isinstance(expression, tuple):
        return scalar(expression)
    name, *arguments = expression
    one = scalar(1.0)
    operation = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
                 "/": lambda a, b: a / (b * b + one), "neg": lambda a: -a, "sin": sin, "cos": cos,
                 "sqrt": lambda a: sqrt(a * a + one)}[name]
    return operation(*(run(a, scalar) for a in arguments))


@pytest.mark.slow
@given(EXPRESSIONS, st.fixed_dictionaries({name: st.floats(-2, 2) for name in "xyz"}))
@settings(max_examples=300)
def test_a_simplified_graph_has_the_value_of_the_expression(expression, values):
    graph = Graph()
    node = run(expression, lambda leaf: graph.input(leaf) if isinstance(leaf, str)
               else graph.const(leaf))
    (simplified,) = evaluate([node], values)
    direct = run(expression, lambda leaf: Rounded(values.get(leaf, leaf)))
    assume(direct.error < 1)
    assert abs(simplified - direct.value) <= 4 * direct.error
