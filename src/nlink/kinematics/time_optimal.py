"""Time-optimal motion along a path, by reachability [Pham and Pham 2018].

Along q(s) let x = sdot^2 and u = sddot. Then qd = q' sqrt(x), qdd = q' u + q'' x, and

    tau = a u + b x + g,   a = M q',   b = M q'' + C(q, q') q'

so limits of rates, accelerations and efforts are linear in (u, x). The path is a cubic spline, cut
into short intervals with a constant u on each: x is linear in s, from x_k to x_k+1 = x_k + 2 ds u,
and the motion is q(s(t)) itself, no curve through samples of it. Where one u serves several
intervals about as well they are joined, since integrators stop at each change of u.

The limits hold between the ends of an interval, too: on it q' is quadratic and q'' linear in s, so
qdd is a polynomial in s, whose Bernstein coefficients are linear in x_k and x_k+1. A polynomial
lies between the least and the largest of them, so a limit on each of them is a limit on all of the
interval. For efforts a, b and g are replaced by the parabolas through three of their values.

Going backwards, the largest x_k from which the end can still be reached is the solution of a
linear program of two unknowns; going forwards, the largest x_k+1 is taken that stays below it.
Both are positive for positive limits, however small: a path can always be passed slowly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.scalars.functions import Scalar
from nlink.scalars.lookup import LookupTable
from nlink.simulation.splines import CELLS, Segments, Spline, cells_of, second_derivatives
from nlink.simulation.trajectories import at_times

if TYPE_CHECKING:
    from nlink.robot import Robot
    from nlink.simulation.trajectories import Motion

Array = np.ndarray
FEWEST_INTERVALS = 800
"""Intervals of a path, at least."""
TURN = 0.02
"""How far (rad) the direction of q' may turn on an interval."""
MOST_PARTS = 64
"""Intervals between two configurations, at most, unless there are very few of these."""
SPARE = 1e-4
"""The share of the duration that a joined interval may lose."""
EXCESS = 0.2
"""How far a joined interval may pass a limit before it is timed anew."""
MOST_LOSS = 0.009
"""The share of the duration that all joined intervals may lose."""
DROP = 16.0
"""How many times smaller x may become on an interval, so that no motion stops halfway."""
TANGENTS = 4
"""How often viscous friction, a root of x, is replaced by a tangent at the motion found last."""
SAMPLES = 7
"""Points of an interval at which efforts are measured in the end."""


@dataclass(frozen=True, eq=False)
class PathTiming:
    """The motion q(s(t)) along a spline over s, with a constant sddot between times t.

    `x` is sdot^2 at lengths `s`, which are reached at times `t`; before the first and after the
    last of them the motion rests.
    """

    path: Spline
    s: Array
    x: Array
    t: Array = field(init=False)
    _tables: tuple[Any, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        t, v, u = _times(self.s, self.x), np.sqrt(self.x), np.diff(self.x) / (2 * np.diff(self.s))
        object.__setattr__(self, "t", t)
        object.__setattr__(self, "_tables", (Segments(t), *(LookupTable(column) for column in (
            np.r_[self.s[0], self.s], np.r_[0.0, v[:-1], 0.0], np.r_[0.0, u, 0.0]))))

    @property
    def duration(self) -> float:
        return float(self.t[-1])

    @property
    def times(self) -> Array:
        """When each waypoint of the path is passed."""
        s = self.path.t
        k = np.clip(np.searchsorted(self.s, s), 1, len(self.s) - 1) - 1
        v = np.sqrt(self.x[k]) + np.sqrt(np.interp(s, self.s, self.x))
        return self.t[k] + np.divide(2 * (s - self.s[k]), v, out=np.zeros(len(s)), where=v > 0)

    def __call__(self, t: Scalar) -> Motion:
        """q, qd and qdd at a time; at an array of times, arrays (times, n)."""
        if isinstance(t, np.ndarray) and t.ndim:
            return at_times(self, t)
        segments, *tables = self._tables
        k, since = segments.locate(t)
        s, v, u = (table(k) for table in tables)
        s, v = s + since * (v + since * (0.5 * u)), v + since * u
        q, slope, bend = self.path(s)
        return (q, tuple(a * v for a in slope),
                tuple(a * u + b * (v * v) for a, b in zip(slope, bend, strict=True)))


def time_along(robot: Robot, q: Array, velocity: ArrayLike | None, acceleration: ArrayLike | None,
               effort: ArrayLike | None) -> PathTiming:
    """The fastest motion through configurations (k, n), from rest to rest."""
    fast = _bounds("velocity", velocity, robot.limits.velocity, robot.n)
    quick = _bounds("acceleration", acceleration, np.full(robot.n, np.inf), robot.n)
    strong = _bounds("effort", effort, robot.limits.effort, robot.n)
    if not np.isfinite(np.minimum(quick, strong)).all():
        loose = [name for name, bound in zip(robot.qd_names, np.minimum(quick, strong),
                                             strict=True) if not np.isfinite(bound)]
        raise ValueError(f"acceleration: no limit, nor one of effort, for {', '.join(loose)}, "
                         "expected one for each joint")
    knots = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(q, axis=0), axis=1)))
    path = Spline(knots, q, "clamped", np.stack([_end_slope(knots[:4], q[:4]),
                                                 _end_slope(knots[:-5:-1], q[:-5:-1])]))
    most_parts = MOST_PARTS
    while True:
        intervals = Intervals.of(path, most_parts)
        ends, x = _fastest(robot, intervals, fast, quick, strong)
        x = _slowed(robot, intervals, strong, x)
        timing = intervals.s[ends], x[ends]
        # times that differ too much for their table need coarser intervals
        if cells_of(_times(*timing)) <= CELLS or most_parts == 1:
            return PathTiming(path, *timing)
        most_parts = max(1, most_parts // 4)


def _end_slope(s: Array, q: Array) -> Array:
    """The slope at the first of up to four points of the polynomial through them."""
    # differences q[s_0, ..., s_k], times the slope of (s - s_0) ... (s - s_k-1) at s_0
    slope, factor, differences = np.zeros(q.shape[1]), 1.0, q
    for k in range(1, len(s)):
        differences = np.diff(differences, axis=0) / (s[k:] - s[:-k])[:, None]
        slope = slope + factor * differences[0]
        factor *= s[0] - s[k]
    return slope


def _times(s: Array, x: Array) -> Array:
    """When lengths s are reached, with x linear between them."""
    v = np.sqrt(x)
    return np.append(0.0, np.cumsum(2 * np.diff(s) / (v[1:] + v[:-1])))


def _bounds(name: str, given: ArrayLike | None, own: Array, n: int) -> Array:
    if given is None:
        return own
    bound = np.asarray(given, dtype=float)
    if bound.shape not in ((), (n,)) or not (bound > 0).all():
        raise ValueError(f"{name}: {given!r:.80}, expected a positive number, or {n} of them")
    return np.broadcast_to(bound, (n,))


@dataclass(frozen=True, eq=False)
class Intervals:
    """A spline q(s), cut at s into intervals on which u is constant.

    Coefficients are those of the powers of s - s_k, (4, intervals, n), for the whole interval.
    """

    s: Array
    ds: Array
    coefficients: Array

    @classmethod
    def of(cls, path: Spline, most_parts: int) -> Intervals:
        """The spline's pieces in equal parts: more of them where it bends more."""
        knots, q = path.t, path.q
        h, m = np.diff(knots), second_derivatives(knots, q, path.ends, path.rates)
        bend = np.linalg.norm(m, axis=1)
        least = math.ceil(FEWEST_INTERVALS / len(h))
        parts = np.ceil(h * np.maximum(bend[1:], bend[:-1]) / TURN).astype(int)
        parts = np.minimum(np.maximum(parts, least), max(most_parts, least))
        piece = np.repeat(np.arange(len(h)), parts)
        share = np.concatenate([np.arange(count) / count for count in parts])
        y, h = share[:, None] * h[piece][:, None], h[:, None]
        a, b, c, d = (part[piece] for part in (
            q[:-1], np.diff(q, axis=0) / h - h * (2 * m[:-1] + m[1:]) / 6, m[:-1] / 2,
            np.diff(m, axis=0) / (6 * h)))
        moved = np.array([a + y * (b + y * (c + y * d)), b + y * (2 * c + y * 3 * d), c + 3 * d * y,
                          d])
        s = np.append(knots[piece] + y[:, 0], knots[-1])
        return cls(s, np.diff(s), moved)

    def at(self, share: float) -> tuple[Array, Array, Array]:
        """q, q' and q'' at a share of each interval."""
        a, b, c, d = self.coefficients
        y = share * self.ds[:, None]
        return (a + y * (b + y * (c + y * d)), b + y * (2 * c + y * 3 * d), 2 * c + 6 * d * y)


def _parabola(start: Array, middle: Array, end: Array) -> Array:
    """The Bernstein coefficients of the parabola through three values."""
    return np.stack([start, 2 * middle - 0.5 * (start + end), end])


def _product(p: Array, r: Array) -> Array:
    """The Bernstein coefficients of a product, from those of its factors along the first axis."""
    m, n = len(p) - 1, len(r) - 1
    c = [np.zeros(np.broadcast_shapes(p.shape[1:], r.shape[1:])) for _ in range(m + n + 1)]
    for i in range(m + 1):
        for j in range(n + 1):
            c[i + j] += math.comb(m, i) * math.comb(n, j) / math.comb(m + n, i + j) * (p[i] * r[j])
    return np.stack(c)


def _rows(ds: Array, a: Array, b: Array, limit: Array) -> Array:
    """(intervals, rows, 2): rows @ (x_k, x_k+1) <= 1, so that a u + b x <= limit on all intervals.

    a, b, limit: Bernstein coefficients (3, intervals, joints).
    """
    u = np.stack([-1 / (2 * ds), 1 / (2 * ds)], -1)[:, None, :]
    x = np.eye(2)[:, None, None, :]
    one = np.ones((2, 1, 1))
    rows = _product(one, a)[..., None] * u + _product(b[..., None], x)
    rows = rows / _product(one, limit)[..., None]
    return np.moveaxis(rows, 0, 1).reshape(len(ds), -1, 2)


def _fastest(robot: Robot, intervals: Intervals, fast: Array, quick: Array, strong: Array,
             ) -> tuple[Array, Array]:
    """The points at which u changes, and x at the ends of all intervals, as large as the limits
    allow."""
    s, ds = intervals.s, intervals.ds
    places = [intervals.at(share) for share in (0.0, 0.5, 1.0)]
    _, slope, bend = (_parabola(*parts) for parts in zip(*places, strict=True))
    ceiling = _ceiling(slope, fast)
    k = np.isfinite(quick)
    limit = np.broadcast_to(quick[k], slope[..., k].shape)
    rows = [_rows(ds, sign * slope[..., k], sign * bend[..., k], limit) for sign in (1, -1)]
    if not np.isfinite(strong).any():
        return _merged(s, np.concatenate(rows, axis=1), ceiling)
    efforts = Efforts.along(robot, places, strong)
    profiles, x = [], None
    for _ in range(TANGENTS if efforts.viscous.any() else 1):
        ends, x = _merged(s, np.concatenate([*rows, *efforts.rows(ds, ceiling, x)], axis=1),
                          ceiling)
        profiles.append((ends, x))
    return min(profiles, key=lambda profile: _times(s, profile[1])[-1])


def _merged(s: Array, rows: Array, ceiling: Array) -> tuple[Array, Array]:
    """The fastest motion, but with few changes of u: the points at which u changes, and x at all
    points.

    Each change costs an integrator of the motion many short steps. So neighbouring intervals are
    joined while that costs little time, and x is found once more, within the limits of all parts.
    """
    rates = np.eye(2) / np.stack([ceiling[:-1], ceiling[1:]], -1)[..., None]
    rows = np.concatenate([rows, rates], axis=1)
    x = _profile(list(rows), ceiling)
    t = _times(s, x)
    for spare in t[-1] * SPARE / 2.0 ** np.arange(8):
        ends = _joined(s, rows, x, t, spare)
        joined = []
        for i, j in pairwise(ends):
            share = (s[i:j + 1] - s[i]) / (s[j] - s[i])
            line = np.stack([1 - share, share], -1)
            joined.append((rows[i:j] @ np.stack([line[:-1], line[1:]], 1)).reshape(-1, 2))
        fewer = np.interp(s, s[ends], _profile(joined, ceiling[ends]))
        if _times(s, fewer)[-1] <= (1 + MOST_LOSS) * t[-1]:
            return ends, fewer
    return np.arange(len(s)), x


def _joined(s: Array, rows: Array, x: Array, t: Array, spare: float) -> Array:
    """The ends of joined intervals, each as long as `spare` seconds allow."""
    ends = [0]
    while ends[-1] < len(s) - 1:
        i = ends[-1]
        j = i + 1
        while j < len(s) - 1 and _fits(s[i:j + 2], rows[i:j + 1], x[i:j + 2], t[i:j + 2], spare):
            j += 1
        ends.append(j)
    return np.array(ends)


def _fits(s: Array, rows: Array, x: Array, t: Array, spare: float) -> bool:
    """Whether a line from the first x to the last loses no more time than is to spare."""
    if x[0] + x[-1] <= 0:
        return False
    line = x[0] + (x[-1] - x[0]) * (s - s[0]) / (s[-1] - s[0])
    longer = 2 * (s[-1] - s[0]) / (math.sqrt(x[0]) + math.sqrt(x[-1]))
    if longer - (t[-1] - t[0]) > spare:
        return False
    excess = max((rows @ np.stack([line[:-1], line[1:]], -1)[..., None]).max() - 1, 0.0)
    return excess <= EXCESS and max(longer - (t[-1] - t[0]), 0.0) + 0.5 * excess * longer <= spare


def _ceiling(slope: Array, fast: Array) -> Array:
    """The largest x at the ends of intervals that limits of rates allow: x, linear between them,
    keeps (q' / fast)^2 x <= 1 on all intervals."""
    squares = _product(slope / fast, slope / fast).max(axis=-1)
    used = np.append(squares[0], squares[-1, -1])
    ceiling = 1 / np.maximum(used, 1e-12)
    # where one joint turns round the limit has a peak, which a line cannot follow
    for k in range(1, len(ceiling)):
        ceiling[k] = min(ceiling[k], 4 * ceiling[k - 1])
    for k in range(len(ceiling) - 1, 0, -1):
        ceiling[k - 1] = min(ceiling[k - 1], 4 * ceiling[k])
    line = np.stack([ceiling[:-1], ceiling[1:]])
    excess = np.maximum(_product(squares, line).max(axis=0), 1.0)
    return ceiling / np.maximum(np.append(1.0, excess), np.append(excess, 1.0))


@dataclass(frozen=True, eq=False)
class Efforts:
    """tau = a u + b x + g + friction at the starts, middles and ends of intervals, (3, k, n), of
    the joints that have limits of effort."""

    a: Array
    b: Array
    g: Array
    slope: Array
    viscous: Array
    dry: tuple[Array, Array]
    """The least and the largest dry friction of a joint that moves."""
    strong: Array

    @classmethod
    def along(cls, robot: Robot, places: list[tuple[Array, Array, Array]], strong: Array,
              ) -> Efforts:
        tree = robot.with_friction(viscous=0.0, dry=0.0)
        found = []
        for q, slope, bend in places:
            rest = np.zeros_like(q)
            g = tree.inverse_dynamics(q, rest, rest)
            found.append((tree.inverse_dynamics(q, rest, slope) - g,
                          tree.inverse_dynamics(q, slope, bend) - g, g, slope))
        limited = np.isfinite(strong)
        a, b, g, slope = (np.array(part)[..., limited] for part in zip(*found, strict=True))
        joints = robot.mechanism.joints
        viscous, least, excess = (np.array([x for joint in joints for x in getattr(joint, name)],
                                           dtype=float)[limited]
                                  for name in ("viscous", "coulomb", "excess"))
        return cls(a, b, g, slope, viscous, (least, least + excess), strong[limited])

    def rows(self, ds: Array, ceiling: Array, last: Array | None) -> list[Array]:
        """The rows of both limits; `last` is x of the motion that was found last.

        Friction enters by a bound that is linear in x: against the motion by a tangent of sqrt(x),
        with it by a secant that lies below.
        """
        moves = (np.abs(self.slope) > 1e-9).all(axis=0)
        one_way = moves & (np.abs(np.sign(self.slope).sum(axis=0)) == 3)
        way = np.where(one_way, np.sign(self.slope[1]), 0.0)
        # at rest there is no friction to help
        helps = np.abs(way) * np.r_[0.0, np.ones(max(len(ds) - 2, 0)), 0.0][:len(ds), None]
        drag = self.viscous * np.where(one_way, np.abs(self.slope), np.abs(self.slope).max(axis=0))
        top = np.sqrt(np.maximum(ceiling[1:], ceiling[:-1]))[:, None]
        found = []
        for sign in (1.0, -1.0):
            against = way != -sign
            dry = np.where(against, self.dry[1], -self.dry[0] * helps)
            room = self.strong - sign * self.g - dry
            if (room <= 0).any():
                raise ValueError("effort: less than gravity asks for somewhere along the path, "
                                 "expected enough to hold still")
            touch = np.min(room / np.maximum(drag, 1e-100 * room), axis=0)
            if last is not None:
                touch = np.minimum(touch, np.sqrt(0.5 * (last[1:] + last[:-1]))[:, None])
            else:
                touch = np.minimum(touch, top)
            rise = np.where(against, drag / (2 * touch), -drag * helps / top)
            limit = room - np.where(against, 0.5 * drag * touch, 0.0)
            found.append(_rows(ds, _parabola(*(sign * self.a)), _parabola(*(sign * self.b + rise)),
                               _parabola(*limit)))
        return found


def _profile(rows: list[Array], ceiling: Array) -> Array:
    """x at every point: backwards what can still stop, forwards the fastest below it."""
    most = np.zeros(len(ceiling))
    programs = []
    for k in reversed(range(len(rows))):
        # rows without a positive number hold for all x
        row = rows[k][(rows[k] > 0).any(axis=1)]
        programs.append(StepProgram.of(row, most[k + 1], DROP if k < len(rows) - 1 else math.inf))
        most[k] = programs[-1].largest(ceiling[k])
    x = np.zeros(len(ceiling))
    for k, program in enumerate(reversed(programs)):
        x[k + 1] = program.reach(x[k])[0]
    if not (x[1:-1] > 0).all():
        raise ValueError("waypoints: the limits leave no way to pass a point of the path, "
                         "expected larger limits or a smoother path")
    # what rounding has left
    return x / max(1.0, *(float((row @ x[k:k + 2]).max()) for k, row in enumerate(rows)))


@dataclass(frozen=True, eq=False)
class StepProgram:
    """What an interval allows: x_k+1 below all of the lines `above`, over all of `below`, and x_k
    at most `end`. Lines are (value at 0, slope) over x_k."""

    above: tuple[Array, Array]
    below: tuple[Array, Array]
    end: float

    @classmethod
    def of(cls, rows: Array, most: float, drop: float) -> StepProgram:
        """The program of rows @ (x_k, x_k+1) <= 1 and x_k / drop <= x_k+1 <= most."""
        p, r = rows.T
        up, down, flat = r > 0, r < 0, r == 0
        above = np.append(1 / r[up], most), np.append(-p[up] / r[up], 0.0)
        below = np.append(1 / r[down], 0.0), np.append(-p[down] / r[down], 1 / drop)
        return cls(above, below, 1 / np.max(p[flat], initial=1e-300))

    def reach(self, x: float) -> tuple[float, float]:
        """The largest x_k+1 for x_k, and its slope over x_k."""
        value, slope = self.above
        lines = value + slope * x
        i = int(np.argmin(lines))
        return float(lines[i]), float(slope[i])

    def largest(self, ceiling: float) -> float:
        """The largest x_k, at most `ceiling`, for which there is an x_k+1.

        The room between the lines is concave over x_k, and not negative at 0, so Newton's steps
        from the right come down to its end, from one line to the next.
        """
        value, slope = self.below
        steep = slope > 0
        x = min(ceiling, self.end, float(np.min((self.above[0][-1] - value[steep]) / slope[steep],
                                                initial=math.inf)))
        for _ in range(len(value) + len(self.above[0])):
            high, rise = self.reach(x)
            lines = value + slope * x
            j = int(np.argmax(lines))
            room, change = high - float(lines[j]), rise - float(slope[j])
            if room >= 0 or change >= 0:
                break
            lower = x - room / change
            if not 0 <= lower < x:
                break
            x = lower
        return x


def _slowed(robot: Robot, intervals: Intervals, strong: Array, x: Array) -> Array:
    """x, lowered everywhere by one factor so that efforts keep their limits between the values that
    parabolas go through."""
    limited = np.isfinite(strong)
    if not limited.any():
        return x
    tree = robot.with_friction(viscous=0.0, dry=0.0)
    places = [intervals.at(share) for share in np.linspace(0, 1, SAMPLES)]
    q, slope, bend = (np.array(part) for part in zip(*places, strict=True))
    rest = np.zeros_like(q)
    g = tree.inverse_dynamics(q, rest, rest)
    peak = np.array([a + b for joint in robot.mechanism.joints
                     for a, b in zip(joint.coulomb, joint.excess, strict=True)], dtype=float)
    share = np.linspace(0, 1, SAMPLES)[:, None]
    for _ in range(20):
        here = ((1 - share) * x[:-1] + share * x[1:])[..., None]
        u = (np.diff(x) / (2 * intervals.ds))[:, None]
        tau = robot.inverse_dynamics(q, slope * np.sqrt(here), slope * u + bend * here)
        worst = max(float(np.max(((sign * (tau - g) - against) / (strong - sign * g - against))
                                 [..., limited]))
                    for sign in (1, -1) for against in [np.where(sign * slope > 0, peak, 0.0)])
        if worst <= 1 + 1e-9:
            return x
        x = x / (worst * (1 + 1e-12))
    raise ValueError("waypoints: no time was found in which the limits hold, expected a smoother "
                     "path or larger limits")
