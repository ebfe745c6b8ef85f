"""Several arms on one object, the object form: a 6x6 system whatever the number of arms.

Each arm alone, with the mobility S_a = Q_a Om_a Q_a^T of its contact, resists a motion of the
object like an inertia phi Q^T S^-1 Q phi^T, and all of them add to that of the object:

    [M_o + sum phi Q^T S^-1 Q phi^T] al_o = f_o - sum phi Q^T S^-1 (what opens contact a).

It needs S_a^-1: an arm must be able to move its contact in every direction that it holds.
Where one cannot (a singular state, an arm with too few joints) the result is nan, and the
contact form is to be used.
"""

from __future__ import annotations

from collections.abc import Sequence

from nlink.algorithms.closed_chains import (
    DEPENDENT,
    added,
    closure_mobility,
    release,
    response,
)
from nlink.algorithms.closures import wrenches
from nlink.algorithms.matrices import Factors, path
from nlink.algorithms.sweep import Column, Unrolled
from nlink.model.joints import Free
from nlink.model.mechanism import Mechanism
from nlink.scalars.functions import Scalar, sign, sqrt
from nlink.spatial import Twist

NEAR = 1e4 * DEPENDENT
"""A relative pivot below this is too near a singular state to divide by."""


_UNITS = tuple(Twist.of([int(i == j) for j in range(6)]) for i in range(6))


def held_object(mechanism: Mechanism | Unrolled) -> int | None:
    """The body (from 0) that all loops hold, if there is one: free, without
    children, each loop coming from a branch of its own with rates enough to move it everywhere."""
    ends = [{closure.a.body - 1, closure.b.body - 1} for closure in mechanism.closures]
    common: set[int] = set.intersection(*ends) if ends else set()
    for body in common - {-1}:
        joint = mechanism.joints[body]
        if not isinstance(joint.type, Free) or mechanism.parents[body] or (
                body + 1 in mechanism.parents):
            continue
        arms = [list(path(mechanism, *(end - {body}))) for end in ends]  # type: ignore[arg-type]
        disjoint = len({i for arm in arms for i in arm}) == sum(map(len, arms))
        able = all(sum(mechanism.joints[i].type.nv for i in arm) >= closure.constraint.count
                   for arm, closure in zip(arms, mechanism.closures, strict=True))
        if disjoint and able:
            return body
    return None


def refuses(mechanism: Mechanism) -> str:
    """Why the object form is not for a mechanism, if it is not."""
    if held_object(mechanism) is not None:
        return ""
    return ("no free body is held by all its loops, each from an arm of its own; "
            "expected 'contact'")


def forward_dynamics(mechanism: Unrolled, q: Column, qd: Column, tau: Column, f_ext: Column,
                     ) -> Column:
    """Joint accelerations of arms that hold one object; nan where an arm is singular."""
    body = held_object(mechanism)
    assert body is not None
    free = release(mechanism, q, qd, tau, f_ext)
    inertia = mechanism.joints[body].inertia
    K = [list((inertia @ unit).components) for unit in _UNITS]
    k: list[Scalar] = [0] * 6
    ends, arms = [], []
    for contact, opening in zip(free.contacts, free.openings, strict=True):
        rows = contact.on_bodies()
        ends += rows
        S, _ = closure_mobility(mechanism, free.steps, [
            tuple(end for end in row if end[0] != body) for row in rows])
        F = [f.components for row in rows for i, f in row if i == body]
        stiff = Factors.of(S, _invert)
        z = stiff.solve(opening)
        Z = [stiff.solve([row[j] for row in F]) for j in range(6)]  # S^-1 Q phi^T, by columns
        for i in range(6):
            for row, x in zip(F, z, strict=True):
                k[i] = k[i] - row[i] * x
            for j in range(i, 6):
                for row, x in zip(F, Z[j], strict=True):
                    K[i][j] = K[i][j] + row[i] * x
        arms.append((F, stiff, opening))
    inertias = Factors.of(K)
    alpha = inertias.solve(k)
    multipliers = [_resist(F, stiff, opening, alpha) for F, stiff, opening in arms]
    # a stiff arm turns the rounding of alpha into forces: so once more, with what is left of
    # M_o alpha = sum phi Q^T lambda, and never through alpha itself
    left = [-x for x in (inertia @ Twist.of(alpha)).components]
    for (F, _, _), forces in zip(arms, multipliers, strict=True):
        for row, x in zip(F, forces, strict=True):
            left = [y + f * x for y, f in zip(left, row, strict=True)]
    more = inertias.solve(left)
    refined = [x + y for (F, stiff, opening), forces in zip(arms, multipliers, strict=True)
               for x, y in zip(forces, _resist(F, stiff, (0,) * len(F), more), strict=True)]
    answer = response(mechanism, free.steps, wrenches(mechanism, ends, refined))
    return added(mechanism, free.qdd, answer)


def _resist(F: Sequence[Sequence[Scalar]], stiff: Factors, opening: Sequence[Scalar],
            alpha: Sequence[Scalar]) -> list[Scalar]:
    """-S^-1 (opening + Q phi^T alpha): the forces of an arm on an object that moves."""
    for j, x in enumerate(alpha):
        opening = [c + row[j] * x for c, row in zip(opening, F, strict=True)]
    return [-x for x in stiff.solve(opening)]


def _invert(_k: int, pivot: Scalar, whole: Scalar) -> Scalar:
    """1 / pivot, nan where the pivot is too small a part of its row's mobility."""
    return sqrt(sign(pivot - NEAR * whole)) / pivot
