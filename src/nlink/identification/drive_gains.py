"""Gains of drives, N m per A, from currents and a run under a known payload.

Without payload all torques may be scaled alike. A known body at the end adds torques l that are
known in N m, so with g = 1 / K

    i = g (Y beta + l)

has one solution. It is found by the Gauss-Newton method on the residuals of currents, because
these have the noise: a linear fit of K i = Y beta + l would shrink K.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlink.identification.fit_columns import FitRows
from nlink.identification.fit_task import FitTask
from nlink.identification.written_robot import payload_parameters, payload_place

Array = np.ndarray
ROUNDS = 30
UNSURE = 0.2
"""A gain with a larger relative deviation is not found."""


def estimated_gains(task: FitTask, rows: Sequence[FitRows]) -> Array:
    """The gain of each motor, from rows whose y are currents."""
    X = np.concatenate([each.X[..., task.base.columns] for each in rows])
    known = np.concatenate([each.X @ task.known + _load(task, each) for each in rows])
    i = np.concatenate([each.y for each in rows])
    use = np.concatenate([each.fit for each in rows])
    if not all(np.abs(known[use[:, j], j]).max(initial=0.0) > 0 for j in range(i.shape[1])):
        raise ValueError("gains: the payload moves no torque of some motor, expected a run in "
                         "which all motors feel it")
    size = np.maximum(np.sqrt((X**2).mean(axis=(0, 1))), 1e-300)
    K, beta = _linear(X / size, known, i, use)
    g = 1.0 / K
    sigma, J, norm = np.ones(len(g)), np.eye(len(beta) + len(g)), np.ones(1)
    for _ in range(ROUNDS):
        torque = (X / size) @ beta + known
        left = g * torque - i
        sigma = np.maximum(np.sqrt((left**2 * use).sum(axis=0) / np.maximum(use.sum(axis=0), 1)),
                           1e-9 * np.abs(i).max())
        w = use / sigma
        more = np.zeros((*i.shape, len(g)))
        for j in range(len(g)):
            more[:, j, j] = torque[:, j]
        J = np.concatenate([X / size * g[:, None], more], axis=2) * w[..., None]
        J, r = J.reshape(-1, J.shape[2]), (left * w).ravel()
        norm = np.maximum(np.linalg.norm(J, axis=0), 1e-300)
        step = -np.linalg.lstsq(J / norm, r, rcond=1e-10)[0] / norm
        beta, g = beta + step[:len(beta)], g + step[len(beta):]
        if np.abs(step[len(beta):] / g).max() < 1e-8:
            break
    covariance = np.linalg.pinv((J / norm).T @ (J / norm), rcond=1e-12) / np.outer(norm, norm)
    deviation = np.sqrt(np.diag(covariance)[len(beta):]) / np.abs(g)
    if not (deviation < UNSURE).all():
        worst = int(np.argmax(deviation))
        raise ValueError(f"gains: that of motor {worst + 1} is known to "
                         f"{100 * deviation[worst]:.0f} % only, expected a heavier payload or a "
                         "motion in which the motor feels it")
    return 1.0 / g


def _linear(X: Array, known: Array, i: Array, use: Array) -> tuple[Array, Array]:
    """K and beta of K i - X beta = known, each motor's rows scaled alike."""
    n = i.shape[1]
    more = np.zeros((*i.shape, n))
    for j in range(n):
        more[:, j, j] = i[:, j]
    size = np.sqrt((i**2 * use).sum(axis=0)) + 1e-300
    w = use / size
    A = (np.concatenate([-X, more], axis=2) * w[..., None]).reshape(-1, X.shape[2] + n)
    b = (known * w).ravel()
    norm = np.maximum(np.linalg.norm(A, axis=0), 1e-300)
    found = np.linalg.lstsq(A / norm, b, rcond=1e-10)[0] / norm
    return found[X.shape[2]:], found[:X.shape[2]]


def _load(task: FitTask, rows: FitRows) -> Array:
    """What the known payload of a log asks of the motors."""
    if rows.log.payload is None:
        return np.zeros(rows.y.shape)
    body, T, _ = payload_place(task.robot, rows.log.payload.get("frame", -1))
    return rows.X[..., 10 * body:10 * body + 10] @ payload_parameters(rows.log.payload, T)
