"""Joint forces as a linear function of the inertial parameters: tau = Y(q, qd, qdd) pi.

A link's ten parameters are the moments of its mass about the origin of its frame, in the axes of
that frame, in Pinocchio's order: m, m c_x, m c_y, m c_z, Jxx, Jxy, Jyy, Jxz, Jyz, Jzz, with J the
inertia tensor about the origin. The wrench that a body's motion needs is linear in them,

    moment = J wd + w x J w + m c x a,    force = m a + E m c,    E = wd~ + w~ w~,

so each parameter of each link is a wrench on its body, and Y is what the joints that carry it
feel: J_i^T times it [Atkeson, An and Hollerbach 1986].
"""

from __future__ import annotations

from dataclasses import dataclass

from nlink.algorithms.inverse_dynamics import Motion, base_motion, move
from nlink.algorithms.matrices import path, rates
from nlink.algorithms.sweep import Column, Unrolled
from nlink.model.mechanism import Attachment, MovingJoint
from nlink.scalars.functions import Scalar
from nlink.spatial import Matrix, Transform, Vector, Wrench

PARAMETERS = ("m", "mx", "my", "mz", "Jxx", "Jxy", "Jyy", "Jxz", "Jyz", "Jzz")
"""The parameters of a link, in this order."""


@dataclass(frozen=True, slots=True)
class MovedBody:
    """A body's transform and motion."""

    X: Transform
    motion: Motion


def regressor(mechanism: Unrolled, q: Column, qd: Column, qdd: Column,
              links: tuple[Attachment, ...]) -> list[list[Scalar]]:
    """Y, (n, 10 links): a column for each parameter of each link, those of the base being zero."""

    def outward(joint: MovingJoint, parent: Motion, q, qd, qdd):
        X = joint.transform(q)
        motion = move(joint, X, parent, q, qd, qdd)
        return motion, MovedBody(X, motion)

    bodies = mechanism.outward(outward, base_motion(mechanism.gravity), q, qd, qdd)
    number = rates(mechanism)
    n = sum(map(len, number))
    columns = []
    for link in links[1:]:
        wrenches = (parameter_wrenches(link, bodies[link.body - 1].motion) if link.body
                    else [Wrench.zero()] * len(PARAMETERS))
        for f in wrenches:
            column: list[Scalar] = [0] * n
            for i in path(mechanism, link.body - 1):
                for row, x in zip(number[i], mechanism.joints[i].project(q[i], f), strict=True):
                    column[row] = x
                f = bodies[i].X.wrench_to_parent(f)
            columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)]


def parameter_wrenches(link: Attachment, motion: Motion) -> list[Wrench]:
    """For a unit of each parameter the wrench that the link needs, about its body's origin."""
    R = link.R

    def here(v: Vector) -> Vector:
        """In the link's axes."""
        return Vector(R.x.dot(v), R.y.dot(v), R.z.dot(v))

    w, wd, a = here(motion.w), here(motion.wd), here(motion.a + motion.E @ link.p)
    E = Matrix(here(motion.E @ R.x), here(motion.E @ R.y), here(motion.E @ R.z))
    one = Matrix.identity()
    axes = (one.x, one.y, one.z)
    found = [Wrench(Vector.zero(), a), *(Wrench(axis.cross(a), E @ axis) for axis in axes)]
    for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)):
        found.append(Wrench(_product(i, j, wd) + w.cross(_product(i, j, w)), Vector.zero()))
    return [Wrench(R @ f.moment, R @ f.force).shift(link.p) for f in found]


def _product(i: int, j: int, v: Vector) -> Vector:
    """J v for the inertia tensor with ones at (i, j) and (j, i)."""
    found: list[Scalar] = [0, 0, 0]
    found[i] = v.components[j]
    found[j] = v.components[i]
    return Vector(*found)
