"""Mechanisms and states on which the equations of [RK88] are checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import nlink
from nlink.papers.operators import Operator, SpatialOperators
from nlink.testing import random_robot

ONE_RATE = ("revolute", "prismatic")
ANY_RATE = ("revolute", "spherical", "universal", "planar", "helical", "prismatic")
CASES = {
    "chain": (ONE_RATE, False, 6, "joints"),
    "tree": (ONE_RATE, True, 8, "joints"),
    "chain about mass centres": (ONE_RATE, False, 5, "centres"),
    "block joints": (ANY_RATE, False, 5, "joints"),
    "tree of block joints": (ANY_RATE, True, 6, "joints"),
    "mobile tree": (("free", *ANY_RATE), True, 5, "joints"),
}


@dataclass(frozen=True, eq=False)
class Case:
    """A robot in a state, its operators, and vectors to apply them to."""

    robot: nlink.Robot
    o: SpatialOperators
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    T: np.ndarray
    f0: np.ndarray
    """The tip's force on its environment."""

    @property
    def f_ext(self) -> np.ndarray:
        """-f(0), as what the environment does to the last link."""
        f_ext = np.zeros((len(self.robot.links), 6))
        f_ext[-1] = -self.f0
        return f_ext

    @property
    def tolerance(self) -> float:
        return 1e3 * np.finfo(float).eps * np.linalg.cond(scaled(self.o.mass.dense()))

    def parts(self, x: Any) -> np.ndarray:
        """A stack of six numbers a body, one row each."""
        return np.asarray(x).reshape(self.o.n, 6)


@cache
def case(name: str, seed: int) -> Case:
    types, tree, bodies, points = CASES[name]
    robot = random_robot(seed, bodies, types=types, tree=tree, friction=False, armature=False)
    rng = np.random.default_rng(seed)
    q = rng.normal(size=robot.nq)
    qd, qdd, T = rng.normal(size=(3, robot.n))
    o = SpatialOperators(robot.mechanism, q, qd, name, points)
    return Case(robot, o, q, qd, qdd, T, rng.normal(size=6))


def scaled(M: np.ndarray) -> np.ndarray:
    """To a unit diagonal, so that metres and radians compare."""
    d = 1 / np.sqrt(np.diag(M))
    return d[:, None] * M * d


def residual(a: Any, b: Any) -> float:
    """max |a - b| / max(1, max |b|), of matrices or of operators."""
    a, b = (x.dense() if isinstance(x, Operator) else np.asarray(x, dtype=float) for x in (a, b))
    assert a.shape == b.shape, (a.shape, b.shape)
    return float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))
