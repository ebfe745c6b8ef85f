"""Controllers: traced into the kernel, they do what they do in Python."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import nlink
from nlink.backends.llvm.kernel import Kernel
from nlink.backends.llvm.translate import compile_program
from nlink.closed_forms.expressions import Symbolic
from nlink.programs.program import Port, Program
from nlink.scalars.graph import Graph
from nlink.simulation import PD, ComputedTorque, Cycloid, FeedForward, PDGravity, Quintic, Rest

PUMA = nlink.load("puma560")
PATH = Cycloid([0.0] * 6, [1.0, -0.5, 0.3, 1.0, 0.4, 2.0], 2.0)


def desired(path, t):
    return [np.array([path(float(x))[k] for x in t], dtype=float) for k in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Cycloid, Quintic])
def test_trajectories_are_integrals_of_their_rates_and_rest_outside(kind):
    path = kind([0.0, 1.0], [2.0, -1.0], 4.0)
    t = np.linspace(-1, 5, 24001)
    q, qd, qdd = desired(path, t)
    h = t[1] - t[0]
    assert np.abs(np.gradient(q, h, axis=0) - qd)[1:-1].max() < 1e-6
    assert np.abs(np.gradient(qd, h, axis=0) - qdd)[1:-1].max() < 1e-3
    outside = (t <= 0) | (t >= 4)
    assert np.abs(qd[outside]).max() < 1e-12
    assert np.abs(q[t <= 0] - [0, 1]).max() < 1e-15
    assert np.abs(q[t >= 4] - [2, -1]).max() < 1e-14


@pytest.mark.slow
def test_computed_torque_tracks():
    run = nlink.simulate(PUMA, t=3.0, tau=ComputedTorque(PUMA, PATH, 100.0, 20.0))
    assert np.abs(run.q - desired(PATH, run.t)[0]).max() <= 1e-8


@pytest.mark.slow
def test_computed_torque_makes_the_error_linear():
    """e'' + kd e' + kp e = 0, whatever the arm does: critically damped here."""
    offset = np.array([0.1, -0.2, 0.05, 0.1, 0.2, -0.1])
    run = nlink.simulate(PUMA, offset, t=2.0, tau=ComputedTorque(PUMA, PATH, 25.0, 10.0))
    error = run.q - desired(PATH, run.t)[0]
    t = run.t[:, None]
    assert np.abs(error - offset * (1 + 5 * t) * np.exp(-5 * t)).max() <= 1e-7


@pytest.mark.slow
def test_feed_forward_follows_while_the_motion_is_short():
    run = nlink.simulate(PUMA, t=2.0, tau=FeedForward(PUMA, PATH), rtol=1e-12, atol=1e-14)
    q, qd, qdd = desired(PATH, run.t)
    assert np.abs(run.q - q).max() <= 1e-9
    assert np.abs(run.tau - PUMA.inverse_dynamics(q, qd, qdd)).max() <= 1e-11


@pytest.mark.slow
def test_gravity_compensation_holds_still_and_plain_pd_sags():
    target = [0.3, -0.5, 0.4, 0.2, 0.6, 0.1]
    kp, kd = [400, 400, 200, 20, 20, 10], [40, 40, 20, 2, 2, 1]
    still = nlink.simulate(PUMA, target, t=1.0, tau=PDGravity(PUMA, target, kp, kd))
    assert np.abs(still.q - target).max() <= 1e-9
    sagged = nlink.simulate(PUMA, target, t=1.0, tau=PD(PUMA, Rest(target), kp, kd))
    assert np.abs(sagged.q[-1] - target).max() > 1e-3


@pytest.mark.slow
def test_a_law_of_ones_own_is_the_same_traced_or_not():
    def controller(t, q, qd):
        return [-3 * v - nlink.sin(2 * t) * nlink.cos(x) + 0.1 * nlink.sign(v)
                for x, v in zip(q, qd, strict=True)]

    for how in ({"method": "rkf45"}, {"method": "rk4", "step": 0.002}):
        fast, slow = (nlink.simulate(PUMA, t=0.2, tau=controller, traced=traced, **how)
                      for traced in (True, False))
        assert np.abs(fast.q - slow.q).max() <= 1e-9
        assert np.abs(fast.tau - slow.tau).max() <= 1e-7


def saturated(t, q, qd):
    """PD within the forces of the motors, softer near the goal, and only while it is needed."""
    pd = 30.0 * (nlink.minimum(t, 0.1) - q) - 4.0 * qd
    pd = nlink.where(nlink.less(nlink.abs(q), 0.02) | (t > 0.25), nlink.tanh(pd), pd)
    return nlink.clip(pd, -8.0, [5.0, 6.0])


@pytest.mark.slow
def test_a_saturated_controller_is_the_same_everywhere():
    arm = nlink.load("double_pendulum")

    def far(t, q, qd):
        return nlink.maximum(q[0], q[1]) - 0.22

    how = {"t": 0.4, "every": 0.05, "method": "rk4", "step": 1e-3, "tau": saturated}
    fast, slow = (nlink.simulate(arm, [0.3, -0.2], [0.5, 1.0], traced=traced, events=[far], **how)
                  for traced in (True, False))
    np.testing.assert_allclose(fast.q, slow.q, rtol=0, atol=1e-12)
    assert len(fast.events.t) == len(slow.events.t) == 2
    np.testing.assert_allclose(fast.events.t, slow.events.t, rtol=0, atol=1e-9)
    assert (fast.tau == [5.0, 6.0]).any() or (fast.tau == -8.0).any()

    g = Graph()
    x = [g.input(f"x[{k}]") for k in range(5)]
    tau = saturated(x[0], np.array(x[1:3]), np.array(x[3:]))
    program = Program("saturated", (Port("x", (5,)),), (Port("tau", (2,)),), tuple(tau))
    states = np.random.default_rng(1).normal(size=(64, 5)) * [0.3, 0.05, 0.3, 1, 1]
    python = [saturated(s[0], s[1:3], s[3:]) for s in states]
    arrays = np.array(program(*[states.T])[0]).T
    compiled = Kernel(compile_program(program))(states)
    formula = sympy.lambdify(sympy.symbols("x_1:6"), Symbolic(program).values)
    np.testing.assert_allclose(compiled, python, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(arrays, python, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose([formula(*s) for s in states], python, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_a_law_may_use_arrays():
    run = nlink.simulate(PUMA, t=0.1, tau=lambda t, q, qd: -2.0 * qd - np.arange(6.0) * q)
    again = nlink.simulate(PUMA, t=0.1, tau=lambda t, q, qd: [
        -2.0 * v - k * x for k, (x, v) in enumerate(zip(q, qd, strict=True))])
    assert np.abs(run.q - again.q).max() <= 1e-14


@pytest.mark.slow
def test_a_law_may_multiply_an_array_by_the_time():
    run, again = (nlink.simulate(PUMA, t=0.1, tau=controller) for controller in (
        lambda t, q, qd: np.arange(6.0) * nlink.sin(t) - 2.0 * qd,
        lambda t, q, qd: [k * nlink.sin(t) - 2.0 * v for k, v in enumerate(qd)]))
    assert np.array_equal(run.q, again.q)


@pytest.mark.slow
def test_a_law_whose_constants_change_is_compiled_anew():
    gain = [1.0]
    runs = []
    for gain[0] in (1.0, 5.0):
        runs.append(nlink.simulate(PUMA, t=0.1, tau=lambda t, q, qd: [-gain[0] * v for v in qd]).q)
    assert np.abs(runs[0] - runs[1]).max() > 1e-4


@pytest.mark.slow
def test_a_table_of_forces_is_linear_between_outputs():
    t = np.linspace(0, 0.5, 6)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(6, 6))

    for method in ("rkf45", "dop853", "abm", "rk4"):
        fast = nlink.simulate(PUMA, t=t, tau=table, method=method, step=0.01)
        slow = nlink.simulate(PUMA, t=t, tau=table, method="rkf45", traced=False, rtol=1e-11)
        assert np.abs(fast.q - slow.q).max() <= 1e-6
        assert np.array_equal(fast.tau, table)


@pytest.mark.slow
def test_each_trajectory_may_have_its_own_forces():
    t = np.linspace(0, 0.3, 4)
    table = np.random.default_rng(1).normal(size=(11, 4, 6))
    run = nlink.simulate(PUMA, t=t, tau=table)
    assert run.q.shape == (11, 4, 6)
    for k in (0, 5, 10):
        assert np.array_equal(run.q[k], nlink.simulate(PUMA, t=t, tau=table[k]).q)


def test_a_ball_is_turned_to_where_it_should_be():
    robot = nlink.Robot(nlink.Description("ball", (nlink.Link(
        "l", 1.0, (0.0, 0.0, -0.5), ((0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1))),),
        (nlink.Joint("j", nlink.Spherical()),)))
    there = robot.integrate(robot.neutral, [0.4, -0.3, 1.0])
    run = nlink.simulate(robot, t=4.0, tau=PDGravity(robot, there, 20.0, 6.0), every=1.0)
    assert np.abs(robot.difference(run.q[-1], there)).max() < 1e-4


def test_gains_and_targets_are_checked():
    with pytest.raises(ValueError, match="desired: 2 coordinates, expected 6"):
        PD(PUMA, [0.0, 0.0], 1.0, 1.0)
    with pytest.raises(ValueError, match=r"T: 0\.0, expected a positive time"):
        Cycloid([0.0], [1.0], 0.0)
    with pytest.raises(ValueError, match="end: 2 numbers, expected 1"):
        Quintic([0.0], [1.0, 2.0], 1.0)
