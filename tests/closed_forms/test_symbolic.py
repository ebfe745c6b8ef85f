"""Closed forms: against a derivation by Lagrange's equations, and against the numbers."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
import sympy as sp

import nlink
from nlink import symbolic
from nlink.testing import samples

STATE = ("q", "qd", "qdd")


@pytest.fixture(scope="module")
def planar() -> nlink.Robot:
    return nlink.load("planar3")


@cache
def lagrange(n: int) -> list[sp.Expr]:
    """The planar arm of unit rods: d/dt dL/dqd - dL/dq, with nothing from nlink."""
    t = sp.Symbol("t")
    q = [sp.Function(f"q{i}")(t) for i in range(n)]
    angle, x, y, energy = 0, 0, 0, 0
    for i in range(n):
        angle += q[i]
        cx, cy = x + sp.cos(angle) / 2, y + sp.sin(angle) / 2
        speed = cx.diff(t) ** 2 + cy.diff(t) ** 2
        energy += speed / 2 + angle.diff(t) ** 2 / 24 - sp.Rational("9.81") * cy
        x, y = x + sp.cos(angle), y + sp.sin(angle)
    names = {}
    for i in range(n):
        names[q[i].diff(t, 2)] = sp.Symbol(f"qdd_{i + 1}")
        names[q[i].diff(t)] = sp.Symbol(f"qd_{i + 1}")
        names[q[i]] = sp.Symbol(f"q_{i + 1}")
    equations = (energy.diff(q[i].diff(t)).diff(t) - energy.diff(q[i]) for i in range(n))
    return [e.subs(names) for e in equations]


def numbers(robot: nlink.Robot, seed: int = 0) -> dict[str, float]:
    x = samples(robot, seed, states=1)[0]
    return {f"{name}_{k + 1}": float(v) for name in STATE for k, v in enumerate(getattr(x, name))}


def value(expression: sp.Expr, at: dict[str, float]) -> float:
    return float(sp.sympify(expression).evalf(25, subs=at))


@pytest.mark.parametrize("form", ["plain", "simplified", "cse"])
def test_numbers_of_a_form_have_one_style(form):
    """9.81 stands beside 19.62, not beside 981/50; without decimals, fractions stay."""
    closed = symbolic(nlink.load("double_pendulum"), "gravity_torque")
    text = {"plain": lambda: str(closed), "simplified": lambda: str(closed.simplified()),
            "cse": lambda: str(closed.cse())}[form]()
    assert "9.81*" in text
    assert "19.62*" in text
    assert "/" not in text


def test_only_fractions_whose_digits_do_not_end_stand_beside_decimals(planar):
    torque = str(symbolic(planar, "inverse_dynamics").simplified().equations[2][1])
    assert "4.905*cos" in torque
    assert "0.5*qd_2**2*sin(q_3)" in torque
    assert "qdd_3/3" in torque
    assert str(symbolic(planar, "mass_matrix").simplified().equations[5][1]) == "cos(q_3)/2 + 1/3"


@pytest.mark.slow
@pytest.mark.parametrize("simplify", [False, True])
def test_planar_torques_are_lagranges(planar, simplify):
    closed = symbolic(planar, "inverse_dynamics")
    torques = (closed.simplified() if simplify else closed).outputs["tau"]
    for seed in range(3):
        at = numbers(planar, seed)
        expected = np.array([value(e, at) for e in lagrange(3)])
        got = np.array([value(e, at) for e in torques])
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.slow
def test_simplified_planar_torques_equal_lagranges_as_expressions(planar):
    torques = symbolic(planar, "inverse_dynamics").simplified().outputs["tau"]
    for got, expected in zip(torques, lagrange(3), strict=True):
        rest = sp.expand(sp.nsimplify(got, rational=True) - expected, trig=True)
        rest = sp.expand(rest.rewrite(sp.exp))
        assert sp.simplify(rest) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inverse_dynamics", "gravity_torque", "jacobian", "pose"])
def test_named_parts_reproduce_the_numbers(name):
    robot = nlink.load("stanford")
    closed = symbolic(robot, name)
    at = numbers(robot)
    definitions, outputs = closed.cse()
    known = dict(at)
    for symbol, expression in definitions:
        assert {s.name for s in expression.free_symbols} <= set(known)
        known[symbol.name] = value(expression, known)
    (got,) = outputs.values()
    got = np.vectorize(lambda e: value(e, known))(np.array(got, dtype=object))
    x = samples(robot, 0, states=1)[0]
    inputs = {"inverse_dynamics": (x.q, x.qd, x.qdd)}.get(name, (x.q,))
    expected = getattr(robot, name)(*inputs, engine="python")
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13 * (1 + np.abs(expected).max()))


def test_outputs_have_the_shape_of_the_arrays(planar):
    J = symbolic(planar, "jacobian").outputs["J"]
    assert (len(J), len(J[0])) == (6, 3)
    assert isinstance(symbolic(planar, "kinetic_energy").outputs["T"], sp.Expr)
    found = symbolic(planar, "jacobian_derivatives").outputs["dJ_dq"]
    q = samples(planar, 0, states=1)[0].q
    got = np.vectorize(lambda e: value(e, numbers(planar)))(np.array(found, dtype=object))
    np.testing.assert_allclose(got, planar.jacobian_derivatives(q, engine="python"), atol=1e-13)


def test_elements_have_a_number_for_each_axis(planar):
    names = [name for name, _ in symbolic(planar, "mass_matrix_derivatives").equations]
    assert names == [f"dM_dq_{i}{j}{k}" for i in (1, 2, 3) for j in (1, 2, 3) for k in (1, 2, 3)]
    x, scope = samples(planar, 0, states=1)[0], {"math": __import__("math")} | numbers(planar)
    exec(symbolic(planar, "regressor").code("python"), scope)  # 30 columns
    expected = planar.regressor(x.q, x.qd, x.qdd, engine="python")
    np.testing.assert_allclose(
        [[scope[f"Y_{i}_{j}"] for j in range(1, 31)] for i in (1, 2, 3)], expected, atol=1e-12)


def test_named_parameters_stand_for_the_numbers(planar):
    closed = symbolic(planar, "gravity_torque", parameters="names")
    names = {s.name for e in closed.values for s in e.free_symbols}
    assert {"m_1", "m_3", "g"} <= names
    assert not re.search(r"\d\.\d{6}", str(closed))


def test_python_code_runs(planar):
    scope: dict = {"math": __import__("math")} | numbers(planar)
    exec(symbolic(planar, "inverse_dynamics").code("python"), scope)
    x = samples(planar, 0, states=1)[0]
    expected = planar.inverse_dynamics(x.q, x.qd, x.qdd, engine="python")
    np.testing.assert_allclose([scope[f"tau_{k}"] for k in (1, 2, 3)], expected, rtol=1e-13)
    exec(symbolic(planar, "inverse_dynamics_derivatives").code("python"), scope)
    for name, matrix in zip(("dtau_dq", "dtau_dqd"), planar.inverse_dynamics_derivatives(
            x.q, x.qd, x.qdd, engine="python"), strict=True):
        got = [[scope[f"{name}_{i}{j}"] for j in (1, 2, 3)] for i in (1, 2, 3)]
        np.testing.assert_allclose(got, matrix, rtol=1e-13, atol=1e-13)


def test_c_code_defines_before_it_uses(planar):
    text = symbolic(planar, "inverse_dynamics").code("c")
    known = set(numbers(planar)) | {"sin", "cos", "pow", "sqrt", "const", "double"}
    for line in text.splitlines():
        match = re.fullmatch(r"const double (\w+) = (.*);", line)
        assert match, line
        used = set(re.findall(r"\b[A-Za-z_]\w*", match[2]))
        assert used <= known
        known.add(match[1])
    assert {"tau_1", "tau_2", "tau_3"} <= known


def test_an_unknown_language_is_refused(planar):
    with pytest.raises(ValueError, match="language: 'fortran', expected one of python, c"):
        symbolic(planar, "gravity_torque").code("fortran")


def test_unknown_parameters_are_refused(planar):
    with pytest.raises(ValueError, match="parameters: 'letters', expected 'numbers' or 'names'"):
        symbolic(planar, "gravity_torque", parameters="letters")


@pytest.mark.parametrize("name", [
    "inverse_dynamics", "jacobian", "kinetic_energy", "mass_matrix_derivatives",
    "inverse_dynamics_derivatives", "inverse_dynamics_jvp"])
def test_latex_is_balanced(planar, name):
    text = symbolic(planar, name).latex()
    assert text.count("{") == text.count("}")
    assert text.count(r"\left") == text.count(r"\right")
    assert re.findall(r"\\begin{(\w+)}", text) == re.findall(r"\\end{(\w+)}", text)
    assert re.search(r"q_{1}", text)


def test_str_is_one_equation_an_element(planar):
    lines = str(symbolic(planar, "gravity_torque").simplified()).splitlines()
    assert [line.split(" = ")[0] for line in lines] == ["tau_1", "tau_2", "tau_3"]


def test_notebooks_typeset_short_forms_and_not_long_ones():
    short = nlink.symbolic(nlink.load("double_pendulum"), "gravity_torque", parameters="names")
    assert repr(short) == "<Symbolic gravity_torque(q): tau 2>"
    shown = short._repr_latex_()
    assert shown is not None
    assert shown.startswith("$$\n")
    assert shown.endswith("\n$$")
    assert nlink.symbolic(nlink.load("puma560"), "forward_dynamics")._repr_latex_() is None


def test_the_lower_half_of_a_symmetric_matrix_is_named_with_both_indices():
    latex = nlink.symbolic(nlink.load("planar3"), "mass_matrix", parameters="names").latex()
    assert latex.endswith("M_{ji} &= M_{ij}\n\\end{aligned}")


def test_what_never_exists_is_refused():
    with pytest.raises(ValueError, match="operational_inertia: does not exist for planar3"):
        nlink.symbolic(nlink.load("planar3"), "operational_inertia")
