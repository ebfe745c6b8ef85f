"""Linear models: of steps against steps, of the motion against short steps."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.engines import engines
from nlink.iterations.methods import METHODS
from nlink.programs.staged import StagedProgram
from nlink.simulation.linear_programs import motion_program, step_program
from nlink.simulation.linearization import LinearModel, step_on_arrays
from nlink.simulation.sensitivity import in_tangent_space
from nlink.testing.mechanisms import random_robot


@pytest.fixture(scope="module")
def falling():
    """A free body that carries a joint, and a state of it."""
    robot = random_robot(1, 2, types=("free", "revolute"), fixed=False, friction=False)
    rng = np.random.default_rng(0)
    q, qd = robot.random_state(rng)
    return robot, q, qd, rng.normal(size=robot.n)


def differences(robot, q, qd, tau, h, method):
    """dx after a step by x before it, in tangent spaces."""
    n, e = robot.n, 1e-6

    def after(dx):
        run = nlink.simulate(robot, robot.integrate(q, dx[:n]), qd + dx[n:], t=h, every=h, step=h,
                             method=method, tau=lambda t, q, qd: tau, traced=False)
        return run.q[-1], run.qd[-1]

    home, _ = after(np.zeros(2 * n))
    columns = []
    for unit in np.eye(2 * n):
        (q1, v1), (q0, v0) = after(e * unit), after(-e * unit)
        turned = robot.difference(home, q1) - robot.difference(home, q0)
        columns.append(np.concatenate([turned, v1 - v0]) / (2 * e))
    return np.transpose(columns)


@pytest.mark.parametrize("method", ["semi_implicit", "rk4"])
@pytest.mark.slow
def test_steps_change_as_their_linear_models_say(falling, method):
    robot, q, qd, tau = falling
    A, B = nlink.linearize(robot, q, qd, tau, step=0.02, method=method)
    np.testing.assert_allclose(A, differences(robot, q, qd, tau, 0.02, method), atol=2e-9)
    more, _ = nlink.linearize(robot, q, qd, 2 * tau, step=0.02, method=method)
    assert B.shape == (2 * robot.n, robot.n)
    assert not np.allclose(more, A)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk4", "dop853"])
def test_compiled_steps_are_the_texts_of_methods(falling, method):
    robot, q, qd, tau = falling
    system = LinearModel(nlink.System(robot), METHODS[method], 0.02, np.array(0.0))._changes
    y, change = step_on_arrays(system, METHODS[method], np.concatenate([q, qd])[None], tau[None],
                               0.0, 0.02)
    change = np.concatenate([in_tangent_space(robot, y[:, :robot.nq], change[:, :robot.nq]),
                             change[:, robot.nq:]], axis=1)[0]
    given = nlink.linearize(robot, q, qd, tau, step=0.02, method=method)
    np.testing.assert_allclose(np.concatenate(given, axis=-1), change, atol=1e-13)


@pytest.mark.slow
def test_short_steps_tend_to_the_motion(falling):
    robot, q, qd, tau = falling
    A, B = nlink.linearize(robot, q, qd, tau)
    h, unit = 1e-4, np.eye(2 * robot.n)
    (A1, B1), (A2, B2) = (nlink.linearize(robot, q, qd, tau, step=step, method="rk4")
                          for step in (h, h / 2))
    np.testing.assert_allclose(4 * (A2 - unit) / h - (A1 - unit) / h, A, atol=1e-5)
    np.testing.assert_allclose(4 * B2 / h - B1 / h, B, atol=1e-5)


@pytest.mark.slow
def test_batches():
    robot = nlink.load("double_pendulum")
    q, qd = robot.random_state(0, (3, 2))
    for options in ({}, {"step": 0.01}, {"step": 0.01, "method": "rk4"}):
        A, B = nlink.linearize(robot, q, qd, np.zeros(2), **options)
        assert (A.shape, B.shape) == ((3, 2, 4, 4), (3, 2, 4, 2))
        one, _ = nlink.linearize(robot, q[1, 1], qd[1, 1], np.zeros(2), **options)
        np.testing.assert_allclose(A[1, 1], one, rtol=1e-13, atol=1e-15)
        out = np.full_like(A, np.nan), np.full_like(B, np.nan)
        assert nlink.linearize(robot, q, qd, np.zeros(2), **options, out=out)[0] is out[0]
        np.testing.assert_array_equal(out[0], A)
        np.testing.assert_array_equal(out[1], B)


@pytest.mark.parametrize(("options", "message"), [
    ({"step": -1.0}, "step: -1.0, expected a number > 0"),
    ({"step": 0.1, "method": "abm"}, "method: 'abm', expected one of"),
    ({"method": "rk4"}, "step: None, expected the size of the step of method='rk4'"),
    ({"step": 0.1, "out": (np.zeros((4, 4)), np.zeros(2))},
     r"out \(B\): shape \(2,\), expected \(4, 2\)"),
    ({"qd": [0.0]}, r"qd: shape \(1,\), expected \(..., 2\)"),
])
def test_what_does_not_fit_is_refused(options, message):
    given = {"q": [0.0, 0.0], "qd": [0.0, 0.0], "tau": [0.0, 0.0]} | options
    with pytest.raises(ValueError, match=message):
        nlink.linearize(nlink.load("double_pendulum"), **given)


def test_a_robot_without_joints_has_empty_models():
    fixed = nlink.load("planar3").lock(["joint1", "joint2", "joint3"])
    none = np.zeros((5, 0))
    for how in ({}, {"step": 0.1}, {"step": 0.1, "method": "rk4"}):
        assert [x.shape for x in nlink.linearize(fixed, none, none, none, **how)] == [(5, 0, 0)] * 2


def test_steps_of_joints_with_dry_friction_and_states_that_are_not_numbers():
    robot = random_robot(3, 2, types=("revolute",), fixed=False, friction=True)
    q, qd = robot.random_state(0, (2,))
    qd[1, 0] = np.nan
    A, _ = nlink.linearize(robot, q, qd, np.zeros(robot.n), step=1e-6, method="rk4")
    motion, _ = nlink.linearize(robot, q[0], qd[0], np.zeros(robot.n))
    np.testing.assert_allclose((A[0] - np.eye(2 * robot.n)) / 1e-6, motion, rtol=1e-3, atol=1e-3)
    assert np.isnan(A[1]).any()


@pytest.mark.slow
def test_models_of_many_joints_come_from_programs_in_two_stages(monkeypatch):
    robot = random_robot(2, 9, fixed=False, friction=False)
    q, qd = robot.random_state(0)
    tau = np.ones(robot.n)
    straight = [program(robot)(*map(list, (q, qd, tau, *more)))
                for program, more in ((motion_program, ()), (step_program, ([0.01],)))]
    monkeypatch.setattr(engines, "LONG_CODE", 0)
    for program, more, expected in ((motion_program, (), straight[0]),
                                    (step_program, ([0.01],), straight[1])):
        staged = program(robot)
        assert isinstance(staged, StagedProgram)
        for one, other in zip(staged(*map(list, (q, qd, tau, *more))), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
