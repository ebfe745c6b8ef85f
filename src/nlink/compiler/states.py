"""Many states in the lanes of a vector, and what every method of integration does with them.

The scratch memory of a kernel holds columns (a vector for each element of the state) and
cells (a vector for each number a lane has besides). Nothing here knows a method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nlink.compiler.ir import Function, Lanes, Target
from nlink.compiler.rolled import loop

if TYPE_CHECKING:
    from nlink.simulation.tableau import Number


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a watched function of the state counts as an event, and what happens then."""

    direction: int
    """1 where it rises through zero, -1 where it falls, 0 for both."""
    action: str
    """"record", "stop" (the trajectory ends), "limit" (it ends at a limit) or "bounce"."""
    element: int = -1
    """Of a limit: the element of the state that it bounds,"""
    sign: float = 1.0
    """from below if 1, from above if -1."""

    @property
    def bounds(self) -> bool:
        """Whether it is a limit, positive inside."""
        return self.action in ("limit", "bounce")


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a differential equation decides the loop around it."""

    size: int
    """Elements of the state."""
    held: int
    """Values that `u` holds from one output time to the next, the two times not counted."""
    units: tuple[int, ...]
    """Where unit quaternions begin in the state."""
    own: int = 0
    """Values of a trajectory's own that never change; they end `u` and its record."""
    closes: bool = False
    """Whether a function `close` brings states back to where they belong."""
    triggers: tuple[Trigger, ...] = ()
    """One for each watched function."""

    @property
    def timed(self) -> int:
        """Elements of u that change: the output times before and after t, and the held values."""
        return self.held + 2 if self.held else 0

    @property
    def inputs(self) -> int:
        """Elements of u."""
        return self.timed + self.own


CELLS = ("t", "h", "told", "tnew", "tstage", "hs", "error", "stop", "due", "steps", "rejects",
         "sweeps", "events", "fill", "traj", "next_out", "active", "fresh", "accepted", "failed")
"""Numbers of each lane besides its state."""


class States:
    """Writes into a function whose scratch memory holds all there is to know of a lane.

    Columns and cells named in `kept` are remembered in the trajectory's record as well.
    """

    def __init__(self, columns: Sequence[str], kept_columns: Sequence[str],
                 kept_cells: Sequence[str], cells: Sequence[str], shape: Shape, target: Target,
                 ) -> None:
        self.f, self.shape, self.target = Function(), shape, target
        self.lanes = Lanes(self.f, target.width, target.fma)
        self.row = 8 * target.width
        columns = [*columns, *(["closed"] if shape.closes else [])]
        names = [*columns, *kept_columns]
        self.column = {name: i * shape.size * self.row for i, name in enumerate(names)}
        self.memory = len(columns) * shape.size * self.row
        self.remembered = len(kept_columns) * shape.size + len(kept_cells)
        """Vectors from `memory` on that a record keeps."""
        at = len(names) * shape.size * self.row
        self.cell = {name: at + i * self.row
                     for i, name in enumerate((*kept_cells, *CELLS, *cells))}
        self.held = at + len(self.cell) * self.row
        self.counter = self.held + max(1, shape.inputs) * self.row
        self.spent = self.counter + 8
        self.scratch = self.spent + 8

    def get(self, name: str, kind: str = "double") -> str:
        return self.f.load(self.lanes.of(kind), "%scratch", self.cell[name])

    def put(self, name: str, value: str, kind: str = "double") -> None:
        self.f.store(self.lanes.of(kind), value, "%scratch", self.cell[name])

    def put_mask(self, name: str, mask: str) -> None:
        self.put(name, self.widened(mask), "i64")

    def get_mask(self, name: str) -> str:
        return self.f.let(f"icmp ne {self.lanes.integer} {self.get(name, 'i64')}, "
                          f"{self.lanes.int(0)}")

    def widened(self, mask: str) -> str:
        return self.f.let(f"zext {self.lanes.truth} {mask} to {self.lanes.integer}")

    def logic(self, op: str, a: str, b: str) -> str:
        return self.f.let(f"{op} {self.lanes.truth} {a}, {b}")

    def no(self, mask: str) -> str:
        return self.logic("xor", mask, self.lanes.splat("i1", "true"))

    def at(self, k: str) -> str:
        """Where element k of every column lies, columns being constant offsets from there."""
        return self.f.offset("%scratch", self.f.let(f"mul i64 {k}, {self.row}"))

    def load(self, place: str, column: str) -> str:
        return self.f.load(self.lanes.real, place, self.column[column])

    def store(self, value: str, place: str, column: str) -> None:
        self.f.store(self.lanes.real, value, place, self.column[column])

    def each(self, body: Callable[[str, list[str]], Sequence[str]], *initial: str) -> list[str]:
        """Loop over the elements of the state, handing on vectors."""
        return loop(self.f, self.shape.size, [(self.lanes.real, x) for x in initial],
                    lambda k, values: body(self.at(k), values))

    def evaluate(self, time: str, state: str, rate: str) -> None:
        """rate = f(time, state), columns and a cell by name."""
        f = self.f
        t = f.offset("%scratch", self.cell[time])
        u = f.offset("%scratch", self.held)
        y, k = (f.offset("%scratch", self.column[c]) for c in (state, rate))
        f.do(f"call void @rates(ptr {t}, ptr {y}, ptr {u}, ptr {k}, ptr %data, ptr %room)")

    def weighted(self, place: str, columns: Sequence[str], weights: Sequence[Number],
                 ) -> str | None:
        """sum_i w_i K_i of one element; None if every weight is zero."""
        lanes, total = self.lanes, None
        for column, weight in zip(columns, weights, strict=False):
            if weight:
                x, w = self.load(place, column), lanes.const(float(weight))
                total = lanes.mul(w, x) if total is None else lanes.muladd(w, x, total)
        return total

    def advance(self, columns: Sequence[str], weights: Sequence[Number], h: str, into: str) -> None:
        """into = y + h sum_i w_i K_i."""

        def body(place: str, _: list[str]) -> list[str]:
            y, slope = self.load(place, "y"), self.weighted(place, columns, weights)
            value = y if slope is None else self.lanes.muladd(h, slope, y)
            self.store(value, place, into)
            return []

        self.each(body)

    def stage(self, columns: Sequence[str], weights: Sequence[Number], node: Number, h: str,
              rate: str) -> None:
        """rate = f(t + c h, y + h sum_i w_i K_i)."""
        lanes = self.lanes
        self.advance(columns, weights, h, "stage")
        self.put("tstage", lanes.muladd(lanes.const(float(node)), h, self.get("told")))
        self.evaluate("tstage", "stage", rate)

    def restore(self, column: str) -> None:
        """Quaternions back to unit length, and loops closed; the correction is of the order of
        the error."""
        lanes, f = self.lanes, self.f
        for begin in self.shape.units:
            place = f.offset("%scratch", begin * self.row)
            parts = [f.load(lanes.real, place, self.column[column] + i * self.row)
                     for i in range(4)]
            square = lanes.mul(parts[0], parts[0])
            for part in parts[1:]:
                square = lanes.muladd(part, part, square)
            length = lanes.intrinsic("sqrt", square)
            for i, part in enumerate(parts):
                f.store(lanes.real, lanes.binary("fdiv", part, length), place,
                        self.column[column] + i * self.row)
        if self.shape.closes:
            t, u = (f.offset("%scratch", at) for at in (self.cell["tnew"], self.held))
            y, closed = (f.offset("%scratch", self.column[name]) for name in (column, "closed"))
            f.do(f"call void @close(ptr {t}, ptr {y}, ptr {u}, ptr {closed})")

            def copy(place: str, _: list[str]) -> list[str]:
                self.store(self.load(place, "closed"), place, column)
                return []

            self.each(copy)

    def scale(self, *values: str) -> str:
        """atol + rtol max |values|."""
        lanes = self.lanes
        sizes = [lanes.intrinsic("fabs", v) for v in values]
        largest = sizes[0]
        for size in sizes[1:]:
            largest = self.larger(size, largest)
        return lanes.muladd(lanes.broadcast("%rtol"), largest, lanes.broadcast("%atol"))

    def larger(self, a: str, b: str) -> str:
        return self.lanes.select(self.lanes.compare("ogt", a, b), a, b)

    def bad(self, column: str) -> str:
        """nan where a state is not finite, else 0: the error of a method without estimate."""
        lanes = self.lanes
        (total,) = self.each(
            lambda place, sums: [lanes.muladd(self.load(place, column), lanes.const(0.0), sums[0])],
            lanes.const(0.0))
        return total

    def smaller(self, a: str, b: str) -> str:
        return self.lanes.select(self.lanes.compare("olt", a, b), a, b)

    def mean_root(self, total: str) -> str:
        lanes = self.lanes
        return lanes.intrinsic("sqrt", lanes.mul(total, lanes.const(1 / self.shape.size)))
