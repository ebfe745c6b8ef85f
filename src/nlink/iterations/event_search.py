"""Finding an event: the first crossing of zero by a watched function g(t, y), whatever the method.

Where the sign of a g differs at the two ends of a step, the step is not taken yet. It is
tried again with other sizes, always from the state it starts from, which brackets the first
crossing between a size before it and one after it: regula falsi with the weights of the
Illinois method, bisection if that is slow. So an event is found as exactly as the method
integrates, and no interpolant is needed. At last a step lands on the event: just past it, by
`least` seconds at most (`event_handling`).

A limit may be passed and passed again within a step. Its g is an element of the state, whose
rates at both ends are known: where the cubic through these dips below zero, a step to its
lowest point is tried first, of several limits to the lowest point that comes first.

Modes end where their slack falls through zero (`switching`). Slacks are columns, however many
there are; a sliding rate that comes to rest and slides on within a step is looked for like
a limit that is passed and passed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nlink.iterations.iteration import State, equal
from nlink.iterations.switching import Switching
from nlink.iterations.triggers import PROBES, TOUCHING, Trigger
from nlink.scalars.functions import Scalar, less, less_equal, maximum, minimum, where

if TYPE_CHECKING:
    from nlink.iterations.integration import Attempt, Trial

ORDINARY, PROBING, LANDING, LOOKING = 0.0, 1.0, 2.0, 3.0
"""What a step is: like any other; to narrow a bracket; to land; to a limit's lowest point."""
ROUNDINGS = 16 * 2.0**-52
"""What events are located to, of a time."""


class EventSearch:
    """Which step to try next while an event is being located.

    `given.limited(t, y)` gives the elements of the state that limits bound.
    """

    def __init__(self, triggers: Sequence[Trigger], switching: Switching | None) -> None:
        self.triggers, self.switching = tuple(triggers), switching
        self.limits = [i for i, each in enumerate(self.triggers) if each.bounds]
        self.cells = dict.fromkeys(("phase", "examined", "near", "far", "tfar", "probe", "tprobe",
                                    "probes", "side"), 0.0) | {
            f"{name}{i}": math.nan for name in ("low", "high") for i in range(len(self.triggers))}

    def least(self, s: State, given: Any) -> Scalar:
        """How closely an event is located: within `given.least`, 16 roundings of the longest time.
        Where there are samples it is those of the next one, so that steps do not depend on how
        long they go on."""
        return ROUNDINGS * (abs(s.tick) + abs(s.tick - s.t)) if "tick" in s else given.least

    def ordinary(self, s: State) -> Any:
        return equal(s.phase, ORDINARY)

    def aimed(self, s: State, trial: Trial) -> Trial:
        """The step to try where an event is being located, else the one given."""
        usual = self.ordinary(s)
        return replace(trial, size=where(usual, trial.size, s.probe),
                       time=where(usual, trial.time, s.tprobe))

    def look(self, s: State, attempt: Attempt, trial: Trial, g: Sequence[Scalar], slack: Any,
             passed: Any, looked: Any, given: Any) -> tuple[State, Any]:
        """Passed steps, but for those that may dip below zero and are looked at first: where
        nothing was found (`looked`), the step is examined up to its lowest point."""
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

    def bracket(self, s: State, trial: Trial, g: Sequence[Scalar], slack: Any, crossing: Any,
                hit: Any, given: Any) -> State:
        """Narrow the bracket (near, far) by what the last try showed, and choose the next; where
        a step is `crossing`, it is the first try."""
        farther, nearer = crossing | hit, ~(crossing | hit)
        side = where(crossing, 0.0, s.side)
        # Illinois: an end that stays twice in a row counts half
        stale_low, stale_high = farther & less(0.0, side), nearer & less(side, 0.0)
        near = where(crossing, s.examined, where(nearer, trial.size, s.near))
        far, tfar = where(farther, trial.size, s.far), where(farther, trial.time, s.tfar)
        probes = where(crossing, 0.0, s.probes + 1.0)
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
        least = self.least(s, given)
        nudge = 0.5 * least
        guess = maximum(minimum(guess, far - nudge), near + nudge)
        found = less_equal(width, least)
        return s.replace(
            near=near, far=far, tfar=tfar, probes=probes, **ends,
            side=where(farther, where(crossing, 0.0, 1.0), -1.0),
            probe=where(found, far, guess), tprobe=where(found, tfar, s.t + guess),
            phase=where(found, LANDING, PROBING))
