"""The loop of every integration: trajectories flow through the lanes of a vector.

    void nlink_integrate(int64_t *words)

A lane takes the next trajectory that is waiting, steps it with its own step size until it
is done or fails, stores what it must remember in the trajectory's record, and takes
another. A call that has spent its budget of steps leaves all trajectories in their records,
to be taken up by the next. Lanes never look at each other, so the numbers of a trajectory
do not depend on its neighbours, on threads, or on where a run was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence

from nlink.compiler import events
from nlink.compiler.integrator import DOUBLES, INTEGRATE, POINTERS, STATUS, WORDS
from nlink.compiler.ir import Target
from nlink.compiler.records import Records
from nlink.compiler.rolled import loop
from nlink.compiler.states import Shape

SAFETY, SHRINK, GROW = 0.9, 0.2, 6.0
"""A step's size is changed by SAFETY err^(-1/(q+1)), at least by SHRINK and at most by GROW."""
STRETCH = 1 + 1e-8
"""A step that ends so near before a stop ends at it."""


class Loop(Records):
    """Writes the whole loop around the steps of a method.

    A method says how a step is made (`step`: from y, k0, told, tnew, hs to new, its rate and
    the error), what size the next has (`control`), what an accepted step leaves behind
    (`commit`), what is known no more after a jump (`forget`), and how states between steps
    are found (`interpolant` once for a step, then `interpolation` for an output and
    `interpolated` for an element of it).
    """

    def __init__(self, columns: Sequence[str], kept_columns: Sequence[str],
                 kept_cells: Sequence[str], shape: Shape, target: Target, *, new_rate: str,
                 interpolates: bool, adaptive: bool, error_order: int) -> None:
        super().__init__(
            columns, kept_columns, (*kept_cells, *events.kept_cells(shape.triggers)),
            events.cells(shape.triggers), shape, target, interpolates=interpolates)
        self.new_rate, self.adaptive, self.error_order = new_rate, adaptive, error_order
        self.watch = events.Watch(self, shape.triggers) if shape.triggers else None

    def step(self) -> None:
        raise NotImplementedError

    def control(self, accepted: str, rejected: str) -> str:
        raise NotImplementedError

    def commit(self, accepted: str) -> None:
        raise NotImplementedError

    def forget(self, jumped: str) -> None:
        raise NotImplementedError

    def interpolant(self) -> None:
        raise NotImplementedError

    def function(self) -> str:
        f = self.f
        for k, name in enumerate(WORDS):
            kind = ("double" if name in DOUBLES else "ptr" if name in POINTERS else "i64")
            f.do(f"%{name} = load {kind}, ptr {f.offset('%words', 8 * k)}, align 8")
        last = f.let("sub i64 %outputs, 1")
        end = f.let(f"getelementptr double, ptr %times, i64 {last}")
        f.do(f"%final = load double, ptr {end}, align 8")
        self.clear()
        f.go("main")
        f.begin("main")
        self.fill()
        f.branch(self.lanes.any(self.get_mask("fresh")), "start", "check")
        f.begin("start")
        self.start()
        f.go("check")
        f.begin("check")
        f.branch(self.lanes.any(self.get_mask("active")), "affordable", "end")
        f.begin("affordable")
        spent = f.load("i64", "%scratch", self.spent)
        f.store("i64", f.let(f"add i64 {spent}, 1"), "%scratch", self.spent)
        f.branch(f.let(f"icmp slt i64 {spent}, %budget"), "attempt", "suspend")
        f.begin("suspend")
        self.lane_loop(self.suspend)
        f.go("end")
        f.begin("attempt")
        self.choose()
        self.step()
        self.decide()
        f.go("main")
        f.begin("end")
        f.do("ret void")
        return f.define(f"void @{INTEGRATE}(ptr noalias %words) "
                        f"alignstack({max(16, self.row)})")

    def clear(self) -> None:
        """All scratch memory zero: no lane has a trajectory, and idle lanes compute with zeros."""
        zero, f = self.lanes.const(0.0), self.f

        def body(k: str, _: list[str]) -> list[str]:
            f.store(self.lanes.real, zero, self.at(k))
            return []

        loop(f, self.counter // self.row, [], body)
        for word in (self.counter, self.spent):
            f.store("i64", "0", "%scratch", word)

    def start(self) -> None:
        """K_0 of fresh lanes, and the size of their first step if none is known.

        The first step is that of [Hairer, Norsett, Wanner I, II.4]: from the sizes of the
        state, its rate, and a difference of rates.
        """
        lanes, f = self.lanes, self.f
        fresh = self.get_mask("fresh")
        self.evaluate("t", "y", self.new_rate)
        if self.watch:
            self.watch.start(fresh)

        def first(place: str, sums: list[str]) -> list[str]:
            y = self.load(place, "y")
            rate = lanes.select(fresh, self.load(place, self.new_rate), self.load(place, "k0"))
            self.store(rate, place, "k0")
            sc = self.scale(y)
            return [lanes.muladd(x, x, total) for x, total in zip(
                (lanes.binary("fdiv", y, sc), lanes.binary("fdiv", rate, sc)), sums,
                strict=True)]

        zero = lanes.const(0.0)
        d0, d1 = (self.mean_root(total) for total in self.each(first, zero, zero))
        self.put_mask("fresh", lanes.splat("i1", "false"))
        if not self.adaptive:
            return
        unknown = self.logic("and", fresh, lanes.compare("oeq", self.get("h"), zero))
        find, known = f.fresh("find"), f.fresh("known")
        f.branch(lanes.any(unknown), find, known)
        f.begin(find)
        tiny, t = lanes.const(1e-5), self.get("t")
        small = self.logic("or", lanes.compare("olt", d0, tiny), lanes.compare("olt", d1, tiny))
        h0 = lanes.select(small, lanes.const(1e-6), lanes.binary(
            "fdiv", lanes.mul(lanes.const(0.01), d0), d1))
        h0 = self.smaller(h0, lanes.sub(self.get("stop"), t))
        self.advance(["k0"], [1.0], h0, "stage")
        self.put("tstage", lanes.add(t, h0))
        self.evaluate("tstage", "stage", self.new_rate)

        def second(place: str, sums: list[str]) -> list[str]:
            change = lanes.sub(self.load(place, self.new_rate), self.load(place, "k0"))
            x = lanes.binary("fdiv", change, self.scale(self.load(place, "y")))
            return [lanes.muladd(x, x, sums[0])]

        d2 = lanes.binary("fdiv", self.mean_root(self.each(second, zero)[0]), h0)
        largest = self.larger(d1, d2)
        h1 = self.inverse_root(lanes.mul(lanes.const(100.0), largest))
        flat = lanes.compare("ole", largest, lanes.const(1e-15))
        h1 = lanes.select(flat, self.larger(lanes.const(1e-6), lanes.mul(lanes.const(1e-3), h0)),
                          h1)
        h = self.smaller(lanes.mul(lanes.const(100.0), h0), h1)
        self.put("h", lanes.select(unknown, h, self.get("h")))
        f.go(known)
        f.begin(known)

    def inverse_root(self, x: str) -> str:
        """About x^(-1/q), q = error order + 1, x between 1e-10 and 1e10: by its exponent, then
        Newton's r += r (1 - x r^q) / q. nan counts as large."""
        lanes, f, q = self.lanes, self.f, self.error_order + 1
        x = self.smaller(x, lanes.const(1e10))
        x = self.larger(x, lanes.const(1e-10))
        # the bits of a double, as an integer, are about 2^52 (log2 x + 1023)
        bits = f.let(f"sitofp {lanes.integer} {lanes.as_bits(x)} to {lanes.real}")
        bias = 1022.96 * 2.0**52
        guess = lanes.muladd(bits, lanes.const(-1 / q), lanes.const(bias * (1 + 1 / q)))
        r = lanes.as_real(f.let(f"fptosi {lanes.real} {guess} to {lanes.integer}"))
        for _ in range(4):
            power = x
            for _ in range(q):
                power = lanes.mul(power, r)
            rest = lanes.mul(lanes.sub(lanes.const(1.0), power), lanes.const(1 / q))
            r = lanes.muladd(r, rest, r)
        return r

    def choose(self) -> None:
        """The step to try: the size wanted, or what is left to the stop."""
        lanes = self.lanes
        t, stop = self.get("t"), self.get("stop")
        h = self.smaller(self.get("h"), lanes.broadcast("%largest"))
        left = lanes.sub(stop, t)
        final = lanes.compare("oge", lanes.mul(h, lanes.const(STRETCH)), left)
        size = h
        if self.adaptive:  # two equal steps rather than a large and a small one
            half = lanes.mul(left, lanes.const(0.5))
            size = lanes.select(lanes.compare("oge", h, half), half, h)
        size = lanes.select(final, left, size)
        tnew = lanes.select(final, stop, lanes.add(t, size))
        if self.watch:
            size, tnew = self.watch.aimed(size, tnew)
        self.put("told", t)
        self.put("hs", lanes.select(self.get_mask("active"), size, lanes.const(0.0)))
        self.put("tnew", tnew)

    def decide(self) -> None:
        """Accept or reject, lane by lane, choose the next step, and see to what is due."""
        lanes, f = self.lanes, self.f
        active = self.get_mask("active")
        good = lanes.compare("ole", self.get("error"), lanes.const(1.0))
        judged = self.logic("and", active, self.watch.ordinary()) if self.watch else active
        accepted = plain = self.logic("and", judged, good)
        rejected = self.logic("and", judged, self.no(good))
        if self.watch:
            plain, landed = self.watch.examine(plain, active)
            accepted = self.logic("or", plain, landed)
            judged = self.logic("or", plain, rejected)
        if self.adaptive:
            wanted = self.control(plain, rejected)
            tiny = lanes.compare("ult", wanted, lanes.broadcast("%least"))
            failed = self.logic("and", rejected, tiny)
            self.put("h", lanes.select(judged, wanted, self.get("h")))
        else:
            failed = rejected
        tried = self.logic("and", active, self.no(accepted))
        for cell, mask in (("steps", accepted), ("rejects", tried)):
            self.put(cell, lanes.bits("add", self.get(cell, "i64"), self.widened(mask)), "i64")
        tries = lanes.bits("add", self.get("steps", "i64"), self.get("rejects", "i64"))
        many = f.let(f"icmp sge {lanes.integer} {tries}, {self.spread('%most')}")
        failed = self.logic("or", failed, self.logic("and", active, many))
        tnew = self.get("tnew")
        due = self.logic("and", accepted, lanes.compare("oge", tnew, self.get("due")))
        if self.dense:
            prepare, prepared = f.fresh("dense"), f.fresh("ready")
            f.branch(lanes.any(due), prepare, prepared)
            f.begin(prepare)
            self.interpolant()
            f.go(prepared)
            f.begin(prepared)
        self.commit(accepted)
        self.put("t", lanes.select(accepted, tnew, self.get("t")))
        self.put_mask("accepted", accepted)
        self.put_mask("failed", failed)
        event = self.logic("or", due, failed)
        see, seen = f.fresh("event"), f.fresh("seen")
        f.branch(lanes.any(event), see, seen)
        f.begin(see)
        self.lane_loop(self.attend)
        f.go(seen)
        f.begin(seen)
        if self.watch:
            self.watch.conclude()

    def spread(self, value: str) -> str:
        """A run-time i64 in every lane."""
        if self.target.width == 1:
            return value
        lanes, f = self.lanes, self.f
        first = f.let(f"insertelement {lanes.integer} poison, i64 {value}, i32 0")
        return f.let(f"shufflevector {lanes.integer} {first}, {lanes.integer} poison, "
                     f"<{self.target.width} x i32> zeroinitializer")

    def attend(self, place: str) -> None:
        """One lane: write the outputs it has passed, then retire it if it is done."""
        f = self.f
        labels = ("accepted", "more", "passed", "write", "counted", "finish", "refused", "fail",
                  "attended", "look")
        go = {name: f.fresh(name) for name in labels}
        active = f.let(f"icmp ne i64 {self.lane_get(place, 'active', 'i64')}, 0")
        f.branch(active, go["look"], go["attended"])
        f.begin(go["look"])
        accepted = f.let(f"icmp ne i64 {self.lane_get(place, 'accepted', 'i64')}, 0")
        f.branch(accepted, go["accepted"], go["refused"])

        f.begin(go["accepted"])
        t = self.lane_get(place, "t")
        f.go(go["more"])
        f.begin(go["more"])
        following = self.lane_get(place, "next_out", "i64")
        f.branch(f.let(f"icmp slt i64 {following}, %outputs"), go["passed"], go["finish"])
        f.begin(go["passed"])
        due = self.time(following)
        f.branch(f.let(f"fcmp ole double {due}, {t}"), go["write"], go["counted"])
        f.begin(go["write"])
        self.output(place, following, due)
        self.lane_put(place, "next_out", f.let(f"add i64 {following}, 1"), "i64")
        f.go(go["more"])

        f.begin(go["finish"])
        self.retire(place, self.watch.ending(place) if self.watch else str(STATUS["done"]))
        f.go(go["attended"])

        f.begin(go["counted"])
        self.aim(place)
        f.go(go["refused"])

        f.begin(go["refused"])
        failed = f.let(f"icmp ne i64 {self.lane_get(place, 'failed', 'i64')}, 0")
        f.branch(failed, go["fail"], go["attended"])
        f.begin(go["fail"])
        error = self.lane_get(place, "error")
        lost = f.let(f"fcmp uno double {error}, {error}")
        tries = f.let(f"add i64 {self.lane_get(place, 'steps', 'i64')}, "
                      f"{self.lane_get(place, 'rejects', 'i64')}")
        many = f.let(f"icmp sge i64 {tries}, %most")
        # a fixed step cannot be made smaller: that its error is infinite says why it failed
        refused = STATUS["step too small" if self.adaptive else "not converged"]
        code = f.let(f"select i1 {lost}, i64 {STATUS['not finite']}, i64 {refused}")
        code = f.let(f"select i1 {many}, i64 {STATUS['too many steps']}, i64 {code}")
        self.retire(place, code)
        f.go(go["attended"])
        f.begin(go["attended"])
