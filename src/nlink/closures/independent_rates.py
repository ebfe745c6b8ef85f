"""Which rates of a mechanism with loops determine all others, and what those are then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nlink.closures.balance import RANK
from nlink.model.constraints import ANGLE_TOLERANCE
from nlink.scalars.arrays import single

if TYPE_CHECKING:
    from nlink.closures.loops import Loops

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Mobility:
    """What of a mechanism is free to move in one configuration.

    `freedom` is the number of independent rates, `independent` names rates that determine
    all others, and `redundant` is how many rows of the loops follow from the rest.
    """

    freedom: int
    independent: tuple[str, ...]
    rows: int
    redundant: int


def mobility(loops: Loops, q: Array) -> Mobility:
    """What can move in one configuration."""
    n, J = loops.robot.n, loops.ratios(loops.jacobian(q))
    tolerance, names = _tolerance(J), loops.robot.qd_names
    rank = int(np.linalg.matrix_rank(J, tol=tolerance))
    chosen: list[str] = []
    held = J
    # a rate is independent if holding it takes away a freedom that is left; motors first
    for k in np.argsort(~loops.actuated, kind="stable"):
        more = np.vstack([held, np.eye(n)[k]])
        if np.linalg.matrix_rank(more, tol=tolerance) > rank + len(chosen):
            chosen.append(names[k])
            held = more
    return Mobility(n - rank, tuple(chosen), len(J), len(J) - rank)


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
    rank = np.linalg.matrix_rank(J[:, ~known], tol=_tolerance(J))
    if rank < (~known).sum():
        raise ValueError(f"rates: {', '.join(rates)} leave {(~known).sum() - rank} freedoms "
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


def _tolerance(J: Array) -> float:
    """Singular values of J, in its ratios, that are none."""
    return RANK * max(1.0, float(np.abs(J).max()))
