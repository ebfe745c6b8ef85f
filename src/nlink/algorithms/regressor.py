"""Joint forces, momenta and energies as linear functions of the inertial parameters.

A body's ten parameters are the moments of its mass about the origin of the link that its joint
carries, in the axes of that link, in Pinocchio's order: m, m c_x, m c_y, m c_z, Jxx, Jxy, Jyy,
Jxz, Jyz, Jzz, with J the inertia tensor about the origin. Links fixed to that link are part of the
body. With w, v and a the angular velocity, velocity and acceleration (gravity included) of the
origin and E = wd~ + w~ w~,

    force moment  J wd + w x J w + m c x a,    force     m a + E m c,
    momentum      J w + m c x v,                         m v + w x m c,
    energies      1/2 m v.v + m c . (v x w) + 1/2 w . J w,    -(m g . o + m c . g)

are linear in them: each parameter of each body is a wrench on it, or an energy. What the joints
that carry the body feel of a wrench, S_i^T times it, is a column of the regressor
[Atkeson, An and Hollerbach 1986].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nlink.algorithms.inverse_dynamics import Motion, base_motion, move
from nlink.algorithms.kinematics import forward_kinematics, twists
from nlink.algorithms.matrices import path, rates
from nlink.algorithms.sweep import Column, Unrolled
from nlink.model.mechanism import Attachment, Mechanism, MovingJoint
from nlink.scalars.functions import Scalar
from nlink.spatial import Matrix, Symmetric, Transform, Twist, Vector, Wrench

PARAMETERS = ("m", "mx", "my", "mz", "Jxx", "Jxy", "Jyy", "Jxz", "Jyz", "Jzz")
"""The parameters of a body, in this order."""
MOMENTS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
"""The elements of J among them."""


@dataclass(frozen=True, slots=True)
class MovedBody:
    """A body's transform and motion."""

    X: Transform
    motion: Motion


def carried_links(links: Sequence[Attachment]) -> list[Attachment]:
    """For each body the link that its joint carries: the first of those fixed in it."""
    found: dict[int, Attachment] = {}
    for link in links:
        if link.body:
            found.setdefault(link.body, link)
    return [found[body] for body in sorted(found)]


def inertial_parameters(mechanism: Mechanism) -> list[Scalar]:
    """The ten parameters of each body, one after the other."""
    found: list[Scalar] = []
    for link, joint in zip(carried_links(mechanism.links), mechanism.joints, strict=True):
        about = joint.inertia.shift(-link.p)
        h, J = about.h.rotate(link.R.T), about.J.rotate(link.R.T)
        found += [about.m, *h.components, *(J.rows[i][j] for i, j in MOMENTS)]
    return found


def regressor(mechanism: Unrolled, q: Column, qd: Column, qdd: Column,
              links: Sequence[Attachment]) -> list[list[Scalar]]:
    """Y, (n, 10 bodies), with tau = Y pi: inverse dynamics without friction and armature."""

    def outward(joint: MovingJoint, parent: Motion, q, qd, qdd):
        X = joint.transform(q)
        motion = move(joint, X, parent, q, qd, qdd)
        return motion, MovedBody(X, motion)

    bodies = mechanism.outward(outward, base_motion(mechanism.gravity), q, qd, qdd)
    return _felt(mechanism, q, [body.X for body in bodies], [
        _force_wrenches(link, body.motion)
        for link, body in zip(carried_links(links), bodies, strict=True)])


def momentum_regressor(mechanism: Unrolled, q: Column, qd: Column,
                       links: Sequence[Attachment]) -> list[list[Scalar]]:
    """Y, (n, 10 bodies), with M qd = Y pi, the armatures left out of M."""
    X = mechanism.each(lambda joint, q: joint.transform(q), q)
    return _felt(mechanism, q, X, [
        _momentum_wrenches(link, twist)
        for link, twist in zip(carried_links(links), twists(mechanism, q, qd), strict=True)])


def energy_regressor(mechanism: Unrolled, q: Column, qd: Column,
                     links: Sequence[Attachment]) -> list[list[Scalar]]:
    """Y, (2, 10 bodies), with (T, V) = Y pi: kinetic energy without armatures, and potential
    energy, zero with all mass at the world's origin."""
    places = forward_kinematics(mechanism, q, mechanism.base.p)
    g = mechanism.base.R @ mechanism.gravity
    kinetic: list[Scalar] = []
    potential: list[Scalar] = []
    for link, twist, place in zip(carried_links(links), twists(mechanism, q, qd), places,
                                  strict=True):
        here = place.of(link)
        w, v = _in_link(link, twist.angular), _in_link(link, _velocity(link, twist))
        kinetic += [v.dot(v) * 0.5, *v.cross(w).components]
        kinetic += [w.components[i] * w.components[j] * (0.5 if i == j else 1) for i, j in MOMENTS]
        potential += [-g.dot(here.p), *(-g.dot(axis) for axis in (here.R.x, here.R.y, here.R.z))]
        potential += [0] * len(MOMENTS)
    return [kinetic, potential]


def _felt(mechanism: Unrolled, q: Column, X: Sequence[Transform],
          wrenches: Sequence[Sequence[Wrench]]) -> list[list[Scalar]]:
    """What every joint feels of wrenches on bodies: a column for each wrench."""
    number = rates(mechanism)
    n, columns = sum(map(len, number)), []
    for body, own in enumerate(wrenches):
        for f in own:
            column: list[Scalar] = [0] * n
            for i in path(mechanism, body):
                for row, x in zip(number[i], mechanism.joints[i].project(q[i], f), strict=True):
                    column[row] = x
                f = X[i].wrench_to_parent(f)
            columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)]


def _force_wrenches(link: Attachment, motion: Motion) -> list[Wrench]:
    """For a unit of each parameter the wrench that the body needs, about its own origin."""
    R = link.R
    w, wd, a = (_in_link(link, v) for v in (motion.w, motion.wd, motion.a + motion.E @ link.p))
    E = Matrix(*(_in_link(link, motion.E @ axis) for axis in (R.x, R.y, R.z)))
    return _wrenches(link, a, lambda axis: Wrench(axis.cross(a), E @ axis),
                     lambda J: J @ wd + w.cross(J @ w))


def _momentum_wrenches(link: Attachment, twist: Twist) -> list[Wrench]:
    """For a unit of each parameter the momentum of the body about its own origin."""
    w, v = _in_link(link, twist.angular), _in_link(link, _velocity(link, twist))
    return _wrenches(link, v, lambda axis: Wrench(axis.cross(v), w.cross(axis)), lambda J: J @ w)


def _wrenches(link: Attachment, of_mass: Vector, of_axis: Callable[[Vector], Wrench],
              of_inertia: Callable[[Symmetric], Vector]) -> list[Wrench]:
    """The wrenches of a unit of each parameter, found in the link's frame, in the body's."""
    one = Matrix.identity()
    found = [Wrench(Vector.zero(), of_mass), *map(of_axis, (one.x, one.y, one.z))]
    found += [Wrench(of_inertia(_unit(i, j)), Vector.zero()) for i, j in MOMENTS]
    return [Wrench(link.R @ f.moment, link.R @ f.force).shift(link.p) for f in found]


def _unit(i: int, j: int) -> Symmetric:
    """The tensor with ones at (i, j) and (j, i)."""
    rows: list[list[Any]] = [[0, 0, 0] for _ in range(3)]
    rows[i][j] = rows[j][i] = 1
    return Symmetric.from_rows(rows)


def _velocity(link: Attachment, twist: Twist) -> Vector:
    """That of a link's origin, in the body's axes."""
    return twist.linear + twist.angular.cross(link.p)


def _in_link(link: Attachment, v: Vector) -> Vector:
    """A vector of the body, in the link's axes."""
    return Vector(link.R.x.dot(v), link.R.y.dot(v), link.R.z.dot(v))
