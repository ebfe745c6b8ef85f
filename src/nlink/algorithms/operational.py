"""Operational space: J M^-1 J^T in O(n), and its inverse, for one frame or several.

[RK88] announces it; the recursion is psi^T H^T D^-1 H psi = Y + psi~^T Y + Y psi~ with
Y = diag Om(k): base to tip, Om(k) = psi^T(k+1,k) Om(k+1) psi(k+1,k) + H^T(k) D^-1(k) H(k),
Om of the base 0 (numbered from the tip, as in the report).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nlink.algorithms.forward_dynamics import EliminatedJoint, accelerate
from nlink.algorithms.kinematics import at, forward_kinematics
from nlink.algorithms.matrices import Dense, Factors, path, pivots, zeros
from nlink.algorithms.sweep import Column, Driver
from nlink.model.mechanism import Attachment, MovingJoint
from nlink.scalars.functions import Scalar
from nlink.spatial import Matrix, Twist
from nlink.spatial.mobility import SpatialMobility


def mobilities(mechanism: Driver, steps: Column) -> Column:
    """Om(k) of every body, base to tip."""

    def outward(joint: MovingJoint, parent: SpatialMobility, step: EliminatedJoint):
        Om = parent.to_child(step.X)
        for pivot in step.pivots:
            Om = Om.release(pivot)
        return Om, Om

    return mechanism.outward(outward, SpatialMobility.zero(), steps)


def operational_mobility(mechanism: Driver, q: Column, frames: Sequence[Attachment]) -> Dense:
    """J M^-1 J^T, 6k x 6k for k frames, twists (angular, linear) of their origins, world axes.

    A block off the diagonal starts from Om of the last body that carries both frames and goes
    out along either branch: psi^T(c, i) Om(c) psi(c, j). It is zero if only the base does.
    """
    steps, places = pivots(mechanism, q), forward_kinematics(mechanism, q)
    Om = mobilities(mechanism, steps)
    turns = [at(places, mechanism, frame).R for frame in frames]
    result = zeros(6 * len(frames))
    for i, one in enumerate(frames):
        own = mechanism.at(Om, one.body) if one.body else SpatialMobility.zero()
        own = own.shift(one.p).rotate(turns[i])
        _place(result, i, i, own.rows)
        for j in range(i):
            other = frames[j]
            block = cross_mobility(mechanism, steps, Om, one.body - 1, other.body - 1)
            block = [_seen(row, other, turns[j]) for row in block]
            block = [_seen(row, one, turns[i]) for row in transposed(block)]
            _place(result, j, i, tuple(twist.components for twist in block))
    return result


def cross_mobility(mechanism: Driver, steps: Column, Om: Column, i: int, j: int,
                   ) -> list[Twist]:
    """How body i yields to a wrench on body j, six rows in the axes and about the origins of
    the two (from 0): psi^T(c, i) Om(c) psi(c, j), c the last body that carries both."""
    c = _fork(mechanism, i, j)
    if c < 0:
        return [Twist.zero()] * 6
    block = [Twist.of(row) for row in mechanism.at(Om, c + 1).rows]
    return _spread(mechanism, steps, transposed(_spread(mechanism, steps, block, c, i)), c, j)


def operational_inertia(mechanism: Driver, q: Column, frames: Sequence[Attachment]) -> Dense:
    """Lambda = (J M^-1 J^T)^-1, Khatib's operational space inertia.

    Where the frames cannot move in all directions there is no such matrix: with fewer rates on
    the way to the frames than rows it is nan, in a singular state inf, nan or very large.
    """
    mobile = {i for frame in frames for i in path(mechanism, frame.body - 1)}
    size = 6 * len(frames)
    if sum(mechanism.rates[i] for i in mobile) < size:
        return [[math.nan] * size for _ in range(size)]
    W = operational_mobility(mechanism, q, frames)
    factors = Factors.of(W)
    columns = [factors.solve([int(i == k) for i in range(size)]) for k in range(size)]
    return [[columns[max(i, j)][min(i, j)] for j in range(size)] for i in range(size)]


def _place(result: Dense, i: int, j: int, block: Sequence[Sequence[Scalar]]) -> None:
    """Block (i, j), and its transpose at (j, i)."""
    for a, row in enumerate(block):
        for b, x in enumerate(row):
            result[6 * i + a][6 * j + b] = result[6 * j + b][6 * i + a] = x


def _fork(mechanism: Driver, a: int, b: int) -> int:
    """The last body (from 0) that carries both, -1 if it is the base."""
    common = set(path(mechanism, a)) & set(path(mechanism, b))
    return max(common, default=-1)


def _spread(mechanism: Driver, steps: Column, block: list[Twist], start: int, body: int,
            ) -> list[Twist]:
    """psi^T(start, body) on each of six twists.

    A joint without force yields to what its parent does: `accelerate` with u = 0.
    """
    if body == start:
        return block

    def outward(joint: MovingJoint, parent, step: EliminatedJoint, block, first: bool):
        free = replace(step, u=(0,) * joint.type.nv)
        moved = [accelerate(joint, twist, free)[0] for twist in (block if first else parent)]
        return moved, moved

    first = mechanism.structure([parent == start + 1 for parent in mechanism.parents])
    spread = mechanism.outward(outward, [Twist.zero()] * 6, steps, mechanism.same(block), first)
    return mechanism.at(spread, body + 1)


def _seen(t: Twist, frame: Attachment, R: Matrix) -> Twist:
    """A twist of a body as one of a frame fixed in it, in world axes."""
    return Twist(R @ t.angular, R @ (t.linear + t.angular.cross(frame.p)))


def transposed(block: list[Twist]) -> list[Twist]:
    rows = zip(*(twist.components for twist in block), strict=True)
    return [Twist.of(row) for row in rows]
