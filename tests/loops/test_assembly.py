"""Finding closed configurations, projecting on them, and saying what can move."""

from __future__ import annotations

import numpy as np
import pytest
from kkt import Dense

import nlink
from nlink.testing.closed import random_closed_robot
from nlink.testing.linkages import ladder

BUNDLED = ("four_bar", "slider_crank", "two_arms_box",
           pytest.param("stewart", marks=pytest.mark.slow))


@pytest.fixture(scope="module", params=BUNDLED)
def robot(request):
    return nlink.load(request.param)


def test_home_is_closed(robot):
    assert np.abs(robot.loops.error(robot.neutral)).max() < 1e-10


@pytest.mark.parametrize("size", [0.01, 0.1, 0.5])
def test_loops_close_from_a_guess(robot, size):
    rng, dense = np.random.default_rng(0), Dense(robot)
    guesses = robot.integrate(robot.neutral, rng.normal(size=(5, robot.n)) * size)
    for guess, q in zip(guesses, robot.loops.assemble(guesses), strict=True):
        assert np.abs(robot.loops.error(q)).max() <= 1e-10
        assert np.abs(dense.rows(q, np.zeros(robot.n))[2]).max() <= 1e-10
        np.testing.assert_allclose(robot.loops.assemble(guess), q, atol=1e-12)


def test_a_closed_guess_is_left_as_it_is(robot):
    q = robot.loops.assemble()
    assert np.array_equal(robot.loops.assemble(q), q)


@pytest.mark.parametrize(("name", "kept", "by"), [
    ("four_bar", "crank", 0.3), ("four_bar", "rocker", 0.1), ("slider_crank", "piston", -0.1),
    ("slider_crank", "crank", 2.0), ("stewart", "ram3", 0.05),
    ("two_arms_box", "left_joint1", 0.05), ("stewart", "platform", 0.05)])
def test_kept_joints_stay_as_given(name, kept, by):
    robot = nlink.load(name)
    at = robot.loops.rates_of("keep", kept)
    step = np.zeros(robot.n)
    step[at] = by
    guess = robot.integrate(robot.neutral, step)
    q = robot.loops.assemble(guess, keep=[kept])
    assert np.abs(robot.difference(guess, q)[at]).max() < 1e-15
    assert np.abs(robot.loops.error(q)).max() <= 1e-10


def test_keeping_what_cannot_stay_is_refused():
    bar = nlink.load("four_bar")
    with pytest.raises(ValueError, match="with crank, rocker as given; 'pin' is open by"):
        bar.loops.assemble(bar.neutral + np.array([0.5, 0, 0]), keep=["crank", "rocker"])
    guesses = np.tile(bar.neutral, (2, 2, 1))
    guesses[1, 0, 0] += 0.5
    with pytest.raises(ValueError, match=r"guess\[1, 0\]: the loops do not close from here with"):
        bar.loops.assemble(guesses, keep=["crank", "rocker"])
    with pytest.raises(ValueError, match="keep: 'pin', expected joints that move, of crank, "):
        bar.loops.assemble(keep=["pin"])
    with pytest.raises(ValueError, match=r"guess: shape \(2,\), expected \(\.\.\., 3\)"):
        bar.loops.assemble([0.0, 0.0])


@pytest.mark.parametrize(("name", "freedom", "rows", "redundant"), [
    ("four_bar", 1, 5, 3), ("slider_crank", 1, 5, 3), ("stewart", 6, 18, 0),
    ("two_arms_box", 6, 12, 0)])
def test_mobility_counts_what_is_free(name, freedom, rows, redundant):
    """Gruebler for the plane, six for the others; and motors are named first."""
    robot = nlink.load(name)
    found = robot.loops.mobility()
    assert (found.freedom, found.rows, found.redundant) == (freedom, rows, redundant)
    assert len(found.independent) == freedom
    if name == "stewart":
        assert found.independent == tuple(f"ram{k}" for k in range(1, 7))
    if name.startswith(("four", "slider")):
        assert found.independent == ("crank",)


def test_independent_rates_determine_the_others(robot):
    """Holding them holds everything: J with their rows has full rank."""
    found = robot.loops.mobility()
    names = robot.qd_names
    held = np.eye(robot.n)[[names.index(name) for name in found.independent]]
    J = np.vstack([Dense(robot).rows(robot.neutral, np.zeros(robot.n))[0], held])
    assert np.linalg.matrix_rank(J, tol=1e-9) == robot.n


def test_projection_finds_a_closed_state_nearby(robot):
    rng = np.random.default_rng(1)
    q = robot.integrate(robot.neutral, rng.normal(size=robot.n) * 1e-4)
    closed, qd = robot.loops.project(q, rng.normal(size=robot.n))
    assert np.abs(robot.loops.error(closed)).max() <= 1e-14
    assert np.abs(robot.loops.velocity(closed, qd)).max() <= 1e-13
    assert np.abs(robot.difference(q, closed)).max() < 0.05


def test_projection_takes_what_impulses_in_the_loops_take(robot):
    """v - qd is M-orthogonal to every motion that is left, and to qd itself."""
    q, v = robot.loops.assemble(), np.random.default_rng(2).normal(size=robot.n)
    _, qd = robot.loops.project(q, v)
    M, J = robot.tree.mass_matrix(q), Dense(robot).rows(q, v)[0]
    _, s, Vt = np.linalg.svd(J)
    free = Vt[(s > 1e-9).sum():]
    assert np.abs(free @ M @ (v - qd)).max() < 1e-10 * np.abs(M @ v).max()
    assert qd @ M @ qd < v @ M @ v


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_arms_close_from_a_guess(seed):
    robot = random_closed_robot(seed, arms=2, joints=6)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        q = robot.loops.assemble(robot.integrate(robot.neutral, rng.normal(size=robot.n) * 0.1))
        assert np.abs(Dense(robot).rows(q, np.zeros(robot.n))[2]).max() < 1e-10


def test_quaternions_of_a_guess_are_made_unit():
    arms = nlink.load("two_arms_box")
    guess = arms.neutral
    guess[15:] *= 3.0
    q = arms.loops.assemble(guess)
    assert np.linalg.norm(q[15:]) == pytest.approx(1.0, abs=1e-15)
    assert q == pytest.approx(arms.loops.assemble(arms.neutral), abs=1e-12)
    guess[15:] = 0.0
    with pytest.raises(ValueError, match="guess: a quaternion of length zero, expected a rotation"):
        arms.loops.assemble(guess)


@pytest.mark.slow
def test_long_ladders_close_by_the_elimination():
    """In O(n), where the pseudo-inverse of 200 rows took longer than all else; the rod stays."""
    robot = nlink.Robot(ladder(40))
    away = 0.03 * np.random.default_rng(0).normal(size=(3, robot.n))
    guess = robot.integrate(robot.neutral, away)
    q = robot.loops.assemble(guess, keep=["rod0"])
    assert np.abs(robot.loops.error(q)).max() < 1e-12
    np.testing.assert_array_equal(q[:, 0], guess[:, 0])
    assert np.abs(q - guess).max() < 1.5
