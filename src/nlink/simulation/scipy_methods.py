"""SciPy's solvers as methods of integration, for the driver on floats.

A solver chooses its own steps. Looking for an event within one, and outputs, take its own
interpolant; after an impact it is started anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nlink.iterations.integration import Attempt, OneStep, Trial
from nlink.iterations.iteration import Column, State

SOLVERS = {"lsoda": "LSODA", "radau": "Radau"}


class SciPyMethod(OneStep):
    """One trajectory's solver."""

    interpolates, needs = True, frozenset({"python"})
    first: float
    largest: float

    def __init__(self, name: str) -> None:
        self.name = name

    def started(self, first: float, largest: float) -> SciPyMethod:
        """A method for one trajectory, with its first step (0 if it is to be found) and bound."""
        method = SciPyMethod(self.name)
        method.first, method.largest = first, largest
        method.solver = method.dense = None
        method.begin = np.nan
        method.lost = 0
        return method

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        error = 0.0
        if s.get("phase", 0.0) == 0:
            if self.begin != s.t:  # else the same step once more: events in it were recorded
                error = self._try(s, given)
            trial = Trial(self.end - s.t, self.end)
        new = given.restore(trial.time, np.array(self.dense(trial.time)))
        if not np.isfinite(new).all():  # LSODA steps on through nan
            error = np.nan
        rate = new * 0 if error != 0 else given.rates(trial.time, new)
        return Attempt(s, new, rate, np.float64(error), trial=trial)

    def _try(self, s: State, given: Any) -> float:
        """One step of the solver; an error of nan if numbers were not finite, for which SciPy
        raises errors of its own, as a controller may."""
        self.begin, self.end, self.dense, self.lost = s.t, s.t, lambda t: s.y, 0
        try:
            return self._step(s, given)
        except (ValueError, ArithmeticError):
            if not self.lost:
                raise
            return np.nan

    def _step(self, s: State, given: Any) -> float:
        """One step of the solver; an infinite error if it is stuck."""

        def rates(t: float, y: Column) -> Column:
            self.lost += not np.isfinite(y).all()
            found = given.rates(t, y)
            self.lost += not np.isfinite(found).all()
            return found

        if self.solver is None:
            bound = min(given.final, s.get("tick", np.inf))  # a jump wants a solver of its own
            self.solver = self._solver()(
                rates, s.t, s.y, bound, rtol=max(given.rtol, 100 * np.finfo(float).eps),
                atol=given.atol, max_step=self.largest,
                first_step=min(self.first, bound - s.t) if self.first else None)
        self.solver.step()
        self.end = np.float64(self.solver.t)
        if self.solver.status == "failed" or self.end == s.t:  # LSODA stands still, saying nothing
            return np.nan if self.lost else np.inf
        self.dense = self.solver.dense_output()
        return 0.0

    def _solver(self) -> Callable[..., Any]:
        try:
            from scipy import integrate
        except ImportError:
            raise ImportError(f"method={self.name!r} needs scipy: pip install nlink[sim]"
                              ) from None
        return getattr(integrate, SOLVERS[self.name])

    def forget(self, s: State, jumped: Any) -> State:
        self.solver, self.begin = None, np.nan
        return s

    def output(self, s: State, given: Any) -> Column:
        return self.dense(given.due)


SCIPY = {name: SciPyMethod(name) for name in SOLVERS}
