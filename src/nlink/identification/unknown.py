"""What data do not tell, and which motion would."""

from __future__ import annotations

import numpy as np

from nlink.identification.base_parameters import BaseParameters
from nlink.identification.fit_columns import FitColumns

Array = np.ndarray
UNSURE = 0.5
"""A parameter is unknown if its deviation is larger than this share of its plausible size."""
STATES = 40


def unknown_parameters(columns: FitColumns, base: BaseParameters, deviations: Array,
                       size: Array, robot_top: Array) -> tuple[str, ...]:
    """Sentences on the base parameters whose deviations (in plausible sizes) are large."""
    weak = np.flatnonzero(deviations > UNSURE)
    if not len(weak):
        return ()
    replies = _replies(columns, base, size, robot_top)
    found = []
    for k in weak:
        formula = base.formulas[k]
        shown = formula if len(formula) <= 60 else f"{base.names[base.columns[k]]} + ..."
        best = max(replies, key=lambda motion: replies[motion][k])
        how = (f"known to +- {1.96 * deviations[k] * size[k]:.2g}" if np.isfinite(deviations[k])
               else "not told at all")
        found.append(f"{shown}: {how}; {best} would tell")
    return tuple(found)


def _replies(columns: FitColumns, base: BaseParameters, size: Array, top: Array,
             ) -> dict[str, Array]:
    """How much torque a plausible size of each base parameter makes, for kinds of motions."""
    robot, rng = columns.robot, np.random.default_rng(0)
    n, zero = robot.n, np.zeros((STATES, robot.n))
    q, _ = robot.random_state(rng, (STATES,))
    motions = {"different poses at rest": (zero, zero)}
    for j, name in enumerate(robot.qd_names):
        rate, rise = zero.copy(), zero.copy()
        rate[:, j] = max(top[j], 0.5) * np.where(rng.random(STATES) < 0.5, -1, 1)
        rise[:, j] = 4.0 * max(top[j], 0.5) * np.where(rng.random(STATES) < 0.5, -1, 1)
        motions[f"{name} turning fast" if top[j] else f"{name} moving"] = (rate, zero)
        motions[f"{name} speeding up and slowing down"] = (zero, rise)
    found = {}
    for motion, (qd, qdd) in motions.items():
        Y = columns.rows(q, qd, qdd)[..., base.columns] * size
        found[motion] = np.sqrt((Y**2).sum(axis=(0, 1)))
    assert n
    return found
