"""Where loops are, and how they open: the kinematics of closures.

Everything is in the axes of the body that carries frame b of a closure; see
`model/constraints.py` for Q, E, R, x and the relative twist (w, v).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nlink.algorithms.kinematics import AT_REST, Place, at, drifts, forward_kinematics, twists
from nlink.algorithms.sweep import ClosedDriver, Column, WithBase
from nlink.model.constraints import NONE
from nlink.model.mechanism import Closure, GearRow, MovingJoint
from nlink.scalars.functions import Scalar
from nlink.spatial import Matrix, Twist, Vector, Wrench

ByBody = WithBase | Sequence[Any]
"""A value for each body, the base's at 0."""
Ends = Sequence[tuple[tuple[int, Wrench], ...]]
"""For each row, the bodies it acts on and the unit wrenches there."""
GEAR = (-1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""What stands for the wrench of a gear, which has none: its force is the first number."""


@dataclass(frozen=True, slots=True)
class HeldClosure:
    """A closure in one configuration, in the axes of the body that carries frame b.

    `turn` takes vectors of body a there, `r` leads from b's origin to a's, `C` are the axes E
    of the constraint, in which a has the rotation R and the place x.
    """

    closure: Closure
    turn: Matrix
    r: Vector
    C: Matrix
    R: Matrix
    x: Vector

    @property
    def rows(self) -> tuple[Wrench, ...]:
        """Q: unit wrenches on a, at its origin."""
        return tuple(Wrench(self.C @ row.moment, self.C @ row.force)
                     for row in self.closure.constraint.rows(self.R, self.x))

    @property
    def arm(self) -> Vector:
        """From b's origin to where the forces act; structure says where that is b's origin."""
        return self.r if self.closure.constraint.slides else NONE

    def error(self) -> tuple[Scalar, ...]:
        return self.closure.constraint.error(self.R, self.x)

    def on_bodies(self) -> Ends:
        """For each row, the unit wrench on either body (from 0), in its axes, about its origin."""
        a, b, back = self.closure.a, self.closure.b, self.turn.T
        pairs = []
        for row in self.rows:
            ends = []
            if a.body:
                ends.append((a.body - 1, Wrench(back @ row.moment, back @ row.force).shift(a.p)))
            if b.body:
                ends.append((b.body - 1, (row * -1).shift(b.p + self.arm)))
            pairs.append(tuple(ends))
        return pairs


def _product(A: Matrix, B: Matrix) -> Matrix:
    return Matrix(A @ B.x, A @ B.y, A @ B.z)


def contacts(mechanism: ClosedDriver, places: Column, *, author: bool = False) -> list[HeldClosure]:
    """Every closure, for bodies in these places; its axes E are the author's frame b, or, where
    rows come in whole triples, those that cost least."""
    return [contact_of(closure, at(places, mechanism, closure.a),
                       at(places, mechanism, closure.b), author=author)
            for closure in mechanism.closures]


def contact_of(closure: Closure, one: Place, other: Place, *, author: bool = False) -> HeldClosure:
    """A closure whose bodies a and b are in some places; see `contacts`."""
    a, b, back = closure.a, closure.b, other.R.T
    plain = closure.constraint.isotropic and not author
    turn = _product(back, one.R)
    r = back @ (one.p - other.p) + turn @ a.p - b.p
    R = _product(turn, a.R)
    if plain:
        return HeldClosure(closure, turn, r, Matrix.identity(), _product(R, b.R.T), r)
    return HeldClosure(closure, turn, r, b.R, _product(b.R.T, R), b.R.T @ r)


def closure_error(mechanism: ClosedDriver, q: Column, *, author: bool = False) -> list[Scalar]:
    """How far every row is from closed."""
    held = contacts(mechanism, forward_kinematics(mechanism, q), author=author)
    return [x for contact in held for x in contact.error()] + gear_errors(mechanism, q)


def closure_velocity(mechanism: ClosedDriver, q: Column, qd: Column, *, author: bool = False,
                     ) -> list[Scalar]:
    """J qd: how fast the loops open."""
    moving = WithBase(mechanism, Twist.zero(), twists(mechanism, q, qd))
    opening = []
    for contact in contacts(mechanism, forward_kinematics(mechanism, q), author=author):
        opening += relative_velocity(contact, moving)
    return opening + gear_rates(mechanism, qd)


def gear_errors(mechanism: ClosedDriver, q: Column) -> list[Scalar]:
    """The sum of each gear, less its offset."""
    return [x - gear.offset for gear, x in zip(
        mechanism.gears, gear_rates(mechanism, q), strict=True)]


def gear_rates(mechanism: ClosedDriver, values: Column) -> list[Scalar]:
    """For each gear the sum of its ratios times values of its joints."""
    found = []
    for gear in mechanism.gears:
        total: Scalar = 0
        for joint, ratio in zip(gear.joints, gear.ratios, strict=True):
            x, = mechanism.at(values, joint + 1)
            total = total + ratio * x
        found.append(total)
    return found


def relative_velocity(contact: HeldClosure, moving: ByBody) -> list[Scalar]:
    """Q (w, v), row by row."""
    twist = _relative_twist(contact, moving)
    if contact.closure.motion is not None:
        twist = twist - contact.closure.motion.twist
    return [twist.dot(row) for row in contact.rows]


def _relative_twist(contact: HeldClosure, moving: ByBody) -> Twist:
    """(w, v) of frame a seen from b, in the axes of b's body; `moving` has the base too."""
    a, b = contact.closure.a, contact.closure.b
    one, other = moving[a.body], moving[b.body]
    v = contact.turn @ (one.linear + one.angular.cross(a.p))
    return Twist(contact.turn @ one.angular - other.angular,
                 v - other.linear - other.angular.cross(b.p + contact.arm))


def relative_acceleration(contact: HeldClosure, motions: ByBody, gained: ByBody, moving: ByBody,
                          ) -> list[Scalar]:
    """d/dt (Q (w, v)), row by row; `motions` with qdd = 0, to which `gained` is added.

    In axes that turn with b, d/dt w = wd_a - wd_b - w_b x w and
    d/dt v = a_a - a_b - (wd_b~ + w_b~ w_b~) r - 2 w_b x v; axes at rest have neither term
    of w_b alone, and without sliding r and v vanish.
    """
    closure, turn = contact.closure, contact.turn
    one, other = motions[closure.a.body], motions[closure.b.body]
    A, B = gained[closure.a.body], gained[closure.b.body]
    w = turn @ one.w - other.w
    angular = turn @ (one.wd + A.angular) - other.wd - B.angular
    linear = (turn @ (one.a + one.E @ closure.a.p + A.linear + A.angular.cross(closure.a.p))
              - other.a - other.E @ closure.b.p - B.linear - B.angular.cross(closure.b.p))
    if not closure.constraint.isotropic:
        angular = angular - other.w.cross(w)
    v = NONE
    if closure.constraint.slides:
        v = _relative_twist(contact, moving).linear
        linear = (linear - other.E @ contact.r - B.angular.cross(contact.r)
                  - other.w.cross(v) * 2)
    change = Twist(angular, linear)
    if closure.motion is not None:
        change = change - closure.motion.change(other.w)
    turning = closure.constraint.turning(contact.R, contact.x, contact.C.T @ w, contact.C.T @ v)
    return [change.dot(row) + extra for row, extra in zip(contact.rows, turning, strict=True)]


def closure_rows(mechanism: ClosedDriver, q: Column) -> list[tuple[Scalar, ...]]:
    """The rows as unit wrenches on a, about its origin, in world axes."""
    places = forward_kinematics(mechanism, q)
    rows = []
    for contact in contacts(mechanism, places, author=True):
        R = at(places, mechanism, contact.closure.b).R
        rows += [(*(R @ row.moment).components, *(R @ row.force).components)
                 for row in contact.rows]
    return rows + [GEAR] * len(mechanism.gears)


def closure_acceleration(mechanism: ClosedDriver, q: Column, qd: Column) -> list[Scalar]:
    """Jdot qd: how the loops would open with qdd = 0."""
    motions = WithBase(mechanism, AT_REST, drifts(mechanism, q, qd))
    still = WithBase(mechanism, Twist.zero(), mechanism.each(lambda joint: Twist.zero()))
    speeds = WithBase(mechanism, Twist.zero(), twists(mechanism, q, qd))
    held = contacts(mechanism, forward_kinematics(mechanism, q), author=True)
    return [*(x for contact in held for x in relative_acceleration(
        contact, motions, still, speeds)), *(0.0 for _ in mechanism.gears)]


def wrenches(mechanism: ClosedDriver, ends: Ends, multipliers: Sequence[Scalar]) -> Column:
    """J^T lambda as a wrench on each body."""
    total: dict[int, Wrench] = {}
    for row, x in zip(ends, multipliers, strict=True):
        for body, f in row:
            total[body] = total.get(body, Wrench.zero()) + f * x
    held = sorted(total)
    number = mechanism.structure([held.index(i) if i in total else None
                                  for i in range(len(mechanism.parents))])
    return mechanism.each(lambda joint, k, all: Wrench.zero() if k is None else all[k],
                          number, mechanism.same(tuple(total[i] for i in held)))


def closure_jacobian(mechanism: ClosedDriver, q: Column) -> Column:
    """For each joint its columns of J, row by row: the joint forces that a unit of each row of the
    constraints causes."""

    def inward(joint: MovingJoint, f: Wrench, wrench: Wrench, q):
        f = f + wrench
        return joint.transform(q).wrench_to_parent(f), joint.project(q, f)

    forces = [mechanism.inward(inward, Wrench.zero(), wrenches(mechanism, [row], [1]), q)[0]
              for contact in contacts(mechanism, forward_kinematics(mechanism, q), author=True)
              for row in contact.on_bodies()]
    return mechanism.each(lambda joint, *rows: rows, *forces, *map(
        partial(_ratios, mechanism), mechanism.gears))


def _ratios(mechanism: ClosedDriver, gear: GearRow) -> Column:
    """What of a gear each joint has in J."""
    joints = gear.joints
    place = mechanism.structure([joints.index(i) if i in joints else None
                                 for i in range(len(mechanism.parents))])
    return mechanism.each(lambda joint, k, all: (0,) * joint.type.nv if k is None else (all[k],),
                          place, mechanism.same(gear.ratios))
