"""Centroidal quantities: the momentum of the whole mechanism about its centre of mass.

    h_G = A(q) qd,    hdot_G = A qdd + Adot qd,    v_c = J_c qd,    J_c = A_linear / m

h_G is (angular, linear) in world axes [Orin, Goswami, Lee 2013]. Column k of A is the momentum of
all bodies beyond joint i, moving as one with the joint's axis s_k: the composite inertia times
s_k, seen about the centre of mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nlink.algorithms.inverse_dynamics import Motion
from nlink.algorithms.kinematics import Place, drifts, forward_kinematics
from nlink.algorithms.sweep import Column, Driver
from nlink.model.mechanism import MovingJoint
from nlink.scalars.functions import Scalar, divide, literal
from nlink.spatial import RigidInertia, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Composites:
    """The inertias of all bodies beyond each joint, in the axes of its body."""

    each: Column
    whole: RigidInertia
    """The inertia of the mechanism, in the axes of the base and about its origin."""

    @property
    def share(self) -> Scalar:
        """1 / m; nan of a mechanism without mass."""
        m = self.whole.m
        return math.nan if literal(m) == 0 else divide(1, m)

    def center(self, mechanism: Driver) -> Vector:
        """The centre of mass, seen from the origin of the base: no digits are lost where that is
        far away."""
        return mechanism.base.R @ (self.whole.h * self.share)


def composites(mechanism: Driver, q: Column) -> Composites:

    def inward(joint: MovingJoint, beyond: RigidInertia, q):
        total = beyond + joint.inertia
        return total.to_parent(joint.transform(q)), total

    return Composites(*mechanism.inward(inward, RigidInertia.zero(), q))


def momentum_matrix(mechanism: Driver, q: Column) -> Column:
    """For each joint its columns of A, row by row."""
    bodies = composites(mechanism, q)
    center = mechanism.same(bodies.center(mechanism))

    def columns(joint: MovingJoint, place: Place, q, composite: RigidInertia, center: Vector):
        momenta = []
        for unit in joint.units:
            h = composite @ joint.rate(q, unit)
            p = place.R @ h.force
            momenta.append(((place.R @ h.moment) + (place.p - center).cross(p)).components
                           + p.components)
        return tuple(zip(*momenta, strict=True))

    return mechanism.each(columns, forward_kinematics(mechanism, q), q, bodies.each, center)


def center_jacobian(mechanism: Driver, q: Column) -> Column:
    """For each joint its columns of J_c, row by row: a composite's linear momentum over the mass
    of the whole."""
    bodies = composites(mechanism, q)

    def columns(joint: MovingJoint, place: Place, q, composite: RigidInertia, share: Scalar):
        momenta = [(place.R @ (composite @ joint.rate(q, unit)).force * share).components
                   for unit in joint.units]
        return tuple(zip(*momenta, strict=True))

    return mechanism.each(columns, forward_kinematics(mechanism, q), q, bodies.each,
                          mechanism.same(bodies.share))


def momentum_drift(mechanism: Driver, q: Column, qd: Column) -> Wrench:
    """Adot qd: the rate of the momentum when qdd = 0, the sum of what the bodies' motions need."""

    def inward(joint: MovingJoint, f: Wrench, motion: Motion, q):
        f = f + joint.inertia.newton_euler(motion.E, motion.a)
        return joint.transform(q).wrench_to_parent(f), ()

    _, total = mechanism.inward(inward, Wrench.zero(), drifts(mechanism, q, qd), q)
    R = mechanism.base.R
    force = R @ total.force
    return Wrench(R @ total.moment - composites(mechanism, q).center(mechanism).cross(force), force)
