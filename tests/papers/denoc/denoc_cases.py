"""States of random mechanisms for the equations of the Saha papers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from nlink import Robot
from nlink.papers.operators import DeNOC
from nlink.testing import random_robot
from nlink.testing.samples import EPS, STEP, difference

Array = np.ndarray
TOLERANCE = 500 * EPS
"""Of identities between quantities of order one; cond(I) multiplies it where I is inverted."""


@dataclass(frozen=True)
class Case:
    """A mechanism in motion, with its operators `o`."""

    robot: Robot
    q: Array
    qd: Array
    qdd: Array

    @classmethod
    def random(cls, seed: int, **options: Any) -> Case:
        robot = random_robot(seed, friction=False, **options)
        rng = np.random.default_rng(seed)
        q, qd = robot.random_state(rng)
        return cls(robot, q, qd, rng.normal(size=robot.n))

    @cached_property
    def o(self) -> DeNOC:
        return self.robot.operators(self.q, self.qd)

    @property
    def bodies(self) -> range:
        return range(1, self.o.n + 1)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(i, j) with j an ancestor of i."""
        return [(i, j) for i in self.bodies for j in self.ancestors(i)]

    def ancestors(self, i: int) -> list[int]:
        found = []
        while i := self.o.parents[i - 1]:
            found.append(i)
        return found

    def subtree(self, i: int) -> list[int]:
        return [k for k in self.bodies if k == i or i in self.ancestors(k)]

    def rate(self, quantity: Callable[[DeNOC], Array]) -> Array:
        """d/dt of anything the operators give, along qd and qdd, by the complex step."""
        moved = DeNOC(self.robot.mechanism, self.q + 1j * STEP * self.qd,
                      self.qd + 1j * STEP * self.qdd)
        return np.imag(quantity(moved)) / STEP

    @property
    def tau(self) -> Array:
        return self.robot.inverse_dynamics(self.q, self.qd, self.qdd, engine="python")

    @property
    def inertia(self) -> Array:
        return self.robot.mass_matrix(self.q, engine="python")

    @property
    def condition(self) -> float:
        return float(np.linalg.cond(self.inertia))


def close(got: Any, expected: Any, *magnitudes: float, condition: float = 1.0) -> None:
    """Equal to rounding, relative to the largest number that took part."""
    residual = difference(got, expected, *(float(m) for m in magnitudes))
    assert residual <= TOLERANCE * condition, f"differ by {residual:.2e}"


@cache
def chains() -> tuple[Case, ...]:
    """Revolute, prismatic and mixed chains, as the papers have them."""
    plain = {"tree": False, "fixed": False, "armature": False}
    return (Case.random(1, bodies=6, types=("revolute",), **plain),
            Case.random(2, bodies=4, types=("prismatic",), **plain),
            *(Case.random(seed, bodies=2 + seed % 7, **plain) for seed in range(3, 15)))


@cache
def trees() -> tuple[Case, ...]:
    """Branched mechanisms, with links on fixed joints and with armatures."""
    return tuple(Case.random(seed, bodies=4 + seed % 5) for seed in range(20, 32))
