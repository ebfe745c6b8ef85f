"""An integration as an iteration: what surrounds the steps of every method.

A step is aimed (its size, no further than where it must stop), tried by the method, judged by
its error over the tolerance, and its size changed by that. What is watched (`events`) may look
at a step before it is taken. Each method says in its own file how it steps; see `Method`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from nlink.iterations import projection
from nlink.iterations.event_handling import EventHandling
from nlink.iterations.iteration import Column, Layout, State, equal, total, totals, when
from nlink.iterations.rules import inverse_root, larger, mean_root, smaller, tolerance
from nlink.iterations.sampling import WAITING, Sampling
from nlink.scalars.functions import Scalar, less, less_equal, maximum, where
from nlink.scalars.primitives import divide

STATUS = {"running": 0, "done": 1, "not finite": 2, "step too small": 3, "too many steps": 4,
          "event": 5, "limit reached": 6, "at rest on a limit": 7, "not closed": 8,
          "not converged": 9, "waiting": int(WAITING), "contact not solved": 11}
"""Why a trajectory ended; a running one can be taken up again."""
STRETCH = 1 + 1e-8
"""A step that ends so near before a stop ends at it."""


@dataclass(frozen=True)
class Trial:
    """A step to be tried."""

    size: Scalar
    time: Scalar
    """When it ends."""


@dataclass(frozen=True)
class Attempt:
    """What a method made of a trial."""

    state: State
    """The state before the step, but for what the method notes of its own work."""
    new: Column
    rate: Column | None
    """The rate at the new state; None where it is not kept."""
    error: Scalar
    """Over the tolerance; nan where a number is not finite."""
    stages: tuple[Column, ...] = ()
    """Rates on the way, for the method's interpolant."""
    ready: Any = np.True_
    """Whether the attempt is complete; an implicit method needs several steps of the text."""
    unsolved: Any = np.False_
    """Whether the equations of an implicit method could not be solved."""
    trial: Trial | None = None
    """The step really tried, if the method decides that itself."""


@dataclass(frozen=True)
class StepCost:
    """What a step costs, in evaluations of the rates."""

    evaluations: int = 0
    """Those of every step."""
    stages: int = 0
    """Those of one sweep of an implicit method."""


NEEDS = frozenset({"momenta", "derivatives", "history", "python"})
"""What a method may need: momenta in place of rates; `factor` and `solve`, and so the derivatives
of the rates; states or rates before the last step, which are lost by a jump; Python in every
step, because its text cannot be recorded."""
NOTHING_KEPT = Layout((), MappingProxyType({}))


class Method(Protocol):
    """A method of integration.

    1. `layout` names what it keeps besides y, the state, k0, its rate, and the cells of every
       integration. One that `begins_anew` needs no k0, unless events look at it.
    2. `attempt(s, trial, given)` tries a step from s.y, s.k0.
    3. `control(s, attempt, trial, accepted, rejected, given)` gives the state with `h`, the size
       of the next step, if it is `adaptive`.
    4. `commit(s, attempt, accepted)` gives the columns after an accepted step.
    5. `forget(s, jumped)` is the state of a trajectory that has jumped: nothing is known of the
       motion before.
    6. `interpolant(s, attempt, trial, given)` prepares `output(s, given)`, the state at a time
       within the last step, if it `interpolates`.
    """

    name: str
    adaptive: bool
    error_order: int
    """The error shrinks as h^(error_order + 1)."""
    interpolates: bool
    needs: frozenset[str]
    """Some of `NEEDS`."""
    cost: StepCost
    layout: Layout
    begins_anew: bool
    """Whether its steps begin with the rate at y, or without one, if none is kept: then what
    follows a jump costs no more than other steps."""
    decides_modes: bool
    """Whether it decides the modes of rates in each step, by a method `with_modes`, and the
    forces of contacts, by one `with_contacts`; else modes change at events."""

    def with_modes(self) -> Method: ...

    def with_contacts(self, modes: int, *, few: bool) -> Method: ...

    def attempt(self, s: State, trial: Trial, given: Any) -> Attempt: ...

    def control(self, s: State, attempt: Attempt, trial: Trial, accepted: Any, rejected: Any,
                given: Any) -> State: ...

    def commit(self, s: State, attempt: Attempt, accepted: Any) -> State: ...

    def note(self, s: State, attempt: Attempt, trial: Trial, accepted: Any, given: Any,
             ) -> State: ...

    def forget(self, s: State, jumped: Any) -> State: ...

    def interpolant(self, s: State, attempt: Attempt, trial: Trial, given: Any) -> State: ...

    def output(self, s: State, given: Any) -> Column: ...


class OneStep:
    """The base of methods that know no step before the one they make: fixed steps and no
    interpolant, unless a method says otherwise."""

    name: str
    adaptive = interpolates = decides_modes = begins_anew = False
    error_order = 0
    needs: frozenset[str] = frozenset()
    cost = StepCost()
    layout = NOTHING_KEPT

    def with_modes(self) -> Method:
        raise NotImplementedError

    def with_contacts(self, modes: int, *, few: bool) -> Method:
        raise NotImplementedError

    def control(self, s: State, attempt: Attempt, trial: Trial, accepted: Any, rejected: Any,
                given: Any) -> State:
        return s

    def commit(self, s: State, attempt: Attempt, accepted: Any) -> State:
        s = s.replace(y=where(accepted, attempt.new, s.y))
        return s.replace(k0=where(accepted, attempt.rate, s.k0)) if keeps_rate(s) else s

    def note(self, s: State, attempt: Attempt, trial: Trial, accepted: Any, given: Any) -> State:
        return s

    def forget(self, s: State, jumped: Any) -> State:
        return s

    def interpolant(self, s: State, attempt: Attempt, trial: Trial, given: Any) -> State:
        return s

    def output(self, s: State, given: Any) -> Column:
        raise NotImplementedError


def keeps_rate(s: State) -> bool:
    """Whether the rate at the end of a step is kept for the next one."""
    return "k0" in s


def rate_at_start(s: State, given: Any) -> Column:
    """The rate at the state from which a step starts."""
    return s.k0 if keeps_rate(s) else given.rates(s.t, s.y)


def rate_at_end(s: State, time: Scalar, new: Column, given: Any) -> Column | None:
    """The rate at the end of a step, if it is kept."""
    return given.rates(time, new) if keeps_rate(s) else None


class Integration:
    """The iteration of a method; `dense` if outputs lie within steps, else steps end there.

    `projects` says that `given.close` takes a new state back to closed loops.
    """

    def __init__(self, method: Method, *, dense: bool, projects: bool = False,
                 events: EventHandling | None = None, sampling: Sampling | None = None) -> None:
        self.method, self.dense, self.projects, self.events = method, dense, projects, events
        self.sampling = sampling
        columns, brief = (projection.COLUMNS, projection.CELLS) if projects else ((), ())
        kept = method.layout
        # methods of users need not say whether they do
        anew = getattr(method, "begins_anew", False) and events is None
        rate = {} if anew else {"fresh": 1.0}
        cells = {"t": 0.0, "h": 0.0, **rate, "steps": 0.0, "rejects": 0.0, "sweeps": 0.0,
                 **kept.cells, **(events.cells if events else {}),
                 **(sampling.cells if sampling else {})}
        marks = (*(events.marks if events else ()), *kept.marks)
        if kept.marks:  # they stand side by side
            cells = {name: x for name, x in cells.items() if name not in marks} | dict.fromkeys(
                marks, 0.0)
        self.layout = Layout(
            ("y", *(["k0"] if rate else []), *kept.columns, *(events.columns if events else ())),
            cells,
            (*kept.brief_columns, *columns, *(("mark",) if marks else ())),
            ("status", *kept.brief_cells, *brief, *(("marked", "mark_time") if marks else ())),
            marks)

    def step(self, s: State, given: Any) -> State:
        """One attempt, or, where modes are to be decided, a part of that."""
        s = s.replace(status=0.0)
        events = self.events
        if events is None or events.switching is None:
            return self._integrate(s, given)
        settling = events.switching.settling(s)
        s = when(settling, s, lambda s: events.settle(s, self.method, given))
        return when(~settling, s, lambda s: self._integrate(s, given))

    def _integrate(self, s: State, given: Any) -> State:
        """One attempt."""
        if keeps_rate(s):
            s = when(less(0.0, s.fresh), s, lambda s: self._begin(s, given))
        trial = self._aim(s, given)
        attempt = self.method.attempt(s, trial, given)
        s, trial = attempt.state, attempt.trial or trial
        if self.projects:  # a step is as good as its end
            attempt = replace(attempt, error=where(less(projection.OPEN, s.opening), math.inf,
                                                   attempt.error))
        good = less_equal(attempt.error, 1.0)
        judged = attempt.ready
        if self.events:
            judged = judged & self.events.search.ordinary(s)
        accepted = plain = judged & good
        rejected = judged & ~good
        if self.events:
            s, plain, landed = self.events.examine(s, attempt, trial, plain, given)
            accepted = plain | landed
        failed = rejected
        if self.method.adaptive:
            before = s.h
            s = self.method.control(s, attempt, trial, plain, rejected, given)
            failed = rejected & ~less_equal(given.least, s.h)
            s = s.replace(h=where(plain | rejected, s.h, before))
        s = self._count(s, attempt, trial, accepted, rejected, failed, given)
        if self.dense:
            due = accepted & less_equal(given.due, trial.time)
            s = when(due, s, lambda s: self.method.interpolant(s, attempt, trial, given))
        if self.method.layout.marks:
            s = s if self.events else s.replace(marked=0.0)
            s = self.method.note(s, attempt, trial, accepted, given)
        s = self.method.commit(s, attempt, accepted)
        s = s.replace(t=where(accepted, trial.time, s.t))
        return self.sampling.act(s, accepted, self.method, given) if self.sampling else s

    def output(self, s: State, given: Any) -> Column:
        """The state at the time that is due."""
        if not self.dense:
            return s.y
        column = self.method.output(s, given)
        column = given.restore(given.due, column)
        return self.sampling.output(s, column, given) if self.sampling else column

    def _begin(self, s: State, given: Any) -> State:
        """The rate at a state to start from, and the size of the first step if none is known
        [Hairer, Norsett, Wanner I, II.4]: from the sizes of the state, of its rate, and of a
        difference of rates."""
        if self.events:
            s = self.events.rebound(s, self.method, given)
        rate = given.rates(s.t, s.y)
        if self.events:
            s = self.events.start(s, given)
        s = s.replace(k0=rate, fresh=0.0)
        if not self.method.adaptive:
            return s
        scale = tolerance(given, s.y)
        y, slope = s.y / scale, s.k0 / scale
        d0, d1 = (mean_root(x, given) for x in totals(y * y, slope * slope))
        return when(equal(s.h, 0.0), s, lambda s: self._first(s, d0, d1, given))

    def _first(self, s: State, d0: Scalar, d1: Scalar, given: Any) -> State:
        small = less(d0, 1e-5) | less(d1, 1e-5)
        # at rest d1 is 0: on floats, too, the side not chosen must be computed
        h0 = smaller(where(small, 1e-6, divide(0.01 * d0, d1)), given.stop - s.t)
        further = given.rates(s.t + h0, s.y + h0 * s.k0)
        change = (further - s.k0) / tolerance(given, s.y)
        d2 = mean_root(total(change * change), given) / h0
        most = larger(d1, d2)
        h1 = where(less_equal(most, 1e-15), maximum(1e-6, 1e-3 * h0),
                   inverse_root(100.0 * most, self.method.error_order + 1))
        return s.replace(h=smaller(100.0 * h0, h1))

    def _aim(self, s: State, given: Any) -> Trial:
        """The step to try: the size wanted, or what is left to the stop."""
        stop = self.sampling.stop(s, given) if self.sampling else given.stop
        h, left = smaller(s.h, given.largest), stop - s.t
        final = less_equal(left, h * STRETCH)
        size = h
        if self.method.adaptive:  # two equal steps rather than a large and a small one
            half = 0.5 * left
            size = where(less_equal(half, h), half, h)
        size = where(final, left, size)
        trial = Trial(size, where(final, stop, s.t + size))
        return self.events.search.aimed(s, trial) if self.events else trial

    def _count(self, s: State, attempt: Attempt, trial: Trial, accepted: Any, rejected: Any,
               failed: Any, given: Any) -> State:
        """Steps and rejections, and what ends a trajectory."""
        tried = (attempt.ready & ~accepted) if self.events else rejected
        s = s.replace(steps=s.steps + where(accepted, 1.0, 0.0),
                      rejects=s.rejects + where(tried, 1.0, 0.0))
        ahead = less(where(accepted, trial.time, s.t), given.final)
        many = less_equal(given.most, s.steps + s.rejects) & ahead
        lost = where(equal(attempt.error, attempt.error), STATUS["step too small"],
                     STATUS["not finite"])
        lost = where(attempt.unsolved, STATUS["not converged"], lost)
        if self.projects:
            lost = where(less(projection.OPEN, s.opening), STATUS["not closed"], lost)
        status = where(failed, lost, where(many, STATUS["too many steps"], s.status))
        return s.replace(status=status)
