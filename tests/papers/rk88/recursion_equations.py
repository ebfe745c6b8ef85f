"""The equations of [RK88] between links: Newton-Euler, and the state-space forms.

"Link k + 1" is the parent of body k here, "link k - 1" any of its children.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from operator_equations import I, Sides, equation
from rk88_cases import Case

from nlink.papers.operators.origins import tilde


def parent_of(c: Case, x: np.ndarray, k: int) -> np.ndarray:
    """A row of a per-body array at the parent; zero at the base."""
    return x[c.o.parents[k] - 1] if c.o.parents[k] else np.zeros_like(x[0])


def inward(c: Case, step: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
    """rows(k) = step(k, sum of phi(k, child) rows(child)), tip to base."""
    rows, below = np.zeros((c.o.n, 6)), np.zeros((c.o.n, 6))
    for k in reversed(range(c.o.n)):
        rows[k] = step(k, below[k])
        if c.o.parents[k]:
            below[c.o.parents[k] - 1] += c.o.Delta_phi.blocks[k] @ rows[k]
    return rows


def per_joint(c: Case, x: np.ndarray) -> list[np.ndarray]:
    """A vector of rates, or joint forces, cut into joints."""
    return np.split(x, np.cumsum([len(H) for H in c.o.links.H])[:-1])


@equation("2.17", "2.25", "3.11", "3.12")
def velocities(c: Case) -> Sides:
    o, V, qd = c.o, c.parts(c.o.V), per_joint(c, c.qd)
    return V, np.array([o.Delta_phi.blocks[k].T @ parent_of(c, V, k) + o.H.blocks[k].T @ qd[k]
                        for k in range(o.n)])


@equation("2.2", "2.3")
def velocities_are_those_of_frames(c: Case) -> Sides:
    """The twist of each of the author's links, from its body, and by the robot's Jacobian."""
    V = c.parts(c.o.V)
    rows, expected = [], []
    for number, link in enumerate(c.robot.mechanism.links):
        if link.body:
            d = c.o.point(link) - c.o.links.origin[link.body - 1]
            w = V[link.body - 1, :3]
            rows.append(np.concatenate([w, V[link.body - 1, 3:] + np.cross(w, d)]))
            expected.append(c.robot.jacobian(c.q, number, engine="python") @ c.qd)
    return np.array(rows), np.array(expected)


@equation("2.18", "2.26", "3.14", "3.15")
def accelerations(c: Case) -> Sides:
    o, alpha, a, qdd = c.o, c.parts(c.o.alpha(c.qdd)), c.parts(c.o.a), per_joint(c, c.qdd)
    return alpha, np.array([o.Delta_phi.blocks[k].T @ parent_of(c, alpha, k)
                            + o.H.blocks[k].T @ qdd[k] + a[k] for k in range(o.n)])


@equation("2.4", "2.5", "2.7", "2.27")
def accelerations_are_those_of_frames(c: Case) -> Sides:
    """alpha(0) = B^T alpha + a(0) for every link as the tip, against J qdd + Jdot qd."""
    alpha, rows, expected = c.o.alpha(c.qdd), [], []
    for number, link in enumerate(c.robot.mechanism.links):
        rows.append(c.o.tip(link).T @ alpha + c.o.a_tip(link))
        J = c.robot.jacobian(c.q, number, engine="python")
        expected.append(J @ c.qdd + c.robot.jacobian_dot_qd(c.q, c.qd, number, engine="python"))
    return np.array(rows), np.array(expected)


@equation("2.19", "2.31", "2.32")
def bias_accelerations(c: Case) -> Sides:
    """Of hinges and slides with O(k) on the joint; 2 h theta' for a slide, by the erratum."""
    o, rows, expected = c.o, [], []
    if o.points == "joints":
        for k, joint in enumerate(c.robot.mechanism.joints):
            if joint.type.name in ("revolute", "prismatic"):
                w = parent_of(c, o.links.w, k)
                below = o.links.origin[o.parents[k] - 1] if o.parents[k] else o.links.base
                rate = o.H.blocks[k][0] * per_joint(c, c.qd)[k]
                turn = np.cross(w, rate[:3])
                shift = np.cross(w, np.cross(w, o.links.origin[k] - below) + 2 * rate[3:])
                rows.append(c.parts(o.a)[k])
                expected.append(np.concatenate([turn, shift]))
    return np.array(rows), np.array(expected)


def _newton_euler(c: Case) -> tuple[np.ndarray, np.ndarray]:
    """(N^c, F^c) of each body about its mass centre (2.6), (2.9), (2.10), and p(k)."""
    o, alpha = c.o, c.parts(c.o.alpha(c.qdd))
    w, wd = o.links.w, alpha[:, :3]
    wrenches, arms = [], []
    for k in range(o.n):
        m = o.M.blocks[k][3, 3]
        p = _axial(o.M.blocks[k][:3, 3:] / m)
        I_c = o.M.blocks[k][:3, :3] + m * tilde(p) @ tilde(p)
        a_c = alpha[k, 3:] + np.cross(wd[k], p) + np.cross(w[k], np.cross(w[k], p))
        wrenches.append(np.concatenate([I_c @ wd[k] + np.cross(w[k], I_c @ w[k]), m * a_c]))
        arms.append(p)
    return np.array(wrenches), np.array(arms)


def _axial(x: np.ndarray) -> np.ndarray:
    return np.array([x[2, 1], x[0, 2], x[1, 0]])


@equation("2.6", "2.9", "2.10", "2.15", "2.21", "2.23")
def forces_about_origins(c: Case) -> Sides:
    """[1 p~; 0 1] (N^c, F^c) = M alpha + b."""
    about, p = _newton_euler(c)
    moved = np.hstack([about[:, :3] + np.cross(p, about[:, 3:]), about[:, 3:]])
    return c.parts(c.o.M @ c.o.alpha(c.qdd) + c.o.b), moved


@equation("2.11", "2.12", "2.20", "2.22", "2.29", "3.16", "3.17")
def joint_reactions(c: Case) -> Sides:
    """f(k) = sum phi f(child) + M alpha + b, f(0) at the tip, is phi (M alpha + b + B f(0))."""
    o = c.o
    load = c.parts(o.M @ o.alpha(c.qdd) + o.b + o.B @ c.f0)
    return o.phi @ load.reshape(-1), inward(c, lambda k, below: below + load[k]).reshape(-1)


def _torque(c: Case) -> np.ndarray:
    return c.robot.inverse_dynamics(c.q, c.qd, c.qdd, f_ext=c.f_ext, engine="python")


@equation("2.13", "2.30", "3.18", "3.19", "3.21")
def joint_forces(c: Case) -> Sides:
    """T = H phi [M phi^T (H^T theta'' + a + E g) + b + B f(0)]."""
    o = c.o
    alpha = o.phi.T @ (o.H.T @ c.qdd + o.a_g)
    return o.H @ (o.phi @ (o.M @ alpha + o.b + o.B @ c.f0)), _torque(c)


@equation("3.20", "3.22", "3.23")
def equations_of_motion(c: Case) -> Sides:
    """T = mass theta'' + C + J^T f(0)."""
    return c.o.mass @ c.qdd + c.o.C + c.o.J.T @ c.f0, _torque(c)


@equation("2.14")
def mass_operator_is_the_mass_matrix(c: Case) -> Sides:
    return c.o.mass, c.robot.mass_matrix(c.q, engine="python")


@equation("J' theta'")
def jacobian_rate(c: Case) -> Sides:
    """B^T phi^T a + a(0), with a free of gravity."""
    o = c.o
    expected = c.robot.jacobian_dot_qd(c.q, c.qd, engine="python")
    return o.B.T @ (o.phi.T @ o.a) + o.a_tip(), expected


@equation("2.16", "3.1", "3.2", "3.3", "3.4")
def transition(c: Case) -> Sides:
    """Block (i, j) of phi is [1 l~(i, j); 0 1] for a body j at or beyond i, and zero elsewhere."""
    o = c.o
    blocks = np.zeros((o.n, o.n, 6, 6))
    for i in range(o.n):
        for j in range(o.n):
            if o.beyond(i + 1, j + 1):
                blocks[i, j] = np.eye(6)
                blocks[i, j, :3, 3:] = tilde(o.links.origin[j] - o.links.origin[i])
    return o.phi, blocks.transpose(0, 2, 1, 3).reshape(6 * o.n, 6 * o.n)


@equation("4.7", "4.10", "5.1")
def articulated_transition(c: Case) -> Sides:
    """Block (i, j) of psi is the product of phi - L H along the way from j to i."""
    o = c.o
    blocks = np.zeros((o.n, o.n, 6, 6))
    for j in range(o.n):
        step, i = np.eye(6), j
        blocks[j, j] = step
        while o.parents[i]:
            step = (o.Delta_phi.blocks[i] - o.L.blocks[i] @ o.H.blocks[i]) @ step
            i = o.parents[i] - 1
            blocks[i, j] = step
    return o.psi, blocks.transpose(0, 2, 1, 3).reshape(6 * o.n, 6 * o.n)


@equation("3.7", "3.8")
def where_tip_and_base_enter(c: Case) -> Sides:
    """E a0 shifts the base's acceleration; B^T V is the tip's velocity."""
    o, n = c.o, c.o.n
    base = np.arange(1.0, 7.0)
    expected = np.zeros((n, 6))
    for k, parent in enumerate(o.parents):
        if not parent:
            l = o.links.origin[k] - o.links.base
            expected[k] = np.concatenate([base[:3], base[3:] + np.cross(base[:3], l)])
    tip = c.robot.jacobian(c.q, engine="python") @ c.qd
    return (np.concatenate([o.E @ base, o.B.T @ o.V]),
            np.concatenate([expected.reshape(-1), tip]))


@equation("4.1", "4.3")
def model(c: Case) -> Sides:
    """y = H phi w as z(k) = sum phi z(child) + w(k), y = H z."""
    w = np.linspace(-1, 1, 6 * c.o.n)
    z = inward(c, lambda k, below: below + c.parts(w)[k])
    return c.o.H @ (c.o.phi @ w), c.o.H @ z.reshape(-1)


@equation("4.4", "4.5", "4.6", "4.8")
def riccati(c: Case) -> Sides:
    """P(k) from its children by the Riccati equation, run to the base (erratum: to N)."""
    o = c.o
    P = list(o.links.M)
    for k in reversed(range(o.n)):
        H, phi = o.H.blocks[k], o.Delta_phi.blocks[k]
        left = P[k] - P[k] @ H.T @ np.linalg.inv(H @ P[k] @ H.T) @ H @ P[k]
        if o.parents[k]:
            P[o.parents[k] - 1] = P[o.parents[k] - 1] + phi @ left @ phi.T
    return np.array(o.P.blocks), np.array(P)


def _filtered(c: Case, y: np.ndarray, whitened: bool) -> tuple[np.ndarray, np.ndarray]:
    """(4.15) from y to epsilon, or (4.13) from epsilon to y: one recursion solved two ways."""
    o, parts, out = c.o, per_joint(c, y), []

    def step(k: int, z: np.ndarray) -> np.ndarray:
        given, Hz = parts[k], o.H.blocks[k] @ z
        out.append(given - Hz if whitened else given + Hz)
        return z + o.G.blocks[k] @ (out[-1] if whitened else given)

    z = inward(c, step)
    return np.concatenate(out[::-1]), z


@equation("4.12", "4.13")
def innovations_model(c: Case) -> Sides:
    return (I + c.o.H @ c.o.Phi @ c.o.L) @ c.T, _filtered(c, c.T, whitened=False)[0]


@equation("4.15")
def kalman_filter(c: Case) -> Sides:
    return (I - c.o.H @ c.o.Psi @ c.o.L) @ c.T, _filtered(c, c.T, whitened=True)[0]
