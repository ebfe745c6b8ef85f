"""The time by which torques in a log come later than positions.

A delay d shifts what is measured, y(t) = Y(t - d) beta, so least squares have one more column: the
derivative of the predicted torque by the delay. Slow errors of a model, such as friction that
drifts, look like that column at low frequencies. Quick changes of torque tell milliseconds, above
all those where a joint turns back. Therefore:

- rows are filtered with a wider band than those of the fit, samples at rest included;
- friction near rest may have any odd shape: steps of several widths are fitted beside the model,
  or else the shape of a reversal would be taken for a delay;
- rows of each motor are whitened by an autoregression of what a first fit leaves, so frequencies
  count by how well the model explains them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nlink.identification.fit import without_payload
from nlink.identification.fit_columns import (
    NARROW,
    FitColumns,
    Preparation,
    joint_motion,
    measured,
    rows_of,
)
from nlink.identification.fit_task import FitTask
from nlink.identification.logs import Log
from nlink.identification.model_columns import JointColumn
from nlink.identification.signals import FASTEST, SmoothMotion, median_step, within_pieces

Array = np.ndarray
BANDS = ((1.0, 0), (2.0, 0), (6.0, 8))
"""Rows are filtered with so many times the cut-off of the fit, and whitened by an autoregression
of this order: first coarsely, then finely."""
ROUNDS = 6
WIDTHS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1)
"""Of the steps of friction, as shares of a motor's largest rate."""
CLOSE = 1e-5
"""The last step, in seconds."""
MOST_DELAY = 0.1
"""Seconds."""


@dataclass(frozen=True)
class DelayRows:
    """Rows X (K, motors, columns) and y (K, motors) of one log, in true units."""

    X: Array
    y: Array


def torque_delay(task: FitTask, logs: Sequence[Log], how: Preparation) -> float:
    """Seconds by which the torques of `logs` come later than their positions."""
    timed = [log for log in logs if log.t is not None]
    fastest = min((FASTEST / median_step(log.t) for log in timed if log.t is not None),
                  default=0.0)
    lag = 0.0
    for band, order in BANDS if timed else ():
        fine = replace(how, cutoff=min(band * float(how.cutoff or 0.0), fastest), dry=False)
        lag = _refined(task, timed, fine, order, lag)
    return lag


def _refined(task: FitTask, logs: Sequence[Log], how: Preparation, order: int,
             lag: float) -> float:
    """The delay by Gauss-Newton steps from a first value, in one band."""
    columns = _with_steps(task.columns)
    # over one sample, so that each reversal is met: steps of friction are not smooth
    shift = float(np.median([median_step(log.t) for log in logs if log.t is not None]))
    slopes: list[Array] = []
    filters: list[Array] = []
    for _ in range(ROUNDS):
        rows = _rows(task, columns, logs, how, lag)
        if not filters:
            filters, beta = _filters(rows, order)
            before, after = (_rows(task, columns, logs, how, lag + s * shift) for s in (-0.5, 0.5))
            slopes = [((b.X - a.X) @ beta + a.y - b.y) / shift
                      for a, b in zip(before, after, strict=True)]
        X, y = _whitened(rows, filters)
        d = np.concatenate([filtered(each[:, j], a) for each in slopes
                            for j, a in enumerate(filters)])
        d = d - X @ _solution(X, d)
        step = float(y @ d) / max(float(d @ d), 1e-300)
        lag += step
        if not abs(lag) <= MOST_DELAY:
            raise ValueError(f"delay: the logs do not tell it (a step to {lag:.3g} s), expected a "
                             "number of seconds")
        if abs(step) < CLOSE:
            break
    return lag


def _with_steps(columns: FitColumns) -> FitColumns:
    """The columns, and steps of friction of several widths for each motor."""
    motors = sorted({each.direction for each in columns.extras if each.kind != "offset"}
                    or {each.direction for each in columns.extras})
    top = {each.direction: width / NARROW for each, width in zip(
        columns.extras, columns.width, strict=True)}
    steps = [(JointColumn("coulomb", f"step{k}.{share}", each), share * top[each])
             for k, each in enumerate(motors) for share in WIDTHS]
    return replace(columns, extras=(*columns.extras, *(each for each, _ in steps)),
                   width=np.array([*columns.width, *(width for _, width in steps)]),
                   stribeck=np.array([*columns.stribeck, *[np.nan] * len(steps)]))


def _rows(task: FitTask, columns: FitColumns, logs: Sequence[Log], how: Preparation, lag: float,
          ) -> list[DelayRows]:
    """Rows of what is to be found, at the same instants for every delay."""
    first = len(task.columns.names)
    use = [*task.base.columns, *range(first, len(columns.names))]
    found = []
    for log in logs:
        motion: SmoothMotion = joint_motion(columns, log, how.cutoff, lag)[0]
        assert log.t is not None
        assert how.cutoff is not None
        motion = within_pieces(motion, log.t, how.cutoff, MOST_DELAY)
        each = without_payload(columns, rows_of(columns, log, measured(columns, log, task.gains),
                                                motion, replace(how, delay=lag)))
        scale = np.where(each.scale > 0, each.scale, 1.0)
        X = each.X / scale[..., None]
        found.append(DelayRows(X[..., use], each.y / scale - X[..., :first] @ task.known))
    return found


def _filters(rows: Sequence[DelayRows], order: int) -> tuple[list[Array], Array]:
    """For each motor the weights of a row and of those before it that whiten what is left, and
    the parameters."""
    n = rows[0].y.shape[1]
    filters, beta = [np.ones(1)] * n, np.zeros(0)
    for _ in range(2):
        beta = _solution(*_whitened(rows, filters))
        filters = [autoregression([each.y[:, j] - each.X[:, j] @ beta for each in rows],
                                   1e-9 * max(np.abs(each.y[:, j]).max() for each in rows), order)
                   for j in range(n)]
    return filters, beta


def autoregression(left: Sequence[Array], least: float, order: int) -> Array:
    """Weights (1, -a_1, ...) / sigma of e_k = a_1 e_(k-1) + ... + noise, by least squares."""
    if not order:
        return np.array([1.0 / max(float(np.std(np.concatenate(left))), least, 1e-300)])
    now = np.concatenate([e[order:] for e in left])
    before = np.concatenate([np.stack(
        [e[order - i:len(e) - i] for i in range(1, order + 1)], axis=1) for e in left])
    a = np.linalg.lstsq(before, now, rcond=1e-10)[0]
    sigma = float(np.sqrt(np.mean((now - before @ a) ** 2)))
    return np.array([1.0, *-a]) / max(sigma, least, 1e-300)


def filtered(x: Array, weights: Array) -> Array:
    """Sums of rows and of those before them, for all rows with enough before them."""
    m, K = len(weights) - 1, len(x)
    return sum((w * x[m - i:K - i] for i, w in enumerate(weights.tolist())), np.zeros(()))


def _whitened(rows: Sequence[DelayRows], filters: Sequence[Array]) -> tuple[Array, Array]:
    parts = [(filtered(each.X[:, j], a), filtered(each.y[:, j], a))
             for each in rows for j, a in enumerate(filters)]
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, y


def _solution(X: Array, y: Array) -> Array:
    """Least squares, columns scaled alike; 0 for those that are zero."""
    size = np.linalg.norm(X, axis=0)
    size = np.where(size > 0, size, 1.0)
    return np.linalg.lstsq(X / size, y, rcond=1e-10)[0] / size
