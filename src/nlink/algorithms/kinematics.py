"""Where bodies are and how fast they move: poses, twists, Jacobians, energies."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nlink.algorithms.inverse_dynamics import Motion, move, no_wrenches
from nlink.algorithms.sweep import Column, Driver, Unrolled
from nlink.model.mechanism import Attachment, Joint
from nlink.scalars.functions import Scalar
from nlink.spatial import Matrix, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Place:
    """A frame in the world: x_world = p + R x."""

    R: Matrix
    p: Vector

    def of(self, frame: Attachment) -> Place:
        """A frame attached to this one."""
        rows = self.R.rows
        columns = (Vector(*(Vector(*row).dot(c) for row in rows))
                   for c in (frame.R.x, frame.R.y, frame.R.z))
        return Place(Matrix(*columns), self.p + self.R @ frame.p)


def forward_kinematics(mechanism: Driver, q: Column) -> Column:
    """The place of every body, base to tip.

    A row of R_world turns like a vector: (R_parent R)_i = R^T (R_parent)_i.
    """

    def outward(joint: Joint, parent: Place, q):
        X = joint.transform(q)
        R = Matrix(*(X.R.to_child(Vector(*row)) for row in parent.R.rows)).T
        place = Place(R, parent.p + parent.R @ X.p + R @ X.r)
        return place, place

    return mechanism.outward(outward, Place(mechanism.base.R, mechanism.base.p), q)


def pose(mechanism: Driver, q: Column, frame: Attachment) -> tuple[tuple[Scalar, ...], ...]:
    """The 4x4 homogeneous transform of a frame in the world."""
    place = at(forward_kinematics(mechanism, q), mechanism, frame).of(frame)
    top = tuple((*row, x) for row, x in zip(place.R.rows, place.p.components, strict=True))
    return (*top, (0.0, 0.0, 0.0, 1.0))


def at(places: Column, mechanism: Driver, frame: Attachment) -> Place:
    """The place of the body that carries a frame."""
    return places[frame.body - 1] if frame.body else Place(mechanism.base.R, mechanism.base.p)


def twists(mechanism: Driver, q: Column, qd: Column) -> Column:
    """The twist of every body in its own axes, t_i = B t_parent + p_i qd_i [Saha99, 12]."""

    def outward(joint: Joint, parent: Twist, q, qd):
        twist = joint.transform(q).twist_to_child(parent) + joint.rate(q, qd)
        return twist, twist

    return mechanism.outward(outward, Twist.zero(), q, qd)


def jacobian(mechanism: Unrolled, q: Column, frame: Attachment) -> tuple[Twist, ...]:
    """Columns of J: the twist of the frame's origin, world axes, for a unit of each rate."""
    places = forward_kinematics(mechanism, q)
    tip = at(places, mechanism, frame).of(frame).p
    moving, body = set(), frame.body
    while body:
        moving.add(body)
        body = mechanism.parents[body - 1]
    columns = []
    for i, (joint, place, q_i) in enumerate(zip(mechanism.joints, places, q, strict=True), 1):
        for k in range(joint.type.nv):
            s = joint.rate(q_i, tuple(int(i in moving and j == k) for j in range(joint.type.nv)))
            w = place.R @ s.angular
            columns.append(Twist(w, place.R @ s.linear + w.cross(tip - place.p)))
    return tuple(columns)


STILL = Motion(Vector.zero(), Vector.zero(), Vector.zero(), Matrix.zero())
"""How the base moves."""


def drifts(mechanism: Driver, q: Column, qd: Column) -> Column:
    """How every body moves when qdd = 0, without gravity."""

    def outward(joint: Joint, parent: Motion, q, qd):
        motion = move(joint, joint.transform(q), parent, q, qd, tuple(0 for _ in qd))
        return motion, motion

    return mechanism.outward(outward, STILL, q, qd)


def jacobian_dot_qd(mechanism: Driver, q: Column, qd: Column, frame: Attachment) -> Twist:
    """The acceleration of a frame when qdd = 0: Jdot qd, world axes, without gravity."""
    motion = drifts(mechanism, q, qd)[frame.body - 1] if frame.body else STILL
    R = at(forward_kinematics(mechanism, q), mechanism, frame).R
    return Twist(R @ motion.wd, R @ (motion.a + motion.E @ frame.p))


@dataclass(frozen=True, slots=True)
class Energy:
    """A sum on its way to the base."""

    value: Scalar

    def __add__(self, other: Energy) -> Energy:
        return Energy(self.value + other.value)


def kinetic_energy(mechanism: Driver, q: Column, qd: Column) -> Energy:
    """T = 1/2 sum t_i^T M_i t_i + 1/2 armature qd^2."""

    def inward(joint: Joint, total: Energy, twist: Twist, qd):
        rotor = sum(x * r for x, r in zip(qd, joint.rotor(qd), strict=True))
        return total + Energy((twist.dot(joint.inertia @ twist) + rotor) * 0.5), ()

    _, total = mechanism.inward(inward, Energy(0), twists(mechanism, q, qd), qd)
    return total


def potential_energy(mechanism: Driver, q: Column) -> Energy:
    """V = -sum m_i g . c_i of the bodies that move, zero at the world's origin.

    Carried outward are g in the axes of each body and g . o of its origin o.
    """

    def outward(joint: Joint, parent: tuple[Vector, Scalar], q):
        X = joint.transform(q)
        g = X.R.to_child(parent[0])
        value = g, parent[1] + parent[0].dot(X.p) + g.dot(X.r)
        return value, value

    def inward(joint: Joint, total: Energy, value: tuple[Vector, Scalar]):
        g, height = value
        return total + Energy(-(g.dot(joint.inertia.h) + height * joint.inertia.m)), ()

    g, base = mechanism.gravity, mechanism.base
    origin = Vector(base.R.x.dot(base.p), base.R.y.dot(base.p), base.R.z.dot(base.p))  # R^T p
    heights = mechanism.outward(outward, (g, g.dot(origin)), q)
    _, total = mechanism.inward(inward, Energy(0), heights)
    return total


@dataclass(frozen=True, slots=True)
class Mass:
    """A mass and its first moment about the origin of the axes it is seen in."""

    m: Scalar
    h: Vector

    def __add__(self, other: Mass) -> Mass:
        return Mass(self.m + other.m, self.h + other.h)


def center_of_mass(mechanism: Driver, q: Column) -> Vector:
    """c = sum m_i c_i / sum m_i, tip to base: each joint sees the first moment beyond it."""

    def inward(joint: Joint, beyond: Mass, q):
        X = joint.transform(q)
        total = beyond + Mass(joint.inertia.m, joint.inertia.h)
        h = X.R.to_parent(total.h + X.r * total.m) + X.p * total.m
        return Mass(total.m, h), ()

    _, total = mechanism.inward(inward, Mass(0, Vector.zero()), q)
    nothing = isinstance(total.m, int | float) and total.m == 0
    base = mechanism.base
    return base.p + base.R @ (total.h * (math.nan if nothing else 1 / total.m))


def body_wrenches(mechanism: Driver, q: Column, links: tuple[Attachment, ...],
                  f_ext: tuple[Wrench, ...] | None) -> Column:
    """External wrenches as one for each moving body, about its origin and in its axes.

    Given are wrenches at the origins of the author's links, in world axes, or None.
    """
    if f_ext is None:
        return no_wrenches(mechanism)
    places = forward_kinematics(mechanism, q)
    total = [Wrench.zero() for _ in places]
    for link, f in zip(links[1:], f_ext, strict=True):
        if link.body:
            R = places[link.body - 1].R.T
            total[link.body - 1] += Wrench(R @ f.moment, R @ f.force).shift(link.p)
    return total
