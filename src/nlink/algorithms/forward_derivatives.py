"""Derivatives of forward dynamics, from those of inverse dynamics.

tau = ID(q, qd, qdd) with qdd = FD(q, qd, tau) holds for all q, qd and tau, so

    dqdd/dq = -M^-1 dID/dq,    dqdd/dqd = -M^-1 dID/dqd,    dqdd/dtau = M^-1

[Carpentier and Mansard 2018, eq. 12], the derivatives of ID being taken at that qdd.

The columns of M are on their way to the base anyway, as the linear forms of
`dynamics_derivatives`: M costs nothing. It is eliminated from the tips to the base, M = U D U^T,
so that what is zero between branches stays zero, and its factors give qdd and every column.
"""

from __future__ import annotations

from nlink.algorithms.dynamics_derivatives import inverse_dynamics_derivatives
from nlink.algorithms.kinematics import body_wrenches
from nlink.algorithms.matrices import (
    Dense,
    TreeFactors,
    accelerating_forces,
    dense,
    mass_matrix,
)
from nlink.algorithms.sweep import Column, Unrolled
from nlink.model.mechanism import Attachment


def forward_dynamics_derivatives(mechanism: Unrolled, q: Column, qd: Column, tau: Column,
                                 links: tuple[Attachment, ...], f_ext: Column | None,
                                 ) -> tuple[Dense, Dense, Dense]:
    """dqdd/dq, dqdd/dqd and dqdd/dtau = M^-1."""
    M = TreeFactors.of(mechanism, dense(mechanism, mass_matrix(mechanism, q)))
    solved = iter(M.solve(accelerating_forces(
        mechanism, q, qd, tau, body_wrenches(mechanism, q, links, f_ext))))
    qdd = [tuple(next(solved) for _ in ts) for ts in tau]
    by_q, by_qd = (dense(mechanism, pairs) for pairs in inverse_dynamics_derivatives(
        mechanism, q, qd, qdd, links, f_ext))
    # a rate changes the forces on what carries it and on what it carries
    n, columns = len(by_q), [*zip(*by_q, strict=True), *zip(*by_qd, strict=True)]
    found = M.accelerate_each(mechanism, [(k % n, column) for k, column in enumerate(columns)])
    return _transposed(found[:n]), _transposed(found[n:]), M.inverse(mechanism)


def _transposed(rows: Dense) -> Dense:
    return [list(column) for column in zip(*rows, strict=True)]
