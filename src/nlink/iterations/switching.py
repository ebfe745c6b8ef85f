"""Modes: what holds and what slides, between the smooth phases of a trajectory.

Rates that rub, or that a limit may hold, have a mode each (`box_problem`), an element of the state
that changes at jumps only. While modes stay as they are the motion is smooth, whatever its
signs: sliding takes its direction from the mode. A *slack* says how far a mode is from ending, at
the place of its rate in the column `given.slack(t, y)`, infinity elsewhere:

    sliding    how fast it slides, mode * qd; at 0 the rate comes to rest
    held       how far the holding force is within its bounds

Where a slack falls through zero, the search for events finds when (`event_search`). There the
trajectory *settles*: `given.arrest(t, y)` puts to rest what has come to rest and holds all that
is at rest, and pivots let go what cannot be held. Then a new smooth phase begins, as it does at
the start of a trajectory. One step of the text settles, or integrates, never both.

Where limits hold, what hits one is stopped by impulses, which are the forces of a box problem
too: `given.touch(t, y)` has the modes to begin with, `given.impulses(t, y)` those that the
impulses ask for, and `given.collide(t, y)` is the state after the impact.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nlink.iterations.box_problem import CELLS, pivot
from nlink.iterations.iteration import Column, State, equal, largest, when
from nlink.iterations.triggers import TOUCHING, Trigger, lowest_point
from nlink.scalars.functions import Scalar, less, less_equal, where

if TYPE_CHECKING:
    from nlink.iterations.integration import Attempt, Method, Trial

ENDS = Trigger(-1, "switch")
"""When a slack ends its mode."""
PIVOTS_A_STEP = 3
"""Pivots in one step of the text: it costs lanes beside it as much as a step of integration."""
IDLE, BEGINNING, PIVOTING, COLLIDING = 0.0, 1.0, 2.0, 3.0
"""What settling is about: nothing, all that is at rest, which of it holds, which impulses do."""


class Switching:
    """What an integration does about modes; `impacts` says whether limits hold."""

    def __init__(self, *, impacts: bool = False) -> None:
        self.impacts = impacts

    columns = ("slack", "slack_near", "slack_far")
    cells = MappingProxyType({
        "settling": BEGINNING, "struck": 0.0, **CELLS})
    mark = "switched"

    def settling(self, s: State) -> Any:
        """Whether a trajectory settles, so that no step is made."""
        return less(IDLE, s.settling)

    def settle(self, s: State, method: Method, given: Any) -> State:
        """Begin to settle, or a few pivots."""

        def begin(s: State) -> State:
            y, phase = given.arrest(s.t, s.y), PIVOTING
            if self.impacts:
                struck = less(0.0, s.struck)
                y = where(struck, given.touch(s.t, s.y), y)
                phase = where(struck, COLLIDING, phase)
            return s.replace(y=y, settling=phase, **CELLS)

        s = when(equal(s.settling, BEGINNING), s, begin)
        if self.impacts:
            for _ in range(PIVOTS_A_STEP):
                s = when(equal(s.settling, COLLIDING), s, lambda s: self._collide(s, given))
        for _ in range(PIVOTS_A_STEP):
            s = when(equal(s.settling, PIVOTING), s, lambda s: self._pivot(s, method, given))
        return s

    def _pivot(self, s: State, method: Method, given: Any) -> State:
        s, y, found = pivot(s, s.y, given.propose(s.t, s.y), given)
        s = s.replace(y=y)
        return when(found, s, lambda s: self._resume(s, found, method, given))

    def _collide(self, s: State, given: Any) -> State:
        """A pivot among impulses, and the state after them if it was the last."""
        s, y, found = pivot(s, s.y, given.impulses(s.t, s.y), given)
        s = s.replace(y=y)

        def part(s: State) -> State:
            # the pivot that begins counts as one: the motion is another
            return s.replace(y=given.collide(s.t, s.y), settling=PIVOTING, struck=0.0,
                             **CELLS | {"pivots": 1.0})

        return when(found, s, part)

    def _resume(self, s: State, found: Any, method: Method, given: Any) -> State:
        """A smooth phase begins: nothing is known of the motion before."""
        slack = given.slack(s.t, s.y)
        s = s.replace(slack=where(less_equal(slack, 0.0), TOUCHING, slack), settling=IDLE,
                      fresh=1.0, switched=1.0, marked=1.0, mark_time=s.t, mark=s.y)
        if method.adaptive:
            other = less(given.begin, s.t) & less(1.0, s.pivots)  # something was let go
            s = s.replace(h=where(other, 0.0, s.h))
        return method.forget(s, found)

    def ended(self, before: Column, after: Column) -> Any:
        """Whether some mode ends between two slacks."""
        return less(0.0, largest(where(ENDS.crossed(before, after), 1.0, 0.0)))

    def first_dip(self, s: State, attempt: Attempt, trial: Trial, slack: Column) -> Scalar:
        """The first time in a step when a sliding rate may have come to rest, though it slides
        at both ends; infinity if none has, or all have been looked at."""
        direction = where(less(attempt.new, 0.0), -1.0, 1.0)
        dips, share = lowest_point(s.slack, slack, direction, trial.size, s.y, s.k0,
                                   attempt.new, attempt.rate)
        ahead = dips & less(s.examined, share * trial.size)
        early = largest(where(ahead, 1.0 - share, 0.0))
        return where(less(0.0, early), (1.0 - early) * trial.size, math.inf)

    def narrow(self, s: State, slack: Column, crossing: Any, nearer: Any, farther: Any,
               stale: tuple[Any, Any]) -> tuple[State, Scalar]:
        """The slacks at the two ends of a bracket, and where between them, from 0 to 1, the first
        mode is guessed to end."""
        low = where(crossing, s.slack, where(nearer, slack, s.slack_near))
        high = where(farther, slack, s.slack_far)
        low, high = (where(old, 0.5 * x, x) for old, x in zip(stale, (low, high), strict=True))
        share = where(less_equal(low, TOUCHING), 0.5, low / (low - high))
        early = largest(where(ENDS.crossed(s.slack, high), 1.0 - share, 0.0))
        return s.replace(slack_near=low, slack_far=high), 1.0 - early
