"""Closed configurations near open ones, random closed states, and which rates are independent.

Configurations are closed many at once, by damped Newton steps. `mobility` names rates that
determine all others, `complete` computes the others from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.computations import SingularMassMatrix
from nlink.loops.balance import RANK
from nlink.model.constraints import ANGLE_TOLERANCE
from nlink.scalars.arrays import single

if TYPE_CHECKING:
    from nlink.loops.loops import Loops

Array = np.ndarray
TRIES = 100
"""Guesses that are drawn for a random state, until one closes."""
FEW_ELEMENTS = 20_000
"""Of J, up to which steps are by its pseudo-inverse."""
HALVINGS = 12
"""How often a step is halved, at most, that does not make the loops less open."""


def close(loops: Loops, q: Array, free: Array | None = None, tolerance: float = 1e-12,
          iterations: int = 100) -> tuple[Array, Array]:
    """Configurations (count, nq) after Newton's steps, and which of them are closed; `free`
    are the rates that may change, all if not given.

    Each step closes the loops to first order, half a radian at most, or half a size; it is halved
    until the loops are less open.
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
        step = _newton_step(loops, q[left], e[left], free)
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


def _newton_step(loops: Loops, q: Array, e: Array, free: Array) -> Array:
    """Steps by the free rates, (count, n) in ratios, that close what is open by e.

    The least ones in the ratios of rates or, of mechanisms with many loops, in the metric of their
    masses, which the elimination has in O(n).
    """
    robot = loops.robot
    if len(loops.rows) * robot.n > FEW_ELEMENTS:
        try:
            closer, _, _ = robot.compute(
                "hybrid_projection", q, np.zeros((len(q), robot.n)), ~free * 1.0)
            step = robot.difference(q, closer) / loops.rate_scale
            return np.where(np.isfinite(step), step, 0.0)
        except SingularMassMatrix:
            pass  # bodies without mass are in the way of the elimination, not of geometry
    J = loops.ratios(loops.jacobian(q))[..., free]
    step = np.zeros((len(q), robot.n))
    step[:, free] = -np.einsum("kij,kj->ki", np.linalg.pinv(J, rcond=RANK), e)
    return step


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


@dataclass(frozen=True, slots=True)
class Mobility:
    """The freedom of a mechanism in one configuration.

    `freedom` is the number of independent rates, `independent` names rates that determine
    all others, and `redundant` is how many rows of the loops follow from the rest.
    """

    freedom: int
    independent: tuple[str, ...]
    rows: int
    redundant: int


def mobility(loops: Loops, q: Array) -> Mobility:
    """The freedom of the loops in one configuration."""
    n, J = loops.robot.n, loops.ratios(loops.jacobian(q))
    tolerance, names = _tolerance(J), loops.robot.qd_names
    independent = rank(J)
    chosen: list[str] = []
    held = J
    # a rate is independent if holding it takes away a freedom that is left; motors first
    for k in np.argsort(~loops.actuated, kind="stable"):
        more = np.vstack([held, np.eye(n)[k]])
        if np.linalg.matrix_rank(more, tol=tolerance) > independent + len(chosen):
            chosen.append(names[k])
            held = more
    return Mobility(n - independent, tuple(chosen), len(J), len(J) - independent)


def complete(loops: Loops, q: Array, rates: Mapping[str, ArrayLike],
             accelerations: Mapping[str, ArrayLike]) -> tuple[Array, Array]:
    """All rates and accelerations of one closed configuration, from those of some joints."""
    if set(accelerations) != set(rates):
        raise ValueError(f"accelerations: of {', '.join(accelerations)}, expected of the "
                         f"joints whose rates are given, {', '.join(rates)}")
    known, J = np.zeros(loops.robot.n, dtype=bool), loops.ratios(loops.jacobian(q))
    qd, qdd = np.zeros((2, loops.robot.n))
    for name in rates:
        place = loops.rates_of("rates", name)
        known[place] = True
        for what, given, x in (("rates", rates, qd), ("accelerations", accelerations, qdd)):
            x[place] = single(f"{what}: {name}", np.ravel(given[name]),
                              (place.stop - place.start,), ": one state") / loops.rate_scale[place]
    found = np.linalg.matrix_rank(J[:, ~known], tol=_tolerance(J))
    if found < (~known).sum():
        raise ValueError(f"rates: {', '.join(rates)} leave {(~known).sum() - found} freedoms "
                         "open, expected rates that determine the motion")
    # J qd = 0 and J qdd + Jdot qd = 0, for what is not known
    solve = np.linalg.pinv(J[:, ~known], rcond=RANK)
    qd[~known] = -solve @ (J[:, known] @ qd[known])
    drift = loops.acceleration(q, qd * loops.rate_scale) / loops.scale
    qdd[~known] = -solve @ (J[:, known] @ qdd[known] + drift)
    bound = ANGLE_TOLERANCE * (1 + np.abs(J).max() * np.abs((qd, qdd)).max())
    for what, left in (("rates", J @ qd), ("accelerations", J @ qdd + drift)):
        if np.abs(left).max() > bound:
            raise ValueError(f"{what}: no motion that keeps the loop "
                             f"{loops.rows[int(np.abs(left).argmax())]!r} closed has these")
    return qd * loops.rate_scale, qdd * loops.rate_scale


def rank(J: Array) -> int:
    """The rank of J in its ratios."""
    return int(np.linalg.matrix_rank(J, tol=_tolerance(J)))


def _tolerance(J: Array) -> float:
    """Singular values of J, in its ratios, that are none."""
    return RANK * max(1.0, float(np.abs(J).max()))
