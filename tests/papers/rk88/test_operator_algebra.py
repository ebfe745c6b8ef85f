"""Operators compose, transpose, invert and explain themselves; nothing needs a matrix."""

from __future__ import annotations

import numpy as np
import pytest
from rk88_cases import CASES, case, residual

import nlink
from nlink.papers.operators import SpatialOperators
from nlink.testing import random_robot

I = 1
cases = pytest.mark.parametrize("name", CASES)


@pytest.mark.parametrize("types", [("revolute", "prismatic"), ("spherical", "universal")])
def test_the_generalized_inertia_has_one_name_for_joints_of_one_and_of_several_rates(types):
    robot = random_robot(4, 4, types=types, fixed=False)
    q = robot.random_state(np.random.default_rng(0))[0]
    inertia = robot.mass_matrix(q)
    for o in (robot.operators(q), robot.operators(q).spatial):
        assert np.abs(o.I.dense() - inertia).max() <= 1e-12 * np.abs(inertia).max()


@cases
def test_transposed_twice_is_itself(name):
    o = case(name, 1).o
    for op in (o.phi, o.Psi, o.H, o.E, o.B, I - o.H @ o.Psi @ o.L):
        assert (op.T.T.dense() == op.dense()).all()
        assert residual(op.T.dense(), op.dense().T) <= 1e-13


@cases
def test_inverses_are_recursions(name):
    c = case(name, 1)
    o = c.o
    expressions = {
        "phi": o.phi, "psi^T": o.psi.T, "D": o.D, "M": o.M,
        "1 - S Delta_phi": I - o.S @ o.Delta_phi, "(1 - S Delta_psi)^T": (I - o.S @ o.Delta_psi).T,
        "1 + H Phi L": I + o.H @ o.Phi @ o.L, "(1 - H Psi L)^T": (I - o.H @ o.Psi @ o.L).T,
        "1 - L^T Psi^T H^T": I - o.L.T @ o.Psi.T @ o.H.T, "1 + Phi L H": I + o.Phi @ o.L @ o.H,
        "2 phi M": 2 * o.phi @ o.M, "named": (o.phi @ o.M @ o.phi.T).renamed("X"),
        "factors": (I + o.H @ o.Phi @ o.L) @ o.D @ (I + o.H @ o.Phi @ o.L).T,
    }
    for label, op in expressions.items():
        product = (op.inv @ op).dense()
        size = np.abs(op.inv.dense()).max() * np.abs(op.dense()).max()
        assert np.abs(product - np.eye(len(product))).max() <= 1e-13 * max(1, size), label


@cases
def test_inverse_of_the_innovations_model_is_fact_4_2(name):
    """`.inv` finds psi by itself, from phi, H and L alone."""
    o = case(name, 2).o
    assert residual((I + o.H @ o.Phi @ o.L).inv, I - o.H @ o.Psi @ o.L) <= 1e-14
    assert residual((I - o.H @ o.Psi @ o.L).inv, I + o.H @ o.Phi @ o.L) <= 1e-12


def test_what_has_no_recursion_is_refused():
    o = case("chain", 0).o
    for op in (o.H, o.phi + o.psi, o.mass, I + o.phi):
        with pytest.raises(ValueError, match="no recursion is known"):
            _ = op.inv


def test_a_free_mass_matrix_is_inverted_by_its_factors():
    o = case("mobile tree", 0).o
    assert residual(o.mass_inverse @ o.mass, np.eye(o.mass.shape[0])) <= case(
        "mobile tree", 0).tolerance


@pytest.mark.parametrize(("expression", "directions"), [
    (lambda o: o.D.inv @ o.H @ o.P @ o.H.T, ["diagonal"]),
    (lambda o: o.phi, ["inward"]),
    (lambda o: o.phi.T @ o.H.T, ["outward"]),
    (lambda o: o.S @ o.Delta_phi, ["inward"]),
    (lambda o: I - o.H @ o.Psi @ o.L, ["inward"]),
    (lambda o: (I - o.H @ o.Psi @ o.L).T @ o.D.inv @ (I - o.H @ o.Psi @ o.L),
     ["inward", "outward"]),
    (lambda o: o.H @ o.phi @ o.M @ o.phi.T @ o.H.T, ["outward", "inward"]),
    (lambda o: o.mass_inverse @ o.mass, ["outward", "inward", "inward", "outward"]),
    (lambda o: o.phi.T @ o.H.T + o.psi.T @ o.H.T, ["outward"]),
    (lambda o: o.P + o.psi_tilde @ o.P + o.P @ o.psi_tilde.T, ["inward", "outward"]),
    (lambda o: o.phi @ o.M @ o.phi.T - o.psi @ o.M, ["outward", "inward"]),
])
def test_explain_counts_sweeps(expression, directions):
    plan = expression(case("tree", 0).o).explain()
    assert list(plan.directions) == directions
    assert plan.sweeps == len([d for d in directions if d != "diagonal"])


def test_explain_reads_like_the_report():
    o = case("chain", 0).o
    whiten = I - o.H @ o.Psi @ o.L
    assert str((whiten.T @ o.D.inv @ whiten).explain()) == (
        "(1 - H Psi L)^T D^-1 (1 - H Psi L): 2 sweeps\n"
        "  1. inward    D^-1 (1 - H Psi L)\n"
        "  2. outward   (1 - H Psi L)^T")
    assert "(one step)" in str(o.phi.inv.explain())


def test_neighbouring_diagonals_are_one():
    o = case("block joints", 0).o
    G = o.P @ o.H.T @ o.D.inv
    assert residual(G(2), o.G(2)) <= 1e-12
    assert str(G.T.name) == "D^-1^T H P^T"


@pytest.mark.slow
def test_applying_visits_every_body_once():
    """A chain of 1000 links: the matrix of phi would hold 36 million numbers."""
    robot = random_robot(5, 1000, tree=False, types=("revolute",), fixed=False, friction=False,
                         armature=False)
    q, qd = robot.random_state(0)
    o = SpatialOperators(robot.mechanism, q, qd)
    whiten = I - o.H @ o.Psi @ o.L
    T = np.ones(robot.n)
    expected = np.empty(robot.n)
    robot.compile("solve")(q, T, expected)
    x = whiten.T @ o.D.inv @ whiten @ T
    assert np.abs(x - expected).max() <= 1e-9 * np.abs(expected).max()


def test_armature_adds_to_pivots_and_mass():
    robot = random_robot(3, 6, armature=True, friction=False)
    q, qd = robot.random_state(0)
    o = robot.operators(q, qd).spatial
    factor = I + o.H @ o.Phi @ o.L
    assert any(block.any() for block in o.armature.blocks)
    assert residual(o.mass, robot.mass_matrix(q)) <= 1e-13
    assert residual(factor @ o.D @ factor.T, o.mass) <= 1e-13


def test_one_object_holds_both_families():
    """The names on `operators` are about mass centres, so they fit the DeNOC objects."""
    robot = nlink.load("puma560")
    q, qd = robot.random_state(1)
    o = robot.operators(q, qd)
    assert residual(o.phi, o.Nl.T) <= 1e-15
    assert residual(o.H, o.Nd.T) <= 1e-15
    assert residual(o.H @ o.phi @ o.M @ o.phi.T @ o.H.T, robot.mass_matrix(q)) <= 1e-13
    assert residual(o.D, o.spatial.D) <= 1e-13
    assert residual(o.P(3), o.Mhat(3)) <= 1e-13
    assert residual(o.G(2)[:, 0], o.psi(2)) <= 1e-13
    assert residual(o.psi.T @ o.psi.inv.T, np.eye(36)) <= 1e-13
    assert residual(o.V, o.t) <= 1e-13
    assert o.K.dense().shape == (36, 6)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = o.nothing


def test_bodies_without_a_block_are_refused():
    o = case("chain", 0).o
    with pytest.raises(ValueError, match="expected a number from 1 to"):
        o.P(99)
    with pytest.raises(ValueError, match="6 a body"):
        o.from_tip(np.zeros(7))
