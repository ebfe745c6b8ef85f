"""Semi-implicit Euler: velocities first, then coordinates with the new velocities.

    v' = v + h a(t, q, v),      q' = q + h qdot(q, v')

First order, fixed step, symplectic for separable systems: energy errors stay bounded where
explicit Euler's grow, which is why game and contact simulators use it. A step evaluates the
rates twice, once for a, once for qdot at the new velocities, so that joints whose coordinates
are not their rates (quaternions) need nothing special.
"""

from __future__ import annotations

from typing import Any

from nlink.iterations.integration import Attempt, OneStep, Trial
from nlink.iterations.rules import not_finite
from nlink.iterations.text import State, kept, total
from nlink.scalars.functions import less, where


class SemiImplicitEuler(OneStep):
    """The fixed-step method of first order."""

    name, evaluations = "semi_implicit", 2

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        h, coordinate = trial.size, less(given.index, given.coordinates)
        faster = kept(s.y + h * where(coordinate, 0.0, s.k0))
        moving = given.rates(s.t, faster)
        new = kept(given.restore(trial.time, faster + h * where(coordinate, moving, 0.0)))
        error = total(not_finite(new))
        return Attempt(s, new, given.rates(trial.time, new), error)


METHODS = (SemiImplicitEuler(),)
