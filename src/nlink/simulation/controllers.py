"""Controllers: tau = controller(t, q, qd), on any scalar, so that they can be traced into a kernel.

A controller of your own is any function of (t, q, qd) written with + - * / ** and the functions of
nlink (sin, clip, where, ...); q and qd are arrays that it can index and scale.

The controllers here act on joints with motors alone, and of a mechanism with loops they want closed
configurations. Those that need the forces of a motion take them from the tree, on every joint;
they refuse robots that have joints without motors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.joints import Free
from nlink.scalars.functions import Scalar
from nlink.simulation.splines import Spline
from nlink.simulation.system import apply
from nlink.simulation.trajectories import Between, Motion, Rest

if TYPE_CHECKING:
    from nlink.robot import Robot

Desired = Callable[[Scalar], Motion] | Sequence[float] | np.ndarray
"""A trajectory, or a configuration to be held."""


def gains(name: str, value: Any, n: int) -> tuple[float, ...]:
    """A gain for each of n rows, from one number or as many."""
    array = np.asarray(value, dtype=float)
    if array.shape not in ((), (1,), (n,)) or not np.isfinite(array).all():
        raise ValueError(f"{name}: {value!r}, expected a finite number, or {n} of them")
    return tuple(np.broadcast_to(array, (n,)).tolist())


def expect_motors(robot: Robot) -> None:
    """Refuse a robot on whose joints not all forces of a motion can act; of a tree the base that
    floats is left to the user."""
    loops = bool(robot.description.loops)
    idle = [joint.name for joint in robot.joints if joint.type.nv and not (
        joint.actuated and not (loops and isinstance(joint.type, Free)))]
    if idle:
        help = "; robot.loops.inverse_dynamics has the forces of motors alone" if loops else ""
        raise ValueError(f"robot: {robot.name} has no motor on {', '.join(idle)}, expected one on "
                         f"every joint that moves: this controller acts on all of them{help}")


def expect_closed(robot: Robot, desired: Callable[[Scalar], Motion]) -> None:
    """Refuse configurations to go to that open the loops: all that are known to be wanted."""
    if not robot.description.loops:
        return
    wanted = (desired.q if isinstance(desired, Spline) else
              [desired.start, desired.end] if isinstance(desired, Between) else
              [desired(0.0)[0]])
    q = np.array(wanted, dtype=float)
    if not robot.loops.closed(q).all():
        raise ValueError(f"desired: the loop {robot.loops.describe_opening(q)}, expected closed "
                         "configurations; robot.loops.assemble(q) finds one")


@dataclass(frozen=True)
class _Tracking:
    """What controllers share that compare a robot with a desired motion."""

    robot: Robot
    desired: Desired
    kp: Any
    kd: Any

    def __post_init__(self) -> None:
        if not self.robot.mechanism.space.flat:
            raise ValueError(f"robot: {self.robot.name} has {self.robot.nq} coordinates and "
                             f"{self.robot.n} rates; this controller needs as many of both")
        if not callable(self.desired):
            object.__setattr__(self, "desired", Rest(self.desired))
        for name in ("kp", "kd"):
            object.__setattr__(self, name, gains(name, getattr(self, name), self.robot.n))
        q = self.desired(0.0)[0]  # type: ignore[operator]
        if len(q) != self.robot.n:
            raise ValueError(f"desired: {len(q)} coordinates, expected {self.robot.n}")
        expect_closed(self.robot, self.desired)  # type: ignore[arg-type]

    def feedback(self, t: Scalar, q: Any, qd: Any) -> tuple[list[Scalar], Motion]:
        """kp (qr - q) + kd (qdr - qd) where there are motors, and the desired motion."""
        motion: Motion = self.desired(t)  # type: ignore[operator]
        return [p * (a - x) + d * (b - v) if motor else 0.0 for motor, p, d, a, b, x, v in zip(
            self.robot.description.motors, self.kp, self.kd, motion[0], motion[1], q, qd,
            strict=True)], motion


@dataclass(frozen=True)
class PD(_Tracking):
    """tau = kp (qr - q) + kd (qdr - qd), on joints that have motors."""

    def __call__(self, t: Scalar, q: Any, qd: Any) -> list[Scalar]:
        return self.feedback(t, q, qd)[0]


@dataclass(frozen=True)
class PDGravity(_Tracking):
    """PD with gravity compensation: tau = kp (qr - q) + kd (qdr - qd) + g(q)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_motors(self.robot)

    def __call__(self, t: Scalar, q: Any, qd: Any) -> list[Scalar]:
        pd, _ = self.feedback(t, q, qd)
        return [a + b for a, b in zip(pd, apply(self.robot, "gravity_torque", q), strict=True)]


@dataclass(frozen=True)
class ComputedTorque(_Tracking):
    """tau = ID(q, qd, qddr + kp (qr - q) + kd (qdr - qd)): the error obeys a linear equation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_motors(self.robot)

    def __call__(self, t: Scalar, q: Any, qd: Any) -> list[Scalar]:
        pd, motion = self.feedback(t, q, qd)
        wanted = [a + b for a, b in zip(motion[2], pd, strict=True)]
        return apply(self.robot, "inverse_dynamics", q, qd, wanted)


@dataclass(frozen=True)
class FeedForward:
    """tau = ID(qr, qdr, qddr) along a trajectory, whatever the robot does: the papers' forced
    simulation, which is open loop and so unstable wherever the motion is."""

    robot: Robot
    desired: Desired

    def __post_init__(self) -> None:
        expect_motors(self.robot)
        if not callable(self.desired):
            object.__setattr__(self, "desired", Rest(self.desired))
        sizes = {"coordinates": self.robot.nq, "rates": self.robot.n,
                 "accelerations": self.robot.n}
        motion: Motion = self.desired(0.0)  # type: ignore[operator]
        if len(motion) != len(sizes):
            raise ValueError(f"desired: {len(motion)} values at t = 0, expected q, qd and qdd")
        for given, (name, size) in zip(motion, sizes.items(), strict=True):
            if len(given) != size:
                raise ValueError(f"desired: {len(given)} {name}, expected {size}")
        expect_closed(self.robot, self.desired)  # type: ignore[arg-type]

    def __call__(self, t: Scalar, q: Any, qd: Any) -> list[Scalar]:
        return apply(self.robot, "inverse_dynamics", *self.desired(t))  # type: ignore[operator]
