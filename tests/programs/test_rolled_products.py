"""Derivatives of rolled programs: those of straight-line code, for mechanisms of any length."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.rolled_tracing import trace_rolled
from nlink.programs.tracing import trace
from nlink.testing.mechanisms import EVERY, random_robot
from nlink.testing.samples import coordinate_rates


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "formulation", "wrenches"), [
    ("inverse_dynamics_jvp", "ridim", True),
    ("forward_dynamics_vjp", "articulated", False),
    ("kinetic_energy_jvp", "recursive", False),
    ("bias_jvp_vjp", "ridim", False),
    ("inverse_dynamics_vjp", "ridim", False),
    ("inverse_dynamics_hvp", "ridim", False),
    ("forward_dynamics_jvp", "articulated", False),
    ("solve_vjp", "denoc", False),
    ("gravity_torque_vjp", "ridim", False),
    ("jacobian_jvp", "recursive", False),
])
@pytest.mark.slow
def test_rolled_products_are_straight_ones(name, formulation, wrenches):
    robot = random_robot(3, 9, types=EVERY)
    request = robot.request(name, algorithm=formulation, wrenches=wrenches)
    rng = np.random.default_rng(0)
    q, _ = robot.random_state(rng)
    inputs, _ = request.ports
    values = [list(q), *(list(rng.normal(size=port.size)) for port in inputs[1:])]
    programs = [make(request.algorithm, request.mechanism, request.options, wrenches=wrenches)
                for make in (trace_rolled, trace)]
    assert isinstance(programs[0], RolledProgram)
    for one, other in zip(*(program(*values) for program in programs), strict=True):
        np.testing.assert_allclose(np.array(one, float), np.array(other, float), rtol=1e-11,
                                   atol=1e-11 * max(map(abs, other)))


def check_compiled(joints):
    """Of a long chain, jvp is a complex step and vjp its transpose."""
    robot = random_robot(2, joints, types=("revolute",), fixed=False, friction=False)
    rng = np.random.default_rng(1)
    q, qd = robot.random_state(rng)
    tau, w, *tangents = rng.normal(size=(5, robot.n))
    change = nlink.jvp(robot, "forward_dynamics", (q, qd, tau), tangents)
    gradients = nlink.vjp(robot, "forward_dynamics", (q, qd, tau), w)
    step = 1e-30
    rates = (coordinate_rates(robot, q, tangents[0]), *tangents[1:])
    (stepped,) = robot.request("forward_dynamics").program()(*(
        list(x + 1j * step * rate) for x, rate in zip((q, qd, tau), rates, strict=True)))
    assert robot.request("forward_dynamics_vjp").rolled
    np.testing.assert_allclose(change, np.imag(stepped) / step, rtol=1e-10,
                               atol=1e-10 * abs(change).max())
    assert np.isclose(w @ change, sum(map(np.dot, gradients, tangents)), rtol=1e-9)


@pytest.mark.slow
def test_products_of_a_hundred_joints():
    check_compiled(100)


@pytest.mark.slow
def test_products_of_a_thousand_joints():
    check_compiled(1000)
