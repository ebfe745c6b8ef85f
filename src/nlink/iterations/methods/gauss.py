"""The two-stage Gauss method of order four, its equations solved by fixed-point iteration.

    K_i = f(t + c_i h, y + h sum_j a_ij K_j),      new = y + h sum_i b_i K_i

Symplectic in canonical variables, symmetric in all, fixed step. One step of the text is one
sweep over the stages. The change of a sweep is the largest |h (K_new - K_old)| / (|stage| + 1)
of all stages and elements. It need not fall from every sweep to the next: where rotations
couple the elements it goes up and down while the iteration converges. So a trajectory stops when
the change is at most TIGHT, or when IDLE_SWEEPS sweeps, or all ITERATIONS, brought no new smallest
change: that is rounding if it is at most LOOSE, else the iteration has not converged.
"""

from __future__ import annotations

import math
from typing import Any

from nlink.iterations.integration import Attempt, OneStep, StepCost, Trial
from nlink.iterations.iteration import Layout, State, equal, kept, largest, total, when
from nlink.iterations.projection import restored
from nlink.iterations.rules import not_finite
from nlink.iterations.runge_kutta import weighted
from nlink.iterations.tableau import Tableau
from nlink.scalars.functions import less, maximum, where

ITERATIONS = 100
"""Sweeps that a step may take."""
TIGHT = 2.0**-51
"""Change, relative to the state, that is rounding: the iteration has converged."""
IDLE_SWEEPS = 10
"""Sweeps without a smaller change than ever before, after which an iteration stops."""
LOOSE = 1e-9
"""Change, relative to the state, above which an iteration that stopped has not converged."""


class Gauss(OneStep):
    """An implicit Runge-Kutta method with a fixed step."""

    needs = frozenset({"momenta"})

    def __init__(self, tableau: Tableau) -> None:
        self.name, self.tableau, self.cost = tableau.name, tableau, StepCost(1, len(tableau.b))
        self.slopes = tuple(f"K{i}" for i in range(len(tableau.b)))
        self.layout = Layout(self.slopes, {"sweep": 0.0, "smallest": math.inf, "idle": 0.0},
                             ("new", "rate"))

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        h, tableau, first = trial.size, self.tableau, equal(s.sweep, 0.0)
        K = [kept(where(first, s.k0, s[name])) for name in self.slopes]
        change = 0.0
        for i, (row, node) in enumerate(zip(tableau.a, tableau.c, strict=True)):
            stage = kept(s.y + h * weighted(row, K))
            rate = given.rates(s.t + float(node) * h, stage)
            moved = abs(h * (rate - K[i])) / (abs(stage) + 1.0)
            change = maximum(change, largest(moved) + total(not_finite(rate)))
            K[i] = rate
        smallest, idle = (where(first, start, s[name])
                          for name, start in (("smallest", math.inf), ("idle", 0.0)))
        better = less(change, smallest)
        smallest, idle = where(better, change, smallest), where(better, 0.0, idle + 1.0)
        onward = less(TIGHT, change) & less(idle, float(IDLE_SWEEPS)) & less(
            s.sweep, ITERATIONS - 1.0)
        s = s.replace(**dict(zip(self.slopes, K, strict=True)), smallest=smallest, idle=idle,
                      sweeps=s.sweeps + 1.0, sweep=where(onward, s.sweep + 1.0, 0.0))
        s = when(~onward, s, lambda s: self._finish(s, trial, given))
        lost = less(LOOSE, smallest)
        error = where(lost, math.nan, total(not_finite(s.new)))
        return Attempt(s, s.new, s.rate, error, ready=~onward,
                       unsolved=lost & less(smallest, math.inf))

    def _finish(self, s: State, trial: Trial, given: Any) -> State:
        K = [s[name] for name in self.slopes]
        s, new = restored(s, trial.time, s.y + trial.size * weighted(self.tableau.b, K), given)
        return s.replace(new=new, rate=given.rates(trial.time, new))


_R3 = math.sqrt(3) / 6
METHODS = (Gauss(Tableau(
    "symplectic", 4, a=((0.25, 0.25 - _R3), (0.25 + _R3, 0.25)), b=(0.5, 0.5),
    c=(0.5 - _R3, 0.5 + _R3))),)
