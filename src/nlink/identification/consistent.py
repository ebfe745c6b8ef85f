"""Parameters that a body can have, closest to what the data say.

A body's pseudo-inertia P = [[S, h], [h^T, m]], with S = tr(J)/2 - J, is the second moment of its
mass, so it is positive definite; friction and rotor inertias are not negative [Wensing, Kim,
Slotine 2018]. With P = L (1 + Z) L^T, L L^T that of the prior, the fit is

    min |R (M pi - c)|^2 + w sum |Z|^2     where 1 + Z > 0,

|Z| being the distance to the prior in the metric in which all bodies are alike. It is solved as a
semidefinite problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

Array = np.ndarray
LEAST = 1e-3
"""P is at least this share of that of the prior."""
MOMENTS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
THIN = 0.02
"""A singular prior is given moments of a body that is at least so many metres across."""
PAIRS = [(i, j) for j in range(4) for i in range(j + 1)]
"""The elements of a symmetric matrix in the order of Clarabel's cone."""


class SolverFailed(RuntimeError):
    """The semidefinite problem was not solved."""


def pseudo_inertia(pi: Array) -> Array:
    """P (4, 4) of ten parameters m, m c, Jxx, Jxy, Jyy, Jxz, Jyz, Jzz."""
    J = tensor_of(pi)
    P = np.zeros((4, 4))
    P[:3, :3] = np.trace(J) / 2 * np.eye(3) - J
    P[:3, 3] = P[3, :3] = pi[1:4]
    P[3, 3] = pi[0]
    return P


def tensor_of(pi: Array) -> Array:
    """J (3, 3) of ten parameters."""
    J = np.zeros((3, 3))
    for (i, j), x in zip(MOMENTS, pi[4:], strict=True):
        J[i, j] = J[j, i] = x
    return J


def parameters_of(P: Array) -> Array:
    """The ten parameters of a pseudo-inertia.

    >>> bool(np.allclose(parameters_of(pseudo_inertia(np.arange(10.0))), np.arange(10.0)))
    True
    """
    J = np.trace(P[:3, :3]) * np.eye(3) - P[:3, :3]
    return np.array([P[3, 3], *P[:3, 3], *(J[i, j] for i, j in MOMENTS)])


def repaired(pi: Array, mass: float) -> tuple[Array, bool]:
    """The nearest pseudo-inertia that a real body has: a mass (`mass` if it has none), and some
    extension in all directions."""
    P = pseudo_inertia(pi)
    changed = False
    if P[3, 3] <= 1e-3 * mass:
        P[3, :] = P[:, 3] = 0.0
        P[3, 3], changed = max(0.1 * mass, 1e-9), True
    m = P[3, 3]
    c = P[:3, 3] / m
    about = P[:3, :3] - m * np.outer(c, c)
    values, axes = np.linalg.eigh((about + about.T) / 2)
    least = max(m * THIN**2 / 12, 1e-4 * values.max(initial=0.0))
    if values.min() < 0.1 * least:
        values, changed = np.maximum(values, least), True
        P[:3, :3] = axes @ np.diag(values) @ axes.T + m * np.outer(c, c)
    return parameters_of(P), changed


@dataclass(frozen=True)
class Bound:
    """A row of joint parameters that must not be negative: sum of coefficients times numbers."""

    terms: tuple[tuple[int, float], ...]


def consistent_fit(R: Array, c: Array, prior: Array, bodies: Sequence[int], free: Array,
                   size: Array, bounds: Sequence[Bound], weight: float) -> Array:
    """The parameters pi that minimize |R pi - c|^2 and the distance to the prior.

    `bodies` are those with free parameters, `free` says which parameters are, `size` what joint
    parameters may be like. Raises SolverFailed.
    """
    B = change_of_variables(prior, bodies, free, size)
    if not bodies and not bounds:
        return ridge_fit(R, c, prior, bodies, free, size, weight)
    return prior + B @ _solved(R @ B, c - R @ prior, prior, B, bodies, free, bounds, weight)


def change_of_variables(prior: Array, bodies: Sequence[int], free: Array, size: Array) -> Array:
    """pi - prior = B z: ten numbers for each body, those of Z, then one for each joint column."""
    columns = []
    for k in bodies:
        L = np.linalg.cholesky(pseudo_inertia(prior[10 * k:10 * k + 10]))
        for i, j in PAIRS:
            E = np.zeros((4, 4))
            E[i, j] = E[j, i] = 1.0 if i == j else np.sqrt(0.5)
            column = np.zeros(len(prior))
            column[10 * k:10 * k + 10] = parameters_of(L @ E @ L.T)
            columns.append(column)
    first = len(prior) - len(size)
    for k in np.flatnonzero(free[first:]):
        column = np.zeros(len(prior))
        column[first + k] = size[k]
        columns.append(column)
    return np.array(columns).reshape(-1, len(prior)).T


def ridge_fit(R: Array, c: Array, prior: Array, bodies: Sequence[int], free: Array, size: Array,
              weight: float) -> Array:
    """The same without physics: linear, and always there."""
    B = change_of_variables(prior, bodies, free, size)
    root = _roots(B, bodies, weight)
    rows = np.vstack([R @ B, np.diag(root)])
    z = np.linalg.lstsq(rows, np.concatenate([c - R @ prior, np.zeros(B.shape[1])]), rcond=None)[0]
    return prior + B @ z


def distance(change: Array, prior: Array, bodies: Sequence[int], free: Array, size: Array,
             weight: float) -> float:
    """The weighted square of the distance of prior + change to the prior."""
    B = change_of_variables(prior, bodies, free, size)
    z = np.linalg.lstsq(B, change, rcond=1e-12)[0]
    return float(((_roots(B, bodies, weight) * z) ** 2).sum())


def _roots(B: Array, bodies: Sequence[int], weight: float) -> Array:
    """Square roots of the weights of z: those of joints only keep the problem bounded."""
    root = np.full(B.shape[1], 1e-3)
    root[:10 * len(bodies)] = np.sqrt(weight)
    return root


def _solved(A: Array, b: Array, prior: Array, B: Array, bodies: Sequence[int], free: Array,
            bounds: Sequence[Bound], weight: float) -> Array:
    from scipy import sparse

    clarabel: Any = import_module("clarabel")

    n, root = B.shape[1], _roots(B, bodies, weight)
    factor = np.asarray(np.linalg.qr(np.vstack([A, np.diag(root)]), mode="r"))
    P = factor.T @ factor
    top = max(np.abs(P).max(initial=0.0), 1e-300)
    q = -(A.T @ b)
    G, h, cones = [], [], []
    held = [i for k in bodies for i in range(10 * k, 10 * k + 10) if not free[i]]
    if held:
        length = np.linalg.norm(B[held], axis=1, keepdims=True)
        G.append(B[held] / length)
        h.append(np.zeros(len(held)))
        cones.append(clarabel.ZeroConeT(len(held)))
    if bounds:
        rows = np.array([sum(x * B[i] for i, x in bound.terms) for bound in bounds])
        level = np.array([sum(x * prior[i] for i, x in bound.terms) for bound in bounds])
        length = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
        G.append(-rows / length[:, None])
        h.append(level / length)
        cones.append(clarabel.NonnegativeConeT(len(bounds)))
    for k in range(len(bodies)):
        block = np.zeros((10, n))
        block[:, 10 * k:10 * k + 10] = -np.eye(10)
        G.append(block)
        h.append(np.array([(1.0 - LEAST) * (i == j) for i, j in PAIRS]))
        cones.append(clarabel.PSDTriangleConeT(4))
    settings: Any = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 200
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(P) / top), q / top, sparse.csc_matrix(np.vstack(G)),
        np.concatenate(h), cones, settings).solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise SolverFailed(str(found.status))
    return np.array(found.x)
