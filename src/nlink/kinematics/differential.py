"""Differential inverse kinematics: the rates that give a frame a desired twist, in one call.

    minimise |J v - x|^2 + lambda |v - z|^2   with   lower <= v <= upper

x is the desired twist, z are the rates preferred where the twist leaves a choice, and lambda is
small. The problem is strictly convex. Rates are free or at one of their bounds; for a choice of
those, with F the diagonal matrix that picks the free ones and b the others,

    v = b + F (z + J^T (J F J^T + lambda)^-1 (x - J (b + F z)))

and the choice is right where free rates are within their bounds and the slope
J^T (x - J v) - lambda (v - z) pushes the others against theirs. A wrong choice is corrected
for all rates at once and, if that cycles, for the last wrong rate alone, which terminates [Murty;
Judice and Pires 1994]. The kernel corrects it TOGETHER times, which is nearly always enough; other
states are finished on floats, by the same algorithm.

Closed loops and joints that mimic others are rows of J, too, with x = 0 and HOLD times the weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.algorithms.matrices import Factors, dot
from nlink.engines.kernels import kept
from nlink.kinematics.steps import Reaching
from nlink.kinematics.tasks import couplings, expect_positive
from nlink.programs.applying import apply
from nlink.programs.calling import checked_out
from nlink.programs.program import Port, Program
from nlink.scalars.arrays import batch
from nlink.scalars.functions import Scalar, Scalars, less, where
from nlink.scalars.graph import Graph

if TYPE_CHECKING:
    from nlink.backends.llvm.kernel import Kernel
    from nlink.robot import Robot

TOGETHER = 3
"""How often the choice of free rates is mended for all rates at once."""
MOST_PASSES = 1000
"""How often in all; 2^n is what it cannot exceed, a few times n what it takes."""

HOLD = 1e3
"""The weight of loops and joints that follow: J v - x being the twist that is not reached, they
are left by 1/HOLD^2 of it."""


@dataclass(frozen=True)
class BoxedRates:
    """The text, for J of some rows."""

    J: list[list[Scalar]]
    damping: Scalar

    def solve(self, x: Scalars, z: Scalars, lower: Scalars, upper: Scalars, passes: int,
              ) -> tuple[list[Scalar], Any]:
        """The rates of the problem above, and whether they solve it; on floats, no more passes are
        made than it takes."""
        n, nowhere = len(z), less(0.0 * self.damping, -1.0)
        at_lower, at_upper = [nowhere] * n, [nowhere] * n
        for k in range(passes):
            v = self._with_free(
                [where(a | b, 0.0, 1.0) for a, b in zip(at_lower, at_upper, strict=True)], x,
                [where(a, low, where(b, high, wish)) for a, b, low, high, wish in zip(
                    at_lower, at_upper, lower, upper, z, strict=True)])
            lows, highs, right = self._judge(v, x, z, lower, upper, at_lower, at_upper)
            if k + 1 == passes or right is True or right is np.True_:
                return v, right
            if k >= TOGETHER:
                lows, highs = _last_change(at_lower, at_upper, lows, highs)
            at_lower, at_upper = lows, highs
        raise ValueError(f"passes: {passes}, expected at least 1")

    def _judge(self, v: Scalars, x: Scalars, z: Scalars, lower: Scalars, upper: Scalars,
               at_lower: list[Any], at_upper: list[Any]) -> tuple[list[Any], list[Any], Any]:
        """Which rates should be at their bounds, and whether those are that were."""
        rest = [a - dot(row, v) for a, row in zip(x, self.J, strict=True)]
        lows, highs, right = [], [], ~less(0.0 * self.damping, -1.0)
        for k, value in enumerate(v):
            a, b = at_lower[k], at_upper[k]
            slope = dot([row[k] for row in self.J], rest) - self.damping * (value - z[k])
            lows.append(a & less(slope, 0.0) | ~a & ~b & less(value, lower[k]))
            highs.append(b & less(0.0, slope) | ~a & ~b & less(upper[k], value))
            right = right & _same(lows[k], a) & _same(highs[k], b)
        return lows, highs, right

    def _with_free(self, free: list[Scalar], x: Scalars, start: list[Scalar]) -> list[Scalar]:
        """The best rates that differ from `start` in the free ones."""
        J = [[a * f for a, f in zip(row, free, strict=True)] for row in self.J]
        factors = Factors.of([[dot(a, b) + (self.damping if i == j else 0.0)
                               for j, b in enumerate(J)] for i, a in enumerate(J)])
        force = factors.solve([a - dot(row, start) for a, row in zip(x, self.J, strict=True)])
        return [b + dot([row[k] for row in J], force) for k, b in enumerate(start)]


def _last_change(at_lower: list[Any], at_upper: list[Any], lows: list[Any], highs: list[Any],
                 ) -> tuple[list[Any], list[Any]]:
    """Of all rates whose choice would change, only the last one changes."""
    lows, highs, done = list(lows), list(highs), lows[0] & ~lows[0]
    for k in reversed(range(len(lows))):
        same = _same(lows[k], at_lower[k]) & _same(highs[k], at_upper[k])
        changes = ~same & ~done
        lows[k] = where(changes, lows[k], at_lower[k])
        highs[k] = where(changes, highs[k], at_upper[k])
        done = done | ~same
    return lows, highs


def _same(a: Any, b: Any) -> Any:
    return a & b | ~a & ~b


def _kernel(robot: Robot, frame: int | str) -> Kernel:
    from nlink.backends.llvm.loading import load_kernel

    graph, n = Graph(), robot.n
    sizes = {"q": robot.nq, "twist": 6, "z": n, "lower": n, "upper": n, "damping": 1}
    q, twist, z, lower, upper, (damping,) = (
        [graph.input(f"{name}[{k}]") for k in range(size)] for name, size in sizes.items())
    scale = _scale(robot)
    flat = apply(robot, "jacobian", q, frame=frame)
    J = [[a * s for a in flat[i * n:(i + 1) * n]] for i, s in enumerate(scale)]
    held = _held_rows(robot, q)
    v, right = BoxedRates(J + held, damping * damping).solve(
        [*(a * s for a, s in zip(twist, scale, strict=True)), *[0.0] * len(held)],
        z, lower, upper, TOGETHER)
    return load_kernel(Program(
        "velocity_ik", tuple(Port(name, (size,)) for name, size in sizes.items()),
        (Port("qd", (n,)), Port("right", (1,))),
        tuple(graph.lift(a) for a in (*v, where(right, 1.0, 0.0)))))


def _scale(robot: Robot) -> list[float]:
    """Factors that make the rows of a twist comparable."""
    return [1.0] * 3 + [1 / Reaching(robot, (), posture=False).length] * 3


def _held_rows(robot: Robot, q: Scalars) -> list[list[Scalar]]:
    """The rows of J that loops and joints that follow add."""
    return [[HOLD * x for x in row] for task in couplings(robot)
            for row in task.residual(robot, q, (), 1.0).J]


def velocity_ik(robot: Robot, q: ArrayLike, twist: ArrayLike, frame: int | str = -1, *,
                damping: float = 1e-3, posture: ArrayLike | None = None, gain: float = 1.0,
                limits: bool = True, dt: float | None = None, out: Any = None) -> np.ndarray:
    """Rates (..., n) that move a frame by a twist (..., 6), angular first, in world axes.

    Rates are within the joints' velocity limits; with a time step `dt`, no coordinate passes its
    position limits in that time. `damping` bounds rates near singular configurations (lengths are
    measured by a quarter of the robot's length). Motion that the twist leaves free goes towards
    `posture` at `gain` (1/s) times the difference, or is zero without a posture. Loops stay closed
    and mimic joints follow.

    >>> import nlink
    >>> robot, q = nlink.load("panda"), [0, -0.3, 0, -2.2, 0, 2.0, 0.8]
    >>> qd = robot.velocity_ik(q, [0, 0, 0, 0.1, 0, 0])
    >>> (robot.jacobian(q) @ qd).round(4) + 0.0
    array([0. , 0. , 0. , 0.1, 0. , 0. ])
    """
    q = batch("q", q, (robot.nq,))
    for name, value in (("damping", damping), ("gain", gain), ("dt", dt)):
        if value is not None:
            expect_positive(name, value)
    bounds = Reaching(robot, (), posture=False)
    fast = robot.limits.velocity if limits else np.full(robot.n, np.inf)
    fast = np.minimum(fast, 1e300)  # no bound is a number, so that sums of them are
    lower, upper = np.broadcast_to(-fast, (*q.shape[:-1], robot.n)).copy(), np.broadcast_to(
        fast, (*q.shape[:-1], robot.n)).copy()
    if limits and dt is not None:
        low, high = bounds.bounds()
        for k, place in enumerate(bounds.flat_places()):
            if place is not None:
                upper[..., k] = np.clip((high[k] - q[..., place]) / dt, lower[..., k], fast[k])
                lower[..., k] = np.clip((low[k] - q[..., place]) / dt, -fast[k], upper[..., k])
    z = np.zeros(robot.n)
    if posture is not None:
        wanted = batch("posture", posture, (robot.nq,))
        there, here = (np.moveaxis(x, -1, 0) for x in np.broadcast_arrays(wanted, q))
        z = gain * np.stack(robot.mechanism.space.difference(tuple(here), tuple(there)), axis=-1)
    twist = batch("twist", twist, (6,))
    given = q, twist, z, lower, upper, np.array([float(damping)])
    qd, right = kept(robot, ("velocity_ik", frame), lambda: _kernel(robot, frame))(*given)
    wrong = (right[..., 0] == 0) & np.isfinite(qd).all(axis=-1)
    if wrong.any():
        scale = np.array(_scale(robot))
        lead = wrong.shape
        rows = [np.broadcast_to(x, (*lead, x.shape[-1]))[wrong] for x in given]
        found = []
        for at, x, wish, low, high in zip(*rows[:5], strict=True):
            J = (robot.jacobian(at, frame) * scale[:, None]).tolist()
            held = _held_rows(robot, at.tolist())
            found.append(BoxedRates(J + held, np.float64(damping ** 2)).solve(
                [*(x * scale).tolist(), *[0.0] * len(held)], wish, low, high, MOST_PASSES)[0])
        qd[wrong] = found
    qd = np.clip(qd, lower, upper)  # a bound is met but for rounding
    if out is None:
        return qd
    checked_out(Port("qd", (robot.n,)), out, qd.shape[:-1])[...] = qd
    return out
