"""What is wrong with a log although all its numbers are numbers: units, signs, joints at rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nlink.identification.fit_columns import (
    FitColumns,
    FitRows,
    Preparation,
    joint_motion,
    measured,
    rows_of,
)
from nlink.identification.logs import Log
from nlink.model.coordinates import rate_units

Array = np.ndarray
STILL = 1e-3
"""A joint that moves less (rad, m) never moves."""
DOUBTED = 0.03
"""With a larger relative error, signs and zeros of joints are doubted."""
OTHER = 3.0
"""Torques that many times what the robot's own numbers give are doubted."""
BETTER = 0.5
"""A sign is wrong if the other one leaves less than this share of the error."""


def refuse_degrees(columns: FitColumns, log: Log) -> None:
    """Angles beyond all limits that are within them as degrees."""
    robot = columns.robot
    if robot.nq != robot.n:
        return
    q = log.q if columns.to_motors is None else log.q @ columns.to_motors
    lower, upper = robot.limits.lower, robot.limits.upper
    for j, (name, unit) in enumerate(zip(robot.qd_names, rate_units(robot.description),
                                         strict=True)):
        low, high = q[:, j].min(), q[:, j].max()
        bounded = np.isfinite(lower[j]) and np.isfinite(upper[j])
        limit = (lower[j], upper[j]) if bounded else (-4 * np.pi, 4 * np.pi)
        slack = 0.1 * (limit[1] - limit[0])
        beyond = low < limit[0] - slack or high > limit[1] + slack
        a, b = np.radians(low), np.radians(high)
        fits = a > limit[0] - slack and b < limit[1] + slack
        if unit == "rad" and beyond and fits and max(abs(low), abs(high)) > 2 * np.pi:
            raise ValueError(
                f"{log.name}: joint {name!r} goes from {low:.4g} to {high:.4g}, beyond its limits "
                f"{limit[0]:.3g} to {limit[1]:.3g} and within them as degrees, expected radians "
                "(or transmission=, if these are positions of motors)")


def still_joints(columns: FitColumns, logs: Sequence[Log]) -> list[str]:
    """Joints that never move, in sentences."""
    q = np.concatenate([log.q @ columns.to_motors if columns.to_motors is not None
                        else log.q if log.q.shape[1] == columns.robot.n else np.asarray(log.qd)
                        for log in logs])
    return [f"joint {name!r} never moves: its friction and the inertia that only it feels stay as "
            "they were" for name, x in zip(columns.robot.qd_names, np.ptp(q, axis=0), strict=True)
            if x < STILL]


def refuse_millimetres(rows: Sequence[FitRows], prior: Array) -> None:
    """Torques a thousand times what the robot's own numbers give."""
    y = np.concatenate([each.y[each.fit] for each in rows])
    own = np.concatenate([(each.X @ prior)[each.fit] for each in rows])
    size, expected = np.linalg.norm(y), np.linalg.norm(own)
    if not expected or not size:
        return
    ratio, alike = size / expected, float(y @ own) / (size * expected)
    if 250 < ratio < 4000 and alike > 0.5:
        raise ValueError(f"{rows[0].log.name}: torques are {ratio:.0f} times what the robot's own "
                         "masses give, expected N m; these look like N mm")


def other_sizes(columns: FitColumns, rows: Sequence[FitRows]) -> list[str]:
    """Torques that are several times, or a fraction of, what the robot's own numbers give, in
    sentences: currents, shares of a rating, torques of motors before their gears."""
    if columns.to_motors is not None:
        return []
    said = []
    for j, name in enumerate(columns.robot.qd_names):
        y = np.concatenate([each.y[each.fit[:, j], j] for each in rows])
        own = np.concatenate([(each.X @ columns.prior)[each.fit[:, j], j] for each in rows])
        size, expected = np.linalg.norm(y), np.linalg.norm(own)
        if not size or not expected or y @ own < 0.8 * size * expected:
            continue
        ratio = float(size / expected)
        if not 1 / OTHER < ratio < OTHER:
            said.append(f"torques of joint {name!r} are {ratio:.2g} times what the robot's own "
                        "masses give: if they are not in N m at the joint, masses are wrong by as "
                        "much (gains=, transmission=)")
    return said


def refuse_turned_positions(columns: FitColumns, logs: Sequence[Log], how: Preparation,
                            gains: Array | None, error: float, base: Sequence[int],
                            known: Array) -> None:
    """A joint that is counted the other way round, or from another zero, than in the model."""
    log = next((log for log in logs if log.t is not None), None)
    if error < DOUBTED or log is None or columns.to_motors is not None or log.payload is not None:
        return
    motion, _ = joint_motion(columns, log, how.cutoff, how.delay)
    torque = measured(columns, log, gains)

    def left(sign: Array, shift: Array) -> float:
        turned = replace(motion, q=sign * motion.q + shift, qd=sign * motion.qd,
                         qdd=sign * motion.qdd)
        rows = rows_of(columns, log, torque, turned, how)
        return _left(rows.X, rows.y, rows.fit, base, known)

    one, zero = np.ones(columns.robot.n), np.zeros(columns.robot.n)
    best, found = BETTER * left(one, zero), None
    for j, name in enumerate(columns.robot.qd_names):
        for what, sign, shift in (("counted the other way round", -1.0, 0.0), *(
                (f"{-x} degrees from the model's", 1.0, x) for x in (90, -90, 180))):
            own, more = one.copy(), zero.copy()
            own[j], more[j] = sign, np.radians(shift)
            now = left(own, more)
            if now < best:
                best, found = now, (name, what)
    if found:
        raise ValueError(f"{log.name}: the position of joint {found[0]!r} seems to be {found[1]}: "
                         "without that less than half of the error is left")


def refuse_signs(columns: FitColumns, rows: Sequence[FitRows], error: float, base: Sequence[int],
                 known: Array, prior: Array) -> None:
    """A joint whose torque, or whose position, has the other sign: the error falls by more than
    half if it is turned around."""
    if error < DOUBTED:
        return
    X = np.concatenate([each.X for each in rows])
    y = np.concatenate([each.y for each in rows])
    use = np.concatenate([each.fit for each in rows])
    n = y.shape[1]
    if columns.to_motors is not None:
        return
    best = _left(X, y, use, base, known)
    own = (X @ prior) * use
    wrong: list[tuple[float, int]] = []
    for j in range(n):
        turned = y.copy()
        turned[:, j] *= -1
        if _left(X, turned, use, base, known) < BETTER * best:
            wrong.append((float((turned * own).sum()), j))
    if wrong:  # several may be turned alike: the one after which masses are positive
        raise ValueError(f"{rows[0].log.name}: the sign of the torque of joint "
                         f"{columns.robot.qd_names[max(wrong)[1]]!r} is the other way round: with "
                         f"the other sign the error falls below half of {100 * error:.0f} %")


def _left(X: Array, y: Array, use: Array, base: Sequence[int], known: Array) -> float:
    """What least squares leave, each motor's torques scaled to the same size."""
    size = np.sqrt((y**2 * use).sum(axis=0)) + 1e-300
    w = use / size
    A = (X[..., list(base)] * w[..., None]).reshape(-1, len(base))
    b = ((y - X @ known) * w).ravel()
    norm = np.linalg.norm(A, axis=0)
    A = A / np.where(norm > 0, norm, 1)
    solution = np.linalg.lstsq(A, b, rcond=1e-8)[0]
    return float(np.linalg.norm(b - A @ solution))
