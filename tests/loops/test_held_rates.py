"""Hybrid dynamics of mechanisms with loops: rates that are held, and the forces that hold them."""

from __future__ import annotations

import numpy as np
import pytest
from kkt import Dense
from test_graphs import along, random_graph


def dense_hybrid(dense: Dense, q, qd, tau, held, given):
    """[M -J^T -E; J 0 0; E^T 0 0] with E the units of held rates, by the pseudo-inverse of
    (J; E^T) M^-1 (J; E^T)^T; the least part of that which is not zero, and its rank."""
    J, gamma, _, _ = dense.rows(q, qd)
    E = np.eye(len(qd))[held > 0]
    M = dense.tree.mass_matrix(q, engine="python")
    h = dense.tree.inverse_dynamics(q, qd, np.zeros(len(qd)), engine="python")
    rows, openings = np.vstack([J, E]), np.concatenate([gamma, -given[held > 0]])
    C = np.linalg.cholesky(M)
    G, free = np.linalg.solve(C, rows.T).T, np.linalg.solve(C, tau - h)
    scale = 1 / np.maximum(np.linalg.norm(G, axis=1), 1e-6)
    G, opening = G * scale[:, None], G * scale[:, None] @ free + openings * scale
    values = np.linalg.svd(G, compute_uv=False)
    qdd = np.linalg.solve(C.T, free - np.linalg.pinv(G, rcond=3e-5 / values[0]) @ opening)
    real = values[values > 1e-7]
    return qdd, float(real.min()), len(real)


def held_at_random(seed: int, share: int = 3):
    """A state of a random graph in which rates are held that the loops leave free, and how clear
    it is which rows are independent."""
    robot = random_graph(seed)
    rng, dense, q = np.random.default_rng(seed), Dense(robot), robot.neutral
    qd, tau, given = rng.normal(size=(3, robot.n))
    state = q, dense.closed_rates(q, qd), tau
    held = np.zeros(robot.n)
    _, least, rank = dense_hybrid(dense, *state, held, given)
    for i in rng.permutation(robot.n)[:max(1, robot.n // share)]:
        held[i] = 1.0
        _, left, more = dense_hybrid(dense, *state, held, given)
        if more > rank and left > 0.1 * least:
            least, rank = left, more
        else:
            held[i] = 0.0
    return robot, dense, (*state, held, given), least


@pytest.mark.parametrize("seed", range(10))
def test_held_rates_agree_with_a_dense_solve(seed):
    """Held by numbers and by a choice among arrays, with the same result: accelerations, and forces
    that balance with the multipliers of the loops."""
    robot, dense, state, least = held_at_random(seed)
    q, qd, tau, held, given = state
    expected, J = dense_hybrid(dense, *state)[0], dense.rows(q, qd)[0]
    if least < 1e-3:
        pytest.skip("which rows depend on each other is a choice here")
    for engine in ("python", "numpy"):
        qdd, force = robot.compute("hybrid_dynamics", *state, engine=engine)
        assert np.abs(qdd - expected).max() < 1e-9 * max(np.abs(expected).max(), 1.0)
        assert np.array_equal(qdd[held > 0], given[held > 0])
        assert not force[held == 0].any()
        whole = dense.tree.inverse_dynamics(q, qd, qdd, engine="python") - tau - force
        left = whole - J.T @ np.linalg.lstsq(J.T, whole, rcond=1e-9)[0]
        assert np.abs(left).max() < 1e-8 * (np.abs(whole).max() + np.abs(force).max())


@pytest.mark.parametrize("seed", range(6))
def test_all_trees_hold_with_the_same_forces(seed, monkeypatch):
    robot, _, state, least = held_at_random(seed)
    if least < 1e-3:
        pytest.skip("which rows depend on each other is a choice here")
    expected = along(lambda graph, authors: authors, robot, monkeypatch, *state,
                     name="hybrid_dynamics")
    for tree in (lambda graph, authors: graph.breadth_first(),
                 lambda graph, authors: graph.exchanged(authors)):
        found = along(tree, robot, monkeypatch, *state, name="hybrid_dynamics")
        if found is not None:
            np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
