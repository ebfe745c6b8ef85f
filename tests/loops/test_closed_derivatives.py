"""Derivatives of closed chains: products of first and second order, and linear models."""

from __future__ import annotations

import numpy as np
import pytest
from kkt import Dense
from test_graphs import random_graph

import nlink
from nlink.testing.linkages import ladder


@pytest.mark.slow
def test_products_are_those_of_differences():
    """jvp beside differences of accelerations, vjp . dx = w . jvp, and hvp beside differences of
    vjp; all at an open state, where accelerations are as smooth as anywhere."""
    robot = nlink.Robot(ladder(2))
    rng = np.random.default_rng(0)
    state = (robot.neutral + 0.3, *rng.normal(size=(2, robot.n)))
    dx, w = tuple(rng.normal(size=(3, robot.n))), rng.normal(size=robot.n)
    forward = nlink.function(robot, "forward_dynamics")
    moved = forward.jvp(state, dx)
    h = 1e-6
    ahead, behind = (tuple(x + s * h * d for x, d in zip(state, dx, strict=True))
                     for s in (1, -1))
    change = (robot.forward_dynamics(*ahead) - robot.forward_dynamics(*behind)) / (2 * h)
    np.testing.assert_allclose(moved, change, rtol=1e-6, atol=1e-6 * np.abs(change).max())
    pulled = forward.vjp(state, w)
    assert sum(a @ b for a, b in zip(pulled, dx, strict=True)) == pytest.approx(
        w @ moved, rel=1e-11)
    second = forward.hvp(state, w, dx)
    slopes = [(a - b) / (2 * h) for a, b in zip(
        forward.vjp(ahead, w), forward.vjp(behind, w), strict=True)]
    size = max(np.abs(x).max() for x in slopes)
    for one, other in zip(second, slopes, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * size)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_forces_do_to_closed_chains_what_a_dense_solve_says(seed):
    """B of a linear model has in its lower half the closed inverse mass P M^-1: symmetric, without
    opening the loops, and the derivative of the dense solve by forces."""
    robot = random_graph(seed)
    dense, q, qd = Dense(robot), robot.neutral, np.zeros(robot.n)
    _, B = nlink.linearize(robot, q, qd, np.zeros(robot.n), friction="smooth")
    inverse = B[robot.n:]
    J = dense.rows(q, qd)[0]
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-10 * np.abs(inverse).max())
    assert np.abs(J @ inverse).max() < 1e-9 * np.abs(J).max() * np.abs(inverse).max()
    M = dense.tree.mass_matrix(q, engine="python")
    C = np.linalg.inv(np.linalg.cholesky(M))
    G = J @ C.T
    free = np.eye(robot.n) - np.linalg.pinv(G, rcond=1e-7) @ G
    np.testing.assert_allclose(inverse, C.T @ free @ C, atol=1e-9 * np.abs(inverse).max())
