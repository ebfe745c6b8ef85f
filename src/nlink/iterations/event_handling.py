"""What happens at events: functions g(t, y) watched for a change of sign (`event_search`).

An event that is only recorded is marked and the whole step taken after all: the trajectory is
what it is without events. A terminal event ends it there. At a limit that bounces, the next
step begins with the state after the impact, and the method starts anew. Where a mode ends, or
a limit holds, the trajectory settles first (`switching`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.iterations.event_search import LANDING, LOOKING, ORDINARY, PROBING, EventSearch
from nlink.iterations.iteration import State, equal, when
from nlink.iterations.switching import BEGINNING, Switching
from nlink.iterations.triggers import AT_REST, ENDS, SHORTEST, TOUCHING, Trigger
from nlink.scalars.functions import Scalar, less, where

if TYPE_CHECKING:
    from nlink.iterations.integration import Attempt, Method, Trial


class EventHandling:
    """What an integration does about events.

    `given.watch(t, y)` gives all g, and `given.impact(t, y, acts)` the state after an impact on
    the limit whose act is 1.
    """

    def __init__(self, triggers: Sequence[Trigger], switching: Switching | None = None) -> None:
        self.triggers, self.switching = tuple(triggers), switching
        self.search = EventSearch(triggers, switching)
        self.bounces = any(each.action == "bounce" for each in self.triggers)
        self.acts = tuple(f"act{i}" for i in range(len(self.triggers)))
        self.marks = (*self.acts, *((switching.mark,) if switching else ()))
        self.columns = switching.columns if switching else ()
        self.cells = self.search.cells | dict.fromkeys(("bounced", *self.marks), 0.0) | {
            f"{name}{i}": math.nan for name in ("base", "impact")
            for i in range(len(self.triggers))} | dict(switching.cells if switching else {})

    def start(self, s: State, given: Any) -> State:
        """The values of g where a trajectory begins."""
        changes = {}
        for i, (each, g) in enumerate(zip(self.triggers, self._watch(s.t, s.y, given),
                                          strict=True)):
            base = s[f"base{i}"]
            first = where(equal(g, 0.0), TOUCHING, g) if each.bounds else g
            changes[f"base{i}"] = where(equal(base, base), base, first)
        return s.replace(**changes)

    def _watch(self, t: Scalar, y: Any, given: Any) -> Sequence[Scalar]:
        return given.watch(t, y) if self.triggers else ()

    def examine(self, s: State, attempt: Attempt, trial: Trial, passed: Any, given: Any,
                ) -> tuple[State, Any, Any]:
        """Steps of `passed` without event, and those landings that are steps as well."""
        g = self._watch(trial.time, attempt.new, given)
        hits = [each.crossed(s[f"base{i}"], g[i]) for i, each in enumerate(self.triggers)]
        slack = ends = None
        if self.switching:
            slack = given.slack(trial.time, attempt.new)
            ends = self.switching.ended(s.slack, slack)
        hit = reduce(operator.or_, [*hits, *([] if ends is None else [ends])])
        looked = equal(s.phase, LOOKING) & attempt.ready
        s, through = self.search.look(s, attempt, trial, g, slack, passed, looked & ~hit, given)
        crossing, plain = (through | looked) & hit, through & ~hit
        probing = equal(s.phase, PROBING) & attempt.ready
        landing = equal(s.phase, LANDING) & attempt.ready
        s = s.replace(examined=where(plain, 0.0, s.examined), **{
            f"base{i}": where(plain, each.base(g[i]), s[f"base{i}"])
            for i, each in enumerate(self.triggers)})
        if self.switching:
            s = s.replace(slack=where(plain, slack, s.slack))
        s = s.replace(**dict.fromkeys((*self.marks, "bounced", "marked"), 0.0))
        s = when(crossing | probing, s, lambda s: self.search.bracket(
            s, trial, g, slack, crossing, hit, given))
        s = when(landing, s, lambda s: self._land(
            s, attempt, trial, g, slack, hits, ends, given))
        # a landing is a step if it ends the trajectory, or if the state jumps or its modes do
        stepping = landing & (less(0.0, s.bounced) | less(0.0, s.status))
        if self.switching:
            stepping = stepping | (landing & self.switching.settling(s))
        return s, plain, stepping

    def _land(self, s: State, attempt: Attempt, trial: Trial, g: Sequence[Scalar], slack: Any,
              hits: Sequence[Any], ends: Any, given: Any) -> State:
        """Which events happen at a landing, and what they do.

        Of several impacts at once the first is computed, and the others follow from the next
        step on, where they have still to be crossed.
        """
        bounced, status, changes, struck = 0.0, s.status, {}, np.False_
        for i, (each, act) in enumerate(zip(self.triggers, hits, strict=True)):
            value = each.base(g[i])
            if each.action == "bounce":
                free = equal(bounced, 0.0)
                value, act = where(act & ~free, s[f"base{i}"], value), act & free
                bounced = where(act, 1.0, bounced)
                resting = less(trial.time - s[f"impact{i}"], SHORTEST * self.search.least(s, given))
                status = where(act & resting, AT_REST, status)
                changes[f"impact{i}"] = where(act, trial.time, s[f"impact{i}"])
                value = where(act, TOUCHING, value)
            elif each.action == "hold":
                struck = struck | act
                value = where(act, TOUCHING, value)
            elif each.action in ENDS:
                status = where(act, ENDS[each.action], status)
            changes[f"act{i}"], changes[f"base{i}"] = where(act, 1.0, 0.0), value
        fresh = less(0.0, bounced)
        stepping = fresh | less(0.0, status)
        if self.switching:  # after a jump all rates may be others
            settles = ends | fresh | struck
            stepping, fresh = stepping | settles, settles
            s = s.replace(slack=slack, struck=where(struck, 1.0, s.struck),
                          settling=where(settles, BEGINNING, s.settling))
        return s.replace(
            **changes, bounced=bounced, status=status, phase=ORDINARY,
            examined=where(stepping, 0.0, trial.size), fresh=where(fresh, 1.0, s.fresh),
            mark=attempt.new, mark_time=trial.time, marked=1.0)

    def settle(self, s: State, method: Method, given: Any) -> State:
        """After an impact, if there was one: which modes follow. It is logged when it is known."""
        assert self.switching is not None
        s = self.rebound(s, method, given)
        s = s.replace(**dict.fromkeys((*self.marks, "marked"), 0.0))
        s = self.switching.settle(s, method, given)
        if not self.triggers:
            return s

        def begin(s: State) -> State:
            g = given.watch(s.t, s.y)
            return s.replace(**{f"base{i}": each.base(g[i]) for i, each in enumerate(self.triggers)
                                if each.action == "hold" or not each.bounds})

        return when(less(0.0, s.switched), s, begin)

    def rebound(self, s: State, method: Method, given: Any) -> State:
        """The state after the impact that the last step landed on, if it did, and all that was
        known of the motion before it forgotten."""
        if not self.bounces:
            return s
        bounced = less(0.0, s.bounced)

        def jump(s: State) -> State:
            after = given.impact(s.t, s.y, [s[name] for name in self.acts])
            s = s.replace(y=after, bounced=0.0)
            if method.adaptive:
                s = s.replace(h=0.0)
            s, g = method.forget(s, bounced), self._watch(s.t, s.y, given)
            return s.replace(**{f"base{i}": g[i] for i, each in enumerate(self.triggers)
                                if not each.bounds})

        return when(bounced, s, jump)
