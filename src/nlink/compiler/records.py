"""Trajectories in their records, and in the lanes that step them.

A lane takes the next trajectory that waits, and leaves it in its record when it is done or
the call's budget is spent. What a lane writes of its own (outputs, its record) it writes
alone, so nothing here depends on the neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nlink.compiler.integrator import RECORD, STATUS
from nlink.compiler.ir import Lanes, Target, number
from nlink.compiler.rolled import loop
from nlink.compiler.states import Shape, States

COUNTS = ("steps", "rejects", "sweeps", "events", "fill")
"""What a lane counts, by the same name in its record."""


class Records(States):
    """Writes what lanes do one by one: take a trajectory, write an output, leave."""

    def __init__(self, columns: Sequence[str], kept_columns: Sequence[str],
                 kept_cells: Sequence[str], cells: Sequence[str], shape: Shape, target: Target, *,
                 interpolates: bool) -> None:
        super().__init__(columns, kept_columns, kept_cells, cells, shape, target)
        # methods without a continuous extension, held values, and states that must be closed
        # stop at every output
        self.dense = interpolates and not shape.held and not shape.closes
        self.record = 8 * (len(RECORD) + shape.size + self.remembered + shape.own)

    def interpolation(self, place: str, due: str) -> list[str]:
        raise NotImplementedError

    def interpolated(self, here: str, weights: list[str]) -> str:
        raise NotImplementedError

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
        status, following, *counts = (f.load("i64", record, 8 * RECORD.index(name))
                                      for name in ("status", "next", *COUNTS))
        t, h = (f.load("double", record, 8 * RECORD.index(name)) for name in ("t", "h"))
        running = f.let(f"icmp eq i64 {status}, {STATUS['running']}")
        f.branch(running, found, seek)
        f.begin(found)
        for cell, value in (("traj", index), ("next_out", following), ("active", "1"),
                            ("fresh", "1"), *zip(COUNTS, counts, strict=True)):
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

    def suspend(self, place: str) -> None:
        """One lane leaves its trajectory, to be taken up again by another call."""
        f = self.f
        leave, left = f.fresh("leave"), f.fresh("left")
        f.branch(f.let(f"icmp ne i64 {self.lane_get(place, 'active', 'i64')}, 0"), leave, left)
        f.begin(leave)
        self.retire(place, str(STATUS["running"]))
        f.go(left)
        f.begin(left)

    def retire(self, place: str, status: str) -> None:
        """Store the lane's record and free the lane."""
        f = self.f
        traj = self.lane_get(place, "traj", "i64")
        record = f.offset("%records", f.let(f"mul i64 {traj}, {self.record}"))
        words = {"status": status, "next": self.lane_get(place, "next_out", "i64")} | {
            name: self.lane_get(place, name, "i64") for name in COUNTS}
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
