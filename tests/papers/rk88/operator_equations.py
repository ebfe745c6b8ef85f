"""The equations of [RK88] between operators, as (left, right) by their numbers.

Errata forms where the errata have one. `I` is the identity; * of the report's script M is
`o.mass`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rk88_cases import Case

I = 1
Sides = tuple[Any, Any]
EQUATIONS: dict[str, Callable[[Case], Sides]] = {}


def equation(*labels: str) -> Callable[[Callable[[Case], Sides]], Callable[[Case], Sides]]:
    def register(sides: Callable[[Case], Sides]) -> Callable[[Case], Sides]:
        for label in labels:
            EQUATIONS[label] = sides
        return sides

    return register


def _of_operators(label: str, sides: Callable[[Any], Sides]) -> None:
    EQUATIONS[label] = lambda c: sides(c.o)


for _label, _sides in {
    "3.13": lambda o: (o.J, o.B.T @ o.phi.T @ o.H.T),
    "3.20 M": lambda o: (o.mass, o.H @ o.phi @ o.M @ o.phi.T @ o.H.T),
    "3.20 J": lambda o: (o.J.T, o.H @ o.phi @ o.B),
    "4.11 Fact 4.1": lambda o: (
        o.mass, (I + o.H @ o.Phi @ o.L) @ o.D @ (I + o.H @ o.Phi @ o.L).T),
    "4.14 Fact 4.2": lambda o: (
        ((I + o.H @ o.Phi @ o.L) @ (I - o.H @ o.Psi @ o.L)), np.eye(o.D.shape[0])),
    "4.16 Theorem 4.1": lambda o: (
        (I - o.H @ o.Psi @ o.L).T @ o.D.inv @ (I - o.H @ o.Psi @ o.L) @ o.mass,
        np.eye(o.D.shape[0])),
    "5.3": lambda o: (o.Psi, o.psi @ o.S),
    "5.4 Identity 5.1": lambda o: ((I - o.H @ o.Psi @ o.L) @ o.H @ o.phi, o.H @ o.psi),
    "5.11": lambda o: (o.psi_tilde, o.psi - I),
    "5.12": lambda o: (o.G, o.P @ o.H.T @ o.D.inv),
    "a.1": lambda o: (o.D, o.H @ o.P @ o.H.T),
    "a.2": lambda o: (o.G @ o.D, o.P @ o.H.T),
    "a.3": lambda o: (o.phi_tilde, o.phi - I),
    "a.6": lambda o: (o.Phi, o.phi @ o.S),
    "a.7": lambda o: (o.Psi, o.psi @ o.S),
    "a.8": lambda o: (o.Psi @ o.Delta_psi, o.psi_tilde),
    "a.9": lambda o: (o.Phi @ o.Delta_phi, o.phi_tilde),
    "a.10": lambda o: (o.psi @ (I - o.S @ o.Delta_psi), np.eye(6 * o.n)),
    "a.11": lambda o: (o.phi @ (I - o.S @ o.Delta_phi), np.eye(6 * o.n)),
    "a.12": lambda o: (o.L, o.Delta_phi @ o.G),
    "a.13": lambda o: (o.phi_tilde @ o.G, o.Phi @ o.L),
    "a.14": lambda o: (o.phi, o.psi @ (I + o.S @ o.L @ o.H @ o.phi)),
    "a.15": lambda o: (o.psi, (I - o.Psi @ o.L @ o.H) @ o.phi),
    "a.16": lambda o: (o.Phi, o.Psi @ (I + o.L @ o.H @ o.Phi)),
    "a.17": lambda o: (o.Psi, (I - o.Psi @ o.L @ o.H) @ o.Phi),
    "a.18": lambda o: (o.phi - o.psi, o.psi @ o.S @ o.L @ o.H @ o.phi),
    "a.22": lambda o: (o.phi, (I + o.Phi @ o.L @ o.H) @ o.psi),
    "a.23": lambda o: (o.psi, o.phi @ (I - o.S @ o.L @ o.H @ o.psi)),
    "a.24": lambda o: (o.Phi, (I + o.Phi @ o.L @ o.H) @ o.Psi),
    "a.25": lambda o: (o.Psi, o.Phi @ (I - o.L @ o.H @ o.Psi)),
    "a.26": lambda o: (o.Phi @ o.L @ o.H @ o.psi, o.Psi @ o.L @ o.H @ o.phi),
    "a.27": lambda o: (o.Phi @ o.L @ o.H @ o.Psi, o.Psi @ o.L @ o.H @ o.Phi),
    "a.28": lambda o: (o.phi - o.psi, o.phi @ o.S @ o.L @ o.H @ o.psi),
    "a.32": lambda o: (o.H @ o.phi, (I + o.H @ o.Phi @ o.L) @ o.H @ o.psi),
    "a.33": lambda o: (o.H @ o.Phi, (I + o.H @ o.Phi @ o.L) @ o.H @ o.Psi),
    "a.34": lambda o: (o.H @ o.Psi, o.H @ o.Phi @ (I - o.L @ o.H @ o.Psi)),
    "a.35": lambda o: (o.H @ o.psi, (I - o.H @ o.Psi @ o.L) @ o.H @ o.phi),
    "a.36": lambda o: (o.H @ o.Psi, (I - o.H @ o.Psi @ o.L) @ o.H @ o.Phi),
    "a.37": lambda o: (o.H @ o.Phi, o.H @ o.Psi @ (I + o.L @ o.H @ o.Phi)),
    "a.38": lambda o: (o.H @ o.Phi @ o.L @ o.H @ o.Psi, o.H @ o.Psi @ o.L @ o.H @ o.Phi),
    "a.39": lambda o: (o.Phi @ o.L, o.Psi @ o.L @ (I + o.H @ o.Phi @ o.L)),
    "a.40": lambda o: (o.Psi @ o.L, (I - o.Psi @ o.L @ o.H) @ o.Phi @ o.L),
    "a.41": lambda o: (o.Psi @ o.L, o.Phi @ o.L @ (I - o.H @ o.Psi @ o.L)),
    "a.42": lambda o: (o.Phi @ o.L, (I + o.Phi @ o.L @ o.H) @ o.Psi @ o.L),
    "a.43": lambda o: (o.Psi @ o.L @ o.H @ o.Phi @ o.L, o.Phi @ o.L @ o.H @ o.Psi @ o.L),
    "a.46": lambda o: (o.psi @ o.M @ o.phi.T, o.P + o.psi_tilde @ o.P + o.P @ o.phi_tilde.T),
    "a.47": lambda o: (o.psi @ o.M @ o.psi.T, o.P + o.psi_tilde @ o.P + o.P @ o.psi_tilde.T),
    "a.48": lambda o: (
        o.phi @ o.M @ o.phi.T,
        o.P + o.phi_tilde @ o.P + o.P @ o.phi_tilde.T
        + o.phi_tilde @ o.P @ o.H.T @ o.D.inv @ o.H @ o.P @ o.phi_tilde.T),
    "a.50": lambda o: (
        (I - o.H @ o.Psi @ o.L).T @ o.D.inv @ o.H @ o.psi @ o.M @ o.phi.T,
        (I - o.H @ o.Psi @ o.L).T @ o.D.inv @ o.H @ o.psi_tilde @ o.P
        + o.L.T @ o.Psi.T @ (I - o.G @ o.H).T + o.G.T),
    "a.51": lambda o: (
        (I - o.H @ o.Psi @ o.L).T @ o.D.inv @ o.H @ o.P
        + (I - o.H @ o.Psi @ o.L).T @ o.D.inv @ o.H @ o.P @ o.phi_tilde.T,
        o.L.T @ o.Psi.T @ (I - o.G @ o.H).T + o.G.T),
}.items():
    _of_operators(_label, _sides)


@equation("a.44 Lemma A.1")
def lemma(c: Case) -> Sides:
    """r(k) = M(k) + sum psi r phi^T over the children is the diagonal of psi M phi^T (a.45)."""
    return _semigroup(c, c.o.Delta_psi, c.o.Delta_phi), _blocks(c, c.o.psi @ c.o.M @ c.o.phi.T)


@equation("a.45 Corollary A.1")
def corollary(c: Case) -> Sides:
    """For psi = phi the diagonal holds the composite inertias."""
    return _semigroup(c, c.o.Delta_phi, c.o.Delta_phi), _blocks(c, c.o.phi @ c.o.M @ c.o.phi.T)


@equation("Om(k)")
def mobilities(c: Case) -> Sides:
    """psi^T H^T D^-1 H psi = Y + psi~^T Y + Y psi~, Y = diag Om(k); on a tree, its diagonal:
    two branches meet through the body that carries both."""
    o = c.o
    whole = o.psi.T @ o.H.T @ o.D.inv @ o.H @ o.psi
    if o.parents == tuple(range(o.n)):
        return whole, o.Omega + o.psi_tilde.T @ o.Omega + o.Omega @ o.psi_tilde
    return _blocks(c, whole), np.array(o.Omega.blocks)


@equation("a.49")
def innovation_of_inertia(c: Case) -> Sides:
    """P(k+1) = phi P phi^T + M - Theta, Theta = phi P H^T D^-1 H P phi^T."""
    o = c.o
    P = list(o.links.M)
    for k in reversed(range(o.n)):
        if parent := o.parents[k]:
            phi, PH = o.Delta_phi.blocks[k], o.P(k + 1) @ o.H(k + 1).T
            theta = phi @ PH @ np.linalg.solve(o.D(k + 1), PH.T) @ phi.T
            P[parent - 1] = P[parent - 1] + phi @ o.P(k + 1) @ phi.T - theta
    return np.array(P), np.array(o.P.blocks)


@equation("a.19-a.21")
def telescoping(c: Case) -> Sides:
    """phi(k, m) - psi(k, m) = sum psi(k, i+1) L(i) H(i) phi(i, m)."""
    o = c.o
    return _telescoped(c, o.psi, o.phi), o.phi - o.psi


@equation("a.29-a.31")
def telescoping_backwards(c: Case) -> Sides:
    """phi(k, m) - psi(k, m) = sum phi(k, i+1) L(i) H(i) psi(i, m)."""
    o = c.o
    return _telescoped(c, o.phi, o.psi), o.phi - o.psi


def _telescoped(c: Case, first: Any, second: Any) -> np.ndarray:
    """Element by element, from dense blocks: nothing of the algebra is used."""
    o, n = c.o, c.o.n
    one, two = (x.dense().reshape(n, 6, n, 6).transpose(0, 2, 1, 3) for x in (first, second))
    total = np.zeros((n, n, 6, 6))
    for k in range(n):
        for m in range(n):
            for i in range(n):
                if (parent := o.parents[i]) and o.beyond(k + 1, parent) and o.beyond(i + 1, m + 1):
                    total[k, m] += one[k, parent - 1] @ o.L.blocks[i] @ o.H.blocks[i] @ two[i, m]
    return total.transpose(0, 2, 1, 3).reshape(6 * n, 6 * n)


def _semigroup(c: Case, left: Any, right: Any) -> np.ndarray:
    r = list(c.o.links.M)
    for k in reversed(range(c.o.n)):
        if parent := c.o.parents[k]:
            r[parent - 1] = r[parent - 1] + left.blocks[k] @ r[k] @ right.blocks[k].T
    return np.array(r)


def _blocks(c: Case, operator: Any) -> np.ndarray:
    """The diagonal blocks of an operator."""
    dense = operator.dense().reshape(c.o.n, 6, c.o.n, 6)
    return np.array([dense[k, :, k] for k in range(c.o.n)])
