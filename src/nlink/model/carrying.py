"""Which bodies may hang on which joints and loops: those that resist each of the rates alone.

A body without mass of its own, such as the links between the parts of a composite joint, is
accelerated by what it carries. In the author's tree that is so; in another one such a body may be a
tip, and its rates would then have no inertia at all (`model.cycles`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlink.model.constraints import steady_freedom
from nlink.model.mechanism import Attachment, Mechanism
from nlink.spatial import Matrix, RigidInertia, Twist

LEAST = 1e-12
"""The share of a body's largest inertia that is rounding."""

Carries = tuple[bool, bool]
"""Whether a joint or loop may carry the one of its bodies, and the other."""


def carries_of(mechanism: Mechanism) -> tuple[Carries, ...]:
    """For each joint, then each closure, whether its child and its parent resist alone."""
    bodies = [joint.inertia for joint in mechanism.joints]
    found: list[Carries] = []
    for k, (joint, parent) in enumerate(zip(mechanism.joints, mechanism.parents, strict=True)):
        q = joint.type.space.neutral
        S, X = joint.subspace(q), joint.transform(q)
        armature = [float(x) for x in joint.armature]
        found.append((
            _resists(bodies[k], S, armature),
            not parent or _resists(bodies[parent - 1], [X.twist_to_parent(s) for s in S],
                                   armature)))
    for closure in mechanism.closures:
        if not closure.constraint.carries:
            found.append((False, False))
            continue
        S = (steady_freedom(closure.constraint) if closure.constraint.name != "universal"
             else closure.constraint.freedom(Matrix.identity())).S
        found.append((_holds(bodies, closure.a, S), _holds(bodies, closure.b, S)))
    return tuple(found)


def _holds(bodies: Sequence[RigidInertia], end: Attachment, S: Sequence[Twist]) -> bool:
    """Whether a loop may carry the body at one of its ends."""
    if not end.body:
        return True
    twists = []
    for s in S:
        w = end.R @ s.angular
        twists.append(Twist(w, end.R @ s.linear + end.p.cross(w)))
    return _resists(bodies[end.body - 1], twists, [0.0] * len(twists))


def _resists(body: RigidInertia, S: Sequence[Twist], armature: Sequence[float]) -> bool:
    """Whether S^T I S + armature is positive: all rates have an inertia."""
    if not S:
        return True
    D = np.array([[float(s.dot(body @ t)) for t in S] for s in S]) + np.diag(armature)
    scale = np.sqrt(np.diag(D))
    if not (scale > 0).all():
        return False
    return bool(np.linalg.eigvalsh(D / np.outer(scale, scale))[0] > LEAST)
