"""Control in operational space [Khatib 87]: a frame moves as if it were a unit mass.

With the task's acceleration a = xdd_d + kd (xd_d - xd) + kp e, Khatib's controller is

    tau = J^T F + bias + N^T tau0,   F = Lambda (a - Jdot qd),   N^T = 1 - J^T Lambda J M^-1

Motion that the task leaves free is damped by tau0 = -d M qd. Since J M^-1 tau0 = -d xd this is

    tau = J^T f + ID(q, qd, -d qd),   (J M^-1 J^T) f = a - Jdot qd + d xd

with one solution of as many equations as the task has rows; Lambda itself is never formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.algorithms.matrices import dense_solve, dot
from nlink.programs.applying import apply
from nlink.scalars.functions import Scalar
from nlink.simulation.control_scheme import OnScalars
from nlink.simulation.controllers import Desired, expect_motors, gains
from nlink.simulation.trajectories import Motion, Rest
from nlink.spatial import Vector

if TYPE_CHECKING:
    from nlink.robot import Robot

Turning = tuple[Sequence[Sequence[Scalar]], Sequence[Scalar], Sequence[Scalar]]
"""A rotation matrix (world from frame), angular velocity and acceleration in world axes."""
Orientation = Callable[[Scalar], Turning] | Sequence[Sequence[float]] | np.ndarray


@dataclass(frozen=True, eq=False)
class OperationalSpace(OnScalars):
    """Moves the origin of a frame along `desired`, a point or a trajectory of three coordinates.

    With an `orientation` (a 3x3 matrix to be held, or a function of t that returns a matrix, an
    angular velocity and an angular acceleration) the frame is also turned; its rows, gains and
    errors are then (angular, linear). The error of the position obeys e'' + kd e' + kp e = 0; that
    of the orientation, sin(angle) times the axis, does so while it is small.

    If a robot has more rates than the task needs, motion that the task leaves free is damped:
    `damping` is the rate, 1/s, at which it decays. In a singular state of the task the forces are
    infinite.

    >>> import nlink
    >>> robot = nlink.load("puma560")
    >>> from nlink.simulation import OperationalSpace
    >>> q0 = [0.1, -0.6, 0.9, 0.4, 0.5, 0.2]
    >>> point = robot.pose(q0)[:3, 3] + [0.0, 0.05, 0.0]
    >>> drive = OperationalSpace(robot, point, kp=25.0, kd=10.0)
    >>> run = nlink.simulate(robot, q0, t=2.0, tau=drive)
    >>> (robot.pose(run.q[-1])[:3, 3] - point).round(2) + 0.0
    array([0., 0., 0.])
    """

    robot: Robot
    desired: Desired
    kp: Any
    kd: Any
    frame: int | str = -1
    orientation: Orientation | None = None
    damping: float = 1.0

    def __post_init__(self) -> None:
        if self.robot.description.closed:
            raise ValueError(f"robot: {self.robot.name} has loops, expected a tree: this "
                             "controller knows nothing of what loops carry")
        expect_motors(self.robot)
        rows = 3 if self.orientation is None else 6
        if self.robot.n < rows:
            raise ValueError(f"robot: {self.robot.name} has {self.robot.n} rates, expected at "
                             f"least {rows} for {rows} rows of the task")
        if not callable(self.desired):
            object.__setattr__(self, "desired", Rest(self.desired))
        x = self.desired(0.0)[0]  # type: ignore[operator]
        if len(x) != 3:
            raise ValueError(f"desired: {len(x)} coordinates, expected 3")
        for name in ("kp", "kd"):
            object.__setattr__(self, name, gains(name, getattr(self, name), rows))
        if not (np.isfinite(self.damping) and self.damping >= 0):
            raise ValueError(f"damping: {self.damping}, expected a number >= 0")
        if self.orientation is not None and not callable(self.orientation):
            object.__setattr__(self, "orientation", _Held(self.orientation))
        self.robot.request("pose", frame=self.frame)  # refuses a frame that is not there

    def __call__(self, t: Scalar, q: Any, qd: Any) -> list[Scalar]:
        robot, n = self.robot, self.robot.n
        first = 3 if self.orientation is None else 0
        flat = apply(robot, "jacobian", q, frame=self.frame)
        J = [flat[i * n:(i + 1) * n] for i in range(first, 6)]
        W = apply(robot, "operational_mobility", q, frame=self.frame)
        W = [W[6 * i + first:6 * i + 6] for i in range(first, 6)]
        drift = apply(robot, "jacobian_dot_qd", q, qd, frame=self.frame)[first:]
        xd = [dot(row, qd) for row in J]
        e, rates, forward = self._task(t, apply(robot, "pose", q, frame=self.frame))
        wanted = [a + d * (r - v) + p * error - c + self.damping * v
                  for a, d, r, v, p, error, c in zip(
                      forward, self.kd, rates, xd, self.kp, e, drift, strict=True)]
        f = dense_solve(W, wanted)
        slow = apply(robot, "inverse_dynamics", q, qd, [-self.damping * v for v in qd])
        return [tau + dot([row[k] for row in J], f) for k, tau in enumerate(slow)]

    def _task(self, t: Scalar, pose: list[Scalar]) -> tuple[list[Scalar], ...]:
        """The error of the frame, and the rates and accelerations wanted of it."""
        motion: Motion = self.desired(t)  # type: ignore[operator]
        e = [a - b for a, b in zip(motion[0], pose[3:12:4], strict=True)]
        rates, forward = list(motion[1]), list(motion[2])
        if self.orientation is None:
            return e, rates, forward
        R, w, wd = self.orientation(t)  # type: ignore[operator]
        # of two rotations: half the sum of their axes' cross products is sin(angle) axis
        turn = [0.5 * sum(parts) for parts in zip(*(
            Vector(*(pose[4 * i + k] for i in range(3))).cross(
                Vector(*(R[i][k] for i in range(3)))).components
            for k in range(3)), strict=True)]
        return [*turn, *e], [*w, *rates], [*wd, *forward]


@dataclass(frozen=True, eq=False)
class _Held:
    """An orientation to be held."""

    R: Any

    def __post_init__(self) -> None:
        R = np.array(self.R, dtype=float)
        if (R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-9)
                or np.linalg.det(R) < 0):
            raise ValueError("orientation: expected a 3x3 rotation matrix or a function of t")
        object.__setattr__(self, "R", R.tolist())

    def __call__(self, t: Scalar) -> Turning:
        return self.R, (0.0,) * 3, (0.0,) * 3
