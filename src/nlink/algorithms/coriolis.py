"""The Coriolis matrix: C with C qd the velocity forces and Mdot - 2 C skew-symmetric.

The points of the mechanism have velocities J qd, so M = sum m J^T J and C = sum m J^T Jdot
has both properties, since Mdot - 2 C = sum m (Jdot^T J - J^T Jdot). The sums over points
become composite moments about each joint: h and S of the bodies that it carries, and their
rates. It equals the convective matrix of [Saha99, 25-29] up to a skew matrix with K qd = 0,
and does not change when inertia is regrouped.
"""

from __future__ import annotations

from dataclasses import dataclass

from nlink.algorithms.sweep import Column, Driver, Pairs
from nlink.model.mechanism import MovingJoint
from nlink.scalars.functions import Scalar
from nlink.spatial import Matrix, RigidInertia, Rotation, Transform, Twist, Vector, Wrench


@dataclass(frozen=True, slots=True)
class Moments:
    """Mass moments of a composite body about a point, and their rates.

    With r and v the position and velocity of its points relative to that point:
    I holds m, h = sum m r and S = sum m r r^T; hd = sum m v; P = sum m r v^T.
    """

    I: RigidInertia
    hd: Vector
    P: Matrix

    @classmethod
    def zero(cls) -> Moments:
        return cls(RigidInertia.zero(), Vector.zero(), Matrix.zero())

    @classmethod
    def of(cls, I: RigidInertia, w: Vector) -> Moments:
        """Moments of a rigid body that turns with w about the point: v = w x r, so P = S w~^T."""
        x, y, z = (Vector(*row) for row in I.S.rows)
        P = Matrix(z * w.y - y * w.z, x * w.z - z * w.x, y * w.x - x * w.y)
        return cls(I, w.cross(I.h), P)

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.I + other.I, self.hd + other.hd, self.P + other.P)

    def shift(self, r: Vector, v: Vector) -> Moments:
        """About a point from which the old one is at r and moves with v."""
        h, hd = self.I.h, self.hd + v * self.I.m
        P = self.P + Matrix(*(r * a + h * b for a, b in zip(hd.components, v.components,
                                                           strict=True)))
        return Moments(self.I.shift(r), hd, P)

    def force(self, s: Twist, w: Vector) -> Wrench:
        """sum m (s.linear + s.angular x r + w x v), as a wrench."""
        inner = self.I @ s
        return Wrench(inner.moment + w * self.trace - self.P.T @ w,
                      inner.force + w.cross(self.hd))

    def across(self, s: Twist) -> Vector:
        """sum m v x (s.linear + s.angular x r)."""
        return self.hd.cross(s.linear) + s.angular * self.trace - self.P @ s.angular

    @property
    def trace(self) -> Scalar:
        return self.P.x.x + self.P.y.y + self.P.z.z

    def turn(self, R: Rotation) -> Moments:
        I = RigidInertia(self.I.m, R.to_parent(self.I.h), R.to_parent(self.I.S))
        return Moments(I, R.to_parent(self.hd), R.to_parent(self.P))


@dataclass(frozen=True, slots=True)
class Forces:
    """A column of C and a row of it on their way to the base, for one rate.

    `f1` is sum m Jdot_j over the points beyond the joint, as a wrench, `f2` is sum m J_j, and
    `n3` is sum m v x J_j. `n4` is a vector that only turns on its way, if there is one.
    """

    f1: Wrench
    f2: Wrench
    n3: Vector
    n4: Vector | None = None

    def shift(self, r: Vector, v: Vector) -> Forces:
        return Forces(self.f1.shift(r), self.f2.shift(r), self.n3 + v.cross(self.f2.force), self.n4)

    def turn(self, R: Rotation) -> Forces:
        def wrench(f: Wrench) -> Wrench:
            return Wrench(R.to_parent(f.moment), R.to_parent(f.force))

        n4 = None if self.n4 is None else R.to_parent(self.n4)
        return Forces(wrench(self.f1), wrench(self.f2), R.to_parent(self.n3), n4)


@dataclass(frozen=True, slots=True)
class MovingFrame:
    """A body: its transform, how its origin moves relative to its parent's, in two parts as the
    transform has (`rise` in the body's axes, `offset` in the parent's), and how the components
    of its joint's columns change."""

    X: Transform
    w: Vector
    rise: Vector
    offset: Vector
    changes: tuple[Twist, ...]

    def to_parent(self, thing):
        return thing.shift(self.X.r, self.rise).turn(self.X.R).shift(self.X.p, self.offset)


def coriolis_matrix(mechanism: Driver, q: Column, qd: Column) -> Pairs:
    """C(q, qd), element by element from composite moments."""

    def outward(joint: MovingJoint, parent: Vector, q, qd):
        X, s = joint.transform(q), joint.rate(q, qd)
        w = X.R.to_child(parent) + s.angular
        still = (0,) * joint.type.nv
        changes = tuple(joint.rate_change(q, qd, unit, still) for unit in joint.units)
        return w, MovingFrame(X, w, w.cross(X.r) + s.linear, parent.cross(X.p), changes)

    def inward(joint: MovingJoint, carried: Moments, body: MovingFrame):
        moments = carried + Moments.of(joint.inertia, body.w)
        return body.to_parent(moments), moments

    def turning(joint: MovingJoint, body: MovingFrame, S):
        # inertial rates of the columns: of their components, and of the axes, which turn with w
        return tuple(change + Twist(body.w.cross(s.angular), body.w.cross(s.linear))
                     for s, change in zip(S, body.changes, strict=True))

    def start(joint: MovingJoint, k: int, moments: Moments, body: MovingFrame, S, Sd):
        # the points beyond the joint have the velocities J_j = s.linear + s.angular x r
        forces = Forces(moments.force(Sd[k], S[k].angular), moments.I @ S[k],
                        moments.across(S[k]))
        return body.to_parent(forces), tuple(s.dot(forces.f1) for s in S)

    def along(joint: MovingJoint, forces: Forces, moments: Moments, body: MovingFrame, S, Sd):
        rows = tuple(s.dot(forces.f1) for s in S)
        across = tuple(sd.dot(forces.f2) + s.angular.dot(forces.n3)
                       for s, sd in zip(S, Sd, strict=True))
        return body.to_parent(forces), (rows, across)

    bodies = mechanism.outward(outward, Vector.zero(), q, qd)
    moments, _ = mechanism.inward(inward, Moments.zero(), bodies)
    S = mechanism.each(lambda joint, q: joint.subspace(q), q)
    Sd = mechanism.each(turning, bodies, S)
    return mechanism.columns(start, along, moments, bodies, S, Sd)
