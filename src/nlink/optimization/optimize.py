"""`nlink.optimize`: trajectories of least cost, from many states at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.optimization.accelerations import Accelerations
from nlink.optimization.costs import Cost
from nlink.optimization.optimal_control import Box, OptimalControl
from nlink.optimization.optimized import Optimized
from nlink.optimization.shooting import MOST_STRAIGHT
from nlink.optimization.shooting_solver import SOLVED, STATUS, Bounds
from nlink.reports import progress as reporting
from nlink.robot import Robot
from nlink.scalars.arrays import batch
from nlink.simulation.system import System

Array = np.ndarray
Effort = Any
MOST_KNOTS = 100_000
MOST_RATES = 64
"""Rates beyond which sweeps are not compiled."""


def optimize(robot: Robot | System, cost: Cost, q0: ArrayLike | None = None,
             qd0: ArrayLike | None = None, horizon: float = 1.0, step: float = 0.01,
             final: Cost | None = None, effort: Effort = None, *,
             parameters: ArrayLike | None = None, guess: Any = None, tolerance: float = 1e-9,
             iterations: int = 100, progress: bool = False) -> Optimized:
    """Forces that move a robot at least cost, from states q0 (..., nq) and qd0 (..., n).

    What is minimised is the sum of `step` times `cost(q, qd, u)` at the knots, `step` seconds apart
    over `horizon` seconds, and `final(q, qd)` at the end. Both are traced: they are written with
    + - * / and the functions of nlink, and may call methods of the robot. A number has its exact
    second derivatives; an array r means |r|^2 / 2 with Gauss-Newton's; a tuple of such their sum.
    u are joint forces, held from knot to knot, and zero where there is no motor; steps are those
    of method="semi_implicit" of `nlink.simulate`.

    - `effort` bounds u: "limit" by the limits of the joints, or by numbers, one or n of them; a
      motor with 0 is not used.
    - `parameters` (..., k) are numbers of each problem, a further argument of `cost` and `final`.
    - `guess` are first forces (..., knots, n), or a result of before; or q, qd and u as a tuple,
      which need not fit together (multiple shooting closes the gaps). If none is given, they
      balance the weight at q0.
    - A problem is solved when the next iteration promises less than `tolerance` (1 + |cost|).

    >>> import nlink, numpy as np
    >>> arm = nlink.load("planar3")
    >>> goal = np.array([0.5, 0.2, -0.3])
    >>> found = nlink.optimize(arm, lambda q, qd, u: 1e-4 * (u @ u) + 0.1 * (qd @ qd),
    ...     q0=[[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]], horizon=0.5,
    ...     final=lambda q, qd: 1e3 * (q - goal) @ (q - goal) + 1e2 * (qd @ qd))
    >>> found
    <Optimized: 2 solved, 50 knots, costs from 0.394 to 0.523>
    >>> bool(abs(found.q[:, -1] - goal).max() < 0.01)
    True
    """
    motion = Accelerations.of(robot)
    numbers = np.empty(0) if parameters is None else np.atleast_1d(
        np.asarray(parameters, dtype=float))
    task = prepare(motion, cost, final, positive("step", step), effort, numbers.shape[-1])
    bounds = Bounds(positive("tolerance", tolerance), whole("iterations", iterations))
    return search(task, q0, qd0, knots_of(horizon, step), numbers, guess, bounds,
                  progress=progress)


def search(task: OptimalControl, q0: ArrayLike | None, qd0: ArrayLike | None, knots: int,
           parameters: Array, guess: Any, bounds: Bounds, *, progress: bool) -> Optimized:
    """Solve a task from states as users give them."""
    robot = task.robot
    starts = [robot.neutral if q0 is None else batch("q0", q0, (robot.nq,)),
              np.zeros(robot.n) if qd0 is None else batch("qd0", qd0, (robot.n,))]
    if parameters.shape[-1] != task.parameters:
        raise ValueError(f"parameters: {parameters.shape[-1]} of each problem, expected "
                         f"{task.parameters}")
    first = _guessed(robot, guess, knots)
    lead = leading_shape(("q0", starts[0], 1), ("qd0", starts[1], 1),
                         ("parameters", parameters, 1), *(("guess", x, 2) for x in first or ()))
    count = math.prod(lead)
    flat = [spread(x, lead, count, 1) for x in (*starts, parameters)]
    given = None if first is None else tuple(spread(x, lead, count, 2) for x in first)
    with _bar(robot, shown=progress) as told:
        found = task.solve(normalized(robot, flat[0]), flat[1], knots, flat[2], given, bounds,
                           told)
    last = int(found.iterations.max(initial=0)) + 1

    def shaped(x: Array) -> Any:
        return x.reshape((*lead, *x.shape[1:]))[()]

    return Optimized(
        robot, task.step * np.arange(knots + 1), shaped(found.q), shaped(found.qd),
        shaped(found.tau), shaped(found.cost), shaped(np.array(STATUS, object)[found.status]),
        shaped(found.status == SOLVED), shaped(found.iterations), shaped(found.history[:, :last]),
        shaped(found.gap), parameters, lambda q0, qd0, numbers, guess: search(
            task, q0, qd0, knots, numbers, guess, bounds, progress=progress))


@contextmanager
def _bar(robot: Robot, *, shown: bool) -> Iterator[Callable[[float], None]]:
    if not shown:
        yield lambda _share: None
        return
    with reporting.bar(f"optimizing {robot.name}") as tell:
        yield tell


def prepare(motion: Accelerations, cost: Cost, final: Cost | None, step: float, effort: Effort,
            parameters: int) -> OptimalControl:
    """The task without its states, checked."""
    robot = motion.robot
    for name, given in (("cost", cost), ("final", final)):
        if not (callable(given) or (given is None and name == "final")):
            what = "q, qd, u" if name == "cost" else "q, qd"
            raise TypeError(f"{name}: a {type(given).__name__}, expected a function of {what}")
    if robot.n > MOST_RATES:
        raise ValueError(f"robot: {robot.n} rates, expected at most {MOST_RATES}")
    box, motors = _box(robot, effort)
    if robot.n > MOST_STRAIGHT:
        curved = not robot.mechanism.space.flat
        for wrong, why in ((curved, "coordinates that are no plain numbers"),
                           (box is not None, "bounds on forces")):
            if wrong:
                raise ValueError(f"robot: {robot.n} rates and {why}, expected at most "
                                 f"{MOST_STRAIGHT} rates")
    return OptimalControl.prepared(motion, cost, final, step, box, motors, parameters)


def _box(robot: Robot, effort: Effort) -> tuple[Box | None, tuple[int, ...]]:
    """Bounds of the motors that are used, if any are bounded, and their numbers."""
    if effort is None:
        most = np.full(robot.n, np.inf)
    elif isinstance(effort, str):
        most = robot.limits.effort
        if effort != "limit":
            raise ValueError(f"effort: {effort!r}, expected 'limit', numbers, or None")
        if not np.isfinite(most).any():
            raise ValueError(f"effort: 'limit', but {robot.name} has no effort limits, expected "
                             "numbers")
    else:
        given = np.asarray(effort, dtype=float)
        if given.shape not in ((), (robot.n,)) or not (given >= 0).all():
            raise ValueError(f"effort: {effort!r:.80}, expected 'limit', a number >= 0, or "
                             f"{robot.n} of them")
        most = np.broadcast_to(given, (robot.n,))
    motors = tuple(int(k) for k in np.flatnonzero(robot.actuated & (most > 0)))
    if not motors:
        raise ValueError(f"robot: no motor of {robot.name} may act, expected one that does")
    used = most[list(motors)].tolist()
    bounded = np.isfinite(used).any()
    return (tuple(-x for x in used), tuple(used)) if bounded else None, motors


def _guessed(robot: Robot, guess: Any, knots: int) -> tuple[Array, ...] | None:
    """What is known of trajectories: forces, or q, qd and forces."""
    if guess is None:
        return None
    if isinstance(guess, Optimized):
        guess = guess.u
    if not isinstance(guess, tuple):
        return (_table("u", guess, knots, robot.n),)
    if len(guess) != 3:
        raise ValueError(f"guess: a tuple of {len(guess)}, expected (q, qd, u)")
    q, qd, u = guess
    if robot.n > MOST_STRAIGHT:
        raise ValueError(f"guess: states of {robot.n} rates, expected forces alone for more than "
                         f"{MOST_STRAIGHT} rates")
    return (normalized(robot, _table("q", q, knots + 1, robot.nq)),
            _table("qd", qd, knots + 1, robot.n), _table("u", u, knots, robot.n))


def normalized(robot: Robot, q: Array) -> Array:
    """Coordinates with unit quaternions."""
    space = robot.mechanism.space
    if space.flat:
        return q
    return np.stack(space.normalize(tuple(np.moveaxis(q, -1, 0))), axis=-1)


def knots_of(horizon: float, step: float) -> int:
    """How many steps a horizon has."""
    horizon, step = positive("horizon", horizon), positive("step", step)
    knots = round(horizon / step)
    if knots < 1 or knots > MOST_KNOTS or abs(knots * step - horizon) > 1e-6 * horizon:
        raise ValueError(f"horizon: {horizon:g} s, expected a whole number of steps of {step:g} s, "
                         f"from 1 to {MOST_KNOTS}")
    return knots


def positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not (
            np.isfinite(value) and value > 0):
        raise ValueError(f"{name}: {value!r:.80}, expected a positive number")
    return float(value)


def whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not (isinstance(value, int | np.integer) and value >= 0):
        raise ValueError(f"{name}: {value!r:.80}, expected a whole number >= 0")
    return int(value)


def leading_shape(*given: tuple[str, Array, int]) -> tuple[int, ...]:
    """The shape that leading shapes broadcast to; each array has so many dimensions of its own."""
    shapes = [x.shape[:x.ndim - own] for _, x, own in given]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        told = ", ".join(f"{name} {shape}" for (name, _, _), shape in zip(
            given, shapes, strict=True))
        raise ValueError(f"q0: the leading shapes {told} do not broadcast, expected shapes that "
                         "do") from None


def spread(x: Array, lead: tuple[int, ...], count: int, own: int) -> Array:
    """An array for each problem of a batch, (count, ...)."""
    tail = x.shape[x.ndim - own:]
    return np.ascontiguousarray(np.broadcast_to(x, (*lead, *tail)).reshape(count, *tail))


def _table(name: str, given: Any, rows: int, size: int) -> Array:
    x = np.asarray(given, dtype=float)
    if x.shape[-2:] != (rows, size) or not np.isfinite(x).all():
        raise ValueError(f"guess: {name} of shape {x.shape}, expected (..., {rows}, {size}), all "
                         "finite")
    return x
