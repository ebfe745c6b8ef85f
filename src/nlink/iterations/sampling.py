"""Jumps at known times: begin + k period, k = 1, 2, ...

Steps stop at these times, whose multiples are computed and not added up, so that they do not
drift. An output time that is the same but for rounding is the same: no step is made between
the two. There the state jumps, `given.sample(t, y)` being the state after it, and outputs at such
a time show the state after the jump. A method keeps the size of its steps, if it knows no more
of the past than that.

If Python is asked what happens at samples (`asks`), the process waits there: it ends with the
status WAITING, and whoever drives it changes its state and lets it run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nlink.iterations.iteration import Column, State, equal, when
from nlink.iterations.rules import smaller
from nlink.iterations.switching import BEGINNING
from nlink.scalars.functions import Scalar, less_equal, where

if TYPE_CHECKING:
    from nlink.iterations.integration import Method

WAITING = 10.0
"""The status of a process that waits for what happens at a sample."""


@dataclass(frozen=True)
class Sampling:
    """What an integration does about samples."""

    period: float
    asks: bool = False

    cells = MappingProxyType({"ticks": 1.0, "tick": 0.0})
    """The number of the next sample, and its time; the driver sets them at the start."""

    def first(self, begin: float) -> dict[str, float]:
        """The cells of a process whose sample number 0 is taken at `begin`."""
        return {"ticks": 1.0, "tick": begin + self.period}

    def stop(self, s: State, given: Any) -> Scalar:
        """Where a step must end: at the next sample or at the driver's stop, whichever comes
        first; at the driver's stop if they differ by rounding alone."""
        same = less_equal(abs(given.stop - s.tick), given.least)
        return where(same, given.stop, smaller(s.tick, given.stop))

    def act(self, s: State, accepted: Any, method: Method, given: Any) -> State:
        """The state after the jump, where a step has ended at a sample."""
        reached = accepted & less_equal(s.tick - given.least, s.t)

        def jump(s: State) -> State:
            if self.asks:
                s = s.replace(status=where(equal(s.status, 0.0), WAITING, s.status))
            else:
                s = s.replace(y=given.sample(s.t, s.y))
            if "settling" in s:  # forces have jumped, and may let go or hold what they did not
                s = s.replace(settling=BEGINNING)
            ticks = s.ticks + 1.0
            s = s.replace(ticks=ticks, tick=given.begin + ticks * self.period)
            if "fresh" in s:
                s = s.replace(fresh=1.0)
            if method.adaptive and "history" in method.needs:
                s = s.replace(h=0.0)
            return method.forget(s, reached)

        return when(reached, s, jump)

    def output(self, s: State, column: Column, given: Any) -> Column:
        """The output due: where a step has ended, the state there, after a jump if there was
        one; else what the interpolant gives."""
        return where(less_equal(s.t - given.least, given.due), s.y, column)
