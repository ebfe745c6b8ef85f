"""One step of a Runge-Kutta method on a vector of trajectories.

    K_i = f(t + c_i h, y + h sum_j a_ij K_j),   new = y + h sum_i b_i K_i,   K_s = f(t + h, new)

Every lane has its own t, h and error. K_0 = f(t, y) is there when a step begins, and K_s
becomes the next K_0, so a step that is accepted costs one evaluation a stage whatever the
method. Loops run over the elements of the state; the stages are written out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nlink.compiler.ir import Target, number
from nlink.compiler.states import Shape
from nlink.compiler.trajectories import GROW, SAFETY, SHRINK, Loop

if TYPE_CHECKING:
    from nlink.simulation.tableau import Tableau

ITERATIONS = 100
"""Sweeps of fixed-point iteration an implicit step may take."""
TIGHT = 2.0**-51
"""Change, relative to the state, that is rounding: the iteration has converged."""
PATIENCE = 10
"""Sweeps without a smaller change than ever before, after which an iteration stops."""
LOOSE = 1e-9
"""Change, relative to the state, above which an iteration that stopped has not converged."""


class RungeKutta(Loop):
    """The loop around the steps of a tableau."""

    def __init__(self, tableau: Tableau, shape: Shape, target: Target) -> None:
        self.tableau = tableau
        first = 0 if tableau.explicit else 1
        self.stages = [f"k{i + first}" for i in range(len(tableau.b))]
        self.extras = [f"x{i}" for i in range(len(tableau.extra))]
        new_rate = f"k{len(self.stages) + first}"
        dense = [f"F{r}" for r in range(len(tableau.dense))]
        columns = list(dict.fromkeys(["y", "stage", "new", "k0", *self.stages, new_rate,
                                      *self.extras, *dense]))
        super().__init__(columns, (), (), shape, target, new_rate=new_rate,
                         interpolates=bool(dense), adaptive=tableau.adaptive,
                         error_order=tableau.error_order)

    def step(self) -> None:
        """All of a step: from y, k0, told, tnew, hs to new, its rate, and the error."""
        h = self.get("hs")
        tableau, lanes = self.tableau, self.lanes
        if tableau.explicit:
            for i in range(1, len(tableau.b)):
                self.stage(self.stages, tableau.a[i], tableau.c[i], h, self.stages[i])
            smallest = None
        else:
            smallest = self.solve(h)
        self.advance(self.stages, tableau.b, h, "new")
        self.restore("new")
        self.evaluate("tnew", "new", self.new_rate)
        error = self.error(h) if tableau.adaptive else self.bad("new")
        if smallest is not None:
            # an infinite error says "not converged", nan "not finite": no sweep was finite
            infinity = lanes.const(float("inf"))
            lost = lanes.compare("oeq", smallest, infinity)
            apart = lanes.select(lost, lanes.const(float("nan")), infinity)
            error = lanes.select(lanes.compare("ogt", smallest, lanes.const(LOOSE)), apart, error)
        self.put("error", error)

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

    def solve(self, h: str) -> str:
        """Stages of an implicit method by fixed-point iteration; the smallest change of a sweep.

        The change of a sweep is the largest |h (K_new - K_old)| / (|stage| + 1) of all stages
        and elements, nan if one is not finite. It need not fall from every sweep to the next:
        where rotations couple the elements it goes up and down while the iteration converges. A
        lane stops when the change is at most TIGHT (converged) or nan, or when PATIENCE sweeps,
        or all ITERATIONS, brought no new smallest change: then that is rounding if it is at most
        LOOSE, else the iteration has not converged. A lane that has stopped keeps its stages.
        The smallest change stays infinite if not even the first sweep was finite.
        """
        lanes, f, tableau = self.lanes, self.f, self.tableau

        def begin(place: str, _: list[str]) -> list[str]:
            for name in self.stages:
                self.store(self.load(place, "k0"), place, name)
            return []

        self.each(begin)
        head, inside, after = f.fresh("iterate"), f.fresh("sweep"), f.fresh("solved")
        before = f.label
        names = [f"%{f.fresh('it')}" for _ in range(4)]
        f.go(head)
        f.begin(head)
        place = len(f.lines)
        count, smallest, idle, still = names
        more = f.let(f"icmp slt i64 {count}, {ITERATIONS}")
        f.branch(f.let(f"and i1 {more}, {lanes.any(still)}"), inside, after)
        f.begin(inside)
        zero, one = lanes.const(0.0), lanes.const(1.0)
        change, lost = zero, zero
        for i, stage in enumerate(self.stages):
            self.stage(self.stages, tableau.a[i], tableau.c[i], h, self.new_rate)

            def body(at: str, sums: list[str], stage: str = stage) -> list[str]:
                old, new = self.load(at, stage), self.load(at, self.new_rate)
                size = lanes.add(lanes.intrinsic("fabs", self.load(at, "stage")), one)
                step = lanes.intrinsic("fabs", lanes.mul(h, lanes.sub(new, old)))
                self.store(lanes.select(still, new, old), at, stage)
                # 0 new is nan where new is not finite, which a comparison would pass over
                return [self.larger(lanes.binary("fdiv", step, size), sums[0]),
                        lanes.muladd(new, zero, sums[1])]

            change, lost = self.each(body, change, lost)
        change = lanes.add(change, lost)
        counted = self.widened(self.logic("and", still, self.get_mask("active")))
        self.put("sweeps", lanes.bits("add", self.get("sweeps", "i64"), counted), "i64")
        # sweeps since the smallest change; a lane that has stopped remembers that change
        better = lanes.compare("olt", change, smallest)
        waited = lanes.select(better, zero, lanes.add(idle, one))
        kept = lanes.select(self.logic("and", still, better), change, smallest)
        onward = self.logic("and", still, self.logic(
            "and", lanes.compare("ogt", change, lanes.const(TIGHT)),
            lanes.compare("olt", waited, lanes.const(float(PATIENCE)))))
        following = f.let(f"add i64 {count}, 1")
        f.lines[place:place] = [
            f"  {count} = phi i64 [ 0, %{before} ], [ {following}, %{f.label} ]",
            *(f"  {name} = phi {kind} [ {first}, %{before} ], [ {later}, %{f.label} ]"
              for name, kind, first, later in (
                  (smallest, lanes.real, lanes.const(float("inf")), kept),
                  (idle, lanes.real, zero, waited),
                  (still, lanes.truth, lanes.splat("i1", "true"), onward)))]
        f.go(head)
        f.begin(after)
        return smallest

    def control(self, accepted: str, rejected: str) -> str:
        """The size of the next step, SAFETY err^(-1/(q+1)) times that of the last."""
        lanes, h, hs = self.lanes, self.get("h"), self.get("hs")
        factor = lanes.mul(lanes.const(SAFETY), self.inverse_root(self.get("error")))
        factor = self.larger(self.smaller(factor, lanes.const(GROW)), lanes.const(SHRINK))
        wanted = lanes.mul(hs, factor)
        # a step cut short by a stop says nothing against the size it was cut from
        cut = self.logic("and", accepted, lanes.compare("olt", hs, h))
        wanted = lanes.select(cut, self.larger(wanted, h), wanted)
        # a lane that is rejected never grows
        smaller = self.smaller(wanted, lanes.mul(hs, lanes.const(SAFETY)))
        return lanes.select(rejected, smaller, wanted)

    def commit(self, accepted: str) -> None:
        lanes = self.lanes

        def body(place: str, _: list[str]) -> list[str]:
            for column, new in (("y", "new"), ("k0", self.new_rate)):
                self.store(lanes.select(accepted, self.load(place, new),
                                        self.load(place, column)), place, column)
            return []

        self.each(body)

    def forget(self, jumped: str) -> None:
        """Nothing: a step knows no step before it."""

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

    def interpolation(self, place: str, due: str) -> list[str]:
        """x = (t - t_old)/h, and 1 - x."""
        f = self.f
        past = f.let(f"fsub double {due}, {self.lane_get(place, 'told')}")
        x = f.let(f"fdiv double {past}, {self.lane_get(place, 'hs')}")
        return [x, f.let(f"fsub double {number(1.0)}, {x}")]

    def interpolated(self, here: str, weights: list[str]) -> str:
        """y + x (F_0 + (1 - x)(F_1 + x (F_2 + ...))) of one element."""
        f = self.f
        value = number(0.0)
        for r in reversed(range(len(self.tableau.dense))):
            row = f.load("double", here, self.column[f"F{r}"])
            value = f.let(f"fadd double {value}, {row}")
            value = f.let(f"fmul double {value}, {weights[r % 2]}")
        return f.let(f"fadd double {value}, {f.load('double', here, self.column['stage'])}")
