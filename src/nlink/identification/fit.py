"""A fit: the robot that explains its logs, and what is to be known of how well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.identification.base_parameters import BaseParameters
from nlink.identification.fit_columns import (
    FitColumns,
    FitRows,
    Preparation,
    joint_motion,
    measured,
    rows_of,
)
from nlink.identification.logs import Log, read_log
from nlink.identification.written_robot import CarriedBody, payload_parameters, payload_place
from nlink.robot import Robot
from nlink.scalars.arrays import batch

if TYPE_CHECKING:
    from nlink.identification.output_error import OutputError

Array = np.ndarray
CHUNK = 4096


class Score(float):
    """A relative error, |measured - predicted| / |measured|, with that of each motor."""

    joints: Array

    def __new__(cls, value: float, joints: Array) -> Score:
        found = super().__new__(cls, value)
        found.joints = joints
        return found


@dataclass(eq=False, repr=False)
class Fit:
    """What `nlink.identify` found."""

    robot: Robot
    """With the parameters that a real robot can have."""
    base: Array
    """The values of the base parameters by least squares alone."""
    intervals: Array
    """(base parameters, 2): where each is with a confidence of 95 %."""
    base_parameters: BaseParameters
    """What the base parameters are: `.formulas`, `.matrix`, `.columns`."""
    values: Mapping[str, float]
    """All parameters of the physical fit by name, as `robot.parameter_names` has them."""
    offset: Array
    """Constant torques of the joints, (n,)."""
    unknown: tuple[str, ...]
    """What the logs do not tell, and which motion would."""
    warnings: tuple[str, ...]
    cost_of_physics: float
    """By how much the relative error grows because bodies must be physical."""
    physical: bool
    """Whether the semidefinite problem was solved; if not, `robot` may not be physical."""
    training: Score
    """The relative error on all rows that were fitted."""
    validation: Score | None
    """The relative error on rows that a first fit did not see."""
    payload: CarriedBody | None
    gains: Array | None
    """N m per A of the motors."""
    delay: float
    cutoff: float
    sigma: Array
    """The noise of one sample of each motor's torque."""
    base_training: Score
    """The relative error of the base parameters."""
    columns: FitColumns = field(repr=False)
    pi: Array = field(repr=False)
    rows: Sequence[FitRows] = field(repr=False)
    held_out: Sequence[tuple[FitRows, Array]] = field(repr=False, default=())
    """Rows that the first fit did not see, with what it predicted."""
    how: Mapping[str, Any] = field(repr=False, default_factory=dict)
    """The arguments of the call."""
    prior: Array = field(repr=False, default_factory=lambda: np.zeros(0))
    output_error: OutputError | None = None
    """The second stage, if it was asked for: its `.score` and `.before`, `.base`, `.intervals`."""

    def __repr__(self) -> str:
        seen = "" if self.validation is None else f", {100 * self.validation:.2g} % on unseen rows"
        return (f"<Fit {self.robot.name}: {len(self.base)} base parameters, error "
                f"{100 * self.training:.2g} %{seen}>")

    def predict(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """The torques (..., n) of the joints, with all friction and offsets that were found."""
        robot = self.columns.robot
        given = [batch(name, x, (size,)) for name, x, size in (
            ("q", q, robot.nq), ("qd", qd, robot.n), ("qdd", qdd, robot.n))]
        lead = np.broadcast_shapes(*(x.shape[:-1] for x in given))
        flat = [np.broadcast_to(x, (*lead, x.shape[-1])).reshape(-1, x.shape[-1]) for x in given]
        parts = [self.columns.rows(*(x[k:k + CHUNK] for x in flat)) @ self.pi @ self.columns.A
                 for k in range(0, len(flat[0]), CHUNK)]
        return np.concatenate(parts or [np.zeros((0, robot.n))]).reshape(*lead, robot.n)

    def friction(self, qd: ArrayLike) -> Array:
        """The joints' torques of friction and offsets at rates (..., n)."""
        n = self.columns.robot.n
        qd = batch("qd", qd, (n,))
        flat = qd.reshape(-1, n)
        keep = np.array([each.kind != "armature" for each in self.columns.extras], dtype=float)
        own = self.pi[self.columns.inertial:] * keep
        values = self.columns.joint_values(flat, np.zeros_like(flat)) * own
        return (values @ self.columns.directions.T @ self.columns.A).reshape(qd.shape)

    def score(self, log: Log | str | Path | Mapping[str, Any]) -> Score:
        """The relative error on a log: |measured - predicted| / |measured|, both filtered as the
        fit's rows were; `.joints` has that of each motor."""
        rows = self.rows_of(log)
        return score_of(rows, rows.X @ self.pi)

    def rows_of(self, log: Log | str | Path | Mapping[str, Any]) -> FitRows:
        """Another log as rows of this fit, its known payload taken off."""
        robot = self.columns.robot
        own = read_log(log, robot)
        torque = measured(self.columns, own, self.gains)
        motion = None
        if own.t is not None:
            motion, _ = joint_motion(self.columns, own, self.cutoff, self.delay)
        still = self.how.get("mode") == "gravity"
        rows = rows_of(self.columns, own, torque, motion, Preparation(
            self.cutoff, self.delay, still, not still and self._dry, self._top))
        return without_payload(self.columns, rows)

    @property
    def _dry(self) -> bool:
        return any(each.kind in ("coulomb", "stribeck") for each in self.columns.extras)

    @property
    def _top(self) -> Array:
        return np.asarray(self.how["top"])

    @property
    def residuals(self) -> Array:
        """(rows, motors): measured less predicted torques, of all rows of all logs; NaN where a
        row does not count."""
        return np.concatenate([np.where(rows.fit, (rows.y - rows.X @ self.pi) / rows.scale, np.nan)
                               for rows in self.rows])

    def summary(self) -> str:
        """What was found, in lines."""
        lines = [repr(self)[1:-1]]
        if not self.physical:
            lines.append("the robot's numbers need not be those of real bodies")
        names = self.columns.robot.qd_names
        lines.append("error of each joint: " + ", ".join(
            f"{name} {100 * x:.2g} %" for name, x in zip(names, self.training.joints, strict=True)))
        lines.append(f"physical bodies cost {100 * self.cost_of_physics:.2g} % of error")
        if self.output_error is not None:
            second = self.output_error
            lines.append(f"simulated positions: {100 * second.score:.2g} % of error, "
                         f"{100 * second.before:.2g} % before the second stage")
        if self.payload is not None:
            low, high = self.payload.mass_interval
            lines.append(f"payload {self.payload.mass:.4g} kg ({low:.4g} to {high:.4g}) at "
                         f"{self.payload.com.round(4).tolist()} m in {self.payload.frame!r}")
        if self.gains is not None:
            lines.append(f"gains {self.gains.round(5).tolist()} N m per A")
        for formula, value, (low, high) in zip(self.base_parameters.formulas, self.base,
                                               self.intervals, strict=True):
            shown = formula if len(formula) < 70 else f"{formula[:67]}..."
            lines.append(f"  {value:12.5g}  [{low:.5g}, {high:.5g}]  {shown}")
        lines += [f"unknown: {each}" for each in self.unknown]
        lines += [f"warning: {each}" for each in self.warnings]
        return "\n".join(lines)

    def report(self, path: str | Path) -> Path:
        """Write a page on the fit, one file without links to others, and return its path."""
        from nlink.identification.fit_report import write_report

        return write_report(self, path)


def without_payload(columns: FitColumns, rows: FitRows) -> FitRows:
    """Rows of a robot without the body that its log says it carried."""
    if rows.log.payload is None:
        return rows
    body, T, _ = payload_place(columns.robot, rows.log.payload.get("frame", -1))
    own = payload_parameters(rows.log.payload, T)
    return replace(rows, y=rows.y - rows.X[..., 10 * body:10 * body + 10] @ own)


def score_of(rows: FitRows | Sequence[FitRows], predicted: Array | Sequence[Array]) -> Score:
    """The relative error of predictions, in the units of torques."""
    if isinstance(rows, FitRows):
        rows, predicted = [rows], [np.asarray(predicted)]
    size = np.concatenate([np.where(each.fit, each.y / np.where(each.scale, each.scale, 1), 0.0)
                           for each in rows])
    left = np.concatenate([np.where(each.fit, (each.y - p) / np.where(each.scale, each.scale, 1),
                                    0.0) for each, p in zip(rows, predicted, strict=True)])
    total, wrong = (size**2).sum(axis=0), (left**2).sum(axis=0)
    joints = np.sqrt(wrong / np.where(total > 0, total, np.inf))
    return Score(float(np.sqrt(wrong.sum() / max(total.sum(), 1e-300))), joints)
