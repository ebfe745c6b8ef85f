"""Joint accelerations where some rates are held, and the forces that hold them, in O(n).

Of each rate either the force is known or the acceleration: the hybrid dynamics of Featherstone
[Rigid Body Dynamics Algorithms, 9.2]. A held rate does not yield. In the elimination of
`forward_dynamics` its pivot 1/D is left out, and the force that holds it is what remains
of its balance

    force = D qdd + U . A - u,      U = I S,  u = tau - S . f

with A the acceleration that the parent passes on. Which rates are held is a choice by `where`, so
one program serves all of them; a rate whose `held` is the number 0 is free by structure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nlink.algorithms.forward_dynamics import ArticulatedBody
from nlink.algorithms.inverse_dynamics import Body, Motion, base_motion, move
from nlink.algorithms.sweep import Column, Driver
from nlink.model.joints import Coordinates
from nlink.model.mechanism import MovingJoint
from nlink.scalars.functions import Scalar, less, literal, where
from nlink.spatial import ArticulatedInertia, Pivot, Transform, Twist, Wrench


@dataclass(frozen=True, slots=True)
class HybridRate:
    """A rate that is eliminated where it is free: its pivot and unbalanced force, and U = I S."""

    held: Scalar
    pivot: Pivot
    u: Scalar
    U: Wrench

    def accelerate(self, A: Twist) -> tuple[Twist, Scalar, Scalar]:
        """The acceleration of the body with that of this rate, which is 0 if it is held, and
        the force that holds it, which is 0 if it is free."""
        after, qdd = self.pivot.accelerate(A, self.u)
        held = truth_of(self.held)
        if held is None:
            return after, qdd, 0.0
        return after, where(held, 0.0, qdd), where(held, A.dot(self.U) - self.u, 0.0)


@dataclass(frozen=True, slots=True)
class HybridJoint:
    """A joint whose free rates are eliminated."""

    X: Transform
    rates: tuple[HybridRate, ...]


def truth_of(held: Scalar) -> Any:
    """Whether a rate is held, None for one that never is."""
    return None if literal(held) == 0 else less(0.0, held)


def given_accelerations(held: Coordinates, qdd: Coordinates) -> Coordinates:
    """The accelerations that are given: those of held rates, else 0."""
    return tuple(0 if literal(h) == 0 or literal(x) == 0 else where(less(0.0, h), x, 0.0)
                 for h, x in zip(held, qdd, strict=True))


def hybrid_dynamics(mechanism: Driver, q: Column, qd: Column, tau: Column, held: Column,
                    qdd: Column, f_ext: Column) -> tuple[Column, Column]:
    """Joint accelerations and holding forces, in the three sweeps of forward dynamics.

    Rates with held > 0 have the accelerations `qdd`, which is not looked at for the others. The
    forces that hold them come on top of tau: M qdd + C qd + g + friction = tau + force.
    """

    def outward(joint: MovingJoint, parent: Motion, q, qd, held, qdd, f_ext):
        X = joint.transform(q)
        motion = move(joint, X, parent, q, qd, given_accelerations(held, qdd))
        return motion, Body(X, joint.inertia.newton_euler(motion.E, motion.a) - f_ext)

    def inward(joint: MovingJoint, carried: ArticulatedBody, body: Body, q, qd, tau, held, qdd):
        I = carried.I + ArticulatedInertia.from_rigid(joint.inertia)
        f = carried.f + body.f
        drive = tuple(t - r - a for t, r, a in zip(
            tau, joint.friction(qd), joint.rotor(given_accelerations(held, qdd)), strict=True))
        rates = []
        for S, t, extra, h in reversed(list(zip(
                joint.subspace(q), drive, joint.armature, held, strict=True))):
            U = I @ S
            I, pivot = I.eliminate(S, extra, truth_of(h))
            u, f = pivot.eliminate(f, t)
            rates.append(HybridRate(h, pivot, u, U))
        return (ArticulatedBody(I.to_parent(body.X), body.X.wrench_to_parent(f)),
                HybridJoint(body.X, tuple(rates[::-1])))

    def accelerate(joint: MovingJoint, parent: Twist, step: HybridJoint):
        A, changes, forces = step.X.twist_to_child(parent), [], []
        for rate in step.rates:
            A, x, force = rate.accelerate(A)
            changes.append(x)
            forces.append(force)
        return A, (tuple(changes), tuple(forces))

    bodies = mechanism.outward(outward, base_motion(mechanism.gravity), q, qd, held, qdd, f_ext)
    steps, _ = mechanism.inward(inward, ArticulatedBody.zero(), bodies, q, qd, tau, held, qdd)
    found = mechanism.outward(accelerate, Twist.zero(), steps)
    return (mechanism.each(lambda joint, pair, held, qdd: tuple(
                x + a for x, a in zip(
                    pair[0], given_accelerations(held, qdd), strict=True)), found, held, qdd),
            mechanism.each(lambda joint, pair: pair[1], found))
