"""Descent with restarts: the nonlinear least squares of inverse kinematics as an iteration.

Wanted is a point q, within bounds, where residuals r(q) vanish. A step is one of Levenberg and
Marquardt with the damping of Sugihara (2011), which is as large as the error and so needs no
step to be taken back:

    q' = q + (J^T J + lambda)^-1 J^T r,      lambda = d |r|^2 + FLOOR,   d = DAMPING

Far away it is a careful gradient step, close to a solution that of Newton. Where a start does
not lead to a solution (its error hardly falls, nothing moves, or it takes long), the process
goes on from the next start of a sequence that fills the space evenly. The best point of all is
kept; where no start has led to a solution, the process ends with a descent from there, to a
point that is stationary. Far from zero residuals bend the way: a step of this last descent that
comes no closer is taken back and d is made larger, else smaller.

The programs that are called know the mechanics: `given.move(d, y)` makes the step and
`given.begin(k, y)` gives the point to start from for the k-th time, up to `given.start_limit`
times. What a process has found is in its record: nothing is due on the way.
"""

from __future__ import annotations

import math
from typing import Any

from nlink.iterations.iteration import Layout, State, equal, kept, totals, when
from nlink.scalars.functions import less, less_equal, minimum, where

DAMPING, FLOOR = 0.03, 1e-8
"""What multiplies |r|^2 in the damping, and the damping left at a solution."""
STEPS_OF_START = 25
"""Steps that a start may take."""
SETTLING = 8
"""How many times as many, where something else is wanted beside."""
WINDOW, FALL = 4, 0.5
"""After so many steps |r|^2 must have fallen by this factor, else another start is tried."""
SHORTEST_MOVE = 1e-10
"""A step that moves no coordinate further leads nowhere."""
ROUNDING = 1e-13
"""A step of the last descent that lowers |r|^2 by no more is the last one."""
STEPS_OF_LAST = 3000
"""Steps of the last descent, to a stationary point."""
HARDER, EASIER, HARDEST = 4.0, 0.5, 1e30
"""How d changes in it, and what it does not exceed."""

OUTCOME = {"running": 0, "solved": 1, "stationary": 2, "not converged": 3, "not finite": 4}
"""How a process ended."""
REPORTED = ("cost", "error", "moved", "distance", "angle")
"""What `move` reports in the elements behind the coordinates: |r|^2 where it started, the largest
error over its tolerance there, the largest change of a coordinate, and the errors themselves."""


class Descent:
    """The text; columns hold the coordinates, then what `REPORTED` names.

    `settles` says that a solution counts only where nothing moves any more: something is
    wanted that the residuals leave free.
    """

    def __init__(self, coordinates: int, *, settles: bool = False) -> None:
        self.coordinates, self.settles = coordinates, settles
        self.long = float(STEPS_OF_START * SETTLING if settles else STEPS_OF_START)
        self.layout = Layout(
            ("y", "best"),
            {"starts": 0.0, "fresh": 1.0, "tried": 0.0, "steps": 0.0, "window": 0.0,
             "before": math.inf, "least": math.inf, "last": 0.0, "home": 0.0,
             "damping": DAMPING},
            (), ("status",))

    def step(self, s: State, given: Any) -> State:
        """One step of one start."""
        s = when(less(0.0, s.fresh), s, lambda s: s.replace(y=given.begin(s.starts, s.y)))
        new = kept(given.move(s.damping, s.y))
        cost, error, moved = totals(*(where(equal(given.index, float(self.coordinates + k)), new,
                                            0.0) for k in range(3)))
        finite = less(cost, math.inf)
        solved = less_equal(error, 1.0)
        if self.settles:
            solved = solved & less_equal(moved, 1e2 * SHORTEST_MOVE)
        better = solved | less(cost, s.least)
        here = where(less(given.index, float(self.coordinates)), s.y, new)
        gained = s.least - cost
        s = s.replace(best=where(better, here, s.best), least=where(better, cost, s.least),
                      steps=s.steps + 1.0, tried=s.tried + 1.0, window=s.window + 1.0, fresh=0.0)
        looked = less_equal(float(WINDOW), s.window)
        slow = looked & less(FALL * s.before, cost) & ~less_equal(error, 1.0)
        s = s.replace(window=where(looked, 0.0, s.window), before=where(looked, cost, s.before))
        still, last = less_equal(moved, SHORTEST_MOVE), less(0.0, s.last)
        worse = last & ~better & ~less(0.0, s.home)
        given_up = (slow | still | less_equal(self.long, s.tried)) & ~solved & ~last
        over = given_up & less_equal(given.start_limit, s.starts + 1.0)
        again = given_up & ~over
        # `home` says that y is the best point, to be left by a shorter step
        still = still | better & less(gained, ROUNDING * cost)
        ended = last & (still | less_equal(float(STEPS_OF_LAST), s.tried))
        status = where(ended, where(still, OUTCOME["stationary"], OUTCOME["not converged"]), 0.0)
        status = where(solved, OUTCOME["solved"], status)
        status = where(finite, status, OUTCOME["not finite"])
        return s.replace(
            y=where(over | worse, s.best, new), home=where(over | worse, 1.0, 0.0), status=status,
            damping=where(worse, minimum(HARDER * s.damping, HARDEST),
                          where(better & last, EASIER * s.damping, s.damping)),
            last=where(over, 1.0, s.last),
            starts=s.starts + where(again, 1.0, 0.0), fresh=where(again, 1.0, 0.0),
            tried=where(given_up, 0.0, s.tried), window=where(given_up, 0.0, s.window),
            before=where(given_up, math.inf, s.before))
