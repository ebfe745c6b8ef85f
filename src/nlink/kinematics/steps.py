"""The step of a descent as a program: residuals, the damped solution, bounds.

With more rates than rows the step is taken from the smaller system,

    d = J^T (J J^T + lambda)^-1 r,

and a posture q_p that is preferred moves what the tasks leave free, z = TOWARDS (q_p - q):

    d + z - J^T (J J^T + lambda)^-1 J z.

A coordinate at a bound that a step along the gradient J^T r would leave does not take part; a
step that passes a bound ends there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nlink.algorithms.kinematics import forward_kinematics
from nlink.algorithms.matrices import Factors, dot
from nlink.algorithms.sweep import Unrolled
from nlink.iterations.descent import FLOOR, REPORTED
from nlink.kinematics.tasks import Residual, Row, Task
from nlink.programs.program import Port, Program
from nlink.programs.tracing import trace_function
from nlink.scalars.functions import (
    Scalar,
    Scalars,
    clip,
    floor,
    largest,
    less,
    less_equal,
    maximum,
    where,
)
from nlink.scalars.primitives import divide
from nlink.spatial import Vector

if TYPE_CHECKING:
    from nlink.robot import Robot

LARGEST = 1.0
"""No coordinate moves further in one step (rad, or metres)."""
TOWARDS = 0.3
"""The part of the way to a posture in one step: whole steps overshoot where the tasks curve."""
CANDIDATES = 4
"""Points that are looked at before one of them is started from."""


@dataclass(frozen=True, eq=False)
class Reaching:
    """A robot, its tasks by their kinds, and the bounds of its coordinates."""

    robot: Robot
    tasks: tuple[Task, ...]
    posture: bool
    """Whether a posture is preferred: its n coordinates are the last numbers."""
    limited: bool = True

    @property
    def widths(self) -> list[int]:
        return [task.numbers.shape[-1] for task in self.tasks]

    @property
    def own(self) -> int:
        """Numbers that a process has: those of its tasks, tolerances, and a posture."""
        return sum(self.widths) + 2 + self.robot.nq * self.posture

    @property
    def size(self) -> int:
        return self.robot.nq + len(REPORTED)

    @cached_property
    def length(self) -> float:
        """A length to compare with a radian: a quarter of the longest path along the bodies."""
        mechanism = self.robot.mechanism
        q = mechanism.split(mechanism.space.neutral, "nq")
        places = [Vector.zero(), *(place.p for place in forward_kinematics(Unrolled(mechanism), q))]
        along = [0.0]
        for p, parent in zip(places[1:], mechanism.parents, strict=True):
            away = p - places[parent]
            along.append(along[parent] + math.sqrt(away.dot(away)))
        return max(along) / 4 or 1.0

    def programs(self) -> dict[str, Program]:
        return {"move": self._program("move", self._move), "begin": self._program(
            "begin", self._begin)}

    def _program(self, name: str, text: Callable[..., list[Scalar]]) -> Program:
        ports = Port("t", (1,)), Port("y", (self.size,)), Port("u", (self.own,))
        return trace_function(name, ports, ports[1:2], lambda t, y, u: text(t[0], y, u))

    def residual(self, q: Scalars, u: Scalars) -> tuple[Residual, tuple[Scalar, ...]]:
        """All rows, and the largest error over its tolerance, distance and angle."""
        here, at = Residual([], [], [], []), 0
        for task, width in zip(self.tasks, self.widths, strict=True):
            here = here + task.residual(self.robot, q, u[at:at + width], self.length)
            at += width
        distance, angle = largest(here.distances), largest(here.angles)
        return here, (maximum(distance * u[at], angle * u[at + 1]), distance, angle)

    def _move(self, t: Scalar, y: Scalars, u: Scalars) -> list[Scalar]:
        q = y[:self.robot.nq]
        lower, upper = self.bounds()
        here, (error, *errors) = self.residual(q, u)
        cost = dot(here.r, here.r)
        free: list[Scalar] = []
        bounded = {}
        for k, (place, low, high) in enumerate(zip(self.flat_places(), lower, upper, strict=True)):
            if place is None or (math.isinf(low) and math.isinf(high)):
                free.append(1.0)
                continue
            bounded[k] = place, low, high
            push = dot([row[k] for row in here.J], here.r)
            held = (less_equal(q[place], low) & less(push, 0.0)
                    | less_equal(high, q[place]) & less(0.0, push))
            free.append(where(held, 0.0, 1.0))
        J = [[x * f for x, f in zip(row, free, strict=True)] for row in here.J]
        step = self._solve(J, here.r, cost * t + FLOOR, q, u)
        if self.posture:  # it pushes against bounds, too: others are not to make up for that
            for k, (place, low, high) in bounded.items():
                held = (less_equal(q[place], low) & less(step[k], 0.0)
                        | less_equal(high, q[place]) & less(0.0, step[k]))
                free[k] = where(held, 0.0, free[k])
            J = [[x * f for x, f in zip(row, free, strict=True)] for row in J]
            step = self._solve(J, here.r, cost * t + FLOOR, q, u)
        most = largest(step)
        short = where(less(LARGEST, most), divide(LARGEST, most), 1.0)
        step = [x * short for x in step]
        for k, (place, low, high) in bounded.items():
            step[k] = clip(q[place] + step[k], low, high) - q[place]
        new = list(self.robot.mechanism.space.integrate(q, step))
        for place, low, high in bounded.values():  # rounding may not leave the bounds again
            new[place] = clip(new[place], low, high)
        return [*new, cost, error, largest(step), *errors]

    def _solve(self, J: list[Row], r: Row, damping: Scalar, q: Scalars, u: Scalars) -> Row:
        n, m = self.robot.n, len(r)
        columns = [list(column) for column in zip(*J, strict=True)]
        if m < n or self.posture:
            factors = Factors.of([[dot(a, b) + (damping if i == j else 0.0)
                                   for j, b in enumerate(J)] for i, a in enumerate(J)])
            z = [0.0] * n
            if self.posture:
                wanted = u[len(u) - self.robot.nq:]
                z = [TOWARDS * x for x in self.robot.mechanism.space.difference(q, wanted)]
                r = [x - dot(row, z) for x, row in zip(r, J, strict=True)]
            force = factors.solve(r)
            return [a + dot(column, force) for a, column in zip(z, columns, strict=True)]
        factors = Factors.of([[dot(a, b) + (damping if i == j else 0.0)
                               for j, b in enumerate(columns)] for i, a in enumerate(columns)])
        return factors.solve([dot(column, r) for column in columns])

    def _begin(self, t: Scalar, y: Scalars, u: Scalars) -> list[Scalar]:
        """The best of a few points of a sequence: element i of point k is the fraction of
        k a_i, the a_i being powers of the root of x^(n+1) = x + 1 [Roberts 2018]."""
        robot, space = self.robot, self.robot.mechanism.space
        lower, upper = self.ranges()
        root = 2.0
        for _ in range(80):
            root = (1.0 + root) ** (1.0 / (robot.n + 1))
        best: list[Scalar] = []
        least: Scalar = math.inf
        for c in range(CANDIDATES):
            number = t * float(CANDIDATES) + float(c)
            fractions = [number * (root ** -(k + 1.0) % 1.0) + 0.5 for k in range(robot.n)]
            v = [a + (b - a) * (x - floor(x))
                 for a, b, x in zip(lower, upper, fractions, strict=True)]
            point = space.integrate(space.neutral, v)
            here, _ = self.residual(point, u)
            cost = dot(here.r, here.r)
            better = less(cost, least)
            best = [where(better, a, b) for a, b in zip(point, best or point, strict=True)]
            least = where(better, cost, least)
        return [*best, *[0.0] * len(REPORTED)]

    def flat_places(self) -> list[int | None]:
        """For each rate, the coordinate that it is the rate of, None if there is none."""
        places: list[int | None] = []
        at = 0
        for joint in self.robot.mechanism.joints:
            space = joint.type.space
            places += [at + k if space.flat else None for k in range(space.nv)]
            at += space.nq
        return places

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Limits for each rate; infinite where there are none, or they do not count."""
        lower, upper = [], []
        for joint in self.robot.joints:
            low, high = joint.limits.position if self.limited else (-math.inf, math.inf)
            lower += [low] * joint.type.nv
            upper += [high] * joint.type.nv
        return np.array(lower), np.array(upper)

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Where starts are looked for, as rates that lead there from the neutral point."""
        lower, upper = self.bounds()
        reach = np.pi
        lower = np.where(np.isfinite(lower), lower, np.where(
            np.isfinite(upper), upper - 2 * reach, -reach))
        upper = np.where(np.isfinite(upper), upper, lower + 2 * reach)
        # several turns are one: starts within a turn, about the middle
        middle = (lower + upper) / 2
        lower, upper = np.maximum(lower, middle - reach), np.minimum(upper, middle + reach)
        for k, place in enumerate(self.flat_places()):
            if place is not None:
                shift = self.robot.mechanism.space.neutral[place]
                lower[k], upper[k] = lower[k] - shift, upper[k] - shift
        return lower, upper
