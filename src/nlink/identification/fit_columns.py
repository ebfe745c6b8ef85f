"""The columns that a fit has, and the rows that logs give it.

All is on the side of the motors: with motor = A q, what a motor feels of forces tau of the joints
is A^-T tau.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.algorithms.joint_columns import column_kinds
from nlink.identification.base_parameters import BaseParameters, independent_parameters
from nlink.identification.log_columns import free_rates
from nlink.identification.logs import Log
from nlink.identification.model_columns import JointColumn, joint_columns, transmission_matrix
from nlink.identification.signals import RowFilter, differentiated, suggested_cutoff
from nlink.robot import Robot

Array = np.ndarray
REST = 0.02
"""Rates below this share of a motor's largest tell nothing of dry friction, and are left out."""
NARROW = 1e-4
"""Dry friction changes its sign within this share of a motor's largest rate."""
RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Stribeck rates that are tried, as shares of a motor's largest rate."""
LEAST_LEFT = 0.5
"""A row counts if at least this share of its weights is of moving samples."""


@dataclass(frozen=True)
class FitColumns:
    """What a motor's torque is linear in: inertial parameters of bodies, then those of joints."""

    robot: Robot
    kinds: tuple[str, ...]
    A: Array
    width: Array
    """For each joint column, rad/s or m/s."""
    stribeck: Array
    """For each joint column; NaN where it is to be found."""
    extras: tuple[JointColumn, ...]

    @classmethod
    def of(cls, robot: Robot, friction: Sequence[str], armature: bool,
           transmission: ArrayLike | None) -> FitColumns:
        """The kinds that are asked for, and those that the robot has by itself."""
        own = [joint.friction for joint in robot.moving_joints]
        asked = list(friction)
        names = [name for name, has in (
            ("viscous", any(x.viscous for x in own)), ("coulomb", any(x.coulomb for x in own)),
            ("stribeck", any(x.excess for x in own))) if has and name not in asked
            and not (name == "coulomb" and "dry" in asked)]
        rotors = armature or any(joint.rotor_inertia for joint in robot.moving_joints)
        A = transmission_matrix(robot, transmission)
        kinds = column_kinds((*asked, *names), rotors)
        bare = free_rates(robot)  # nothing drives them
        extras = tuple(each for each in joint_columns(robot, (*asked, *names), rotors, A)
                       if not any(each.direction[k] for k in bare))
        rates = np.array([joint.friction.stribeck or np.nan for joint in robot.moving_joints
                          for _ in range(joint.type.nv)])
        own_rates = [float(rates[np.argmax(np.abs(each.direction))]) if each.kind == "stribeck"
                     and "stribeck" in names else np.nan for each in extras]
        return cls(robot, kinds, A, np.full(len(extras), 1e-3), np.array(own_rates), extras)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (*self.robot.parameter_names(), *(each.name for each in self.extras))

    @property
    def inertial(self) -> int:
        """The number of inertial parameters."""
        return len(self.names) - len(self.extras)

    @cached_property
    def prior(self) -> Array:
        """The parameters of the robot as it is."""
        robot = self.robot
        numbers = dict(zip(robot.parameter_names(("viscous", "coulomb", "stribeck"), True),
                           robot.parameters(("viscous", "coulomb", "stribeck"), True), strict=True))
        return np.array([numbers.get(name, 0.0) for name in self.names])

    @cached_property
    def to_motors(self) -> Array | None:
        """A^-T, or None where it is the identity."""
        return None if np.array_equal(self.A, np.eye(len(self.A))) else np.linalg.inv(self.A).T

    @cached_property
    def coupled(self) -> Array:
        """Which joint columns motors feel: (motors, joints), true where A^-T is not zero."""
        return np.linalg.inv(self.A).T != 0

    def at_rates(self, qd: Array) -> FitColumns:
        """With widths that suit the rates of a motion (N, n)."""
        speed = [np.quantile(np.abs(qd @ np.array(each.direction)), 0.98) for each in self.extras]
        return replace(self, width=np.maximum(NARROW * np.array(speed), 1e-9))

    @cached_property
    def searched(self) -> Array:
        """The joint columns whose Stribeck rate is to be found."""
        return np.flatnonzero([each.kind == "stribeck" and np.isnan(rate) for each, rate
                               in zip(self.extras, self.stribeck, strict=True)])

    @property
    def tried(self) -> Array:
        """The rates that are tried for them, (columns, rates)."""
        top = [self.width[k] / NARROW for k in self.searched]
        return np.outer(top, RATES)

    def inertial_rows(self, q: Array, qd: Array, qdd: Array) -> Array:
        """(N, motors, inertial parameters)."""
        Y = self.robot.regressor(q, qd, qdd)
        return Y if self.to_motors is None else np.einsum("ij,njk->nik", self.to_motors, Y)

    def joint_values(self, qd: Array, qdd: Array) -> Array:
        """(N, joint columns): sizes, to be multiplied by `directions`."""
        rates = np.where(np.isnan(self.stribeck), 1.0, self.stribeck)
        found = np.empty((len(qd), len(self.extras)))
        for k, each in enumerate(self.extras):
            found[:, k] = each.value(qd.T, qdd.T, self.width[k], rates[k])
        return found

    @cached_property
    def directions(self) -> Array:
        """(motors, joint columns): where each column acts."""
        own = np.array([each.direction for each in self.extras]).reshape(-1, len(self.A)).T
        return own if self.to_motors is None else self.to_motors @ own

    def rows(self, q: Array, qd: Array, qdd: Array) -> Array:
        """(N, motors, parameters)."""
        more = self.joint_values(qd, qdd)[:, None, :] * self.directions
        return np.concatenate([self.inertial_rows(q, qd, qdd), more], axis=2)

    def base(self, free: Sequence[int]) -> BaseParameters:
        """The independent combinations of some of the parameters."""
        return independent_parameters(self.robot, self.extras, free)


@dataclass
class FitRows:
    """Rows of one log: X (K, motors, parameters), y (K, motors), at the times t (K,).

    Every row is scaled to the noise of one sample; rows that do not count have `fit` False.
    """

    log: Log
    t: Array
    X: Array
    y: Array
    fit: Array
    scale: Array
    """What rows were multiplied by, (K, motors): those of X and y / scale are in true units."""
    candidates: Array | None = None
    """(K, motors, columns that are searched, rates): Stribeck's columns at `tried` rates."""
    training: Array = field(default_factory=lambda: np.ones(0, dtype=bool))
    cutoff: float = 0.0
    samples: int = 0

    def part(self, which: Array) -> FitRows:
        """Some of the rows."""
        more = None if self.candidates is None else self.candidates[which]
        return replace(self, t=self.t[which], X=self.X[which], y=self.y[which],
                       fit=self.fit[which], scale=self.scale[which], candidates=more,
                       training=self.training[which] if len(self.training) else self.training)


@dataclass(frozen=True)
class Preparation:
    """How rows are made: what `identify` was told about signals."""

    cutoff: float | None
    delay: float
    still: bool
    """Whether rates and accelerations count as zero: for poses."""
    dry: bool
    """Whether samples at rest are left out."""
    top: Array
    """The largest rates of the motors."""


def joint_motion(columns: FitColumns, log: Log, cutoff: float | None, delay: float) -> Any:
    """The joints' smooth motion, and the cut-off."""
    q = log.q if columns.to_motors is None else log.q @ columns.to_motors
    assert log.t is not None
    fc = suggested_cutoff(log.t, q) if cutoff is None else cutoff
    return differentiated(log.t, q, fc, delay), fc


def measured(columns: FitColumns, log: Log, gains: Array | None) -> Array:
    """The motors' torques of a log, or currents where gains are to be found."""
    if gains is not None:
        return (log.current if log.current is not None else log.tau) * gains  # type: ignore[operator]
    if log.tau is None:
        raise ValueError(f"{log.name}: currents and no torques, expected gains= in N m per A, or "
                         "gains='estimate' with a log under a known payload")
    return log.tau


def contact_torques(columns: FitColumns, q: Array, f_ext: Array | None) -> Array | float:
    """What known wrenches do for the motors, J^T f: Y pi is the torque and that."""
    if f_ext is None:
        return 0.0
    rest = np.zeros((len(q), columns.robot.n))
    found = columns.robot.inverse_dynamics(q, rest, rest) - columns.robot.inverse_dynamics(
        q, rest, rest, f_ext=f_ext)
    return found if columns.to_motors is None else found @ columns.to_motors.T


def rows_of(columns: FitColumns, log: Log, torque: Array, motion: Any, how: Preparation,
            ) -> FitRows:
    """The rows of a log: filtered and thinned where it has times, as they are where not."""
    if log.t is None:
        qd, qdd = np.asarray(log.qd), np.asarray(log.qdd)
        X = columns.rows(log.q, qd, qdd)
        one, torque = np.ones(torque.shape), torque + contact_torques(columns, log.q, log.f_ext)
        several = _candidates(columns, qd)
        found = None if several is None else np.einsum(
            "ncs,jc->njcs", several, columns.directions[:, columns.searched])
        return FitRows(log, np.arange(len(X), dtype=float), X, torque, one > 0, one, found,
                       samples=len(X))
    assert how.cutoff is not None
    at = np.searchsorted(log.t, motion.t)
    y = torque[at] + contact_torques(
        columns, motion.q, None if log.f_ext is None else log.f_ext[at])
    qd, qdd = (np.zeros_like(motion.qd),) * 2 if how.still else (motion.qd, motion.qdd)
    use = moving(columns, motion.qd, how.dry, how.top)
    values = columns.joint_values(motion.qd if how.still else qd, qdd)
    several = _candidates(columns, qd)
    sieve = RowFilter(motion.t, motion.pieces, how.cutoff)
    K, n, p = len(sieve.instants), y.shape[1], len(columns.names)
    X, Y = np.zeros((K, n, p)), np.zeros((K, n))
    scale, fit = np.ones((K, n)), np.zeros((K, n), dtype=bool)
    found = None if several is None else np.zeros((K, n, *several.shape[1:]))
    for own, rows, w in sieve.chunks():
        inertial = columns.inertial_rows(motion.q[rows], qd[rows], qdd[rows])
        for j in range(n):
            wj = w * use[rows, j]
            total, full = wj.sum(axis=1), w.sum(axis=1)
            left = np.abs(wj).sum(axis=1) / np.maximum(np.abs(w).sum(axis=1), 1e-300)
            good = (left > LEAST_LEFT) & (total > 0.4 * np.abs(full)) & (full > 0)
            wj = wj / np.where(good, total, 1.0)[:, None]
            size = np.sqrt((wj**2).sum(axis=1))
            fit[own, j], wj = good, wj / np.where(size > 0, size, 1.0)[:, None]
            scale[own, j] = np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 0.0)
            X[own, j, :columns.inertial] = wj @ inertial[:, j]
            X[own, j, columns.inertial:] = (wj @ values[rows]) * columns.directions[j]
            Y[own, j] = wj @ y[rows, j]
            if several is not None and found is not None:
                found[own, j] = (np.tensordot(wj, several[rows], axes=1)
                                 * columns.directions[j, columns.searched][:, None])
    return FitRows(log, sieve.instants, X, Y, fit, scale, found, cutoff=how.cutoff,
                   samples=len(log))


def moving(columns: FitColumns, qd: Array, dry: bool, top: Array) -> Array:
    """Which samples count for which motor: where dry friction has a sign."""
    if not dry:
        return np.ones(qd.shape)
    slow = np.abs(qd @ columns.A.T) < REST * top
    return 1.0 - (columns.coupled @ slow.T).T.astype(bool) if columns.to_motors is not None \
        else 1.0 - slow


def _candidates(columns: FitColumns, qd: Array) -> Array | None:
    """Stribeck's columns at several rates: (N, columns to be found, rates)."""
    if not len(columns.searched):
        return None
    found = np.zeros((len(qd), len(columns.searched), len(RATES)))
    for c, k in enumerate(columns.searched):
        each = columns.extras[k]
        for s, rate in enumerate(columns.tried[c]):
            found[:, c, s] = each.value(qd.T, qd.T, columns.width[k], rate)
    return found
