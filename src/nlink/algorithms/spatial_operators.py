"""Forward dynamics as [RK88] writes it: FD1 to FD4, each in the report's own sweeps.

Accelerations are derivatives in an inertial frame ("classical"), so that a(k) and b(k) need
angular velocities only; gravity is an acceleration of the base; the report's f(0), the force
of the tip on its environment, is an external wrench -f(0) on the last link.

The report numbers links from the tip and calls a sweep from tip to base causal; here bodies are
numbered from the base and sweeps go inward and outward. Its quantities live at body k:
P and z with what the children passed already added, G = K of the pivots, epsilon = u, and
lambda(k+1) is what comes from the parent. One joint may have several rates: D(k) is then a
block, inverted by eliminating one rate after another.
"""

from __future__ import annotations

from dataclasses import dataclass

from nlink.algorithms.forward_dynamics import (
    ArticulatedBody,
    EliminatedJoint,
    accelerate,
    articulate,
)
from nlink.algorithms.forward_dynamics import forward_dynamics as fd3
from nlink.algorithms.inverse_dynamics import Motion, base_motion, move
from nlink.algorithms.kinematics import Place, forward_kinematics
from nlink.algorithms.sweep import Column, Driver
from nlink.model.joints import Coordinates
from nlink.model.mechanism import Attachment, MovingJoint
from nlink.scalars.functions import Scalar
from nlink.spatial import (
    ArticulatedInertia,
    Pivot,
    Rotation,
    Transform,
    Twist,
    Vector,
    Wrench,
    euler_tensor,
)

__all__ = ["Bias", "biases", "fd1", "fd2", "fd3", "fd4", "link_accelerations"]

HERE = Transform(Vector.zero(), Rotation(()), Vector.zero())
"""From a body to itself: articulate without leaving its frame."""


@dataclass(frozen=True, slots=True)
class Bias:
    """What velocities alone do to a body: a(k) (2.19) and b(k) (2.23), external wrench off."""

    X: Transform
    w: Vector
    a: Twist
    b: Wrench


def biases(mechanism: Driver, q: Column, qd: Column, f_ext: Column) -> Column:
    """Angular velocities, a(k) and b(k), base to tip: (5.13), (2.19), (2.23).

    a(k) is how a body would accelerate if its parent turned steadily and its joint moved
    steadily; gravity enters as a -> a + E g (3.21). The erratum to (2.32), twice the Coriolis
    acceleration of a sliding joint, is in `move`.
    """

    def outward(joint: MovingJoint, parent: Motion, q, qd, f_ext):
        X = joint.transform(q)
        motion = move(joint, X, parent, q, qd, (0,) * joint.type.nv)
        w, zero = motion.w, Vector.zero()
        turning = Motion(w, zero, zero, euler_tensor(w, zero))
        b = joint.inertia.newton_euler(turning.E, zero) - f_ext
        return turning, Bias(X, w, Twist(motion.wd, motion.a), b)

    return mechanism.outward(outward, base_motion(mechanism.gravity), q, qd, f_ext)


@dataclass(frozen=True, slots=True)
class Articulation:
    """A joint eliminated while it was still unforced, and the force its bias motion needs."""

    X: Transform
    pivots: tuple[Pivot, ...]
    T: Coordinates


@dataclass(frozen=True, slots=True)
class ArticulatedBias:
    """What a body passes inward in FD1's second sweep: P, and the forces of bias motion."""

    P: ArticulatedInertia
    f: Wrench

    @classmethod
    def zero(cls) -> ArticulatedBias:
        return cls(ArticulatedInertia.zero(), Wrench.zero())

    def __add__(self, other: ArticulatedBias) -> ArticulatedBias:
        return ArticulatedBias(self.P + other.P, self.f + other.f)


@dataclass(frozen=True, slots=True)
class Drifting:
    """A body in the bias motion: zeta = phi^T a, and M zeta + b."""

    X: Transform
    w: Vector
    zeta: Twist
    f: Wrench


def _drift(mechanism: Driver, q: Column, qd: Column, f_ext: Column) -> Column:
    """zeta = phi^T a and M zeta + b, base to tip: the motion with no joint acceleration."""

    def outward(joint: MovingJoint, parent: Motion, q, qd, f_ext):
        X = joint.transform(q)
        motion = move(joint, X, parent, q, qd, (0,) * joint.type.nv)
        f = joint.inertia.newton_euler(motion.E, motion.a) - f_ext
        return motion, Drifting(X, motion.w, Twist(motion.wd, motion.a), f)

    return mechanism.outward(outward, base_motion(mechanism.gravity), q, qd, f_ext)


def _bias_free(mechanism: Driver, drifting: Column, q: Column, qd: Column, tau: Column) -> Column:
    """T' = T - H phi [M zeta + b] (4.17), with P, D and L on the way (4.4)-(4.6)."""

    def inward(joint: MovingJoint, carried: ArticulatedBias, body: Drifting, q, qd, tau):
        f = carried.f + body.f
        up, step = articulate(joint, body.X, ArticulatedBody(carried.P, Wrench.zero()),
                              Wrench.zero(), q, (0,) * joint.type.nv)
        parts = zip(tau, joint.friction(qd), joint.project(q, f), strict=True)
        T = tuple(t - friction - bias for t, friction, bias in parts)
        return (ArticulatedBias(up.I, body.X.wrench_to_parent(f)),
                Articulation(body.X, step.pivots, T))

    return mechanism.inward(inward, ArticulatedBias.zero(), drifting, q, qd, tau)[0]


def _filter(mechanism: Driver, joints: Column) -> Column:
    """epsilon = (I - H Psi L) T', tip to base: (4.19)-(4.20), T' in epsilon by the erratum."""

    def inward(joint: MovingJoint, z: Wrench, step: Articulation):
        us: list[Scalar] = []
        for pivot, T in reversed(list(zip(step.pivots, step.T, strict=True))):
            epsilon = T - pivot.S.dot(z)
            z = z + pivot.K * epsilon
            z = z if pivot.axis is None else z.replace(pivot.axis, T)
            us.append(epsilon)
        return step.X.wrench_to_parent(z), EliminatedJoint(step.X, step.pivots, tuple(us[::-1]))

    return mechanism.inward(inward, Wrench.zero(), joints)[0]


def fd1(mechanism: Driver, q: Column, qd: Column, tau: Column, f_ext: Column) -> Column:
    """theta'' = (I - H Psi L)^T D^-1 (I - H Psi L) T' [RK88, 4.17-4.22]: four sweeps.

    Outward zeta, inward T' and P, inward epsilon, outward lambda and theta''. Steps A to C of
    [Saha03] are the same recursions with other reference points.
    """
    drifting = _drift(mechanism, q, qd, f_ext)
    joints = _bias_free(mechanism, drifting, q, qd, tau)
    return mechanism.outward(accelerate, Twist.zero(), _filter(mechanism, joints))


@dataclass(frozen=True, slots=True)
class SolvedBody:
    """A body's motion once everything is known: theta'', and alpha(k) with w for its points."""

    qdd: Coordinates
    alpha: Twist
    w: Vector


def fd2(mechanism: Driver, q: Column, qd: Column, tau: Column, f_ext: Column) -> Column:
    """alpha = psi^T H^T D^-1 (I - H Psi L) T' + phi^T a [RK88, 5.5-5.7]: four sweeps.

    FD1 whose last sweep adds zeta to lambda, (4.21b)-(4.22b).
    """
    drifting = _drift(mechanism, q, qd, f_ext)
    joints = _bias_free(mechanism, drifting, q, qd, tau)

    def outward(joint: MovingJoint, parent: Twist, step: EliminatedJoint, body: Drifting):
        A, qdd = accelerate(joint, parent, step)
        return A, SolvedBody(qdd, A + body.zeta, body.w)

    return mechanism.outward(outward, Twist.zero(), _filter(mechanism, joints), drifting)


@dataclass(frozen=True, slots=True)
class Filtered:
    """A joint's innovation, and the bias that its last sweep adds."""

    step: EliminatedJoint
    a: Twist
    w: Vector


def fd4(mechanism: Driver, q: Column, qd: Column, tau: Column, f_ext: Column) -> Column:
    """z = Psi L T + (psi - I) P a + psi b, theta'' = nu - L^T lambda - G^T a [RK88, 5.13-5.17].

    Three sweeps, outward V, inward z, outward lambda; no bias motion is accumulated. What a
    body passes on is z + G epsilon + (I - G H) P a, and (I - G H) P is P without its own
    joint. lambda(k) is alpha(k), gravity included.
    """

    def inward(joint: MovingJoint, carried: ArticulatedBody, body: Bias, q, qd, tau):
        drive = tuple(t - r for t, r in zip(tau, joint.friction(qd), strict=True))
        left, step = articulate(joint, HERE, carried, body.b, q, drive)  # eq. (5.16)
        z = left.f + left.I @ body.a
        up = ArticulatedBody(left.I.to_parent(body.X), body.X.wrench_to_parent(z))
        return up, Filtered(EliminatedJoint(body.X, step.pivots, step.u), body.a, body.w)

    def outward(joint: MovingJoint, parent: Twist, body: Filtered):
        step = EliminatedJoint(HERE, body.step.pivots, body.step.u)
        alpha, qdd = accelerate(joint, body.step.X.twist_to_child(parent) + body.a, step)
        return alpha, SolvedBody(qdd, alpha, body.w)  # eq. (5.17)

    bodies = biases(mechanism, q, qd, f_ext)
    steps, _ = mechanism.inward(inward, ArticulatedBody.zero(), bodies, q, qd, tau)
    return mechanism.outward(outward, Twist.zero(), steps)


def joint_accelerations(mechanism: Driver, moving: Column) -> Column:
    """theta'' of every joint."""
    return mechanism.each(lambda joint, body: body.qdd, moving)


def link_accelerations(mechanism: Driver, q: Column, links: tuple[Attachment, ...],
                       moving: Column) -> Column:
    """alpha of each of the author's links, at its origin and in world axes: (2.7), (5.7).

    True accelerations: alpha + (0, g) undoes the acceleration of the base that stood for
    gravity.
    """
    g = mechanism.base.R @ mechanism.gravity

    def at_link(link: Attachment, body: SolvedBody, place: Place) -> Twist:
        R, E = place.R, euler_tensor(body.w, body.alpha.angular)
        return Twist(R @ body.alpha.angular, R @ (body.alpha.linear + E @ link.p) + g)

    return mechanism.to_links(links[1:], at_link, Twist.zero(), moving,
                              forward_kinematics(mechanism, q))
