"""What the three papers state about U D U^T, forward dynamics and the inverse, as checks.

Tolerances of what divides by pivots grow with the condition of the inertia matrix.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from denoc_cases import Case, close

NOTHING = np.zeros((6, 6))


def three_steps(case: Case) -> None:
    """[Saha03, 2.2]: tauhat inward, tautilde, qdd outward, from phi = tau - C qd - g."""
    o = case.o
    phi = case.tau - case.robot.bias(case.q, case.qd, engine="python")
    tauhat, eta = np.zeros(o.n), np.zeros((o.n, 6))
    for i in reversed(case.bodies):
        carried = sum((o.B(k, i).T @ eta[k - 1] for k in o.children(i)), np.zeros(6))
        tauhat[i - 1] = phi[i - 1] - o.p(i) @ carried
        eta[i - 1] = o.psi(i) * tauhat[i - 1] + carried
    close(tauhat, o.Uinv @ phi, np.abs(phi).max(), condition=case.condition)
    tautilde = tauhat / [o.mhat(i) for i in case.bodies]
    mu, qdd = np.zeros((o.n + 1, 6)), np.zeros(o.n)
    for i, parent in enumerate(o.parents, 1):
        carried = o.B(i, parent) @ mu[parent] if parent else np.zeros(6)
        qdd[i - 1] = tautilde[i - 1] - o.psi(i) @ carried
        mu[i] = o.p(i) * qdd[i - 1] + carried
    close(qdd, case.qdd, condition=case.condition)
    for algorithm in ("articulated", "denoc", "composite"):
        other = case.robot.forward_dynamics(case.q, case.qd, case.tau, algorithm=algorithm,
                                            engine="python")
        close(other, qdd, condition=case.condition)


def factors_solve_the_equations(case: Case) -> None:
    o = case.o
    phi = case.tau - case.robot.bias(case.q, case.qd, engine="python")
    close(o.U @ (o.D @ (o.U.T @ case.qdd)), phi, np.abs(case.tau).max())


def modified_inertia_matrix(case: Case) -> None:
    """L_n: the last column is cleared, the rest modified, the last row untouched."""
    o, n = case.o, case.o.n
    L, I = o.L(n).dense(), o.I.dense()
    close(L[:-1, -1], np.zeros(n - 1), np.abs(I).max())
    close(L[-1], I[-1])
    close(L[:-1, :-1], L[:-1, :-1].T, np.abs(I).max())


def elementary_matrices(case: Case) -> None:
    o, n = case.o, case.o.n
    for k in range(2, n + 1):
        alpha = np.array([o.alpha(i, k) if i < k else 0.0 for i in case.bodies])
        unit = np.eye(n)[k - 1]
        close(o.E(k).dense(), np.eye(n) - np.outer(alpha, unit))
        close(o.E(k).T.dense(), o.E(k).dense().T)


def elimination_steps(case: Case) -> None:
    o, n = case.o, case.o.n
    L = o.I.dense()
    for k in range(n, 1, -1):
        L = o.E(k).dense() @ L
        close(o.L(k).dense(), L, np.abs(o.I.dense()).max())


def elements_of_the_elimination(case: Case) -> None:
    """alpha_ik and i_ij^(k) against Gaussian elimination done with numbers."""
    o, n = case.o, case.o.n
    A = o.I.dense()
    size = np.abs(A).max()
    for k in range(n, 1, -1):
        multipliers = A[:k - 1, k - 1] / A[k - 1, k - 1]
        close([o.alpha(i, k) for i in range(1, k)], multipliers, condition=case.condition)
        A = A[:k - 1, :k - 1] - np.outer(multipliers, A[k - 1, :k - 1])
        for i in range(1, k):
            for j in range(1, i + 1):
                rotor = o.rotors[i - 1] * (i == j)
                close(o.p(i) @ o.Mhat(i, k) @ o.B(i, j) @ o.p(j) + rotor, A[i - 1, j - 1], size,
                      condition=case.condition)


def articulated_vectors(case: Case) -> None:
    o = case.o
    for k in case.bodies:
        close(o.psi_hat(k), o.Mhat(k) @ o.p(k))
        close(o.mhat(k), o.p(k) @ o.psi_hat(k) + o.rotors[k - 1])
        for i in case.ancestors(k):
            close(o.psi_hat(i, k), o.B(k, i).T @ o.psi_hat(k))


def normalized_vectors(case: Case) -> None:
    o = case.o
    for k in case.bodies:
        close(o.psi(k), o.psi_hat(k) / o.mhat(k))
        for i in case.ancestors(k):
            close(o.psi(i, k), o.psi_hat(i, k) / o.mhat(k))
        if not o.rotors[k - 1]:
            close(o.p(k) @ o.psi(k), 1.0)


def articulated_mass_is_composite_less_what_yields(case: Case) -> None:
    o = case.o
    for i in case.bodies:
        for k in range(i + 1, o.n + 2):
            yielded = sum((np.outer(o.psi_hat(i, x), o.psi(i, x))
                           for x in case.subtree(i) if x >= k), NOTHING)
            close(o.Mhat(i, k), o.Mtilde(i) - yielded, np.abs(o.Mtilde(i)).max())


def articulated_mass_is_recursive(case: Case) -> None:
    o = case.o
    for i in case.bodies:
        close(o.Mhat(i), o.Mhat(i, i + 1))
        close(o.Mhat(i, i), o.Mhat(i) - np.outer(o.psi_hat(i), o.psi(i)), np.abs(o.Mhat(i)).max())
        for k in range(i + 1, o.n + 2):
            carried = sum((o.B(c, i).T @ o.Mhat(c, k) @ o.B(c, i) for c in o.children(i)), NOTHING)
            close(o.Mhat(i, k), o.M(i) + carried)


def product_of_elementary_matrices(case: Case) -> None:
    o, n = case.o, case.o.n
    E = np.eye(n)
    for k in range(2, n + 1):
        E = E @ o.E(k).dense()
    close(E @ o.I.dense(), o.L(2).dense(), np.abs(o.I.dense()).max() * np.abs(E).max())
    close(np.triu(o.L(2).dense(), 1), np.zeros((n, n)), np.abs(o.I.dense()).max(),
          condition=case.condition)
    close(E, o.Uinv.dense(), condition=case.condition)


def inverse_of_elementary_matrices(case: Case) -> None:
    o, n = case.o, case.o.n
    for k in range(2, n + 1):
        close((o.E(k).inverse @ o.E(k)).dense(), np.eye(n), np.abs(o.E(k).dense()).max())


def upper_factor(case: Case) -> None:
    o, n = case.o, case.o.n
    U = np.eye(n)
    for k in range(n, 1, -1):
        U = U @ o.E(k).inverse.dense()
    close(o.U.dense(), U)
    above = [[o.alpha(i, j) if i < j else float(i == j) for j in case.bodies] for i in case.bodies]
    close(o.U.dense(), above)
    close((o.U @ o.L(2)).dense(), o.I.dense(), np.abs(U).max() * np.abs(o.I.dense()).max())


def diagonal_factor(case: Case) -> None:
    o = case.o
    pivots = np.diag([o.mhat(i) for i in case.bodies])
    close(o.D.dense(), pivots)
    close(o.L(2).dense(), (o.D @ o.U.T).dense(), np.abs(o.I.dense()).max(),
          condition=case.condition)


def inertia_is_its_factors(case: Case) -> None:
    o = case.o
    close((o.U @ o.D @ o.U.T).dense(), case.inertia)
    U, D = case.robot.factor_mass_matrix(case.q, engine="python")
    close(o.U.dense(), U, condition=case.condition)
    close(np.diag(o.D.dense()), D, condition=case.condition)


def blocks_of_the_articulated_mass(case: Case) -> None:
    """[Saha03, 16-17]: I^ and G symmetric, F below; psi_hat in halves."""
    o = case.o
    for i in case.bodies:
        M, p = o.Mhat(i), o.p(i)
        close(M, M.T)
        close(o.psi_hat(i), np.concatenate([M[:3, :3] @ p[:3] + M[3:, :3].T @ p[3:],
                                            M[3:, :3] @ p[:3] + M[3:, 3:] @ p[3:]]))


def neighbouring_inverses_add(case: Case) -> None:
    o, n = case.o, case.o.n
    for k in range(3, n + 1):
        a, b = (np.eye(n) - o.E(j).dense() for j in (k, k - 1))
        close((o.E(k).inverse @ o.E(k - 1).inverse).dense(), np.eye(n) + a + b)


def articulation_transformation(case: Case) -> None:
    """[Saha99b, 35]: Psi carries the articulated mass to the parent."""
    o = case.o
    for i in case.bodies:
        close(o.Psi(i), np.eye(6) - np.outer(o.Mhat(i) @ o.p(i), o.p(i)) / o.mhat(i))
        carried = sum((o.B(c, i).T @ o.Psi(c) @ o.Mhat(c) @ o.B(c, i) for c in o.children(i)),
                      NOTHING)
        close(o.Mhat(i), o.M(i) + carried)
        close(o.Mhat(i, i), o.Psi(i) @ o.Mhat(i), np.abs(o.Mhat(i)).max())


def factors_from_articulated_masses(case: Case) -> None:
    o = case.o
    for j in case.bodies:
        close(o.D(j), o.p(j) @ o.Mhat(j) @ o.p(j) + o.rotors[j - 1])
        for i in case.ancestors(j):
            close(o.U(i, j), o.p(i) @ o.B(j, i).T @ o.Mhat(j) @ o.p(j) / o.mhat(j),
                  np.abs(o.psi(i, j)).max())


def inverse_from_factors(case: Case) -> None:
    o = case.o
    inverse = o.Uinv.dense().T @ np.diag(1 / np.diag(o.D.dense())) @ o.Uinv.dense()
    close(inverse, np.linalg.inv(case.inertia), condition=case.condition)
    close(o.Iinv.dense(), inverse)
    close(case.robot.inverse_mass_matrix(case.q, engine="python"), inverse,
          condition=case.condition)


def neighbouring_elementary_matrices(case: Case) -> None:
    o, n = case.o, case.o.n
    for k in range(3, n + 1):
        a, b = (o.E(j).alpha for j in (k - 1, k))
        one, unit = np.eye(n), np.eye(n)
        close((o.E(k - 1) @ o.E(k)).dense(),
              one - np.outer(a, unit[k - 2]) - np.outer(b - b[k - 2] * a, unit[k - 1]))


def inverse_of_the_upper_factor(case: Case) -> None:
    """alpha'_i = alpha_i - sum alpha_li alpha'_l, U^-1 = 1 - sum alpha'_i lambda_i^T."""
    o, n = case.o, case.o.n
    primed = np.zeros((n, n))
    for i in range(2, n + 1):
        alpha = o.E(i).alpha
        primed[:, i - 1] = alpha - sum((alpha[x - 1] * primed[:, x - 1] for x in range(2, i)),
                                       np.zeros(n))
    close(o.Uinv.dense(), np.eye(n) - primed, condition=case.condition)
    close((o.Uinv @ o.U).dense(), np.eye(n), np.abs(o.U.dense()).max(), condition=case.condition)


def elements_of_the_inverse_factor(case: Case) -> None:
    """alpha'_ij = p_i^T B^_ji^T Mhat_j p_j / mhat_j, B^ through every Psi between."""
    o = case.o
    for j in case.bodies:
        between = case.ancestors(j)
        for at, i in enumerate(between):
            B = o.B(j, between[0])
            for k, below in pairwise(between[:at + 1]):
                B = B @ o.Psi(k).T @ o.B(k, below)
            primed = o.p(i) @ B.T @ o.Mhat(j) @ o.p(j) / o.mhat(j)
            close(o.Uinv(i, j), -primed, np.abs(o.U.dense()).max(), condition=case.condition)
