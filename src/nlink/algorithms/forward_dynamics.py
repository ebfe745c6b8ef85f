"""Joint accelerations from joint forces, by reverse Gaussian elimination in O(n).

The elimination M = U D U^T of [Saha99, Appendix B] needs only the articulated inertias of
the bodies: D_i = m^_i is what joint i moves, psi_i = K_i the wrench that one unit of its
force passes to the parent. All formulations below share that recursion.
"""

from __future__ import annotations

from dataclasses import dataclass

from nlink.algorithms.inverse_dynamics import Body, Motion, base_motion, bias, move
from nlink.algorithms.sweep import Column, Driver
from nlink.model.joints import Coordinates
from nlink.model.mechanism import MovingJoint
from nlink.scalars.functions import Scalar
from nlink.spatial import ArticulatedInertia, Pivot, Transform, Twist, Wrench


@dataclass(frozen=True, slots=True)
class ArticulatedBody:
    """What a body passes to its parent: its articulated inertia, and the force it still
    needs once its own joint is eliminated."""

    I: ArticulatedInertia
    f: Wrench

    @classmethod
    def zero(cls) -> ArticulatedBody:
        return cls(ArticulatedInertia.zero(), Wrench.zero())

    def __add__(self, other: ArticulatedBody) -> ArticulatedBody:
        return ArticulatedBody(self.I + other.I, self.f + other.f)


@dataclass(frozen=True, slots=True)
class EliminatedJoint:
    """A joint eliminated: for each of its rates the pivot and the unbalanced force."""

    X: Transform
    pivots: tuple[Pivot, ...]
    u: tuple[Scalar, ...]


def articulate(joint: MovingJoint, X: Transform, carried: ArticulatedBody, f: Wrench,
               q: Coordinates, tau: Coordinates) -> tuple[ArticulatedBody, EliminatedJoint]:
    """Eliminate a joint's rates, last first: [Saha03, 12-13] and eqs. (26)-(28) in one step.

    `f` is the wrench that the body's known motion needs, `tau` what drives the joint. The
    joint's own part of f becomes u = tau - S^T f, and the parent is left with f + K u.
    """
    I = carried.I + ArticulatedInertia.from_rigid(joint.inertia)
    f = carried.f + f
    pivots, us = [], []
    for S, t, extra in reversed(list(zip(joint.subspace(q), tau, joint.armature, strict=True))):
        I, pivot = I.eliminate(S, extra)
        u, f = pivot.eliminate(f, t)
        pivots.append(pivot)
        us.append(u)
    return (ArticulatedBody(I.to_parent(X), X.wrench_to_parent(f)),
            EliminatedJoint(X, tuple(pivots[::-1]), tuple(us[::-1])))


def accelerate(joint: MovingJoint, parent: Twist, step: EliminatedJoint,
               ) -> tuple[Twist, Coordinates]:
    """A body's acceleration and its joint's from the parent's, [Saha03, 14-15]."""
    A, qdd = step.X.twist_to_child(parent), []
    for pivot, u in zip(step.pivots, step.u, strict=True):
        A, x = pivot.accelerate(A, u)
        qdd.append(x)
    return A, tuple(qdd)


def forward_dynamics(mechanism: Driver, q: Column, qd: Column, tau: Column, f_ext: Column,
                     ) -> Column:
    """Joint accelerations in three sweeps, the bias inside them.

    Outward: the motion with qdd = 0, gravity included, and the wrench each body needs for it,
    as in inverse dynamics. Inward: articulated inertias, and the part of those wrenches that
    the joints below must bear. Outward: what the joints' yielding adds to the motion; as the
    bias motion is already known, no velocity appears in the last two.
    """
    _, qdd = eliminated(mechanism, q, qd, tau, f_ext)
    return qdd


def eliminated(mechanism: Driver, q: Column, qd: Column, tau: Column, f_ext: Column,
               ) -> tuple[Column, Column]:
    """The elimination that these sweeps make, an `EliminatedJoint` each, and their result."""

    def outward(joint: MovingJoint, parent: Motion, q, qd, f_ext):
        X = joint.transform(q)
        motion = move(joint, X, parent, q, qd, (0,) * joint.type.nv)
        return motion, Body(X, joint.inertia.newton_euler(motion.E, motion.a) - f_ext)

    def inward(joint: MovingJoint, carried: ArticulatedBody, body: Body, q, qd, tau):
        drive = tuple(t - r for t, r in zip(tau, joint.friction(qd), strict=True))
        return articulate(joint, body.X, carried, body.f, q, drive)

    bodies = mechanism.outward(outward, base_motion(mechanism.gravity), q, qd, f_ext)
    steps, _ = mechanism.inward(inward, ArticulatedBody.zero(), bodies, q, qd, tau)
    return steps, mechanism.outward(accelerate, Twist.zero(), steps)


def solve(mechanism: Driver, q: Column, phi: Column) -> Column:
    """M(q) x = phi by U D U^T: steps A, B and C of [Saha03, 2.2]."""

    def inward(joint: MovingJoint, carried: ArticulatedBody, q, phi):
        return articulate(joint, joint.transform(q), carried, Wrench.zero(), q, phi)

    steps, _ = mechanism.inward(inward, ArticulatedBody.zero(), q, phi)
    return mechanism.outward(accelerate, Twist.zero(), steps)


def denoc(mechanism: Driver, q: Column, qd: Column, tau: Column, f_ext: Column) -> Column:
    """Joint accelerations as [Saha03] prescribes: phi = tau - (C qd + g) by inverse dynamics
    with qdd = 0, then the three steps of `solve`."""

    def drive(joint: MovingJoint, bias, qd, tau):
        parts = zip(tau, joint.friction(qd), bias, strict=True)
        return tuple(t - friction - b for t, friction, b in parts)

    phi = mechanism.each(drive, bias(mechanism, q, qd, f_ext), qd, tau)
    return solve(mechanism, q, phi)
