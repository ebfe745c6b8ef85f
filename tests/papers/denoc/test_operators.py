"""The algebra of operators, apart from what they mean."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.papers.operators import DeNOC, Identity, Operator
from nlink.papers.operators.blocks import BlockDiagonal, ParentStep, Propagation
from nlink.testing import random_robot
from nlink.testing.samples import EPS

NAMES = ("Nl", "Nd", "N", "Nldot", "Nddot", "Ndot", "M", "Mdot", "Omega", "Mtilde", "Mdottilde",
         "Mtilde_prime", "I", "C", "Psi", "psi_d", "Nhat", "U", "Uinv", "D", "Dinv", "Iinv",
         "step", "armature")


@pytest.fixture(scope="module")
def tree() -> DeNOC:
    robot = random_robot(2, 7, fixed=False)
    return robot.operators(*robot.random_state(0))


def assert_close(a, b) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=500 * EPS * (1 + np.abs(b).max(initial=0.0)))


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_is_its_matrix(tree, name):
    operator: Operator = getattr(tree, name)
    dense = operator.dense()
    rng = np.random.default_rng(0)
    x, X = rng.normal(size=operator.shape[1]), rng.normal(size=(operator.shape[1], 3))
    y = rng.normal(size=operator.shape[0])
    assert dense.shape == operator.shape
    assert_close(operator @ x, dense @ x)
    assert_close(operator @ X, dense @ X)
    assert_close(operator.T @ y, dense.T @ y)
    assert_close(operator.T.dense(), dense.T)
    assert_close(operator.T.T.dense(), dense)


@pytest.mark.parametrize("name", NAMES)
def test_the_diagram_covers_every_block(tree, name):
    operator: Operator = getattr(tree, name)
    for i in range(1, len(operator.rows) + 1):
        for j in range(1, len(operator.columns) + 1):
            assert operator.pattern[i - 1, j - 1] or not operator(i, j).any()


def test_operators_compose_as_their_matrices(tree):
    Nl, M, Omega = tree.Nl, tree.M, tree.Omega
    product = Nl.T @ (M @ Omega - 2 * M) @ Nl
    assert_close(product.dense(), Nl.dense().T @ (M.dense() @ Omega.dense() - 2 * M.dense())
                 @ Nl.dense())
    assert_close(product.T.dense(), product.dense().T)
    assert_close((1 - Nl).dense(), np.eye(Nl.shape[0]) - Nl.dense())
    assert_close((1 + Nl - 3).dense(), Nl.dense() - 2 * np.eye(Nl.shape[0]))
    assert_close((-M).dense(), -M.dense())


def test_a_propagation_inverts_one_minus_its_step(tree):
    assert_close((tree.Nl @ (1 - tree.step)).dense(), np.eye(6 * tree.n))


def test_a_name_is_what_it_stands_for(tree):
    assert (tree.Nd.T @ tree.Nl.T @ tree.M).name == "Nd^T Nl^T M"
    assert (tree.Nl @ (1 - tree.step)).name == "Nl (1 - step)"
    assert (tree.M + tree.Omega).T.name == "(M + Omega)^T"
    assert tree.N.definition == "Nl Nd"


def test_a_student_can_read_it():
    robot = random_robot(2, 5, fixed=False)
    lines = repr(robot.operators(np.zeros(5)).Nl).splitlines()
    assert lines[0] == "Nl: 30 x 30, 5 x 5 blocks of 6 x 6; B_ij in row i, column j"
    assert len(lines) == 6
    assert lines[1].split() == ["#", ".", ".", ".", "."]
    long = nlink.testing.random_robot(1, 30, fixed=False)
    assert len(repr(long.operators(np.zeros(30)).Nl).splitlines()) == 1


def test_application_visits_each_body_once(monkeypatch):
    """O(n): no block of Nl is ever formed."""
    robot = random_robot(3, 40, fixed=False, tree=False)
    o = robot.operators(np.zeros(40))
    touched = []

    class Counting(np.ndarray):
        def __getitem__(self, i):
            touched.append(i)
            return np.asarray(super().__getitem__(i))

    step = o.step
    monkeypatch.setattr(step, "steps", step.steps.view(Counting))
    _ = Propagation("Nl", step, "") @ np.ones(240)
    assert len(touched) == 39


def test_blocks_are_numbered_from_one(tree):
    assert_close(tree.M(1), tree.M.dense()[:6, :6])
    assert_close(tree.Nl(2, 1), tree.Nl.dense()[6:12, :6])
    with pytest.raises(ValueError, match="row 0: expected a number from 1 to 7"):
        tree.M(0)
    with pytest.raises(ValueError, match="body 8: expected a number from 1 to 7"):
        tree.p(8)
    with pytest.raises(ValueError, match=r"H\(1, 1\): expected a body and one of its ancestors"):
        tree.H(1, 1)
    with pytest.raises(ValueError, match=r"\(2, 1\): expected a joint and one beyond it"):
        tree.psi(2, 1)


@pytest.mark.parametrize(("wrong", "said"), [
    (lambda o: o.Nl @ np.ones(3), r"Nl @ x: x has shape \(3,\), expected \(42,\) or \(42, k\)"),
    (lambda o: o.Nd @ o.Nd, "Nd @ Nd: 42 x 7 does not compose with 42 x 7"),
    (lambda o: o.M + o.I, "M \\+ I: 42 x 42 does not add to 7 x 7"),
    (lambda o: 1 - o.Nd, "only square operators have an identity"),
])
def test_what_does_not_fit_is_refused(tree, wrong, said):
    with pytest.raises(ValueError, match=said):
        wrong(tree)


def test_a_state_is_one_state():
    robot = nlink.load("planar3")
    with pytest.raises(ValueError, match=r"q: shape \(2, 3\), expected \(3,\): one state"):
        robot.operators(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"qd: shape \(2,\), expected \(\.\.\., 3\)"):
        robot.operators(np.zeros(3), np.zeros(2))
    assert not robot.operators(np.zeros(3)).t.any()


def test_bodies_keep_their_own_inertias():
    """The papers' objects are of the bodies as given, not of regrouped ones."""
    o = nlink.load("planar3").operators([0.3, 0.4, 0.5])
    for i in (1, 2, 3):
        np.testing.assert_allclose(np.diag(o.M(i))[2:], [1 / 12, 1, 1, 1], rtol=1e-14)


def test_building_blocks_stand_alone():
    """A chain of three with scalar blocks: the series 1 + E + E^2."""
    step = ParentStep("E", np.full((3, 1, 1), 2.0), (0, 1, 2), "E")
    series = Propagation("(1 - E)^-1", step, "series").dense()
    np.testing.assert_array_equal(series, [[1, 0, 0], [2, 1, 0], [4, 2, 1]])
    diagonal = BlockDiagonal("G", np.arange(6.0).reshape(3, 1, 2))
    np.testing.assert_array_equal(diagonal @ np.ones(6), [1, 5, 9])
    np.testing.assert_array_equal(Identity((1, 1, 1)).dense(), np.eye(3))
