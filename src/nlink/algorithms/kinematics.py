"""Where bodies are and how fast they move: poses, twists, Jacobians, energies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nlink.algorithms.inverse_dynamics import Motion, move, no_wrenches
from nlink.algorithms.sweep import Column, Driver, PerJoint
from nlink.model.mechanism import Attachment, MovingJoint
from nlink.scalars.functions import Scalar, literal
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


HERE = Vector.zero()
"""The origin of the base itself."""


def forward_kinematics(mechanism: Driver, q: Column, origin: Vector = HERE) -> Column:
    """The place of every body, base to tip, in world axes, the base's origin being at `origin`:
    what lies between bodies is seen from the base, and loses no digits where that is far away.

    A row of R_world turns like a vector: (R_parent R)_i = R^T (R_parent)_i.
    """

    def outward(joint: MovingJoint, parent: Place, q):
        X = joint.transform(q)
        R = Matrix(*(X.R.to_child(Vector(*row)) for row in parent.R.rows)).T
        place = Place(R, parent.p + parent.R @ X.p + R @ X.r)
        return place, place

    return mechanism.outward(outward, Place(mechanism.base.R, origin), q)


def pose(mechanism: Driver, q: Column, frame: Attachment) -> tuple[tuple[Scalar, ...], ...]:
    """The 4x4 homogeneous transform of a frame in the world."""
    return poses(mechanism, q, (frame,))[0]


def poses(mechanism: Driver, q: Column, frames: Sequence[Attachment]) -> list[Any]:
    """The transforms of several frames."""
    origin = mechanism.base.p
    places, found = forward_kinematics(mechanism, q, origin), []
    for frame in frames:
        place = at(places, mechanism, frame, origin).of(frame)
        top = tuple((*row, x) for row, x in zip(place.R.rows, place.p.components, strict=True))
        found.append((*top, (0.0, 0.0, 0.0, 1.0)))
    return found


def at(places: Column, mechanism: Driver, frame: Attachment, origin: Vector = HERE) -> Place:
    """The place of the body that carries a frame, the base's origin being at `origin`."""
    return mechanism.at(places, frame.body) if frame.body else Place(mechanism.base.R, origin)


def twists(mechanism: Driver, q: Column, qd: Column) -> Column:
    """The twist of every body in its own axes, t_i = B t_parent + p_i qd_i [Saha99, 12]."""

    def outward(joint: MovingJoint, parent: Twist, q, qd):
        twist = joint.transform(q).twist_to_child(parent) + joint.rate(q, qd)
        return twist, twist

    return mechanism.outward(outward, Twist.zero(), q, qd)


def jacobian(mechanism: Driver, q: Column, frame: Attachment) -> Column:
    """For each joint its columns of J, row by row: the twist of the frame's origin, world axes,
    for a unit of each rate."""
    places = forward_kinematics(mechanism, q)
    tip = at(places, mechanism, frame).of(frame).p
    moving, body = set(), frame.body
    while body:
        moving.add(body)
        body = mechanism.parents[body - 1]

    def columns(joint: MovingJoint, place: Place, q, tip: Vector, moves: bool):
        twists = []
        for unit in joint.units:
            s = joint.rate(q, tuple(x * moves for x in unit))
            w = place.R @ s.angular
            twists.append(Twist(w, place.R @ s.linear + w.cross(tip - place.p)).components)
        return tuple(zip(*twists, strict=True))

    moves = mechanism.structure([i in moving for i in range(1, len(mechanism.parents) + 1)])
    return mechanism.each(columns, places, q, mechanism.same(tip), moves)


AT_REST = Motion(Vector.zero(), Vector.zero(), Vector.zero(), Matrix.zero())
"""How the base moves."""


def motions(mechanism: Driver, q: Column, qd: Column, qdd: Column) -> Column:
    """How every body moves, without gravity."""

    def outward(joint: MovingJoint, parent: Motion, q, qd, qdd):
        motion = move(joint, joint.transform(q), parent, q, qd, qdd)
        return motion, motion

    return mechanism.outward(outward, AT_REST, q, qd, qdd)


def drifts(mechanism: Driver, q: Column, qd: Column) -> Column:
    """How every body moves when qdd = 0, without gravity."""

    def outward(joint: MovingJoint, parent: Motion, q, qd):
        motion = move(joint, joint.transform(q), parent, q, qd, tuple(0 for _ in qd))
        return motion, motion

    return mechanism.outward(outward, AT_REST, q, qd)


def jacobian_dot_qd(mechanism: Driver, q: Column, qd: Column, frame: Attachment) -> Twist:
    """The acceleration of a frame when qdd = 0: Jdot qd, world axes, without gravity."""
    return _acceleration(mechanism, q, drifts(mechanism, q, qd), frame)


def frame_velocity(mechanism: Driver, q: Column, qd: Column, frame: Attachment) -> Twist:
    """J qd: the twist of a frame's origin, world axes."""
    twist = mechanism.at(twists(mechanism, q, qd), frame.body) if frame.body else Twist.zero()
    R = at(forward_kinematics(mechanism, q), mechanism, frame).R
    return Twist(R @ twist.angular, R @ (twist.linear + twist.angular.cross(frame.p)))


def frame_acceleration(mechanism: Driver, q: Column, qd: Column, qdd: Column,
                       frame: Attachment) -> Twist:
    """J qdd + Jdot qd: the acceleration of a frame, world axes, without gravity."""
    return _acceleration(mechanism, q, motions(mechanism, q, qd, qdd), frame)


def _acceleration(mechanism: Driver, q: Column, moving: Column, frame: Attachment) -> Twist:
    motion = mechanism.at(moving, frame.body) if frame.body else AT_REST
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

    def inward(joint: MovingJoint, total: Energy, twist: Twist, qd):
        rotor = sum(x * r for x, r in zip(qd, joint.rotor(qd), strict=True))
        return total + Energy((twist.dot(joint.inertia @ twist) + rotor) * 0.5), ()

    _, total = mechanism.inward(inward, Energy(0), twists(mechanism, q, qd), qd)
    return total


def potential_energy(mechanism: Driver, q: Column) -> Energy:
    """V = -sum m_i g . c_i of the bodies that move, zero at the world's origin.

    Carried outward are g in the axes of each body and g . o of its origin o.
    """

    def outward(joint: MovingJoint, parent: tuple[Vector, Scalar], q):
        X = joint.transform(q)
        g = X.R.to_child(parent[0])
        value = g, parent[1] + parent[0].dot(X.p) + g.dot(X.r)
        return value, value

    def inward(joint: MovingJoint, total: Energy, value: tuple[Vector, Scalar]):
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

    def inward(joint: MovingJoint, beyond: Mass, q):
        X = joint.transform(q)
        total = beyond + Mass(joint.inertia.m, joint.inertia.h)
        h = X.R.to_parent(total.h + X.r * total.m) + X.p * total.m
        return Mass(total.m, h), ()

    _, total = mechanism.inward(inward, Mass(0, Vector.zero()), q)
    nothing = isinstance(total.m, int | float) and total.m == 0
    base = mechanism.base
    return base.p + base.R @ (total.h * (math.nan if nothing else 1 / total.m))


def body_wrenches(mechanism: Driver, q: Column, links: tuple[Attachment, ...],
                  f_ext: Column | None, axes: str = "world") -> Column:
    """External wrenches as one for each moving body, about its origin and in its axes.

    Given are six numbers for each of the author's links, a wrench at its origin in the axes of the
    world or of the link, or None.
    """
    if f_ext is None:
        return no_wrenches(mechanism)
    if axes == "link":
        return mechanism.from_links(links[1:], lambda link, f: Wrench(
            link.R @ Vector(*f[:3]), link.R @ Vector(*f[3:])).shift(link.p), Wrench.zero(), f_ext)
    pushed = _pushed(f_ext)
    if pushed is not None and len(pushed) == 1:
        return _on_one_body(mechanism, q, links[1:][pushed[0]], f_ext[pushed[0]])

    def on_body(link: Attachment, f, place: Place) -> Wrench:
        R = place.R.T
        return Wrench(R @ Vector(*f[:3]), R @ Vector(*f[3:])).shift(link.p)

    return mechanism.from_links(links[1:], on_body, Wrench.zero(), f_ext,
                                forward_kinematics(mechanism, q))


def _pushed(f_ext: Column) -> list[int] | None:
    """The links with wrenches that are not known to be zero; None where links are not numbered,
    because a joint stands for many."""
    if not isinstance(f_ext, list):
        return None
    return [k for k, f in enumerate(f_ext) if any(literal(x) != 0 for x in f)]


def _on_one_body(mechanism: Driver, q: Column, link: Attachment, f: Sequence[Scalar]) -> Column:
    """The wrench on one link alone: its two vectors are turned from joint to joint, which takes
    less than the orientations of bodies do."""
    def outward(joint: MovingJoint, parent: Wrench, q):
        R = joint.transform(q).R
        turned = Wrench(R.to_child(parent.moment), R.to_child(parent.force))
        return turned, turned

    base = mechanism.base.R.T
    wrench = Wrench(base @ Vector(*f[:3]), base @ Vector(*f[3:]))
    turned = mechanism.outward(outward, wrench, q)
    return mechanism.from_links([link], lambda link, f, turned: turned.shift(link.p),
                                Wrench.zero(), PerJoint([f]), turned)
