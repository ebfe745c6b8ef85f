"""Events: functions g(t, y) watched for a change of sign, whatever the method.

Where the sign of a g differs at the two ends of a step, the step is not taken yet. It is
tried again with other sizes, always from the state it starts from, which brackets the first
crossing between a size before it and one after it: regula falsi with the weights of the
Illinois method, bisection if that is slow. So an event is found as exactly as the method
integrates, and no interpolant is needed. At last a step lands on the event: just past it, by
`least` seconds at most.

A limit may be passed and passed again within a step. Its g is an element of the state, whose
rates at both ends are known: where the cubic through these dips below zero, a step to its
lowest point is tried first, of several limits to the lowest point that comes first.

Modes end where their slack falls through zero (`switching`). Slacks are columns, however many
there are; a sliding rate that comes to rest and slides on within a step is looked for like
a limit that is passed and passed again.

An event that is only recorded is marked and the whole step taken after all: the trajectory is
what it is without events. A terminal event ends it there. At a limit that bounces, the next
step begins with the state after the impact, and the method starts anew.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.iterations.switching import BEGINNING, Switching
from nlink.iterations.text import State, equal, when
from nlink.iterations.triggers import AT_REST, ENDS, PROBES, SHORTEST, TOUCHING, Trigger
from nlink.scalars.functions import Scalar, less, less_equal, maximum, minimum, where

if TYPE_CHECKING:
    from nlink.iterations.integration import Attempt, Method, Trial

ORDINARY, PROBING, LANDING, LOOKING = 0.0, 1.0, 2.0, 3.0
"""What a step is: like any other; to narrow a bracket; to land; to a limit's lowest point."""


class EventHandling:
    """What an integration does about events.

    `given.watch(t, y)` gives all g, `given.limited(t, y)` the elements that limits bound, and
    `given.impact(t, y, acts)` the state after an impact on the limit whose act is 1.
    """

    def __init__(self, triggers: Sequence[Trigger], switching: Switching | None = None) -> None:
        self.triggers, self.switching = tuple(triggers), switching
        self.limits = [i for i, each in enumerate(self.triggers) if each.bounds]
        self.bounces = any(each.action == "bounce" for each in self.triggers)
        self.acts = tuple(f"act{i}" for i in range(len(self.triggers)))
        self.marks = (*self.acts, *((switching.mark,) if switching else ()))
        self.columns = switching.columns if switching else ()
        search = ("phase", "examined", "near", "far", "tfar", "probe", "tprobe", "probes", "side",
                  "bounced", *self.marks)
        self.cells = dict.fromkeys(search, 0.0) | {
            f"{name}{i}": math.nan for name in ("base", "low", "high", "impact")
            for i in range(len(self.triggers))} | dict(switching.cells if switching else {})

    def start(self, s: State, fresh: Any, given: Any) -> State:
        """The values of g where a trajectory begins."""
        changes = {}
        for i, (each, g) in enumerate(zip(self.triggers, self._watch(s.t, s.y, given),
                                          strict=True)):
            base = s[f"base{i}"]
            first = where(equal(g, 0.0), TOUCHING, g) if each.bounds else g
            changes[f"base{i}"] = where(fresh & ~equal(base, base), first, base)
        return s.replace(**changes)

    def _watch(self, t: Scalar, y: Any, given: Any) -> Sequence[Scalar]:
        return given.watch(t, y) if self.triggers else ()

    def settle(self, s: State, settling: Any, method: Method, given: Any) -> State:
        """After an impact, if there was one: which modes follow. It is logged when it is known."""
        assert self.switching is not None
        s = self.rebound(s, method, given)
        s = s.replace(**{name: where(settling, 0.0, s[name]) for name in (*self.marks, "marked")})
        s = self.switching.settle(s, method, given)
        found = less(0.0, s.switched)
        if not self.triggers:
            return s

        def begin(s: State) -> State:
            g, changes = given.watch(s.t, s.y), {}
            for i, each in enumerate(self.triggers):
                if each.action == "hold" or not each.bounds:
                    changes[f"base{i}"] = where(found & settling, each.base(g[i]), s[f"base{i}"])
            return s.replace(**changes)

        return when(found & settling, s, begin)

    def ordinary(self, s: State) -> Any:
        return equal(s.phase, ORDINARY)

    def aimed(self, s: State, trial: Trial) -> Trial:
        """The step to try where an event is being located, else the one given."""
        usual = self.ordinary(s)
        return replace(trial, size=where(usual, trial.size, s.probe),
                       time=where(usual, trial.time, s.tprobe))

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
        s, through = self._look(s, attempt, trial, g, slack, passed, looked & ~hit, given)
        crossing, plain = (through | looked) & hit, through & ~hit
        probing = equal(s.phase, PROBING) & attempt.ready
        landing = equal(s.phase, LANDING) & attempt.ready
        s = s.replace(examined=where(plain, 0.0, s.examined), **{
            f"base{i}": where(plain, each.base(g[i]), s[f"base{i}"])
            for i, each in enumerate(self.triggers)})
        if self.switching:  # what has settled in this step of the text is yet to be logged
            settled = less(0.0, s.marked) & ~attempt.ready
            s = s.replace(slack=where(plain, slack, s.slack), **{name: where(
                settled, s[name], 0.0) for name in (*self.marks, "bounced", "marked")})
        else:
            s = s.replace(**dict.fromkeys(self.marks, 0.0), bounced=0.0, marked=0.0)
        s = when(crossing | probing, s, lambda s: self._bracket(
            s, trial, g, slack, crossing, probing, hit, given))
        s = when(landing, s, lambda s: self._land(
            s, attempt, trial, g, slack, hits, ends, landing, given))
        # a landing is a step if it ends the trajectory, or if the state jumps or its modes do
        stepping = landing & (less(0.0, s.bounced) | less(0.0, s.status))
        if self.switching:
            stepping = stepping | (landing & self.switching.settling(s))
        return s, plain, stepping

    def _look(self, s: State, attempt: Attempt, trial: Trial, g: Sequence[Scalar], slack: Any,
              passed: Any, looked: Any, given: Any) -> tuple[State, Any]:
        """Steps of `passed` but for those with a lowest point that is yet to be looked at; where
        there was nothing (`looked`), the step is examined up to there."""
        if not self.limits and not self.switching:
            return s, passed
        s = s.replace(**{f"base{i}": where(looked, each.base(g[i]), s[f"base{i}"])
                         for i, each in enumerate(self.triggers)})
        first: Scalar = math.inf
        if self.switching:
            s = s.replace(slack=where(looked, slack, s.slack))
            first = self.switching.first_dip(s, attempt, trial, slack)
        ends = [given.limited(trial.time, x) if self.limits else ()
                for x in (s.y, s.k0, attempt.new, attempt.rate)]
        for i, *values in zip(self.limits, *ends, strict=True):
            dips, share = self.triggers[i].dip(s[f"base{i}"], g[i], trial.size, *values)
            lowest = share * trial.size
            ahead = dips & less(s.examined, lowest)
            first = minimum(where(ahead, lowest, math.inf), first)
        below = passed & less(first, math.inf)
        s = s.replace(
            examined=where(looked, trial.size, s.examined),
            phase=where(below, LOOKING, where(looked, ORDINARY, s.phase)),
            probe=where(below, first, s.probe), tprobe=where(below, s.t + first, s.tprobe))
        return s, passed & ~below

    def _bracket(self, s: State, trial: Trial, g: Sequence[Scalar], slack: Any, crossing: Any,
                 probing: Any, hit: Any, given: Any) -> State:
        """Narrow the bracket (near, far) by what the last try showed, and choose the next."""
        farther, nearer = crossing | (probing & hit), probing & ~hit
        side = where(crossing, 0.0, s.side)
        # Illinois: an end that stays twice in a row counts half
        stale_low, stale_high = farther & less(0.0, side), nearer & less(side, 0.0)
        near = where(crossing, s.examined, where(nearer, trial.size, s.near))
        far, tfar = where(farther, trial.size, s.far), where(farther, trial.time, s.tfar)
        probes = where(crossing, 0.0, where(probing, s.probes + 1.0, s.probes))
        width = far - near
        guess, middle, ends = far, near + 0.5 * width, {}
        for i, each in enumerate(self.triggers):
            low = where(crossing, s[f"base{i}"], where(nearer, g[i], s[f"low{i}"]))
            high = where(farther, g[i], s[f"high{i}"])
            low = ends[f"low{i}"] = where(stale_low, 0.5 * low, low)
            high = ends[f"high{i}"] = where(stale_high, 0.5 * high, high)
            root = near + width * (low / (low - high))
            if each.bounds:  # just off a limit g says nothing of the way back
                root = where(less_equal(low, TOUCHING), middle, root)
            guess = where(each.crossed(s[f"base{i}"], high) & less(root, guess), root, guess)
        if self.switching:
            s, share = self.switching.narrow(s, slack, crossing, nearer, farther,
                                             (stale_low, stale_high))
            guess = minimum(near + width * share, guess)
        guess = where(less(float(PROBES), probes), middle, guess)
        # a try next to an end closes the bracket, if the guess was good
        nudge = 0.5 * given.least
        guess = maximum(minimum(guess, far - nudge), near + nudge)
        found, seeking = less_equal(width, given.least), crossing | probing
        phase = where(found, LANDING, PROBING)
        changes = {
            "side": where(farther, where(crossing, 0.0, 1.0), where(nearer, -1.0, s.side)),
            "probe": where(found, far, guess), "tprobe": where(found, tfar, s.t + guess),
            "phase": phase}
        return s.replace(near=near, far=far, tfar=tfar, probes=probes, **ends, **{
            name: where(seeking, value, s[name]) for name, value in changes.items()})

    def _land(self, s: State, attempt: Attempt, trial: Trial, g: Sequence[Scalar], slack: Any,
              hits: Sequence[Any], ends: Any, landing: Any, given: Any) -> State:
        """Which events happen at a landing, and what they do.

        Of several impacts at once the first is computed, and the others follow from the next
        step on, where they have still to be crossed.
        """
        bounced, status, changes, struck = 0.0, s.status, {}, np.False_
        for i, (each, hit) in enumerate(zip(self.triggers, hits, strict=True)):
            act, base, value = landing & hit, s[f"base{i}"], each.base(g[i])
            moved = landing
            if each.action == "bounce":
                free = equal(bounced, 0.0)
                moved, act = landing & ~(act & ~free), act & free
                bounced = where(act, 1.0, bounced)
                resting = less(trial.time - s[f"impact{i}"], SHORTEST * given.least)
                status = where(act & resting, AT_REST, status)
                changes[f"impact{i}"] = where(act, trial.time, s[f"impact{i}"])
                value = where(act, TOUCHING, value)
            elif each.action == "hold":
                struck = struck | act
                value = where(act, TOUCHING, value)
            elif each.action in ENDS:
                status = where(act, ENDS[each.action], status)
            changes[f"act{i}"] = where(act, 1.0, s[f"act{i}"])
            changes[f"base{i}"] = where(moved, value, base)
        stepping = landing & (less(0.0, bounced) | less(0.0, status))
        fresh = landing & less(0.0, bounced)
        if self.switching:  # after a jump all rates may be others
            settles = landing & (ends | less(0.0, bounced) | struck)
            s = s.replace(struck=where(landing & struck, 1.0, s.struck))
            stepping, fresh = stepping | settles, fresh | settles
            s = s.replace(slack=where(landing, slack, s.slack),
                          settling=where(settles, BEGINNING, s.settling))
        return s.replace(
            **changes, bounced=where(landing, bounced, s.bounced), status=status,
            examined=where(landing, where(stepping, 0.0, trial.size), s.examined),
            phase=where(landing, ORDINARY, s.phase),
            fresh=where(fresh, 1.0, s.fresh),
            mark=attempt.new, mark_time=trial.time, marked=where(landing, 1.0, s.marked))

    def rebound(self, s: State, method: Method, given: Any) -> State:
        """The state after the impact that the last step landed on, if it did, and all that was
        known of the motion before it forgotten."""
        if not self.bounces:
            return s
        bounced = less(0.0, s.bounced)

        def jump(s: State) -> State:
            after = given.impact(s.t, s.y, [s[name] for name in self.acts])
            s = s.replace(y=where(bounced, after, s.y))
            if method.adaptive:
                s = s.replace(h=where(bounced, 0.0, s.h))
            s, g = method.forget(s, bounced), self._watch(s.t, s.y, given)
            return s.replace(bounced=0.0, **{
                f"base{i}": where(bounced, g[i], s[f"base{i}"])
                for i, each in enumerate(self.triggers) if not each.bounds})

        return when(bounced, s, jump)
