"""Dry friction that sticks, and limits that hold: the modes of a mechanism's rates.

A rate that rubs slides, with friction against it, or is at rest and held by a force of at most
its breakaway friction. A coordinate at its limit is held by a force away from the limit, as
strong as is needed. Both are modes of the rate (`iterations.box_problem`):

    1, -1    slides up or down: the force is -mode dry(qd), with Stribeck's dry(qd)
    0        sticks: the rate is 0, and the force within -dry(0) to dry(0)
    2, -2    is held at the lower or upper limit: the same without an upper or lower bound

Accelerations and holding forces follow from the modes by hybrid dynamics (`Moment.hybrid`), which
is given the accelerations of held rates and gives the forces that hold them. With loops, too: the
projection onto closed states then leaves what is held as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nlink.engines.kernels import kept
from nlink.iterations.box_problem import proposed_mode, sliding
from nlink.iterations.iteration import equal
from nlink.iterations.switching import Switching
from nlink.model.mimics import leads
from nlink.programs.applying import apply
from nlink.scalars.functions import (
    Scalar,
    Scalars,
    less,
    less_equal,
    literal,
    minimum,
    tanh,
    where,
)
from nlink.simulation.control_scheme import StatePart
from nlink.simulation.moment import Moment, SystemPiece, Text, Texts, weightless

if TYPE_CHECKING:
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot
    from nlink.simulation.assembled_system import AssembledSystem
    from nlink.simulation.system import System

Array = np.ndarray

FRICTION = ("dry", "smooth")
"""What `friction=` may say."""
MOST_MODED = 128
"""Joints of robots whose rates may have modes: the code of these is not rolled."""
LIGHTEST = 1e-9
"""The least of what is taken for a moment of inertia, where forces are compared."""
MARGIN = 1e-11
"""Beyond its bound by so much of itself, and of what accelerates its joint by 1 /s^2, a force does
not hold any more: less could be rounding."""
SLOW = 1e-7
"""A rebound with a rate below this is none: the joint stays on its limit."""


@dataclass(frozen=True)
class ModedRate:
    """A rate that may be held."""

    rate: int
    name: str
    """The name of its joint, with the number of the rate if that has several."""
    rubs: bool
    scale: float
    """The force that accelerates it by 1 /s^2, about."""
    coordinate: int = -1
    """Which coordinate has limits that hold, from `lower` to `upper`."""
    lower: float = -math.inf
    upper: float = math.inf

    def hold(self, q: Scalars) -> Scalar:
        """Its mode when it is at rest and held; 1 if there is nothing to hold it."""
        mode: Scalar = 0.0 if self.rubs else 1.0
        if math.isfinite(self.upper):
            mode = where(less_equal(self.upper, q[self.coordinate]), -2.0, mode)
        if math.isfinite(self.lower):
            mode = where(less_equal(q[self.coordinate], self.lower), 2.0, mode)
        return mode

    def mode(self, q: Scalars, v: Scalar) -> Scalar:
        """Its mode with a rate v: held, to begin with, if it is at rest."""
        return where(equal(v, 0.0), self.hold(q), where(less(v, 0.0), -1.0, 1.0))

    def rate_bounds(self, q: Scalars, v: Scalar, h: Scalar, restitution: float,
                    ) -> tuple[Scalar, Scalar]:
        """The lowest and the highest rate after a step of size h that begins with the rate v:
        they take the coordinate to its limits. A rate that would take it there leaves again,
        by what the impact leaves of it."""
        up, down = ((bound - q[self.coordinate]) / h if math.isfinite(bound) else 0.0
                    for bound in (self.lower, self.upper))
        if restitution:
            back, fast = -restitution * v, less(SLOW, restitution * abs(v))
            up = where(fast & less(v, 0.0) & less_equal(v, up), back, up)
            down = where(fast & less(0.0, v) & less_equal(down, v), back, down)
        return up, down

    def target(self, q: Scalars, v: Scalar, mode: Scalar, h: Scalar, restitution: float) -> Scalar:
        """The rate that it has after a step where it is held."""
        if self.coordinate < 0:
            return 0.0
        up, down = self.rate_bounds(q, v, h, restitution)
        return where(less(1.0, mode), up, where(less(mode, -1.0), down, 0.0))

    def after_step(self, q: Scalars, before: Scalar, v: Scalar, mode: Scalar, force: Scalar,
                   level: Scalar, target: Scalar, h: Scalar, margin: Scalar, restitution: float,
                   ) -> Scalar:
        """The mode that a step asks for which ends with the rate v and takes such a force."""
        # on its way to a limit it rubs: friction is a part of the force that holds it
        low = where(less(1.0, mode), where(less(target, 0.0), level, -level), -level)
        high = where(less(mode, -1.0), where(less(0.0, target), -level, level), level)
        asked = proposed_mode(
            mode, 0.0 if self.rubs else 1.0, force, v, where(less(mode, -1.0), -math.inf, low),
            where(less(1.0, mode), math.inf, high), margin)
        released = sliding(asked) & ~sliding(mode)
        asked = where(released & less(target, 0.0), -1.0,
                      where(released & less(0.0, target), 1.0, asked))
        if self.coordinate < 0:
            return asked
        there, inside = q[self.coordinate] + h * v, less(mode * mode, 3.0)
        low, high = less(there, self.lower), less(self.upper, there)
        if restitution:
            up, down = self.rate_bounds(q, before, h, restitution)
            low = less(v, up) if math.isfinite(self.lower) else low
            high = less(down, v) if math.isfinite(self.upper) else high
        asked = where(inside & low, 2.0, asked)
        return where(inside & high, -2.0, asked)

    @property
    def words(self) -> tuple[str, str]:
        """What happens when it is held, and when it is not any more."""
        return ("sticks", "slides") if self.rubs else ("rests on its limit", "leaves its limit")


@dataclass(frozen=True)
class Modes(SystemPiece):
    """The rates of a mechanism that have modes, which change at events (`iterations.switching`)."""

    rates: tuple[ModedRate, ...]
    restitution: float = 0.0
    """What of a rate is left after an impact on a limit that holds."""

    def __len__(self) -> int:
        return len(self.rates)

    @property
    def holds(self) -> bool:
        """Whether limits hold."""
        return any(each.coordinate >= 0 for each in self.rates)

    @property
    def event_names(self) -> list[str]:
        return [f"{each.name} {word}" for each in self.rates for word in each.words]

    @property
    def switching(self) -> Switching | None:
        """What an integration does about them between its steps."""
        return Switching(impacts=self.holds)

    def parts(self, system: AssembledSystem) -> tuple[StatePart, ...]:
        return (StatePart("holding", len(self.rates)),
                StatePart("mode", len(self.rates), discrete=True))

    def start(self, system: System, initial: Array) -> dict[str, Array]:
        at = system.robot.nq + np.array([each.rate for each in self.rates])
        return {"mode": np.sign(initial[:, at])}

    def texts(self, system: System) -> Texts:
        found = [self.arrest, self.propose, self.slack]
        if self.holds:
            found += [self.touch, self.impulses, self.collide]
        return {text.__name__: Text(text) for text in found}

    def moving(self, at: Moment, tau: Scalars) -> tuple[list[Scalar], list[Scalar]]:
        """Accelerations, and the holding forces over the scales of their rates: what error control
        sees of forces that change while nothing moves."""
        qdd, force = self.forces(at, tau)
        return list(qdd), [force[each.rate] / each.scale for each in self.rates]

    def rates_of_parts(self, at: Moment, further: Scalars, holding: Scalars) -> list[Scalar]:
        """The rates of all parts, those of the holding forces behind what else moves."""
        parts, discrete = at.system.parts, at.system.layout.discrete
        moving = sum(part.size for part in parts if not part.discrete) - len(holding)
        return [*further[:moving], *holding, *[0.0] * discrete]

    def slack(self, at: Moment) -> list[Scalar]:
        """At the places of rates, how far their modes are from ending."""
        _, force = self.forces(at, at.driven[0])
        found: list[Scalar] = [math.inf] * len(at.qd)
        levels = friction_levels(at.mechanism, [0.0] * len(at.qd))
        for each, mode in zip(self.rates, at.parts["mode"], strict=True):
            f, level = force[each.rate], levels[each.rate]
            above, below = level + f, level - f
            inside = minimum(above, below) if each.rubs else math.inf
            inside = where(less(1.0, mode), above, where(less(mode, -1.0), below, inside))
            slides = mode * at.qd[each.rate] if each.rubs else math.inf
            found[each.rate] = where(sliding(mode), slides, inside + 2.0 * _margin(each, level))
        return [*[math.inf] * len(at.q), *found,
                *[math.inf] * (len(at.y) - len(at.q) - len(at.qd))]

    def propose(self, at: Moment) -> list[Scalar]:
        """The state with the modes that forces and accelerations ask for, of rates at rest."""
        qdd, force = self.forces(at, at.driven[0])
        levels, found = friction_levels(at.mechanism, [0.0] * len(at.qd)), []
        for each, mode in zip(self.rates, at.parts["mode"], strict=True):
            i, level = each.rate, levels[each.rate]
            asked = proposed_mode(
                mode, each.hold(at.q), force[i], qdd[i],
                where(less(mode, -1.0), -math.inf, -level),
                where(less(1.0, mode), math.inf, level), _margin(each, level))
            found.append(where(equal(at.qd[i], 0.0), asked, mode))
        return at.but(mode=found)

    def arrest(self, at: Moment) -> list[Scalar]:
        """The state where a phase ends: see `arrested`."""
        qd, modes = self.arrested(at)
        return at.but(v=qd, mode=modes)

    def arrested(self, at: Moment) -> tuple[list[Scalar], list[Scalar]]:
        """Rates and modes where a phase ends: what slid to rest is at rest, and all that is at
        rest is held, to begin with."""
        rates, found = list(at.qd), []
        for each, mode in zip(self.rates, at.parts["mode"], strict=True):
            v = at.qd[each.rate]
            if each.rubs:
                stopped = sliding(mode) & less_equal(mode * v, 0.0)
                v = rates[each.rate] = where(stopped, 0.0, v)
            found.append(each.mode(at.q, v))
        return rates, found

    def touch(self, at: Moment) -> list[Scalar]:
        """The state with coordinates no further than their limits, and modes for an impact: 2 or
        -2 of what moves into a limit, 1 or -1 of what does not."""
        places, found = list(at.q), []
        for each in self.rates:
            v, mode = at.qd[each.rate], 1.0
            if each.coordinate >= 0:
                x = at.q[each.coordinate]
                low, high = less_equal(x, each.lower), less_equal(each.upper, x)
                places[each.coordinate] = where(low, each.lower, where(high, each.upper, x))
                mode = where(low, where(less(v, SLOW), 2.0, 1.0),
                             where(high, where(less(-SLOW, v), -2.0, -1.0), 1.0))
            found.append(mode)
        return at.but(places, mode=found)

    def impulses(self, at: Moment) -> list[Scalar]:
        """The state with the modes that impulses and rates after an impact ask for.

        Newton's and Moreau's: qd' + restitution qd is not into a limit, the impulse is away
        from it, and one of both is zero.
        """
        after, impulse = self._collided(at)
        found = []
        for each, mode in zip(self.rates, at.parts["mode"], strict=True):
            hold, v = each.hold(at.q), at.qd[each.rate]
            asked = proposed_mode(
                mode, hold, impulse[each.rate],
                after[each.rate] + _rebound(self.restitution, v) * v,
                where(less(mode, -1.0), -math.inf, 0.0), where(less(1.0, mode), math.inf, 0.0),
                SLOW * each.scale)
            found.append(where(less(1.0, hold * hold), asked, mode))
        return at.but(mode=found)

    def collide(self, at: Moment) -> list[Scalar]:
        """The state after an impact: its rates, and their modes then."""
        after, _ = self._collided(at)
        return at.but(v=after, mode=self.at_rates(at.q, after))

    def held(self, at: Moment) -> list[Scalar]:
        """1 for rates that are held, else 0."""
        found: list[Scalar] = [0.0] * len(at.qd)
        for each, mode in zip(self.rates, at.parts["mode"], strict=True):
            found[each.rate] = where(sliding(mode), 0.0, 1.0)
        return found

    def at_rates(self, q: Scalars, qd: Scalars) -> list[Scalar]:
        """The modes of rates that have changed at once: what is at rest is held, to begin with."""
        return [each.mode(q, qd[each.rate]) for each in self.rates]

    def _collided(self, at: Moment) -> tuple[list[Scalar], Scalars]:
        """Rates after an impact with these modes, and the impulses: M (qd' - qd) = impulse, with
        qd' = -restitution qd where a limit is hit, without gravity and velocities."""
        zeros = [0.0] * len(at.qd)
        held: list[Scalar] = list(zeros)
        given: list[Scalar] = list(zeros)
        modes = at.parts["mode"]
        for each, mode in zip(self.rates, modes, strict=True):
            if each.coordinate >= 0:
                held[each.rate] = where(sliding(mode), 0.0, 1.0)
                v = at.qd[each.rate]
                given[each.rate] = -(1.0 + _rebound(self.restitution, v)) * v
        change, impulse = at.hybrid(at.q, zeros, zeros, held, given, change=weightless,
                                    impact=True)
        after = [v + x for v, x in zip(at.qd, change, strict=True)]
        for each, mode in zip(self.rates, modes, strict=True):
            if each.coordinate >= 0:
                v = at.qd[each.rate]
                after[each.rate] = where(sliding(mode), after[each.rate],
                                         -_rebound(self.restitution, v) * v)
        return after, impulse

    def drive(self, at: Moment, tau: Scalars) -> list[Scalar]:
        """Joint forces less the friction of what slides."""
        levels, drive = friction_levels(at.mechanism, at.qd), list(tau)
        for each, mode in zip(self.rates, at.parts["mode"], strict=True):
            if each.rubs:
                drive[each.rate] = drive[each.rate] - where(
                    sliding(mode), mode * levels[each.rate], 0.0)
        return drive

    def forces(self, at: Moment, tau: Scalars) -> tuple[Scalars, Scalars]:
        """Accelerations and holding forces."""
        return at.hybrid(at.q, at.qd, self.drive(at, tau), self.held(at), [0.0] * len(at.qd))


@dataclass(frozen=True)
class StandingModes(Modes):
    """The same, which stay as they are."""

    @property
    def event_names(self) -> list[str]:
        return []

    @property
    def switching(self) -> None:
        return None

    def texts(self, system: System) -> Texts:
        return {}


@dataclass(frozen=True)
class SteppedModes(StandingModes):
    """The same, decided in every step by the method that makes it."""

    def texts(self, system: System) -> Texts:
        return {"advance": Text(self.advance, cells=1)}

    def advance(self, at: Moment) -> list[Scalar]:
        """The state after a step of a size that is a cell, but for its coordinates, and the modes
        that it asks for: the box problem of velocities, impulses being h times forces.

        A held rate is 0 after the step, or takes its coordinate to the limit, or is what an
        impact leaves: Moreau's rule, -restitution times the rate before the step.
        """
        (h,), (tau, further), mechanism, q, qd = at.cells, at.driven, at.mechanism, at.q, at.qd
        modes, restitution = at.parts["mode"], self.restitution
        levels, drive = friction_levels(mechanism, qd), list(tau)
        rest = friction_levels(mechanism, [0.0] * len(qd))
        held: list[Scalar] = [0.0] * len(qd)
        given: list[Scalar] = [0.0] * len(qd)
        targets = [each.target(q, qd[each.rate], mode, h, restitution)
                   for each, mode in zip(self.rates, modes, strict=True)]
        for each, mode, target in zip(self.rates, modes, targets, strict=True):
            i, slides = each.rate, sliding(mode)
            held[i], given[i] = where(slides, 0.0, 1.0), (target - qd[i]) / h
            if each.rubs:
                drive[i] = drive[i] - where(slides, mode * levels[i], 0.0)
        qdd, force = at.hybrid(q, qd, drive, held, given)
        after, found = [v + h * a for v, a in zip(qd, qdd, strict=True)], []
        for each, mode, target in zip(self.rates, modes, targets, strict=True):
            i = each.rate
            after[i] = where(sliding(mode), after[i], target)
            found.append(each.after_step(q, qd[i], after[i], mode, force[i], rest[i], target, h,
                                         _margin(each, rest[i]), restitution))
        holding = [force[each.rate] / each.scale for each in self.rates]
        first = len(q) + len(qd)
        moved = [x + h * k for x, k in zip(
            at.y[first:], self.rates_of_parts(at, further, holding), strict=True)]
        return [*q, *after, *moved[:len(moved) - len(found)], *found]


def _margin(each: ModedRate, level: Scalar) -> Scalar:
    return MARGIN * (level + each.scale)


def _rebound(restitution: float, v: Scalar) -> Scalar:
    """What of a rate is left after an impact, nothing where that is slow."""
    return where(less(SLOW, restitution * abs(v)), restitution, 0.0) if restitution else 0.0


def friction_levels(mechanism: Mechanism, qd: Scalars) -> list[Scalar]:
    """The friction level of each rate when it slides at qd."""
    return [x for joint, own in zip(mechanism.joints, mechanism.split(qd, "nv"), strict=True)
            for x in joint.dry_friction(own)]


def smooth_friction(mechanism: Mechanism, qd: Scalars, width: float) -> list[Scalar]:
    """Dry friction with tanh(qd / width) in place of the sign: it creeps, and never sticks."""
    return [level if literal(level) == 0 else level * tanh(x / width)
            for level, x in zip(friction_levels(mechanism, qd), qd, strict=True)]


def friction_of(robot: Robot, friction: str, width: float, limits: str, restitution: float, *,
                varied: bool, known: tuple[int, ...] = (),
                ) -> tuple[Modes | None, float | None]:
    """The modes of rates that rub or are held, or the width of smooth friction; `varied` if
    trajectories have friction of their own; `known` are rates whose motion is given."""
    if friction not in FRICTION:
        raise ValueError(f"friction: {friction!r}, expected one of {', '.join(FRICTION)}")
    if not (np.isfinite(width) and width > 0):
        raise ValueError(f"width: {width}, expected a positive rate")
    rough = varied or any(any((*joint.coulomb, *joint.excess)) for joint in robot.mechanism.joints)
    dry = rough and friction == "dry"
    smooth = float(width) if rough and not dry else None
    if not dry and limits != "hold":
        return None, smooth
    what, other = _alternative(limits)
    for wrong, why in (
            (limits == "hold" and leads(robot.joints), "joints that follow others"),
            (len(robot.mechanism.joints) > MOST_MODED,
             f"{len(robot.mechanism.joints)} joints, more than {MOST_MODED}")):
        if wrong:
            raise ValueError(f"{what} does not go with {why}, expected {other}")
    found = kept(robot, ("moded rates", dry, varied, limits == "hold"), lambda: moded_rates(
        robot, rubbing=dry, varied=varied, limits=limits == "hold"))
    found = tuple(each for each in found if each.rate not in known)
    if robot.mechanism.closed:
        _expect_independent(robot, found, known)
    return Modes(found, restitution) if found else None, smooth


def _expect_independent(robot: Robot, rates: tuple[ModedRate, ...], known: tuple[int, ...],
                        ) -> None:
    """Refuse dry friction of rates that loops tie to each other: at rest which of them holds how
    much is not determined, and so is not when they let go."""
    loops, rubbing = robot.loops, [each for each in rates if each.rubs]
    held = loops.ratios(loops.jacobian(robot.neutral))
    held = np.vstack([held, *(np.eye(robot.n)[i] for i in known)])
    rank = loops.rank(held)
    for each in rubbing:
        held = np.vstack([held, np.eye(robot.n)[each.rate]])
        rank, before = loops.rank(held), rank
        if rank == before:
            others = ", ".join(x.name for x in rubbing if x is not each) or "the given motion"
            raise ValueError(
                f"friction: 'dry' of {each.name}, which loops tie to {others}: at rest it is not "
                "determined which of them holds, expected dry friction on joints that move "
                "independently, or friction='smooth'")


def expect_modes(modes: Modes | None, velocity: str) -> None:
    """Refuse modes of rates where something else is integrated."""
    if modes is not None and velocity != "qd":
        what, other = _alternative("hold" if modes.holds else "ignore")
        raise ValueError(f"{what} does not go with velocity={velocity!r}, expected {other}")


def _alternative(limits: str) -> tuple[str, str]:
    """What asks for modes, and what does not."""
    return (("limits: 'hold'", "limits='ignore'") if limits == "hold" else
            ("friction: 'dry'", "friction='smooth'"))


def moded_rates(robot: Robot, *, rubbing: bool, varied: bool, limits: bool,
                ) -> tuple[ModedRate, ...]:
    """The rates that rub, if `rubbing`, all of them where friction is `varied`; and those whose
    coordinates have limits, if `limits` hold."""
    M = np.reshape(apply(robot, "mass_matrix", robot.neutral.tolist()), (robot.n, robot.n))
    scales = np.maximum(np.diag(M), LIGHTEST)
    found, rate, at = [], 0, 0
    mechanism = robot.mechanism
    moving = [joint for joint in robot.joints if joint.type.nv]
    for joint, seen in zip(moving, mechanism.joints, strict=True):
        low, high = joint.limits.position if limits else (-math.inf, math.inf)
        bounded = joint.type.space.flat and (math.isfinite(low) or math.isfinite(high))
        for k in range(joint.type.nv):
            rubs = rubbing and (varied or any(x != 0 for x in (seen.coulomb[k], seen.excess[k])))
            name = joint.name if joint.type.nv == 1 else f"{joint.name}, rate {k + 1}"
            each = ModedRate(rate + k, name, rubs, float(scales[rate + k]))
            if bounded:
                each = replace(each, coordinate=at + k, lower=low, upper=high)
            if rubs or bounded:
                found.append(each)
        rate, at = rate + joint.type.nv, at + joint.type.nq
    return tuple(found)
