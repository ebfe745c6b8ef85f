"""Semi-implicit Euler: velocities first, then coordinates with the new velocities.

    v' = v + h a(t, q, v),      q' = q + h qdot(q, v')

First order, fixed step, symplectic for separable systems: energy errors stay bounded where
explicit Euler's grow, which is why game and contact simulators use it. A step evaluates the
rates once, for a; `given.coordinate_rates(t, y)` has qdot, which is not qd where coordinates are
quaternions.

Where rates have modes, each step solves the box problem of velocities: v' is 0 where friction can
hold, or takes the coordinate to its limit, by impulses within h times the bounds of the forces.
`given.advance(t, y, h)` is the state after a step with the modes in y, and the modes that it asks
for. One step of the text is one pivot. There are no events to be found, so the cost of a step does
not depend on how many joints rub.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from nlink.iterations.box_problem import CELLS, pivot
from nlink.iterations.contact_steps import ContactEuler
from nlink.iterations.integration import (
    Attempt,
    OneStep,
    StepCost,
    Trial,
    rate_at_end,
    rate_at_start,
)
from nlink.iterations.iteration import Layout, State, equal, kept, total, when
from nlink.iterations.projection import restored
from nlink.iterations.rules import not_finite
from nlink.scalars.functions import less, less_equal, where


class SemiImplicitEuler(OneStep):
    """The fixed-step method of first order."""

    name, cost, decides_modes, begins_anew = "semi_implicit", StepCost(1), True, True

    def with_modes(self) -> SemiImplicitEuler:
        """The same for rates that have modes."""
        return PivotingEuler()

    def with_contacts(self, modes: int, *, few: bool) -> ContactEuler:
        """The same for mechanisms that touch what is around them, with so many modes; `few` says
        whether a step may try a few contacts first."""
        return ContactEuler(modes, few=few)

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        h, coordinate = trial.size, less(given.index, given.coordinates)
        faster = kept(s.y + h * where(coordinate, 0.0, rate_at_start(s, given)))
        moving = given.coordinate_rates(s.t, faster)
        s, new = restored(s, trial.time, faster + h * where(coordinate, moving, 0.0), given)
        error = total(not_finite(new))
        return Attempt(s, new, rate_at_end(s, trial.time, new, given), error)


class PivotingEuler(SemiImplicitEuler):
    """The same where rates have modes, which are decided in each step."""

    begins_anew, cost = False, StepCost(2, 1)
    layout = Layout((), MappingProxyType(dict(CELLS)), ("new", "rate"))

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        first = equal(s.pivots, 0.0)
        s = s.replace(**{name: where(first, value, s[name]) for name, value in CELLS.items()})
        after = given.advance(s.t, s.y, [trial.size])
        modes = less_equal(given.continuous, given.index)
        s, y, found = pivot(s, s.y, where(modes, after, s.y), given)
        faster = kept(where(modes, y, after))
        s = s.replace(y=y, sweeps=s.sweeps + 1.0, pivots=where(found, 0.0, s.pivots))
        s = when(found, s, lambda s: self._move(s, faster, trial, given))
        return Attempt(s, s.new, s.rate, total(not_finite(s.new)), ready=found)

    def _move(self, s: State, faster: Any, trial: Trial, given: Any) -> State:
        moving = given.rates(s.t, faster)
        change = where(less(given.index, given.coordinates), trial.size * moving, 0.0)
        s, new = restored(s, trial.time, faster + change, given)
        return s.replace(new=new, rate=given.rates(trial.time, new))


METHODS = (SemiImplicitEuler(),)
