"""The inertia matrix, its factors and its inverse, column by column.

Elements couple every joint with those that carry it: a column is a sweep along one path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from nlink.algorithms.forward_dynamics import (
    ArticulatedBody,
    EliminatedJoint,
    accelerate,
    articulate,
)
from nlink.algorithms.inverse_dynamics import bias
from nlink.algorithms.sweep import Column, Driver, Pairs, Unrolled
from nlink.model.mechanism import MovingJoint
from nlink.scalars.functions import Scalar, Scalars, divide
from nlink.spatial import RigidInertia, Transform, Twist, Wrench

Dense = list[list[Scalar]]


@dataclass(frozen=True, slots=True)
class Composite:
    """A body, the transform to its parent, and the inertia of all that it carries."""

    X: Transform
    I: RigidInertia


def composites(mechanism: Driver, q: Column) -> Column:
    """Composite inertias, Mtilde_i = M_i + sum B^T Mtilde_child B [Saha99, 23b]."""

    def inward(joint: MovingJoint, carried: RigidInertia, q):
        X, I = joint.transform(q), carried + joint.inertia
        return I.to_parent(X), Composite(X, I)

    return mechanism.inward(inward, RigidInertia.zero(), q)[0]


def rates(mechanism: Driver) -> list[range]:
    """The numbers of each joint's rates."""
    return [range(end - nv, end)
            for nv, end in zip(mechanism.rates, accumulate(mechanism.rates), strict=True)]


def path(mechanism: Driver, body: int) -> Iterator[int]:
    """The bodies (from 0) from one to the base, itself first."""
    while body >= 0:
        yield body
        body = mechanism.parents[body] - 1


def mass_matrix(mechanism: Driver, q: Column) -> Pairs:
    """I_ij = p_i^T Mtilde_i B_ij p_j [Saha99, 24], with the armatures on the diagonal."""

    def start(joint: MovingJoint, k: int, body: Composite, q):
        S = joint.subspace(q)
        f = [body.I @ twist for twist in S]
        own = [S[min(row, k)].dot(f[max(row, k)]) for row in range(len(S))]
        own[k] = own[k] + joint.armature[k]
        return body.X.wrench_to_parent(f[k]), tuple(own)

    def inward(joint: MovingJoint, f: Wrench, body: Composite, q):
        row = tuple(twist.dot(f) for twist in joint.subspace(q))
        return body.X.wrench_to_parent(f), (row, row)

    return mechanism.columns(start, inward, composites(mechanism, q), q)


def pivots(mechanism: Driver, q: Column) -> Column:
    """The elimination of every joint, without forces."""

    def inward(joint: MovingJoint, carried: ArticulatedBody, q):
        return articulate(joint, joint.transform(q), carried, Wrench.zero(), q,
                          (0,) * joint.type.nv)

    return mechanism.inward(inward, ArticulatedBody.zero(), q)[0]


def factor(mechanism: Driver, q: Column) -> tuple[Pairs, Column]:
    """U and D of M = U D U^T: U_ij = alpha_ij = p_i^T B_ji^T psi_j, D_j = m^_j [Saha99, 46]."""

    def start(joint: MovingJoint, k: int, step: EliminatedJoint):
        K = step.pivots[k].K
        own = (*(pivot.S.dot(K) for pivot in step.pivots[:k]), 1)
        return step.X.wrench_to_parent(K), (*own, *(0,) * (joint.type.nv - k - 1))

    def inward(joint: MovingJoint, f: Wrench, step: EliminatedJoint):
        row = tuple(pivot.S.dot(f) for pivot in step.pivots)
        return step.X.wrench_to_parent(f), (row, (0,) * joint.type.nv)

    steps = pivots(mechanism, q)
    D = mechanism.each(lambda joint, step: tuple(pivot.D for pivot in step.pivots), steps)
    return mechanism.columns(start, inward, steps), D


def inverse_by_columns(mechanism: Driver, q: Column) -> Pairs:
    """M^-1 in O(n^2): how the joints answer to a unit force at each, steps B and C of
    [Saha03, 2.2] with the elimination of step A made once.

    A column goes inward along one path and outward over the joints before its own; the rest
    follows from symmetry.
    """

    def start(joint: MovingJoint, k: int, step: EliminatedJoint):
        f, us = step.pivots[k].K, [int(row == k) for row in range(joint.type.nv)]
        for row in reversed(range(k)):
            us[row], f = step.pivots[row].eliminate(f)
        return step.X.wrench_to_parent(f), tuple(us)

    def inward(joint: MovingJoint, f: Wrench, step: EliminatedJoint):
        us = []
        for pivot in reversed(step.pivots):
            u, f = pivot.eliminate(f)
            us.append(u)
        return step.X.wrench_to_parent(f), (tuple(us[::-1]), ())

    def outward(joint: MovingJoint, parent: Twist, us, step: EliminatedJoint):
        return accelerate(joint, parent, replace(step, u=us))

    steps = pivots(mechanism, q)
    return mechanism.answers(outward, Twist.zero(), mechanism.columns(start, inward, steps), steps)


def inverse_mass_matrix(mechanism: Unrolled, q: Column) -> Dense:
    """M^-1 = U^-T D^-1 U^-1 with the columns of U^-1 from the recursion [Saha99b, 36-41].

    Column j of U^-1 is what a unit force at joint j leaves at each joint below: a wrench
    goes down the tree and every joint on its way yields to it.
    """
    steps, number = pivots(mechanism, q), rates(mechanism)
    n = sum(map(len, number))
    V = identity(n)
    for j, step in enumerate(steps):
        for k, pivot in zip(number[j], step.pivots, strict=True):
            f = pivot.K
            for i in path(mechanism, j):
                f = _eliminate_before(steps[i], number[i], k, f, V)
                f = steps[i].X.wrench_to_parent(f)
    inverse = [pivot.inverse for step in steps for pivot in step.pivots]
    scaled = [[V[k][j] * inverse[k] for j in range(n)] for k in range(n)]
    result = zeros(n)
    for i in range(n):
        for j in range(i, n):
            terms = (V[k][i] * scaled[k][j] for k in range(i, -1, -1))
            result[i][j] = result[j][i] = _sum(terms)
    return result


def _eliminate_before(step: EliminatedJoint, number: range, k: int, f: Wrench, V: Dense) -> Wrench:
    """Eliminate the rates of a joint before rate k from a wrench, and note their share in V."""
    for row, pivot in reversed(list(zip(number, step.pivots, strict=True))):
        if row < k:
            V[row][k], f = pivot.eliminate(f)
    return f


def composite_dynamics(mechanism: Unrolled, q: Column, qd: Column, tau: Column, f_ext: Column,
                       ) -> list[Scalar]:
    """Joint accelerations by Walker and Orin's O(n^3) method: M from composite inertias, the
    bias from inverse dynamics, then a dense elimination without square roots."""
    b = accelerating_forces(mechanism, q, qd, tau, f_ext)
    return dense_solve(dense(mechanism, mass_matrix(mechanism, q)), b)


def accelerating_forces(mechanism: Unrolled, q: Column, qd: Column, tau: Column, f_ext: Column,
                        ) -> list[Scalar]:
    """tau - friction - C qd - g + J^T f_ext: what is left for M qdd."""
    rows = zip(mechanism.joints, tau, qd, bias(mechanism, q, qd, f_ext), strict=True)
    return [t - friction - c for joint, ts, xs, cs in rows
            for t, friction, c in zip(ts, joint.friction(xs), cs, strict=True)]


def dense(mechanism: Unrolled, pairs: Pairs) -> Dense:
    """All elements of a matrix that is known by its columns."""
    number = rates(mechanism)
    result = zeros(sum(map(len, number)))
    for k, (_, column) in enumerate(pairs.columns):
        for i, (rows, across) in column.items():
            for row, x in zip(number[i], rows, strict=True):
                result[row][k] = x
            for row, x in zip(number[i], across, strict=False):
                result[k][row] = x
    return result


def dense_solve(M: Dense, b: list[Scalar]) -> list[Scalar]:
    """M x = b for symmetric M by L D L^T."""
    return Factors.of(M).solve(b)


@dataclass(frozen=True, slots=True)
class Factors:
    """L and the inverse pivots of a symmetric matrix, L D L^T."""

    L: Dense
    inverses: list[Scalar]

    @classmethod
    def of(cls, S: Dense, invert: Callable[[int, Scalar, Scalar], Scalar] = (
            lambda _k, pivot, _whole: divide(1, pivot))) -> Factors:
        """`invert(k, pivot, S_kk)` is the inverse of a pivot, or 0 to leave its row out. If the
        equations have a solution, those without redundant rows have the same."""
        M, n, inverses = [row[:] for row in S], len(S), []
        for k in range(n):
            inverse = invert(k, M[k][k], S[k][k])
            for i in range(k + 1, n):
                ratio = M[k][i] * inverse
                for j in range(i, n):
                    M[i][j] = M[i][j] - ratio * M[k][j]
                M[i][k] = ratio
            inverses.append(inverse)
        return cls(M, inverses)

    def solve(self, b: Sequence[Scalar]) -> list[Scalar]:
        x, n = list(b), len(b)
        for k in range(n):
            for i in range(k + 1, n):
                x[i] = x[i] - self.L[i][k] * x[k]
            x[k] = x[k] * self.inverses[k]
        for k in reversed(range(n)):
            for i in range(k + 1, n):
                x[k] = x[k] - self.L[i][k] * x[i]
        return x


@dataclass(frozen=True, slots=True)
class TreeFactors:
    """U D U^T of the mass matrix of a tree, tips first: what is zero between branches stays zero.

    Rates are numbers from 0, and `paths` has for each those that carry it, the nearest first.
    """

    paths: tuple[tuple[int, ...], ...]
    U: Dense
    inverses: list[Scalar]
    _responses: dict[tuple[int, int], list[Scalar]] = field(default_factory=dict)

    @classmethod
    def of(cls, mechanism: Driver, M: Dense) -> TreeFactors:
        paths = rate_paths(mechanism)
        U, inverses = [row[:] for row in M], list[Scalar]([0.0] * len(M))
        for k in reversed(range(len(M))):
            inverses[k] = divide(1, U[k][k])
            for at, i in enumerate(paths[k]):
                ratio = U[k][i] * inverses[k]
                for j in paths[k][at:]:
                    U[i][j] = U[i][j] - ratio * U[k][j]
                U[i][k] = ratio
        return cls(paths, U, inverses)

    def solve(self, b: Sequence[Scalar], rate: int | None = None) -> list[Scalar]:
        """M^-1 b.

        If a rate is given, b is zero but for this rate, those that carry it and those that it
        carries; all others follow what carries them.
        """
        loaded, x = self._loaded(rate), list(b)
        for k in reversed(range(len(x))):
            if loaded[k]:
                for i in self.paths[k]:
                    x[i] = x[i] - self.U[i][k] * x[k]
                x[k] = x[k] * self.inverses[k]
        for k, path in enumerate(self.paths):
            if loaded[k]:
                for i in reversed(path):  # the nearest last: it is known last
                    x[k] = x[k] - self.U[i][k] * x[i]
            elif (last := next((i for i in path if loaded[i]), None)) is not None:
                x[k] = dot(self.response(k, last), [x[i] for i in (last, *self.paths[last])])
        return x

    def accelerate_each(self, mechanism: Unrolled, columns: Sequence[tuple[int, Sequence[Scalar]]],
                        then: Callable[..., Scalars] | None = None, shared: Any = (),
                        ) -> list[list[Scalar]]:
        """-M^-1 b for columns b of rates, such as `solve` has them; within the step a sign is free.
        Rates between two branchings of the tree load the same others, so their columns take the
        same operations.

        `then(x, shared, rest)`, if given, makes the result of each x = -M^-1 b; the rest is
        what a column has behind b.
        """
        return self._repeated(mechanism, columns, lambda _rates: None, then, shared)

    def inverse(self, mechanism: Unrolled) -> Dense:
        """M^-1: of each column what is above the diagonal, the rest by symmetry."""
        units = [(k, [-x for x in unit]) for k, unit in enumerate(identity(len(self.paths)))]
        columns = self._repeated(mechanism, units, lambda rates: max(rates) + 1)
        return [[columns[max(i, j)][min(i, j)] for j, _ in units] for i, _ in units]

    def _repeated(self, mechanism: Unrolled, columns: Sequence[tuple[int, Sequence[Scalar]]],
                  upto: Callable[[Sequence[int]], int | None],
                  then: Callable[..., Scalars] | None = None, more: Any = (),
                  ) -> list[list[Scalar]]:
        """`accelerate_each`; for columns of some rates that are alike, elements before `upto`."""
        n, alike = len(self.paths), dict[tuple[bool, ...], list[int]]()
        for number, (rate, _) in enumerate(columns):
            alike.setdefault(self._loaded(rate), []).append(number)
        found = dict[int, list[Scalar]]()
        for numbers in alike.values():
            rates = [columns[number][0] for number in numbers]
            self.solve([0.0] * len(self.paths), rates[0])  # makes the responses, which all share
            keys, end = tuple(self._responses), upto(rates)

            def step(shared, b, rate: int = rates[0], end: int | None = end,
                     keys: Sequence[tuple[int, int]] = keys):
                U, inverses, responses, given = shared
                own = TreeFactors(self.paths, U, inverses, dict(zip(keys, responses, strict=True)))
                x = own.solve([-x for x in b[:n]], rate)[:end]
                return x if then is None else then(x, given, b[n:])

            found |= zip(numbers, mechanism.repeat(
                step, (self.U, self.inverses, tuple(self._responses.values()), more),
                [columns[number][1] for number in numbers]), strict=True)
        return [found[number] for number in range(len(columns))]

    def _loaded(self, rate: int | None) -> tuple[bool, ...]:
        """Whether forces on a rate, on those that carry it and on those it carries load each."""
        return tuple(rate is None or k == rate or k in self.paths[rate] or rate in path
                     for k, path in enumerate(self.paths))

    def response(self, k: int, last: int) -> list[Scalar]:
        """How rate k follows `last` and those that carry it, if no force acts in between."""
        if (k, last) not in self._responses:
            between = self.paths[k][:self.paths[k].index(last)]
            row = [-self.U[i][k] for i in (last, *self.paths[last])]
            for c in between:
                row = [x - self.U[c][k] * y for x, y in zip(row, self.response(c, last),
                                                            strict=True)]
            self._responses[k, last] = row
        return self._responses[k, last]


def rate_paths(mechanism: Driver) -> tuple[tuple[int, ...], ...]:
    """For each rate the rates that carry it, the nearest first; of one joint, those before it."""
    number, paths = rates(mechanism), list[tuple[int, ...]]()
    for own, parent in zip(number, mechanism.parents, strict=True):
        above = number[parent - 1][-1] if parent else None
        for k in own:
            before = k - 1 if k > own.start else above
            paths.append(() if before is None else (before, *paths[before]))
    return tuple(paths)


def dot(a: Scalars, b: Scalars) -> Scalar:
    """The sum of products."""
    return sum((x * y for x, y in zip(a, b, strict=True)), 0.0)


def zeros(n: int) -> Dense:
    return [[0] * n for _ in range(n)]


def identity(n: int) -> Dense:
    return [[int(i == j) for j in range(n)] for i in range(n)]


def _sum(terms: Iterator[Scalar]) -> Scalar:
    total: Scalar = next(terms)
    for term in terms:
        total = total + term
    return total
