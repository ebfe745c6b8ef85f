"""Composite and articulated inertias, tip to base: the two inward recursions of the papers.

`steps[i]` brings a twist of the parent of body i + 1 to it: B of the Saha papers, phi^T of [RK88].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlink.papers.operators.inverse import block_inverse
from nlink.papers.operators.linear import Array


def composite(parents: Sequence[int], inertias: Array, steps: Array) -> Array:
    """Mtilde_i = M_i + sum B_ci^T Mtilde_c B_ci over the children c [Saha99, 23b]."""
    total = inertias.copy()
    for i in reversed(range(len(parents))):
        parent, B = parents[i], steps[i]
        if parent:
            total[parent - 1] += B.T @ total[i] @ B
    return total


@dataclass(frozen=True, eq=False)
class Articulated:
    """Reverse Gaussian elimination of the joints, last first: [Saha99, Appendix B], the Riccati
    equation of [RK88, 4.4-4.6], (12) of [Koz95]."""

    P: Array
    """(n, 6, 6): body i with all that its joints leave it to feel, Mhat_i [Saha99, 50]."""
    passed: Array
    """(n, 6, 6): P - G H P, what the parent of i feels, Mhat_ii."""
    D: list[Array]
    """The pivots H P H^T, and the armatures: mhat_i [Saha99, 47]."""
    G: list[Array]
    """P H^T D^-1, psi_i [Saha99, 48]; inf or nan where a pivot is zero."""

    @classmethod
    def of(cls, parents: Sequence[int], inertias: Array, axes: Sequence[Array] | Array,
           armature: Sequence[Array] | Array, steps: Array) -> Articulated:
        """`axes[i]` has a row for each rate of joint i + 1, `armature[i]` is a square block."""
        P = inertias.astype(np.result_type(inertias, steps, *axes))
        passed = np.empty_like(P)
        D, G = [np.zeros((0, 0))] * len(P), [np.zeros((6, 0))] * len(P)
        with np.errstate(divide="ignore", invalid="ignore"):
            for i in reversed(range(len(P))):
                H, B, parent = axes[i], steps[i], parents[i]
                D[i] = H @ P[i] @ H.T + armature[i]
                G[i] = P[i] @ H.T @ block_inverse(D[i])
                passed[i] = P[i] - G[i] @ H @ P[i]
                if parent:
                    P[parent - 1] += B.T @ passed[i] @ B
        return cls(P, passed, D, G)
