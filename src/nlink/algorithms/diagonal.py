"""Equations of motion in quasi-velocities, where the mass matrix is diagonal [Koz95].

From M = U D U^T come xi = U^T qd and nu = D^1/2 xi (28, 34), with the kinetic energy
1/2 sum D xi^2 = 1/2 sum nu^2, and the equations of motion (40) and (44)

    nud + C(q, nu) = eps,    D xid + C(q, xi) = kappa.

Neither needs a coupled inertia matrix: each rate has its own equation. The recursions here are
those of the paper's section 4 with what cancels left out. Since P V = P+ V+ + U xi, where P+ and
V+ are P and V without the joint's own rate, the term lambda' H* xi - X V of (45) is
Udot xi - Omega P+ V+; and since C and kappa obey one recursion, their difference u = D xid does:

    w = b + sum over children of X^T (w - Omega P+ V+) + Udot xi,   u = tau - S . w,

the parent being left with w + K u. Gravity is part of b, as the paper suggests. Nothing is
assumed of joints: where S changes in the body (a universal joint), Sdot . (P+ V+) joins u. Joints
of several rates yield one rate after the other.

Bodies are numbered from the base, here as everywhere; the paper numbers from the tip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nlink.algorithms.diagonal_rates import (
    ReleasedRate,
    driving,
    twist_cross_twist,
    twist_cross_wrench,
)
from nlink.algorithms.forward_dynamics import EliminatedJoint
from nlink.algorithms.matrices import pivots
from nlink.algorithms.sweep import Column, Driver
from nlink.model.joints import Coordinates
from nlink.model.mechanism import MovingJoint
from nlink.scalars.functions import Scalar, sqrt
from nlink.spatial import (
    ArticulatedInertia,
    Pivot,
    Transform,
    Twist,
    Vector,
    Wrench,
    euler_tensor,
)


@dataclass(frozen=True, slots=True)
class MovingBody:
    """A body in motion: its rates, the twist V+ it would have with its own joint held, and the
    bias wrench b of its actual motion, weight and external wrench included."""

    X: Transform
    qd: Coordinates
    held: Twist
    b: Wrench


@dataclass(frozen=True, slots=True)
class ArticulatedMotion:
    """What a body passes to its parent: P, its rate, and the wrench w."""

    P: ArticulatedInertia
    Pd: ArticulatedInertia
    w: Wrench

    @classmethod
    def zero(cls) -> ArticulatedMotion:
        return cls(ArticulatedInertia.zero(), ArticulatedInertia.zero(), Wrench.zero())

    def __add__(self, other: ArticulatedMotion) -> ArticulatedMotion:
        return ArticulatedMotion(self.P + other.P, self.Pd + other.Pd, self.w + other.w)


@dataclass(frozen=True, slots=True)
class Quasi:
    """One rate solved: its pivot, xi, Ddot, D Kdot, the joint force tau and u = D xid."""

    pivot: Pivot
    xi: Scalar
    Dd: Scalar
    DKd: Wrench
    tau: Scalar
    u: Scalar

    @property
    def nud(self) -> Scalar:
        """nud = D^-1/2 (u + 1/2 Ddot xi), which is (46)."""
        return (self.u + self.Dd * self.xi * 0.5) * sqrt(self.pivot.inverse)

    @property
    def xid(self) -> Scalar:
        return self.u * self.pivot.inverse


Balance = Callable[[int, ReleasedRate, Twist, Scalar, Scalar], tuple[Scalar, Scalar]]
"""(k, release, held, xi, s) -> (tau, u) of rate k, given s = S . w - Sdot . (P+ V+), where
tau = u + s; `held` is the twist before this rate."""


def solve_joint(joint: MovingJoint, carry: ArticulatedMotion, body: MovingBody, q: Coordinates,
                xi: Coordinates, balance: Balance) -> tuple[ArticulatedMotion, tuple[Quasi, ...]]:
    """Let a joint's rates yield along the motion, last first; see the module's docstring.

    `xi` is empty where the rates are the state: then xi = qd + K . V+ (34).
    """
    P, Pd = carry.P + ArticulatedInertia.from_rigid(joint.inertia), carry.Pd
    w = carry.w + body.b
    still = (0,) * joint.type.nv
    S, helds = joint.subspace(q), [body.held]
    for column, rate in zip(S, body.qd, strict=True):
        helds.append(helds[-1] + column * rate)
    solved: list[Quasi] = []
    for k in reversed(range(joint.type.nv)):
        Sd, held = joint.rate_change(q, body.qd, joint.units[k], still), helds[k]
        release = ReleasedRate.of(P, Pd, S[k], Sd, joint.armature[k])
        pivot, x = release.pivot, xi[k] if xi else quasi_velocity(release.pivot, body.qd[k],
                                                                 held, helds[k + 1])
        w = w + release.Ud * x
        tau, u = balance(k, release, held, x, S[k].dot(w) - Sd.dot(release.left @ held))
        w = w + pivot.K * u if pivot.axis is None else (w + pivot.K * u).replace(pivot.axis, tau)
        solved.append(Quasi(pivot, x, release.Dd, release.DKd, tau, u))
        P, Pd = release.left, release.left_dot
    s, X = joint.rate(q, body.qd), body.X
    w = w - twist_cross_wrench(s, P @ body.held)
    up = ArticulatedMotion(P.to_parent(X), (Pd + driving(s, P)).to_parent(X), X.wrench_to_parent(w))
    return up, tuple(solved[::-1])


def quasi_velocity(pivot: Pivot, qd: Scalar, held: Twist, moving: Twist) -> Scalar:
    """xi = qd + K . V+ (34); along an exact axis K . S is 1, so that it is K . V."""
    return qd + held.dot(pivot.K) if pivot.axis is None else moving.dot(pivot.K)


def move(joint: MovingJoint, X: Transform, held: Twist, twist: Twist, g: Vector, qd: Coordinates,
         f_ext: Wrench) -> MovingBody:
    """b = V x M V - M (0, g) - f_ext: (V x M) V of (42) is the Newton-Euler wrench of a steady
    twist, whose origin accelerates with w x v."""
    w, v = twist.angular, twist.linear
    b = joint.inertia.newton_euler(euler_tensor(w, Vector.zero()), w.cross(v) - g) - f_ext
    return MovingBody(X, qd, held, b)


def motions(mechanism: Driver, q: Column, qd: Column, f_ext: Column) -> Column:
    """V+ and b of every body, base to tip, from joint rates."""

    def outward(joint: MovingJoint, parent: tuple[Twist, Vector], q, qd, f_ext):
        X = joint.transform(q)
        held, g = X.twist_to_child(parent[0]), X.R.to_child(parent[1])
        twist = held + joint.rate(q, qd)
        return (twist, g), move(joint, X, held, twist, g, qd, f_ext)

    return mechanism.outward(outward, (Twist.zero(), mechanism.gravity), q, qd, f_ext)


def unnormalized_velocities(mechanism: Driver, q: Column, qd: Column) -> Column:
    """xi = (1 + H Phi K)* qd (34), base to tip."""
    return _velocities(mechanism, q, qd, lambda pivot, xi: xi)


def normalized_velocities(mechanism: Driver, q: Column, qd: Column) -> Column:
    """nu = D^1/2 (1 + H Phi K)* qd (28), base to tip."""
    return _velocities(mechanism, q, qd, lambda pivot, xi: xi * sqrt(pivot.D))


def _velocities(mechanism: Driver, q: Column, qd: Column,
                scale: Callable[[Pivot, Scalar], Scalar]) -> Column:
    def outward(joint: MovingJoint, parent: Twist, step: EliminatedJoint, q, qd):
        twist, found = step.X.twist_to_child(parent), []
        for pivot, rate in zip(step.pivots, qd, strict=True):
            held, twist = twist, twist + pivot.S * rate
            found.append(scale(pivot, quasi_velocity(pivot, rate, held, twist)))
        return twist, tuple(found)

    return mechanism.outward(outward, Twist.zero(), pivots(mechanism, q), q, qd)


def release_velocities(step: EliminatedJoint, parent: Twist, xi: Coordinates,
                       ) -> tuple[Twist, Coordinates]:
    """qd = xi - K . V+ and V = V+ + S qd: velocities yield as accelerations do (section 6)."""
    twist, rates = step.X.twist_to_child(parent), []
    for pivot, x in zip(step.pivots, xi, strict=True):
        twist, rate = replace(pivot, inverse=1).accelerate(twist, x)
        rates.append(rate)
    return twist, tuple(rates)


def rates_from_unnormalized(mechanism: Driver, q: Column, xi: Column) -> Column:
    """qd = (1 - H Psi K)* xi, base to tip."""

    def outward(joint: MovingJoint, parent: Twist, step: EliminatedJoint, xi):
        return release_velocities(step, parent, xi)

    return mechanism.outward(outward, Twist.zero(), pivots(mechanism, q), xi)


def rates_from_normalized(mechanism: Driver, q: Column, nu: Column) -> Column:
    """qd = (1 - H Psi K)* D^-1/2 nu, base to tip."""

    def outward(joint: MovingJoint, parent: Twist, step: EliminatedJoint, nu):
        return release_velocities(step, parent, unnormalize(step, nu))

    return mechanism.outward(outward, Twist.zero(), pivots(mechanism, q), nu)


def unnormalize(step: EliminatedJoint, nu: Coordinates) -> Coordinates:
    """xi = D^-1/2 nu (34)."""
    return tuple(x * sqrt(pivot.inverse) for pivot, x in zip(step.pivots, nu, strict=True))


@dataclass(frozen=True, slots=True)
class QuasiState:
    """A body's motion when quasi-velocities are the state, and the xi themselves."""

    moving: MovingBody
    xi: Coordinates


def quasi_motion(mechanism: Driver, q: Column, velocities: Column, tau: Column, f_ext: Column,
                 normalized: bool) -> tuple[Column, Column]:
    """qd, and nud or xid: the right-hand side of the motion of (q, nu) or (q, xi).

    Three sweeps, as in section 6: inward D and K, outward qd and V, inward Pdot and C with
    kappa. The last sweep repeats the first one's elimination, which a traced program shares.
    """

    def outward(joint: MovingJoint, parent: tuple[Twist, Vector], step: EliminatedJoint, q, given,
                f_ext):
        xi = unnormalize(step, given) if normalized else given
        twist, qd = release_velocities(step, parent[0], xi)
        held, g = step.X.twist_to_child(parent[0]), step.X.R.to_child(parent[1])
        return (twist, g), QuasiState(move(joint, step.X, held, twist, g, qd, f_ext), xi)

    def inward(joint: MovingJoint, carry: ArticulatedMotion, state: QuasiState, q, tau):
        drive = driven(joint, state.moving.qd, tau)
        return solve_joint(joint, carry, state.moving, q, state.xi, drive)

    start = (Twist.zero(), mechanism.gravity)
    states = mechanism.outward(outward, start, pivots(mechanism, q), q, velocities, f_ext)
    solved, _ = mechanism.inward(inward, ArticulatedMotion.zero(), states, q, tau)
    rates = mechanism.each(lambda joint, state: state.moving.qd, states)
    changes = mechanism.each(
        lambda joint, rows: tuple(row.nud if normalized else row.xid for row in rows), solved)
    return rates, changes


def driven(joint: MovingJoint, qd: Coordinates, tau: Coordinates) -> Balance:
    """The joint force is known, less what friction takes."""
    net = tuple(t - r for t, r in zip(tau, joint.friction(qd), strict=True))
    return lambda k, release, held, xi, s: (net[k], net[k] - s)


def forward_dynamics(mechanism: Driver, q: Column, qd: Column, tau: Column, f_ext: Column,
                     normalized: bool) -> Column:
    """Joint accelerations by way of nud (40) or xid (44), in three sweeps.

    The last one takes the quasi-accelerations back: qdd = xid - Kdot . V+ - K . A+, the
    derivative of (34), where A+ = X A + a is the body's acceleration with its joint held.
    """

    def inward(joint: MovingJoint, carry: ArticulatedMotion, body: MovingBody, q, qd, tau):
        up, solved = solve_joint(joint, carry, body, q, (), driven(joint, qd, tau))
        return up, Solved(body.X, body.held, solved)

    def outward(joint: MovingJoint, parent: Twist, body: Solved, q, qd):
        A = body.X.twist_to_child(parent) + twist_cross_twist(body.held, joint.rate(q, qd))
        held, found = body.held, []
        for k, row in enumerate(body.rows):
            u = _from_nud(row.pivot, row.nud, row.Dd, row.xi) if normalized else row.u
            A, qdd = row.pivot.accelerate(A, u - held.dot(row.DKd))
            A = A + joint.rate_change(q, qd, joint.units[k], (0,) * joint.type.nv) * qd[k]
            held = held + row.pivot.S * qd[k]
            found.append(qdd)
        return A, tuple(found)

    bodies = motions(mechanism, q, qd, f_ext)
    solved, _ = mechanism.inward(inward, ArticulatedMotion.zero(), bodies, q, qd, tau)
    return mechanism.outward(outward, Twist.zero(), solved, q, qd)


@dataclass(frozen=True, slots=True)
class Solved:
    """A joint whose quasi-accelerations are known."""

    X: Transform
    held: Twist
    rows: tuple[Quasi, ...]


def _from_nud(pivot: Pivot, nud: Scalar, Dd: Scalar, xi: Scalar) -> Scalar:
    """u = D xid = D^1/2 nud - 1/2 Ddot xi (46)."""
    return nud * (pivot.D * sqrt(pivot.inverse)) - Dd * xi * 0.5


@dataclass(frozen=True, slots=True)
class Driven:
    """A body whose joint's acceleration is given: A+ is its acceleration with the joint held."""

    moving: MovingBody
    held: Twist


def inverse_dynamics(mechanism: Driver, q: Column, qd: Column, qdd: Column, f_ext: Column,
                     normalized: bool) -> Column:
    """tau = m (nud + C(q, nu)) or (1 + H Phi K)(D xid + C(q, xi)), and friction: two sweeps."""

    def outward(joint: MovingJoint, parent: tuple[Twist, Vector, Twist], q, qd, qdd, f_ext):
        X, s = joint.transform(q), joint.rate(q, qd)
        held, g = X.twist_to_child(parent[0]), X.R.to_child(parent[1])
        A = X.twist_to_child(parent[2]) + twist_cross_twist(held, s)
        body = Driven(move(joint, X, held, held + s, g, qd, f_ext), A)
        return (held + s, g, A + joint.rate_change(q, qd, qd, qdd)), body

    def inward(joint: MovingJoint, carry: ArticulatedMotion, body: Driven, q, qd, qdd):
        up, rows = solve_joint(joint, carry, body.moving, q, (),
                               _accelerated(joint, body.held, q, qd, qdd, normalized))
        losses = joint.friction(qd)
        return up, tuple(row.tau + loss for row, loss in zip(rows, losses, strict=True))

    start = (Twist.zero(), mechanism.gravity, Twist.zero())
    bodies = mechanism.outward(outward, start, q, qd, qdd, f_ext)
    tau, _ = mechanism.inward(inward, ArticulatedMotion.zero(), bodies, q, qd, qdd)
    return tau


def _accelerated(joint: MovingJoint, A: Twist, q: Coordinates, qd: Coordinates, qdd: Coordinates,
                 normalized: bool) -> Balance:
    """The accelerations are known: xid = qdd + K . A+ + Kdot . V+, then nud if asked for."""
    still, held = (0,) * joint.type.nv, [A]
    for k, S in enumerate(joint.subspace(q)):
        change = joint.rate_change(q, qd, joint.units[k], still)
        held.append(held[-1] + S * qdd[k] + change * qd[k])

    def balance(k: int, release: ReleasedRate, twist: Twist, xi: Scalar, s: Scalar):
        pivot = release.pivot
        u = (qdd[k] + held[k].dot(pivot.K)) * pivot.D + twist.dot(release.DKd)
        if normalized:
            nud = (u + release.Dd * xi * 0.5) * sqrt(pivot.inverse)
            u = _from_nud(pivot, nud, release.Dd, xi)
        return u + s, u

    return balance
