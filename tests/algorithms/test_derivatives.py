"""Derivatives of the dynamics: against complex steps and Pinocchio, on every kind of joint.

That they hold for a mixed tree, bundled robots and any mechanism is a law (test_laws.py).
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink import Robot
from nlink.engines import engines
from nlink.programs.rolled_tracing import trace_rolled
from nlink.programs.tracing import trace
from nlink.scalars.dual import Dual, derivative
from nlink.testing import random_robot, samples
from nlink.testing.mechanisms import EVERY
from nlink.testing.samples import difference, state_partials, torque_scale

MECHANISMS = 60
POINTS, COMPOSITE = ({"algorithm": name, "engine": "python"} for name in ("points", "composite"))
"""The recursions, without a count of what else there is."""


def by_finite_wrenches(robot: Robot, x, name: str) -> np.ndarray:
    """Central differences of a function with wrenches, along each rate of q."""
    h = 1e-6
    steps = h * np.eye(robot.n)
    q = x.q[:, None, :]
    third = (x.qdd if name == "inverse_dynamics" else x.tau)[:, None, :]
    arguments = x.qd[:, None, :], third
    compute = getattr(robot, name)
    ahead, behind = (compute(robot.integrate(q, side * steps), *arguments, x.f_ext[:, None],
                             engine="numpy") for side in (1, -1))
    return np.swapaxes(ahead - behind, -1, -2) / (2 * h)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("block", range(20))
@pytest.mark.slow
def test_complex_steps_on_random_mechanisms(block):
    """60 chains and trees of every kind of joint, floating bases among them."""
    for seed in range(block, MECHANISMS, 20):
        robot = random_robot(seed, 1 + seed // 20 % 5, tree=bool(seed % 2), types=EVERY)
        x = samples(robot, seed, states=2)
        tau = np.abs(robot.inverse_dynamics(x.q, x.qd, x.qdd, engine="numpy")).max()
        found = robot.inverse_dynamics_derivatives(x.q, x.qd, x.qdd, **POINTS)
        for a, b in zip(found, state_partials("inverse_dynamics", robot, x), strict=True):
            assert difference(a, b, tau, torque_scale(robot)) <= 1e-12, f"seed {seed}"
        *found, _ = robot.forward_dynamics_derivatives(x.q, x.qd, x.tau, **COMPOSITE)
        spread = np.linalg.cond(robot.mass_matrix(x.q, engine="numpy")).max(initial=1.0)
        for a, b in zip(found, state_partials("forward_dynamics", robot, x), strict=True):
            assert difference(a, b, 1.0) <= 1e-12 + 1e-14 * spread, f"seed {seed}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics"])
def test_wrenches_keep_their_direction_in_the_world(name, seed):
    robot = random_robot(seed, 4, types=EVERY, fixed=True)
    x = samples(robot, seed, states=2)
    third = x.qdd if name == "inverse_dynamics" else x.tau
    found = getattr(robot, f"{name}_derivatives")(x.q, x.qd, third, x.f_ext, engine="numpy")
    assert difference(found[0], by_finite_wrenches(robot, x, name)) < 1e-6
    free = getattr(robot, f"{name}_derivatives")(x.q, x.qd, third, engine="numpy")
    assert difference(found[0], free[0]) > 1e-3  # wrenches matter


@pytest.mark.parametrize("seed", range(2))
def test_rolled_is_unrolled(seed):
    robot = random_robot(seed, 6, types=EVERY)
    x = samples(robot, seed, states=2)
    request = robot.request("inverse_dynamics_derivatives", wrenches=True)
    flat = [list(a.reshape(2, -1).T) for a in (x.q, x.qd, x.qdd, x.f_ext)]
    rolled, straight = (each(request.algorithm, robot.mechanism, request.options, wrenches=True)
                        (*flat) for each in (trace_rolled, trace))
    for a, b in zip(rolled, straight, strict=True):
        a, b = (np.array([np.broadcast_to(x, 2) for x in values]) for values in (a, b))
        assert difference(a, b) < 1e-13


def test_compiled_batches_and_out():
    robot = nlink.load("planar3")
    x = samples(robot, states=7)
    reference = robot.forward_dynamics_derivatives(x.q, x.qd, x.tau, engine="python")
    out = tuple(np.full((7, 3, 3), np.nan) for _ in range(3))
    given = robot.forward_dynamics_derivatives(x.q, x.qd, x.tau, out=out)
    bare = tuple(np.full((7, 3, 3), np.nan) for _ in range(3))
    robot.compile("forward_dynamics_derivatives")(x.q, x.qd, x.tau, *bare)
    for a, b, c, expected in zip(out, given, bare, reference, strict=True):
        assert a is b
        np.testing.assert_allclose(a, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(a, c)


def depth_first(robot: Robot) -> bool:
    """Whether bodies are numbered along one branch after the other."""
    path = [0]
    for body, joint in enumerate(robot.joints, 1):
        if joint.parent not in path:
            return False
        path = [*path[:path.index(joint.parent) + 1], body]
    return True


@pytest.mark.sampled(1)
@pytest.mark.parametrize("block", range(10))
@pytest.mark.slow
def test_pinocchio_confirms(block):
    """200 chains and trees, every other one on a floating base.

    Left out are joints composed of several (universal, planar) and bodies that are not numbered
    depth first: of these, Pinocchio's derivatives are not what differences of its rnea are.
    """
    pin = pytest.importorskip("pinocchio")
    from nlink.formats.bridges import pinocchio_order, to_pinocchio

    types = ("revolute", "prismatic", "helical", "spherical", "free")
    drawn = (random_robot(seed, 1 + seed % 5, types=types, friction=False)
             for seed in itertools.count(1000 * block))
    for number, robot in enumerate(itertools.islice(filter(depth_first, drawn), 20)):
        d = robot.description
        if number % 2:
            robot = Robot(replace(d, joints=(
                replace(d.joints[0], type=nlink.Free(), armature=0.0), *d.joints[1:])))
        order, model = pinocchio_order(robot.description), to_pinocchio(robot.description)
        data = model.createData()
        x = samples(robot, number, states=1)[0]
        swap, rates = np.ix_(order.rates, order.rates), order.rates
        state = x.q[order.coordinates], x.qd[rates]
        pin.computeRNEADerivatives(model, data, *state, x.qdd[rates])
        found = robot.inverse_dynamics_derivatives(x.q, x.qd, x.qdd, **POINTS)
        for a, b in zip(found, (data.dtau_dq, data.dtau_dv), strict=True):
            assert difference(a[swap], b, 1.0) < 1e-10, robot.name
        expected = pin.computeABADerivatives(model, data, *state, x.tau[rates])
        found = robot.forward_dynamics_derivatives(x.q, x.qd, x.tau, **COMPOSITE)
        spread = np.linalg.cond(robot.mass_matrix(x.q, engine="python"))
        for a, b in zip(found, expected, strict=True):
            assert difference(a[swap], b, 1.0) < 1e-10 + 1e-14 * spread, robot.name


def test_a_pendulum_by_hand():
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12)}
    robot = Robot.from_dh([rod], gravity=(0, -9.81, 0))
    by_q, by_qd = robot.inverse_dynamics_derivatives([0.3], [2.0], [1.0])
    assert by_q[0, 0] == pytest.approx(-9.81 / 2 * np.sin(0.3))
    assert by_qd[0, 0] == 0.0


def test_dual_numbers_follow_the_rules_of_primitives():
    x = Dual(0.7, 1.0)
    value = (2 / x - nlink.sin(x) * x ** 2) / (1 - nlink.atan2(x, 2.0)) + abs(-x)
    h = 1e-40j + 0.7
    expected = (2 / h - np.sin(h) * h ** 2) / (1 - np.arctan(h / 2)) + h
    assert derivative(value) == pytest.approx(np.imag(expected) / 1e-40, rel=1e-14)
    assert derivative(nlink.where(x < 1.0, x * 5, 3.0)) == 5.0
    assert nlink.where(x > 1.0, x, 3.0) == 3.0


@pytest.mark.slow
def test_many_joints_are_derived_in_parts(monkeypatch):
    """A tree whose program would be long: three kernels and products, as one program gives it."""
    monkeypatch.setattr(engines, "STAGED", 10_000)
    robot = random_robot(5, 14, types=("revolute", "spherical"), fixed=False)
    assert robot.request("forward_dynamics_derivatives").too_long
    x = samples(robot, states=3)
    found = robot.forward_dynamics_derivatives(x.q, x.qd, x.tau, x.f_ext)
    whole = robot.forward_dynamics_derivatives(x.q, x.qd, x.tau, x.f_ext, engine="numpy")
    for a, b in zip(found, whole, strict=True):
        assert difference(a, b) < 1e-9


def test_loops_are_differentiated():
    robot = nlink.load("four_bar")
    q, qd = robot.random_state(0)
    tau = np.ones(robot.n)
    _, by_qd, by_tau = robot.forward_dynamics_derivatives(q, qd, tau, engine="numpy")
    h = 1e-6 * np.eye(robot.n)
    for found, moved in ((by_qd, lambda side: (qd + side * h, tau)),
                         (by_tau, lambda side: (qd, tau + side * h))):
        ahead, behind = (robot.forward_dynamics(q, *moved(side), engine="numpy")
                         for side in (1, -1))
        assert difference(found, (ahead - behind).T / 2e-6, 1.0) < 1e-6
