"""The loop of every integration: trajectories flow through the lanes of a vector.

    void nlink_integrate(int64_t *words)

A lane takes the next trajectory that is waiting, steps it with its own step size until it
is done or fails, stores what it must remember in the trajectory's record, and takes
another. A call that has spent its budget of steps leaves all trajectories in their records,
to be taken up by the next. Lanes never look at each other, so the numbers of a trajectory
do not depend on its neighbours, on threads, or on where a run was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nlink.compiler.integrator import DOUBLES, INTEGRATE, POINTERS, RECORD, STATUS, WORDS
from nlink.compiler.ir import Lanes, Target, number
from nlink.compiler.rolled import loop
from nlink.compiler.states import Shape, States

SAFETY, SHRINK, GROW = 0.9, 0.2, 6.0
"""A step's size is changed by SAFETY err^(-1/(q+1)), at least by SHRINK and at most by GROW."""
STRETCH = 1 + 1e-8
"""A step that ends so near before a stop ends at it."""


class Loop(States):
    """Writes the whole loop around the steps of a method.

    A method says how a step is made (`step`: from y, k0, told, tnew, hs to new, its rate and
    the error), what size the next has (`control`), what an accepted step leaves behind
    (`commit`), and how states between steps are found (`interpolant` once for a step, then
    `interpolation` for an output and `interpolated` for an element of it).
    """

    def __init__(self, columns: Sequence[str], kept_columns: Sequence[str],
                 kept_cells: Sequence[str], shape: Shape, target: Target, *, new_rate: str,
                 interpolates: bool, adaptive: bool, error_order: int) -> None:
        super().__init__(columns, kept_columns, kept_cells, shape, target)
        self.new_rate, self.adaptive, self.error_order = new_rate, adaptive, error_order
        # methods without a continuous extension, held values, and states that must be closed
        # stop at every output
        self.dense = interpolates and not shape.held and not shape.closes
        self.record = 8 * (len(RECORD) + shape.size + self.remembered + shape.own)

    def step(self) -> None:
        raise NotImplementedError

    def control(self, accepted: str, rejected: str) -> str:
        raise NotImplementedError

    def commit(self, accepted: str) -> None:
        raise NotImplementedError

    def interpolant(self) -> None:
        raise NotImplementedError

    def interpolation(self, place: str, due: str) -> list[str]:
        raise NotImplementedError

    def interpolated(self, here: str, weights: list[str]) -> str:
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

    def lane_loop(self, body: Callable[[str], None]) -> None:
        """Lanes one by one; body(pointer to the lane's place in the scratch memory)."""

        def lane(index: str, _: list[str]) -> list[str]:
            body(self.f.offset("%scratch", self.f.let(f"shl i64 {index}, 3")))
            return []

        loop(self.f, self.target.width, [], lane)

    def lane_get(self, place: str, cell: str, kind: str = "double") -> str:
        return self.f.load(kind, place, self.cell[cell])

    def lane_put(self, place: str, cell: str, value: str, kind: str = "double") -> None:
        self.f.store(kind, value, place, self.cell[cell])

    def row_of(self, k: str) -> str:
        return self.f.let(f"mul i64 {k}, {self.row}")

    def fill(self) -> None:
        """Idle lanes take the trajectories that wait, in order."""
        f = self.f
        idle = self.no(self.get_mask("active"))
        waiting = f.let(f"icmp slt i64 {f.load('i64', '%scratch', self.counter)}, %count")
        ready = f.fresh("filled")
        some = f.fresh("fill")
        f.branch(f.let(f"and i1 {self.lanes.any(idle)}, {waiting}"), some, ready)
        f.begin(some)
        self.lane_loop(self.take)
        f.go(ready)
        f.begin(ready)

    def take(self, place: str) -> None:
        """One lane, if it is idle, takes the next trajectory that is running."""
        f = self.f
        seek, look, found, done = (f.fresh(s) for s in ("seek", "look", "found", "taken"))
        active = self.lane_get(place, "active", "i64")
        f.branch(f.let(f"icmp eq i64 {active}, 0"), seek, done)
        f.begin(seek)
        index = f.load("i64", "%scratch", self.counter)
        f.branch(f.let(f"icmp slt i64 {index}, %count"), look, done)
        f.begin(look)
        f.store("i64", f.let(f"add i64 {index}, 1"), "%scratch", self.counter)
        record = f.offset("%records", f.let(f"mul i64 {index}, {self.record}"))
        status, following, steps, rejects, sweeps = (
            f.load("i64", record, 8 * RECORD.index(name))
            for name in ("status", "next", "steps", "rejects", "sweeps"))
        t, h = (f.load("double", record, 8 * RECORD.index(name)) for name in ("t", "h"))
        running = f.let(f"icmp eq i64 {status}, {STATUS['running']}")
        f.branch(running, found, seek)
        f.begin(found)
        for cell, value in (("traj", index), ("next_out", following), ("steps", steps),
                            ("rejects", rejects), ("sweeps", sweeps), ("active", "1"),
                            ("fresh", "1")):
            self.lane_put(place, cell, value, "i64")
        self.lane_put(place, "t", t)
        self.lane_put(place, "h", h)

        for begin, count, column in self.recorded():

            def copy(k: str, _: list[str], begin: int = begin, column: int = column) -> list[str]:
                x = f.load("double", f.offset(record, f.let(f"shl i64 {k}, 3")), begin)
                f.store("double", x, f.offset(place, self.row_of(k)), column)
                return []

            loop(f, count, [], copy)
        self.aim(place)
        f.go(done)
        f.begin(done)

    def recorded(self) -> list[tuple[int, int, int]]:
        """What of a lane its record holds: offset there, how many numbers, offset of vectors."""
        state, size = 8 * len(RECORD), self.shape.size
        parts = [(state, size, self.column["y"])]
        if self.remembered:
            parts.append((state + 8 * size, self.remembered, self.memory))
        if self.shape.own:
            parts.append((state + 8 * (size + self.remembered), self.shape.own,
                          self.held + self.shape.timed * self.row))
        return parts

    def time(self, k: str) -> str:
        return self.f.load("double", self.f.let(f"getelementptr double, ptr %times, i64 {k}"))

    def aim(self, place: str) -> None:
        """The lane's next output time, where its steps must stop, and the held values."""
        f = self.f
        following = self.lane_get(place, "next_out", "i64")
        due = self.time(following)
        self.lane_put(place, "due", due)
        self.lane_put(place, "stop", "%final" if self.dense else due)
        if not self.shape.held:
            return
        before = f.let(f"sub i64 {following}, 1")
        f.store("double", self.time(before), place, self.held)
        f.store("double", due, place, self.held + self.row)
        traj = self.lane_get(place, "traj", "i64")
        values = f.offset(f.offset("%held", f.let(f"mul i64 {traj}, %held_stride")),
                          f.let(f"mul i64 {before}, %held_row"))

        def copy(k: str, _: list[str]) -> list[str]:
            x = f.load("double", f.offset(values, f.let(f"shl i64 {k}, 3")))
            f.store("double", x, f.offset(place, self.row_of(k)), self.held + 2 * self.row)
            return []

        loop(f, self.shape.held, [], copy)

    def start(self) -> None:
        """K_0 of fresh lanes, and the size of their first step if none is known.

        The first step is that of [Hairer, Norsett, Wanner I, II.4]: from the sizes of the
        state, its rate, and a difference of rates.
        """
        lanes, f = self.lanes, self.f
        fresh = self.get_mask("fresh")
        self.evaluate("t", "y", self.new_rate)

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
        t, h, stop = self.get("t"), self.get("h"), self.get("stop")
        left = lanes.sub(stop, t)
        final = lanes.compare("oge", lanes.mul(h, lanes.const(STRETCH)), left)
        size = h
        if self.adaptive:  # two equal steps rather than a large and a small one
            half = lanes.mul(left, lanes.const(0.5))
            size = lanes.select(lanes.compare("oge", h, half), half, h)
        size = lanes.select(final, left, size)
        size = lanes.select(self.get_mask("active"), size, lanes.const(0.0))
        self.put("told", t)
        self.put("hs", size)
        self.put("tnew", lanes.select(final, stop, lanes.add(t, size)))

    def decide(self) -> None:
        """Accept or reject, lane by lane, choose the next step, and see to what is due."""
        lanes, f = self.lanes, self.f
        active = self.get_mask("active")
        good = lanes.compare("ole", self.get("error"), lanes.const(1.0))
        accepted = self.logic("and", active, good)
        rejected = self.logic("and", active, self.no(good))
        if self.adaptive:
            wanted = self.control(accepted, rejected)
            tiny = lanes.compare("ult", wanted, lanes.broadcast("%least"))
            failed = self.logic("and", rejected, tiny)
            self.put("h", lanes.select(active, wanted, self.get("h")))
        else:
            failed = rejected
        for cell, mask in (("steps", accepted), ("rejects", rejected)):
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
        self.retire(place, str(STATUS["done"]))
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
        code = f.let(f"select i1 {lost}, i64 {STATUS['not finite']}, "
                     f"i64 {STATUS['step too small']}")
        code = f.let(f"select i1 {many}, i64 {STATUS['too many steps']}, i64 {code}")
        self.retire(place, code)
        f.go(go["attended"])
        f.begin(go["attended"])

    def suspend(self, place: str) -> None:
        """One lane leaves its trajectory, to be taken up again by another call."""
        f = self.f
        leave, left = f.fresh("leave"), f.fresh("left")
        f.branch(f.let(f"icmp ne i64 {self.lane_get(place, 'active', 'i64')}, 0"), leave, left)
        f.begin(leave)
        self.retire(place, str(STATUS["running"]))
        f.go(left)
        f.begin(left)

    def output(self, place: str, index: str, due: str) -> None:
        """Row `index` of the lane's trajectory: its state, or the interpolant at time `due`."""
        f = self.f
        at = f.let(f"mul i64 {self.lane_get(place, 'traj', 'i64')}, %outputs")
        at = f.let(f"mul i64 {f.let(f'add i64 {at}, {index}')}, {8 * self.shape.size}")
        row = f.offset("%out", at)
        weights = self.interpolation(place, due) if self.dense else []

        def element(k: str, _: list[str]) -> list[str]:
            here = f.offset(place, self.row_of(k))
            value = self.interpolated(here, weights) if self.dense else f.load(
                "double", here, self.column["y"])
            f.store("double", value, f.offset(row, f.let(f"shl i64 {k}, 3")))
            return []

        loop(f, self.shape.size, [], element)
        if self.dense:
            self.restore_row(row)

    def restore_row(self, row: str) -> None:
        """The quaternions of an interpolated state back to unit length."""
        f = self.f
        one = Lanes(f, 1, self.target.fma)
        for begin in self.shape.units:
            parts = [f.load("double", row, 8 * (begin + i)) for i in range(4)]
            square = one.mul(parts[0], parts[0])
            for part in parts[1:]:
                square = one.muladd(part, part, square)
            length = one.intrinsic("sqrt", square)
            for i, part in enumerate(parts):
                f.store("double", one.binary("fdiv", part, length), row, 8 * (begin + i))

    def retire(self, place: str, status: str) -> None:
        """Store the lane's record and free the lane."""
        f = self.f
        traj = self.lane_get(place, "traj", "i64")
        record = f.offset("%records", f.let(f"mul i64 {traj}, {self.record}"))
        words = {"status": status, "next": self.lane_get(place, "next_out", "i64")} | {
            name: self.lane_get(place, name, "i64") for name in ("steps", "rejects", "sweeps")}
        for name, value in words.items():
            f.store("i64", value, record, 8 * RECORD.index(name))
        for name in ("t", "h"):
            f.store("double", self.lane_get(place, name), record, 8 * RECORD.index(name))

        for begin, count, column in self.recorded():

            def copy(k: str, _: list[str], begin: int = begin, column: int = column) -> list[str]:
                x = f.load("double", f.offset(place, self.row_of(k)), column)
                f.store("double", x, f.offset(record, f.let(f"shl i64 {k}, 3")), begin)
                return []

            loop(f, count, [], copy)
        self.lane_put(place, "active", "0", "i64")
        self.lane_put(place, "hs", number(0.0))
