"""Composite and articulated masses, tip to base: the two inward recursions of the papers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlink.papers.operators.linear import Array
from nlink.papers.operators.state import Bodies


def composite(bodies: Bodies, steps: Array) -> Array:
    """Mtilde_i = M_i + sum B_ci^T Mtilde_c B_ci over the children c [Saha99, 23b]."""
    total = bodies.mass.copy()
    for i in reversed(range(len(steps))):
        parent, B = bodies.parents[i], steps[i]
        if parent:
            total[parent - 1] += B.T @ total[i] @ B
    return total


@dataclass(frozen=True, eq=False)
class Articulated:
    """Reverse Gaussian elimination of the joints, last first [Saha99, Appendix B]."""

    Mhat: Array
    """(n, 6, 6): body i with all that its joints leave it to feel, Mhat_i [Saha99, 50]."""
    passed: Array
    """(n, 6, 6): Mhat_ii = Mhat_i - psi_hat_i psi_i^T, what the parent of i feels."""
    psi_hat: Array
    """(n, 6): Mhat_i p_i [Saha99, 47]."""
    mhat: Array
    """(n,): the pivots p_i^T psi_hat_i, and the armature [Saha99, 47]."""
    psi: Array
    """(n, 6): psi_hat_i / mhat_i [Saha99, 48]; inf or nan where a pivot is zero."""

    @classmethod
    def of(cls, bodies: Bodies, steps: Array) -> Articulated:
        Mhat = bodies.mass.copy()
        passed = np.empty_like(Mhat)
        psi_hat, psi = np.empty_like(bodies.p), np.empty_like(bodies.p)
        mhat = np.empty(len(steps), bodies.p.dtype)
        with np.errstate(divide="ignore", invalid="ignore"):
            for i in reversed(range(len(steps))):
                parent, B = bodies.parents[i], steps[i]
                psi_hat[i] = Mhat[i] @ bodies.p[i]
                mhat[i] = bodies.p[i] @ psi_hat[i] + bodies.armature[i]
                psi[i] = psi_hat[i] / mhat[i]
                passed[i] = Mhat[i] - np.outer(psi_hat[i], psi[i])
                if parent:
                    Mhat[parent - 1] += B.T @ passed[i] @ B
        return cls(Mhat, passed, psi_hat, mhat, psi)
