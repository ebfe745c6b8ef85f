"""Constrained dynamics by a dense solve in NumPy, from the open tree alone.

Nothing here is nlink's own text of closures. A loop is written as scalar equations between
vectors fixed in its two frames, in world axes:

    u_a . u_b = const        (directions),
    u_b . (p_a - p_b) = 0    (places),
    m_b . w + f_b . v = 0    (velocities of a seen from b, docs/closed-chains.md),

and differentiated twice by hand. Its rows span what nlink's rows span, but are others, so only
accelerations, wrenches and subspaces can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nlink import Robot

Array = np.ndarray
X, Y, Z = np.eye(3)
NOTHING = np.zeros(3)


@dataclass
class End:
    """How a frame moves when qdd = 0: pose, twist and accelerations, and its Jacobian."""

    R: Array
    p: Array
    w: Array
    v: Array
    wd: Array
    a: Array
    J: Array


@dataclass
class Row:
    """A unit wrench on frame a about its origin, the acceleration at qdd = 0, and how far open."""

    wrench: Array
    gamma: float
    error: float


def direction(a: End, b: End, ua: Array, ub: Array) -> Row:
    """u_a . u_b = 0 of a vector in either frame."""
    ua, ub = a.R @ ua, b.R @ ub
    da, db = np.cross(a.w, ua), np.cross(b.w, ub)
    dda = np.cross(a.wd, ua) + np.cross(a.w, da)
    ddb = np.cross(b.wd, ub) + np.cross(b.w, db)
    return Row(np.r_[np.cross(ua, ub), NOTHING], dda @ ub + 2 * da @ db + ua @ ddb, ua @ ub)


def place(a: End, b: End, ub: Array) -> Row:
    """u_b . (p_a - p_b) = 0 of a vector in b."""
    ub = b.R @ ub
    r, dr, ddr = a.p - b.p, a.v - b.v, a.a - b.a
    db = np.cross(b.w, ub)
    ddb = np.cross(b.wd, ub) + np.cross(b.w, db)
    return Row(np.r_[NOTHING, ub], ddb @ r + 2 * db @ dr + ub @ ddr, ub @ r)


def velocity(a: End, b: End, m: Array, f: Array) -> Row:
    """m_b . w + f_b . v = 0 of vectors in b: Q (V_a - V_oa), and gamma with it."""
    m, f, r = b.R @ m, b.R @ f, a.p - b.p
    w, v = a.w - b.w, a.v - b.v - np.cross(b.w, r)
    rate = (m @ (a.wd - b.wd) + np.cross(b.w, m) @ w + np.cross(b.w, f) @ v
            + f @ (a.a - b.a - np.cross(b.wd, r) - np.cross(b.w, a.v - b.v)))
    return Row(np.r_[m, f], rate, 0.0)


def distance(a: End, b: End, length: float) -> Row:
    """(|p_a - p_b|^2 - length^2) / 2 = 0."""
    r, dr, ddr = a.p - b.p, a.v - b.v, a.a - b.a
    return Row(np.r_[NOTHING, r], ddr @ r + dr @ dr, (r @ r - length**2) / 2)


def rows_of(constraint, a: End, b: End) -> list[Row]:
    """What a loop of each type forbids."""
    point = [place(a, b, u) for u in (X, Y, Z)]
    axis = [direction(a, b, Z, X), direction(a, b, Z, Y)]
    whole = [*axis, direction(a, b, X, Y)]
    match constraint.name:
        case "fixed":
            return whole + point
        case "revolute":
            return axis + point
        case "prismatic":
            return whole + point[:2]
        case "cylindrical":
            return axis + point[:2]
        case "helical":
            return [*axis, *point[:2], velocity(a, b, -constraint.pitch * Z, Z)]
        case "universal":
            return [direction(a, b, X, Z), *point]
        case "planar":
            return [*axis, point[2]]
        case "spherical":
            return point
        case "soft_finger":
            return [velocity(a, b, Z, NOTHING), *point]
        case "distance":
            return [distance(a, b, constraint.length)]
        case "matrix":
            return [velocity(a, b, np.array(row[:3]), np.array(row[3:]))
                    for row in constraint.matrix]
    raise AssertionError(constraint.name)


class Dense:
    """The closed mechanism of a robot, by its tree and dense matrices."""

    def __init__(self, robot: Robot, engine: str = "python") -> None:
        d = robot.description
        ends = [end for loop in d.loops for end in (loop.of, loop.on)]
        named = tuple(replace(end, name=f"end {k}") for k, end in enumerate(ends))
        self.tree = Robot(replace(d, loops=(), gears=(), frames=(*d.frames, *named),
                                  physical="ignore"))
        self.loops, self.gears, self.engine = d.loops, d.gears, engine

    def rows(self, q: Array, qd: Array) -> tuple[Array, Array, Array, list[Array]]:
        """J, Jdot qd, errors, and for each loop its unit wrenches on a (6, rows)."""
        Js, gammas, errors, wrenches = [], [], [], []
        for k, loop in enumerate(self.loops):
            a, b = (self._end(f"end {2 * k + i}", q, qd) for i in range(2))
            rows = rows_of(loop.constraint, a, b)
            W = np.array([row.wrench for row in rows])
            r = a.p - b.p
            at_a = b.J.copy()
            at_a[3:] += np.cross(b.J[:3].T, r).T
            Js.append(W @ (a.J - at_a))
            gammas += [row.gamma for row in rows]
            errors += [row.error for row in rows]
            wrenches.append(W.T)
        for gear in self.gears:
            row = np.array([gear.ratios.get(name, 0.0) for name in self.tree.qd_names])
            places = [self.tree.q_names.index(name) for name in gear.ratios]
            Js.append(row[None])
            gammas.append(0.0)
            errors.append(list(gear.ratios.values()) @ q[places] - gear.offset)
            wrenches.append(-np.eye(6)[:, :1])  # its force stands for a wrench
        return np.vstack(Js), np.array(gammas), np.array(errors), wrenches

    def _end(self, name: str, q: Array, qd: Array) -> End:
        tree, how = self.tree, {"engine": self.engine}
        T, J = tree.pose(q, name, **how), tree.jacobian(q, name, **how)
        twist, change = J @ qd, tree.jacobian_dot_qd(q, qd, name, **how)
        return End(T[:3, :3], T[:3, 3], twist[:3], twist[3:], change[:3], change[3:], J)

    def closed_rates(self, q: Array, qd: Array) -> Array:
        """The nearest rates that leave the loops closed."""
        J = self.rows(q, qd)[0]
        return qd - np.linalg.pinv(J, rcond=1e-10) @ (J @ qd)

    def solve(self, q: Array, qd: Array, tau: Array, f_ext: Array | None = None,
              ) -> tuple[Array, list[Array], Array]:
        """qdd, the wrench in each loop (of `of` on `on`) and J; least squares where redundant."""
        tree, n = self.tree, self.tree.n
        J, gamma, _, wrenches = self.rows(q, qd)
        M = tree.mass_matrix(q, engine=self.engine)
        h = tree.inverse_dynamics(q, qd, np.zeros(n), f_ext, engine=self.engine)
        K = np.block([[M, J.T], [J, np.zeros((len(J), len(J)))]])
        d = np.r_[1 / np.sqrt(np.diag(M)), np.ones(len(J))]
        rhs = d * np.r_[tau - h, -gamma]
        scaled = d[:, None] * K * d
        rank = np.linalg.matrix_rank(J, tol=1e-9 * np.abs(J).max())
        if rank == len(J):
            x = np.linalg.solve(scaled, rhs)
            x += np.linalg.solve(scaled, rhs - scaled @ x)
        else:
            x = np.linalg.lstsq(scaled, rhs, rcond=1e-11)[0]
        x, forces, at = d * x, [], 0
        for W in wrenches:  # M qdd + J^T (-lambda) = tau - h, so x holds -lambda: what a does to b
            forces.append(W @ x[n + at:n + at + W.shape[1]])
            at += W.shape[1]
        return x[:n], forces, J


def relative(x: Array, y: Array) -> float:
    """The largest difference, of the largest number."""
    return float(np.abs(np.asarray(x) - y).max() / max(np.abs(y).max(), 1e-3))
