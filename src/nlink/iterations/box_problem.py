"""Forces within bounds that hold what they can: the box problem, by principal pivoting.

Dry friction holds a rate at rest while its force stays within bounds, and slides with the force
at a bound else. So do the limits of a joint, whose bounds are 0 and infinity. With all rates that
are at rest, find forces f and responses w (accelerations, or velocities after a step) with

    w = W f + w0,   lower <= f <= upper,   w_i >= 0 if f_i = lower_i,
                                           w_i <= 0 if f_i = upper_i,   w_i = 0 else

W is a part of the inverse of the mass matrix and positive definite, so there is one solution. Each
unknown has a *mode*: it is held (w = 0), or slides up (mode 1, f at its lower bound) or down
(mode -1, f at its upper bound). Modes give f and w by one evaluation of the hybrid dynamics, in
O(n) and without W; `proposed_mode` then says which of them are wrong and what they should be.
One pivot changes all wrong ones at once while that makes them fewer, else the first of them
alone, Murty's rule of the least index, which ends for every such W [Judice and Pires, Computers &
Operations Research 21 (1994) 587].
"""

from __future__ import annotations

import math
from typing import Any

from nlink.iterations.iteration import Column, State, equal, largest, total
from nlink.scalars.functions import Scalar, less, less_equal, where

PIVOT_PATIENCE = 3.0
"""Pivots that change all wrong modes without making them fewer, before one at a time."""
PIVOTS = 10_000
"""Pivots after which there is no solution to be found, because a number is not finite."""
UNSOLVED = 9.0
"""The status of a process then: "not converged"."""

CELLS = {"fewest": math.inf, "patience": PIVOT_PATIENCE, "pivots": 0.0}
"""What a search remembers: the fewest wrong modes, tries left, and pivots made."""


def sliding(mode: Scalar) -> Any:
    """Whether a mode slides; every other one is held, by whatever it is."""
    return equal(mode * mode, 1.0)


def proposed_mode(mode: Scalar, hold: Scalar, force: Scalar, response: Scalar, lower: Scalar,
                  upper: Scalar, margin: Scalar) -> Scalar:
    """The mode that a force and a response ask for: the same if nothing is wrong.

    `hold` is the mode of being held. A margin around the bounds keeps rounding from
    letting go what is held and holding it again, for ever.
    """
    released = where(less(force, lower - margin), 1.0,
                     where(less(upper + margin, force), -1.0, mode))
    stopped = where(less(mode * response, 0.0), hold, mode)
    return where(sliding(mode), stopped, released)


def pivot(s: State, modes: Column, proposed: Column, given: Any) -> tuple[State, Column, Any]:
    """One pivot: the new modes, and whether none was wrong.

    Other elements of the columns are the same in both. A pivot with too many before it ends
    its process.
    """
    wrong = where(equal(proposed, modes), 0.0, 1.0)
    rank = wrong / (given.index + 1.0)
    count, first = total(wrong), largest(rank)
    fewer = less(count, s.fewest)
    patience = where(fewer, PIVOT_PATIENCE, s.patience - 1.0)
    chosen = less(0.0, wrong) & (less_equal(0.0, patience) | equal(rank, first))
    s = s.replace(fewest=where(fewer, count, s.fewest), patience=patience, pivots=s.pivots + 1.0,
                  status=where(less(PIVOTS, s.pivots), UNSOLVED, s.status))
    return s, where(chosen, proposed, modes), equal(count, 0.0)
