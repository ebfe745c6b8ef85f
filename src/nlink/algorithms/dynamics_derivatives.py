"""Derivatives of inverse dynamics by q and qd, column by column from composite moments.

The recursions of Carpentier and Mansard (2018) and of Singh, Russell and Wensing (2022, eqs.
36-41), in the inertial accelerations of this project, where no linear velocity appears.

*What a body feels.* Let the motion of body i change: its angular velocity by dw, its inertial
angular acceleration by dwd (of the components in the body's axes, plus w x dw), the acceleration
of its origin by da. All that it carries keeps its joint rates and accelerations, so its points, at
r and with the velocity v from that origin, accelerate by da + dwd x r + 2 dw x v, and the wrench
on all of them changes by

    moment  J dwd + h x da + 2 (tr P - P^T) dw        J = sum m (r.r - r r^T), h = sum m r,
    force   m da - h x dwd + 2 dw x hd                P = sum m r v^T, hd = sum m v,

the composite moments of `coriolis`. Here they are made of twice the velocities, so that no
factor 2 is left.

*What a joint does.* Let w0, E0 and a0 be the angular velocity of the parent, its Euler tensor
wd~ + w~ w~, and the acceleration of its point at the body's origin, all in the body's axes, and
s = S qd, sd = S qdd + Sdot qd. Then w = w0 + s.angular and a = a0 + sd.linear + (w0 + w) x
s.linear. A unit of rate k displaces the body by the twist (sigma, nu) = S_k, while the parent
stays: what comes from the parent turns by -sigma, its point moves by nu. With (ds, dsd) the
change of (s, sd) themselves, which is zero for a constant S,

    by q_k   dw = w0 x sigma + ds.angular
             dwd = E0 sigma + (w0 + w) x ds.angular + dsd.angular
             da = E0 nu + (w0 + w) x ds.linear + dsd.linear
                  + a0 x sigma + (w0 x sigma + dw) x s.linear
    by qd_k  dw = sigma
             dwd = (w0 + w) x sigma + dsd.angular
             da = (w0 + w) x nu + sigma x s.linear + dsd.linear

For a hinge about z that is (w x z, E z, a x z) and (z, 2 w x z, 0), which are at hand. Rates that
are no derivatives of coordinates (a quaternion's) need nothing else: q_k is the direction in
which a unit of rate k leads.

*Columns and rows.* Joints that carry joint i feel the change of its wrench; by q_i, the wrench
itself turns and moves with the body, too. Joint j that carries i changes the motion of i like a
rigid body's, dw and dwd unchanged, da + dwd x d + 2 dw x V at a distance d that changes by V.
Seen from the other end: S_i . (change of the wrench) is a linear form in (dw, dwd, da), whose
coefficients go to the base like a wrench (n, g) = I S_i and a vector that collects 2 V x g. So
both triangles come from one sweep along the path to the base.

A load that keeps its direction in the world while the body turns is no part of this; see `Load`.

Derivatives of forward dynamics, from those of inverse dynamics.

tau = ID(q, qd, qdd) with qdd = FD(q, qd, tau) holds for all q, qd and tau, so

    dqdd/dq = -M^-1 dID/dq,    dqdd/dqd = -M^-1 dID/dqd,    dqdd/dtau = M^-1

[Carpentier and Mansard 2018, eq. 12], the derivatives of ID being taken at that qdd.

The columns of M are on their way to the base anyway, as the linear forms of
`dynamics_derivatives`: M costs nothing. It is eliminated from the tips to the base, M = U D U^T,
so that what is zero between branches stays zero, and its factors give qdd and every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nlink.algorithms.coriolis import Forces, Moments, MovingFrame
from nlink.algorithms.inverse_dynamics import Motion, base_motion, move
from nlink.algorithms.kinematics import Place, body_wrenches, forward_kinematics
from nlink.algorithms.matrices import (
    Dense,
    TreeFactors,
    accelerating_forces,
    dense,
    mass_matrix,
)
from nlink.algorithms.sweep import Column, Driver, Pairs, Unrolled
from nlink.model.joints import Coordinates
from nlink.model.mechanism import Attachment, MovingJoint
from nlink.scalars.dual import derivative, dual
from nlink.scalars.functions import Scalar, literal
from nlink.spatial import Matrix, Rotation, Transform, Twist, Vector, Wrench, euler_tensor


@dataclass(frozen=True, slots=True)
class MotionChange:
    """How the motion of a body's frame changes, in its axes: angular velocity, inertial angular
    acceleration, acceleration of the origin."""

    w: Vector
    wd: Vector
    a: Vector


@dataclass(frozen=True, slots=True)
class VariedBody:
    """A body: its frame (with twice its velocities), the wrench that its motion needs, its
    joint's columns S, and for each rate the changes by q and by qd, and those of S by q."""

    frame: MovingFrame
    f: Wrench
    S: tuple[Twist, ...]
    by_q: tuple[MotionChange, ...]
    by_qd: tuple[MotionChange, ...]
    S_by_q: tuple[tuple[Twist, ...], ...]


@dataclass(frozen=True, slots=True)
class Load:
    """External wrenches on a body and those it carries, which keep their direction in the world
    while the body turns: moments n, forces F, and W = sum x F^T over the points x where they act.

    A turn by sigma about the origin moves those points by sigma x x, and the moment about it by
    sum (sigma x x) x F = (W - tr W) sigma; to the body's own axes the same turn looks like
    one of all wrenches by -sigma.
    """

    n: Vector
    F: Vector
    W: Matrix

    @classmethod
    def zero(cls) -> Load:
        return cls(Vector.zero(), Vector.zero(), Matrix.zero())

    def __add__(self, other: Load) -> Load:
        return Load(self.n + other.n, self.F + other.F, self.W + other.W)

    def shift(self, r: Vector) -> Load:
        W = Matrix(*(r * f for f in self.F.components))
        return Load(self.n, self.F, self.W + W)

    def turn(self, R: Rotation) -> Load:
        return Load(R.to_parent(self.n), R.to_parent(self.F), R.to_parent(self.W))

    def to_parent(self, X: Transform) -> Load:
        return self.shift(X.r).turn(X.R).shift(X.p)

    @property
    def wrench(self) -> Wrench:
        """About the origin: n + sum x x F, and F."""
        W = self.W  # by columns: W.z.y is sum y F_z
        axial = Vector(W.z.y - W.y.z, W.x.z - W.z.x, W.y.x - W.x.y)
        return Wrench(self.n + axial, self.F)

    def displaced(self, s: Twist) -> Wrench:
        """How the wrench about a point at rest changes when the body moves by a twist."""
        sigma = s.angular
        return Wrench(self.W @ sigma - sigma * self.trace + s.linear.cross(self.F), Vector.zero())

    def turned(self, s: Twist) -> Vector:
        """The sensitivity of -S . (this wrench, in the body's axes) to a turn of the body."""
        sigma = s.angular
        return (self.n.cross(sigma) + sigma * self.trace - self.W @ sigma
                + self.F.cross(s.linear))

    @property
    def trace(self) -> Scalar:
        return self.W.x.x + self.W.y.y + self.W.z.z


def inverse_dynamics_derivatives(mechanism: Driver, q: Column, qd: Column, qdd: Column,
                                 links: tuple[Attachment, ...], f_ext: Column | None,
                                 ) -> tuple[Pairs, Pairs]:
    """dtau/dq and dtau/dqd: the change of tau = ID(q, qd, qdd) by a unit of each rate."""
    bodies = mechanism.outward(_outward, _base(mechanism), q, qd, qdd)
    loads = _loads(mechanism, q, links, f_ext)
    moments, _ = mechanism.inward(_composite, Moments.zero(), bodies)
    forces, _ = mechanism.inward(_carried, Wrench.zero(), bodies)
    by_q = mechanism.columns(_start_q, _along_q, bodies, moments, forces, loads)
    by_qd = mechanism.columns(_start_qd, _along_qd, bodies, moments)
    return by_q, by_qd


def _base(mechanism: Driver) -> Motion:
    return base_motion(mechanism.gravity)


def _outward(joint: MovingJoint, parent: Motion, q: Coordinates, qd: Coordinates,
             qdd: Coordinates) -> tuple[Motion, VariedBody]:
    X = joint.transform(q)
    motion = move(joint, X, parent, q, qd, qdd)
    s = joint.rate(q, qd)
    w2, parent2 = motion.w + motion.w, parent.w + parent.w
    frame = MovingFrame(X, w2, w2.cross(X.r) + s.linear + s.linear, parent2.cross(X.p), ())
    f = joint.inertia.newton_euler(motion.E, motion.a)
    by_q, by_qd = _changes(joint, X, parent, motion, q, qd, qdd)
    return motion, VariedBody(frame, f, joint.subspace(q), by_q, by_qd,
                              _subspace_changes(joint, q))


def _changes(joint: MovingJoint, X: Transform, parent: Motion, motion: Motion, q: Coordinates,
             qd: Coordinates, qdd: Coordinates,
             ) -> tuple[tuple[MotionChange, ...], tuple[MotionChange, ...]]:
    """The changes of a body's motion by each of its joint's q and qd."""
    s = joint.rate(q, qd)
    w0, wd0 = X.R.to_child(parent.w), X.R.to_child(parent.wd)
    w = w0 + motion.w
    columns, still = joint.subspace(q), (0,) * joint.type.nv
    # points on an axis accelerate alike in both bodies, and the body's own tensor is at hand
    E0 = motion.E if all(map(_along_z, columns)) else euler_tensor(w0, wd0)
    a0 = X.R.to_child(parent.a + parent.E @ X.p) + E0 @ X.r
    by_q, by_qd = [], []
    for S, unit in zip(columns, joint.units, strict=True):
        sigma, nu = S.angular, S.linear
        varied = _moved(joint, q, unit)
        ds = _derivative(joint.rate(varied, qd))
        dsd = _derivative(joint.rate_change(varied, qd, qd, qdd))
        dw = w0.cross(sigma) + ds.angular
        by_q.append(MotionChange(
            dw,
            E0 @ sigma + w.cross(ds.angular) + dsd.angular,
            E0 @ nu + w.cross(ds.linear) + dsd.linear + a0.cross(sigma)
            + (w0.cross(sigma) + dw).cross(s.linear)))
        dsd = joint.rate_change(q, unit, qd, still) + joint.rate_change(q, qd, unit, still)
        by_qd.append(MotionChange(
            sigma, w.cross(sigma) + dsd.angular,
            w.cross(nu) + sigma.cross(s.linear) + dsd.linear))
    return tuple(by_q), tuple(by_qd)


def _subspace_changes(joint: MovingJoint, q: Coordinates) -> tuple[tuple[Twist, ...], ...]:
    """For each rate k how the columns of S change by q_k."""
    still = (0,) * joint.type.nv
    return tuple(tuple(joint.rate_change(q, unit, column, still) for column in joint.units)
                 for unit in joint.units)


def _moved(joint: MovingJoint, q: Coordinates, unit: Coordinates) -> Coordinates:
    """The coordinates of a joint as they change by a unit of a rate."""
    rates = joint.type.space.tangent(q, unit)
    return tuple(dual(x, change) for x, change in zip(q, rates, strict=True))


def _derivative(twist: Twist) -> Twist:
    return Twist.of([derivative(x) for x in twist.components])


def _along_z(S: Twist) -> bool:
    """Whether a column moves along or about the joint's axis, by structure."""
    return all(literal(x) == 0 for x in (S.angular.x, S.angular.y, S.linear.x, S.linear.y))


def _loads(mechanism: Driver, q: Column, links: Sequence[Attachment], f_ext: Column | None,
           ) -> Column:
    """The load of each body and all it carries, None where there is none."""
    if f_ext is None:
        return mechanism.each(lambda joint: None)

    def on_body(link: Attachment, f, place: Place) -> Load:
        R = place.R.T
        return Load(R @ Vector(*f[:3]), R @ Vector(*f[3:]), Matrix.zero()).shift(link.p)

    def inward(joint: MovingJoint, carried: Load, own: Load, q):
        load = carried + own
        return load.to_parent(joint.transform(q)), load

    own = mechanism.from_links(links[1:], on_body, Load.zero(), f_ext,
                               forward_kinematics(mechanism, q))
    return mechanism.inward(inward, Load.zero(), own, q)[0]


def _composite(joint: MovingJoint, carried: Moments, body: VariedBody):
    moments = carried + Moments.of(joint.inertia, body.frame.w)
    return body.frame.to_parent(moments), moments


def _carried(joint: MovingJoint, carried: Wrench, body: VariedBody):
    f = carried + body.f
    return body.frame.X.wrench_to_parent(f), f


def _start(moments: Moments, S: Twist, change: MotionChange) -> Forces:
    """What a change of a body's motion asks of all that it carries, and the linear form of S."""
    return Forces(moments.force(Twist(change.wd, change.a), change.w), moments.I @ S,
                  moments.across(S))


def _start_q(joint: MovingJoint, k: int, body: VariedBody, moments: Moments, f: Wrench,
             load: Load | None):
    S, forces = body.S[k], _start(moments, body.S[k], body.by_q[k])
    own = [s.dot(forces.f1) + ds.dot(f) for s, ds in zip(body.S, body.S_by_q[k], strict=True)]
    # the wrench itself turns and moves with the body
    sigma, nu = S.angular, S.linear
    f1 = forces.f1 + Wrench(sigma.cross(f.moment) + nu.cross(f.force), sigma.cross(f.force))
    if load is None:
        return body.frame.to_parent(replace(forces, f1=f1)), tuple(own)
    own = [x + load.turned(s).dot(sigma) - ds.dot(load.wrench)
           for x, s, ds in zip(own, body.S, body.S_by_q[k], strict=True)]
    moved = replace(forces, f1=f1 - load.displaced(S), n4=load.turned(S))
    return body.frame.to_parent(moved), tuple(own)


def _start_qd(joint: MovingJoint, k: int, body: VariedBody, moments: Moments):
    forces = _start(moments, body.S[k], body.by_qd[k])
    own = [s.dot(forces.f1) for s in body.S]
    own[k] = own[k] + joint.viscous[k]
    return body.frame.to_parent(forces), tuple(own)


def _along_q(joint: MovingJoint, forces: Forces, body: VariedBody, *_):
    return _along(forces, body, body.by_q)


def _along_qd(joint: MovingJoint, forces: Forces, body: VariedBody, *_):
    return _along(forces, body, body.by_qd)


def _along(forces: Forces, body: VariedBody, changes: Sequence[MotionChange]):
    """The elements of a column in the rows of a joint that carries it, and those of a row."""
    rows = tuple(s.dot(forces.f1) for s in body.S)
    n, g = forces.f2.moment, forces.f2.force
    across = tuple(forces.n3.dot(change.w) + n.dot(change.wd) + g.dot(change.a)
                   for change in changes)
    if forces.n4 is not None:
        across = tuple(x + forces.n4.dot(s.angular)
                       for x, s in zip(across, body.S, strict=True))
    return body.frame.to_parent(forces), (rows, across)


def forward_dynamics_derivatives(mechanism: Unrolled, q: Column, qd: Column, tau: Column,
                                 links: tuple[Attachment, ...], f_ext: Column | None,
                                 ) -> tuple[Dense, Dense, Dense]:
    """dqdd/dq, dqdd/dqd and dqdd/dtau = M^-1."""
    M, _, columns = equation_derivatives(mechanism, q, qd, tau, links, f_ext)
    n, found = len(M.paths), M.accelerate_each(mechanism, columns)
    return _transposed(found[:n]), _transposed(found[n:]), M.inverse(mechanism)


def equation_derivatives(mechanism: Unrolled, q: Column, qd: Column, tau: Column,
                         links: tuple[Attachment, ...], f_ext: Column | None,
                         ) -> tuple[TreeFactors, Column, list[tuple[int, Sequence[Scalar]]]]:
    """The factors of M, qdd, and the columns of dID/dq and dID/dqd, each with its rate."""
    M = TreeFactors.of(mechanism, dense(mechanism, mass_matrix(mechanism, q)))
    solved = iter(M.solve(accelerating_forces(
        mechanism, q, qd, tau, body_wrenches(mechanism, q, links, f_ext))))
    qdd = [tuple(next(solved) for _ in ts) for ts in tau]
    by_q, by_qd = (dense(mechanism, pairs) for pairs in inverse_dynamics_derivatives(
        mechanism, q, qd, qdd, links, f_ext))
    # a rate changes the forces on what carries it and on what it carries
    return M, qdd, [pair for by in (by_q, by_qd) for pair in enumerate(zip(*by, strict=True))]


def _transposed(rows: Dense) -> Dense:
    return [list(column) for column in zip(*rows, strict=True)]
