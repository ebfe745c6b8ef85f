"""The box problem: pivoting against dense solutions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from nlink.iterations.box_problem import CELLS, pivot, proposed_mode
from nlink.iterations.driver import drive
from nlink.iterations.iteration import Layout
from nlink.scalars.functions import where
from nlink.testing import random_robot
from nlink.testing.mechanisms import EVERY


class BoxProblem:
    """The search on its own, as an iteration: y are the modes, t is 1 when they are right.

    `given.propose(t, y)` gives the modes that forces and responses ask for.
    """

    layout = Layout(("y",), {"t": 0.0, **CELLS}, (), ("status",))

    def step(self, s, given):
        s = s.replace(status=0.0)
        s, modes, found = pivot(s, s.y, given.propose(s.t, s.y), given)
        return s.replace(y=modes, t=where(found, 1.0, s.t))

    def output(self, s, given):
        """The modes."""
        return s.y


def solve(forces_of, lower, upper, margin=1e-12):
    """Modes, forces and responses; `forces_of(modes)` are forces and responses with those modes."""
    def propose(t, modes):
        force, response = forces_of(modes)
        return np.array([proposed_mode(m, 0.0, f, w, lo, hi, margin) for m, f, w, lo, hi in zip(
            modes, force, response, lower, upper, strict=True)])

    done = drive(BoxProblem(), {"propose": propose}, {"y": np.zeros(len(lower))},
                 np.array([0.0, 1.0]), dense=False)
    assert done.status == 1
    return done.out[1], *forces_of(done.out[1]), int(done.state.pivots)


def dense(W, w0, lower, upper):
    """The dynamics of modes with a matrix: w = W f + w0."""
    def forces_of(modes):
        f = np.where(modes > 0, lower, np.where(modes < 0, upper, 0.0))
        held = modes == 0
        f[held] = np.linalg.solve(W[np.ix_(held, held)], -(W @ f + w0)[held])
        return f, W @ f + w0

    return forces_of


def assert_solves(modes, f, w, lower, upper, tolerance=1e-9):
    """Within bounds, and complementary."""
    assert (f >= lower - tolerance).all()
    assert (f <= upper + tolerance).all()
    assert (np.abs(w[modes == 0]) <= tolerance).all()
    assert (w[modes == 1] >= -tolerance).all()
    assert (w[modes == -1] <= tolerance).all()
    assert (f[modes == 1] == lower[modes == 1]).all()
    assert (f[modes == -1] == upper[modes == -1]).all()


@pytest.mark.parametrize("seed", range(20))
def test_modes_are_the_only_ones_of_all(seed):
    """Brute force over 3^n modes finds the same; limits have infinite bounds."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    A = rng.normal(size=(n, n))
    W, w0 = A @ A.T + 1e-3 * np.eye(n), 3 * rng.normal(size=n)
    limit = rng.random(n) < 0.3
    lower = np.where(limit, 0.0, -rng.uniform(0, 1, n))
    upper = np.where(limit, np.inf, rng.uniform(0, 1, n))
    forces_of = dense(W, w0, lower, upper)
    modes, f, w, _ = solve(forces_of, lower, upper)
    assert_solves(modes, f, w, lower, upper)
    others = []
    for each in map(np.array, product((-1.0, 0.0, 1.0), repeat=n)):
        if not (limit & (each < 0)).any():
            g, v = forces_of(each)
            if (g >= lower).all() and (g <= upper).all() and (each * v >= 0).all():
                others.append(g)
    assert len(others) >= 1
    assert all(np.abs(g - f).max() <= 1e-9 for g in others)


@pytest.mark.parametrize("seed", range(5))
def test_many_unknowns_take_few_pivots(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(60, 60))
    bound = rng.uniform(0, 5, 60)
    modes, f, w, pivots = solve(dense(A @ A.T, 20 * rng.normal(size=60), -bound, bound),
                                -bound, bound)
    assert_solves(modes, f, w, -bound, bound)
    assert pivots <= 40


@pytest.mark.parametrize("seed", range(6))
def test_friction_of_mechanisms_at_rest(seed):
    """By hybrid dynamics, without a matrix, of every kind of joint: the same as with M^-1."""
    robot = random_robot(seed, 5, types=EVERY, friction=False)
    rng = np.random.default_rng(seed)
    q, _ = robot.random_state(rng)
    tau, bound, zeros = 5 * rng.normal(size=robot.n), rng.uniform(0, 4, robot.n), np.zeros(robot.n)

    def forces_of(modes):
        friction = -bound * modes
        qdd, force = robot.compute("hybrid_dynamics", q, zeros, tau + friction,
                                   1.0 * (modes == 0), zeros, engine="numpy")
        return force + friction, qdd

    modes, f, qdd, _ = solve(forces_of, -bound, bound)
    W = np.linalg.inv(robot.mass_matrix(q, engine="numpy"))
    w0 = robot.forward_dynamics(q, zeros, tau, engine="numpy")
    expected, g, v, _ = solve(dense(W, w0, -bound, bound), -bound, bound)
    assert (modes == expected).all()
    assert (modes == 0).sum() > 0
    np.testing.assert_allclose(f, g, atol=1e-9 * (1 + np.abs(tau).max()))
    np.testing.assert_allclose(qdd, v, atol=1e-8 * (1 + np.abs(w0).max()))
