"""What is linear in what is to be found: the columns of a robot's model, with its drives.

Drives may turn at rates other than the joints': motor = A q. A motor that turns with one joint
alone adds friction and inertia to that joint. One that turns with several joints, as in a coupled
wrist, has friction and inertia along its row a of A, scaled to a largest element of 1:

    tau += a^T f(a . qd),    tau += a^T J a . qdd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.algorithms.joint_columns import column_kinds, joint_column
from nlink.robot import Robot
from nlink.scalars.functions import Scalar, Scalars

Array = np.ndarray
NONNEGATIVE = ("viscous", "coulomb", "stribeck", "armature")
"""Kinds of numbers that physics wants >= 0."""


@dataclass(frozen=True, slots=True)
class JointColumn:
    """One column of joints: its kind, its name, and the direction (n,) in which it acts."""

    kind: str
    name: str
    direction: tuple[float, ...]

    def value(self, qd: Scalars, qdd: Scalars, width: Scalar, stribeck: Scalar) -> Scalar:
        """Its size at the rates and accelerations of all joints, sequences of n."""
        return joint_column(self.kind, self._along(qd), self._along(qdd), width, stribeck)

    def _along(self, x: Scalars) -> Scalar:
        terms = [x[k] if a == 1 else x[k] * a for k, a in enumerate(self.direction) if a]
        return sum(terms[1:], terms[0])


def transmission_matrix(robot: Robot, given: ArrayLike | None) -> Array:
    """A of motor = A q from what users give: a matrix, ratios, or nothing."""
    n = robot.n
    if given is None:
        return np.eye(n)
    A = np.array(given, dtype=float)
    if A.ndim == 1:
        A = np.diag(A)
    if A.shape != (n, n) or not np.isfinite(A).all():
        raise ValueError(f"transmission: shape {np.shape(given)}, expected {n} ratios or a matrix "
                         f"({n}, {n}) of finite numbers, motor = A q")
    scale = np.abs(A).max(axis=1, initial=0.0)
    if not scale.all() or np.linalg.cond(A / scale[:, None]) > 1e8:
        raise ValueError("transmission: a singular matrix, expected motor = A q that can be solved "
                         "for q")
    return A


def joint_columns(robot: Robot, friction: Sequence[str] = (), armature: bool = False,
                  transmission: ArrayLike | None = None) -> tuple[JointColumn, ...]:
    """The columns of joints and drives, kind after kind.

    >>> import nlink
    >>> [column.name for column in joint_columns(nlink.load("double_pendulum"), ("viscous",))]
    ['joint1.viscous', 'joint2.viscous']
    """
    A, n = transmission_matrix(robot, transmission), robot.n
    joints = [(name, tuple(row)) for name, row in zip(robot.qd_names, np.eye(n).tolist(),
                                                      strict=True)]
    motors = [(f"motor{k + 1}", tuple((row / row[np.argmax(np.abs(row))]).tolist()))
              if np.count_nonzero(row) > 1 else joints[int(np.flatnonzero(row)[0])]
              for k, row in enumerate(A)]
    coupled = [motor for motor in motors if motor not in joints]
    along: dict[str, list[Any]] = {"offset": joints, "armature": motors}
    return tuple(JointColumn(kind, f"{name}.{kind}", direction)
                 for kind in column_kinds(friction, armature)
                 for name, direction in along.get(kind, [*joints, *coupled]))
