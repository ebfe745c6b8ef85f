"""Motions that are given: joints and loops that move as functions of time say (rheonomic
constraints).

The place q, the rate or the acceleration of a joint is a function of time, which is traced and
differentiated: with q = f(t)

    v = T(q)^+ f'(t),      vd = d/dt (T(q)^+ f'(t)),

T being the tangent map of the joint's space, the identity for plain coordinates. All that is known
in this way takes the place of what was integrated, wherever the state is looked at; the rates are
held with the accelerations that are known (`algorithms.hybrid_dynamics`), and the forces that this
takes belong to `Run.tau`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.names import did_you_mean
from nlink.model.spaces import Space
from nlink.programs.keys import key
from nlink.scalars.dual import Dual, derivative, value_of
from nlink.scalars.functions import Scalar, Scalars, sign
from nlink.simulation.prescribed import Prescribed
from nlink.simulation.prescribed_loops import PrescribedLoop, loop_motion

if TYPE_CHECKING:
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot
    from nlink.simulation.moment import Moment
    from nlink.simulation.run import Run
    from nlink.simulation.system import System

Array = np.ndarray


@dataclass(frozen=True)
class KnownMotion:
    """What is known of a joint at one time; None of what is integrated."""

    q: Scalars | None
    v: Scalars | None
    a: Scalars


@dataclass(frozen=True)
class PrescribedJoint:
    """A joint whose motion is given."""

    name: str
    first: tuple[int, int]
    """Where its coordinates and rates are."""
    space: Space
    motion: Prescribed

    def known(self, t: Scalar, parameters: Sequence[Any]) -> KnownMotion:
        """At a time, and with parameters that vary."""
        kind, space = self.motion.kind, self.space
        count = space.nq if kind == "place" else space.nv

        def at(t: Scalar) -> list[Scalar]:
            return self.motion.values(self.name, count, t, parameters)

        if kind == "acceleration":
            return KnownMotion(None, None, at(t))
        later = Dual(t, 1)
        if kind == "rate":
            rates = at(later)
            return KnownMotion(None, [value_of(x) for x in rates], [derivative(x) for x in rates])
        if space.flat:
            whole = at(Dual(later, 1))
            first = [derivative(x) for x in whole]
            return KnownMotion([value_of(value_of(x)) for x in whole], [value_of(x) for x in first],
                         [derivative(x) for x in first])
        whole = list(space.normalize(at(Dual(later, 1))))
        q = [value_of(x) for x in whole]
        rates = space.rates(q, [derivative(x) for x in whole])
        return KnownMotion([value_of(x) for x in q], [value_of(x) for x in rates],
                     [derivative(x) for x in rates])


@dataclass(frozen=True)
class PrescribedMotion:
    """All motions of a system that are given."""

    joints: tuple[PrescribedJoint, ...]
    loops: tuple[PrescribedLoop, ...] = ()

    @property
    def rates(self) -> tuple[int, ...]:
        """The rates that are known."""
        return tuple(joint.first[1] + k for joint in self.joints for k in range(joint.space.nv))

    @property
    def names(self) -> str:
        return ", ".join(each.name for each in (*self.joints, *self.loops))

    def known(self, t: Scalar, parameters: Sequence[Any]) -> list[KnownMotion]:
        return [joint.known(t, parameters) for joint in self.joints]

    def state(self, known: Sequence[KnownMotion], q: Scalars, v: Scalars,
              ) -> tuple[list[Scalar], list[Scalar]]:
        """Coordinates and rates, with what is known in place of what was integrated."""
        columns = list(q), list(v)
        for joint, each in zip(self.joints, known, strict=True):
            for column, at, values in zip(columns, joint.first, (each.q, each.v), strict=True):
                if values is not None:
                    column[at:at + len(values)] = values
        return columns

    def held(self, n: int) -> list[float]:
        """1 for the rates that are known, else 0."""
        return [float(i in self.rates) for i in range(n)]

    def holding(self, known: Sequence[KnownMotion] | None, held: Scalars, given: Scalars,
                ) -> tuple[list[Scalar], list[Scalar]]:
        """What is held besides, and with which accelerations; with none in an impact."""
        held, given = list(held), list(given)
        for k, joint in enumerate(self.joints):
            at, count = joint.first[1], joint.space.nv
            held[at:at + count] = [1.0] * count
            given[at:at + count] = [0.0] * count if known is None else known[k].a
        return held, given

    def mechanism(self, at: Moment, mechanism: Mechanism) -> Mechanism:
        """The mechanism with its loops where they are at a time."""
        closures, parameters = list(mechanism.closures), at.system.varied.parameters(at.own)
        for loop in self.loops:
            closures[loop.number] = loop.moved(closures[loop.number], at.t, parameters)
        return replace(mechanism, closures=tuple(closures))

    def frozen(self, system: System, own: Sequence[float], t: float) -> Robot:
        """A robot whose loops are where they are at a time."""
        robot, loops = system.robot, list(system.robot.description.loops)
        if not self.loops:
            return robot
        for loop in self.loops:
            loops[loop.number] = loop.frozen(robot, t, system.varied.parameters(own))
        return type(robot)(replace(robot.description, loops=tuple(loops)))

    def recipe(self, system: System) -> str:
        """A digest of the functions: they are traced alone."""
        _, at = system.moment()
        parameters = system.varied.parameters(at.own)
        values = [(k, name, at.t.graph.lift(x)) for k, each in enumerate(at.known)
                  for name in ("q", "v", "a") for x in getattr(each, name) or ()]
        values += [(loop.number, loop.name, at.t.graph.lift(x)) for loop in self.loops
                   for x in loop.turned_and_shifted(at.t, parameters)]
        return key(self.rates, [each[:2] for each in values], [each[2] for each in values])

    def start(self, system: System, y0: Array, own: Array, begin: float) -> Array:
        """Initial coordinates and rates (count, nq + n), with what is known of them."""
        nq, y, parameters = system.robot.nq, y0.copy(), system.varied.parameters
        known = None
        for k, row in enumerate(y):
            if known is None or system.varied.has("p"):
                known = self.known(begin, parameters(own[k].tolist()))
            y[k] = np.concatenate(self.state(known, row[:nq], row[nq:]))
        return y

    def forces(self, at: Moment) -> list[Scalar]:
        """Joint forces: those of the drive, and what the motions take besides."""
        system, (tau, _) = at.system, at.driven
        found, _ = system.drive.control(at)
        found = list(found)
        if system.modes is None:
            nothing = [0.0] * len(tau)
            _, force = at.hybrid(at.q, at.qd, tau, nothing, nothing, change=system.bare)
        else:
            _, force = system.modes.forces(at, tau)
            dry = [x for joint, own in zip(at.mechanism.joints, at.mechanism.split(at.qd, "nv"),
                                           strict=True) for x in joint.dry_friction(own)]
            force = [f + c * sign(v) for f, c, v in zip(force, dry, at.qd, strict=True)]
        for i in self.rates:
            found[i] = found[i] + force[i]
        return found


@dataclass(frozen=True)
class ForcesOfStates:
    """The joint forces of a run with motions that are given, computed from its states."""

    system: System

    def __call__(self, run: Run) -> Array:
        assert self.system.motion is not None
        return self.system.along("forces of motions", self.system.motion.forces, run)


def prescribed_motion(robot: Robot, motion: Mapping[str, Any] | None) -> PrescribedMotion | None:
    """The argument `motion` of a system, checked."""
    if motion is None:
        return None
    if not isinstance(motion, Mapping):
        raise TypeError(f"motion: a {type(motion).__name__}, expected a mapping of names of joints "
                        "to functions of t")
    if not motion:
        return None
    firsts, q, v = {}, 0, 0
    for joint in robot.joints:
        if joint.type.nv:
            firsts[joint.name] = (q, v), joint
        q, v = q + joint.type.nq, v + joint.type.nv
    found, held, loops = [], [], [loop.name for loop in robot.description.loops]
    for name, given in motion.items():
        given = given if isinstance(given, Prescribed) else Prescribed(given)
        if name in loops and name not in firsts:
            held.append(loop_motion(robot, name, given))
            continue
        if name not in firsts:
            known = [*firsts, *loops]
            raise ValueError(f"motion: {name!r}, expected a joint of {robot.name} that moves, or a "
                             f"loop: {', '.join(known)}{did_you_mean(name, known)}")
        first, joint = firsts[name]
        space = joint.type.space
        given.expect_numbers(name, space.nq if given.kind == "place" else space.nv)
        found.append(PrescribedJoint(name, first, space, given))
    return PrescribedMotion(tuple(sorted(found, key=lambda joint: joint.first)), tuple(held))
