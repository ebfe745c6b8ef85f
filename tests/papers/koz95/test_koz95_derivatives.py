"""[Koz95] sections 2 and 2.1: every equation about time derivatives, on chains and trees of
revolute and prismatic joints, against the complex step along a motion."""

from __future__ import annotations

import numpy as np
import pytest
from koz95_case import (
    SEEDS,
    assert_different,
    assert_same,
    case,
    diagonal_blocks,
    driven,
    skewed,
    turned,
)

from nlink.papers.operators.origins import tilde
from nlink.papers.operators.quasi_velocities import TABLE_1
from nlink.spatial import Matrix, Symmetric

EACH = pytest.mark.parametrize("seed", SEEDS)


@EACH
def test_eq_1_inertial_rate_of_a_spatial_vector(seed):
    c = case(seed)
    d = c.d
    world = c.rate(lambda x: turned(x, x.V[:, None])[:, 0])
    local = c.rate(lambda x: x.V)
    assert_same(world, turned(d, (local + d.Omega @ d.V)[:, None])[:, 0])


@EACH
def test_eq_2_omega_is_the_rate_of_the_axes(seed):
    c = case(seed)
    spin = c.rate(lambda x: x.links.R)
    expected = c.d.links.R @ tilde(c.d.links.V[:, :3])
    assert_same(spin, expected)


@EACH
def test_eq_3_4_14_rate_of_a_step_to_the_next_frame(seed):
    c = case(seed)
    steps = c.rate(lambda x: np.swapaxes(x.links.X, 1, 2))
    X = np.swapaxes(c.d.links.X, 1, 2)
    assert_same(steps, X @ c.d.Omega_delta.blocks)


def test_eq_4_erratum_prismatic_joints_turn_nothing():
    """Printed, Omega_delta has h~ on its diagonal for every joint: wrong for a slide."""
    c = case(0, types=("prismatic",))
    h = c.d.links.S[:, 3:] * c.d.qd[:, None]
    printed = np.zeros((c.d.n, 6, 6))
    printed[:, :3, :3] = printed[:, 3:, 3:] = tilde(h)
    X = np.swapaxes(c.d.links.X, 1, 2)
    assert_different(c.rate(lambda x: np.swapaxes(x.links.X, 1, 2)), X @ printed)


@EACH
def test_eq_5_angular_velocity_is_a_sum_over_the_joints(seed):
    c = case(seed, types=("revolute",))
    R, d = c.d.links.R, c.d
    axes = np.einsum("kij,kj,k->ki", R, d.links.S[:, :3], d.qd)
    for k in range(d.n):
        total, link = np.zeros(3), k + 1
        while link:
            total, link = total + axes[link - 1], d.parents[link - 1]
        assert_same(R[k] @ d.links.V[k, :3], total)


@EACH
@pytest.mark.parametrize("name", ["M", "P"])
def test_eq_6_9_10_inertial_rate_of_a_block_diagonal(seed, name):
    c = case(seed)
    X, Omega = getattr(c.d, name).dense(), c.d.Omega.dense()
    local = c.rate(lambda x: getattr(x, name).dense())
    world = c.rate(lambda x: turned(x, getattr(x, name).dense()))
    assert_same(world, turned(c.d, local + Omega @ X - X @ Omega))
    if name == "M":
        assert_same(local, 0.0)


@EACH
def test_eq_7_20_rate_in_the_next_frame_is_lambda_dot(seed):
    c = case(seed)
    P, Omega = np.array(c.d.P.blocks), np.array(c.d.Omega_delta.blocks)
    Pdot = c.rate(lambda x: x.filter.P)
    assert_same(c.d.lambda_dot.blocks, Pdot + Omega @ P + P @ np.swapaxes(Omega, 1, 2))


def test_eq_8_a_tensor_turns_element_by_element():
    rng = np.random.default_rng(0)
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    b = rng.normal(size=(3, 3))
    b = b + b.T
    expected = np.einsum("ki,lj,ij->kl", R, R, b)
    turned_b = Symmetric.from_rows(b.tolist()).rotate(Matrix.from_rows(R.tolist()))
    assert_same(np.array(turned_b.rows), expected)


@EACH
def test_eq_11_inertial_rate_of_vectors(seed):
    c = case(seed)
    local = c.rate(lambda x: x.G.dense())
    world = c.rate(lambda x: turned(x, x.G.dense()))
    assert_same(world, turned(c.d, local + c.d.Omega.dense() @ c.d.G.dense()))


@EACH
def test_eq_12_articulated_inertias_obey_riccati(seed):
    d = case(seed).d
    E, P, tau_bar = d.E_Phi.dense(), d.P.dense(), d.tau_bar.dense()
    inner = tau_bar @ P @ tau_bar.T
    assert_same(P, diagonal_blocks(E @ inner @ E.T) + d.M.dense())


@EACH
def test_eq_13_16_rate_of_articulated_inertias(seed):
    c = case(seed)
    E, Pdot = c.d.E_Psi.dense(), c.rate(lambda x: x.P.dense())
    assert_same(Pdot, diagonal_blocks(E @ (Pdot + driven(c.d)) @ E.T))
    assert_same(Pdot, c.d.P_dot.dense())


@EACH
def test_eq_15_17_closed_form_of_the_rate(seed):
    c = case(seed)
    Psi = c.d.Psi.dense()
    outer = Psi - np.eye(len(Psi))
    assert_same(c.rate(lambda x: x.P.dense()), diagonal_blocks(outer @ driven(c.d) @ outer.T))


@EACH
def test_eq_18_21_lambda_dot_is_a_recursion(seed):
    d = case(seed).d
    E, lam = d.E_Psi.dense(), d.lambda_dot.dense()
    assert_same(lam, diagonal_blocks(E @ lam @ E.T) + driven(d))


@EACH
def test_eq_19_closed_form_of_lambda_dot(seed):
    d = case(seed).d
    Psi = d.Psi.dense()
    assert_same(d.lambda_dot.dense(), diagonal_blocks(Psi @ driven(d) @ Psi.T))


@EACH
@pytest.mark.parametrize("name", TABLE_1)
def test_table_1_local_rates(seed, name):
    c = case(seed)
    assert_same(c.d.derivative(name).dense(), c.rate(lambda x: getattr(x, name).dense()))


@EACH
@pytest.mark.parametrize("name", TABLE_1)
def test_table_1_inertial_rates(seed, name):
    c = case(seed)
    world = c.rate(lambda x: turned(x, getattr(x, name).dense()))
    assert_same(world, turned(c.d, c.d.derivative(name, inertial=True).dense()))


def test_table_1_row_1_erratum():
    """Printed with a trailing Phi."""
    c = case(4)
    printed = c.d.E_Phi @ c.d.Omega_delta @ c.d.Phi
    assert_different(printed.dense(), c.rate(lambda x: x.E_Phi.dense()))


def test_table_1_knows_its_operators():
    with pytest.raises(ValueError, match="'Q', expected one of E_Phi, Phi"):
        case(0).d.derivative("Q")


@EACH
def test_eq_29_30_rate_of_the_mass_factor(seed):
    c = case(seed)
    d, rate = c.d, c.rate(lambda x: x.m.dense())
    assert_same(d.m_dot.dense(), rate)
    H, Phi, P, Omega = (x.dense() for x in (d.H, d.Phi, d.P, d.Omega_delta))
    one = np.eye(len(Phi))
    half = (one + d.tau_bar.dense()) / 2
    scale = H.T @ np.diag(d.filter.D ** -0.5)
    assert_same(H @ Phi @ (Omega @ Phi @ P + half @ d.P_dot.dense()) @ scale, rate)
    assert_same(H @ Phi @ (Omega @ (Phi - one) @ P + half @ d.lambda_dot.dense()) @ scale, rate)


@EACH
def test_eq_31_rate_of_the_factor_on_nu(seed):
    """Erratum: E_Psi lambda-dot - lambda-dot E_Psi^*, not the commutator."""
    c = case(seed)
    d = c.d
    H, Phi, P, Omega, K = (x.dense() for x in (d.H, d.Phi, d.P, d.Omega_delta, d.K))
    middle = Omega @ Phi @ K @ H @ P + driven(d) / 2 + skewed(d) / 2
    assert_same(H @ Phi @ middle @ d.V, c.rate(lambda x: x.m.dense()) @ d.nu)


@EACH
def test_eq_32_33_gradient_of_the_kinetic_energy(seed):
    c = case(seed)
    d = c.d
    H, Phi, P, Omega, K, M = (x.dense() for x in (d.H, d.Phi, d.P, d.Omega_delta, d.K, d.M))
    gradient = c.partials(lambda x: x.qd @ (x.m @ x.m.T).dense() @ x.qd)
    middle = Omega @ (np.eye(len(Phi)) + Phi @ K @ H) @ P - d.Vx.dense() @ M
    assert_same(2 * H @ Phi @ middle @ d.V, gradient)


@EACH
def test_eq_34_35_36_rate_of_xi(seed):
    """Errata: 34 and 35 need the transpose; 36 lambda-dot with Phi~, or Pdot with Phi."""
    c = case(seed)
    d, rate = c.d, c.rate(lambda x: x.xi)
    assert_same(d.xi, d.nu / np.sqrt(d.filter.D))
    assert_same(rate, c.rate(lambda x: x.U.dense()).T @ d.qd + d.U.T @ c.qdd)
    H, Phi, P, Omega, G = (x.dense() for x in (d.H, d.Phi, d.P, d.Omega_delta, d.G))
    Dinv, tau_bar = np.diag(1 / d.filter.D), d.tau_bar.dense()
    last = G.T @ Phi.T @ H.T @ c.qdd
    strict = Phi - np.eye(len(Phi))
    for change, along in ((d.lambda_dot, strict), (d.P_dot, Phi)):
        first = Dinv @ H @ (change.dense() @ tau_bar.T + P @ along.T @ Omega.T) @ d.V
        assert_same(first + last, rate)
