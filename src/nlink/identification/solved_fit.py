"""One fit of one set of rows: base parameters, and the bodies that physics allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlink.identification.consistent import (
    Bound,
    SolverFailed,
    consistent_fit,
    distance,
    parameters_of,
    ridge_fit,
)
from nlink.identification.fit_columns import FitColumns, FitRows
from nlink.identification.fit_task import FitTask
from nlink.identification.least_squares import BaseFit, base_fit
from nlink.identification.model_columns import NONNEGATIVE
from nlink.identification.written_robot import payload_place, plausible_sizes

Array = np.ndarray


@dataclass(frozen=True)
class SolvedFit:
    """One fit of one set of rows."""

    base_fit: BaseFit
    base_pi: Array
    """All parameters, dependent ones zero, that have the base values."""
    pi: Array
    physical: bool
    size: Array
    """What base parameters may be like."""
    parameter_size: Array
    """What all parameters may be like."""


def solve(task: FitTask, rows: Sequence[FitRows]) -> tuple[SolvedFit, list[str]]:
    """The base fit, and the physical one."""
    X, y, use, runs = (np.concatenate(parts) for parts in zip(*(
        (each.X, each.y, each.fit, np.full(len(each.t), k)) for k, each in enumerate(rows)),
        strict=True))
    columns, base, free = task.columns, task.base, task.free
    count, wanted = int(use.sum()), len(base)
    if count < wanted:
        raise ValueError(
            f"log: {count} rows are left after filtering for {wanted} base parameters, expected "
            "more rows than parameters: a longer log, or a higher cutoff")
    size = _sizes(task, X, y, use)
    M = base.matrix[:, :len(columns.names)] * free
    base_size = np.sqrt((M * size) ** 2 @ np.ones(len(size)))
    start = M @ task.prior
    fit = base_fit(X[..., base.columns], y - X @ task.known, use, base_size, start,
                   robust=task.robust, runs=runs)
    base_pi = task.known.copy()
    base_pi[list(base.columns)] += fit.values
    pi, physical, said = physical_parameters(task, fit.R, fit.c, M, size, fit.values)
    return SolvedFit(fit, base_pi, pi, physical, base_size, size), said


def _sizes(task: FitTask, X: Array, y: Array, use: Array) -> Array:
    """What parameters may be like: of bodies from the robot, of joints from their torques."""
    columns = task.columns
    size = np.zeros(len(columns.names))
    size[:columns.inertial] = plausible_sizes(task.robot)
    power = np.sqrt((y**2 * use).sum(axis=0) / np.maximum(use.sum(axis=0), 1))
    for k in range(columns.inertial, len(size)):
        each = np.sqrt((X[..., k] ** 2 * use).sum(axis=0) / np.maximum(use.sum(axis=0), 1))
        acts = columns.directions[:, k - columns.inertial] != 0
        best = [p / x for p, x, own in zip(power, each, acts, strict=True) if own and x > 0 and p]
        size[k] = max(best, default=1.0)
    return size


def physical_parameters(task: FitTask, R: Array, c: Array, M: Array, size: Array, values: Array,
                        ) -> tuple[Array, bool, list[str]]:
    """The parameters that real bodies can have, or those nearest to the prior, where R beta = c
    is all that is known of the base parameters beta = M pi; `values` are theirs by themselves."""
    columns, free = task.columns, task.free
    prior, bodies, weight = _drawn_to(task, values)
    first = columns.inertial
    joint_size = np.where(size[first:] > 0, size[first:], 1.0)
    bounds = _bounds(columns, free)
    R = R @ M
    said: list[str] = []
    pi = prior
    try:
        pi = consistent_fit(R, c, prior, bodies, free, joint_size, bounds, weight)
        ok = True
    except ImportError:
        said.append("physical bodies need Clarabel and SciPy, pip install nlink[identify]: the "
                    "parameters are those of least squares, nearest to the robot's own")
        ok = False
    except (SolverFailed, np.linalg.LinAlgError) as error:
        said.append(f"the semidefinite problem was not solved ({error}): the parameters are those "
                    "of least squares, nearest to the robot's own")
        ok = False
    if not ok:
        pi = ridge_fit(R, c, prior, bodies, free, joint_size, weight)
    return task.known + np.where(free, pi, 0.0), ok, said


def _drawn_to(task: FitTask, values: Array) -> tuple[Array, list[int], float]:
    """The prior, the bodies that are drawn to it, and how strongly."""
    prior = task.prior.copy()
    first = task.columns.inertial
    bodies = [k for k in range(first // 10) if task.free[10 * k:10 * k + 10].any()]
    if task.mode != "payload":
        return prior, bodies, task.weight
    body, _, _ = payload_place(task.robot)
    prior[10 * body:10 * body + 10] = _first_payload(task, values)
    return prior, bodies, 0.01 * task.weight


def distance_to_prior(task: FitTask, pi: Array, size: Array, values: Array) -> float:
    """What `physical_parameters` adds to the squares of what is left, for parameters pi."""
    prior, bodies, weight = _drawn_to(task, values)
    joint_size = size[task.columns.inertial:]
    return distance(np.where(task.free, pi - task.known - prior, 0.0), prior, bodies, task.free,
                    np.where(joint_size > 0, joint_size, 1.0), weight)


def _first_payload(task: FitTask, values: Array) -> Array:
    """A ball of the mass that least squares give, where they give it."""
    body, _, _ = payload_place(task.robot)
    numbers = dict(zip(task.base.columns, values, strict=True))
    m = max(numbers.get(10 * body, 0.0), 0.02)
    c = np.clip([numbers.get(10 * body + k, 0.0) / m for k in (1, 2, 3)], -0.5, 0.5)
    P = np.zeros((4, 4))
    P[:3, :3] = m * (0.05**2 * np.eye(3) + np.outer(c, c))
    P[:3, 3] = P[3, :3] = m * c
    P[3, 3] = m
    return parameters_of(P)


def _bounds(columns: FitColumns, free: Array) -> list[Bound]:
    """What physics wants >= 0 of friction and rotors, in both directions of motion."""
    index = {name: k for k, name in enumerate(columns.names)}
    found = []
    for k, each in enumerate(columns.extras, columns.inertial):
        if not free[k]:
            continue
        if each.kind in NONNEGATIVE:
            found.append(Bound(((k, 1.0),)))
        elif each.kind.endswith("_difference"):
            other = index.get(each.name.removesuffix("_difference"))
            if other is not None:
                found += [Bound(((other, 1.0), (k, sign))) for sign in (1.0, -1.0)]
    return found
