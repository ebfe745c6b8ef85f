"""One step of a Runge-Kutta method on a vector of trajectories, as LLVM.

    K_i = f(t + c_i h, y + h sum_j a_ij K_j),   new = y + h sum_i b_i K_i,   K_s = f(t + h, new)

Every lane has its own t, h and error. K_0 = f(t, y) is there when a step begins, and K_s
becomes the next K_0, so a step that is accepted costs one evaluation a stage whatever the
method. Loops run over the elements of the state; the stages are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nlink.compiler.ir import Function, Lanes, Target
from nlink.compiler.rolled import loop

if TYPE_CHECKING:
    from nlink.simulation.tableau import Number, Tableau

ITERATIONS = 100
"""Sweeps of fixed-point iteration an implicit step may take."""
LOOSE = 1e-9
"""Change, relative to the state, at which an iteration that stopped improving has failed."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a differential equation decides the loop around it."""

    size: int
    """Elements of the state."""
    held: int
    """Values that `u` holds from one output time to the next, the two times not counted."""
    units: tuple[int, ...]
    """Where unit quaternions begin in the state."""

    @property
    def inputs(self) -> int:
        """Elements of u: the output times before and after t, and the held values."""
        return self.held + 2 if self.held else 0


CELLS = ("t", "h", "told", "tnew", "tstage", "hs", "error", "stop", "due", "steps", "rejects",
         "sweeps", "traj", "next_out", "active", "fresh", "accepted", "failed")
"""Numbers of each lane besides its state; a vector each in the scratch memory."""


class Stepper:
    """Writes steps into a function whose scratch memory holds all there is to know of a lane."""

    def __init__(self, function: Function, tableau: Tableau, shape: Shape, target: Target) -> None:
        self.f, self.tableau, self.shape, self.target = function, tableau, shape, target
        self.lanes = Lanes(function, target.width, target.fma)
        self.row = 8 * target.width
        first = 0 if tableau.explicit else 1
        stages = [f"k{i + first}" for i in range(len(tableau.b))]
        self.stages = stages
        self.new_rate = f"k{len(stages) + first}"
        self.extras = [f"x{i}" for i in range(len(tableau.extra))]
        dense = [f"F{r}" for r in range(len(tableau.dense))]
        names = dict.fromkeys(["y", "stage", "new", "k0", *stages, self.new_rate, *self.extras,
                               *dense])
        self.column = {name: i * shape.size * self.row for i, name in enumerate(names)}
        at = len(names) * shape.size * self.row
        self.held = at
        at += max(1, shape.inputs) * self.row
        self.cell = {name: at + i * self.row for i, name in enumerate(CELLS)}
        self.counter = at + len(CELLS) * self.row
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
        f.do(f"call void @rates(ptr {t}, ptr {y}, ptr {u}, ptr {k})")

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

    def step(self) -> None:
        """All of a step: from y, k0, told, tnew, hs to new, its rate, and the error."""
        h = self.get("hs")
        tableau, lanes = self.tableau, self.lanes
        if tableau.explicit:
            for i in range(1, len(tableau.b)):
                self.stage(self.stages, tableau.a[i], tableau.c[i], h, self.stages[i])
            failed = None
        else:
            failed = self.solve(h)
        self.advance(self.stages, tableau.b, h, "new")
        self.restore("new")
        self.evaluate("tnew", "new", self.new_rate)
        error = self.error(h) if tableau.adaptive else self.bad("new")
        if failed is not None:
            error = lanes.select(failed, lanes.const(float("nan")), error)
        self.put("error", error)

    def restore(self, column: str) -> None:
        """Quaternions back to unit length; the correction is of the order of the error."""
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

    def error(self, h: str) -> str:
        """The error over the tolerance, root mean square over the state."""
        lanes = self.lanes
        columns = [*self.stages, self.new_rate]
        zero = lanes.const(0.0)

        def body(place: str, sums: list[str]) -> list[str]:
            new = self.load(place, "new")
            sc = self.scale(self.load(place, "y"), new)
            handed = []
            for weights, total in zip(self.tableau.errors, sums, strict=True):
                e = lanes.binary("fdiv", self.weighted(place, columns, weights) or zero, sc)
                # an infinite state would make its own tolerance: 0 new is nan then
                handed.append(lanes.muladd(e, e, lanes.muladd(new, zero, total)))
            return handed

        sums = self.each(body, *[zero] * len(self.tableau.errors))
        size = lanes.const(1.0 / self.shape.size)
        h = lanes.intrinsic("fabs", h)
        if len(sums) == 1:
            return lanes.mul(h, lanes.intrinsic("sqrt", lanes.mul(sums[0], size)))
        # DOP853: h e5^2 / sqrt(n (e5^2 + e3^2 / 100)), and 0 for 0/0
        e5, e3 = sums
        both = lanes.muladd(e3, lanes.const(0.01), e5)
        both = lanes.select(lanes.compare("oeq", both, zero), lanes.const(1.0), both)
        ratio = lanes.binary("fdiv", lanes.mul(e5, size),
                             lanes.intrinsic("sqrt", lanes.mul(both, size)))
        return lanes.mul(h, ratio)

    def bad(self, column: str) -> str:
        """nan where a state is not finite, else 0: the error of a method without estimate."""
        lanes = self.lanes
        (total,) = self.each(
            lambda place, sums: [lanes.muladd(self.load(place, column), lanes.const(0.0), sums[0])],
            lanes.const(0.0))
        return total

    def solve(self, h: str) -> str:
        """Stages of an implicit method by fixed-point iteration; where it failed.

        A lane stops when an iteration changes nothing more than the last one did, which is
        rounding, unless the change is still large.
        """
        lanes, f, tableau = self.lanes, self.f, self.tableau

        def begin(place: str, _: list[str]) -> list[str]:
            for name in self.stages:
                self.store(self.load(place, "k0"), place, name)
            return []

        self.each(begin)
        head, inside, after = f.fresh("iterate"), f.fresh("sweep"), f.fresh("solved")
        before = f.label
        names = [f"%{f.fresh('it')}" for _ in range(3)]
        f.go(head)
        f.begin(head)
        place = len(f.lines)
        count, last, still = names
        more = f.let(f"icmp slt i64 {count}, {ITERATIONS}")
        f.branch(f.let(f"and i1 {more}, {lanes.any(still)}"), inside, after)
        f.begin(inside)
        change = lanes.const(0.0)
        for i, stage in enumerate(self.stages):
            self.stage(self.stages, tableau.a[i], tableau.c[i], h, self.new_rate)

            def body(at: str, sums: list[str], stage: str = stage) -> list[str]:
                old, new = self.load(at, stage), self.load(at, self.new_rate)
                size = lanes.add(lanes.intrinsic("fabs", self.load(at, "stage")),
                                 lanes.const(1.0))
                step = lanes.intrinsic("fabs", lanes.mul(h, lanes.sub(new, old)))
                self.store(lanes.select(still, new, old), at, stage)
                return [self.larger(lanes.binary("fdiv", step, size), sums[0])]

            (change,) = self.each(body, change)
        counted = self.widened(self.logic("and", still, self.get_mask("active")))
        self.put("sweeps", lanes.bits("add", self.get("sweeps", "i64"), counted), "i64")
        better = lanes.compare("olt", change, last)
        onward = self.logic("and", still, better)
        # a lane that has stopped remembers the change it stopped with
        kept = lanes.select(still, self.smaller(change, last), last)
        following = f.let(f"add i64 {count}, 1")
        f.lines[place:place] = [
            f"  {count} = phi i64 [ 0, %{before} ], [ {following}, %{f.label} ]",
            f"  {last} = phi {lanes.real} [ {lanes.const(float('inf'))}, %{before} ], "
            f"[ {kept}, %{f.label} ]",
            f"  {still} = phi {lanes.truth} [ {lanes.splat('i1', 'true')}, %{before} ], "
            f"[ {onward}, %{f.label} ]"]
        f.go(head)
        f.begin(after)
        return lanes.compare("ugt", last, lanes.const(LOOSE))

    def smaller(self, a: str, b: str) -> str:
        return self.lanes.select(self.lanes.compare("olt", a, b), a, b)

    def interpolant(self) -> None:
        """The extra stages and the rows F of the continuous extension; y is kept in `stage`."""
        tableau, h = self.tableau, self.get("hs")
        columns = [*self.stages, self.new_rate]
        for name, weights, node in zip(self.extras, tableau.extra, tableau.extra_c, strict=True):
            self.stage(columns, weights, node, h, name)
            columns.append(name)

        def body(place: str, _: list[str]) -> list[str]:
            for r, weights in enumerate(tableau.dense):
                self.store(self.lanes.mul(h, self.weighted(place, columns, weights) or
                                          self.lanes.const(0.0)), place, f"F{r}")
            self.store(self.load(place, "y"), place, "stage")
            return []

        self.each(body)
