"""What [Saha99, 1-32] state about motion and the equations of motion, each as a check.

The papers write chains; a check is written for trees, where i + 1 is every child of i.
"""

from __future__ import annotations

import numpy as np
from denoc_cases import Case, close

from nlink.papers.operators.origins import tilde


def tilde_block(w: np.ndarray) -> np.ndarray:
    return np.block([[tilde(w), np.zeros((3, 3))], [np.zeros((3, 3)), tilde(w)]])


def axis(p: np.ndarray) -> np.ndarray:
    return p[:3] if p[:3].any() else p[3:]


def twist_is_angular_and_mass_centre_velocity(case: Case) -> None:
    o = case.o
    close(o.t.reshape(o.n, 6)[:, 3:], case.rate(lambda x: x.links.origin), np.abs(case.qd).max())
    turning = case.rate(lambda x: x.links.M)[:, :3, :3]
    for i in case.bodies:
        w, I = tilde(o.t[6 * i - 6:6 * i - 3]), o.M(i)[:3, :3]
        close(turning[i - 1], w @ I - I @ w, np.abs(w).max() * np.abs(I).max())


def blocks_of_spin_and_mass(case: Case) -> None:
    o = case.o
    for i in case.bodies:
        w = o.t[6 * i - 6:6 * i - 3]
        close(o.Omega(i), tilde_block(w))
        M = o.M(i)
        assert not M[:3, 3:].any()
        close(M[3:, 3:], M[3, 3] * np.eye(3))
        close(M, M.T)


def stacks_are_rows_of_blocks(case: Case) -> None:
    o = case.o
    for name in ("M", "Omega", "Mdot"):
        dense = getattr(o, name).dense()
        blocks = np.zeros_like(dense)
        for i in case.bodies:
            blocks[6 * i - 6:6 * i, 6 * i - 6:6 * i] = getattr(o, name)(i)
        close(dense, blocks)
    assert o.t.shape == (6 * o.n,)


def wrench_is_rate_of_momentum(case: Case) -> None:
    o = case.o
    momentum = case.rate(lambda x: x.M @ x.t)
    weight = o.M @ np.tile(np.concatenate([np.zeros(3), o.links.gravity]), o.n)
    close(o.w(case.qdd), momentum - weight, np.abs(weight).max())


def mass_rate_is_exact_on_the_twist(case: Case) -> None:
    o = case.o
    true = o.Omega @ o.M @ o.t - o.M @ o.Omega @ o.t
    gyroscopic = true.reshape(o.n, 6)[:, :3]
    close((o.Mdot @ o.t).reshape(o.n, 6)[:, :3], gyroscopic, np.abs(o.w(case.qdd)).max())


def velocities_across_a_revolute_joint(case: Case) -> None:
    o = case.o
    t = o.t.reshape(o.n, 6)
    for i, parent in enumerate(o.parents, 1):
        p = o.p(i)
        if not parent or not p[:3].any():
            continue
        w, w_j = t[i - 1, :3], t[parent - 1, :3]
        close(w, w_j + case.qd[i - 1] * p[:3])
        d = np.cross(p[3:], p[:3])  # from the axis to C_i
        r = o.links.origin[i - 1] - d - o.links.origin[parent - 1]
        v = t[parent - 1, 3:] + np.cross(w_j, r) + np.cross(w, d)
        close(t[i - 1, 3:], v, np.abs(w).max() * np.abs(r).max())
        close(o.B(i, parent)[3:, :3], tilde(-d - r))


def twists_propagate(case: Case) -> None:
    o = case.o
    for i, parent in enumerate(o.parents, 1):
        carried = o.B(i, parent) @ o.t[6 * parent - 6:6 * parent] if parent else np.zeros(6)
        close(o.t[6 * i - 6:6 * i], carried + o.p(i) * case.qd[i - 1], np.abs(carried).max())


def propagation_of_revolute_joints(case: Case) -> None:
    o = case.o
    for i in case.bodies:
        p = o.p(i)
        if p[:3].any():
            close(np.linalg.norm(p[:3]), 1.0)
            close(p[:3] @ p[3:], 0.0, np.abs(p).max())
    for i, j in case.pairs:
        c = o.links.origin[j - 1] - o.links.origin[i - 1]
        close(o.B(i, j), np.block([[np.eye(3), np.zeros((3, 3))], [tilde(c), np.eye(3)]]))


def propagation_composes_and_inverts(case: Case) -> None:
    o = case.o
    for i, j in case.pairs:
        for k in case.ancestors(j):
            close(o.B(i, j) @ o.B(j, k), o.B(i, k), np.abs(o.B(i, j)).max())
        close(o.B(i, j) @ o.B(j, i), np.eye(6), np.abs(o.B(i, j)).max())
        close(o.B(i, i), np.eye(6))


def propagation_of_prismatic_joints(case: Case) -> None:
    for i in case.bodies:
        p = case.o.p(i)
        if not p[:3].any():
            close(np.linalg.norm(p[3:]), 1.0)


def twist_is_complement_times_rates(case: Case) -> None:
    o = case.o
    close(o.t, o.N.dense() @ case.qd)
    close(o.N.dense(), o.Nl.dense() @ o.Nd.dense(), np.abs(o.Nl.dense()).max())


def complement_is_triangular_times_diagonal(case: Case) -> None:
    o = case.o
    Nl, Nd = o.Nl.dense(), o.Nd.dense()
    for i in case.bodies:
        for j in case.bodies:
            block = Nl[6 * i - 6:6 * i, 6 * j - 6:6 * j]
            close(block, o.B(i, j) if j == i or j in case.ancestors(i) else np.zeros((6, 6)))
            column = Nd[6 * i - 6:6 * i, j - 1]
            close(column, o.p(i) if i == j else np.zeros(6))


def constraint_wrenches_do_no_work(case: Case) -> None:
    """A joint transmits wtilde_i; all of it but the drive along its axis is constraint."""
    o = case.o
    f = o.wtilde(case.qdd).reshape(o.n, 6)
    for i in case.bodies:
        p, drive = o.p(i), np.zeros(6)
        part = slice(0, 3) if p[:3].any() else slice(3, 6)
        drive[part] = axis(p) * (p @ f[i - 1])
        f[i - 1] -= drive
    internal = (1 - o.step.T) @ f.ravel()
    close(o.N.T @ internal, np.zeros(o.n), np.abs(internal).max() * np.abs(o.N.dense()).max())


def complement_projects_newton_euler(case: Case) -> None:
    o = case.o
    rotors = o.rotors * case.qdd
    close(o.N.T @ (o.M @ o.tdot(case.qdd) + o.Mdot @ o.t) + rotors, case.tau,
          np.abs(o.w(case.qdd)).max())


def equations_of_motion(case: Case) -> None:
    o, robot = case.o, case.robot
    gravity = robot.gravity_torque(case.q, engine="python")
    close(o.I @ case.qdd + o.C @ case.qd, case.tau - gravity, np.abs(case.tau).max(),
          np.abs(gravity).max())
    close(o.I.dense(), (o.N.T @ o.M @ o.N + o.armature).dense())
    close(o.C.dense(), (o.N.T @ (o.M @ o.Ndot + o.Mdot @ o.N)).dense(),
          np.abs(o.Mtilde_prime.dense()).max())


def twist_rate_is_that_of_the_twist(case: Case) -> None:
    o = case.o
    lift = np.tile(np.concatenate([np.zeros(3), -o.links.gravity]), o.n)
    close(o.tdot(case.qdd) - lift, case.rate(lambda x: x.t), np.abs(o.tdot(case.qdd)).max())
    close(o.Ndot.dense(), case.rate(lambda x: x.N.dense()), np.abs(o.t).max())


def inertia_from_composite_masses(case: Case) -> None:
    o = case.o
    close(o.Mtilde.dense(), o.Nl.dense().T @ o.M.dense() @ o.Nl.dense())
    inertia = o.Nd.dense().T @ o.Mtilde.dense() @ o.Nd.dense() + o.armature.dense()
    close(inertia, case.inertia)
    close(o.I.dense(), case.inertia)


def composite_blocks(case: Case) -> None:
    o = case.o
    scale = np.abs(o.Mtilde.dense()).max()
    for i in case.bodies:
        for j in range(1, i):
            block = o.Mtilde(i) @ o.B(i, j) if j in case.ancestors(i) else np.zeros((6, 6))
            close(o.Mtilde(i, j), block, scale)
            close(o.Mtilde(j, i), block.T, scale)


def composite_mass_is_a_sum(case: Case) -> None:
    o = case.o
    for i in case.bodies:
        close(o.Mtilde(i), sum(o.B(k, i).T @ o.M(k) @ o.B(k, i) for k in case.subtree(i)))


def composite_mass_is_recursive(case: Case) -> None:
    o = case.o
    for i in case.bodies:
        carried = sum((o.B(k, i).T @ o.Mtilde(k) @ o.B(k, i) for k in o.children(i)),
                      np.zeros((6, 6)))
        close(o.Mtilde(i), o.M(i) + carried)


def elements_of_inertia(case: Case) -> None:
    o = case.o
    close([[o.i(i, j) for j in case.bodies] for i in case.bodies], case.inertia)


def convective_matrix(case: Case) -> None:
    """C by (25), its laws, and its kinship with `coriolis_matrix`."""
    o, robot = case.o, case.robot
    C, scale = o.C.dense(), np.abs(o.Mtilde_prime.dense()).max()
    close(C, o.Nd.dense().T @ o.Mtilde_prime.dense() @ o.Nd.dense(), scale)
    Idot = case.rate(lambda x: x.I.dense())
    close(Idot, C + C.T, scale)
    bias, gravity = (f(engine="python") for f in (
        lambda **how: robot.bias(case.q, case.qd, **how),
        lambda **how: robot.gravity_torque(case.q, **how)))
    close(C @ case.qd, bias - gravity, scale, np.abs(gravity).max())
    K = C - robot.coriolis_matrix(case.q, case.qd, engine="python")
    close(K, -K.T, scale)
    close(K @ case.qd, np.zeros(o.n), scale * np.abs(case.qd).max())


def rates_of_the_complements(case: Case) -> None:
    o = case.o
    speed = np.abs(o.t).max()
    close(o.Nddot.dense(), case.rate(lambda x: x.Nd.dense()), speed)
    close(o.Nldot.dense(), case.rate(lambda x: x.Nl.dense()), speed)
    for i, j in case.pairs:
        close(o.Bdot(i, j), case.rate(lambda x, i=i, j=j: x.B(i, j)), speed)
    close(o.Mdottilde.dense(), o.Nl.dense().T @ o.Mdot.dense() @ o.Nl.dense())


def blocks_of_the_convective_parts(case: Case) -> None:
    o = case.o
    first, second = o.Nl.T @ o.M @ o.Nldot, o.Mdottilde
    size = np.abs(first.dense()).max()
    turning = {i: sum(o.Mdot(k) for k in case.subtree(i)) for i in case.bodies}
    for i in case.bodies:
        for j in case.bodies:
            if j in case.ancestors(i):
                expected, turned = o.H(i, j), turning[i]
            elif i == j or i in case.ancestors(j):
                expected = sum((o.B(k, i).T @ o.H(k, j) for k in o.children(j)), np.zeros((6, 6)))
                turned = turning[j]
            else:
                expected = turned = np.zeros((6, 6))
            close(first(i, j), expected, size)
            close(second(i, j), turned, np.abs(second.dense()).max())


def recursions_of_the_convective_parts(case: Case) -> None:
    o = case.o
    size = np.abs((o.Nl.T @ o.M @ o.Nldot).dense()).max()
    for i in case.bodies:
        carried = sum((o.Mdottilde(k) for k in o.children(i)), np.zeros((6, 6)))
        close(o.Mdottilde(i), o.Mdot(i) + carried)
    for i, j in case.pairs:
        own = sum((o.B(k, i).T @ o.H(k, i) for k in o.children(i)), np.zeros((6, 6)))
        far = sum((o.B(k, i).T @ o.H(k, j) for k in o.children(i)), np.zeros((6, 6)))
        close(o.H(i, j), o.Mtilde(i) @ o.Bdot(i, j) + own, size)
        close(o.H(i, j), o.M(i) @ o.Bdot(i, j) + far, size)


def elements_of_the_convective_matrix(case: Case) -> None:
    o = case.o
    close([[o.c(i, j) for j in case.bodies] for i in case.bodies], o.C.dense(),
          np.abs(o.Mtilde_prime.dense()).max())


def joint_forces_from_transmitted_wrenches(case: Case) -> None:
    o = case.o
    w, f = o.w(case.qdd).reshape(o.n, 6), o.wtilde(case.qdd).reshape(o.n, 6)
    for i in case.bodies:
        carried = sum((o.B(k, i).T @ f[k - 1] for k in o.children(i)), np.zeros(6))
        close(f[i - 1], w[i - 1] + carried, np.abs(f).max())
    rotors = o.rotors * case.qdd
    close([o.p(i) @ f[i - 1] for i in case.bodies] + rotors, case.tau, np.abs(f).max())


def recursive_inverse_dynamics_with_gravity(case: Case) -> None:
    """RIDIM in the papers' recursions, with nu the true twist."""
    o, n = case.o, case.o.n
    nu, xi = np.zeros((n + 1, 6)), np.zeros((n + 1, 6))
    xi[0] = np.concatenate([np.zeros(3), -o.links.gravity])
    for i, parent in enumerate(o.parents, 1):
        B, Bdot = (o.B(i, parent), o.Bdot(i, parent)) if parent else (np.eye(6), np.zeros((6, 6)))
        rate = o.p(i) * case.qd[i - 1]
        nu[i] = rate + B @ nu[parent]
        xi[i] = o.p(i) * case.qdd[i - 1] + o.Omega(i) @ rate + B @ xi[parent] + Bdot @ nu[parent]
    gamma = np.zeros((n + 1, 6))
    for i in reversed(case.bodies):
        gamma[i] = o.M(i) @ xi[i] + o.Mdot(i) @ nu[i] + sum(
            (o.B(k, i).T @ gamma[k] for k in o.children(i)), np.zeros(6))
    rotors = o.rotors * case.qdd
    close([o.p(i) @ gamma[i] for i in case.bodies] + rotors, case.tau, np.abs(gamma).max())
