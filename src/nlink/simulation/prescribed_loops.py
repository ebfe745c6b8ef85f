"""Loops whose motion is given: a hinge that is turned, a cylinder of which the length is given.

What a loop leaves free is given: the angle of a hinge or a screw, the length of a slide, both of a
cylindrical one. It then holds its two frames together rigidly, of which b moves on its body as
the function says, and the loop carries what that takes (`model.mechanism.FrameMotion`).

Here also: where mechanisms with loops start, if something of them is given, and what their loops
carry along a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.iterations.projection import CALLS, CLOSED
from nlink.model.constraints import Constraint, Rigid, Screw
from nlink.model.mechanism import Closure, FrameMotion
from nlink.model.pose import Pose
from nlink.scalars.dual import Dual, derivative, value_of
from nlink.scalars.functions import Scalar, Scalars, cos, sin
from nlink.simulation.moment import Moment, without_dry_friction
from nlink.simulation.prescribed import Prescribed
from nlink.spatial import Matrix, Twist

if TYPE_CHECKING:
    from nlink.robot import Robot
    from nlink.simulation.run import Run
    from nlink.simulation.system import System

Array = np.ndarray
COUNTS = {"revolute": 1, "prismatic": 1, "helical": 1, "cylindrical": 2}
"""Kinds of loops whose motion may be given, and how many numbers that are."""


@dataclass(frozen=True)
class PrescribedLoop:
    """A loop whose motion is given."""

    name: str
    number: int
    constraint: Constraint
    motion: Prescribed

    def turned_and_shifted(self, t: Scalar, parameters: Sequence[Any]) -> tuple[Scalar, Scalar]:
        """The angle about z and the length along it of frame a, seen from b."""
        kind = self.constraint.name
        values = self.motion.values(self.name, COUNTS[kind], t, parameters)
        if isinstance(self.constraint, Screw):
            return values[0], values[0] * self.constraint.pitch
        return (values[0] if kind != "prismatic" else 0.0,
                values[-1] if kind != "revolute" else 0.0)

    def moved(self, closure: Closure, t: Scalar, parameters: Sequence[Any]) -> Closure:
        """The closure at a time."""
        places = self.turned_and_shifted(Dual(Dual(t, 1), 1), parameters)
        angle, length = (value_of(value_of(x)) for x in places)
        rates = [derivative(value_of(x)) for x in places]
        changes = [derivative(derivative(x)) for x in places]
        R, c, s = closure.b.R, cos(angle), sin(angle)
        turned = Matrix(R.x * c + R.y * s, R.y * c - R.x * s, R.z)
        b = replace(closure.b, R=turned, p=closure.b.p + R.z * length)
        motion = FrameMotion(*(Twist(R.z * x, R.z * y) for x, y in (rates, changes)))
        return replace(closure, constraint=Rigid(), b=b, motion=motion)

    def frozen(self, robot: Robot, t: float, parameters: Sequence[Any]) -> Any:
        """The loop of a robot as it is at a time."""
        angle, length = map(float, self.turned_and_shifted(t, parameters))
        loop = robot.description.loops[self.number]
        pose = loop.on.pose @ Pose.turn("z", angle) @ Pose.shift(0.0, 0.0, length)
        return replace(loop, constraint=Rigid(), on=replace(loop.on, pose=pose))


# where they start

def closed_around(system: System, y0: Array, own: Array, begin: float) -> tuple[Array, Array]:
    """States (count, nq + n) whose loops are closed around what is given of them, and which of them
    do not close; if none does, a sentence."""
    assert system.motion is not None
    nq, names, y = system.robot.nq, system.motion.names, y0.copy()
    free, finite = np.array(system.held) == 0, np.isfinite(y0).all(axis=1)
    unclosed, openings = np.array(finite), list[str]()
    varies = own if system.varied.has("p") else own[:, :0]
    groups = np.unique(varies[finite], axis=0) if varies.size else varies[:1]
    for each in groups:
        rows = np.flatnonzero(finite & (varies == each).all(axis=1))
        loops = system.motion.frozen(system, own[rows[0]].tolist(), begin).loops
        y[rows, :nq], closed = loops.close(y[rows, :nq], free)
        unclosed[rows[closed]] = False
        if not closed.all():
            openings.append(loops.describe_opening(y[rows[~closed], :nq]))
    rows, speeds = np.flatnonzero(finite & ~unclosed), np.empty(0)
    if rows.size:
        y[rows], speeds = _with_closed_rates(system, y[rows], own[rows], begin)
        unclosed[rows] = speeds > CLOSED ** 0.5
    if finite.any() and unclosed[finite].all():
        if rows.size:
            raise ValueError(f"motion: the loops open with {speeds.min():.3g} 1/s at the start, "
                             f"whatever moves beside {names}, expected motions that keep them "
                             "closed")
        raise ValueError(f"motion: the loop {openings[0]} where {names} start, expected places "
                         "around which the loops close")
    y[unclosed] = y0[unclosed]
    return y, unclosed


def _with_closed_rates(system: System, y: Array, own: Array, begin: float) -> tuple[Array, Array]:
    """States with the rates that keep their loops closed, and how fast they open all the same."""
    system = system.but(closing="project", modes=None)
    t, y = np.full((len(y), 1), begin), system.before_sample(y)
    close = system.kernel("close")
    speed = system.kernel("speeds of loops", lambda: system.program_of(
        "speeds of loops", lambda at: at.perform("closure_velocity", at.q, at.qd)))
    for _ in range(CALLS):
        found = close(t, y, own)
        y, left = found[:, :-1], found[:, -1]
        if (left <= CLOSED).all():
            break
    speeds = np.abs(speed(t, y, own)).max(axis=1) / (
        1.0 + np.abs(y[:, system.robot.nq:][:, :system.robot.n]).max(axis=1))
    return y[:, :system.robot.nq + system.robot.n], speeds


# what they carry

def total_forces(at: Moment) -> tuple[Scalars, Any]:
    """All joint forces, those that hold among them, and the friction that is not among them."""
    system, (tau, _) = at.system, at.driven
    if system.modes is not None:
        drive = system.modes.drive(at, tau)
        _, force = system.modes.forces(at, tau)
        return [a + b for a, b in zip(drive, force, strict=True)], without_dry_friction
    nothing = [0.0] * len(tau)
    _, force = at.hybrid(at.q, at.qd, tau, nothing, nothing, change=system.bare)
    return [a + b for a, b in zip(tau, force, strict=True)], system.bare


def carried(at: Moment) -> Scalars:
    """The wrenches in the loops."""
    tau, change = total_forces(at)
    return at.perform("closure_forces", at.q, at.qd, tau, change=change)


@dataclass(frozen=True)
class LoopsOfStates:
    """How far loops are open along a run, and what they carry, where that is not known from
    coordinates, rates and joint forces alone."""

    system: System

    @classmethod
    def of(cls, system: System) -> LoopsOfStates | None:
        needed = system.motion is not None or system.modes is not None or (
            system.wrenches is not None)
        if not (system.robot.mechanism.closed and needed) or system.columns:
            return None
        return cls(system)

    def error(self, run: Run) -> Array:
        return self.system.along("openings of loops", lambda at: at.perform(
            "closure_error", at.q), run)

    def forces(self, run: Run) -> Array:
        found = self.system.along("what loops carry", carried, run)
        return found.reshape(*found.shape[:-1], -1, 6)


def loop_motion(robot: Robot, name: str, given: Prescribed) -> PrescribedLoop:
    """The motion of a loop, checked."""
    names = [loop.name for loop in robot.description.loops]
    loop = robot.description.loops[names.index(name)]
    kind = loop.constraint.name
    if kind not in COUNTS:
        raise ValueError(f"motion: the loop {name!r} is {kind}, expected one of "
                         f"{', '.join(COUNTS)}: for others, a link between with a joint that moves")
    if given.kind != "place":
        raise ValueError(f"motion: the loop {name!r}: {given.kind}, expected a place: loops have "
                         "no coordinates that could be integrated")
    given.expect_numbers(name, COUNTS[kind])
    return PrescribedLoop(name, names.index(name), loop.constraint, given)
