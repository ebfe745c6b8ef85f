"""Dry friction and limits of joints beside contacts: rows of one problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import contact_cases
import nlink
from nlink.algorithms.contact_rows import contact_rows
from nlink.algorithms.inverse_dynamics import no_wrenches
from nlink.algorithms.sweep import Unrolled
from nlink.simulation import simulator
from nlink.simulation.moment import without_dry_friction
from nlink.testing import random_robot
from nlink.testing.mechanisms import EVERY

EULER = {"method": "semi_implicit", "step": 1e-3}


def limited(robot: nlink.Robot, **limits) -> nlink.Robot:
    """The robot with these limits of all joints."""
    return nlink.Robot(replace(robot.description, joints=tuple(
        replace(joint, limits=nlink.Limits(**limits)) for joint in robot.description.joints)))


def rough_arm(dry: float = 2.0, **world) -> nlink.Robot:
    """A planar arm whose joints rub and have limits, with a ball around its last joint."""
    arm = nlink.load("planar3").with_friction(dry=dry, viscous=0.02)
    return limited(arm, position=(-0.8, 0.9)).with_contacts(
        {"link3": nlink.Sphere(0.05)}, nlink.World(**world))


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_rates_are_those_of_the_inverse_of_M(seed):
    """With unit rows for rates, G is (J, 1) M^-1 (J, 1)^T; friction is not in the elimination."""
    robot = random_robot(seed, 5, types=EVERY, fixed=False).with_friction(dry=0.3)
    robot = robot.with_contacts({robot.links[-1].name: nlink.Sphere(0.1)})
    rng, mechanism = np.random.default_rng(seed), without_dry_friction(robot.mechanism)
    q, qd = robot.random_state(rng)
    moded = tuple(range(robot.n))
    driver = Unrolled(mechanism)
    split = [mechanism.split(x, each) for x, each in ((q, "nq"), (qd, "nv"), (0 * qd, "nv"))]
    found = contact_rows(driver, *split, no_wrenches(driver), 1e-3, moded)
    inverse = np.linalg.inv(robot.mass_matrix(q))
    problem = robot.contact_problem(q, qd, 0 * qd)
    G, scale = np.array(found.G, float), np.abs(inverse).max()
    np.testing.assert_allclose(G[3:, 3:], inverse, atol=1e-9 * scale)
    np.testing.assert_allclose(G[:3, :3], problem.G, atol=1e-9 * np.abs(problem.G).max())
    np.testing.assert_allclose(found.g[3:], [x for own in found.free for x in own])


@pytest.mark.parametrize("restitution", [0.0, 0.5])
def test_joints_far_from_the_ground_move_as_without_it(restitution):
    """The rows are the box problem that semi-implicit Euler solves by pivots without contacts."""
    arm = rough_arm(planes=[((0, 0, 1.0), -50.0)])
    q0 = [[0.3, 0.2, -0.1], [0.8, -0.7, 0.5]]
    options = {"t": 1.5, "every": 0.1, "limits": "hold", "restitution": restitution, **EULER}
    rows, pivots = (nlink.simulate(arm, q0, [[1.0, -2.0, 0.5], [0, 3.0, 0]], contact=contact,
                                   **options) for contact in ("rigid", "ignore"))
    assert (rows.status == "done").all()
    np.testing.assert_allclose(rows.q, pivots.q, atol=1e-9)
    np.testing.assert_allclose(rows.qd, pivots.qd, atol=1e-8)
    slides = [np.abs(run.modes[:, 1:]) == 1 for run in (rows, pivots)]
    assert (slides[0] == slides[1]).all()
    assert (np.abs(rows.modes) == 2).any()
    assert (rows.modes == 0).any()


@pytest.mark.slow
def test_an_arm_with_friction_rests_on_the_ground():
    """It falls until its tip and its friction hold it; what is held is so to the bit, forces
    balance its weight, and limits are not passed."""
    arm = rough_arm(planes=[((0, 1.0, 0), -0.9)], friction=0.7)
    q0 = np.array([[-0.2, 0.1, 0.2], [0.5, -0.3, -0.4]])
    run = nlink.simulate(arm, q0, t=3.0, limits="hold", **EULER)
    assert (run.status == "done").all()
    assert run.stats.contact.residual.max() < 1e-8
    assert run.q.min() >= -0.8 - 1e-12
    assert run.q.max() <= 0.9 + 1e-12
    still = np.abs(run.qd[:, -1]).max(axis=1) == 0
    assert still.any()
    assert (run.contacts["link3"].mode[:, -1] > 0).any()
    for k in np.flatnonzero(still):
        q, force = run.q[k, -1], run.contacts["link3"].force[k, -1]
        J = arm.jacobian(q, "link3")
        push = J[:3].T @ np.cross([0, -0.05, 0], force) + J[3:].T @ force
        held = run.parts["joint_force"][k, -1]
        np.testing.assert_allclose(push + held, arm.gravity_torque(q), atol=1e-6)


@pytest.mark.slow
def test_alone_and_in_a_batch_with_joints_that_rub():
    arm = rough_arm(planes=[((0, 1.0, 0), -0.9)])
    rng = np.random.default_rng(0)
    q0, qd0 = rng.uniform(-0.7, 0.7, (5, 3)), rng.normal(size=(5, 3))
    batch = nlink.simulate(arm, q0, qd0, t=0.5, limits="hold", **EULER)
    alone = nlink.simulate(arm, q0[3], qd0[3], t=0.5, limits="hold", **EULER)
    assert alone.q.tobytes() == batch.q[3].tobytes()
    for name, part in alone.parts.items():
        assert part.tobytes() == batch.parts[name][3].tobytes()
    stepper = nlink.Stepper(arm, q0[3], qd0[3], limits="hold", **EULER)
    for _ in range(500):
        stepper.step()
    np.testing.assert_allclose(stepper.q, alone.q[-1], atol=1e-12)


def test_effort_is_saturated_beside_contacts():
    """A ball pushed with 50 N by an actuator of 2 N: 1 / m of it a second."""
    ball = contact_cases.ball(0.1, mass=2.0, world=nlink.World(friction=0.0))
    ball = limited(ball, effort=2.0)
    run = nlink.simulate(ball, [0, 0, 0.1, 1, 0, 0, 0], t=0.5, effort="saturate",
                         tau=lambda t, q, qd: np.array([0, 0, 0, 50.0, 0, 0]), **EULER)
    assert run.qd[-1, 3] == pytest.approx(0.5)
    assert run.contacts["body"].force[-1] == pytest.approx([0, 0, 2 * 9.81])


def test_changes_of_contacts_and_joints_are_events(tmp_path):
    """A ball lands sliding and comes to roll, one without friction is thrown up; the log says when.
    """
    ball = contact_cases.ball(0.1, world=nlink.World(friction=0.3))
    q0, qd0 = [0, 0, 0.105, 1, 0, 0, 0], [0, 0, 0, 3.0, 0, 0]

    def throw(t, q, qd):
        return np.array([0, 0, 0, 0, 0, nlink.where(nlink.less(0.5, t), 30.0, 0.0)], object)

    passing = {"there": nlink.Event(lambda t, q, qd: q[0] - 0.5)}
    run = nlink.simulate(ball, q0, qd0, tau=throw, t=0.6, events=passing, every=1e-3,
                         vary={"contact_friction": [0.3, 0.0]}, **EULER)
    rolls, flies = ([log.names[k] for k in log.which] for log in map(run.events.of, (0, 1)))
    assert flies == ["body touches", "there", "body leaves"]
    assert rolls[:3] == ["body touches", "there", "body sticks"]
    t, mode = run.events.of(0).t, run.contacts["body"].mode
    t = dict(zip(rolls[:3], t[:3], strict=True))
    for k, name, before, after in ((0, "touches", 0, 2), (0, "sticks", 2, 1), (1, "leaves", 2, 0)):
        at = round(run.events[f"body {name}"].of(k).t[0] / 1e-3)
        assert (mode[k, at - 1], mode[k, at]) == (before, after)
    assert t["body touches"] == pytest.approx(np.sqrt(2 * 0.005 / 9.81), abs=1e-3)
    loaded = nlink.load_run(run.save(tmp_path / "run.npz"))
    assert loaded.events.names == run.events.names
    assert (loaded.events.which == run.events.which).all()
    floats = nlink.simulate(ball, q0, qd0, t=0.05, traced=False, **EULER).events
    assert [floats.names[k] for k in floats.which] == ["body touches"]
    stepper, heard = nlink.Stepper(ball, q0, qd0, **EULER), []
    for _ in range(400):
        stepper.step()
        heard += [(float(stepper.t), stepper.events.names[k]) for k in stepper.events.which]
    assert [name for _, name in heard] == ["body touches", "body sticks"]
    assert heard[1][0] == pytest.approx(t["body sticks"])


@pytest.mark.slow
def test_joints_beside_contacts_tell_when_they_stick_and_reach_limits():
    arm = rough_arm(planes=[((0, 1.0, 0), -0.9)])
    run = nlink.simulate(arm, [0.5, 0.1, -0.3], [0.5, 1.0, 0], t=1.0, every=1e-3, limits="hold",
                         **EULER)
    events, names = run.events, list(run.events.names)
    assert {"link3 touches", "joint1 sticks", "joint2 slides"} <= set(names)
    first = len(names) - 6
    for k in range(3):
        modes = run.modes[:, k]
        held = np.abs(modes) != 1
        changes = np.flatnonzero(held[1:] != held[:-1]) + 1
        mine = np.isin(events.which, [first + 2 * k, first + 2 * k + 1])
        flips = [round(x / 1e-3) for x in events.t[mine]]
        assert set(changes) <= set(flips)


def hopper() -> nlink.Robot:
    """A plate with three round corners on one leg, a slider with a ball at its end."""
    body = nlink.Link("trunk", 4.0, (0, 0, 0), tuple(map(tuple, np.diag([0.1, 0.1, 0.1]).tolist())))
    foot = nlink.Link("foot", 0.2, (0, 0, 0), tuple(map(tuple, np.diag([1e-3] * 3).tolist())))
    leg = nlink.Joint("leg", nlink.Prismatic(), 1, nlink.Mount(nlink.Pose.of(
        np.eye(3), [0, 0, -0.2])), nlink.Friction(viscous=3.0))
    robot = nlink.Robot(nlink.Description("hopper", (body, foot), (
        nlink.Joint("free", nlink.Free()), leg), gravity=(0, 0, -9.81), physical="ignore"))
    corners = [nlink.Sphere(0.02, pose=nlink.Pose.of(np.eye(3), [
        0.3 * np.cos(x), 0.3 * np.sin(x), 0]))
               for x in (0.0, 2.1, 4.2)]
    return robot.with_contacts({"foot": nlink.Sphere(0.02), "trunk": corners},
                               nlink.World(friction=0.5))


@pytest.mark.slow
def test_contacts_that_are_tried_last_are_never_missed():
    """A legged body that falls over: a step that tries its foot first is the step of all
    contacts."""
    robot = hopper()
    tried = nlink.System(robot, lambda t, q, qd: np.array(
        [0.0] * 6 + [-200.0 * x for x in q[7:]], object))
    assert tried.contacts.few == (0,)
    whole = tried.but(contacts=replace(tried.contacts, few=()))
    q0 = np.array([[0, 0, 0.35, *contact_cases.turn(turn), 0] for turn in (
        [0, 0, 0], [0.9, 0.3, 0], [3.0, 0, 0.2])])
    runs = [nlink.simulate(system, q0, t=1.0, **EULER) for system in (tried, whole)]
    assert (runs[0].status == "done").all()
    lay = [name for name in runs[0].contacts if name.startswith("trunk")
           and (runs[0].contacts[name].mode > 0).any()]
    assert len(lay) >= 2
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-7)
    assert runs[0].stats.contact.depth.max() < 1e-4


def test_a_contact_that_nothing_can_solve_ends_its_trajectory():
    """A planar arm cannot leave a plane across its own: never silently."""
    arm = nlink.load("planar3").with_contacts({"link3": nlink.Sphere(0.1)})
    run = nlink.simulate(arm, [0.1, 0.2, 0.3], t=0.01, **EULER)
    assert run.status == "contact not solved"
    assert run.stats.contact.residual > 1e-4
    assert any("contacts solved to 9.9e-01 m/s" in line for line in run.warnings)


def test_a_step_as_one_kernel_is_that_of_steppers():
    """A ball that lands and slides, forces and slips handed from call to call."""
    ball = contact_cases.ball(0.1, world=nlink.World(friction=0.3))
    q, qd = np.array([[0, 0, 0.1 + 1e-4, 1, 0, 0, 0]] * 3), np.array([[0, 1.0, 0, 3.0, 0.5, 0]] * 3)
    step, force, slip = ball.compile("contact_step"), np.zeros((3, 3)), np.zeros((3, 1))
    stepper, still, h = nlink.Stepper(ball, q, qd, **EULER), np.zeros((3, 6)), np.full(3, 1e-3)
    for _ in range(50):
        new = [np.empty_like(x) for x in (q, qd, force, slip)]
        residual = np.empty(3)
        step(q, qd, still, force, slip, h, *new, residual)
        q, qd, force, slip = new
        stepper.step()
        assert residual.max() < 1e-10
    np.testing.assert_allclose(q, stepper.q, atol=1e-12)
    np.testing.assert_allclose(qd, stepper.qd, atol=1e-11)
    assert force[:, 2] == pytest.approx(9.81)
    with pytest.raises(ValueError, match="contact_step: planar3 has no contacts, expected a robot"):
        nlink.load("planar3").compile("contact_step")
    with pytest.raises(ValueError, match="'contact_step' with dtype='float32', expected it alone"):
        ball.compile("contact_step", dtype="float32")


def test_no_finite_state_becomes_nan():
    """Whatever the size of numbers: a state that goes on is finite, and others say why not."""
    rng, size = np.random.default_rng(0), 600
    robot = contact_cases.body(1.0, (0.1, 0.1, 0.02), nlink.Capsule(0.1, 0.4))
    q, qd, tau = (rng.normal(size=(size, k)) * 10.0 ** rng.uniform(-150, 150, (size, 1))
                  for k in (7, 6, 6))
    q[:, 3:] = rng.normal(size=(size, 4))
    stepper = nlink.Stepper(robot, q, qd, **EULER)
    with pytest.warns(UserWarning, match=r"contact not solved|not finite"):
        stepper.step(tau)
    assert np.isfinite(stepper.q).all()
    assert np.isfinite(stepper.qd).all()
    assert set(stepper.status) == {"running", "contact not solved", "not finite"}


class Halt(Exception):
    """What stops a run on its way."""


@pytest.mark.slow
def test_resumed_runs_have_the_bits_of_whole_ones_with_joints_that_rub(tmp_path, monkeypatch):
    arm = rough_arm(planes=[((0, 1.0, 0), -0.9)])
    start = [[0.5, 0.1, -0.3], [-0.2, 0.4, 0.1]], [0.5, 1.0, 0]
    options = {"t": 0.4, "limits": "hold", **EULER}
    whole = nlink.simulate(arm, *start, **options)
    monkeypatch.setattr(simulator, "SLICE", 1e-9)

    def halt(share):
        if share > 0.5:
            raise Halt

    with pytest.raises(Halt):
        nlink.simulate(arm, *start, save=tmp_path / "run", progress=halt, **options)
    resumed = nlink.simulate(arm, *start, save=tmp_path / "run", progress=False, **options)
    assert np.asarray(resumed.q).tobytes() == whole.q.tobytes()
    for name in whole.parts:
        assert np.asarray(resumed.parts[name]).tobytes() == whole.parts[name].tobytes()
    assert resumed.events.t.tobytes() == whole.events.t.tobytes()
    assert (resumed.events.which == whole.events.which).all()
    assert len(whole.events) > 3


def test_events_of_steps_that_decide_modes_are_logged():
    """Without contacts, too: a rate with dry friction beside a function that is watched."""
    arm = nlink.load("planar3").with_friction(dry=0.1)
    level = {"low": lambda t, q, qd: q[0]}
    run = nlink.simulate(arm, [0.5, 0.2, 0.1], t=0.5, events=level, **EULER)
    assert [run.events.names[k] for k in run.events.which] == ["low"]
