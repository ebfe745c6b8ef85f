"""Rows of all logs of a fit, and what of signals is found from them: delay, Stribeck rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nlink.identification.fit_columns import (
    FitColumns,
    FitRows,
    Preparation,
    joint_motion,
    measured,
    rows_of,
)
from nlink.identification.fit_task import FitTask
from nlink.identification.log_doubts import refuse_degrees
from nlink.identification.logs import Log
from nlink.identification.signals import pieces_of, suggested_cutoff
from nlink.identification.solved_fit import SolvedFit, solve
from nlink.identification.torque_delay import torque_delay

Array = np.ndarray


@dataclass(frozen=True)
class SignalSetting:
    """What was found about signals."""

    columns: FitColumns
    cutoff: float
    delay: float
    top: Array


def all_rows(task: FitTask, others: Sequence[Log], cutoff: float | None, delay: float | str,
              ) -> tuple[list[FitRows], list[FitRows], SignalSetting]:
    """Rows of all logs; the cut-off and the widths suit them all."""
    columns, logs = task.columns, (*task.logs, *others)
    if cutoff is not None and not (np.isfinite(cutoff) and cutoff > 0):
        raise ValueError(f"cutoff: {cutoff}, expected a positive number of Hz")
    if isinstance(delay, str) and delay != "estimate":
        raise ValueError(f"delay: {delay!r}, expected seconds, or 'estimate'")
    for log in logs:
        refuse_degrees(columns, log)
        if log.t is not None and len(log.t) < 20:
            raise ValueError(f"{log.name}: {len(log)} rows are too short, expected at least 20")
    timed = [log for log in logs if log.t is not None]
    fc = float(cutoff) if cutoff is not None else max(
        (suggested_cutoff(log.t, log.q if columns.to_motors is None else log.q @ columns.to_motors)
         for log in timed if log.t is not None), default=0.0)
    lag = 0.0 if isinstance(delay, str) else float(delay)
    motions = {id(log): joint_motion(columns, log, fc, lag)[0] for log in timed}
    rates = np.concatenate([motions[id(log)].qd if log.t is not None else np.asarray(log.qd)
                            for log in logs])
    top = np.quantile(np.abs(rates @ columns.A.T), 0.98, axis=0)
    columns = columns.at_rates(rates)
    dry = task.mode != "gravity" and any(each.kind in ("coulomb", "stribeck")
                                         for each in columns.extras)
    how = Preparation(fc, lag, task.mode == "gravity", dry, top)
    found = []
    for log in logs:
        torque = (measured(columns, log, task.gains) if not task.estimate_gains else
                  log.current if log.current is not None else log.tau)
        found.append(rows_of(columns, log, np.asarray(torque), motions.get(id(log)), how))
    if isinstance(delay, str):
        if task.estimate_gains:
            raise ValueError("delay: 'estimate' with gains='estimate', expected one of them as "
                             "numbers")
        own = stribeck_rates(replace(task, columns=columns), found[:len(task.logs)])
        lag = torque_delay(replace(task, columns=own), task.logs, how)
        return all_rows(task, others, fc, lag)
    return (found[:len(task.logs)], found[len(task.logs):],
            SignalSetting(columns, fc, lag, top))


def gaps(rows: Sequence[FitRows], fc: float) -> list[str]:
    said = []
    for each in rows:
        if each.log.t is None:
            continue
        pieces = pieces_of(each.log.t, fc)
        if len(pieces) > 1:
            t, first = each.log.t, pieces[1][0]
            said.append(f"{each.log.name}: a gap of {t[first] - t[first - 1]:.3g} s at t = "
                        f"{t[first - 1]:.4g} s"
                        + (f", and {len(pieces) - 2} more" if len(pieces) > 2 else "")
                        + "; nothing is filtered across it")
    return said


def stribeck_rates(task: FitTask, rows: Sequence[FitRows]) -> FitColumns:
    """The columns with the Stribeck rate of each joint that leaves least."""
    columns = task.columns
    if not len(columns.searched):
        return columns
    choice = np.full(len(columns.searched), 2)
    own = [replace(each) for each in rows]
    for _ in range(2):
        own = [_with_choice(each, columns, choice) for each in rows]
        fit, _ = solve(task, own)
        for c, k in enumerate(columns.searched):
            choice[c] = _best_rate(columns, own, fit, c, k)
    rates = columns.stribeck.copy()
    rates[columns.searched] = columns.tried[np.arange(len(choice)), choice]
    return replace(columns, stribeck=rates)


def _best_rate(columns: FitColumns, rows: Sequence[FitRows], fit: SolvedFit, c: int, k: int) -> int:
    """Of one column: its motor's friction is fitted again at each rate, all else as it is."""
    j = int(np.argmax(np.abs(columns.directions[:, k])))
    near = [columns.inertial + i for i, each in enumerate(columns.extras)
            if columns.directions[j, i] and each.kind != "armature" and each.direction
            == columns.extras[k].direction]
    left = []
    y = np.concatenate([(e.y - e.X @ fit.base_pi + e.X[..., near] @ fit.base_pi[near])[
        e.fit[:, j], j] for e in rows])
    for s in range(rows[0].candidates.shape[-1]):  # type: ignore[union-attr]
        parts = []
        for e in rows:
            own = e.X[e.fit[:, j], j][:, near].copy()
            assert e.candidates is not None
            own[:, near.index(columns.inertial + k)] = e.candidates[e.fit[:, j], j, c, s]
            parts.append(own)
        A = np.concatenate(parts)
        size = np.linalg.norm(A, axis=0)
        A = A / np.where(size > 0, size, 1.0)
        left.append(float(np.linalg.norm(y - A @ np.linalg.lstsq(A, y, rcond=1e-9)[0])))
    return int(np.argmin(left))


def _with_choice(rows: FitRows, columns: FitColumns, choice: Array) -> FitRows:
    """Rows with one of the candidates of each Stribeck column in its place."""
    if rows.candidates is None:
        return rows
    X = rows.X.copy()
    for c, k in enumerate(columns.searched):
        X[..., columns.inertial + k] = rows.candidates[:, :, c, choice[c]]
    return replace(rows, X=X)


def with_rates(rows: FitRows, before: FitColumns, after: FitColumns) -> FitRows:
    if rows.candidates is None:
        return rows
    choice = np.array([int(np.argmin(np.abs(before.tried[c] - after.stribeck[k])))
                       for c, k in enumerate(before.searched)])
    return replace(_with_choice(rows, before, choice), candidates=None)
