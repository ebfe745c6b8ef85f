"""Closed chains: loops held by contact forces, on top of the sweeps of the open tree.

[RK88] Part II is a contents page in print; the derivation is in docs/closed-chains.md. With
J the rows of all closures on relative twists,

    M qdd + h = tau + J^T lambda,   J qdd + Jdot qd = 0,

and the tree, let go, accelerates by qdd_f = M^-1 (tau - h), which opens the loops by c = J qdd_f
+ Jdot qd. Then (J M^-1 J^T) lambda = -c is a small system, the contact form, and what lambda
adds to the joints is one more sweep inward and outward: O(n) for a bounded number of loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nlink.algorithms.closures import (
    Contact,
    Ends,
    closure_error,
    closure_speed,
    closure_velocity,
    contacts,
    relative_acceleration,
    wrenches,
)
from nlink.algorithms.forward_dynamics import (
    ArticulatedBody,
    EliminatedJoint,
    accelerate,
    articulate,
)
from nlink.algorithms.inverse_dynamics import Body, Motion, base_motion, move
from nlink.algorithms.kinematics import at, forward_kinematics, twists
from nlink.algorithms.matrices import Dense, Factors, pivots, zeros
from nlink.algorithms.operational import cross_mobility, mobilities
from nlink.algorithms.sweep import ClosedDriver, Column, WithBase
from nlink.model.constraints import ANGLE_TOLERANCE
from nlink.model.mechanism import MovingJoint
from nlink.scalars.functions import Scalar, largest, maximum, sign
from nlink.spatial import Twist, Wrench
from nlink.spatial.mobility import SpatialMobility

DEPENDENT = (3 * ANGLE_TOLERANCE) ** 2
"""A row whose pivot is this share of its own mobility follows from the rows before it, and one
with this share of the mobility around it holds nothing that could move. Mobilities go with the
square of an angle."""


def closure_mobility(mechanism: ClosedDriver, steps: Column, ends: Ends,
                     ) -> tuple[Dense, dict[int, SpatialMobility]]:
    """J M^-1 J^T, and how mobile the bodies of its rows are.

    Each body that a loop holds is visited once, whatever the number of its rows.
    """
    bodies = sorted({body for row in ends for body, _ in row})
    all_bodies = mobilities(mechanism, steps)
    Om = {i: mechanism.at(all_bodies, i + 1) for i in bodies}
    blocks = {(i, j): cross_mobility(mechanism, steps, all_bodies, i, j)
              for i in bodies for j in bodies if j < i}

    def twist_of(i: int, row: tuple[tuple[int, Wrench], ...]) -> Twist:
        """How body i yields to the wrenches of a row."""
        total = Twist.zero()
        for j, f in row:
            if i == j:
                total = total + Om[i] @ f
            elif j < i:
                total = total + Twist.of([t.dot(f) for t in blocks[i, j]])
            else:
                columns = zip(*(t.components for t in blocks[j, i]), strict=True)
                total = total + Twist.of([Twist.of(c).dot(f) for c in columns])
        return total

    S = zeros(len(ends))
    for r, row in enumerate(ends):
        yields = {i: twist_of(i, row) for i in {i for other in ends[:r + 1] for i, _ in other}}
        for s in range(r + 1):
            total: Scalar = 0
            for i, f in ends[s]:
                total = total + yields[i].dot(f)
            S[r][s] = S[s][r] = total
    return S, Om


def _floors(mechanism: ClosedDriver, Om: dict[int, SpatialMobility]) -> list[Scalar]:
    """Of each row, the mobility of one that holds nothing: that which a moment and a force have
    if they are off by ANGLE_TOLERANCE, the force also by as much of the body's length."""
    floors: list[Scalar] = []
    for closure in mechanism.closures:
        turning: Scalar = 0
        moving: Scalar = 0
        for end, arm in zip((closure.a, closure.b), closure.arms, strict=True):
            if end.body:
                A, B = Om[end.body - 1].A.trace, Om[end.body - 1].B.trace
                turning, moving = turning + A, moving + (A * arm ** 2 + B)
        floors += [(turning * moment ** 2 + moving * force ** 2) * DEPENDENT + 1e-300
                   for moment, force in closure.constraint.magnitudes]
    return floors


@dataclass(frozen=True, slots=True)
class ClosureSystem:
    """The closures of one configuration, ready to be solved."""

    ends: Ends
    steps: Column
    factors: Factors

    @classmethod
    def of(cls, mechanism: ClosedDriver, held: Sequence[Contact], steps: Column) -> ClosureSystem:
        ends = [row for contact in held for row in contact.on_bodies()]
        S, Om = closure_mobility(mechanism, steps, ends)
        floors = _floors(mechanism, Om)

        def invert(k: int, pivot: Scalar, whole: Scalar) -> Scalar:
            keep = (1 + sign(pivot - (DEPENDENT * whole + floors[k]))) * 0.5
            return keep / (pivot * keep + (1 - keep))

        return cls(ends, steps, Factors.of(S, invert))

    @classmethod
    def at(cls, mechanism: ClosedDriver, q: Column) -> ClosureSystem:
        held = contacts(mechanism, forward_kinematics(mechanism, q))
        return cls.of(mechanism, held, pivots(mechanism, q))

    def respond(self, mechanism: ClosedDriver, opening: Sequence[Scalar]) -> Column:
        """M^-1 J^T lambda, with the lambda that takes an opening away."""
        multipliers = self.factors.solve([-x for x in opening])
        return response(mechanism, self.steps, wrenches(mechanism, self.ends, multipliers))

    def largest(self, mechanism: ClosedDriver, opening: Sequence[Scalar]) -> Scalar:
        """The largest opening over a radian or the size of its loop; rows that follow from
        others do not count, as they cannot be closed."""
        sizes = [x for closure in mechanism.closures for x in closure.scales]
        return largest(sign(inverse) * (1 / size) * x for x, size, inverse in zip(
            opening, sizes, self.factors.inverses, strict=True))


def response(mechanism: ClosedDriver, steps: Column, wrenches: Column) -> Column:
    """Joint accelerations that wrenches on bodies cause: z(k) = psi z(k-1) and nu = -D^-1 H z
    inward, lambda(k) = psi^T lambda(k+1) + H^T nu outward (docs/closed-chains.md)."""

    def inward(joint: MovingJoint, f: Wrench, step: EliminatedJoint, wrench: Wrench):
        f, us = f - wrench, []
        for pivot in reversed(step.pivots):
            u, f = pivot.eliminate(f)
            us.append(u)
        return step.X.wrench_to_parent(f), replace(step, u=tuple(us[::-1]))

    yielding, _ = mechanism.inward(inward, Wrench.zero(), steps, wrenches)
    return mechanism.outward(accelerate, Twist.zero(), yielding)


@dataclass(frozen=True, slots=True)
class ReleasedTree:
    """The tree let go: its accelerations, and by how much they open the loops."""

    qdd: Column
    steps: Column
    contacts: list[Contact]
    openings: list[list[Scalar]]
    """The openings of each contact, row by row."""


def release(mechanism: ClosedDriver, q: Column, qd: Column, tau: Column, f_ext: Column,
            ) -> ReleasedTree:
    """The three sweeps of forward dynamics, which also say how bodies accelerate."""

    def outward(joint: MovingJoint, parent: Motion, q, qd, f_ext):
        X = joint.transform(q)
        motion = move(joint, X, parent, q, qd, (0,) * joint.type.nv)
        f = joint.inertia.newton_euler(motion.E, motion.a) - f_ext
        return motion, (motion, Body(X, f))

    def inward(joint: MovingJoint, carried: ArticulatedBody, moving, q, qd, tau):
        body: Body = moving[1]
        drive = tuple(t - r for t, r in zip(tau, joint.friction(qd), strict=True))
        return articulate(joint, body.X, carried, body.f, q, drive)

    def yielding(joint: MovingJoint, parent: Twist, step: EliminatedJoint):
        gained, qdd = accelerate(joint, parent, step)
        return gained, (gained, qdd)

    rest = base_motion(mechanism.gravity)
    moving = mechanism.outward(outward, rest, q, qd, f_ext)
    steps, _ = mechanism.inward(inward, ArticulatedBody.zero(), moving, q, qd, tau)
    freed = mechanism.outward(yielding, Twist.zero(), steps)
    held = contacts(mechanism, forward_kinematics(mechanism, q))
    motions = WithBase(mechanism, rest, mechanism.each(lambda joint, body: body[0], moving))
    gained = WithBase(mechanism, Twist.zero(), mechanism.each(lambda joint, body: body[0], freed))
    speeds = WithBase(mechanism, Twist.zero(), twists(mechanism, q, qd))
    openings = [relative_acceleration(contact, motions, gained, speeds) for contact in held]
    qdd = mechanism.each(lambda joint, body: body[1], freed)
    return ReleasedTree(qdd, steps, held, openings)


def forward_dynamics(mechanism: ClosedDriver, q: Column, qd: Column, tau: Column, f_ext: Column,
                     stiffness: float = 0.0) -> Column:
    """Joint accelerations that keep the loops closed: the contact form.

    With a `stiffness` k, Baumgarte's: openings obey x'' + 2 k x' + k^2 x = 0.
    """
    free = release(mechanism, q, qd, tau, f_ext)
    opening = [x for part in free.openings for x in part]
    if stiffness:
        opening = [a + 2 * stiffness * v + stiffness ** 2 * x for a, v, x in zip(
            opening, closure_velocity(mechanism, q, qd), closure_error(mechanism, q),
            strict=True)]
    held = ClosureSystem.of(mechanism, free.contacts, free.steps)
    return added(mechanism, free.qdd, held.respond(mechanism, opening))


def added(mechanism: ClosedDriver, one: Column, other: Column) -> Column:
    """The sum of two columns of joint values."""
    return mechanism.each(lambda joint, a, b: tuple(x + y for x, y in zip(a, b, strict=True)),
                          one, other)


def closure_forces(mechanism: ClosedDriver, q: Column, qd: Column, tau: Column, f_ext: Column,
                   ) -> list[tuple[Scalar, ...]]:
    """For each closure the wrench that a exerts on b, about a's origin, in world axes."""
    free = release(mechanism, q, qd, tau, f_ext)
    held = ClosureSystem.of(mechanism, free.contacts, free.steps)
    multipliers = iter(held.factors.solve([-x for part in free.openings for x in part]))
    places, forces = forward_kinematics(mechanism, q), []
    for contact in free.contacts:
        total, R = Wrench.zero(), at(places, mechanism, contact.closure.b).R
        for row in contact.rows:
            total = total - row * next(multipliers)
        forces.append((*(R @ total.moment).components, *(R @ total.force).components))
    return forces


def closure_rank(mechanism: ClosedDriver, q: Column) -> Scalar:
    """How many rows are independent here."""
    return sum(sign(x) for x in ClosureSystem.at(mechanism, q).factors.inverses)


def project(mechanism: ClosedDriver, q: Column, qd: Column) -> tuple[Column, Column, Scalar]:
    """A state that is closer to closed ones, by a step of Newton's in the metric of the mass
    matrix, and what it is still open by: errors over a radian or the size of their loop, speeds
    over those of the bodies.

    dq = -M^-1 J^T (J M^-1 J^T)^-1 error for places, the same with J qd for velocities: what
    is taken away is what an impulse in the loops could have given. Of an opening e about e^2 is
    left, and of velocities what e turns them by.
    """
    held = ClosureSystem.at(mechanism, q)
    change = held.respond(mechanism, closure_error(mechanism, q))
    q = mechanism.each(_step, q, change)
    change = held.respond(mechanism, closure_velocity(mechanism, q, qd))
    qd = added(mechanism, qd, change)
    speed = closure_speed(mechanism, twists(mechanism, q, qd))
    left = maximum(
        held.largest(mechanism, closure_error(mechanism, q)),
        held.largest(mechanism, closure_velocity(mechanism, q, qd)) / (speed + 1e-300))
    return q, qd, left


def _step(joint: MovingJoint, q, change):
    """q + change, brought back into the space of the joint."""
    space = joint.type.space
    return space.normalize([x + v for x, v in zip(q, space.tangent(q, change), strict=True)])
