"""The table of primitives: one meaning a row, on every kind of scalar."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections import Counter
from itertools import product

import numpy as np
import pytest
import sympy

import nlink
from nlink.backends.llvm.kernel import Kernel
from nlink.backends.llvm.translate import compile_program
from nlink.closed_forms.expressions import Symbolic
from nlink.engines.exports import write_c
from nlink.programs.program import Port, Program
from nlink.scalars.counting import Counted, count_program
from nlink.scalars.functions import float_bits, from_float_bits
from nlink.scalars.graph import Graph
from nlink.scalars.lookup import LookupTable
from nlink.scalars.primitives import PRIMITIVES, Primitive, on
from nlink.scalars.traversal import evaluate

EPS = np.finfo(float).eps
AWKWARD = [0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 1e300, -1e-300, 5e-324, math.inf, -math.inf, math.nan]
PAIRS = np.array(list(product(AWKWARD, AWKWARD)))
REAL = [row for row in PRIMITIVES.values() if not row.is_truth and not row.truths]
SMOOTH = [row for row in REAL if row.partials is not None]


def one_of_each(a, b):
    """Every primitive of two numbers by its name; truths as the numbers they choose."""
    values = {row.name: row.apply(*(a, b)[:row.arity]) for row in REAL}
    c, d = nlink.less(a, b), nlink.less_equal(b, 1.0)
    values["from_float_bits"] = from_float_bits(float_bits(a) * 0.5 + 2.0**61)
    return values | {
        "less": nlink.where(c, 1.0, 0.0), "less_equal": nlink.where(d, 1.0, 0.0),
        "logical_and": nlink.where(c & d, 1.0, 0.0), "logical_or": nlink.where(c | d, 1.0, 0.0),
        "logical_not": nlink.where(~c & ~d, 1.0, 0.0), "where": nlink.where(c, b, a),
        "clip": nlink.clip(a, -2.0, b)}


def program_of_each() -> tuple[list[str], Program]:
    g = Graph()
    values = one_of_each(g.input("x[0]"), g.input("x[1]"))
    return list(values), Program("each", (Port("x", (2,)),), (Port("y", (len(values),)),),
                                 tuple(values.values()))


@pytest.fixture(scope="module")
def by_floats():
    return np.array([list(one_of_each(a, b).values()) for a, b in PAIRS.tolist()])


def assert_alike(names, got, wanted, rounded=()):
    """Equal, nan with nan; the columns `rounded` to rounding."""
    for name, x, y in zip(names, got.T, wanted.T, strict=True):
        if name in rounded:
            np.testing.assert_allclose(x, y, rtol=4 * EPS, err_msg=name)
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)


LIBRARY = [row.name for row in PRIMITIVES.values() if row.library]


def test_arrays_have_the_values_of_floats(by_floats):
    with np.errstate(all="ignore"):
        values = one_of_each(*PAIRS.T)
    assert_alike(values, np.array(list(values.values())).T, by_floats, ["sin", "cos", *LIBRARY])


def test_traced_programs_have_the_values_of_floats(by_floats):
    names, program = program_of_each()
    assert_alike(names, np.array([program(x)[0] for x in PAIRS.tolist()]), by_floats)


def test_compiled_programs_have_the_values_of_floats_in_every_lane(by_floats):
    names, program = program_of_each()
    kernel = Kernel(compile_program(program))
    blocks = kernel(PAIRS)
    assert_alike(names, blocks, by_floats, ["sin", "cos"])
    single = np.array([kernel(x) for x in PAIRS])
    assert np.array_equal(blocks.view(np.int64), single.view(np.int64))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_c_has_the_values_of_floats(by_floats, tmp_path):
    import ctypes

    names, program = program_of_each()
    x, y = PAIRS, np.empty_like(by_floats)
    source, _ = write_c([program], "primitives", tmp_path)
    library = tmp_path / "primitives.so"
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1",
                    "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    function = ctypes.CDLL(str(library)).primitives_each
    for k in range(len(x)):
        function(*(ctypes.c_void_p(array[k].ctypes.data) for array in (x, y)))
    assert_alike(names, y, by_floats, ["sin", "cos", *LIBRARY])


def test_sympy_has_the_values_of_floats():
    names, program = program_of_each()
    values = Symbolic(program).values
    symbols = sympy.symbols("x_1 x_2")
    for point in ((0.7, -1.3), (2.5, 0.75), (1.5, 1.5)):
        wanted = one_of_each(*point)
        for name, value in zip(names, values, strict=True):
            got = complex(sympy.sympify(value).subs(dict(zip(symbols, point, strict=True))))
            if math.isnan(wanted[name]):
                continue  # SymPy's power of a negative number is complex
            assert got == pytest.approx(wanted[name], rel=1e-13), name
    text = str(Symbolic(program).cse())
    assert all(word in text for word in ("Piecewise", "Min(", "Max(", "Abs(", "atan2("))
    assert r"\begin{cases}" in Symbolic(program).latex()
    assert "fmin(" in Symbolic(program).code("c")


@pytest.mark.parametrize("row", SMOOTH, ids=lambda row: row.name)
def test_partial_derivatives_are_those_of_differences(row):
    rng = np.random.default_rng(1)
    for _ in range(20):
        x = rng.uniform(0.3, 3.0, row.arity) * (rng.choice([-1, 1], row.arity) if row.name not in (
            "log", "sqrt", "pow", "float_bits") else 1)
        if row.name == "from_float_bits":
            x = 2.0**52 * (1023 + x)
        x = x.tolist()
        partials = row.derivatives(*x, result=row.floats(*x))
        assert len(partials) == row.arity
        for k, partial in enumerate(partials):
            h = 1e-6 * abs(x[k])
            ahead, behind = ([*x[:k], x[k] + s * h, *x[k + 1:]] for s in (1, -1))
            quotient = (row.floats(*ahead) - row.floats(*behind)) / (2 * h)
            assert partial == pytest.approx(quotient, rel=1e-6, abs=1e-9)
        # the same rule on nodes
        g = Graph()
        nodes = [g.input(name) for name in "ab"[:row.arity]]
        traced = [g.lift(p) for p in row.derivatives(*nodes, result=row.apply(*nodes))]
        assert evaluate(traced, dict(zip("ab", x, strict=False))) == pytest.approx(
            partials, rel=1e-14)


def test_a_choice_is_differentiated_where_it_goes():
    where = PRIMITIVES["where"]
    assert where.derivatives(True, 2.0, 3.0, result=2.0) == (0.0, 1.0, 0.0)
    assert where.derivatives(False, 2.0, 3.0, result=3.0) == (0.0, 0.0, 1.0)
    for name in ("sign", "floor", "less", "logical_and"):
        assert set(PRIMITIVES[name].derivatives(1.0, 2.0, result=0.0)) == {0.0}
    # a power of zero has a derivative by its base, and none that is nan by its exponent
    assert PRIMITIVES["pow"].derivatives(0.0, 2.0, result=0.0) == (0.0, 0.0)


def test_nan_goes_through_everything_but_a_choice():
    nan = math.nan
    for f in (nlink.minimum, nlink.maximum, nlink.atan2):
        assert math.isnan(f(nan, 1.0))
        assert math.isnan(f(1.0, nan))
    for arguments in ((nan, 0.0, 1.0), (0.5, nan, 1.0), (0.5, 0.0, nan)):
        assert math.isnan(nlink.clip(*arguments))
    for f in (nlink.abs, nlink.sign, nlink.floor, nlink.exp, nlink.log, nlink.tanh, float_bits,
              from_float_bits):
        assert math.isnan(f(nan))
    for a, b in ((nan, 1.0), (1.0, nan), (nan, nan)):
        assert not nlink.less(a, b)
        assert not nlink.less_equal(a, b)
    assert nlink.where(nlink.less(1.0, 2.0), 3.0, nan) == 3.0
    assert math.isnan(nlink.where(nlink.less(nan, 2.0), 3.0, nan))
    assert nlink.log(0.0) == -math.inf
    assert math.isnan(nlink.log(-1.0))
    assert nlink.exp(1000.0) == math.inf
    assert nlink.pow(0.0, -1.0) == math.inf


def test_bits_are_a_logarithm_and_come_back():
    for x in (1e-300, 0.3, 1.0, 1.5, 7e200):
        assert from_float_bits(float_bits(x)) == pytest.approx(x, rel=2**-42)
        assert float_bits(2 * x) - float_bits(x) == pytest.approx(2.0**52, rel=1e-12)
    assert float_bits(1.0) == 1023 * 2.0**52
    for y in (2.0**63, -2.0**63, math.inf, math.nan):
        assert math.isnan(from_float_bits(y))


def test_functions_of_constants_fold():
    g = Graph()
    for name, value in one_of_each(g.const(0.3), g.const(1.7)).items():
        assert value is g.const(one_of_each(0.3, 1.7)[name]), name


def test_truths_of_numbers_are_inverted():
    assert not ~nlink.less(1, 2)
    assert nlink.less(1, 2) & ~nlink.less(2, 1) | nlink.less(3, 2)
    with pytest.raises(TypeError, match=r"where: the condition is 0\.5, expected a truth"):
        nlink.where(0.5, 1.0, 2.0)
    with pytest.raises(TypeError, match="an array of float64, expected truths"):
        nlink.where(np.ones(2), 1.0, 2.0)


def test_functions_work_on_arrays_of_nodes():
    g = Graph()
    x, y = g.input("x"), g.input("y")
    clipped = nlink.clip(np.array([x, y]), [-1.0, -2.0], 3.0)
    assert [*clipped] == [nlink.clip(x, -1.0, 3.0), nlink.clip(y, -2.0, 3.0)]
    chosen = nlink.where(nlink.less(x, [1.0, y]), [x, 2.0], y)
    assert [*chosen] == [nlink.where(x < 1.0, x, y), nlink.where(x < y, 2.0, y)]


MISUSES = {
    "if": (lambda x, q: 1.0 if x < 0.5 else 2.0, r"nlink\.where.*traced=False"),
    "max": (lambda x, q: max(x, 0.5), r"nlink\.maximum.*traced=False"),
    "0 < x < 1": (lambda x, q: 0 < x < 1, r"combine truths with & \| ~"),
    "x == 0": (lambda x, q: x == 0, r"nlink\.less_equal"),
    "np.clip": (lambda x, q: np.clip(x, -1, 1), r"nlink\.clip"),
    "np.clip of an array": (lambda x, q: np.clip(q, -1, 1), r"nlink\.clip"),
    "np.where": (lambda x, q: np.where(q < 0, 1.0, 2.0), r"nlink\.where"),
    "np.sin": (lambda x, q: np.sin(x), r"use nlink\.sin, or simulate with traced=False"),
    "np.arctan2": (lambda x, q: np.arctan2(x, 1.0), r"use nlink\.atan2"),
    "np.maximum": (lambda x, q: np.maximum(x, 1.0), r"use nlink\.maximum"),
    "np.hypot": (lambda x, q: np.hypot(x, 1.0), "use functions of nlink"),
    "math.sin": (lambda x, q: math.sin(x), r"use nlink\.sin"),
    "math.floor": (lambda x, q: math.floor(x), r"use nlink\.floor"),
    "round": (lambda x, q: round(x, 2), r"use nlink\.floor"),
    "//": (lambda x, q: x // 0.1, r"use nlink\.floor"),
    "%": (lambda x, q: 1.0 % x, r"use nlink\.floor"),
    "np.sign of an array": (lambda x, q: np.sign(q), r"nlink\.sign"),
    "float": (lambda x, q: float(x), r"not a number: use nlink\.sin"),
    "int": (lambda x, q: int(x), "not a number"),
    "a truth as a number": (lambda x, q: 2 * (x < 1), r"a truth, expected a number: nlink\.where"),
    "a number as a truth": (lambda x, q: nlink.where(x, 1, 2), r"such as nlink\.less"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_of_a_traced_value_names_what_to_use(misuse):
    use, message = MISUSES[misuse]
    x = Graph().input("x")
    with pytest.raises(TypeError, match=message) as refused:
        use(x, np.array([x, 2 * x]))
    assert "\n" not in str(refused.value)


def test_a_table_is_exported_to_c(tmp_path):
    g = Graph()
    program = Program("look_up", (Port("x", (1,)),), (Port("y", (1,)),),
                      (LookupTable([1.0, -4.0, 9.0])(g.input("x[0]")),))
    source, _ = write_c([program], "table", tmp_path)
    assert "{1.0, (-4.0), 9.0}" in source.read_text()


def test_counting_adds_what_the_rows_say():
    tally = Counter()
    x = Counted(tally)
    y = nlink.where((x < 1) & ~nlink.less(x, 2), nlink.clip(x, -1, 1), abs(x)) + nlink.exp(x)
    assert isinstance(y, Counted)
    assert tally == Counter(add=1, trig=1, compare=6)
    g = Graph()
    x = g.input("x[0]")
    y = nlink.where((x < 1) & ~nlink.less(x, 2), nlink.clip(x, -1, 1), abs(x)) + nlink.exp(x)
    counts = count_program(Program("some", (Port("x", (1,)),), (Port("y", (1,)),), (y,)))
    assert (counts.add, counts.trig, counts.compare) == (1, 1, 6)


def test_a_new_primitive_is_one_row(monkeypatch, tmp_path):
    cube = Primitive(
        name="cube", arity=1, floats=lambda x: x * x * x, arrays=lambda x: x**3, counts="mul",
        partials=lambda x, _: (3 * x * x,), llvm=lambda block, x: block.mul(block.mul(x, x), x),
        c="{0} * {0} * {0}", sympy=lambda sp, x: x**3)
    monkeypatch.setitem(PRIMITIVES, "cube", cube)
    g = Graph()
    program = Program("cubes", (Port("x", (1,)),), (Port("y", (1,)),),
                      (on("cube", g.input("x[0]")),))
    assert program([2.0]) == [[8.0]]
    assert program(np.array([[2.0, 3.0]]))[0][0].tolist() == [8.0, 27.0]
    assert Kernel(compile_program(program))(np.array([2.0])).tolist() == [8.0]
    assert "x[0] * x[0] * x[0]" in write_c([program], "c", tmp_path)[0].read_text()
    assert str(Symbolic(program)) == "y_1 = x_1**3"
    assert count_program(program).mul == 1


SECOND = """
import sys
import numpy as np
from nlink.backends.llvm.loading import load_kernel
from nlink.scalars.graph import Graph
from nlink.scalars.primitives import PRIMITIVES
from nlink.programs.program import Port, Program

g = Graph()
x = g.input("x[0]"), g.input("x[1]")
rows = [row for row in PRIMITIVES.values() if row.library]
program = Program("library", (Port("x", (2,)),), (Port("y", (len(rows),)),),
                  tuple(row.apply(*x[:row.arity]) for row in rows))
print(load_kernel(program)(np.array([0.5, 1.5])).tolist())
print("emitted" if "nlink.backends.llvm.emit" in sys.modules else "loaded")
"""


@pytest.mark.slow
def test_library_functions_are_found_by_a_second_process(tmp_path, monkeypatch):
    monkeypatch.setenv("NLINK_CACHE", str(tmp_path / "cache"))
    first, second = (subprocess.run([sys.executable, "-c", SECOND], check=True, text=True,
                                    capture_output=True).stdout for _ in range(2))
    assert first == second.replace("loaded", "emitted")
    expected = [PRIMITIVES[name].floats(*(0.5, 1.5)[:PRIMITIVES[name].arity]) for name in LIBRARY]
    assert second == f"{expected}\nloaded\n"
