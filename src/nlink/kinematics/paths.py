"""Paths: frames that follow lines and arcs, and joint motions that take them there.

A path is a list of poses; between two of them the frame's origin moves along a line, or along the
arc through a point, and turns about one axis. It is followed in small steps, each by inverse
kinematics from the configuration before, so that the joints never jump.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.kinematics.inverse_kinematics import ik
from nlink.kinematics.tasks import expect_poses
from nlink.kinematics.time_optimal import PathTiming, time_along
from nlink.model.rotations import exp3, log3
from nlink.robot import Robot, expect_robot
from nlink.scalars.arrays import single

if TYPE_CHECKING:
    from nlink.simulation.trajectories import Motion

Array = np.ndarray
JUMP = 0.5
"""A joint that moves further (rad, m) between two steps of a path has jumped."""


@dataclass(frozen=True, eq=False)
class Arc:
    """A piece of a path: to a pose (4, 4), its origin on the circle through `via`, a point.

    >>> import numpy as np
    >>> import nlink
    >>> start, end = np.eye(4), np.eye(4)
    >>> end[:3, 3] = 0.0, 1.0, 0.0
    >>> round(nlink.Arc([0.5, 0.5, 0.0], end).length(start[:3, 3]), 4)
    1.5706
    """

    via: Any
    to: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "via", single("via", self.via, (3,)))
        object.__setattr__(self, "to", single("to", self.to, (4, 4)))
        expect_poses("to", self.to)

    def positions(self, start: Array, share: Array) -> Array:
        """Points on the arc from `start`, by shares of its length."""
        a, b = self.via - start, self.to[:3, 3] - start
        normal = np.cross(a, b)
        size = float(normal @ normal)
        if size <= 1e-18 * float(a @ a) * float(b @ b):
            raise ValueError("via: it lies on the line from the start to the end of the arc, "
                             "expected a point beside it")
        center = start + np.cross(normal, (a @ a) * b - (b @ b) * a) / (-2 * size)
        x = start - center
        y = np.cross(normal / math.sqrt(size), x)
        end = self.to[:3, 3] - center
        angle = math.atan2(end @ y, end @ x) % (2 * math.pi)
        return center + np.cos(angle * share)[:, None] * x + np.sin(angle * share)[:, None] * y

    def length(self, start: Array) -> float:
        points = self.positions(start, np.linspace(0, 1, 65))
        return float(np.linalg.norm(np.diff(points, axis=0), axis=-1).sum())


@dataclass(frozen=True, eq=False)
class TimedPath:
    """A joint motion along a path: called with t it returns q, qd, qdd, as controllers need them.

    `t` and `q` are its waypoints, `poses` those of the frame, `duration` its time.
    """

    trajectory: PathTiming
    t: Array
    q: Array
    poses: Array

    @property
    def duration(self) -> float:
        return float(self.t[-1])

    def __call__(self, t: Any) -> Motion:
        return self.trajectory(t)

    def __repr__(self) -> str:
        return f"<TimedPath: {self.duration:.3g} s through {len(self.t)} configurations>"


def reach(robot: Robot, waypoints: Sequence[ArrayLike | Arc], frame: int | str = -1,
          q0: ArrayLike | None = None, *, velocity: ArrayLike | None = None,
          acceleration: ArrayLike | None = None, effort: ArrayLike | None = None,
          spacing: float = 0.005, tolerance: float = 1e-6) -> TimedPath:
    """The fastest joint motion that moves a frame through poses, along lines and arcs.

    `waypoints` are poses (4, 4), or `nlink.Arc` for a piece on a circle; the motion begins at the
    first of them (in the configuration that inverse kinematics finds from `q0`), or at the pose of
    `q0` if there is only one. Steps along the path are `spacing` metres, or as many radians of
    turning over a quarter of a metre. Limits of velocity and effort are those of the joints unless
    `velocity`, `acceleration` and `effort` are given, one number or one for each joint; without
    effort limits `acceleration` is required.

    >>> import nlink, numpy as np
    >>> robot, q = nlink.load("panda"), [0, -0.3, 0, -2.2, 0, 2.0, 0.8]
    >>> start = robot.pose(q)
    >>> end = start.copy()
    >>> end[:3, 3] += [0.0, 0.2, 0.1]
    >>> path = nlink.reach(robot, [start, end], q0=q, acceleration=5.0)
    >>> np.abs(robot.pose(path.q[-1]) - end).max() < 2e-6
    np.True_
    """
    expect_robot(robot)
    if not robot.mechanism.space.flat or robot.description.closed:
        raise ValueError(f"robot: {robot.name} has loops, or coordinates that are not rates, "
                         "expected a tree of joints with as many of both")
    if not (math.isfinite(spacing) and spacing > 0):
        raise ValueError(f"spacing: {spacing}, expected a positive number of metres")
    poses = _sample(robot, list(waypoints), frame, q0, spacing)
    q = _follow(robot, poses, frame, q0, tolerance)
    moved = np.append(True, np.abs(np.diff(q, axis=0)).max(axis=1) > 1e-9)
    if moved.sum() < 2:
        raise ValueError("waypoints: no joint moves between them, expected poses that differ")
    q, poses = q[moved], poses[moved]
    timing = time_along(robot, q, velocity, acceleration, effort)
    return TimedPath(timing, timing.times, q, poses)


def _sample(robot: Robot, waypoints: list[Any], frame: int | str, q0: ArrayLike | None,
            spacing: float) -> Array:
    """Poses along the whole path."""
    ends = [x.to if isinstance(x, Arc) else single("waypoints", x, (4, 4)) for x in waypoints]
    for end in ends:
        expect_poses("waypoints", end)
    if len(ends) == 1 and q0 is not None:
        ends, waypoints = [robot.pose(q0, frame), *ends], [None, *waypoints]
    if len(ends) < 2 or isinstance(waypoints[0], Arc):
        raise ValueError(f"waypoints: {len(ends)} of them, expected a pose to begin with (or q0) "
                         "and at least one more")
    found = [ends[0][None]]
    for before, after, piece in zip(ends[:-1], ends[1:], waypoints[1:], strict=True):
        start, turn = before[:3, 3], log3(after[:3, :3] @ before[:3, :3].T)
        arc = isinstance(piece, Arc)
        far = piece.length(start) if arc else float(np.linalg.norm(after[:3, 3] - start))
        count = max(2, math.ceil(max(far, 0.25 * float(np.linalg.norm(turn))) / spacing))
        share = np.linspace(0, 1, count + 1)[1:]
        T = np.tile(np.eye(4), (count, 1, 1))
        T[:, :3, :3] = exp3(share[:, None] * turn) @ before[:3, :3]
        T[:, :3, 3] = piece.positions(start, share) if arc else (
            start + share[:, None] * (after[:3, 3] - start))
        found.append(T)
    return np.concatenate(found)


def _follow(robot: Robot, poses: Array, frame: int | str, q0: ArrayLike | None,
            tolerance: float) -> Array:
    """Configurations for poses close to one another, each found from the one before."""
    first = ik(robot, poses[0], frame, q0, tolerance=tolerance)
    if not first.solved:
        raise ValueError(f"waypoints: the first pose cannot be reached, {first.error:.3g} (m, rad) "
                         "are left, expected one within reach")
    q = [first.q]
    for k, T in enumerate(poses[1:], 1):
        found = ik(robot, T, frame, q[-1], tolerance=tolerance, starts=1)
        if not found.solved or np.abs(found.q - q[-1]).max() > JUMP:
            why = (f"joints would jump by {np.abs(found.q - q[-1]).max():.2g}" if found.solved else
                   f"{found.error:.2g} (m, rad) are left")
            raise ValueError(f"waypoints: {100 * k / (len(poses) - 1):.0f} % along the path {why}, "
                             "expected a path without singular configurations and within limits "
                             "(another q0 may begin on a branch that has one)")
        q.append(found.q)
    return np.array(q)
