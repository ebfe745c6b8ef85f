"""One step of an explicit Runge-Kutta method.

    K_i = f(t + c_i h, y + h sum_j a_ij K_j),   new = y + h sum_i b_i K_i,   K_s = f(t + h, new)

K_0 = f(t, y) is there when a step begins, and K_s becomes the next K_0, so that an accepted
step costs one evaluation for each stage whatever the method; a method of fixed steps computes K_0
where a step begins instead, if nobody else needs K_s. The size of the next step is SAFETY
err^(-1/(q+1)) times that of the last, err being the error over the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nlink.iterations.integration import (
    Attempt,
    OneStep,
    StepCost,
    Trial,
    rate_at_end,
    rate_at_start,
)
from nlink.iterations.iteration import Column, Layout, State, equal, total, totals
from nlink.iterations.projection import restored
from nlink.iterations.rules import inverse_root, larger, mean_root, not_finite, smaller, tolerance
from nlink.iterations.tableau import Number, Tableau
from nlink.scalars.functions import Scalar, less, sqrt, where

SAFETY, SHRINK, GROW = 0.9, 0.2, 6.0
"""A step's size is changed by SAFETY err^(-1/(q+1)), at least by SHRINK and at most by GROW."""


class StepControl(OneStep):
    """Sizes of steps that follow from the error of the last one."""

    def control(self, s: State, attempt: Attempt, trial: Trial, accepted: Any, rejected: Any,
                given: Any) -> State:
        h, size = s.h, trial.size
        factor = SAFETY * inverse_root(attempt.error, self.error_order + 1)
        wanted = size * larger(smaller(factor, GROW), SHRINK)
        # a step cut short by a stop says nothing against the size it was cut from
        cut = accepted & less(size, h)
        wanted = where(cut, larger(wanted, h), wanted)
        # a step that is rejected never grows
        return s.replace(h=where(rejected, smaller(wanted, SAFETY * size), wanted))


class RungeKutta(StepControl):
    """The explicit method of a tableau."""

    def __init__(self, tableau: Tableau) -> None:
        self.name, self.tableau = tableau.name, tableau
        self.adaptive, self.error_order = bool(tableau.errors), tableau.error_order
        self.begins_anew = not (tableau.errors or tableau.dense)
        self.cost, self.interpolates = StepCost(len(tableau.b)), bool(tableau.dense)
        if tableau.dense:
            self.layout = Layout((), {}, ("base", *(f"F{r}" for r in range(len(tableau.dense)))),
                                 ("begin", "length"))

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        h, tableau = trial.size, self.tableau
        K = [rate_at_start(s, given)]
        for row, node in zip(tableau.a[1:], tableau.c[1:], strict=True):
            K.append(given.rates(s.t + float(node) * h, s.y + h * weighted(row, K)))
        s, new = restored(s, trial.time, s.y + h * weighted(tableau.b, K), given)
        # before the call, this shares the pass that computes `new`
        error = 0.0 if self.adaptive else total(not_finite(new))
        rate = rate_at_end(s, trial.time, new, given)
        if self.adaptive:
            error = self._error(s, [*K, rate], new, h, given)
        return Attempt(s, new, rate, error, stages=(*K, rate) if rate is not None else ())

    def _error(self, s: State, K: Sequence[Column], new: Column, h: Scalar, given: Any) -> Scalar:
        """The error over the tolerance, root mean square over the state."""
        scale = tolerance(given, s.y, new)
        # an infinite state would make its own tolerance
        scale = where(less(scale, math.inf), scale, math.nan)
        errors = [weighted(row, K) / scale for row in self.tableau.errors]
        sums = totals(*(e * e for e in errors))
        if len(sums) == 1:
            return abs(h) * mean_root(sums[0], given)
        # DOP853: h e5^2 / sqrt(n (e5^2 + e3^2 / 100)), and 0 for 0/0
        e5, e3 = sums
        both = e5 + 0.01 * e3
        both = where(equal(both, 0.0), 1.0, both)
        return abs(h) * (e5 * given.share / sqrt(both * given.share))

    def interpolant(self, s: State, attempt: Attempt, trial: Trial, given: Any) -> State:
        """The extra stages, and the rows F of the continuous extension times h."""
        tableau, h, K = self.tableau, trial.size, list(attempt.stages)
        for row, node in zip(tableau.extra, tableau.extra_c, strict=True):
            K.append(given.rates(s.t + float(node) * h, s.y + h * weighted(row, K)))
        rows = {f"F{r}": h * weighted(row, K) for r, row in enumerate(tableau.dense)}
        return s.replace(base=s.y, begin=s.t, length=h, **rows)

    def output(self, s: State, given: Any) -> Column:
        """y + x (F_0 + (1 - x)(F_1 + x (F_2 + ...))), x = (t - t_old)/h."""
        x = (given.due - s.begin) / s.length
        value, factors = 0.0, (x, 1.0 - x)
        for r in reversed(range(len(self.tableau.dense))):
            value = (value + s[f"F{r}"]) * factors[r % 2]
        return value + s.base


def weighted(weights: Sequence[Number], columns: Sequence[Column]) -> Column:
    """sum_i w_i K_i."""
    terms = [float(w) * K for w, K in zip(weights, columns, strict=False) if w]
    return sum(terms[1:], terms[0]) if terms else 0.0 * columns[0]
