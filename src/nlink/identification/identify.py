"""From logs of motions to a robot: `nlink.identify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nlink.identification.consistent import tensor_of
from nlink.identification.drive_gains import estimated_gains
from nlink.identification.fit import Fit, score_of, without_payload
from nlink.identification.fit_columns import FitRows, Preparation
from nlink.identification.fit_signals import (
    SignalSetting,
    all_rows,
    gaps,
    stribeck_rates,
    with_rates,
)
from nlink.identification.fit_task import FitTask, other_logs
from nlink.identification.log_doubts import (
    other_sizes,
    refuse_millimetres,
    refuse_signs,
    refuse_turned_positions,
    still_joints,
)
from nlink.identification.logs import Log
from nlink.identification.output_error import OutputError, refined
from nlink.identification.solved_fit import SolvedFit, solve
from nlink.identification.unknown import unknown_parameters
from nlink.identification.written_robot import (
    CarriedBody,
    in_link,
    payload_place,
    with_parameters,
)
from nlink.robot import Robot, expect_robot

Array = np.ndarray
Mode = Literal["full", "payload", "friction", "gravity"]
Data = Log | str | Path | Mapping[str, Any]


def identify(robot: Robot, log: Data | Sequence[Data], *,
             friction: Sequence[str] = ("viscous", "coulomb", "offset"), armature: bool = True,
             transmission: ArrayLike | None = None, gains: ArrayLike | str | None = None,
             cutoff: float | None = None, delay: float | str = 0.0,
             prior: str | Robot | None = "robot", weight: float | None = None,
             fixed: Sequence[str] = (), mode: Mode = "full",
             validate: float | Data | Sequence[Data] | None = 0.3, robust: bool = False,
             output_error: bool = False) -> Fit:
    """Parameters of a robot from logs of its motion.

    `log` is what `nlink.read_log` gives or takes, or several of them. Positions are smoothed by
    their true stamps, torques and all columns filtered alike and thinned to what is independent;
    each joint has its own noise. The base parameters follow by least squares, and from them the
    bodies that physics allows, closest to those of the robot itself where the logs do not tell.

    friction, armature
        Which columns of joints to fit, as in `robot.regressor`; what the robot has by itself and
        is not named stays as it is.
    transmission
        A of motor = A q, ratios or a matrix, if the log is of motors.
    gains
        N m per A, one for each motor, if the log has currents; "estimate" finds them with the help
        of a log under a known payload, `log.with_payload(2.0, com)`.
    cutoff
        Hz; if not given, from the motion.
    delay
        Seconds by which torques come later than positions in the log, or "estimate".
    prior, weight
        What the bodies are drawn to: "robot", another robot, or None for bodies of a plausible
        size; and how strongly, 1 / (relative deviation)^2.
    fixed
        Parameters that stay: names such as "link2.m", of links, or of joints.
    mode
        "full"; "payload", a body at the end of a robot that is known but for its friction;
        "friction", of a robot whose bodies are known; "gravity", from poses or slow motion.
    validate
        The share of rows at the end of each log that a first fit does not see, or other logs. All
        rows are in the final fit, but for other logs.
    robust
        Rows far from the model lose their weight (Tukey's).
    output_error
        A second stage: the parameters whose simulation with the measured torques, in short
        windows, passes through the measured positions. `fit.output_error` has its score.

    >>> import nlink, numpy as np
    >>> arm = nlink.load("double_pendulum")
    >>> t = np.arange(0, 10, 0.01)[:, None]
    >>> w, a = np.array([2.0, 3.1]), np.array([1.0, 0.8])
    >>> q, qd, qdd = a * np.sin(w * t), a * w * np.cos(w * t), -a * w * w * np.sin(w * t)
    >>> tau = arm.with_payload(0.5).inverse_dynamics(q, qd, qdd)
    >>> fit = nlink.identify(arm, dict(t=t[:, 0], q=q, tau=tau), mode="payload", friction=())
    >>> round(fit.payload.mass, 2)
    0.5
    """
    expect_robot(robot)
    task = FitTask.of(robot, log, friction, armature, transmission, gains, fixed, mode, prior,
                      weight, robust)
    others = other_logs(validate, robot)
    rows, seen, setting = all_rows(task, others, cutoff, delay)
    task = replace(task, columns=setting.columns)
    rows, seen, task = _gains(rows, seen, task)
    rows, seen = ([without_payload(task.columns, each) for each in some] for some in (rows, seen))
    columns = stribeck_rates(task, rows)
    rows, seen = ([with_rates(each, task.columns, columns) for each in some]
                  for some in (rows, seen))
    task = replace(task, columns=columns)
    refuse_millimetres(rows, task.columns.prior)
    warnings = [*task.warnings, *still_joints(task.columns, task.logs),
                *other_sizes(task.columns, rows)]
    for each in (*task.logs, *others):
        warnings += [f"{each.name}: {note}" for note in each.notes]
    warnings += gaps(rows, setting.cutoff)
    held_out: list[tuple[FitRows, Array]] = []
    if isinstance(validate, int | float) and validate and not others:
        early = [each.part(_early(each, float(validate))) for each in rows]
        late = [each.part(~_early(each, float(validate))) for each in rows]
        if _enough(early, task):
            first, _ = solve(task, early)
            held_out = [(each, each.X @ first.pi) for each in late]
    result, said = solve(task, rows)
    warnings += said
    second = None
    if output_error:
        if mode == "gravity":
            raise ValueError("output_error: with mode='gravity', expected a mode with motion")
        pi, second, notes = refined(task, task.logs, setting, result)
        warnings += [each for each in notes if each not in said]
        result = replace(result, pi=pi)
    if others:
        held_out = [(each, each.X @ result.pi) for each in seen]
    error = score_of(rows, [each.X @ result.base_pi for each in rows])
    refuse_signs(task.columns, rows, error, task.base.columns, task.known, task.columns.prior)
    unseen = score_of([each for each, _ in held_out], [p for _, p in held_out]) if held_out else 0.0
    how = Preparation(setting.cutoff, setting.delay, mode == "gravity", False, setting.top)
    refuse_turned_positions(task.columns, task.logs, how, task.gains, max(error, unseen),
                            task.base.columns, task.known)
    return _finished(task, rows, held_out, result, warnings, setting, error, second, {
        "friction": tuple(friction), "armature": armature, "transmission": transmission,
        "cutoff": cutoff, "delay": delay, "mode": mode, "robust": robust, "weight": weight,
        "fixed": tuple(fixed), "output_error": output_error})


def _early(rows: FitRows, share: float) -> Array:
    """The rows before the last share; those without times are taken in turn."""
    K = len(rows.t)
    if rows.log.t is None:
        return np.arange(K) % 10 >= round(10 * share)
    return np.arange(K) < round((1 - share) * K)


def _enough(rows: Sequence[FitRows], task: FitTask) -> bool:
    return sum(int(each.fit.sum()) for each in rows) > 2 * len(task.base)


def _gains(rows: list[FitRows], seen: list[FitRows], task: FitTask,
           ) -> tuple[list[FitRows], list[FitRows], FitTask]:
    """Torques in place of currents where gains are to be found."""
    if not task.estimate_gains:
        return rows, seen, task
    gains = estimated_gains(task, rows)
    rows, seen = ([replace(each, y=each.y * gains) for each in some] for some in (rows, seen))
    return rows, seen, replace(task, gains=gains)


def _finished(task: FitTask, rows: Sequence[FitRows], held_out: list[tuple[FitRows, Array]],
              result: SolvedFit, warnings: list[str], setting: SignalSetting, base_error: Any,
              second: OutputError | None, how: dict[str, Any]) -> Fit:
    columns, fit, pi = task.columns, result.base_fit, result.pi
    robot, said = with_parameters(task.robot, columns, pi, rows)
    error = score_of(rows, [each.X @ pi for each in rows])
    validation = score_of([each for each, _ in held_out], [p for _, p in held_out]) \
        if held_out and sum(int(each.fit.sum()) for each, _ in held_out) else None
    offset = np.zeros(task.robot.n)
    for k, each in enumerate(columns.extras, columns.inertial):
        if each.kind == "offset":
            offset += pi[k] * np.array(each.direction)
    half = fit.half_widths
    payload = None
    if task.mode == "payload":
        payload = _payload(task, result)
    unknown = unknown_parameters(columns, task.base, half / 1.96 / result.size, result.size,
                                 setting.top)
    values = dict(zip(columns.names, pi.tolist(), strict=True))
    return Fit(robot, fit.values, np.column_stack([fit.values - half, fit.values + half]),
               task.base, values, offset, unknown, (*warnings, *said),
               float(error) - float(base_error), result.physical, error, validation, payload,
               task.gains, setting.delay, setting.cutoff, fit.sigma, base_error, columns, pi,
               list(rows), held_out, {**how, "top": setting.top}, task.prior, second)


def _payload(task: FitTask, result: SolvedFit) -> CarriedBody:
    """What is carried, in the axes of the last link."""
    body, T, name = payload_place(task.robot)
    own = result.pi[10 * body:10 * body + 10] - task.columns.prior[10 * body:10 * body + 10]
    at = in_link(own, T)
    m = float(at[0])
    c = at[1:4] / m if m else np.zeros(3)
    J = tensor_of(at)
    half = 1.96 * float(np.sqrt(result.base_fit.covariance[
        task.base.columns.index(10 * body), task.base.columns.index(10 * body)])) \
        if 10 * body in task.base.columns else float("inf")
    return CarriedBody(m, c, J - m * (c @ c * np.eye(3) - np.outer(c, c)), name,
                       (m - half, m + half))
