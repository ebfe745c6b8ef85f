"""Events inside the compiled loop: functions g(t, y) watched for a change of sign.

Where the sign of a g differs at the two ends of a step, the step is not taken yet. It is
tried again with other sizes x, always from the state it starts from, which brackets the
first crossing between a size before it and one after it: regula falsi with the weights of
the Illinois method, bisection if that is slow. So an event is found as exactly as the method
integrates, whatever the method, and no interpolant is needed. At last a step lands on the
event: just past it, by `least` seconds at most.

A limit may be passed and passed again within a step. Its g is an element of the state, whose
rates at both ends are known: where the cubic through these dips below zero, a step to its
lowest point is tried first, of several limits to the lowest point that comes first.

An event that is only recorded is written down and the whole step taken after all: the
trajectory is what it is without events, to the last bit. A terminal event ends it there. At
a limit that bounces, the state after the landing is replaced by the one after the impact,
and the method starts anew.

The record keeps all of a search: up to where in its step a trajectory has been examined, the
values of g there, the bracket, and when limits were last hit. So a search can be interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nlink.compiler.integrator import STATUS
from nlink.compiler.ir import number
from nlink.compiler.rolled import loop

if TYPE_CHECKING:
    from nlink.compiler.states import Trigger
    from nlink.compiler.trajectories import Loop

ENDS = {"stop": STATUS["event"], "limit": STATUS["limit reached"]}
"""Actions of a trigger that end a trajectory, and what its status is then."""
ORDINARY, PROBING, LANDING, LOOKING = 0.0, 1.0, 2.0, 3.0
PROBES = 20
"""Tries after which a search bisects."""
TOUCHING = 1e-300
"""g of a limit that is touched from inside: positive, so that going out counts."""
SHORTEST = 1e4
"""Flights between impacts shorter than so many times `least` are rest on the limit."""


SEARCH = ("phase", "examined", "near", "far", "tfar", "probe", "tprobe", "probes", "side")
"""Where a search stands, zero before any; then, of each event, numbers not known before."""
VALUES = ("base", "low", "high", "impact")


def kept_cells(triggers: Sequence[Trigger]) -> tuple[str, ...]:
    """What a trajectory remembers of its events."""
    return (*SEARCH, *_each(VALUES, triggers)) if triggers else ()


def memory(count: int) -> list[float]:
    """The memory of a trajectory that has not started, with so many events."""
    return [0.0] * len(SEARCH) + [math.nan] * (len(VALUES) * count) if count else []


def cells(triggers: Sequence[Trigger]) -> tuple[str, ...]:
    """Numbers of each lane that are forgotten between steps."""
    return ("landing", "bounced", "leave", *_each(("g", "act"), triggers)) if triggers else ()


def _each(names: Sequence[str], triggers: Sequence[Trigger]) -> list[str]:
    """Names of cells, all of one kind side by side: programs read and write them so."""
    return [f"{name}{i}" for name in names for i in range(len(triggers))]


class Watch:
    """Writes what a loop does about events."""

    def __init__(self, loop: Loop, triggers: Sequence[Trigger]) -> None:
        self.loop, self.triggers = loop, triggers

    def evaluate(self, time: str, state: str) -> None:
        """All g at (time, state)."""
        w = self.loop
        t, u, g = (w.f.offset("%scratch", at)
                   for at in (w.cell[time], w.held, w.cell["g0"]))
        y = w.f.offset("%scratch", w.column[state])
        w.f.do(f"call void @watch(ptr {t}, ptr {y}, ptr {u}, ptr {g})")

    def start(self, fresh: str) -> None:
        """The values of g where a trajectory begins."""
        w, lanes = self.loop, self.loop.lanes
        self.evaluate("t", "y")
        for i, trigger in enumerate(self.triggers):
            g, base = w.get(f"g{i}"), w.get(f"base{i}")
            if trigger.bounds:
                g = lanes.select(lanes.compare("oeq", g, lanes.const(0.0)),
                                 lanes.const(TOUCHING), g)
            unset = w.logic("and", fresh, lanes.compare("uno", base, base))
            w.put(f"base{i}", lanes.select(unset, g, base))

    def ordinary(self) -> str:
        """Lanes whose last try was a step like any other."""
        return self.phase(ORDINARY)

    def phase(self, value: float) -> str:
        return self.loop.lanes.compare("oeq", self.loop.get("phase"), self.loop.lanes.const(value))

    def aimed(self, size: str, tnew: str) -> tuple[str, str]:
        """The step to try where an event is being located, else the one given."""
        w = self.loop
        seeking = w.no(self.ordinary())
        return (w.lanes.select(seeking, w.get("probe"), size),
                w.lanes.select(seeking, w.get("tprobe"), tnew))

    def examine(self, passed: str, active: str) -> tuple[str, str]:
        """Steps of `passed` without event, and those landings that are steps as well."""
        w, lanes, f = self.loop, self.loop.lanes, self.loop.f
        self.evaluate("tnew", "new")
        hits = [self.crossed(i, "g") for i in range(len(self.triggers))]
        hit = self.either(hits)
        looked = w.logic("and", active, self.phase(LOOKING))
        through = self.look(passed, w.logic("and", looked, w.no(hit)))
        crossing = w.logic("and", w.logic("or", through, looked), hit)
        plain = w.logic("and", through, w.no(hit))
        for i in range(len(self.triggers)):
            w.put(f"base{i}", lanes.select(plain, w.get(f"g{i}"), w.get(f"base{i}")))
        w.put("examined", lanes.select(plain, lanes.const(0.0), w.get("examined")))
        probing = w.logic("and", active, self.phase(PROBING))
        landing = w.logic("and", active, self.phase(LANDING))
        w.put_mask("landing", landing)
        w.put_mask("bounced", lanes.splat("i1", "false"))
        seek, sought, land, landed = (f.fresh(s) for s in ("seek", "sought", "land", "landed"))
        f.branch(lanes.any(w.logic("or", crossing, probing)), seek, sought)
        f.begin(seek)
        self.bracket(crossing, probing, hit)
        f.go(sought)
        f.begin(sought)
        before = f.label
        f.branch(lanes.any(landing), land, landed)
        f.begin(land)
        stepping = self.land(landing, hits)
        w.lane_loop(self.write)
        last = f.label
        f.go(landed)
        f.begin(landed)
        none = lanes.splat("i1", "false")
        return plain, f.phi(lanes.truth, (none, before), (stepping, last))

    def look(self, passed: str, looked: str) -> str:
        """Steps of `passed` but for those with a lowest point that is yet to be looked at; where
        there was nothing (`looked`), the step is examined up to there."""
        w, lanes = self.loop, self.loop.lanes
        for i in range(len(self.triggers)):
            w.put(f"base{i}", lanes.select(looked, w.get(f"g{i}"), w.get(f"base{i}")))
        never = size = lanes.const(math.inf)
        for i, trigger in enumerate(self.triggers):
            if trigger.bounds:
                dips, share = self.dip(i)
                lowest = lanes.mul(share, w.get("hs"))
                ahead = w.logic("and", dips, lanes.compare("ogt", lowest, w.get("examined")))
                size = w.smaller(lanes.select(ahead, lowest, never), size)
        below = w.logic("and", passed, lanes.compare("olt", size, never))
        w.put("examined", lanes.select(looked, w.get("hs"), w.get("examined")))
        phase = lanes.select(looked, lanes.const(ORDINARY), w.get("phase"))
        for name, value, old in (("phase", lanes.const(LOOKING), phase),
                                 ("probe", size, w.get("probe")),
                                 ("tprobe", lanes.add(w.get("t"), size), w.get("tprobe"))):
            w.put(name, lanes.select(below, value, old))
        return w.logic("and", passed, w.no(below))

    def dip(self, i: int) -> tuple[str, str]:
        """Whether the cubic g + a s + b s^2 + c s^3, s = 0 to 1 over the step, dips below zero
        between ends that are above, and where it is lowest: -a / (b + sqrt(b^2 - 3 a c)). It is
        that of the whole step, however much of it has been examined."""
        w, lanes, trigger = self.loop, self.loop.lanes, self.triggers[i]
        zero, base, end = lanes.const(0.0), w.get(f"base{i}"), w.get(f"g{i}")
        sign = lanes.const(trigger.sign)
        h = lanes.mul(w.get("hs"), sign)
        place = w.f.offset("%scratch", trigger.element * w.row)
        a, last = (lanes.mul(h, w.load(place, column)) for column in ("k0", w.new_rate))
        rise = lanes.mul(sign, lanes.sub(w.load(place, "new"), w.load(place, "y")))
        start, both = lanes.sub(end, rise), lanes.add(a, last)
        c = lanes.sub(both, lanes.mul(lanes.const(2.0), rise))
        b = lanes.sub(lanes.sub(rise, a), c)
        root = lanes.intrinsic("sqrt", lanes.sub(lanes.mul(b, b), lanes.mul(
            lanes.const(3.0), lanes.mul(a, c))))
        s = lanes.binary("fdiv", lanes.neg(a), lanes.add(b, root))
        low = lanes.muladd(lanes.muladd(lanes.muladd(c, s, b), s, a), s, start)
        inside = w.logic("and", lanes.compare("ogt", base, zero), lanes.compare("ogt", end, zero))
        turns = w.logic("and", lanes.compare("olt", a, zero), lanes.compare("ogt", last, zero))
        return w.logic("and", w.logic("and", inside, turns), lanes.compare("ole", low, zero)), s

    def either(self, masks: Sequence[str]) -> str:
        total = masks[0]
        for mask in masks[1:]:
            total = self.loop.logic("or", total, mask)
        return total

    def crossed(self, i: int, name: str) -> str:
        """Where the sign of base and of another value of g differ, in a direction that counts."""
        w, lanes, zero = self.loop, self.loop.lanes, self.loop.lanes.const(0.0)
        base, g = w.get(f"base{i}"), w.get(f"{name}{i}")
        rising = w.logic("and", lanes.compare("olt", base, zero), lanes.compare("oge", g, zero))
        falling = w.logic("and", lanes.compare("ogt", base, zero), lanes.compare("ole", g, zero))
        direction = self.triggers[i].direction
        return {1: rising, -1: falling}.get(direction) or w.logic("or", rising, falling)

    def bracket(self, crossing: str, probing: str, hit: str) -> None:
        """Narrow the bracket (near, far) by what the last try showed, and choose the next."""
        w, lanes = self.loop, self.loop.lanes
        zero, one, half = (lanes.const(x) for x in (0.0, 1.0, 0.5))
        seeking = w.logic("or", crossing, probing)
        farther = w.logic("or", crossing, w.logic("and", probing, hit))
        nearer = w.logic("and", probing, w.no(hit))
        hs, side = w.get("hs"), lanes.select(crossing, zero, w.get("side"))
        # Illinois: an end that stays twice in a row counts half
        stale_low = w.logic("and", farther, lanes.compare("ogt", side, zero))
        stale_high = w.logic("and", nearer, lanes.compare("olt", side, zero))
        w.put("side", lanes.select(farther, lanes.select(crossing, zero, one), lanes.const(-1.0)))
        near = lanes.select(crossing, w.get("examined"), lanes.select(nearer, hs, w.get("near")))
        far = lanes.select(farther, hs, w.get("far"))
        tfar = lanes.select(farther, w.get("tnew"), w.get("tfar"))
        probes = lanes.select(crossing, zero, lanes.add(w.get("probes"), one))
        width, guess = lanes.sub(far, near), far
        for i in range(len(self.triggers)):
            g = w.get(f"g{i}")
            low = lanes.select(crossing, w.get(f"base{i}"),
                               lanes.select(nearer, g, w.get(f"low{i}")))
            high = lanes.select(farther, g, w.get(f"high{i}"))
            low = lanes.select(stale_low, lanes.mul(low, half), low)
            high = lanes.select(stale_high, lanes.mul(high, half), high)
            w.put(f"low{i}", low)
            w.put(f"high{i}", high)
            share = lanes.binary("fdiv", low, lanes.sub(low, high))
            root = lanes.muladd(width, share, near)
            if self.triggers[i].bounds:  # just off a limit g says nothing of the way back
                touching = lanes.compare("ole", low, lanes.const(TOUCHING))
                root = lanes.select(touching, lanes.muladd(width, half, near), root)
            guess = lanes.select(self.crossed(i, "high"), w.smaller(root, guess), guess)
        bisect = lanes.compare("ogt", probes, lanes.const(float(PROBES)))
        guess = lanes.select(bisect, lanes.muladd(width, half, near), guess)
        # a try next to an end closes the bracket, if the guess was good
        least = lanes.broadcast("%least")
        nudge = lanes.mul(least, half)
        guess = w.larger(w.smaller(guess, lanes.sub(far, nudge)), lanes.add(near, nudge))
        found = lanes.compare("ole", width, least)
        for name, value in (
                ("near", near), ("far", far), ("tfar", tfar), ("probes", probes),
                ("probe", lanes.select(found, far, guess)),
                ("tprobe", lanes.select(found, tfar, lanes.add(w.get("t"), guess))),
                ("phase", lanes.select(seeking, lanes.select(
                    found, lanes.const(LANDING), lanes.const(PROBING)), w.get("phase")))):
            w.put(name, value)

    def land(self, landing: str, hits: Sequence[str]) -> str:
        """Which events happen at a landing, what they do; the landings that are steps.

        Of several impacts at once the first is computed, and the others follow from the next
        step on, where they have still to be crossed.
        """
        w, lanes = self.loop, self.loop.lanes
        zero, one, tnew = lanes.const(0.0), lanes.const(1.0), w.get("tnew")
        none = bounced = stepping = lanes.splat("i1", "false")
        leave = lanes.int(0)
        rest = lanes.mul(lanes.broadcast("%least"), lanes.const(SHORTEST))
        for i, (trigger, hit) in enumerate(zip(self.triggers, hits, strict=True)):
            act = w.logic("and", landing, hit)
            g, base = w.get(f"g{i}"), w.get(f"base{i}")
            ended, code = none, 0
            missed = none
            if trigger.action == "bounce":
                missed = w.logic("and", act, bounced)
                act = w.logic("and", act, w.no(bounced))
                bounced = w.logic("or", bounced, act)
                last = w.get(f"impact{i}")
                ended = w.logic("and", act, lanes.compare("olt", lanes.sub(tnew, last), rest))
                code = STATUS["at rest on a limit"]
                w.put(f"impact{i}", lanes.select(act, tnew, last))
                g = lanes.select(act, lanes.const(TOUCHING), g)
            elif trigger.action in ENDS:
                ended, code = act, ENDS[trigger.action]
                stepping = w.logic("or", stepping, act)
            if code:
                leave = w.f.let(f"select {lanes.truth} {ended}, {lanes.integer} "
                                f"{lanes.int(code + 1)}, {lanes.integer} {leave}")
            w.put(f"act{i}", lanes.select(act, one, zero))
            moved = w.logic("and", landing, w.no(missed))
            w.put(f"base{i}", lanes.select(moved, g, base))
        stepping = w.logic("or", stepping, bounced)
        where = lanes.select(stepping, zero, w.get("hs"))
        w.put("examined", lanes.select(landing, where, w.get("examined")))
        w.put("phase", lanes.select(landing, lanes.const(ORDINARY), w.get("phase")))
        w.put_mask("bounced", bounced)
        w.put("leave", leave, "i64")
        return stepping

    def write(self, place: str) -> None:
        """One lane: write down its events, and leave if there is no room for more."""
        w, f, count = self.loop, self.loop.f, len(self.triggers)
        begin, done, full, end = (f.fresh(s) for s in ("begin", "done", "full", "end"))
        landing = f.let(f"icmp ne i64 {w.lane_get(place, 'landing', 'i64')}, 0")
        f.branch(landing, begin, end)
        f.begin(begin)
        width = 8 * (2 + w.shape.size)
        traj = w.lane_get(place, "traj", "i64")
        rows = f.offset("%log", f.let(
            f"mul i64 {f.let(f'mul i64 {traj}, %log_rows')}, {width}"))

        def event(i: str, _: list[str]) -> list[str]:
            put, skip = f.fresh("put"), f.fresh("skip")
            act = f.load("double", f.offset(place, w.row_of(i)), w.cell["act0"])
            f.branch(f.let(f"fcmp ogt double {act}, {number(0.0)}"), put, skip)
            f.begin(put)
            fill = w.lane_get(place, "fill", "i64")
            row = f.offset(rows, f.let(f"mul i64 {fill}, {width}"))
            f.store("double", w.lane_get(place, "tnew"), row)
            f.store("double", f.let(f"sitofp i64 {i} to double"), row, 8)

            def element(k: str, _: list[str]) -> list[str]:
                x = f.load("double", f.offset(place, w.row_of(k)), w.column["new"])
                f.store("double", x, f.offset(row, f.let(f"shl i64 {k}, 3")), 16)
                return []

            loop(f, w.shape.size, [], element)
            for name in ("fill", "events"):
                more = f.let(f"add i64 {w.lane_get(place, name, 'i64')}, 1")
                w.lane_put(place, name, more, "i64")
            f.go(skip)
            f.begin(skip)
            return []

        loop(f, count, [], event)
        room = f.let(f"add i64 {w.lane_get(place, 'fill', 'i64')}, {count}")
        stays = f.let(f"icmp eq i64 {w.lane_get(place, 'leave', 'i64')}, 0")
        crowded = f.let(f"icmp sgt i64 {room}, %log_rows")
        f.branch(f.let(f"and i1 {stays}, {crowded}"), full, done)
        f.begin(full)
        w.lane_put(place, "leave", str(STATUS["running"] + 1), "i64")
        f.go(done)
        f.begin(done)
        f.go(end)
        f.begin(end)

    def ending(self, place: str) -> str:
        """The status of a lane at the last time: that of an event that ends it there, or done."""
        w, f = self.loop, self.loop.f
        code = w.lane_get(place, "leave", "i64")
        landing = f.let(f"icmp ne i64 {w.lane_get(place, 'landing', 'i64')}, 0")
        ends = f.let(f"icmp sgt i64 {code}, {STATUS['done'] + 1}")
        return f.let(f"select i1 {f.let(f'and i1 {landing}, {ends}')}, "
                     f"i64 {f.let(f'sub i64 {code}, 1')}, i64 {STATUS['done']}")

    def conclude(self) -> None:
        """After the step and its outputs: impacts, and lanes that leave."""
        w, f, lanes = self.loop, self.loop.f, self.loop.lanes
        some, none = f.fresh("concluding"), f.fresh("concluded")
        f.branch(lanes.any(w.get_mask("landing")), some, none)
        f.begin(some)
        if any(trigger.action == "bounce" for trigger in self.triggers):
            rebound, rest = f.fresh("rebound"), f.fresh("rest")
            bounced = w.logic("and", w.get_mask("bounced"), w.get_mask("active"))
            f.branch(lanes.any(bounced), rebound, rest)
            f.begin(rebound)
            self.rebound(bounced)
            f.go(rest)
            f.begin(rest)
        w.lane_loop(self.leave)
        f.go(none)
        f.begin(none)

    def rebound(self, bounced: str) -> None:
        """The state after the impact, and all that was known of the motion before it forgotten."""
        w, f, lanes = self.loop, self.loop.f, self.loop.lanes
        t, y, act, after = (f.offset("%scratch", at) for at in (
            w.cell["t"], w.column["y"], w.cell["act0"], w.column["stage"]))
        f.do(f"call void @impact(ptr {t}, ptr {y}, ptr {act}, ptr {after})")

        def body(place: str, _: list[str]) -> list[str]:
            w.store(lanes.select(bounced, w.load(place, "stage"), w.load(place, "y")), place, "y")
            return []

        w.each(body)
        if w.adaptive:
            w.put("h", lanes.select(bounced, lanes.const(0.0), w.get("h")))
        w.forget(bounced)
        w.put_mask("fresh", w.logic("or", bounced, w.get_mask("fresh")))
        self.evaluate("t", "y")
        for i, trigger in enumerate(self.triggers):
            if not trigger.bounds:
                w.put(f"base{i}", lanes.select(bounced, w.get(f"g{i}"), w.get(f"base{i}")))

    def leave(self, place: str) -> None:
        """One lane whose trajectory has ended, or whose log is full."""
        w, f = self.loop, self.loop.f
        go, stay = f.fresh("go"), f.fresh("stay")
        code = w.lane_get(place, "leave", "i64")
        active = f.let(f"icmp ne i64 {w.lane_get(place, 'active', 'i64')}, 0")
        ends = f.let(f"icmp ne i64 {code}, 0")
        f.branch(f.let(f"and i1 {active}, {ends}"), go, stay)
        f.begin(go)
        w.retire(place, f.let(f"sub i64 {code}, 1"))
        f.go(stay)
        f.begin(stay)
