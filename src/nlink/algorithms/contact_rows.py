"""The rows of contacts: how a mechanism answers to impulses at its contacts, in O(n) sweeps.

A step of size h takes the rates v to

    v' = v + h M^-1 (tau - b) + M^-1 J^T lam,      sig = J v' = g + G lam,     G = J M^-1 J^T,

(of a free body, whose rates are components along its own axes, h (w x v) is in v' besides, as the
step turns these axes only at its end: `Space.step`),

lam being impulses along the directions t, u, n of each contact. Forward dynamics eliminates
M = U D U^T, so that with Y = U^-1 J^T (one column for each direction)

    G = Y^T D^-1 Y,        M^-1 J^T lam = U^-T D^-1 Y lam.

A column of Y is what the pivots leave of a unit wrench that goes inward from the body it acts on:
the sweep of forward dynamics, along one path, with the elimination already made.

The last row of each contact is that of its gap. It says sig_n >= 0 where v' must not lead further
in, and the constant in it is what the law of contact asks for (see `approach`).

Rates that rub, or that limits hold, have a row each behind those of contacts: their column of Y
is what the pivots leave of a unit force in the joint, and g is their rate without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nlink.algorithms.contact_points import Touch, TouchingDriver, contact_points
from nlink.algorithms.forward_dynamics import (
    EliminatedJoint,
    accelerate,
    eliminated,
)
from nlink.algorithms.kinematics import forward_kinematics, twists
from nlink.algorithms.matrices import Dense, path, rates
from nlink.algorithms.sweep import Column
from nlink.model.joints import Coordinates
from nlink.scalars.functions import Scalar, Scalars, less, less_equal, literal, maximum, sqrt, where
from nlink.spatial import Twist, Wrench

OUT_AGAIN = 0.2
"""What part of a depth a step takes back, where bodies have sunk into each other."""
FASTEST_OUT = 1.0
"""The speed, in m/s, at which they are separated at most."""
ROUNDING = 1e-7
"""A depth is that of rounding where it is taken back within a step by less than this speed, in m/s:
then all of it is."""
BOUNCE = 4.0
"""A bounce is faster than what gravity makes in so many steps."""


@dataclass(frozen=True, slots=True)
class ContactRows:
    """The contact problem of one step; scalars and what is known of the structure, no mechanism."""

    steps: tuple[EliminatedJoint, ...]
    """The elimination, without forces."""
    free: tuple[Coordinates, ...]
    """The rates after the step without contacts, by joints."""
    Y: tuple[tuple[Scalar, ...], ...]
    """A column for each direction of each contact, then for each rate with a row, its elements
    those of `loaded`."""
    G: tuple[tuple[Scalar, ...], ...]
    """Symmetric: velocities along all directions by impulses."""
    g: tuple[Scalar, ...]
    """Velocities without impulses, and what the law asks for along normals."""
    gaps: tuple[Scalar, ...]
    friction: tuple[Scalar, ...]


def loaded(mechanism: TouchingDriver, *bodies: int) -> list[int]:
    """The rates that carry some bodies (from 1, 0 being the world), in order."""
    number = rates(mechanism)
    carrying = {i for body in bodies for i in path(mechanism, body - 1)}
    return [k for i in sorted(carrying) for k in number[i]]


def support(mechanism: TouchingDriver, moded: Sequence[int]) -> list[list[int]]:
    """For each row, the rates that its column of Y has elements of."""
    bodies = {k: i + 1 for i, own in enumerate(rates(mechanism)) for k in own}
    return [*(loaded(mechanism, contact.body, contact.other) for contact in mechanism.contacts
              for _ in range(3)), *(loaded(mechanism, bodies[k]) for k in moded)]


def contact_rows(mechanism: TouchingDriver, q: Column, qd: Column, tau: Column, f_ext: Column,
                 h: Scalar, moded: Sequence[int] = ()) -> ContactRows:
    """The rows of all contacts, and of some rates by their numbers, for a step of size h."""
    steps, qdd = eliminated(mechanism, q, qd, tau, f_ext)
    # rates along axes that turn change without any acceleration: that is the business of the step
    turning = mechanism.each(lambda joint, q, qd: joint.type.space.turning(q, qd), q, qd)
    free = tuple(tuple(x + h * (a - b) for x, a, b in zip(*three, strict=True))
                 for three in zip(qd, qdd, turning, strict=True))
    places = forward_kinematics(mechanism, q, mechanism.base.p)
    touches = contact_points(mechanism, places, mechanism.base.p)
    after, before = twists(mechanism, q, free), twists(mechanism, q, qd)
    g, columns, weight = [], [], sqrt(mechanism.gravity.dot(mechanism.gravity))
    for touch in touches:
        wrenches = touch.on_bodies()
        columns += [_column(mechanism, steps, ends) for ends in wrenches]
        *along, speed = (_speed(after, ends) for ends in wrenches)
        g += [*along, speed + approach(touch, _speed(before, wrenches[-1]), weight, h)]
    flat = [x for own in free for x in own]
    g += [flat[k] for k in moded]
    columns += [_column(mechanism, steps, (), k) for k in moded]
    return ContactRows(
        tuple(replace(step, u=()) for step in steps), free,
        tuple(tuple(column.get(k, 0.0) for k in own) for own, column in zip(
            support(mechanism, moded), columns, strict=True)),
        _products(steps, columns), tuple(g), tuple(touch.gap for touch in touches),
        tuple(touch.contact.friction for touch in touches))


def approach(touch: Touch, speed: Scalar, weight: Scalar, h: Scalar) -> Scalar:
    """What the row of the normal has besides its velocity: the row is not negative, nor is the
    impulse, and one of both is zero.

    A gap may close within the step and no further; where bodies have sunk into each other they
    separate slowly. What rests is neither: it has the law of a gap, and so its derivative. A bounce
    replaces that: sig_n >= -e v_n, with v_n the speed before the step [Moreau's rule].
    """
    gap, e = touch.gap, touch.contact.restitution
    row = where(less(-ROUNDING, gap / h), gap / h, maximum(OUT_AGAIN * gap / h, -FASTEST_OUT))
    if literal(e) == 0:
        return row
    arrives = less_equal(gap + h * speed, 0.0) & less(speed, -BOUNCE * h * weight) & less(0.0, e)
    return where(arrives, e * speed, row)


def normal_speeds(mechanism: TouchingDriver, q: Column, qd: Column,
                  ) -> list[tuple[Scalar, Scalar]]:
    """The gap of each contact, and the rate at which it grows."""
    places = forward_kinematics(mechanism, q, mechanism.base.p)
    moving = twists(mechanism, q, qd)
    return [(touch.gap, _speed(moving, touch.on_bodies()[-1]))
            for touch in contact_points(mechanism, places, mechanism.base.p)]


def respond(mechanism: TouchingDriver, rows: ContactRows, lam: Scalars,
            moded: Sequence[int] = ()) -> list[Coordinates]:
    """The rates after the step with impulses lam: free, and what they add to it."""
    number = rates(mechanism)
    u: list[Scalar] = [0.0] * sum(mechanism.rates)
    for own, column, x in zip(support(mechanism, moded), rows.Y, lam, strict=True):
        for k, y in zip(own, column, strict=True):
            u[k] = u[k] + y * x
    steps = [replace(step, u=tuple(u[k] for k in own))
             for step, own in zip(rows.steps, number, strict=True)]
    change = mechanism.outward(accelerate, Twist.zero(), steps)
    return [tuple(a + b for a, b in zip(*pair, strict=True))
            for pair in zip(rows.free, change, strict=True)]


def _column(mechanism: TouchingDriver, steps: Sequence[EliminatedJoint],
            ends: Sequence[tuple[int, Wrench]], driven: int = -1) -> dict[int, Scalar]:
    """A column of Y: what unit wrenches, or the unit force of a rate, leave at the pivots of those
    joints that carry them."""
    number, found, arriving = rates(mechanism), dict[int, Scalar](), dict[int, Wrench]()
    for i, own in enumerate(number):
        if driven in own:
            arriving[i] = Wrench.zero()
    for body, wrench in ends:
        # a body needs less by what acts on it
        arriving[body] = arriving[body] - wrench if body in arriving else wrench * -1
    while arriving:
        i = max(arriving)
        f = arriving.pop(i)
        for k, pivot in reversed(list(zip(number[i], steps[i].pivots, strict=True))):
            if k > driven and not ends:
                continue  # nothing comes here
            found[k], f = pivot.eliminate(f, 1.0 if k == driven else 0)
        parent = mechanism.parents[i] - 1
        if parent >= 0:
            f = steps[i].X.wrench_to_parent(f)
            arriving[parent] = arriving[parent] + f if parent in arriving else f
    return found


def _products(steps: Sequence[EliminatedJoint], columns: Sequence[dict[int, Scalar]],
              ) -> tuple[tuple[Scalar, ...], ...]:
    """Y^T D^-1 Y."""
    inverses = [pivot.inverse for step in steps for pivot in step.pivots]
    scaled = [{k: y * inverses[k] for k, y in column.items()} for column in columns]
    G: Dense = [[0.0] * len(columns) for _ in columns]
    for i, row in enumerate(scaled):
        for j in range(i + 1):
            common = sorted(row.keys() & columns[j].keys(), reverse=True)
            total: Scalar = 0.0
            for k in common:
                total = total + row[k] * columns[j][k]
            G[i][j] = G[j][i] = total
    return tuple(map(tuple, G))


def _speed(moving: Column, ends: Sequence[tuple[int, Wrench]]) -> Scalar:
    """The velocity along a direction: the power of its unit wrenches."""
    total: Scalar = 0.0
    for body, wrench in ends:
        total = total + moving[body].dot(wrench)
    return total


def _threes(columns: Sequence[dict[int, Scalar]]) -> list[Sequence[dict[int, Scalar]]]:
    return [columns[k:k + 3] for k in range(0, len(columns), 3)]
