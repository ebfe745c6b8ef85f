"""Mechanisms in motion for the tests of [Koz95]: its objects, and the same a complex step later.

A rate is Im f(t + ih) / h along the motion q' = qd, qd' = qdd: all digits, no difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from nlink import Robot
from nlink.papers.operators.quasi_velocities import Diagonal
from nlink.testing import random_description

STEP = 1e-40
SEEDS = tuple(range(12))


@dataclass(frozen=True, eq=False)
class Case:
    """A robot in a state, with accelerations and joint forces."""

    robot: Robot
    d: Diagonal
    later: Diagonal
    qdd: np.ndarray
    tau: np.ndarray

    def rate(self, what) -> np.ndarray:
        """The time derivative of a function of a `Diagonal`."""
        return np.imag(what(self.later)) / STEP

    def partials(self, what) -> np.ndarray:
        """The derivative of a function of a `Diagonal` by each coordinate, last axis."""
        mechanism, q, qd = self.robot.mechanism, self.d.q, self.d.qd
        steps = 1j * STEP * np.eye(len(q))
        return np.stack([np.imag(what(Diagonal(mechanism, q + step, qd + 0j))) / STEP
                         for step in steps], -1)


@cache
def case(seed: int, *, gravity: bool = False, types: tuple[str, ...] = ("revolute", "prismatic"),
         armature: bool = False) -> Case:
    """Chains for even seeds, trees for odd ones; ideal joints unless `armature`."""
    description = random_description(seed + 100, 2 + seed % 6, tree=bool(seed % 2), types=types,
                                     friction=False, armature=armature)
    if not gravity:
        description = replace(description, gravity=(0.0, 0.0, 0.0))
    robot = Robot(description)
    rng = np.random.default_rng(seed)
    q, qd = robot.random_state(rng)
    qdd, tau = rng.normal(size=(2, robot.n))
    later = Diagonal(robot.mechanism, q + 1j * STEP * qd, qd + 1j * STEP * qdd)
    return Case(robot, robot.diagonal(q, qd), later, qdd, tau)


def assert_same(a, b, tolerance: float = 2e-13) -> None:
    """Equal relative to the largest entry, as the errata measure."""
    a, b = np.asarray(a), np.asarray(b)
    size = max(1.0, float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
    assert np.abs(a - b).max(initial=0.0) <= tolerance * size


def assert_different(a, b) -> None:
    """Far apart: a printed form that the errata correct."""
    assert np.abs(np.asarray(a) - np.asarray(b)).max() > 1e-3


def turned(d: Diagonal, X: np.ndarray) -> np.ndarray:
    """An operator in world axes: every side of six components turned with its link."""
    R = np.zeros((6 * d.n, 6 * d.n), d.links.R.dtype)
    for k, block in enumerate(d.links.R):
        at = 6 * k
        R[at:at + 3, at:at + 3] = R[at + 3:at + 6, at + 3:at + 6] = block
    if X.shape[0] == 6 * d.n:
        X = R @ X
    return X @ R.T if X.ndim == 2 and X.shape[1] == 6 * d.n else X


def driven(d: Diagonal) -> np.ndarray:
    """[Omega_delta, P] by the errata, Omega_delta P + P Omega_delta^*, dense."""
    turned_P = d.Omega_delta.dense() @ d.P.dense()
    return turned_P + turned_P.T


def skewed(d: Diagonal) -> np.ndarray:
    """[E_Psi, lambda-dot] by the errata, E_Psi lambda-dot - lambda-dot E_Psi^*, dense."""
    moved = d.E_Psi.dense() @ d.lambda_dot.dense()
    return moved - moved.T


def diagonal_blocks(A: np.ndarray) -> np.ndarray:
    """The 6x6 blocks on the diagonal, and zeros elsewhere."""
    n = len(A) // 6
    return A * np.kron(np.eye(n), np.ones((6, 6)))
