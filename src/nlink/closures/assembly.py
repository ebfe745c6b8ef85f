"""Closed configurations near open ones, many at once: damped Newton steps, and random states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nlink.closures.balance import RANK
from nlink.model.constraints import ANGLE_TOLERANCE

if TYPE_CHECKING:
    from nlink.closures.loops import Loops

Array = np.ndarray
TRIES = 100
"""Guesses that are drawn for a random state, until one closes."""
HALVINGS = 12
"""How often a step is halved, at most, that does not make the loops less open."""


def close(loops: Loops, q: Array, free: Array | None = None, tolerance: float = 1e-12,
          iterations: int = 100) -> tuple[Array, Array]:
    """Configurations (count, nq) after Newton's steps, and which of them are closed; `free`
    are the rates that may change, all if not given.

    Each step is the least one by the free rates that closes the loops to first order, half a
    radian at most, or half a size; it is halved until the loops are less open.
    """
    robot, q = loops.robot, q.copy()
    free = np.ones(robot.n, dtype=bool) if free is None else free

    def opening(q: Array) -> Array:
        return loops.error(q) / loops.scale

    e = opening(q)
    left = np.flatnonzero(np.abs(e).max(axis=1) > tolerance)
    for _ in range(iterations):
        if not left.size:
            break
        J = loops.ratios(loops.jacobian(q[left]))[..., free]
        step = np.zeros((left.size, robot.n))
        step[:, free] = -np.einsum("kij,kj->ki", np.linalg.pinv(J, rcond=RANK), e[left])
        largest = np.abs(step).max(axis=1, initial=0.0)
        step *= loops.rate_scale * (0.5 / np.maximum(largest, 0.5))[:, None]
        gained = np.zeros(left.size, dtype=bool)
        for _ in range(HALVINGS):
            tried = np.flatnonzero(~gained)
            moved = robot.integrate(q[left[tried]], step[tried])
            reached = opening(moved)
            better = np.linalg.norm(reached, axis=1) < np.linalg.norm(e[left[tried]], axis=1)
            q[left[tried[better]]], e[left[tried[better]]] = moved[better], reached[better]
            gained[tried[better]] = True
            if gained.all():
                break
            step *= 0.5
        left = left[gained]
        left = left[np.abs(e[left]).max(axis=1) > tolerance]
    # what is left are axes meant to be parallel
    return q, np.abs(e).max(axis=1) <= ANGLE_TOLERANCE


def random_closed_state(loops: Loops, rng: np.random.Generator, shape: tuple[int, ...],
                        spread: float) -> tuple[Array, Array]:
    """Closed states around home: rates of deviation `spread` are followed for a unit of time
    and what they open is closed; guesses that do not close are drawn again."""
    robot, count = loops.robot, math.prod(shape)
    q, qd = np.empty((count, robot.nq)), np.empty((count, robot.n))
    left = np.arange(count)
    for _ in range(TRIES):
        draws = rng.normal(size=(left.size, 2, robot.n))
        guess = robot.integrate(robot.neutral, spread * draws[:, 0])
        found, closed = close(loops, guess)
        q[left], qd[left] = found, draws[:, 1]
        left = left[~closed]
        if not left.size:
            break
    else:
        raise ValueError(f"robot: no closed state of {robot.name} was found around home; "
                         f"{loops.describe_opening(q[left[0]])}")
    qd = loops.project(q, qd)[1]
    return q.reshape(*shape, robot.nq), qd.reshape(*shape, robot.n)
