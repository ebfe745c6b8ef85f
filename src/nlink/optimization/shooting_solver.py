"""Many shooting problems at once, by differential dynamic programming.

Each iteration of a problem is a backward sweep, which gives feedback and what it promises, and
forward sweeps with shorter and shorter steps until one keeps a part of the promise; where none
does, forces are damped more. A problem that is done makes room for the next one, and a call of
machine code has those that need its sweep, so that nobody waits for the slowest. Which sweep a
problem needs next does not depend on its neighbours, nor do its numbers.

With gaps (multiple shooting) a step alpha leaves 1 - alpha of each gap; what is lowered then is the
cost and the sum of the gaps, weighed by more than the multipliers [Giftthaler et al. 18].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from nlink.backends.llvm.scan_kernel import ScanArray, ScanKernel, load_scan
from nlink.backends.llvm.threads import threads
from nlink.engines.kernels import kept
from nlink.optimization.shooting import NOTHING, ShootingProblem

Array = np.ndarray
STATUS = ("running", "solved", "not converged", "stuck", "not finite")
RUNNING, SOLVED, NOT_CONVERGED, STUCK, NOT_FINITE = range(len(STATUS))
LEAST_DAMPING, FIRST_DAMPING, MOST_DAMPING = 1e-9, 1e-6, 1e9
"""Of forces that are nearly free to change, of those that must not change so much, and what is
useless."""
SHORT, SHORTEST = 0.05, 2.0 ** -9
"""A step after which there is more damping, and the shortest step that is tried."""
PROMISE = 1e-4
"""The part of its promise that a step must keep [Armijo 66]."""
ROOM = 1 << 23
"""Bytes of feedback, about, that are held at a time: what caches hold."""


@dataclass(frozen=True)
class Bounds:
    """When to stop."""

    tolerance: float
    """A promise, relative to 1 + |cost|, below which a problem is solved."""
    iterations: int


@dataclass
class Trajectories:
    """States and forces of all problems, two of each: the current one and the one being tried."""

    q: Array
    qd: Array
    tau: Array
    """With a row behind the last knot, for trajectories that move on."""
    which: Array
    """Which of the two is the current one."""

    @staticmethod
    def empty(problem: ShootingProblem, count: int, knots: int) -> Trajectories:
        nq, n = problem.robot.nq, problem.robot.n
        return Trajectories(np.zeros((2 * count, knots + 1, nq)),
                            np.zeros((2 * count, knots + 1, n)),
                            np.zeros((2 * count, knots + 1, n)), np.zeros(count, np.int64))

    def places(self, these: Array, *, tried: bool = False) -> Array:
        which = self.which[these]
        return 2 * these + (1 - which if tried else which)

    def current(self) -> tuple[Array, Array, Array]:
        """The current trajectories."""
        at = self.places(np.arange(len(self.which)))
        return self.q[at], self.qd[at], self.tau[at, :-1]


@dataclass
class Sweeps:
    """The sweeps of some problems, on arrays: each method does one for the problems it is given."""

    problem: ShootingProblem
    start: tuple[Array, Array]
    """First states (count, nq) and (count, n)."""
    trajectories: Trajectories
    parameters: Array
    slots: int
    """Problems that have feedback at a time."""
    threads: int = 1
    numbers: dict[str, Array] = field(default_factory=dict)
    """Numbers of each problem, (count, 1), by the names of ports."""

    def __post_init__(self) -> None:
        problem, count = self.problem, len(self.start[0])
        self.knots = knots = self.trajectories.q.shape[1] - 1
        # behind those of the slots, and behind the last knot, there is feedback that does nothing
        self.K = np.zeros((self.slots + 1, knots + 1, problem.size("K")))
        self.k = np.zeros((self.slots + 1, knots + 1, problem.m))
        self.slot = np.full(count, self.slots, np.int64)
        self.value = {x: np.zeros((self.slots + 1, problem.size(x))) for x in ("S", "s")}
        self.last = [x.copy() for x in self.start]
        self.gap = np.zeros((count, knots, 2 * problem.robot.n) if problem.gaps else (0, 0, 0))
        names = ("alpha", "damping", "open", "J", "slope", "curve", "least", "most", "wide")
        self.numbers = {name: np.zeros((count, 1)) for name in names}
        self.numbers["damping"][:] = LEAST_DAMPING

    def kernel(self, name: str, count: int) -> ScanKernel:
        from nlink.backends.llvm.host import host

        width = host().target.width if count > 2 else 2
        return kept(self.problem, ("scan", name, width),
                    lambda: load_scan(getattr(self.problem, name), width))

    def _run(self, name: str, these: Array, arrays: Mapping[str, ScanArray], rows: int) -> None:
        kernel = self.kernel(name, len(self.slot))
        numbers = {x: ScanArray(self.numbers[x], these) for x in kernel.names if x in self.numbers}
        if self.problem.parameters:
            numbers["p"] = ScanArray(self.parameters, these)
        if self.problem.gaps:
            numbers["gap"] = ScanArray(self.gap, these)
        kernel.run({**numbers, **arrays}, rows, threads=self.threads)

    def forward(self, these: Array, *, feedback: bool = True, later: int = 0) -> Array:
        """Try steps alpha: the costs of new trajectories. They begin where the old ones are so many
        knots later."""
        at, ahead = self.trajectories, slice(later, None)
        old, new = at.places(these), at.places(these, tried=True)
        slots = self.slot[these] if feedback else np.full(len(these), self.slots, np.int64)
        q, qd = self.start
        self.last[0][these], self.last[1][these] = q[these], qd[these]
        at.q[new, 0], at.qd[new, 0] = q[these], qd[these]
        self.numbers["J"][these] = 0.0
        last = {name: ScanArray(x, these) for name, x in zip(("q", "qd"), self.last, strict=True)}
        self._run("forward", these, {
            **last, "q.old": ScanArray(at.q[:, ahead], old),
            "qd.old": ScanArray(at.qd[:, ahead], old),
            "tau.old": ScanArray(at.tau[:, ahead], old),
            "K": ScanArray(self.K[:, ahead], slots), "k": ScanArray(self.k[:, ahead], slots),
            "q.next": ScanArray(at.q[:, 1:], new),
            "qd.next": ScanArray(at.qd[:, 1:], new),
            "tau": ScanArray(at.tau, new)}, self.knots)
        self._run("end", these, last, 1)
        return self.numbers["J"][these, 0]

    def measure(self, these: Array) -> Array:
        """The costs of trajectories as they are, and their gaps."""
        at, here = self.trajectories, self.trajectories.places(these)
        for name in ("J", "wide"):
            self.numbers[name][these] = 0.0
        self._run("gap", these, {
            "q": ScanArray(at.q, here), "qd": ScanArray(at.qd, here),
            "tau": ScanArray(at.tau, here),
            "q.next": ScanArray(at.q[:, 1:], here), "qd.next": ScanArray(at.qd[:, 1:], here),
            "gap": ScanArray(self.gap, these)}, self.knots)
        self.last[0][these], self.last[1][these] = at.q[here, -1], at.qd[here, -1]
        self._run("end", these, {name: ScanArray(x, these) for name, x in zip(
            ("q", "qd"), self.last, strict=True)}, 1)
        return self.numbers["J"][these, 0]

    def backward(self, these: Array) -> None:
        """Feedback along the current trajectories; `numbers` have what it promises."""
        at, here, slots = (self.trajectories, self.trajectories.places(these), self.slot[these])
        for name in ("slope", "curve", "most"):
            self.numbers[name][these] = 0.0
        self.numbers["least"][these] = NOTHING
        self.last[0][these], self.last[1][these] = at.q[here, -1], at.qd[here, -1]
        value = {name: ScanArray(x, slots) for name, x in self.value.items()}
        self._run("end_model", these, {**value, **{name: ScanArray(x, these) for name, x in zip(
            ("q", "qd"), self.last, strict=True)}}, 1)
        back = slice(self.knots - 1, None, -1)
        arrays = {**value, "q": ScanArray(at.q[:, back], here),
                  "qd": ScanArray(at.qd[:, back], here),
                  "tau": ScanArray(at.tau[:, back], here), "K": ScanArray(self.K[:, back], slots),
                  "k": ScanArray(self.k[:, back], slots),
                  "qd.later": ScanArray(at.qd[:, :0:-1], here)}
        if self.problem.gaps:
            arrays["gap"] = ScanArray(self.gap[:, ::-1], these)
        self._run("backward", these, arrays, self.knots)


class ShootingSolver:
    """Runs problems to their ends."""

    def __init__(self, sweeps: Sweeps, bounds: Bounds, *, feasible: bool,
                 told: Callable[[int, int], None] | None = None) -> None:
        self.sweeps, self.bounds, self.feasible, self.told = sweeps, bounds, feasible, told
        count = len(sweeps.slot)
        self.status = np.zeros(count, np.int64)
        self.iterations = np.zeros(count, np.int64)
        self.cost = np.full(count, np.nan)
        self.weight = np.zeros(count)
        """What a unit of gap costs."""
        self.retry = np.zeros(count, bool)
        """Whether the next sweep is another try, not a backward one."""
        self.history = np.full((bounds.iterations + 1, count), np.nan)

    def run(self) -> None:
        count, sweeps = len(self.status), self.sweeps
        active, waiting = np.empty(0, np.int64), 0
        free = list(range(sweeps.slots))
        while waiting < count or len(active):
            # problems that wait take the places of those that are done
            more = np.arange(waiting, min(count, waiting + len(free)), dtype=np.int64)
            if len(more):
                waiting += len(more)
                sweeps.slot[more] = [free.pop() for _ in more]
                self._begin(more)
                active = np.concatenate([active, more])
            self._iterate(active[(self.status[active] == RUNNING)])
            over = self.status[active] != RUNNING
            if over.any():
                free += sweeps.slot[active[over]].tolist()
                active = active[~over]
                if self.told is not None:
                    self.told(waiting - len(active), count)

    def _begin(self, these: Array) -> None:
        """First trajectories, and their costs."""
        sweeps = self.sweeps
        if self.feasible:
            sweeps.numbers["alpha"][these] = 0.0
            self.cost[these] = sweeps.forward(these, feedback=False)
            self._take(these)
        else:
            self.cost[these] = sweeps.measure(these)
            sweeps.numbers["open"][these] = sweeps.numbers["wide"][these] > 0
        sweeps.numbers["alpha"][these] = 1.0
        self.history[0, these] = self.cost[these]
        self.status[these[~np.isfinite(self.cost[these])]] = NOT_FINITE

    def _take(self, these: Array) -> None:
        self.sweeps.trajectories.which[these] ^= 1

    def _iterate(self, active: Array) -> None:
        """One sweep back for those that need it, and one try for all that have a promise."""
        sweeps, numbers = self.sweeps, self.sweeps.numbers
        back = active[~self.retry[active]]
        if len(back):
            sweeps.backward(back)
            slope, least = numbers["slope"][back, 0], numbers["least"][back, 0]
            good = (least > 0) & np.isfinite(slope)
            self._damp(back[~good], 10.0)
            back, slope = back[good], slope[good]
            if self.sweeps.problem.gaps:
                self.weight[back] = np.maximum(self.weight[back],
                                               2.0 * numbers["most"][back, 0] + 1.0)
            closed = numbers["open"][back, 0] == 0
            solved = closed & (-slope <= self.bounds.tolerance * (1.0 + np.abs(self.cost[back])))
            self.status[back[solved]] = SOLVED
            back = back[~solved]
            spent = self.iterations[back] >= self.bounds.iterations
            self.status[back[spent]] = NOT_CONVERGED
            numbers["alpha"][back], self.retry[back] = 1.0, True
        tries = active[self.retry[active] & (self.status[active] == RUNNING)]
        if len(tries):
            self._try(tries)

    def _try(self, these: Array) -> None:
        """Forward sweeps: those that lower the cost are taken."""
        numbers = self.sweeps.numbers
        cost = self.sweeps.forward(these)
        alpha, opened = numbers["alpha"][these, 0], numbers["open"][these, 0]
        promise = -alpha * (numbers["slope"][these, 0]
                            + 0.5 * alpha * numbers["curve"][these, 0])
        before, after = self.cost[these], cost
        if self.sweeps.problem.gaps:
            width = self.weight[these] * numbers["wide"][these, 0] * opened
            before, after = before + width, after + width * (1.0 - alpha)
            promise = np.maximum(promise, 0.0) + 0.5 * alpha * width
        with np.errstate(invalid="ignore"):
            good = before - after >= PROMISE * promise
        taken, left = these[good], these[~good]
        if len(taken):
            self._take(taken)
            self.iterations[taken] += 1
            self.cost[taken], self.retry[taken] = cost[good], False
            self.history[self.iterations[taken], taken] = cost[good]
            numbers["open"][taken, 0] = np.where(alpha[good] < 1.0, opened[good] * (
                1.0 - alpha[good]), 0.0)
            damping = numbers["damping"][taken, 0]
            numbers["damping"][taken, 0] = np.where(
                alpha[good] > 0.5, np.maximum(damping / 10, LEAST_DAMPING), np.where(
                    alpha[good] < SHORT, np.maximum(damping * 10, FIRST_DAMPING), damping))
        if len(left):
            numbers["alpha"][left] *= 0.5
            short = left[numbers["alpha"][left, 0] < SHORTEST]
            self.retry[short] = False
            self._damp(short, 100.0)

    def _damp(self, these: Array, by: float) -> None:
        """More damping, as long as there can be more."""
        damping = self.sweeps.numbers["damping"]
        damping[these] = np.maximum(damping[these] * by, FIRST_DAMPING)
        self.status[these[damping[these, 0] > MOST_DAMPING]] = STUCK


def sweeps_of(problem: ShootingProblem, q0: Array, qd0: Array, knots: int, parameters: Array,
              ) -> Sweeps:
    """Sweeps of problems that start from some states."""
    count = len(q0)
    bytes_each = 8 * knots * (problem.size("K") + problem.m)
    slots = min(count, max(32, ROOM // bytes_each), 512)
    return Sweeps(problem, (q0, qd0), Trajectories.empty(problem, count, knots), parameters, slots,
                  threads())
