"""The three-link planar robot of [Saha99b, section 6] in closed form: eqs. (42)-(48)."""

from __future__ import annotations

import re
from functools import cache

import pytest
import sympy as sp

import nlink
from nlink.closed_forms.harmonics import Harmonics
from nlink.closed_forms.ratios import Divisors, Ratio
from nlink.closed_forms.simplification import closed_form, inputs, symbol_name
from nlink.scalars.traversal import evaluate
from nlink.spatial import Vector

FACTORS = Divisors()
MAKE = Ratio.maker(FACTORS)


def symbol(name: str) -> Ratio:
    return MAKE(Harmonics.symbol(name))


@cache
def ours(name: str) -> dict[tuple[int, ...], Ratio]:
    """The elements that nlink computes, exact, in the same symbols."""
    program = nlink.symbolic(nlink.load("planar3"), name, parameters="names").program
    bindings = {name: symbol(symbol_name(name)) for name in inputs(program.results)}
    values = [x if isinstance(x, Ratio) else MAKE(x)
              for x in evaluate(program.results, bindings, MAKE)]
    elements = {}
    for port in program.outputs:
        for k in range(port.size):
            row, column = divmod(k, port.shape[-1])
            at = (row + 1, column + 1) if len(port.shape) == 2 else (k + 1,)
            elements[at] = values.pop(0)
    return elements


class Paper:
    """The paper's own expressions, with rho_23 and (45), (47), (48) corrected."""

    def __init__(self) -> None:
        q = {i: symbol(f"q_{i}") for i in (1, 2, 3)}
        angle = {1: q[1], 12: q[1] + q[2], 13: q[1] + q[2] + q[3]}
        a = {i: symbol(f"a_{i}") for i in (1, 2)}

        def along(length: Ratio, of: int) -> Vector:
            return Vector(angle[of].cos() * length, angle[of].sin() * length, 0)

        d = {i: along(symbol(f"c_{i}"), of) for i, of in ((1, 1), (2, 12), (3, 13))}
        self.d = d
        self.rho = {12: along(a[1], 1) + d[2], 23: along(a[2], 12) + d[3],
                    13: along(a[1], 1) + along(a[2], 12) + d[3]}
        self.m = {i: symbol(f"m_{i}") for i in (1, 2, 3)}
        self.I = {i: symbol(f"Izz_{i}") for i in (1, 2, 3)}

    def inertia(self) -> dict[tuple[int, int], Ratio]:
        """(43a)-(43f)."""
        I, m, d, rho = self.I, self.m, self.d, self.rho
        return {
            (1, 1): I[1] + m[1] * d[1].dot(d[1]) + I[2] + m[2] * rho[12].dot(rho[12])
            + I[3] + m[3] * rho[13].dot(rho[13]),
            (2, 1): I[2] + m[2] * d[2].dot(rho[12]) + I[3] + m[3] * rho[23].dot(rho[13]),
            (2, 2): I[2] + m[2] * d[2].dot(d[2]) + I[3] + m[3] * rho[23].dot(rho[23]),
            (3, 1): I[3] + m[3] * d[3].dot(rho[13]),
            (3, 2): I[3] + m[3] * d[3].dot(rho[23]),
            (3, 3): I[3] + m[3] * d[3].dot(d[3]),
        }

    def factors(self) -> tuple[dict[tuple[int, int], Ratio], dict[int, Ratio]]:
        """(45)."""
        i = self.inertia()
        mhat = {3: i[3, 3]}
        alpha = {(1, 3): i[3, 1] / mhat[3], (2, 3): i[3, 2] / mhat[3]}
        mhat[2] = i[2, 2] - i[3, 2] * i[3, 2] / mhat[3]
        inner = i[2, 1] - i[3, 1] * i[3, 2] / mhat[3]
        alpha[1, 2] = inner / mhat[2]
        mhat[1] = i[1, 1] - i[3, 1] * i[3, 1] / mhat[3] - inner * inner / mhat[2]
        return alpha, mhat

    def primed(self) -> dict[tuple[int, int], Ratio]:
        """(47)."""
        i, (alpha, mhat) = self.inertia(), self.factors()
        inner = i[2, 1] - i[3, 1] * i[3, 2] / mhat[3]
        return {(1, 2): alpha[1, 2], (2, 3): alpha[2, 3],
                (1, 3): (i[3, 1] - i[3, 2] * inner / mhat[2]) / mhat[3]}


@pytest.fixture(scope="module")
def paper() -> Paper:
    return Paper()


def test_equation_42_inertia_is_symmetric():
    M = ours("mass_matrix")
    assert all(M[i, j] == M[j, i] for i, j in M)


def test_equation_43_inertia_matrix(paper):
    M = ours("mass_matrix")
    for at, expected in paper.inertia().items():
        assert M[at] == expected, at


def test_equation_43_for_uniform_rods():
    """The second form of (43): c_i = l_i/2, I_i = m_i l_i^2/12."""
    M = nlink.symbolic(nlink.load("planar3"), "mass_matrix", parameters="names").outputs["M"]
    l1, l2, l3, m1, m2, m3, q2, q3 = sp.symbols("l_1 l_2 l_3 m_1 m_2 m_3 q_2 q_3")
    rods = {f"c_{i}": length / 2 for i, length in ((1, l1), (2, l2), (3, l3))}
    rods |= {f"Izz_{i}": m * length**2 / 12
             for i, m, length in ((1, m1, l1), (2, m2, l2), (3, m3, l3))}
    rods |= {"a_1": l1, "a_2": l2}
    c2, c3, c23, third, half = sp.cos(q2), sp.cos(q3), sp.cos(q2 + q3), sp.Rational(1, 3), \
        sp.Rational(1, 2)
    printed = {
        (1, 1): m1 * l1**2 * third + m2 * (l1**2 + l2**2 * third + l1 * l2 * c2) + m3 * (
            l1**2 + l2**2 + l3**2 * third + 2 * l1 * l2 * c2 + l1 * l3 * c23 + l2 * l3 * c3),
        (2, 1): m2 * (l2**2 * third + l1 * l2 * c2 * half) + m3 * (
            l1 * l2 * c2 + l2**2 + l2 * l3 * c3 + l1 * l3 * c23 * half + l3**2 * third),
        (2, 2): m2 * l2**2 * third + m3 * (l2**2 + l3**2 * third + l2 * l3 * c3),
        (3, 1): m3 * (l1 * l3 * c23 * half + l2 * l3 * c3 * half + l3**2 * third),
        (3, 2): m3 * (l2 * l3 * c3 * half + l3**2 * third),
        (3, 3): m3 * l3**2 * third,
    }
    for (i, j), expected in printed.items():
        difference = M[i - 1][j - 1].subs(rods) - expected
        assert sp.simplify(sp.expand_trig(sp.expand(difference))) == 0, (i, j)


def test_equation_44_angles_add():
    q1, q2, q3 = (symbol(f"q_{i}") for i in (1, 2, 3))
    whole = (q1 + q2 + q3).cos()
    assert whole == (q1 + q2).cos() * q3.cos() - (q1 + q2).sin() * q3.sin()


def test_equation_45_factors(paper):
    elements, (alpha, mhat) = ours("factor_mass_matrix"), paper.factors()
    for at, expected in alpha.items():
        assert elements[at] == expected, at
    for k, expected in mhat.items():
        assert elements[k,] == expected, k


def test_equation_46_inertia_from_factors(paper):
    M, (alpha, mhat) = ours("mass_matrix"), paper.factors()
    for i in (1, 2, 3):
        for j in range(1, i + 1):
            terms = (mhat[k] * alpha.get((i, k), 1) * alpha.get((j, k), 1)
                     for k in range(i, 4))
            assert M[i, j] == sum(terms, MAKE(0.0)), (i, j)


def test_equation_47_inverse_of_the_upper_factor(paper):
    U, primed = ours("factor_mass_matrix"), paper.primed()
    for i in (1, 2, 3):
        for j in range(i + 1, 4):
            product = sum((U[i, k] * (-primed[k, j] if k < j else 1)
                           for k in range(i, j + 1)), MAKE(0.0))
            assert product == MAKE(0.0), (i, j)


@pytest.mark.slow
def test_equation_48_inverse(paper):
    Minv, primed, (_, mhat) = ours("inverse_mass_matrix"), paper.primed(), paper.factors()
    p12, p13, p23 = (primed[at] for at in ((1, 2), (1, 3), (2, 3)))
    printed = {
        (1, 1): 1 / mhat[1], (2, 1): -p12 / mhat[1], (3, 1): -p13 / mhat[1],
        (2, 2): p12 * p12 / mhat[1] + 1 / mhat[2],
        (3, 2): p12 * p13 / mhat[1] - p23 / mhat[2],
        (3, 3): p13 * p13 / mhat[1] + p23 * p23 / mhat[2] + 1 / mhat[3],
    }
    for (i, j), expected in printed.items():
        assert Minv[i, j] == Minv[j, i] == expected, (i, j)


@pytest.mark.slow
def test_the_inverse_is_printed_as_the_paper_prints_it():
    closed = nlink.symbolic(nlink.load("planar3"), "inverse_mass_matrix",
                            parameters="names").simplified()
    assert [str(name) for name, _ in closed.definitions] == [
        "M_11", "M_12", "M_13", "M_22", "M_23", "M_33", "mhat_3", "alpha_23", "alpha_13",
        "mhat_2", "alpha_12", "mhat_1", "alphap_13"]
    lines = dict(line.split(" = ") for line in str(closed).splitlines())
    assert lines["mhat_2"] == "M_22 - alpha_23**2*mhat_3"
    assert lines["Minv_22"] == "alpha_12**2/mhat_1 + 1/mhat_2"
    assert lines["Minv_33"] == "alpha_23**2/mhat_2 + alphap_13**2/mhat_1 + 1/mhat_3"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["inverse_mass_matrix", "factor_mass_matrix"])
@pytest.mark.parametrize("parameters", ["numbers", "names"])
def test_printed_forms_are_the_values(name, parameters):
    """With numbers for all symbols, definitions and outputs reproduce the traced program."""
    forms = nlink.symbolic(nlink.load("planar3"), name, parameters=parameters)
    closed = closed_form(forms.program)
    names = sorted({s.name for v in forms.values for s in v.free_symbols})
    at = {sp.Symbol(s): sp.Rational(k + 3, 7) for k, s in enumerate(names)}
    known = dict(at)
    for part, expression in closed.definitions:
        known[part] = expression.subs(known).evalf(30)
    for got, expected, full in zip(closed.values, forms.values, forms.simplified().values,
                                   strict=True):
        exact = expected.subs(at).evalf(30)
        assert abs(got.subs(known).evalf(30) - exact) < 1e-13 * (1 + abs(exact))
        assert abs(full.subs(at).evalf(30) - exact) < 1e-13 * (1 + abs(exact))


@pytest.mark.slow
@pytest.mark.parametrize("parameters", ["numbers", "names"])
@pytest.mark.parametrize("name", ["inverse_mass_matrix", "factor_mass_matrix", "mass_matrix"])
def test_latex_is_well_formed(name, parameters):
    text = nlink.symbolic(nlink.load("planar3"), name, parameters=parameters).latex()
    assert text.count("{") == text.count("}")
    assert text.count(r"\left") == text.count(r"\right")
    assert re.findall(r"\\begin{(\w+)}", text) == re.findall(r"\\end{(\w+)}", text)
    assert not re.search(r"'_{\w+}\^", text), "two superscripts on one letter"
    rows = re.split(r"\\\\\n|\n\n", text)
    assert max(len(re.sub(r"\\[a-z]+|[{}_^ &]", "", row)) for row in rows) < 160
    _parse_with_mathtext(rows)


def _parse_with_mathtext(rows: list[str]) -> None:
    """Matplotlib reads every formula; it has no environments, so these are taken off."""
    from matplotlib.mathtext import MathTextParser

    parser = MathTextParser("path")
    for row in rows:
        for cell in re.sub(r"\\(begin|end){\w+}", "", row).split("&"):
            if formula := " ".join(cell.split()):
                parser.parse(f"${formula}$")
