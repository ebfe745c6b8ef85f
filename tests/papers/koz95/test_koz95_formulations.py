"""The diagonalized dynamics as texts of sweeps: they agree with the standard ones."""

from __future__ import annotations

import numpy as np
import pytest
from koz95_case import assert_same

import nlink
from nlink.model.joints import JOINT_TYPES
from nlink.programs.tracing import run as text
from nlink.testing import random_robot, samples

FORMS = ("diagonalized", "diagonalized-xi")
MECHANISMS = 60


def run(robot, name, *arrays, algorithm=None, f_ext=None):
    """The text of an algorithm on a NumPy batch: no compiler, no tracing."""
    request = robot.request(name, algorithm=algorithm, wrenches=f_ext is not None)
    given = arrays if f_ext is None else (*arrays, f_ext.reshape(len(f_ext), -1))
    mechanism = request.algorithm.prepare(request.mechanism)
    flat = text(request.algorithm, mechanism, request.options, [list(a.T) for a in given])
    rows = iter(np.broadcast_arrays(*flat, arrays[0][:, 0])[:-1])
    return [np.stack([next(rows) for _ in range(port.size)], -1) for port in request.ports[1]]


def far(a, b):
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300))


@pytest.mark.slow
def test_all_forms_agree_on_random_chains_and_trees():
    worst = {}
    for seed in range(MECHANISMS):
        robot = random_robot(seed, tree=bool(seed % 2))
        x = samples(robot, seed, states=4)
        (qdd,) = run(robot, "forward_dynamics", x.q, x.qd, x.tau, f_ext=x.f_ext)
        (tau,) = run(robot, "inverse_dynamics", x.q, x.qd, x.qdd, f_ext=x.f_ext)
        for form in FORMS:
            found = run(robot, "forward_dynamics", x.q, x.qd, x.tau, algorithm=form,
                        f_ext=x.f_ext)[0]
            worst["fd", form] = max(worst.get(("fd", form), 0.0), far(found, qdd))
            found = run(robot, "inverse_dynamics", x.q, x.qd, x.qdd, algorithm=form,
                        f_ext=x.f_ext)[0]
            worst["id", form] = max(worst.get(("id", form), 0.0), far(found, tau))
    assert max(worst.values()) <= 1e-11, worst


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("form", FORMS)
def test_joints_of_several_rates_are_diagonalized_too(seed, form):
    robot = random_robot(seed, 4, types=tuple(JOINT_TYPES), tree=bool(seed % 2))
    x = samples(robot, seed, states=3)
    (qdd,) = run(robot, "forward_dynamics", x.q, x.qd, x.tau, f_ext=x.f_ext)
    (found,) = run(robot, "forward_dynamics", x.q, x.qd, x.tau, algorithm=form, f_ext=x.f_ext)
    assert far(found, qdd) <= 1e-11
    (tau,) = run(robot, "inverse_dynamics", x.q, x.qd, x.qdd, f_ext=x.f_ext)
    (found,) = run(robot, "inverse_dynamics", x.q, x.qd, x.qdd, algorithm=form, f_ext=x.f_ext)
    assert far(found, tau) <= 1e-11


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("prefix", ["", "unnormalized_"])
def test_quasi_velocities_map_and_move(seed, prefix):
    """nu and back, and the motion of (q, nu) against the objects of the paper."""
    robot = random_robot(seed + 40, tree=bool(seed % 2))
    x = samples(robot, seed, states=2)
    (velocity,) = run(robot, f"{prefix}quasi_velocities", x.q, x.qd)
    (qd,) = run(robot, f"rates_from_{prefix}quasi_velocities", x.q, velocity)
    assert_same(qd, x.qd, 1e-12)
    rates, change = run(robot, f"{prefix}quasi_motion", x.q, velocity, x.tau, f_ext=x.f_ext)
    assert_same(rates, x.qd, 1e-12)
    for i in range(2):
        d = robot.diagonal(x.q[i], x.qd[i], x.f_ext[i])
        assert_same(velocity[i], d.xi if prefix else d.nu, 1e-12)
        assert_same(change[i], d.xid(x.tau[i]) if prefix else d.nud(x.tau[i]), 1e-11)


def test_quasi_motion_conserves_energy_to_rounding():
    """Without joint forces d/dt (1/2 nu . nu + V) = nu . nud + qd . g = 0."""
    robot = nlink.load("puma560")
    x = samples(robot, states=8)
    (nu,) = run(robot, "quasi_velocities", x.q, x.qd)
    qd, nud = run(robot, "quasi_motion", x.q, nu, np.zeros_like(x.qd))
    g = robot.gravity_torque(x.q, engine="numpy")
    power = np.einsum("ni,ni->n", nu, nud) + np.einsum("ni,ni->n", qd, g)
    assert_same(power, 0.0, 1e-12 * np.abs(nud).max())


def test_compiled_quasi_motion_is_the_reference():
    robot = nlink.load("stanford")
    x = samples(robot, states=5)
    fn = robot.compile("quasi_motion")
    qd, nud = np.empty_like(x.qd), np.empty_like(x.qd)
    fn(x.q, x.qd, x.tau, qd, nud)
    expected = run(robot, "quasi_motion", x.q, x.qd, x.tau)
    assert_same(qd, expected[0], 1e-12)
    assert_same(nud, expected[1], 1e-12)


@pytest.mark.slow
def test_long_chains_roll():
    robot = random_robot(5, 60, tree=False, types=("revolute",), fixed=False)
    x = samples(robot, states=2)
    expected = robot.forward_dynamics(x.q, x.qd, x.tau, engine="numpy")
    for form in FORMS:
        found = robot.forward_dynamics(x.q, x.qd, x.tau, engine="numpy", algorithm=form)
        assert far(found, expected) <= 1e-9


def test_closed_forms_of_the_quasi_velocities():
    forms = nlink.symbolic(nlink.load("double_pendulum"), "unnormalized_quasi_velocities",
                           parameters="names")
    assert {str(s) for s in forms.values[1].free_symbols} >= {"qd_1", "qd_2", "q_2"}
