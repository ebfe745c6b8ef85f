"""FD1 to FD4 of [RK88] in operator and in state-space form, against nlink's forward dynamics.

Every side is computed with gravity (a -> a + E g) and a tip force f(0).
"""

from __future__ import annotations

import numpy as np
from operator_equations import I, Sides, equation
from recursion_equations import inward, parent_of, per_joint
from rk88_cases import Case


def _expected(c: Case) -> np.ndarray:
    return c.robot.forward_dynamics(c.q, c.qd, c.T, f_ext=c.f_ext, engine="python")


def _bias_free(c: Case) -> np.ndarray:
    """T' = T - H phi [M phi^T a + b + B f(0)]."""
    o = c.o
    return c.T - o.H @ (o.phi @ (o.M @ (o.phi.T @ o.a_g) + o.b + o.B @ c.f0))


def _accelerations(c: Case, qdd: np.ndarray) -> np.ndarray:
    """alpha with gravity as the report has it, fictitious by E g."""
    return c.o.phi.T @ (c.o.H.T @ qdd + c.o.a_g)


@equation("4.17", "4.18", "5.5", "FD1")
def fd1(c: Case) -> Sides:
    o = c.o
    whiten = I - o.H @ o.Psi @ o.L
    return whiten.T @ o.D.inv @ whiten @ _bias_free(c), _expected(c)


def _filter(c: Case, T: np.ndarray, z_own: np.ndarray) -> np.ndarray:
    """nu(k) = D^-1 (T - H z), z(k) = sum psi z + L T over the children, + z_own(k)."""
    o, parts, nu = c.o, per_joint(c, T), []

    def step(k: int, below: np.ndarray) -> np.ndarray:
        z = below + z_own[k]
        epsilon = parts[k] - o.H.blocks[k] @ z
        nu.append(np.linalg.solve(o.D.blocks[k], epsilon))
        return z + o.G.blocks[k] @ epsilon  # phi of it is psi z + L T

    inward(c, step)
    return np.concatenate(nu[::-1])


def _smooth(c: Case, nu: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """lambda(k) = psi^T lambda(k+1) + H^T nu + (1 - G H)^T a, theta'' = nu - L^T lambda - G^T a."""
    o, parts, rows, qdd = c.o, per_joint(c, nu), np.zeros((c.o.n, 6)), []
    for k in range(o.n):
        H, G, below = o.H.blocks[k], o.G.blocks[k], parent_of(c, rows, k)
        rows[k] = (o.Delta_psi.blocks[k].T @ below + H.T @ parts[k]
                   + (np.eye(6) - G @ H).T @ a[k])
        qdd.append(parts[k] - o.L.blocks[k].T @ below - G.T @ a[k])
    return rows, np.concatenate(qdd)


@equation("4.19", "4.20", "4.21", "4.22")
def fd1_recursion(c: Case) -> Sides:
    """epsilon with T', by the erratum."""
    zero = np.zeros((c.o.n, 6))
    return _smooth(c, _filter(c, _bias_free(c), zero), zero)[1], _expected(c)


@equation("5.6", "FD2")
def fd2(c: Case) -> Sides:
    o = c.o
    alpha = (o.psi.T @ o.H.T @ o.D.inv @ (I - o.H @ o.Psi @ o.L) @ _bias_free(c)
             + o.phi.T @ o.a_g)
    return alpha, _accelerations(c, _expected(c))


@equation("5.7", "4.23")
def fd2_tip(c: Case) -> Sides:
    """alpha(0) = B^T alpha + a(0); the true one is alpha(0) + (0, g)."""
    o = c.o
    alpha = fd2(c)[0]
    true = o.B.T @ alpha + o.a_tip() - o.g * (o.mechanism.links[-1].body > 0)
    links = c.robot.link_accelerations(c.q, c.qd, c.T, f_ext=c.f_ext, engine="python")
    return true, links[-1]


@equation("4.21b", "4.22b")
def fd2_recursion(c: Case) -> Sides:
    o, zero = c.o, np.zeros((c.o.n, 6))
    lam, _ = _smooth(c, _filter(c, _bias_free(c), zero), zero)
    zeta, a = np.zeros((o.n, 6)), c.parts(o.a_g)
    for k in range(o.n):
        zeta[k] = o.Delta_phi.blocks[k].T @ parent_of(c, zeta, k) + a[k]
    return (lam + zeta).reshape(-1), _accelerations(c, _expected(c))


@equation("5.8", "5.9", "5.10", "FD3")
def fd3(c: Case) -> Sides:
    o = c.o
    zeta = o.phi.T @ o.a_g
    epsilon = c.T - o.H @ (o.psi @ (o.S @ (o.L @ c.T) + o.M @ zeta + o.b + o.B @ c.f0))
    return (I - o.H @ o.Psi @ o.L).T @ o.D.inv @ epsilon, _expected(c)


@equation("5.14", "5.15", "FD4")
def fd4(c: Case) -> Sides:
    o, a = c.o, c.o.a_g
    Dinv, whiten = o.D.inv, I - o.H @ o.Psi @ o.L
    nu = (Dinv @ whiten @ c.T - Dinv @ o.H @ o.psi_tilde @ o.P @ a
          - Dinv @ o.H @ o.psi @ (o.b + o.B @ c.f0))
    qdd = whiten.T @ nu - o.L.T @ o.Psi.T @ (I - o.G @ o.H).T @ a - o.G.T @ a
    return qdd, _expected(c)


@equation("5.13")
def fd4_velocities(c: Case) -> Sides:
    """V = phi^T H^T theta' (erratum: without B^T)."""
    return c.o.B.T @ c.o.V, c.robot.jacobian(c.q, engine="python") @ c.qd


def _fd4_recursion(c: Case) -> tuple[np.ndarray, np.ndarray]:
    """(5.16) and (5.17): psi P a joins what the parent gets."""
    o, a = c.o, c.parts(c.o.a_g)
    force, parts, nu = c.parts(o.b + o.B @ c.f0), per_joint(c, c.T), []

    def step(k: int, below: np.ndarray) -> np.ndarray:
        H, G, P = o.H.blocks[k], o.G.blocks[k], o.P.blocks[k]
        z = below + force[k]
        epsilon = parts[k] - H @ z
        nu.append(np.linalg.solve(o.D.blocks[k], epsilon))
        return z + G @ epsilon + (np.eye(6) - G @ H) @ P @ a[k]

    inward(c, step)
    return _smooth(c, np.concatenate(nu[::-1]), a)


@equation("5.16", "5.17")
def fd4_recursion(c: Case) -> Sides:
    return _fd4_recursion(c)[1], _expected(c)


@equation("FD4 lambda")
def fd4_lambda(c: Case) -> Sides:
    """In FD4 lambda(k) is alpha(k)."""
    return _fd4_recursion(c)[0].reshape(-1), _accelerations(c, _expected(c))
