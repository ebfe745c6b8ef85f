"""Tasks: the goals of inverse kinematics, as residuals on any scalar.

A task has rows r (the remaining errors, lengths over the size of the robot) and J, their
derivatives by the joints' rates, so that a step d with J d = r fulfils it to first order; and its
errors, in metres or radians, by which a solution is judged.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.mimics import leads
from nlink.model.quaternions import length
from nlink.programs.applying import apply
from nlink.scalars.arrays import batch, single
from nlink.scalars.functions import Scalar, Scalars, atan2
from nlink.spatial import Matrix, Vector

if TYPE_CHECKING:
    from nlink.robot import Robot

Row = list[Scalar]
CLOSER = 1e3
"""Loops and joints that follow must be so much closer than the tolerance says."""


@dataclass(frozen=True, slots=True)
class Residual:
    """The rows of a task in one configuration."""

    r: Row
    J: list[Row]
    distances: Row
    """Errors in metres."""
    angles: Row
    """Errors in radians."""

    def __add__(self, other: Residual) -> Residual:
        return Residual(self.r + other.r, self.J + other.J, self.distances + other.distances,
                        self.angles + other.angles)

    def weighted(self, weight: float) -> Residual:
        """The same with rows that count more or less; errors stay as they are."""
        return Residual([weight * x for x in self.r], [[weight * x for x in row] for row in self.J],
                        self.distances, self.angles)


class Task(ABC):
    """A goal for one configuration.

    `numbers` are the numbers of the target, over any leading shape; `kind` is everything else that
    decides the code; `residual(robot, q, numbers, size)` computes the rows, with lengths over
    `size`.
    """

    @property
    @abstractmethod
    def numbers(self) -> np.ndarray: ...

    @property
    @abstractmethod
    def kind(self) -> tuple[Any, ...]: ...

    @abstractmethod
    def residual(self, robot: Robot, q: Scalars, numbers: Scalars, size: float) -> Residual: ...


@dataclass(frozen=True, eq=False)
class _FrameTask(Task):
    """A task of one frame."""

    target: Any
    frame: int | str = -1
    weight: float = 1.0

    shape = (3,)

    def __post_init__(self) -> None:
        expect_positive("weight", self.weight)
        object.__setattr__(self, "target", batch("target", self.target, self.shape))

    @property
    def numbers(self) -> np.ndarray:
        lead = self.target.shape[:self.target.ndim - len(self.shape)]
        return self.target.reshape(*lead, math.prod(self.shape))

    @property
    def kind(self) -> tuple[Any, ...]:
        return type(self).__name__, self.frame, self.weight

    def residual(self, robot: Robot, q: Scalars, numbers: Scalars, size: float) -> Residual:
        pose = apply(robot, "pose", q, frame=self.frame)
        flat, n = apply(robot, "jacobian", q, frame=self.frame), robot.n
        J = [flat[i * n:(i + 1) * n] for i in range(6)]
        R = Matrix(*(Vector(*(pose[4 * i + k] for i in range(3))) for k in range(3)))
        return self._compare(R, Vector(*pose[3:12:4]), J, numbers, size).weighted(self.weight)

    def _compare(self, R: Matrix, p: Vector, J: list[Row], numbers: Scalars,
                 size: float) -> Residual:
        """The rows of a frame at p with the columns of R as axes, whose twist is J qd."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ReachPosition(_FrameTask):
    """The origin of a frame comes to a point, (..., 3).

    >>> import nlink
    >>> robot = nlink.load("puma560")
    >>> bool(nlink.ik(robot, tasks=[nlink.ReachPosition(robot.pose([0.5] * 6)[:3, 3])]).solved)
    True
    """

    def _compare(self, R: Matrix, p: Vector, J: list[Row], numbers: Scalars,
                 size: float) -> Residual:
        return _position(p, J, Vector(*numbers), size)


@dataclass(frozen=True, eq=False)
class ReachOrientation(_FrameTask):
    """The axes of a frame become the columns of a rotation matrix, (..., 3, 3).

    >>> import numpy as np
    >>> import nlink
    >>> bool(nlink.ik(nlink.load("puma560"), tasks=[nlink.ReachOrientation(np.eye(3))]).solved)
    True
    """

    shape = (3, 3)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_rotations("target", self.target)

    def _compare(self, R: Matrix, p: Vector, J: list[Row], numbers: Scalars,
                 size: float) -> Residual:
        return _orientation(R, J, [numbers[k::3] for k in range(3)])


@dataclass(frozen=True, eq=False)
class ReachPose(_FrameTask):
    """A frame comes to a pose, (..., 4, 4): its origin to a point, its axes to a rotation.

    >>> import nlink
    >>> robot = nlink.load("puma560")
    >>> target = robot.pose([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    >>> bool(nlink.ik(robot, tasks=[nlink.ReachPose(target)]).solved)
    True
    """

    shape = (4, 4)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_poses("target", self.target)

    def _compare(self, R: Matrix, p: Vector, J: list[Row], numbers: Scalars,
                 size: float) -> Residual:
        return (_orientation(R, J, [numbers[k:12:4] for k in range(3)])
                + _position(p, J, Vector(*numbers[3:12:4]), size))


@dataclass(frozen=True, eq=False)
class AlignAxis(_FrameTask):
    """An axis of a frame (given in the frame) points in a direction of the world, (..., 3);
    turning about it is free.

    >>> import nlink
    >>> robot = nlink.load("panda")
    >>> found = nlink.ik(robot, [0.4, 0.1, 0.4], tasks=[nlink.AlignAxis([0, 0, -1])])
    >>> robot.pose(found.q)[:3, 2].round(5) + 0.0
    array([ 0.,  0., -1.])
    """

    axis: Sequence[float] = (0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axis", _axis(self.axis))
        _expect_directions("target", self.target)

    @property
    def kind(self) -> tuple[Any, ...]:
        return *super().kind, *self.axis

    def _compare(self, R: Matrix, p: Vector, J: list[Row], numbers: Scalars,
                 size: float) -> Residual:
        d = Vector(*numbers)
        return _aim(R @ Vector(*self.axis), d * (1 / length(d)), J[:3])


@dataclass(frozen=True, eq=False)
class LookAt(AlignAxis):
    """An axis of a frame points from its origin at a point of the world, (..., 3).

    >>> import nlink
    >>> camera = nlink.LookAt([0.8, 0.1, 0.0])
    >>> bool(nlink.ik(nlink.load("panda"), [0.4, 0.1, 0.4], tasks=[camera]).solved)
    True
    """

    def __post_init__(self) -> None:
        _FrameTask.__post_init__(self)
        object.__setattr__(self, "axis", _axis(self.axis))

    def _compare(self, R: Matrix, p: Vector, J: list[Row], numbers: Scalars,
                 size: float) -> Residual:
        away = Vector(*numbers) - p
        far = 1 / length(away)
        d = away * far
        # the direction itself turns by -(d x v) / |away|: what the axis gains on it
        gained = []
        for column in zip(*J, strict=True):
            turn = d.cross(Vector(*column[3:])) * far
            gained.append((Vector(*column[:3]) + turn).components)
        return _aim(R @ Vector(*self.axis), d, [list(row) for row in zip(*gained, strict=True)])


@dataclass(frozen=True, eq=False)
class ReachMassCenter(Task):
    """The centre of mass comes to a point, (..., 3).

    >>> import nlink
    >>> robot = nlink.load("planar3")
    >>> bool(nlink.ik(robot, tasks=[nlink.ReachMassCenter([0.7, 0.5, 0.0])]).solved)
    True
    """

    target: Any
    weight: float = 1.0

    def __post_init__(self) -> None:
        expect_positive("weight", self.weight)
        object.__setattr__(self, "target", batch("target", self.target, (3,)))

    @property
    def numbers(self) -> np.ndarray:
        return self.target

    @property
    def kind(self) -> tuple[Any, ...]:
        return type(self).__name__, self.weight

    def residual(self, robot: Robot, q: Scalars, numbers: Scalars, size: float) -> Residual:
        c, flat, n = apply(robot, "center_of_mass", q), apply(robot, "com_jacobian", q), robot.n
        J = [flat[i * n:(i + 1) * n] for i in range(3)]
        return _position(Vector(*c), [[]] * 3 + J, Vector(*numbers), size).weighted(self.weight)


class Coupling(Task):
    """A condition that holds for every target and so has no numbers."""

    @property
    def numbers(self) -> np.ndarray:
        return np.zeros(0)

    @property
    def kind(self) -> tuple[Any, ...]:
        return (type(self).__name__,)


class KeepClosed(Coupling):
    """The loops of a mechanism stay closed: g(q) = 0."""

    def residual(self, robot: Robot, q: Scalars, numbers: Scalars, size: float) -> Residual:
        g, flat, n = apply(robot, "closure_error", q), apply(robot, "closure_jacobian", q), robot.n
        scale = robot.mechanism.scales
        J = [[x * (1 / s) for x in flat[i * n:(i + 1) * n]] for i, s in enumerate(scale)]
        return Residual([-x * (1 / s) for x, s in zip(g, scale, strict=True)], J,
                        [x * CLOSER for x in g], [])


class FollowLeads(Coupling):
    """Joints that mimic others follow them."""

    def residual(self, robot: Robot, q: Scalars, numbers: Scalars, size: float) -> Residual:
        names, rates = robot.q_names, robot.qd_names  # joints that follow have one of each
        rows, J = [], []
        for follower, (lead, factor, offset) in leads(robot.joints).items():
            row = [0.0] * robot.n
            row[rates.index(follower)], row[rates.index(lead.name)] = 1.0, -factor
            rows.append(q[names.index(lead.name)] * factor + offset - q[names.index(follower)])
            J.append(row)
        return Residual(rows, J, [], [x * CLOSER for x in rows])


def couplings(robot: Robot) -> list[Task]:
    """The conditions that hold in every configuration of a robot."""
    found: list[Task] = [KeepClosed()] if robot.mechanism.closed else []
    return [*found, FollowLeads()] if leads(robot.joints) else found


def _position(p: Vector, J: list[Row], target: Vector, size: float) -> Residual:
    """r = (p* - p) / size."""
    away = target - p
    return Residual([x * (1 / size) for x in away.components],
                    [[x * (1 / size) for x in row] for row in J[3:]], [length(away)], [])


def _orientation(R: Matrix, J: list[Row], target: Sequence[Scalars]) -> Residual:
    """r = log(R* R^T), the rotation vector in world axes that is still to be turned: half the sum
    of the cross products of the axes is sin(angle) times its axis, half the sum of their dot
    products less 1 the cosine."""
    wanted = [Vector(*column) for column in target]
    axes = (R.x, R.y, R.z)
    a, c = Vector.zero(), -1.0
    for axis, other in zip(axes, wanted, strict=True):
        a, c = a + axis.cross(other), c + axis.dot(other)
    a = a * 0.5
    return _turn(a, c * 0.5, J[:3])


def _aim(a: Vector, d: Vector, J: list[Row]) -> Residual:
    """The shortest turn that brings a to d, unit vectors; turns about a do not count."""
    rows = []
    for column in zip(*J, strict=True):
        w = Vector(*column)
        rows.append((w - a * a.dot(w)).components)
    return _turn(a.cross(d), a.dot(d), [list(row) for row in zip(*rows, strict=True)])


def _turn(a: Vector, c: Scalar, J: list[Row]) -> Residual:
    """A rotation vector along a = sin(angle) axis, c being the cosine."""
    s = length(a)
    angle = atan2(s, c)
    return Residual(list((a * (angle / s)).components), J, [], [angle])


def expect_rotations(name: str, R: np.ndarray) -> None:
    """Refuse matrices that are not rotations."""
    R = R[np.isfinite(R).all(axis=(-1, -2))]
    off = np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(3)).max(axis=(-1, -2), initial=0.0)
    if (off > 1e-6).any() or (np.linalg.det(R) < 0).any():
        raise ValueError(f"{name}: not a rotation matrix (R R^T differs from 1 by "
                         f"{off.max(initial=0.0):.2g}), expected orthonormal, right-handed axes")


def expect_poses(name: str, T: np.ndarray) -> None:
    """Refuse matrices that are not homogeneous transforms."""
    if np.abs(T[..., 3, :] - (0, 0, 0, 1)).max(initial=0.0) > 1e-9:
        raise ValueError(f"{name}: the last row is not (0, 0, 0, 1), expected 4x4 homogeneous "
                         "transforms")
    expect_rotations(name, T[..., :3, :3])


def expect_positive(name: str, number: Any) -> None:
    """Refuse anything but a finite number above zero."""
    if not (isinstance(number, int | float | np.number) and 0 < number < math.inf):
        raise ValueError(f"{name}: {number!r:.80}, expected a positive number")


def _expect_directions(name: str, vectors: np.ndarray) -> None:
    """Refuse vectors without a direction; what is not finite is left to the search to report."""
    if (vectors == 0).all(axis=-1).any():
        raise ValueError(f"{name}: a vector of length zero, expected a direction")


def _axis(given: Any) -> tuple[float, ...]:
    """A direction of a frame, of length 1."""
    axis = single("axis", given, (3,))
    _expect_directions("axis", axis)
    return tuple((axis / np.linalg.norm(axis)).tolist())
