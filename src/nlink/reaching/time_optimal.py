"""Time-optimal motion along a path, by reachability [Pham and Pham 2018].

Along q(s) let x = sdot^2 and u = sddot. Then qd = q' sqrt(x), qdd = q' u + q'' x, and

    tau = a u + b x + g,   a = M q',   b = M q'' + C(q, q') q'

so limits of rates, accelerations and efforts are linear in (u, x), and x_k+1 = x_k + 2 ds u_k.
Going backwards, the largest x at each point from which the end can still be reached is the
solution of a linear program of two unknowns; going forwards, the largest u is taken that stays
below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nlink.simulation.splines import Spline

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
SLACK = 1e-9
REFINED = 6
"""How often limits are lowered where the spline passes them."""
FINE = 4
"""Points between two configurations at which the limits are checked."""


def time_along(robot: Robot, q: Array, velocity: ArrayLike | None, acceleration: ArrayLike | None,
               effort: ArrayLike | None) -> Array:
    """The times of configurations (k, n) on the fastest motion through them, from rest to rest."""
    fast = _bounds("velocity", velocity, robot.limits.velocity, robot.n)
    quick = _bounds("acceleration", acceleration, np.full(robot.n, np.inf), robot.n)
    strong = _bounds("effort", effort, robot.limits.effort, robot.n)
    if not np.isfinite(np.minimum(quick, strong)).all():
        loose = [name for name, bound in zip(robot.qd_names, np.minimum(quick, strong),
                                             strict=True) if not np.isfinite(bound)]
        raise ValueError(f"acceleration: no limit, nor one of effort, for {', '.join(loose)}, "
                         "expected one for each joint")
    s = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(q, axis=0), axis=1)))
    path = Spline(s, q, "natural")
    moves = [path(x) for x in s]
    slope, bend = (np.array([move[k] for move in moves]) for k in (1, 2))
    rows, limits = _constraints(robot, q, slope, bend, quick, strong)
    with np.errstate(divide="ignore"):
        ceiling = np.min((fast / np.abs(slope)) ** 2, axis=1)
    bounds = Bounds(robot, fast, quick, strong)
    best, share = np.array([np.inf]), np.ones(len(q))
    for _ in range(REFINED):
        x = _profile(np.diff(s), rows, limits * share[:, None], ceiling * share)
        t = np.append(0.0, np.cumsum(2 * np.diff(s) / (np.sqrt(x[1:]) + np.sqrt(x[:-1]))))
        excess = bounds.excess(t, q)
        slower = t * _stretch(bounds, t, q)
        best = slower if slower[-1] < best[-1] else best
        # between two points the spline may pass a limit that holds at both: less is allowed there
        near = np.maximum(np.append(excess, 0.0), np.append(0.0, excess))
        share = share / np.maximum(near, 1.0)
    return best


def _bounds(name: str, given: ArrayLike | None, own: Array, n: int) -> Array:
    if given is None:
        return own
    bound = np.asarray(given, dtype=float)
    if bound.shape not in ((), (n,)) or not (bound > 0).all():
        raise ValueError(f"{name}: {given!r:.80}, expected a positive number, or {n} of them")
    return np.broadcast_to(bound, (n,))


def _constraints(robot: Robot, q: Array, slope: Array, bend: Array, quick: Array, strong: Array,
                 ) -> tuple[Array, Array]:
    """(points, rows, 2) and (points, rows): rows @ (u, x) <= limits."""
    rest = np.zeros_like(q)
    g = robot.inverse_dynamics(q, rest, rest)
    tree = robot.with_friction(viscous=0.0, dry=0.0)
    a = tree.inverse_dynamics(q, rest, slope) - tree.inverse_dynamics(q, rest, rest)
    b = tree.inverse_dynamics(q, slope, bend) - tree.inverse_dynamics(q, rest, rest)
    rows, limits = [], []
    for u, x, low, high in ((slope, bend, -quick, quick), (a, b, -strong - g, strong - g)):
        high, low = np.broadcast_to(high, q.shape), np.broadcast_to(low, q.shape)
        for k in np.flatnonzero(np.isfinite(high).all(axis=0)):
            rows += [np.stack([u[:, k], x[:, k]], -1), np.stack([-u[:, k], -x[:, k]], -1)]
            limits += [high[:, k], -low[:, k]]
    rows, limits = np.stack(rows, axis=1), np.stack(limits, axis=1)
    if (limits < 0).any():
        raise ValueError("effort: less than gravity asks for somewhere along the path, expected "
                         "enough to hold still")
    # rows of one size, so that one slack judges all of them
    size = np.maximum(np.linalg.norm(rows, axis=-1), 1e-12)
    return rows / size[..., None], limits / size


def _profile(ds: Array, rows: Array, limits: Array, ceiling: Array) -> Array:
    """x at every point: backwards what can still stop, forwards the fastest below it."""
    count = len(rows)
    most = np.zeros(count)
    for k in reversed(range(count - 1)):
        # x + 2 ds u between 0 and what the next point allows, and x below the ceiling
        step = np.array([[2 * ds[k], 1.0], [-2 * ds[k], -1.0], [0.0, 1.0], [0.0, -1.0]])
        bound = np.array([most[k + 1], 0.0, min(ceiling[k], 1e12), 0.0])
        most[k] = _largest(np.vstack([rows[k], step]), np.concatenate([limits[k], bound]))
    x = np.zeros(count)
    for k in range(count - 1):
        u = (most[k + 1] - x[k]) / (2 * ds[k])
        a, rest = rows[k, :, 0], limits[k] - rows[k, :, 1] * x[k]
        pushes = a > SLACK
        u = min(u, np.min(rest[pushes] / a[pushes], initial=np.inf))
        x[k + 1] = np.clip(x[k] + 2 * ds[k] * u, 0.0, most[k + 1])
    if (x[1:-1] <= 0).any():
        raise ValueError("waypoints: the limits leave no way to pass a point of the path, "
                         "expected larger limits or a smoother path")
    return x


def _largest(rows: Array, limits: Array) -> float:
    """The largest x of rows @ (u, x) <= limits, which (0, 0) satisfies: at a corner."""
    i, j = np.array(list(combinations(range(len(rows)), 2))).T
    det = rows[i, 0] * rows[j, 1] - rows[i, 1] * rows[j, 0]
    real = np.abs(det) > 1e-14
    i, j, det = i[real], j[real], det[real]
    u = (limits[i] * rows[j, 1] - limits[j] * rows[i, 1]) / det
    x = (rows[i, 0] * limits[j] - rows[j, 0] * limits[i]) / det
    inside = (np.outer(rows[:, 0], u) + np.outer(rows[:, 1], x)
              <= limits[:, None] + SLACK * (1 + np.abs(limits[:, None]))).all(axis=0)
    return float(np.max(x[inside], initial=0.0))


@dataclass(frozen=True, eq=False)
class Bounds:
    """What joints can do."""

    robot: Robot
    fast: Array
    quick: Array
    strong: Array

    def excess(self, t: Array, q: Array) -> Array:
        """By how much the limits are passed between each two of the times, by the spline through
        (t, q): accelerations and efforts over theirs, squares of rates over those of theirs."""
        path, shares = Spline(t, q), np.linspace(0, 1, FINE, endpoint=False)
        fine = np.append((t[:-1, None] + np.diff(t)[:, None] * shares).ravel(), t[-1])
        moves = [path(x) for x in fine]
        here, qd, qdd = (np.array([move[k] for move in moves]) for k in range(3))
        rest = np.zeros_like(here)
        tau, g = (self.robot.inverse_dynamics(here, *motion) for motion in ((qd, qdd),
                                                                            (rest, rest)))
        room = np.where(tau > g, self.strong - g, self.strong + g)
        worst = np.max([np.max((qd / self.fast) ** 2, axis=1),
                        np.max(np.abs(qdd) / self.quick, axis=1),
                        np.max(np.abs(tau - g) / room, axis=1)], axis=0)
        worst = np.maximum(worst[:-1], worst[1:])
        return worst.reshape(-1, FINE).max(axis=1)


def _stretch(bounds: Bounds, t: Array, q: Array) -> float:
    """How much slower the spline through these points must be to keep all limits."""
    factor = 1.0
    for _ in range(20):
        excess = float(bounds.excess(t * factor, q).max())
        if excess <= 1 + 1e-9:
            return factor
        factor *= excess ** 0.5 * (1 + 1e-12)
    raise ValueError("waypoints: no time was found in which the limits hold, expected a smoother "
                     "path or larger limits")
