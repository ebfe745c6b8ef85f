"""[Koz95] sections 3 to 6: factors, equations of motion, components and recursions."""

from __future__ import annotations

import numpy as np
import pytest
from koz95_case import SEEDS, assert_different, assert_same, case, skewed

from nlink.papers.operators.diagonal_state import cross

EACH = pytest.mark.parametrize("seed", SEEDS)
FORMS = pytest.mark.parametrize("armature", [False, True])


def inertial_middle(d):
    """E_Psi lambda' - lambda' E_Psi^* - Omega P + P Omega^*, errata applied, dense."""
    X = d.Omega_delta.dense() @ d.P.dense()
    return skewed(d) - X + X.T


@EACH
def test_eq_22_to_26_factors_of_the_mass_matrix(seed):
    c = case(seed)
    d, n = c.d, c.d.n
    M = c.robot.mass_matrix(d.q, engine="numpy")
    H, Phi, Psi, K, D = (x.dense() for x in (d.H, d.Phi, d.Psi, d.K, d.D))
    U, V = np.eye(n) + H @ Phi @ K, np.eye(n) - H @ Psi @ K
    assert_same(H @ Phi @ d.M.dense() @ Phi.T @ H.T, M)
    assert_same(U @ D @ U.T, M)
    assert_same(U @ V, np.eye(n))
    assert_same(V.T @ np.linalg.inv(D) @ V @ M, np.eye(n), 1e-10)
    assert_same((d.m @ d.m.T).dense(), M)
    assert_same((d.l @ d.m).dense(), np.eye(n))


@EACH
def test_eq_27_28_43_kinetic_energy_is_a_sum_of_squares(seed):
    c = case(seed)
    energy = c.robot.kinetic_energy(c.d.q, c.d.qd, engine="numpy")
    assert_same(c.d.nu @ c.d.nu / 2, energy)
    assert_same(c.d.xi @ (c.d.filter.D * c.d.xi) / 2, energy)
    assert_same(c.d.nu, np.sqrt(c.d.filter.D) * (c.d.U.T @ c.d.qd))


@EACH
@pytest.mark.parametrize("gravity", [False, True])
def test_eq_37_38_standard_equations_of_motion(seed, gravity):
    c = case(seed, gravity=gravity)
    d = c.d
    H, Phi, M = (x.dense() for x in (d.H, d.Phi, d.M))
    force = M @ Phi.T @ (H.T @ c.qdd + d.a) + d.b
    assert_same(H @ Phi @ force, c.robot.inverse_dynamics(d.q, d.qd, c.qdd, engine="numpy"))


@EACH
def test_nomenclature_a_and_b(seed):
    """Erratum to b: its force is m w x v + m w x (w x p)."""
    d = case(seed).d
    for k in range(d.n):
        w, v = d.links.V[k, :3], d.links.V[k, 3:]
        M, s = d.links.M[k], d.links.S[k] * d.qd[k]
        m, mp = M[3, 3], np.array([M[2, 4], M[0, 5], M[1, 3]])
        moment = np.cross(w, M[:3, :3] @ w) + np.cross(mp, np.cross(w, v))
        force = m * np.cross(w, v) + np.cross(w, np.cross(w, mp))
        assert_same(d.links.b[k], np.concatenate([moment, force]))
        assert_same(d.links.b[k], cross(d.links.V[k]) @ M @ d.links.V[k])
        a = (np.concatenate([np.cross(w, s[:3]), np.cross(v, s[:3])]) if s[:3].any()
             else np.concatenate([np.zeros(3), np.cross(w, s[3:])]))
        assert_same(d.a.reshape(-1, 6)[k], a)


@pytest.mark.slow
@pytest.mark.sampled(8)
@EACH
@FORMS
def test_eq_40_normalized_equations_of_motion(seed, armature):
    c = case(seed, gravity=True, armature=armature)
    qdd = c.robot.forward_dynamics(c.d.q, c.d.qd, c.tau, engine="numpy")
    m_dot = c.rate(lambda x: x.m.dense())
    nud = c.d.m.T @ qdd + m_dot.T @ c.d.qd
    assert_same(nud + c.d.C_nu, c.d.to_eps(c.tau), 1e-11)
    assert_same(c.d.nud(c.tau), nud, 1e-11)
    assert_same(c.d.qdd(c.tau), qdd, 1e-11)
    assert_same(c.d.tau(qdd), c.tau, 1e-11)


@EACH
def test_eq_41_coriolis_from_the_factor(seed):
    c = case(seed)
    d = c.d
    gradient = c.partials(lambda x: x.qd @ (x.m @ x.m.T).dense() @ x.qd)
    expected = d.l @ (c.rate(lambda x: x.m.dense()) @ d.nu - gradient / 2)
    assert_same(d.C_nu, expected, 1e-12)


@EACH
@FORMS
def test_eq_42_coriolis_in_operators(seed, armature):
    c = case(seed, gravity=True, armature=armature)
    d = c.d
    force = inertial_middle(d) @ d.V + 2 * d.b
    expected = (d.H @ d.Psi).dense() @ force / (2 * np.sqrt(d.filter.D))
    assert_same(d.C_nu, expected)


def test_eq_42_erratum_the_literal_commutator():
    d = case(4).d
    E, lam = d.E_Psi.dense(), d.lambda_dot.dense()
    assert_different(E @ lam - lam @ E, skewed(d))


@EACH
@FORMS
def test_eq_44_45_unnormalized_equations_of_motion(seed, armature):
    c = case(seed, gravity=True, armature=armature)
    d = c.d
    X = d.Omega_delta.dense() @ d.P.dense()
    inner = d.lambda_dot.dense() @ d.H.dense().T @ d.xi - X @ d.V + d.b
    assert_same(d.C_xi, (d.H @ d.Psi).dense() @ inner)
    qdd = c.robot.forward_dynamics(d.q, d.qd, c.tau, engine="numpy")
    xid = c.rate(lambda x: x.U.dense()).T @ d.qd + d.U.T @ qdd
    assert_same(d.filter.D * xid + d.C_xi, d.to_kappa(c.tau), 1e-11)
    assert_same(d.xid(c.tau), xid, 1e-11)


@EACH
@FORMS
def test_eq_46_one_coriolis_term_from_the_other(seed, armature):
    c = case(seed, gravity=True, armature=armature)
    d, root = c.d, np.sqrt(c.d.filter.D)
    change = c.rate(lambda x: x.filter.D ** -0.5)
    assert_same(d.C_xi, root * d.C_nu - d.filter.D * change * d.nu)
    HlamH = np.einsum("ki,kij,kj->k", d.links.S, d.filter.lambda_dot, d.links.S)
    assert_same(-d.filter.D * change * d.nu, HlamH * d.xi / 2)


@EACH
@FORMS
def test_eq_47_coriolis_forces_do_no_work(seed, armature):
    d = case(seed, armature=armature).d
    size = max(1.0, np.abs(d.nu).max() * np.abs(d.C_nu).max())
    assert abs(d.nu @ d.C_nu) <= 1e-12 * size
    middle = inertial_middle(d)
    assert_same(middle, -middle.T)


@EACH
def test_eq_47_with_gravity_power_is_the_rate_of_energy(seed):
    """nu . C = qd . g, and nu . eps is the rate of kinetic and potential energy."""
    c = case(seed, gravity=True)
    d = c.d
    g = c.robot.gravity_torque(d.q, engine="numpy")
    assert_same(d.nu @ d.C_nu, d.qd @ g, 1e-12)
    assert_same(d.nu @ d.to_eps(c.tau), d.nu @ d.nud(c.tau) + d.qd @ g, 1e-11)
    assert_same(d.nu @ d.to_eps(c.tau), d.qd @ c.tau, 1e-12)


@EACH
@FORMS
def test_eq_48_components(seed, armature):
    """Erratum: P Omega_delta^*, for links k inboard of i."""
    d = case(seed, gravity=True, armature=armature).d
    c = d.matrix()
    assert_same(c, -c.T)
    assert_same(c @ d.nu + d.gyration(), d.C_nu)
    assert_same(d.matrix(normalized=False) @ d.xi + d.gyration(normalized=False), d.C_xi)
    HPsi = (d.H @ d.Psi).dense() / np.sqrt(d.filter.D)[:, None]
    assert_same(c, HPsi @ inertial_middle(d) @ HPsi.T / 2)
    assert d.c(1, d.n) == c[0, -1]


def test_eq_48_erratum_the_printed_sign():
    d = case(4, types=("revolute",)).d
    roots = np.sqrt(d.filter.D)
    HPsi = (d.H @ d.Psi).dense().reshape(d.n, d.n, 6) / roots[:, None, None]
    printed = np.zeros((d.n, d.n))
    for i in range(d.n):
        for k in range(i):  # a chain: k is inboard of i, m beyond it
            printed[k, i] = sum(
                HPsi[k, m] @ d.filter.P[m] @ d.Omega_delta.blocks[m] @ HPsi[i, m]
                for m in range(i + 1, d.n))
    assert_different(printed, np.triu(d.matrix()))
    assert_same(printed, -np.triu(d.matrix()))


@EACH
def test_eq_49_velocities_from_articulated_quantities(seed):
    d = case(seed).d
    assert_same((d.Psi.T @ d.H.T).dense() @ (d.nu / np.sqrt(d.filter.D)), d.V)


@EACH
@FORMS
def test_section_6_maps_and_their_inverses(seed, armature):
    """Erratum: thd = (1 - H Psi K)^* D^-1/2 nu."""
    c = case(seed, armature=armature)
    d, root = c.d, np.sqrt(c.d.filter.D)
    for to, back, x in ((d.to_nu, d.from_nu, d.qd), (d.to_xi, d.from_xi, d.qd),
                        (d.to_eps, d.from_eps, c.tau), (d.to_kappa, d.from_kappa, c.tau)):
        assert_same(back(to(x)), x, 1e-12)
    assert_same(d.to_nu(d.qd), root * d.to_xi(d.qd))
    assert_same(d.to_kappa(c.tau), root * d.to_eps(c.tau))


@EACH
def test_external_wrenches_act_through_the_bias_forces(seed):
    c = case(seed, gravity=True)
    f = np.random.default_rng(seed).normal(size=(len(c.robot.links), 6))
    d = c.robot.diagonal(c.d.q, c.d.qd, f)
    expected = c.robot.forward_dynamics(d.q, d.qd, c.tau, f_ext=f, engine="numpy")
    assert_same(d.qdd(c.tau), expected, 1e-11)


def test_operators_are_applied_without_their_matrices():
    d = case(7).d
    for name in ("m", "l"):
        operator = getattr(d, name)
        x = np.arange(1.0, d.n + 1)
        assert_same(operator @ x, operator.dense() @ x)
        assert_same(operator.T @ x, operator.dense().T @ x)
        assert_same(operator.dense(), np.where(operator.pattern, operator.dense(), 0.0))


def test_wrong_states_are_refused():
    robot = case(3).robot
    with pytest.raises(ValueError, match=r"q: shape \(1,\), expected"):
        robot.diagonal([0.0])
    with pytest.raises(ValueError, match=r"f_ext: shape \(6,\), expected"):
        robot.diagonal(robot.neutral, None, np.zeros(6))
