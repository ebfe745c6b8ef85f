"""Accelerations of mechanisms with loops by a dense solve in extended precision.

The tree's texts are run on NumPy's longdouble, which has 64 bits of mantissa on x86, and the whole
system M qdd + h = tau + J^T lambda, J qdd = 0 is solved by two factorizations L L^T, of M and of
J M^-1 J^T with its rows in the order of their pivots. Nothing of the elimination is used. Where
longdouble is no longer than double, as on some machines, the digits are those of double.
"""

from __future__ import annotations

import numpy as np

from nlink.programs.applying import apply
from nlink.robot import Robot

Array = np.ndarray
DEPENDENT = 1e-12
"""A pivot, of the largest one, of a row that depends on those before it."""


def dense_accelerations(robot: Robot, q: Array, tau: Array) -> Array:
    """qdd of a closed configuration at rest."""
    n, still = robot.n, [np.longdouble(0.0)] * robot.n
    x = [np.longdouble(value) for value in q]
    M, J, h = (np.array(values, dtype=np.longdouble) for values in (
        apply(robot.tree, "mass_matrix", x), apply(robot, "closure_jacobian", x),
        apply(robot.tree, "inverse_dynamics", x, still, still)))
    C, _ = _factor(M.reshape(n, n), ordered=False)
    G = _forward(C, J.reshape(-1, n).T)
    scale = np.sqrt((G * G).sum(axis=0))
    G = G[:, scale > 0] / scale[scale > 0]
    free = _forward(C, tau - h)
    K, rows = _factor(G.T @ G, ordered=True)
    G = G[:, rows]
    held = G @ _backward(K, _forward(K, G.T @ free))
    return np.array(_backward(C, free - held), dtype=float)


def _factor(A: Array, *, ordered: bool) -> tuple[Array, list[int]]:
    """L with A = L L^T for some rows in some order, the largest pivot first if `ordered`: those
    whose pivot is not rounding."""
    A, count = A.copy(), len(A)
    columns: list[Array] = []
    rows: list[int] = []
    left = np.ones(count, dtype=bool)
    first = np.diag(A).max()
    for k in range(count):
        pivot = int(np.where(left, np.diag(A), -np.inf).argmax()) if ordered else k
        if A[pivot, pivot] <= DEPENDENT * first * ordered:
            break
        column = np.where(left, A[:, pivot], 0) / np.sqrt(A[pivot, pivot])
        A -= np.outer(column, column)
        left[pivot] = False
        columns.append(column)
        rows.append(pivot)
    return np.stack(columns, axis=1)[rows], rows


def _forward(L: Array, B: Array) -> Array:
    """L^-1 B."""
    B = B.copy()
    for k in range(len(L)):
        B[k] = B[k] / L[k, k]
        B[k + 1:] -= np.multiply.outer(L[k + 1:, k], B[k])
    return B


def _backward(L: Array, B: Array) -> Array:
    """L^-T B."""
    B = B.copy()
    for k in reversed(range(len(L))):
        B[k] = B[k] / L[k, k]
        B[:k] -= np.multiply.outer(L[k, :k], B[k])
    return B
