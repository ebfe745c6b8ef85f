"""What mechanisms with loops do, on top of their elimination (`algorithms.cycle_elimination`).

With J the rows of all closures on relative twists,

    M qdd + h = tau + J^T lambda,   J qdd + Jdot qd = 0,

and the same factors, with other right-hand sides, take a state back to where the loops are closed
and say what the loops carry. The derivation is in docs/closed-chains.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from nlink.algorithms.closures import (
    ByBody,
    HeldClosure,
    contact_of,
    gear_errors,
    gear_rates,
    relative_acceleration,
    relative_velocity,
)
from nlink.algorithms.cycle_elimination import (
    ClosedSystem,
    EliminatedBody,
    EliminatedRows,
    none_held,
    plan_of,
)
from nlink.algorithms.hybrid_dynamics import given_accelerations
from nlink.algorithms.inverse_dynamics import Motion, base_motion, move
from nlink.algorithms.kinematics import Place
from nlink.algorithms.loads import Answer, AppliedLoad, closed_again, opening
from nlink.algorithms.sweep import Column, Unrolled
from nlink.model.constraints import ANGLE_TOLERANCE
from nlink.model.mechanism import Mechanism, MovingJoint
from nlink.scalars.functions import Scalar, largest, less, literal, maximum, where
from nlink.spatial import Matrix, Transform, Twist, Vector

NO_INERTIA = 1e-13
"""An inertia of this share of that of what moves with it is rounding."""
ASKEW = 3 * ANGLE_TOLERANCE
"""How far loops may stay open, over a radian or their size, because axes are not quite parallel;
and how close to a dead point a state that was integrated can be told from one."""


def refuses_early(mechanism: Mechanism) -> str:
    """Why no rows go early, if so."""
    return "" if plan_of(mechanism, early=True).early else (
        "no loop is held by a branch of its own from the base that is mobile enough; expected "
        "'elimination'")


@dataclass(frozen=True, slots=True)
class Carried:
    """A body on its way outward: how it moves with qdd = 0, where it is, and its twist."""

    motion: Motion | None
    place: Place
    twist: Twist


def _place(joint: MovingJoint, X: Transform, parent: Place) -> Place:
    R = Matrix(*(X.R.to_child(Vector(*row)) for row in parent.R.rows)).T
    return Place(R, parent.p + parent.R @ X.p + R @ X.r)


def _base(mechanism: Unrolled) -> Carried:
    return Carried(base_motion(mechanism.gravity), Place(mechanism.base.R, Vector.zero()),
                   Twist.zero())


def _contacts(mechanism: Unrolled, bodies: Sequence[Carried]) -> list[HeldClosure]:
    found = []
    for closure in mechanism.closures:
        mechanism.mark()
        found.append(contact_of(closure, bodies[closure.a.body].place,
                                bodies[closure.b.body].place))
    return found


def forward_dynamics(mechanism: Unrolled, q: Column, qd: Column, tau: Column, f_ext: Column,
                     stiffness: float = 0.0, closeness: float = 0.0, *, early: bool = False,
                     ) -> Column:
    """Joint accelerations that keep the loops closed.

    With a `stiffness` k, Baumgarte's: openings obey x'' + 2 k x' + k^2 x = 0. For `closeness` see
    `ClosedSystem`.
    """
    return respond(mechanism, q, qd, tau, f_ext, stiffness, closeness, early=early)[0].joints()


def respond(mechanism: Unrolled, q: Column, qd: Column, tau: Column, f_ext: Column,
            stiffness: float = 0.0, closeness: float = 0.0, *, early: bool = False,
            held: Column | None = None, given: Column | None = None,
            ) -> tuple[Answer, list[Carried]]:
    """All that forces do to a mechanism with loops, and where its bodies are, the base first.

    Accelerations are those beyond the `given` ones of held rates, with which bodies move.
    """
    held = none_held(mechanism) if held is None else held
    given = none_held(mechanism) if given is None else given
    slides = stiffness or any(c.constraint.slides for c in mechanism.closures)

    def outward(joint: MovingJoint, parent: Carried, q, qd, given, f_ext):
        X = joint.transform(q)
        assert parent.motion is not None
        motion = move(joint, X, parent.motion, q, qd, given)
        twist = X.twist_to_child(parent.twist) + joint.rate(q, qd) if slides else parent.twist
        body = Carried(motion, _place(joint, X, parent.place), twist)
        return body, (body, X, joint.inertia.newton_euler(motion.E, motion.a) - f_ext)

    rest = _base(mechanism)
    found = mechanism.outward(outward, rest, q, qd, given, f_ext)
    bodies = [rest, *(body for body, _, _ in found)]
    closures = _contacts(mechanism, bodies)
    still = [Twist.zero()] * len(bodies)
    motions, twists = [body.motion for body in bodies], [body.twist for body in bodies]
    openings = []
    for contact in closures:
        mechanism.mark()
        c = relative_acceleration(contact, motions, still, twists)
        if stiffness:
            c = [a + 2 * stiffness * v + stiffness ** 2 * x for a, v, x in zip(
                c, relative_velocity(contact, twists), contact.error(), strict=True)]
        openings.append(c)
    openings += _gears_opening(mechanism, q, qd, given, stiffness)
    drives = [tuple(t - r - a for t, r, a in zip(
                  own, joint.friction(rates), joint.rotor(known), strict=True))
              for joint, own, rates, known in zip(mechanism.joints, tau, qd, given, strict=True)]
    system = ClosedSystem.of(mechanism, q, [X for _, X, _ in found], closures, early=early,
                             closeness=closeness, held=held)
    load = AppliedLoad(system, {i: f for i, (_, _, f) in enumerate(found, 1)}, drives, openings)
    for node in system.eliminate():
        load.reduce(node)
    return load.answer(), bodies


def _gears_opening(mechanism: Unrolled, q: Column, qd: Column, given: Column, stiffness: float,
                   ) -> list[list[Scalar]]:
    """How gears open with qdd = 0, beside what is given."""
    found = gear_rates(mechanism, given)
    if stiffness:
        found = [a + 2 * stiffness * v + stiffness ** 2 * x for a, v, x in zip(
            found, gear_rates(mechanism, qd), gear_errors(mechanism, q), strict=True)]
    return [[x] for x in found]


def hybrid_dynamics(mechanism: Unrolled, q: Column, qd: Column, tau: Column, held: Column,
                    qdd: Column, f_ext: Column, stiffness: float = 0.0, closeness: float = 0.0,
                    ) -> tuple[Column, Column]:
    """Joint accelerations, those of held rates being `qdd`, and the forces that hold these on top
    of tau, as `algorithms.hybrid_dynamics` has them for trees: M qdd + h = tau + force +
    J^T lambda.

    Where loops already decide what is held, the force of the later one is zero, as with rows.
    """
    given = mechanism.each(lambda joint, held, qdd: given_accelerations(held, qdd), held, qdd)
    answer, _ = respond(mechanism, q, qd, tau, f_ext, stiffness, closeness, held=held, given=given)
    return added(mechanism, answer.joints(), given), answer.holding()


# what the loops carry

def closure_forces(mechanism: Unrolled, q: Column, qd: Column, tau: Column, f_ext: Column,
                   ) -> list[tuple[Scalar, ...]]:
    """For each closure the wrench that a exerts on b, about a's origin, in world axes; for each
    gear its force, which acts on its joints times their ratios, and zeros."""
    answer, bodies = respond(mechanism, q, qd, tau, f_ext)
    system, forces = answer.system, []
    carried = answer.edge_wrenches()
    for k, closure in enumerate(mechanism.closures, len(mechanism.joints)):
        mechanism.mark()
        edge, a = system.edges[k], bodies[closure.a.body].place
        on_a = carried[k]
        assert edge.child is not None
        # about a's origin, which is that of the edge's frame, in the axes of a
        moment, force = (edge.child.R.to_parent(v) for v in (on_a.moment, on_a.force))
        forces.append((*(a.R @ -moment).components, *(a.R @ -force).components))
    return forces + [(force, 0.0, 0.0, 0.0, 0.0, 0.0) for force in answer.gear_forces()]


# which rows are independent, and where loops are closed

def _at(mechanism: Unrolled, q: Column, held: Column | None = None,
        ) -> tuple[ClosedSystem, list[HeldClosure]]:
    """The system at a configuration, not yet eliminated."""

    def outward(joint: MovingJoint, parent: Carried, q):
        X = joint.transform(q)
        body = Carried(None, _place(joint, X, parent.place), parent.twist)
        return body, (body, X)

    rest = _base(mechanism)
    found = mechanism.outward(outward, rest, q)
    closures = _contacts(mechanism, [rest, *(body for body, _ in found)])
    return ClosedSystem.of(mechanism, q, [X for _, X in found], closures, closeness=ASKEW,
                           held=held), closures


def unresisted(mechanism: Mechanism, q: Sequence[float]) -> int | None:
    """The first joint, or behind the joints loop, of the plan whose rate has no inertia in a
    configuration but for rounding; None if all have."""
    unrolled = Unrolled(mechanism)
    system, _ = _at(unrolled, mechanism.split(q, "nq"))
    area = mechanism.size ** 2
    for node in system.eliminate():
        if isinstance(node, EliminatedBody):
            I = node.I
            weight = I.M.xx + I.M.yy + I.M.zz
            turning = I.J.xx + I.J.yy + I.J.zz + weight * area
            for pivot in node.pivots:
                turns = any(x != 0 for x in pivot.S.angular.components)
                least = NO_INERTIA * (turning if turns else weight)
                if isnan(pivot.D) or least >= pivot.D:
                    return node.edge
    return None


def closure_rank(mechanism: Unrolled, q: Column) -> Scalar:
    """How many rows of the closures are independent here: what they leave free is what edges of
    the tree do, less the independent rows of those that are cut."""
    system, _ = _at(mechanism, q)
    for _ in system.eliminate():
        pass
    plan = system.plan
    free = sum(plan.edges[held.edge].rates for held in plan.tree)
    rank: Scalar = sum(mechanism.rates) - free
    for node in system.nodes:
        if isinstance(node, EliminatedRows):
            for key in node.rows:
                rank = rank + system.independent(node, key)
    return rank


def _moved(mechanism: Unrolled, q: Column, qd: Column) -> tuple[list[HeldClosure], ByBody]:
    """The loops in a state, and the twists of all bodies."""

    def outward(joint: MovingJoint, parent: Carried, q, qd):
        X = joint.transform(q)
        twist = X.twist_to_child(parent.twist) + joint.rate(q, qd)
        body = Carried(None, _place(joint, X, parent.place), twist)
        return body, body

    rest = _base(mechanism)
    bodies = [rest, *mechanism.outward(outward, rest, q, qd)]
    return _contacts(mechanism, bodies), [body.twist for body in bodies]


def project(mechanism: Unrolled, q: Column, qd: Column, held: Column | None = None,
            ) -> tuple[Column, Column, Scalar]:
    """A state that is closer to closed ones, by a step of Newton's in the metric of the mass
    matrix, and how far it went: in radians or sizes of the largest loop.

    dq = -M^-1 J^T (J M^-1 J^T)^-1 error for places, and the same with J qd for velocities: what
    is taken away is what an impulse in the loops could have given. A step of length e is followed
    by one of e^2, so that after a short one the loops are closed. Velocities are changed with the
    factors of before the step, which leaves e of the change. Where loops stay open by more than
    axes that are nearly parallel explain, that is what is returned. What is `held` stays as it is.
    """
    system, closures = _at(mechanism, q, held)
    load = opening(system, [*(contact.error() for contact in closures),
                            *([x] for x in gear_errors(mechanism, q))])
    for node in system.eliminate():
        load.reduce(node)
    change = load.answer().joints()
    q = mechanism.each(_step, q, change)
    closures, twists = _moved(mechanism, q, qd)
    slowed = closed_again(system, [*(relative_velocity(contact, twists) for contact in closures),
                                   *([x] for x in gear_rates(mechanism, qd))])
    qd = added(mechanism, qd, slowed)
    length, part = _length(mechanism, change), _length(mechanism, slowed) / (
        _length(mechanism, qd) + SLOW)
    return q, qd, maximum(length * maximum(1.0, part * FINE), _opening(mechanism, q, closures))


FINE = 1e6
"""How much smaller what is left of rates is to be than a step of coordinates may be."""
SLOW = 1e-9
"""A rate (1/s) that is rest: of rounding nothing need be left."""


def _length(mechanism: Unrolled, change: Column) -> Scalar:
    """The largest element of a change of coordinates, in radians or sizes of the largest loop."""
    size = mechanism.mechanism.size
    found = []
    for joint, own in zip(mechanism.joints, change, strict=True):
        for s, x in zip(joint.subspace(joint.type.space.neutral), own, strict=True):
            turns = any(literal(e) != 0 for e in s.angular.components)
            found.append(x if turns else x * (1 / size))
    return largest(found)


def _opening(mechanism: Unrolled, q: Column, closures: Sequence[HeldClosure]) -> Scalar:
    """How far loops are open, over a radian or their size, if by more than `ASKEW`."""
    errors = [x for contact in closures for x in contact.error()] + gear_errors(mechanism, q)
    most = largest(x * (1 / size) for x, size in zip(
        errors, mechanism.mechanism.scales, strict=True))
    return where(less(ASKEW, most), most, 0.0)


def added(mechanism: Unrolled, one: Column, other: Column) -> Column:
    """The sum of two columns of joint values."""
    return mechanism.each(lambda joint, a, b: tuple(x + y for x, y in zip(a, b, strict=True)),
                          one, other)


def _step(joint: MovingJoint, q, change):
    """q + change, brought back into the space of the joint."""
    space = joint.type.space
    return space.normalize([x + v for x, v in zip(q, space.tangent(q, change), strict=True)])
