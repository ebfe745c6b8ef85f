"""What a fit is asked for: logs, columns, which parameters are to be found and from where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlink.identification.base_parameters import BaseParameters
from nlink.identification.consistent import repaired
from nlink.identification.fit_columns import FitColumns
from nlink.identification.logs import Log, read_log
from nlink.identification.written_robot import payload_place
from nlink.model.names import did_you_mean, first_few
from nlink.robot import Robot

Array = np.ndarray
MODES = ("full", "payload", "friction", "gravity")
LOOSENESS = 0.5
"""The deviation from the prior that counts as much as one of the noise, in the prior's metric."""


@dataclass(frozen=True)
class FitTask:
    """What is to be found, of what."""

    robot: Robot
    logs: tuple[Log, ...]
    columns: FitColumns
    free: Array
    """Which parameters are to be found."""
    base: BaseParameters
    known: Array
    """What is added to the parameters that are found: those of all others."""
    prior: Array
    """What the parameters to be found are drawn to."""
    size: Array
    """What all parameters may be like; of joints, once the rows are there."""
    weight: float
    mode: str
    robust: bool
    gains: Array | None
    estimate_gains: bool
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, robot: Robot, log: Any, friction: Sequence[str], armature: bool,
           transmission: Any, gains: Any, fixed: Sequence[str], mode: str, prior: Any,
           weight: float | None, robust: bool) -> FitTask:
        if mode not in MODES:
            raise ValueError(f"mode: {mode!r}, expected one of {', '.join(MODES)}"
                             f"{did_you_mean(mode, MODES)}")
        if robot.description.closed:
            raise ValueError(f"robot: {robot.name} has loops, expected a tree")
        if robot.nq != robot.n and transmission is not None:
            raise ValueError(f"transmission: with {robot.name}, expected a robot whose coordinates "
                             "are plain numbers")
        if weight is not None and not weight >= 0:
            raise ValueError(f"weight: {weight}, expected a number >= 0")
        logs = logs_of(log, robot)
        columns = FitColumns.of(robot, friction, armature and mode != "gravity", transmission)
        free = _free(columns, mode, friction, armature, fixed)
        start, loose, said = _prior(robot, columns, prior, free, mode)
        base = columns.base(np.flatnonzero(free).tolist())
        if not len(base):
            raise ValueError("fixed: nothing is left to be found")
        known = np.where(free, 0.0, columns.prior)
        if mode == "payload":  # what is found is a body beside those that are known
            first = columns.inertial
            known[:first], start[:first] = columns.prior[:first], 0.0
        estimate = isinstance(gains, str)
        if estimate and gains != "estimate":
            raise ValueError(f"gains: {gains!r}, expected N m per A, or 'estimate'")
        values = None
        if gains is not None and not estimate:
            values = np.asarray(gains, dtype=float)
            if values.shape not in ((), (robot.n,)) or not np.isfinite(values).all() \
                    or not values.all():
                raise ValueError(f"gains: {gains!r:.80}, expected a number that is not 0, or "
                                 f"{robot.n} of them, N m per A")
            values = np.broadcast_to(values, (robot.n,)).copy()
        if estimate and not any(each.payload for each in logs):
            raise ValueError("gains: 'estimate' without a known payload, expected one log of "
                             "several with log.with_payload(mass, com)")
        if estimate and any(each.f_ext is not None for each in logs):
            raise ValueError("gains: 'estimate' with wrenches f_ext, expected N m per A")
        return cls(robot, logs, columns, free, base, known, start, np.zeros(len(free)),
                   (1 / LOOSENESS**2 if weight is None else float(weight)) * loose, mode, robust,
                   values, estimate, tuple(said))


def logs_of(given: Any, robot: Robot) -> tuple[Log, ...]:
    several = given if isinstance(given, list | tuple) else [given]
    if not several:
        raise ValueError("log: none, expected one or several")
    logs = tuple(read_log(each, robot) for each in several)
    for each in logs:
        if each.q.shape[1] != robot.nq:
            raise ValueError(f"{each.name}: {each.q.shape[1]} coordinates, expected {robot.nq}")
    return logs


def other_logs(validate: Any, robot: Robot) -> tuple[Log, ...]:
    if validate is None or isinstance(validate, bool):
        return ()
    if isinstance(validate, int | float):
        if not 0 <= validate < 0.9:
            raise ValueError(f"validate: {validate}, expected a share from 0 to 0.9, or logs")
        return ()
    return logs_of(validate, robot)


def _free(columns: FitColumns, mode: str, friction: Sequence[str], armature: bool,
          fixed: Sequence[str]) -> Array:
    """Which parameters are to be found."""
    if isinstance(fixed, str):
        raise TypeError(f"fixed: {fixed!r}, expected a list of names")
    asked = {"coulomb" if name == "dry" else name for name in friction}
    kinds = {"armature"} if armature and mode in ("full", "friction") else set()
    kinds |= asked | ({"viscous_difference", "coulomb_difference"} if "asymmetric" in asked
                      else set())
    p, first = len(columns.names), columns.inertial
    free = np.zeros(p, dtype=bool)
    free[first:] = [each.kind in kinds for each in columns.extras]
    if mode in ("full", "gravity"):
        free[:first] = True
    if mode == "payload":
        body, _, _ = payload_place(columns.robot)
        free[10 * body:10 * body + 10] = True
    for name in fixed:
        own = np.array([each == name or each.startswith(f"{name}.") for each in columns.names])
        if not own.any():
            raise ValueError(f"fixed: {name!r}, expected names of parameters, links or joints, "
                             f"such as {first_few(columns.names)}"
                             f"{did_you_mean(name, columns.names)}")
        free &= ~own
    return free


def _prior(robot: Robot, columns: FitColumns, prior: Any, free: Array, mode: str,
           ) -> tuple[Array, float, list[str]]:
    """What parameters are drawn to, with which share of the weight, and what had to be repaired."""
    start, said, loose = columns.prior.copy(), [], 1.0
    if isinstance(prior, Robot):
        if prior.parameter_names() != robot.parameter_names():
            raise ValueError(f"prior: {prior!r:.60}, expected a robot with the same links")
        start[:columns.inertial] = prior.parameters()
    elif prior is None:
        start[:columns.inertial], loose = 0.0, 1e-2
    elif prior != "robot":
        raise ValueError(f"prior: {prior!r:.60}, expected 'robot', a Robot or None")
    masses = start[:columns.inertial:10]
    mean = float(masses[masses > 0].mean()) if (masses > 0).any() else 1.0
    names = columns.robot.parameter_names()
    for k in range(columns.inertial // 10):
        if free[10 * k:10 * k + 10].any() and mode != "payload":
            start[10 * k:10 * k + 10], changed = repaired(start[10 * k:10 * k + 10], mean)
            if changed and prior is not None:
                said.append(f"prior: no real body has the numbers of link "
                            f"{names[10 * k].rsplit('.', 1)[0]!r}, the nearest that one has are "
                            "taken")
    return start, loose, said
