"""Steps with contact: semi-implicit Euler whose velocities obey the laws of contact at its end.

    v' = v + h a + M^-1 J^T lam,      q' = q moved by h v',

where the impulses lam solve the contact problem of the step (`contact_cone`). A step is one step of
the text, whatever its solver takes:

    given.contact_rows(t, y, [h])             shared numbers: the problem and what moves the state
    given.contact_sweep(t, y, [], rows)       y after two sweeps, its residual, and that over what
                                              it should be
    given.contact_newton(t, x, [eps, fall], rows)
                                              x a step of Newton's method later, and its eps
    given.contact_clear(t, x, [], rows)       y for such unknowns x, its residual, and that over ...
    given.contact_move(t, y, [h], rows)       the state after the step, how deep it begins, how
                                              many modes change, and whether a contact was left
                                              out that is needed

Where only a few contacts are needed in most steps there are such programs of these few, too, whose
names end with "_few"; the others are called where they miss something.

Impulses over h, and slips, are elements of y that only jump: every step starts from those of the
step before, and so does a run that is resumed. Where sweeps do not lead to a solution in time,
Newton's method goes on from them, and at last from the beginning (`contact_newton`).
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

from nlink.iterations.contact_newton import COLD, WARM
from nlink.iterations.integration import (
    STATUS,
    Attempt,
    OneStep,
    StepCost,
    Trial,
    keeps_rate,
)
from nlink.iterations.iteration import Layout, State, repeat, total, when
from nlink.iterations.rules import larger, not_finite
from nlink.scalars.functions import less, less_equal, where

SEARCH = ((8, WARM, 8, 0.1), (5, WARM, 8, 0.1), (0, COLD, 60, 0.1), (5, COLD, 150, 0.5),
          (200, WARM, 10, 0.1))
"""How a solution is looked for, until there is one: calls of `contact_sweep`, with two sweeps each,
then steps of Newton's method, from what is best so far or from the beginning, and the factor by
which its eps falls. Slow falls find what fast ones miss."""
GOOD = 2.0
"""A residual of so many times what it should be is good enough after the first steps of Newton's
method."""
UNUSABLE = 1e-4
"""A residual above this, in m/s, ends a trajectory."""
CELLS = ("residual", "over", "calls", "eps")


UNKNOWN = -3.0
"""A mode before the first step."""
FORMER = 8.0
"""In an entry of the log modes are those after a step, and so many times those before it."""


class ContactPrograms:
    """The programs of some contacts, by the names of those of all."""

    def __init__(self, given: Any, suffix: str) -> None:
        self._given, self._suffix = given, suffix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name + self._suffix)


class ContactEuler(OneStep):
    """Semi-implicit Euler with contacts; the last elements of a state are so many modes, whose
    changes are marked."""

    name, cost, begins_anew = "semi_implicit", StepCost(1), True
    layout = Layout(
        (), MappingProxyType(dict.fromkeys(
            ("contact_residual", "contact_depth", "contact_sweeps", "contact_fallbacks",
             "changed"), 0.0)),
        ("new", "trial", "unknowns"),
        (*CELLS, "fall", "depth", "switches", "missed", "fell_back"), ("changed",))

    def __init__(self, modes: int, *, few: bool) -> None:
        self.modes, self.few = modes, few

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt:
        h = trial.size
        s = s.replace(calls=0.0, fell_back=0.0, eps=0.0, fall=0.0)
        if self.few:
            s = self._solved(s, h, ContactPrograms(given, "_few"))
            s = when(less(0.0, s.missed), s,
                     lambda s: self._solved(s, h, ContactPrograms(given, "")))
        else:
            s = self._solved(s, h, ContactPrograms(given, ""))
        s = s.replace(status=where(less_equal(s.residual, UNUSABLE), s.status,
                                   float(STATUS["contact not solved"])))
        rate: Any = 0.0
        if keeps_rate(s):  # for what looks between states
            rate = where(less(given.index, given.continuous), (s.new - s.y) / h, 0.0)
        return Attempt(s, s.new, rate, total(not_finite(s.new)))

    def _solved(self, s: State, h: Any, given: ContactPrograms) -> State:
        """The state after the step in `new`."""
        rows = given.contact_rows(s.t, s.y, [h])

        def sweep(s: State) -> State:
            new, (residual, over) = given.contact_sweep(s.t, s.new, [], rows)
            return s.replace(new=new, residual=residual, over=over, calls=s.calls + 1.0)

        first, *later = SEARCH
        s = s.replace(new=s.y, residual=math.inf, over=math.inf)
        s = repeat(first[0], CELLS[:3], _inexact, s, sweep)
        s = when(_inexact(s), s, lambda s: self._look_further(s, first, later, rows, given))
        new, (depth, switches, missed) = given.contact_move(s.t, s.new, [h], rows)
        return s.replace(new=new, depth=depth, switches=switches, missed=missed)

    def _look_further(self, s: State, first: Any, later: Any, rows: Any, given: ContactPrograms,
                      ) -> State:
        """What Newton's method and sweeps find in turns, each from what is best so far. A solution
        that Newton's method has found may be one that sweeps lead away from."""

        def judged(s: State, found: Any, residual: Any, over: Any) -> State:
            take = less(residual, s.residual) | ~less_equal(s.residual, math.inf)
            return s.replace(
                trial=found, new=where(take, found, s.new),
                residual=where(take, residual, s.residual), over=where(take, over, s.over))

        def sweep(s: State) -> State:
            found, (residual, over) = given.contact_sweep(s.t, s.trial, [], rows)
            return judged(s.replace(calls=s.calls + 1.0), found, residual, over)

        def step(s: State) -> State:
            x, (eps,) = given.contact_newton(s.t, s.unknowns, [s.eps, s.fall], rows)
            found, (residual, over) = given.contact_clear(s.t, x, [], rows)
            return sweep(judged(s.replace(unknowns=x, eps=eps), found, residual, over))

        _, start, steps, fall = first
        s = s.replace(unknowns=s.new, eps=start, fall=fall, fell_back=1.0)
        s = repeat(steps, CELLS, _inexact, s, step)
        for sweeps, start, steps, fall in later:
            s = s.replace(trial=s.new)
            s = repeat(sweeps, CELLS[:3], _unsolved, s, sweep) if sweeps else s
            s = s.replace(unknowns=s.new, eps=start, fall=fall)
            s = repeat(steps, CELLS, _unsolved, s, step)
        return s

    def note(self, s: State, attempt: Attempt, trial: Trial, accepted: Any, given: Any) -> State:
        """Mark a step after which modes are others."""
        first = given.continuous + (given.discrete - self.modes)

        def mark(s: State) -> State:
            new, mode = attempt.new, less_equal(first, given.index)
            return s.replace(changed=1.0, marked=1.0, mark_time=trial.time,
                             mark=where(mode, new + FORMER * s.y, new))

        return when(accepted & less(0.0, s.switches), s.replace(changed=0.0), mark)

    def commit(self, s: State, attempt: Attempt, accepted: Any) -> State:
        """The step, and what of its contacts is reported."""
        s = super().commit(s, attempt, accepted)
        worst, depth = larger(s.residual, s.contact_residual), larger(s.depth, s.contact_depth)
        return s.replace(contact_residual=where(accepted, worst, s.contact_residual),
                         contact_depth=where(accepted, depth, s.contact_depth),
                         contact_sweeps=s.contact_sweeps + where(accepted, 2.0 * s.calls, 0.0),
                         contact_fallbacks=s.contact_fallbacks + where(accepted, s.fell_back, 0.0))


def _inexact(s: State) -> Any:
    return ~less_equal(s.over, 1.0)


def _unsolved(s: State) -> Any:
    return ~less_equal(s.over, GOOD)
