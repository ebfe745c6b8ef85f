"""Dry friction that sticks, and limits that hold: the modes of a mechanism's rates.

A rate that rubs slides, with friction against it, or is at rest and held by a force of at most
its breakaway friction. A coordinate at its limit is held by a force away from the limit, as
strong as is needed. Both are modes of the rate (`iterations.box_problem`):

    1, -1    slides up or down: the force is -mode dry(qd), with Stribeck's dry(qd)
    0        sticks: the rate is 0, and the force within -dry(0) to dry(0)
    2, -2    is held at the lower or upper limit: the same without an upper or lower bound

Accelerations and holding forces follow from the modes by hybrid dynamics. All of it is written on
any scalar; `hybrid(q, qd, tau, held, qdd)` gives the accelerations and the forces that hold, held
rates being given theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nlink.iterations.box_problem import proposed_mode, sliding
from nlink.iterations.text import equal
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

if TYPE_CHECKING:
    from nlink.model.mechanism import Mechanism
    from nlink.robot import Robot

Hybrid = Callable[[Scalars, Scalars, Scalars, Scalars, Scalars], tuple[Scalars, Scalars]]

FRICTION = ("dry", "smooth")
"""What `friction=` may say."""
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

    def target(self, q: Scalars, mode: Scalar, h: Scalar) -> Scalar:
        """The rate that it has after a step where it is held."""
        if self.coordinate < 0:
            return 0.0
        up, down = ((bound - q[self.coordinate]) / h if math.isfinite(bound) else 0.0
                    for bound in (self.lower, self.upper))
        return where(less(1.0, mode), up, where(less(mode, -1.0), down, 0.0))

    def after_step(self, q: Scalars, v: Scalar, mode: Scalar, force: Scalar, level: Scalar,
                   target: Scalar, h: Scalar, margin: Scalar) -> Scalar:
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
        asked = where(inside & less(there, self.lower), 2.0, asked)
        return where(inside & less(self.upper, there), -2.0, asked)

    @property
    def words(self) -> tuple[str, str]:
        """What happens when it is held, and when it is not any more."""
        return ("sticks", "slides") if self.rubs else ("rests on its limit", "leaves its limit")


@dataclass(frozen=True)
class Modes:
    """The rates of a mechanism that have modes."""

    rates: tuple[ModedRate, ...]
    n: int
    """Rates of the mechanism."""

    def __len__(self) -> int:
        return len(self.rates)

    def moving(self, hybrid: Hybrid, mechanism: Mechanism, q: Scalars, qd: Scalars, tau: Scalars,
               modes: Scalars) -> tuple[list[Scalar], list[Scalar]]:
        """Accelerations, and the holding forces over the scales of their rates: what error control
        sees of forces that change while nothing moves."""
        qdd, force = self._forces(hybrid, mechanism, q, qd, tau, modes)
        return list(qdd), [force[each.rate] / each.scale for each in self.rates]

    def slack(self, hybrid: Hybrid, mechanism: Mechanism, q: Scalars, qd: Scalars, tau: Scalars,
              modes: Scalars) -> list[Scalar]:
        """For every rate, how far its mode is from ending."""
        _, force = self._forces(hybrid, mechanism, q, qd, tau, modes)
        found: list[Scalar] = [math.inf] * self.n
        levels = _levels(mechanism, [0.0] * self.n)
        for each, mode in zip(self.rates, modes, strict=True):
            f, level = force[each.rate], levels[each.rate]
            above, below = level + f, level - f
            inside = minimum(above, below) if each.rubs else math.inf
            inside = where(less(1.0, mode), above, where(less(mode, -1.0), below, inside))
            slides = mode * qd[each.rate] if each.rubs else math.inf
            found[each.rate] = where(sliding(mode), slides,
                                     inside + 2.0 * self._margin(each, level))
        return found

    def propose(self, hybrid: Hybrid, mechanism: Mechanism, q: Scalars, qd: Scalars, tau: Scalars,
                modes: Scalars) -> list[Scalar]:
        """The modes that forces and accelerations ask for, of rates at rest."""
        qdd, force = self._forces(hybrid, mechanism, q, qd, tau, modes)
        levels, found = _levels(mechanism, [0.0] * self.n), []
        for each, mode in zip(self.rates, modes, strict=True):
            i, level = each.rate, levels[each.rate]
            asked = proposed_mode(
                mode, each.hold(q), force[i], qdd[i], where(less(mode, -1.0), -math.inf, -level),
                where(less(1.0, mode), math.inf, level), self._margin(each, level))
            found.append(where(equal(qd[i], 0.0), asked, mode))
        return found

    def arrest(self, q: Scalars, qd: Scalars, modes: Scalars) -> tuple[list[Scalar], list[Scalar]]:
        """Rates and modes where a phase ends: what slid to rest is at rest, and all that is at
        rest is held, to begin with."""
        rates, found = list(qd), []
        for each, mode in zip(self.rates, modes, strict=True):
            v = qd[each.rate]
            if each.rubs:
                stopped = sliding(mode) & less_equal(mode * v, 0.0)
                v = rates[each.rate] = where(stopped, 0.0, v)
            found.append(each.mode(q, v))
        return rates, found

    def touch(self, q: Scalars, qd: Scalars) -> tuple[list[Scalar], list[Scalar]]:
        """Coordinates no further than their limits, and modes for an impact: 2 or -2 of what
        moves into a limit, 1 or -1 of what does not."""
        places, found = list(q), []
        for each in self.rates:
            v, mode = qd[each.rate], 1.0
            if each.coordinate >= 0:
                x = q[each.coordinate]
                low, high = less_equal(x, each.lower), less_equal(each.upper, x)
                places[each.coordinate] = where(low, each.lower, where(high, each.upper, x))
                mode = where(low, where(less(v, SLOW), 2.0, 1.0),
                             where(high, where(less(-SLOW, v), -2.0, -1.0), 1.0))
            found.append(mode)
        return places, found

    def impulse_modes(self, impulse_response: Hybrid, q: Scalars, qd: Scalars, modes: Scalars,
                      restitution: float) -> list[Scalar]:
        """The modes that impulses and rates after an impact ask for.

        Newton's and Moreau's: qd' + restitution qd is not into a limit, the impulse is away
        from it, and one of both is zero.
        """
        after, impulse = self._collide(impulse_response, q, qd, modes, restitution)
        found = []
        for each, mode in zip(self.rates, modes, strict=True):
            hold, v = each.hold(q), qd[each.rate]
            asked = proposed_mode(
                mode, hold, impulse[each.rate], after[each.rate] + _rebound(restitution, v) * v,
                where(less(mode, -1.0), -math.inf, 0.0), where(less(1.0, mode), math.inf, 0.0),
                SLOW * each.scale)
            found.append(where(less(1.0, hold * hold), asked, mode))
        return found

    def collide(self, impulse_response: Hybrid, q: Scalars, qd: Scalars, modes: Scalars,
                restitution: float) -> tuple[list[Scalar], list[Scalar]]:
        """Rates after an impact, and their modes then."""
        after, _ = self._collide(impulse_response, q, qd, modes, restitution)
        return after, [each.mode(q, after[each.rate]) for each in self.rates]

    def _collide(self, impulse_response: Hybrid, q: Scalars, qd: Scalars, modes: Scalars,
                 restitution: float) -> tuple[list[Scalar], Scalars]:
        """Rates after an impact with these modes, and the impulses: M (qd' - qd) = impulse, with
        qd' = -restitution qd where a limit is hit. `impulse_response` knows neither gravity nor
        velocities."""
        held: list[Scalar] = [0.0] * self.n
        given: list[Scalar] = [0.0] * self.n
        for each, mode in zip(self.rates, modes, strict=True):
            if each.coordinate >= 0:
                held[each.rate] = where(sliding(mode), 0.0, 1.0)
                v = qd[each.rate]
                given[each.rate] = -(1.0 + _rebound(restitution, v)) * v
        zeros = [0.0] * self.n
        change, impulse = impulse_response(q, zeros, zeros, held, given)
        after = [v + x for v, x in zip(qd, change, strict=True)]
        for each, mode in zip(self.rates, modes, strict=True):
            if each.coordinate >= 0:
                v = qd[each.rate]
                after[each.rate] = where(sliding(mode), after[each.rate],
                                         -_rebound(restitution, v) * v)
        return after, impulse

    def _forces(self, hybrid: Hybrid, mechanism: Mechanism, q: Scalars, qd: Scalars, tau: Scalars,
                modes: Scalars) -> tuple[Scalars, Scalars]:
        """Accelerations and holding forces."""
        levels, drive = _levels(mechanism, qd), list(tau)
        held: list[Scalar] = [0.0] * self.n
        for each, mode in zip(self.rates, modes, strict=True):
            slides = sliding(mode)
            held[each.rate] = where(slides, 0.0, 1.0)
            if each.rubs:
                drive[each.rate] = drive[each.rate] - where(slides, mode * levels[each.rate], 0.0)
        return hybrid(q, qd, drive, held, [0.0] * self.n)

    def advance(self, hybrid: Hybrid, mechanism: Mechanism, q: Scalars, qd: Scalars, tau: Scalars,
                modes: Scalars, h: Scalar) -> tuple[list[Scalar], list[Scalar], list[Scalar]]:
        """Rates after a step of size h with these modes, the holding forces over their scales, and
        the modes that they ask for: the box problem of velocities, impulses being h times forces.

        A held rate is 0 after the step, or takes its coordinate to the limit.
        """
        levels, rest, drive = _levels(mechanism, qd), _levels(mechanism, [0.0] * self.n), list(tau)
        held: list[Scalar] = [0.0] * self.n
        given: list[Scalar] = [0.0] * self.n
        targets = [each.target(q, mode, h) for each, mode in zip(self.rates, modes, strict=True)]
        for each, mode, target in zip(self.rates, modes, targets, strict=True):
            i, slides = each.rate, sliding(mode)
            held[i], given[i] = where(slides, 0.0, 1.0), (target - qd[i]) / h
            if each.rubs:
                drive[i] = drive[i] - where(slides, mode * levels[i], 0.0)
        qdd, force = hybrid(q, qd, drive, held, given)
        after, found = [v + h * a for v, a in zip(qd, qdd, strict=True)], []
        for each, mode, target in zip(self.rates, modes, targets, strict=True):
            i = each.rate
            after[i] = where(sliding(mode), after[i], target)
            found.append(each.after_step(q, after[i], mode, force[i], rest[i], target, h,
                                         self._margin(each, rest[i])))
        return after, [force[each.rate] / each.scale for each in self.rates], found

    def _margin(self, each: ModedRate, level: Scalar) -> Scalar:
        return MARGIN * (level + each.scale)


def _rebound(restitution: float, v: Scalar) -> Scalar:
    """What of a rate is left after an impact, nothing where that is slow."""
    return where(less(SLOW, restitution * abs(v)), restitution, 0.0) if restitution else 0.0


def _levels(mechanism: Mechanism, qd: Scalars) -> list[Scalar]:
    """How strongly each rate rubs that slides with qd."""
    return [x for joint, own in zip(mechanism.joints, mechanism.split(qd, "nv"), strict=True)
            for x in joint.dry_friction(own)]


def without_dry_friction(mechanism: Mechanism) -> Mechanism:
    """The same joints, with viscous friction alone."""
    return replace(mechanism, joints=tuple(
        replace(joint, coulomb=(0.0,) * joint.type.nv, excess=(0.0,) * joint.type.nv)
        for joint in mechanism.joints))


def smooth_friction(mechanism: Mechanism, qd: Scalars, width: float) -> list[Scalar]:
    """Dry friction with tanh(qd / width) in place of the sign: it creeps, and never sticks."""
    return [level if literal(level) == 0 else level * tanh(x / width)
            for level, x in zip(_levels(mechanism, qd), qd, strict=True)]


def moded_rates(robot: Robot, scales: Sequence[float], *, rubbing: bool, varied: bool,
                limits: bool) -> Modes:
    """The rates that rub, if `rubbing`, all of them where friction is `varied`; and those whose
    coordinates have limits, if `limits` hold."""
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
    return Modes(tuple(found), mechanism.nv)
