"""Derivatives of steps with contacts against differences, modes being the same on both sides."""

from __future__ import annotations

import numpy as np
import pytest
from test_contact_joints import rough_arm

import contact_cases
import nlink
from nlink.simulation.contact_derivatives import ContactStep
from nlink.simulation.drives import Beside

STEP = 2e-3
EULER = {"method": "semi_implicit", "step": STEP}


def differences(robot: nlink.Robot, q, qd, tau, e=1e-6, **options):
    """Centred differences of a step by q, qd and tau, nan where a mode is another, and how many
    modes there are."""
    def step(q, qd, tau):
        stepper = nlink.Stepper(robot, q, qd, **EULER, **options)
        stepper.step(tau)
        layout = stepper._system.layout
        modes = [stepper._robots.y[:, layout.place([part.name])]
                 for part in layout.parts if part.name.endswith("mode")]
        return stepper.q.copy(), stepper.qd.copy(), np.concatenate(modes, axis=1)

    n, columns = robot.n, []
    modes = step(q, qd, tau)[2]
    for j in range(3 * n):
        d = np.zeros((3, *qd.shape))
        d[j // n, :, j % n] = e
        up, down = (step(robot.integrate(q, s * d[0]), qd + s * d[1], tau + s * d[2])
                    for s in (1, -1))
        change = np.concatenate([robot.difference(down[0], up[0]), up[1] - down[1]], 1) / (2 * e)
        same = ((up[2] == modes) & (down[2] == modes)).all(axis=1)
        columns.append(np.where(same[:, None], change, np.nan))
    return np.stack(columns, axis=2), modes


def capsules(count: int, seed: int):
    """A capsule on its way into the ground: its ends open, stick or slide in the next step."""
    rng = np.random.default_rng(seed)
    robot = contact_cases.body(1.0, (0.1, 0.1, 0.02), nlink.Capsule(0.1, 0.4),
                               nlink.World(friction=0.5))
    q = np.array([[0, 0, 0.0, *contact_cases.turn(rng.normal(size=3))] for _ in range(count)])
    q[::2, 3:] = contact_cases.turn([np.pi / 2, 0, 0])
    q[:, 2] += 1e-4 - robot.contact_problem(q, np.zeros(6), np.zeros(6)).gap.min(axis=1)
    qd = 0.5 * rng.normal(size=(count, 6))
    qd[::3] *= 0.01
    return robot, q, qd, rng.normal(size=(count, 6))


def arms(count: int, seed: int):
    """An arm with a ball above the ground, joints that rest, slide and reach their limits."""
    rng = np.random.default_rng(seed)
    robot = rough_arm(planes=[((0, 1.0, 0), -0.9)], friction=0.4)
    q, qd = rng.uniform(-0.7, 0.7, (count, 3)), rng.normal(size=(count, 3))
    q[::2, 1:] = [0.9 - 1e-4, -0.8 + 1e-4]
    qd[::3] *= 1e-3
    return robot, q, qd, 5.0 * rng.normal(size=(count, 3))


def pairs(count: int, seed: int):
    """A ball on its way into uneven ground and, in some states, into a capsule that is held."""
    rng, x = np.random.default_rng(seed), np.linspace(-2, 2, 9)
    field = nlink.HeightField(0.1 * np.sin(2 * x)[:, None] * np.cos(x)[None], (-2, 2), (-2, 2))
    ball = nlink.free_body("ball", 1.0, nlink.Sphere(0.1), nlink.World(
        height_field=field, friction=0.5))
    pole = nlink.load("planar3").with_gravity((0, 0, -9.81)).with_contacts(
        {"link3": nlink.Capsule(0.05, 0.6, pairs_only=True)}, ball.description.world)
    robot = nlink.together(ball, pole).with_contacts(pairs=[("ball", "link3")])
    q, qd = robot.random_state(rng, (count,))
    q[:, 7:] *= 0.2
    qd[:, :3], qd[:, 6:] = 2 * qd[:, :3], 0.1 * qd[:, 6:]
    q[:, :2] = rng.uniform(-0.6, 0.6, (count, 2))
    for k in range(count):
        link = robot.pose(q[k], "link3")[:3, 3]
        if k % 2:
            q[k, :3] = link + np.array([0.1, 0.11, 0.1])
        for _ in range(30):
            gaps = robot.contact_problem(q[k], qd[k], 0 * qd[k]).gap
            q[k, 1 + (k + 1) % 2] -= 0.9 * (gaps[k % 2] - 1e-4)
    return robot, q, qd, rng.normal(size=(count, robot.n))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "options"), [
    (capsules, {}), (arms, {"limits": "hold"}), (pairs, {})])
def test_linear_models_of_steps_are_differences(make, options):
    robot, q, qd, tau = make(24, 0)
    A, B = nlink.linearize(robot, q, qd, tau, step=STEP, **options)
    found, modes = differences(robot, q, qd, tau, **options)
    exact = np.concatenate([A, B], axis=2)
    scale = np.maximum(1.0, np.abs(exact).max(axis=1, keepdims=True))
    assert np.isfinite(found).mean() > 0.8
    error = np.abs(found - exact) / scale
    assert np.nanmax(error) < 1e-5
    assert np.nanmedian(error) < 1e-8
    assert len(np.unique(modes)) >= 3


@pytest.mark.slow
def test_bodies_on_more_points_than_they_need_have_derivatives():
    """Four corners on the ground: forces are not unique, velocities are."""
    box = contact_cases.table((0.2, 0.3, 0.1), world=nlink.World(friction=0.5))
    q = np.array([[0, 0, 0.05 + 1e-6, 1, 0, 0, 0]] * 2)
    qd, tau = np.array([[0, 0, 0.1, 0.01, 0.02, -0.1], [0, 0, 0, 0, 0, -0.1]]), np.zeros((2, 6))
    A, B = nlink.linearize(box, q, qd, tau, step=STEP)
    found, _ = differences(box, q, qd, tau, e=1e-7)
    exact, known = np.concatenate([A, B], axis=2), np.isfinite(found)
    assert known[:, :, 6:].mean() > 0.5
    np.testing.assert_allclose(found[known], exact[known], atol=1e-4)


@pytest.mark.slow
def test_products_forwards_and_backwards_are_those_of_one_matrix():
    robot, q, qd, tau = arms(6, 1)
    system = nlink.System(robot, limits="hold")
    system = system.but(varied=system.varied.with_numbers("tau", 3), drive=Beside(system.drive))
    step, rng = ContactStep(system, STEP), np.random.default_rng(0)
    y, _ = step.after(system.before_sample(np.concatenate([q, qd], axis=1)), tau, 0.0)
    size = y.shape[1]
    dy, du, w = (np.zeros((6, 1, size)), rng.normal(size=(1, 3)), np.zeros((6, size)))
    dy[:, 0, :6], w[:, :6] = rng.normal(size=(6, 6)), rng.normal(size=(6, 6))
    forwards = (step.moved(y, tau, 0.0, dy, du)[:, 0] * w).sum(axis=1)
    by_y, by_u = step.pulled(y, tau, 0.0, w)
    np.testing.assert_allclose((by_y * dy[:, 0]).sum(axis=1) + by_u @ du[0], forwards, rtol=1e-9)


@pytest.mark.slow
def test_gradients_of_runs_with_contacts_are_differences():
    """A ball that lands, slides and rolls: by where it starts, and by friction."""
    ball = contact_cases.ball(0.1, world=nlink.World(friction=0.3))
    q0, qd0 = np.array([0, 0, 0.12, 1, 0, 0, 0]), np.array([0, 3.0, 0, 2.0, 0.5, 0])
    options = {"t": 0.4, "every": 1e-3}
    found = nlink.adjoint(ball, lambda q, qd: q[0] + 2 * q[1] + 0.1 * (qd @ qd), q0, qd0,
                          vary={"contact_friction": 0.3}, **options)

    def cost(qd0, mu=0.3):
        run = nlink.simulate(ball, q0, qd0, vary={"contact_friction": mu}, method="semi_implicit",
                             step=1e-3, **options)
        q, qd = run.q[..., -1, :], run.qd[..., -1, :]
        return q[..., 0] + 2 * q[..., 1] + 0.1 * (qd * qd).sum(axis=-1)

    assert found.cost == pytest.approx(cost(qd0))
    e = 1e-6
    up, down = cost(qd0 + e * np.eye(6)), cost(qd0 - e * np.eye(6))
    assert found.gradient["qd0"] == pytest.approx((up - down) / (2 * e), abs=1e-6)
    assert found.gradient["contact_friction"][0] == pytest.approx(
        (cost(qd0, 0.3 + e) - cost(qd0, 0.3 - e)) / (2 * e), abs=1e-6)


@pytest.mark.slow
def test_smoothed_laws_have_derivatives_between_modes():
    """They go over into the exact ones, and say in the air that the ground is near."""
    robot, q, qd, tau = capsules(8, 2)
    exact = nlink.linearize(robot, q, qd, tau, step=STEP)[0]
    near = nlink.linearize(robot, q, qd, tau, step=STEP, smooth=1e-7)[0]
    assert np.median(np.abs(near - exact)) < 1e-4
    above = q + 1e-3 * np.eye(7)[2]
    still = np.zeros((8, 6))
    free, felt = (nlink.linearize(robot, above, still, still, step=STEP, smooth=smooth)[0]
                  for smooth in (0.0, 0.1))
    assert np.abs(felt - free).max() > 1e-3
    step, e, d = ContactStep(nlink.System(robot), STEP, 0.1), 1e-6, np.eye(6)[5]
    up, down = (step.after(step.system.before_sample(np.concatenate([q, qd + x * d], axis=1)),
                           np.empty((8, 0)), 0.0)[1][:, 7:13] for x in (e, -e))
    felt = nlink.linearize(robot, q, qd, still, step=STEP, smooth=0.1)[0]
    np.testing.assert_allclose((up - down) / (2 * e), felt[:, 6:, 11], atol=1e-6)
    with pytest.raises(ValueError, match=r"smooth: 0\.1 without contacts, expected 0"):
        nlink.linearize(nlink.load("planar3"), [0, 0, 0], [0, 0, 0], step=STEP, smooth=0.1)


def test_linear_models_without_a_step_are_refused():
    robot = rough_arm()
    for options, message in (({}, "linearize: not with contact='rigid' without a step"),
                             ({"step": STEP, "method": "rk4"}, "does not go with method='rk4'")):
        with pytest.raises(ValueError, match=message):
            nlink.linearize(robot, [0, 0, 0], [0, 0, 0], [0, 0, 0], **options)
