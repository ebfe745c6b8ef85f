"""Random graphs of joints and loops of every kind, eliminated along several trees."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kkt import Dense

from nlink import Robot
from nlink.algorithms import cycle_elimination
from nlink.model.constraints import CONSTRAINTS
from nlink.model.cycles import Held, JointGraph
from nlink.model.joints import JOINT_TYPES
from nlink.testing import close_at_random, random_description

BLOCKS, BLOCK = 4, 35
EVERY = tuple(name for name in JOINT_TYPES if name != "fixed")


def random_graph(seed: int) -> Robot:
    """Three to eight bodies and one to three loops, closed at home."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 9))
    tree = random_description(seed, count, types=EVERY if seed % 2 else (
        "revolute", "prismatic", "spherical"))
    body = Robot(tree).mechanism.links
    pairs = [(int(a), int(b)) for a, b in rng.integers(0, count + 1, size=(8, 2))
             if body[a].body != body[b].body][:1 + seed % 3]
    return Robot(close_at_random(seed, tree, pairs, tuple(CONSTRAINTS)))


def pseudo_inverse(dense: Dense, q: np.ndarray, qd: np.ndarray, tau: np.ndarray,
                   ) -> tuple[np.ndarray, np.ndarray, float]:
    """qdd by (J M^-1 J^T)^+, rows scaled, that of the tree let go, and the least part of the matrix
    that is not taken for zero; rows as small as those of axes askew by 1e-5 are none."""
    J, gamma, _, _ = dense.rows(q, qd)
    M = dense.tree.mass_matrix(q, engine="python")
    h = dense.tree.inverse_dynamics(q, qd, np.zeros(len(qd)), engine="python")
    C = np.linalg.cholesky(M)
    G, free = np.linalg.solve(C, J.T).T, np.linalg.solve(C, tau - h)
    size = np.linalg.norm(G, axis=1)
    scale = np.where(size > 3e-5 * size.max(), 1 / np.maximum(size, 1e-300), 0.0)
    G, opening = G * scale[:, None], (G @ free + gamma) * scale
    values = np.linalg.svd(G, compute_uv=False)
    qdd = np.linalg.solve(C.T, free - np.linalg.pinv(G, rcond=3e-5 / values[0]) @ opening)
    return qdd, np.linalg.solve(C.T, free), float(values[values > 1e-7].min())


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_graphs_agree_with_a_dense_solve(block):
    unclear = 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        robot = random_graph(seed)
        rng, dense, q = np.random.default_rng(seed), Dense(robot), robot.neutral
        qd, tau = rng.normal(size=(2, robot.n))
        qd = dense.closed_rates(q, qd)
        expected, freely, least = pseudo_inverse(dense, q, qd, tau)
        unclear += least < 1e-3  # digits are lost, and what counts as dependent is a choice
        found = robot.forward_dynamics(q, qd, tau, engine="python", algorithm="elimination")
        if least >= 1e-3:
            size = np.abs((expected, freely)).max()
            assert np.abs(found - expected).max() < 1e-10 * size, seed
    assert unclear <= 4


def along(tree: Callable[[JointGraph, dict[int, Held]], dict[int, Held] | None], robot: Robot,
          monkeypatch: pytest.MonkeyPatch, *state: np.ndarray,
          name: str = "forward_dynamics") -> np.ndarray | None:
    """Accelerations, or what else is found with them, by the elimination along a tree of one's own;
    None if there is no such tree."""
    def planned(bodies, joints, edges, ties=(), *, early=False):
        graph = JointGraph(bodies, tuple(edges), tuple(ties), early)
        chosen = tree(graph, {i + 1: Held(i, edges[i].parent) for i in range(joints)})
        return graph.plan(chosen) if chosen else None

    monkeypatch.setattr(cycle_elimination, "plan_edges", planned)
    if cycle_elimination.plan_of(robot.mechanism) is None:
        return None
    fresh = Robot(robot.description)  # whose functions are not made for another tree
    return fresh.compute(name, *state, engine="python", algorithm="elimination")


@pytest.mark.parametrize("seed", range(20))
def test_all_trees_give_the_same_accelerations(seed, monkeypatch):
    """The author's, a shallow one, and one by exchanging edges: also where loops are open, unless
    their rows then contradict each other."""
    robot, rng = random_graph(seed), np.random.default_rng(seed)
    q = robot.integrate(robot.neutral, 0.3 * rng.normal(size=robot.n))
    qd, tau = rng.normal(size=(2, robot.n))
    dense = Dense(robot)
    values = np.linalg.svd(dense.rows(q, qd)[0], compute_uv=False)
    if len(values) < robot.mechanism.rows or values[-1] < 1e-3 * values[0]:
        q, qd = robot.neutral, dense.closed_rates(robot.neutral, qd)
    state = (q, qd, tau)
    expected = along(lambda graph, authors: authors, robot, monkeypatch, *state)
    for tree in (lambda graph, authors: graph.breadth_first(),
                 lambda graph, authors: graph.exchanged(authors)):
        found = along(tree, robot, monkeypatch, *state)
        if found is not None:
            assert np.abs(found - expected).max() < 1e-11 * max(np.abs(expected).max(), 1.0)
