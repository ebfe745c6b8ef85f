"""Derivatives of whole simulations with loops, forwards and backwards, against differences."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.robot import Robot
from nlink.simulation.run import Run
from nlink.testing.linkages import net

H = 1e-6
STEPS = {"t": 0.2, "every": 0.02, "friction": "smooth", "width": 0.1}


def mechanism(name: str) -> Robot:
    """A bundled mechanism, an arm with a gear, or a net."""
    if name == "geared":
        return nlink.load("planar3").with_gears([
            nlink.Gear("pair", {"joint1": 2.0, "joint3": 1.0})])
    return Robot(net(2, 2)) if name == "net" else nlink.load(name)


def start(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    return robot.loops.random_state(np.random.default_rng(1))


def ends(run: Run) -> np.ndarray:
    return np.concatenate([run.q[..., -1, :], run.qd[..., -1, :]], axis=-1)


def motor(t, q, qd, p):
    """A spring and a damper on the first joint, the given numbers being their constants."""
    return [p[0] * nlink.cos(q[0]) - p[1] * qd[0], *[0.0] * (len(q) - 1)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("closing", ["project", "drift"])
@pytest.mark.parametrize("name", ["four_bar", "geared"])
def test_sensitivities_are_those_of_the_computed_steps(name, closing):
    """Also along changes that open loops: the start is projected, and so are they."""
    robot = mechanism(name)
    (q, qd), p = start(robot), np.array([3.0, 0.5])
    how = {"tau": motor, "closing": closing, "method": "rk4", **STEPS}
    run = nlink.simulate(robot, q, qd, vary={"p": p}, sensitivities=("q0", "qd0", "p"), **how)
    each = H * np.eye(robot.n)
    for by, moved, back in (
            ("q0", (robot.integrate(q, each), qd, p), (robot.integrate(q, -each), qd, p)),
            ("qd0", (q, qd + each, p), (q, qd - each, p)),
            ("p", (q, qd, p + H * np.eye(2)), (q, qd, p - H * np.eye(2)))):
        after, before = (ends(nlink.simulate(robot, *x, vary={"p": y}, **how))
                         for *x, y in (moved, back))
        found = run.sensitivity(by)
        got = np.concatenate([found.q[-1], found.qd[-1]]).T
        assert np.abs(got - (after - before) / (2 * H)).max() < 1e-7 * np.abs(got).max()
        if closing == "project":
            J = robot.loops.jacobian(run.q[-1])
            assert np.abs(J @ found.q[-1]).max() < 1e-9 * max(1.0, np.abs(found.q[-1]).max())


@pytest.mark.slow
def test_events_with_loops_change_as_differences_say():
    robot, events = nlink.load("four_bar"), {"level": lambda t, q, qd: q[0] - 1.9}
    how = {"t": 1.5, "friction": "smooth", "events": events, "rtol": 1e-11, "atol": 1e-12}
    rates = robot.loops.complete(robot.neutral, {"crank": 1.0})[0]
    run = nlink.simulate(robot, qd0=rates, sensitivities="qd0", **how)
    assert len(run.events) > 0
    found = run.events.sensitivities["qd0"]
    after, before = (nlink.simulate(robot, qd0=rates + d * rates, **how).events
                     for d in (H, -H))
    assert np.allclose(found.t @ rates, (after.t - before.t) / (2 * H), rtol=1e-5)
    assert np.allclose(found.qd @ rates, (after.qd - before.qd) / (2 * H), rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["four_bar", "geared", "net"])
def test_gradients_are_those_of_the_computed_steps(name):
    """Forces in a table, and quaternions of spherical joints."""
    robot = mechanism(name)
    q, qd = start(robot)
    table = 0.1 * np.random.default_rng(0).normal(size=(11, robot.n))

    def cost(q, qd):
        return q @ q + 0.1 * (qd @ qd)

    found = nlink.adjoint(robot, cost, q, qd, tau=table, **STEPS)
    each, way = H * np.eye(robot.n), np.random.default_rng(2).normal(size=table.shape)
    for by, moved, back in (
            ("q0", (robot.integrate(q, each), qd, table), (robot.integrate(q, -each), qd, table)),
            ("qd0", (q, qd + each, table), (q, qd - each, table)),
            ("tau", (q, qd, table + H * way), (q, qd, table - H * way))):
        after, before = (nlink.adjoint(robot, cost, *x, tau=u, **STEPS).cost
                         for *x, u in (moved, back))
        got = found.gradient[by] if by != "tau" else np.sum(found.gradient[by] * way)
        assert np.abs(got - (after - before) / (2 * H)).max() < 1e-6 * max(
            np.abs(found.gradient["q0"]).max(), np.abs(got).max())


def test_what_has_no_derivative_with_loops_is_refused():
    robot = nlink.load("four_bar")
    with pytest.raises(ValueError, match=r"not with closing=20\.0, expected 'project' or 'drift'"):
        nlink.simulate(robot, t=0.1, friction="smooth", closing=20.0, sensitivities="q0")
    with pytest.raises(ValueError, match="not with motions that are given of a mechanism with"):
        nlink.adjoint(robot, lambda q, qd: q @ q, t=0.1, friction="smooth",
                      motion={"crank": lambda t: robot.neutral[0] + t})
