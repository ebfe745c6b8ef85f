"""Joint forces from a motion: RIDIM, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from nlink.algorithms.sweep import Column, Driver
from nlink.model.joints import Coordinates
from nlink.model.mechanism import MovingJoint
from nlink.spatial import Matrix, Transform, Vector, Wrench, euler_tensor


@dataclass(frozen=True, slots=True)
class Motion:
    """How a body moves, in its own axes: angular velocity and acceleration, the inertial
    acceleration of its origin (gravity included), and E = wd~ + w~ w~."""

    w: Vector
    wd: Vector
    a: Vector
    E: Matrix


@dataclass(frozen=True, slots=True)
class Body:
    """What the inward sweep needs of a body."""

    X: Transform
    f: Wrench


def base_motion(gravity: Vector) -> Motion:
    """The base falls upwards: its acceleration is -g, [Saha99, 32]."""
    return Motion(Vector.zero(), Vector.zero(), -gravity, Matrix.zero())


def move(joint: MovingJoint, X: Transform, parent: Motion, q: Coordinates, qd: Coordinates,
         qdd: Coordinates) -> Motion:
    """A body's motion from its parent's, [Saha99, 5.1] in angular velocities only.

    No linear velocity is ever computed: origins are followed by their accelerations. The
    rise X.r along the joint axis belongs to both bodies, so the child's E may carry it.
    """
    s, sd = joint.rate(q, qd), joint.rate_change(q, qd, qd, qdd)
    w0 = X.R.to_child(parent.w)
    w = w0 + s.angular
    wd = X.R.to_child(parent.wd) + sd.angular + w0.cross(s.angular)
    E = euler_tensor(w, wd)
    a = X.R.to_child(parent.a + parent.E @ X.p) + E @ X.r
    return Motion(w, wd, a + sd.linear + (w0 + w).cross(s.linear), E)


def rigid_forces(mechanism: Driver, q: Column, qd: Column, qdd: Column, f_ext: Column) -> Column:
    """M qdd + C qd + g - J^T f_ext by the two sweeps of RIDIM [Saha99, 5.1].

    `f_ext` is a wrench on each body about its origin, in its own axes.
    """

    def outward(joint: MovingJoint, parent: Motion, q, qd, qdd, f_ext):
        X = joint.transform(q)
        motion = move(joint, X, parent, q, qd, qdd)
        return motion, Body(X, joint.inertia.newton_euler(motion.E, motion.a) - f_ext)  # eq. (7)

    def inward(joint: MovingJoint, f: Wrench, body: Body, q):
        f = f + body.f  # eq. (30)
        return body.X.wrench_to_parent(f), joint.project(q, f)

    bodies = mechanism.outward(outward, base_motion(mechanism.gravity), q, qd, qdd, f_ext)
    tau, _ = mechanism.inward(inward, Wrench.zero(), bodies, q)
    return tau


def inverse_dynamics(mechanism: Driver, q: Column, qd: Column, qdd: Column, f_ext: Column,
                     ) -> Column:
    """tau = M qdd + C qd + g + friction(qd) + armature qdd - J^T f_ext."""

    def losses(joint: MovingJoint, tau, qd, qdd):
        extra = zip(tau, joint.friction(qd), joint.rotor(qdd), strict=True)
        return tuple(t + friction + rotor for t, friction, rotor in extra)

    tau = rigid_forces(mechanism, q, qd, qdd, f_ext)
    return mechanism.each(losses, tau, qd, qdd)


def bias(mechanism: Driver, q: Column, qd: Column, f_ext: Column) -> Column:
    """C(q, qd) qd + g(q) - J^T f_ext: the joint forces at qdd = 0, without friction."""
    return rigid_forces(mechanism, q, qd, rest(mechanism), f_ext)


def gravity_torque(mechanism: Driver, q: Column) -> Column:
    """g(q): the joint forces that hold the mechanism still."""
    return bias(mechanism, q, rest(mechanism), no_wrenches(mechanism))


def rest(mechanism: Driver) -> Column:
    """Zero rates, as structure."""
    return mechanism.each(lambda joint: (0,) * joint.type.nv)


def no_wrenches(mechanism: Driver) -> Column:
    """No external wrench on any body, as structure."""
    return mechanism.each(lambda joint: Wrench.zero())
