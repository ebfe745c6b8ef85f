"""Controllers: tau = controller(t, q, qd), on any scalar, so that they can be traced into a kernel.

A controller of your own is any function of (t, q, qd) written with + - * / ** and the functions of
nlink (sin, clip, where, ...); q and qd are arrays that it can index and scale. See `control_scheme`
for those with a state, and `wrappers` for wrappers of controllers.

The controllers here act only on joints with motors, and for a mechanism with loops their targets
must be closed configurations. Errors are differences in the space of q: e = qr - q for a coordinate
that is a number, the rotation vector from q to qr for a quaternion. Controllers that need the
forces of a motion compute those of the tree, on every joint; they refuse robots that have joints
without motors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.joints import Free
from nlink.programs.applying import apply
from nlink.scalars.functions import Scalar, clip, literal
from nlink.simulation.control_scheme import OnScalars
from nlink.simulation.splines import Spline
from nlink.simulation.trajectories import Between, Motion, Rest
from nlink.simulation.wrappers import Wrapper, stacked

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
    """Refuse a robot that has joints without motors; the floating base of a tree is left to the
    user."""
    loops = robot.description.closed
    idle = [joint.name for joint in robot.joints if joint.type.nv and not (
        joint.actuated and not (loops and isinstance(joint.type, Free)))]
    if idle:
        help = "; robot.loops.inverse_dynamics has the forces of motors alone" if loops else ""
        raise ValueError(f"robot: {robot.name} has no motor on {', '.join(idle)}, expected one on "
                         f"every joint that moves: this controller acts on all of them{help}")


def expect_closed(robot: Robot, desired: Callable[[Scalar], Motion]) -> None:
    """Refuse targets in which loops are open: all those known beforehand."""
    if not robot.description.closed:
        return
    wanted = (desired.q if isinstance(desired, Spline) else
              [desired.start, desired.end] if isinstance(desired, Between) else
              [desired(0.0)[0]])
    q = np.array(wanted, dtype=float)
    if not robot.loops.closed(q).all():
        raise ValueError(f"desired: the loop {robot.loops.describe_opening(q)}, expected closed "
                         "configurations; robot.loops.assemble(q) finds one")


@dataclass(frozen=True)
class _Tracking(OnScalars):
    """What controllers share that compare a robot with a desired motion."""

    robot: Robot
    desired: Desired
    kp: Any
    kd: Any

    def __post_init__(self) -> None:
        if not callable(self.desired):
            object.__setattr__(self, "desired", Rest(self.desired, self.robot.n))
        for name in ("kp", "kd"):
            object.__setattr__(self, name, gains(name, getattr(self, name), self.robot.n))
        motion: Motion = self.desired(0.0)  # type: ignore[operator]
        for name, given, size in (("coordinates", motion[0], self.robot.nq),
                                  ("rates", motion[1], self.robot.n)):
            if len(given) != size:
                raise ValueError(f"desired: {len(given)} {name}, expected {size}")
        expect_closed(self.robot, self.desired)  # type: ignore[arg-type]

    def errors(self, t: Scalar, q: Any, qd: Any) -> tuple[list[Scalar], list[Scalar], Motion]:
        """qr - q and qdr - qd, zero where there are no motors, and the desired motion."""
        motion: Motion = self.desired(t)  # type: ignore[operator]
        motors = self.robot.description.motors
        e = self.robot.mechanism.space.difference(q, motion[0])
        return ([x if motor else 0.0 for motor, x in zip(motors, e, strict=True)],
                [b - v if motor else 0.0 for motor, b, v in zip(
                    motors, motion[1], qd, strict=True)], motion)

    def feedback(self, t: Scalar, q: Any, qd: Any) -> tuple[list[Scalar], Motion]:
        """kp (qr - q) + kd (qdr - qd) where there are motors, and the desired motion."""
        e, ed, motion = self.errors(t, q, qd)
        return [p * a + d * b for p, d, a, b in zip(self.kp, self.kd, e, ed, strict=True)], motion


@dataclass(frozen=True)
class PD(_Tracking):
    """tau = kp (qr - q) + kd (qdr - qd), on joints that have motors.

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> from nlink.simulation import PD
    >>> robot = robot.with_gravity((0, 0, 0))
    >>> run = nlink.simulate(robot, t=3.0, tau=PD(robot, [0.5, -0.5], 40.0, 20.0))
    >>> run.q[-1].round(2)
    array([ 0.5, -0.5])
    """

    def __call__(self, t: Scalar, q: Any, qd: Any) -> list[Scalar]:
        return self.feedback(t, q, qd)[0]


@dataclass(frozen=True)
class PID(_Tracking):
    """tau = kp e + ki x + kd edot with xdot = e = qr - q, on joints that have motors.

    With `effort`, one number or one for each rate, tau is kept within it, and the integral does not
    wind up meanwhile: xdot = e + (tau - u) / kp, where u is tau before saturation [Astrom, Murray:
    Feedback Systems, 11.4, tracking time kp / ki]. A joint with integral action then needs kp > 0.

    >>> import nlink
    >>> arm = nlink.load("planar3")
    >>> pid = PID(arm, [0.1, 0.2, 0.3], kp=300.0, ki=600.0, kd=60.0)
    >>> run = nlink.simulate(arm, t=8.0, tau=pid, every=1.0)
    >>> bool(abs(run.q[-1] - [0.1, 0.2, 0.3]).max() < 1e-3), run.x.shape   # gravity is balanced
    (True, (9, 3))
    """

    ki: Any = 0.0
    effort: Any = None

    def __init__(self, robot: Robot, desired: Desired, kp: Any, ki: Any, kd: Any,
                 effort: Any = None) -> None:
        given = {"robot": robot, "desired": desired, "kp": kp, "ki": ki, "kd": kd}
        for name, value in given.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "ki", gains("ki", ki, robot.n))
        super().__post_init__()
        if effort is not None:
            effort = gains("effort", effort, robot.n)
            idle = [k for k, (p, i) in enumerate(zip(self.kp, self.ki, strict=True))
                    if i and not p > 0]
            if min(effort, default=0.0) < 0 or idle:
                raise ValueError("effort: with integral action and limits, expected limits >= 0 "
                                 "and kp > 0")
        object.__setattr__(self, "effort", effort)

    @property
    def state(self) -> int:
        return self.robot.n

    def _wanted(self, t: Scalar, q: Any, qd: Any, x: Any) -> tuple[list[Scalar], list[Scalar]]:
        """The forces before they are cut, and the errors."""
        e, ed, _ = self.errors(t, q, qd)
        return [p * a + i * s + d * b for p, i, d, a, s, b in zip(
            self.kp, self.ki, self.kd, e, x, ed, strict=True)], e

    def __call__(self, t: Scalar, q: Any, qd: Any, x: Any) -> list[Scalar]:
        u, _ = self._wanted(t, q, qd, x)
        return u if self.effort is None else [
            clip(a, -most, most) for a, most in zip(u, self.effort, strict=True)]

    def rates(self, t: Scalar, q: Any, qd: Any, x: Any) -> list[Scalar]:
        """The rate of the integral, xdot."""
        u, e = self._wanted(t, q, qd, x)
        if self.effort is None:
            return e
        return [a if literal(i) == 0.0 else a + (clip(b, -most, most) - b) / p
                for a, b, most, p, i in zip(e, u, self.effort, self.kp, self.ki, strict=True)]


@dataclass(frozen=True)
class GravityCompensation(OnScalars):
    """tau = g(q): joints with motors do not feel the weight.

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> from nlink.simulation import GravityCompensation
    >>> run = nlink.simulate(robot, [0.3, 0.2], t=1.0, tau=GravityCompensation(robot))
    >>> run.q[-1].round(6)
    array([0.3, 0.2])
    """

    robot: Robot

    def __post_init__(self) -> None:
        expect_motors(self.robot)

    def __call__(self, t: Scalar, q: Any, qd: Any) -> list[Scalar]:
        return [g if motor else 0.0 for motor, g in zip(
            self.robot.description.motors, apply(self.robot, "gravity_torque", q), strict=True)]


@dataclass(frozen=True)
class PDGravity(_Tracking):
    """PD with gravity compensation: tau = kp (qr - q) + kd (qdr - qd) + g(q).

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> from nlink.simulation import PDGravity
    >>> run = nlink.simulate(robot, t=3.0, tau=PDGravity(robot, [0.5, -0.5], 40.0, 20.0))
    >>> run.q[-1].round(2)
    array([ 0.5, -0.5])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_motors(self.robot)

    def __call__(self, t: Scalar, q: Any, qd: Any) -> list[Scalar]:
        pd, _ = self.feedback(t, q, qd)
        weight = GravityCompensation(self.robot)(t, q, qd)
        return [a + b for a, b in zip(pd, weight, strict=True)]


@dataclass(frozen=True)
class ComputedTorque(_Tracking):
    """tau = ID(q, qd, qddr + kp (qr - q) + kd (qdr - qd)): the error obeys a linear equation.

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> from nlink.simulation import ComputedTorque
    >>> run = nlink.simulate(robot, t=3.0, tau=ComputedTorque(robot, [0.5, -0.5], 25.0, 10.0))
    >>> run.q[-1].round(3)
    array([ 0.5, -0.5])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_motors(self.robot)
        if not all(self.robot.description.motors):
            raise ValueError(f"robot: {self.robot.name} floats, expected a fixed base: no motor "
                             "acts on it, and this controller needs all forces of a motion")

    def __call__(self, t: Scalar, q: Any, qd: Any) -> list[Scalar]:
        pd, motion = self.feedback(t, q, qd)
        wanted = [a + b for a, b in zip(motion[2], pd, strict=True)]
        return apply(self.robot, "inverse_dynamics", q, qd, wanted)


@dataclass(frozen=True, eq=False)
class Actuated(Wrapper):
    """Joint forces of a robot's own actuators, as its MJCF file has them (`robot.actuators`).

    `controller` gives the commands, one number for each actuator: constants, or a controller u(t,
    q, qd) like any other, which may have a state or a period.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import nlink
    >>> from nlink.simulation import Actuated
    >>> path = Path(tempfile.mkdtemp()) / "arm.xml"
    >>> _ = path.write_text(
    ...     '<mujoco><worldbody><body><joint name="hinge"/><geom size="0.1"/></body></worldbody>'
    ...     '<actuator><motor joint="hinge" gear="5"/></actuator></mujoco>')
    >>> Actuated([2.0], nlink.load(path))(0.0, np.zeros(1), np.zeros(1))
    array([10.])
    """

    controller: Any
    robot: Robot

    def __post_init__(self) -> None:
        count = len(self.robot.actuators)
        if not count:
            raise ValueError(f"robot: {self.robot.name} has no actuators, expected one from an "
                             "MJCF file with some")
        if not callable(self.controller):
            u = np.asarray(self.controller, dtype=float)
            if u.shape != (count,) or not np.isfinite(u).all():
                raise ValueError(f"controller: {self.controller!r}, expected {count} finite "
                                 "commands, or a function of t, q, qd that gives them")
            object.__setattr__(self, "controller", _Constant(tuple(u.tolist())))

    def __call__(self, t: Scalar, q: Any, qd: Any, *more: Any) -> Any:
        u = np.asarray(super().__call__(t, q, qd, *more))
        actuators = self.robot.actuators
        if u.shape[-1:] != (len(actuators),):
            raise ValueError(f"controller: gave commands of shape {u.shape}, expected "
                             f"{len(actuators)}, one for each actuator")
        tau: list[Scalar] = [0.0 * x for x in np.moveaxis(np.asarray(qd), -1, 0)]
        for k, each in enumerate(actuators):
            at, rate = self.robot.q_index(each.joint), self.robot.qd_index(each.joint)
            assert isinstance(at, int), each  # readers keep no others
            assert isinstance(rate, int), each
            tau[rate] = tau[rate] + each.force(u[..., k][()], q[..., at][()], qd[..., rate][()])
        return stacked(tau)


@dataclass(frozen=True)
class _Constant:
    u: tuple[float, ...]

    def __call__(self, t: Scalar, q: Any, qd: Any) -> tuple[float, ...]:
        return self.u


@dataclass(frozen=True)
class FeedForward(OnScalars):
    """tau = ID(qr, qdr, qddr) along a trajectory, whatever the robot does: the papers' forced
    simulation, which is open loop and therefore unstable wherever the motion is.

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> from nlink.simulation import FeedForward, Quintic
    >>> path = Quintic([0.0, 0.0], [0.5, -0.5], 1.0)
    >>> run = nlink.simulate(robot, path.start, t=1.0, tau=FeedForward(robot, path))
    >>> run.q[-1].round(4)
    array([ 0.5, -0.5])
    """

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
