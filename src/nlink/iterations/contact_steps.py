"""Steps with contact: semi-implicit Euler whose velocities obey the laws of contact at its end.

    v' = v + h a + M^-1 J^T lam,      q' = q moved by h v',

where the impulses lam solve the contact problem of the step (`contact_cone`). A step is one step of
the text, whatever its solver takes:

    given.contact_rows(t, y, [h])             shared numbers: the problem and what moves the state
    given.contact_sweep(t, y, [], rows)       y after two sweeps, the residual, what it is above
    given.contact_move(t, y, [h], rows)       the state after the step, and how deep it begins

Impulses over h, and slips, are elements of y that only jump: every step starts from those of the
step before, and so does a run that is resumed.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

from nlink.iterations.integration import STATUS, Attempt, OneStep, StepCost, Trial
from nlink.iterations.iteration import Layout, State, repeat, total
from nlink.iterations.rules import larger, not_finite
from nlink.scalars.functions import less, less_equal, where

PATIENCE = 200
"""Calls of `contact_sweep` in a step, at most: two sweeps each."""
UNUSABLE = 1e-4
"""A residual above this, in m/s, ends a trajectory."""


class ContactEuler(OneStep):
    """Semi-implicit Euler with contacts."""

    name, cost = "semi_implicit", StepCost(1)
    layout = Layout(
        (), MappingProxyType(dict.fromkeys(
            ("contact_residual", "contact_depth", "contact_sweeps"), 0.0)),
        ("new", "rate"), ("residual", "excess", "calls", "depth"))

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        h = trial.size
        rows = given.contact_rows(s.t, s.y, [h])

        def sweep(s: State) -> State:
            new, (residual, excess) = given.contact_sweep(s.t, s.new, [], rows)
            return s.replace(new=new, residual=residual, excess=excess, calls=s.calls + 1.0)

        s = s.replace(new=s.y, residual=math.inf, excess=1.0, calls=0.0)
        s = repeat(PATIENCE, ("residual", "excess", "calls"), lambda s: less(0.0, s.excess), s,
                   sweep)
        new, (depth,) = given.contact_move(s.t, s.new, [h], rows)
        moving = less(given.index, given.continuous)
        s = s.replace(new=new, rate=where(moving, (new - s.y) / h, 0.0), depth=depth,
                      status=where(less_equal(s.residual, UNUSABLE), s.status,
                                   float(STATUS["contact not solved"])))
        return Attempt(s, s.new, s.rate, total(not_finite(s.new)))

    def commit(self, s: State, attempt: Attempt, accepted: Any) -> State:
        """The step, and what of its contacts is reported."""
        s = super().commit(s, attempt, accepted)
        worst, depth = larger(s.residual, s.contact_residual), larger(s.depth, s.contact_depth)
        return s.replace(contact_residual=where(accepted, worst, s.contact_residual),
                         contact_depth=where(accepted, depth, s.contact_depth),
                         contact_sweeps=s.contact_sweeps + where(accepted, 2.0 * s.calls, 0.0))
