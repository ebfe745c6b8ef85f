"""Steps with contact: semi-implicit Euler whose velocities obey the laws of contact at its end.

    v' = v + h a + M^-1 J^T lam,      q' = q moved by h v',

where the impulses lam solve the contact problem of the step (`contact_cone`). A step is one step of
the text, whatever its solver takes:

    given.contact_rows(t, y, [h])             shared numbers: the problem and what moves the state
    given.contact_sweep(t, y, [], rows)       y after two sweeps, its residual, and that over what
                                              it should be
    given.contact_newton(t, x, [eps], rows)   the same with unknowns of Newton's method, and eps
    given.contact_clear(t, x, [], rows)       y for these unknowns, its residual, and that over ...
    given.contact_move(t, y, [h], rows)       the state after the step, and how deep it begins

Impulses over h, and slips, are elements of y that only jump: every step starts from those of the
step before, and so does a run that is resumed. Where sweeps do not lead to a solution in time
(`contact_newton` says when), Newton's method looks for a better one, and sweeps go on from it.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

from nlink.iterations.integration import STATUS, Attempt, OneStep, StepCost, Trial
from nlink.iterations.iteration import Layout, State, repeat, total, when
from nlink.iterations.rules import larger, not_finite
from nlink.scalars.functions import less, less_equal, where

PATIENCE, POLISH, STEPS = 25, 10, 100
"""Calls of `contact_sweep` in a step, at most, with two sweeps each; calls of it after Newton's
method; and steps of that."""
GOOD = 10.0
"""A residual of so many times what it should be needs no other method."""
UNUSABLE = 1e-4
"""A residual above this, in m/s, ends a trajectory."""


class ContactEuler(OneStep):
    """Semi-implicit Euler with contacts."""

    name, cost = "semi_implicit", StepCost(1)
    layout = Layout(
        (), MappingProxyType(dict.fromkeys(
            ("contact_residual", "contact_depth", "contact_sweeps", "contact_fallbacks"), 0.0)),
        ("new", "rate", "trial"), ("residual", "over", "calls", "depth", "eps", "fell_back"))

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        h = trial.size
        rows = given.contact_rows(s.t, s.y, [h])

        def sweep(s: State) -> State:
            new, (residual, over) = given.contact_sweep(s.t, s.new, [], rows)
            return s.replace(new=new, residual=residual, over=over, calls=s.calls + 1.0)

        s = s.replace(new=s.y, residual=math.inf, over=math.inf, calls=0.0, fell_back=0.0)
        s = repeat(PATIENCE, ("residual", "over", "calls"), lambda s: less(1.0, s.over), s, sweep)
        s = when(~less_equal(s.over, GOOD), s, lambda s: self._look_further(s, rows, given))
        new, (depth,) = given.contact_move(s.t, s.new, [h], rows)
        moving = less(given.index, given.continuous)
        s = s.replace(new=new, rate=where(moving, (new - s.y) / h, 0.0), depth=depth,
                      status=where(less_equal(s.residual, UNUSABLE), s.status,
                                   float(STATUS["contact not solved"])))
        return Attempt(s, s.new, s.rate, total(not_finite(s.new)))

    def _look_further(self, s: State, rows: Any, given: Any) -> State:
        """What Newton's method finds from the beginning, and sweeps from there, if it is better."""

        def unsolved(s: State) -> Any:
            return ~less_equal(s.over, GOOD)

        def better(s: State, found: Any, residual: Any, over: Any) -> State:
            take = less(residual, s.residual) | ~less_equal(s.residual, math.inf)
            return s.replace(new=where(take, found, s.new),
                             residual=where(take, residual, s.residual),
                             over=where(take, over, s.over), calls=s.calls + 1.0)

        def step(s: State) -> State:
            x, (eps,) = given.contact_newton(s.t, s.trial, [s.eps], rows)
            found, (residual, over) = given.contact_clear(s.t, x, [], rows)
            return better(s.replace(trial=x, eps=eps), found, residual, over)

        def polish(s: State) -> State:
            found, (residual, over) = given.contact_sweep(s.t, s.trial, [], rows)
            return better(s.replace(trial=found), found, residual, over)

        s = s.replace(trial=s.new, eps=-1.0, fell_back=1.0)
        cells = ("residual", "over", "calls", "eps")
        s = repeat(STEPS, cells, unsolved, s, step)
        s = s.replace(trial=s.new)
        return repeat(POLISH, cells[:3], unsolved, s, polish)

    def commit(self, s: State, attempt: Attempt, accepted: Any) -> State:
        """The step, and what of its contacts is reported."""
        s = super().commit(s, attempt, accepted)
        worst, depth = larger(s.residual, s.contact_residual), larger(s.depth, s.contact_depth)
        return s.replace(contact_residual=where(accepted, worst, s.contact_residual),
                         contact_depth=where(accepted, depth, s.contact_depth),
                         contact_sweeps=s.contact_sweeps + where(accepted, 2.0 * s.calls, 0.0),
                         contact_fallbacks=s.contact_fallbacks + where(accepted, s.fell_back, 0.0))
