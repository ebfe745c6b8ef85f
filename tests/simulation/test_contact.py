"""Contact against closed forms: what is exact in a step is exact here, what is first order is not
asked for more."""

from __future__ import annotations

import math

import numpy as np
import pytest

import contact_cases
import nlink
from nlink.algorithms.contact_points import contact_points
from nlink.algorithms.kinematics import forward_kinematics
from nlink.algorithms.sweep import Unrolled
from nlink.simulation import Sampled, simulator
from nlink.simulation.step_programs import traced_step

G, STEP = 9.81, 1e-3
EULER = {"method": "semi_implicit", "step": STEP}
FLAT = [1.0, 0, 0, 0]


def world_twist(robot: nlink.Robot, q, qd) -> tuple[np.ndarray, np.ndarray]:
    """Angular and linear velocity of a free body in world axes, (..., 3) each."""
    found = robot.frame_velocity(q, qd, "body")
    return found[..., :3], found[..., 3:]


def body_rates(q, w, v) -> np.ndarray:
    """Rates of a free body from its velocities in world axes."""
    R = nlink.matrix_from_quaternion(q[3:])
    return np.concatenate([R.T @ w, R.T @ v])


SLOPES = np.array([0.499, 0.501, 0.7, 0.0, 0.0])
ANGLES = np.array([0.0, 0.0, 0.0, 0.0, 0.4])


@pytest.fixture(scope="module")
def sliding() -> nlink.Run:
    """A block on three inclines, and with a speed on the flat in two directions; mu = 0.5."""
    block = contact_cases.table((0.2, 0.2, 0.1), world=nlink.World(friction=0.5))
    slope = np.arctan(SLOPES)
    gravity = G * np.stack([np.sin(slope), 0 * slope, -np.cos(slope)], axis=1)
    qd0 = np.zeros((5, 6))
    qd0[3:, 3], qd0[3:, 4] = 2 * np.cos(ANGLES[3:]), 2 * np.sin(ANGLES[3:])
    return nlink.simulate(block, [0, 0, 0.05, *FLAT], qd0, t=1.0, vary={"gravity": gravity},
                          every=0.1, **EULER)


@pytest.mark.slow
def test_a_block_on_an_incline_sticks_up_to_its_friction(sliding):
    """tan a <= mu holds it; else x_N = a h^2 N (N + 1) / 2 with a = g (sin a - mu cos a)."""
    slope, steps = np.arctan(SLOPES[:3]), 1000
    pull = np.maximum(G * (np.sin(slope) - 0.5 * np.cos(slope)), 0)
    exact = pull * STEP**2 * steps * (steps + 1) / 2
    assert sliding.ok
    assert sliding.q[:3, -1, 0] == pytest.approx(exact, abs=2e-9)
    assert sliding.q[:3, -1, 2] == pytest.approx(0.05, abs=1e-12)


@pytest.mark.slow
def test_a_sliding_block_stops_in_its_direction(sliding):
    """x = h sum max(v0 - k h mu g, 0), whatever the direction: the cone is round."""
    speeds = np.maximum(2 - np.arange(1, 1001) * STEP * 0.5 * G, 0)
    for k in (3, 4):
        along = np.array([math.cos(ANGLES[k]), math.sin(ANGLES[k]), 0])
        moved = sliding.q[k, -1, :3] - [0, 0, 0.05]
        assert moved == pytest.approx(STEP * speeds.sum() * along, abs=1e-12)
        assert abs(sliding.qd[k, -1]).max() < 1e-12


def test_a_sliding_ball_comes_to_roll():
    """It rolls with 5/7 v0, after 2 v0 / (7 mu g)."""
    ball = contact_cases.ball(0.1, world=nlink.World(friction=0.3))
    q0 = np.array([0, 0, 0.1, *FLAT])
    run = nlink.simulate(ball, q0, body_rates(q0, np.zeros(3), np.array([3.0, 0, 0])), t=1.0,
                         every=STEP, **EULER)
    w, v = world_twist(ball, run.q, run.qd)
    assert v[-1] == pytest.approx([15 / 7, 0, 0], abs=1e-11)
    rolls = run.t[np.abs(v[:, 0] - 0.1 * w[:, 1]) < 1e-9][0]
    assert rolls == pytest.approx(6 / (7 * 0.3 * G), abs=2 * STEP)


@pytest.mark.parametrize(("spin", "v0", "speed"), [(20.0, 0.0, 4 / 7), (-80.0, 2.0, -6 / 7)])
def test_a_spinning_ball_lands(spin, v0, speed):
    """(5 v0 + 2 R w) / 7 of a ball that lands with spin, and of one with backspin."""
    ball = contact_cases.ball(0.1, world=nlink.World(friction=2.0))
    q0 = np.array([0, 0, 0.12 if not v0 else 0.1, *FLAT])
    start = body_rates(q0, np.array([0, spin, 0]), np.array([v0, 0, 0]))
    run = nlink.simulate(ball, q0, start, t=0.8, **EULER)
    assert world_twist(ball, run.q, run.qd)[1][-1] == pytest.approx([speed, 0, 0], abs=1e-10)


@pytest.mark.slow
def test_a_tall_block_topples_where_its_weight_leaves_its_base():
    slope = np.arctan([0.49, 0.51])
    gravity = G * np.stack([np.sin(slope), 0 * slope, -np.cos(slope)], axis=1)
    block = contact_cases.table((0.1, 0.1, 0.2), world=nlink.World(friction=5.0))
    run = nlink.simulate(block, [0, 0, 0.1, *FLAT], t=0.4, vary={"gravity": gravity}, **EULER)
    stands, topples = 2 * np.arccos(np.minimum(1.0, abs(run.q[:, -1, 3])))
    assert stands < 1e-7
    assert topples > 0.05


@pytest.mark.parametrize("e", [0.5, 1.0])
def test_a_ball_bounces_to_the_square_of_its_restitution(e):
    ball = contact_cases.ball(0.1, world=nlink.World(friction=0.0, restitution=e))
    run = nlink.simulate(ball, [0, 0, 1.1, *FLAT], t=2.0, every=STEP, **EULER)
    height = run.q[:, 2] - 0.1
    tops = [height[k] for k in range(1, len(height) - 1)
            if height[k - 1] < height[k] >= height[k + 1]]
    assert tops[0] == pytest.approx(e**2, abs=0.01)
    assert e < 1 or tops == pytest.approx(np.ones(len(tops)), abs=0.01)


def test_a_bouncing_ball_comes_to_rest():
    """At sqrt(2 H / g) (1 + e) / (1 - e)."""
    ball = contact_cases.ball(0.1, world=nlink.World(friction=0.0, restitution=0.5))
    run = nlink.simulate(ball, [0, 0, 1.1, *FLAT], t=2.0, every=STEP, **EULER)
    moving = run.t[np.abs(run.qd[:, 5]) > 1e-9]
    assert moving[-1] == pytest.approx(math.sqrt(2 / G) * 3, abs=0.03)
    assert run.q[-1, 2] == pytest.approx(0.1, abs=1e-12)


def test_a_jammed_rod_is_stopped_by_an_impulse():
    """Painleve's rod: where friction turns it into the ground no force is finite, and one step
    takes the impulse (0.852561, 0.636036), after which its end is at rest."""
    th, mu = math.radians(61), 1.6
    c, s = math.cos(th), math.sin(th)
    rod = contact_cases.body(1.0, (1 / 12, 1 / 12, 1e-4), nlink.Sphere(1e-12, pose=nlink.Pose.of(
        np.eye(3), [0, 0, -0.5])), nlink.World(friction=mu))
    q0 = np.array([0, 0, 0.5 * s, *contact_cases.turn([0, math.pi / 2 - th, 0])])
    assert 1 + 3 * c * c - 3 * mu * s * c == pytest.approx(-0.330194, abs=1e-6)
    h = 1e-7
    found = {}
    for v in (-2.0, 2.0):
        start = body_rates(q0, np.zeros(3), np.array([v, 0, 0]))
        run = nlink.simulate(rod, q0, start, t=[0.0, h], method="semi_implicit", step=h)
        found[v] = h * run.parts["contact_force"][-1]
    jammed = max(found.values(), key=lambda x: x[2])
    assert abs(jammed[[0, 2]]) == pytest.approx([0.852561, 0.636036], abs=1e-5)


@pytest.mark.slow
def test_a_step_without_restitution_loses_energy():
    """In each of 40 impacts of a capsule, by whatever part of it is lowest."""
    rng = np.random.default_rng(3)
    capsule = contact_cases.body(1.0, (0.1, 0.1, 0.02), nlink.Capsule(0.1, 0.4), nlink.World(
        friction=0.6), gravity=(0, 0, 0))
    q = np.array([[0, 0, 0.0, *contact_cases.turn(rng.normal(size=3))] for _ in range(40)])
    q[:, 2] = -capsule.contact_problem(q, np.zeros(6), np.zeros(6)).gap.min(axis=1)
    qd = rng.normal(size=(40, 6))
    run = nlink.simulate(capsule, q, qd, t=[0.0, 1e-9], method="semi_implicit", step=1e-9)
    before, after = (capsule.kinetic_energy(q, x) for x in (qd, run.qd[:, -1]))
    assert (after <= before + 1e-12).all()
    assert (after < 0.99 * before).any()


def lowest(robot: nlink.Robot, q) -> np.ndarray:
    """The gaps of a state."""
    driver = Unrolled(robot.mechanism)
    places = forward_kinematics(driver, robot.mechanism.split(q, "nq"), robot.mechanism.base.p)
    return np.array([float(t.gap) for t in contact_points(driver, places, robot.mechanism.base.p)])


@pytest.mark.slow
def test_lanes_and_floats_and_neighbours_agree():
    """One text on floats and in lanes; alone and in a batch, whole and resumed: equal bits."""
    rng = np.random.default_rng(1)
    brick = contact_cases.body(1.0, (0.1, 0.1, 0.02), nlink.Capsule(0.1, 0.4), nlink.World(
        friction=0.6))
    q0 = np.array([[0, 0, 0.25, *contact_cases.turn(rng.normal(size=3))] for _ in range(5)])
    qd0 = rng.normal(size=(5, 6))
    whole = nlink.simulate(brick, q0, qd0, t=0.4, every=0.1, **EULER)
    assert (whole.status == "done").all()
    for k in range(5):
        alone = nlink.simulate(brick, q0[k], qd0[k], t=0.4, every=0.1, **EULER)
        assert alone.q.tobytes() == whole.q[k].tobytes()
        assert alone.parts["contact_force"].tobytes() == whole.parts["contact_force"][k].tobytes()
    short = {"t": 0.02, "every": 0.01}
    low = q0[0] - [0, 0, lowest(brick, q0[0]).min() - 1e-5, 0, 0, 0, 0]
    qd0[0] = body_rates(q0[0], np.zeros(3), np.array([0.1, 0.2, -1.0]))
    lanes = nlink.simulate(brick, low, qd0[0], **short, **EULER)
    floats = nlink.simulate(brick, low, qd0[0], traced=False, **short, **EULER)
    np.testing.assert_allclose(lanes.q, floats.q, atol=1e-10)
    assert np.abs(lanes.parts["contact_force"]).max() > 1


def test_steppers_step_as_simulations_do():
    ball = contact_cases.ball(0.1, world=nlink.World(friction=0.3))
    q0, qd0 = [0, 0, 0.105, *FLAT], [0, 0, 5.0, 1.0, 0, 0]
    run = nlink.simulate(ball, q0, qd0, t=0.1, every=STEP, **EULER)
    stepper = nlink.Stepper(ball, q0, qd0, step=STEP, method="semi_implicit")
    for k in range(1, 101):
        stepper.step()
        assert stepper.q == pytest.approx(run.q[k], abs=1e-13)


def test_runs_and_steppers_report_forces_gaps_slips_and_modes(tmp_path):
    """A ball in flight, sliding with m g and mu m g against its motion, then rolling."""
    ball = contact_cases.ball(0.1, mass=2.0, world=nlink.World(friction=0.3))
    q0, qd0 = [0, 0, 0.1 + 5e-4, *FLAT], [0, 0, 0, 3.0, 0, 0]
    run = nlink.simulate(ball, q0, qd0, t=1.0, every=STEP, **EULER)
    touch = run.contacts["body"]
    assert list(run.contacts) == ["body"]
    assert touch.gap == pytest.approx(run.q[:, 2] - 0.1, abs=1e-15)
    assert touch.mode[0] == 0
    assert touch.mode[100] == 2
    assert touch.mode[-1] == 1
    assert touch.force[100] == pytest.approx([-0.3 * 2 * G, 0, 2 * G])
    assert touch.force[-1] == pytest.approx([0, 0, 2 * G], abs=1e-8)
    w, v = world_twist(ball, run.q, run.qd)
    assert touch.slip[100] == pytest.approx(v[100, 0] - 0.1 * w[100, 1])
    assert touch.slip[-1] < 1e-9
    assert touch.margin[[0, 100, -1]] == pytest.approx(
        [touch.gap[0], touch.slip[100], 0.3 * 2 * G], abs=1e-8)
    stats = run.stats.contact
    assert stats.residual < 1e-10
    assert stats.depth < 1e-15
    assert stats.sweeps >= 2000
    loaded = nlink.load_run(run.save(tmp_path / "run.npz"))
    assert loaded.stats.contact == stats
    assert (loaded.contacts["body"].force == touch.force).all()
    assert not [line for line in run.warnings if "contact" in line]
    stepper = nlink.Stepper(ball, [q0] * 3, qd0, step=STEP, method="semi_implicit")
    for _ in range(100):
        stepper.step()
    assert stepper.contacts["body"].force == pytest.approx(np.array([touch.force[100]] * 3))
    with pytest.raises(KeyError, match="contact 'bodi', expected one of body; did you mean"):
        run.contacts["bodi"]
    saved = nlink.simulate(ball, q0, qd0, t=1.0, every=STEP, save=tmp_path / "kept", **EULER)
    assert saved.q.tobytes() == run.q.tobytes()
    assert nlink.load_run(tmp_path / "kept").stats.contact == stats


def test_friction_ground_and_masses_vary():
    """One kernel for all; each trajectory is that of a robot of its own."""
    ball = contact_cases.ball(0.1, mass=2.0, world=nlink.World(friction=0.3))
    q0, qd0 = [0, 0, 0.4, *FLAT], [0, 0, 0, 3.0, 0, 0]
    runs = nlink.simulate(ball, q0, qd0, t=0.5, **EULER, vary={
        "contact_friction": [0.0, 0.3, 0.3], "ground": [0.0, 0.0, 0.2], "payload": [0, 0, 1.0]})
    assert runs.q[:, -1, 2] == pytest.approx([0.1, 0.1, 0.3], abs=1e-9)
    assert runs.contacts["body"].gap[:, -1] == pytest.approx(0, abs=1e-9)
    assert runs.contacts["body"].force[:, -1, 2] == pytest.approx([2 * G, 2 * G, 3 * G])
    assert runs.qd[0, -1, 3] == pytest.approx(3.0, abs=1e-12)
    alone = nlink.simulate(ball, q0, qd0, t=0.5, **EULER)
    assert runs.q[1] == pytest.approx(alone.q, abs=1e-12)
    stepper = nlink.Stepper(ball, q0, qd0, vary={"ground": [0.2, 0.3]}, step=STEP,
                            method="semi_implicit")
    assert stepper.contacts["body"].gap == pytest.approx([0.1, 0.0])
    with pytest.raises(ValueError, match="vary: 'ground', but planar3 has no contacts"):
        nlink.simulate(nlink.load("planar3"), vary={"ground": [0.1]})


def test_without_contacts_shapes_fall_through():
    ball = contact_cases.ball(0.1)
    run = nlink.simulate(ball, [0, 0, 0.1, *FLAT], t=0.5, contact="ignore")
    assert run.q[-1, 2] == pytest.approx(0.1 - G / 8)


@pytest.mark.parametrize(("options", "message"), [
    ({"method": "rkf45"}, "contact: 'rigid' does not go with method='rkf45', expected"),
    ({"contact": "soft"}, "contact: 'soft', expected one of rigid, ignore"),
    ({"limits": "bounce"}, "contact: 'rigid' does not go with limits='bounce', expected"),
    ({"algorithm": "denoc"}, "contact: 'rigid' does not go with algorithm='denoc'"),
])
def test_what_does_not_go_with_contact_is_refused(options, message):
    arm = nlink.load("planar3").with_contacts({"link3": nlink.Sphere(0.1)})
    with pytest.raises(ValueError, match=message):
        nlink.simulate(arm, [0.1, 0.2, 0.3], t=0.1, **{**EULER, **options})


def test_too_many_points_are_refused():
    """Before a program for all of them takes minutes to be made."""
    arm = nlink.load("planar3").with_contacts({"link3": [nlink.Sphere(0.1)] * 49})
    with pytest.raises(ValueError, match="contact: 49 points may touch, expected at most 48; robo"):
        nlink.System(arm)


def test_doors_without_contact_refuse_it():
    """Never a motion that passes through the ground without a word."""
    arm = nlink.load("planar3").with_contacts({"link3": nlink.Sphere(0.1)})
    system, y = nlink.System(arm), np.zeros(6)
    for door in (lambda: system.rates(0.0, y), lambda: nlink.linearize(arm, y[:3], y[:3]),
                 lambda: system.step(y, 1e-3, method="semi_implicit"),
                 lambda: traced_step(system, 1e-3, "semi_implicit"),
                 lambda: nlink.simulate(arm, t=0.1, sensitivities=["q0"], **EULER)):
        with pytest.raises(ValueError, match=r"contact|semi_implicit"):
            door()
    bars = nlink.load("four_bar")
    closed = bars.with_contacts({bars.links[0].name: nlink.Sphere(0.1)})
    with pytest.raises(ValueError, match="'rigid' does not go with a mechanism with loops"):
        nlink.System(closed)


class Halt(Exception):
    """What stops a run on its way."""


def test_resumed_runs_have_the_bits_of_whole_ones(tmp_path, monkeypatch):
    """Forces and slips, from which a step starts, are in the records of a run."""
    ball = contact_cases.ball(0.1, world=nlink.World(friction=0.3))
    start = [[0, 0, 0.1005, *FLAT], [0, 0, 0.2, *FLAT]], [0, 5.0, 0, 3.0, 0.5, 0]
    whole = nlink.simulate(ball, *start, t=0.3, **EULER)
    monkeypatch.setattr(simulator, "SLICE", 1e-9)
    told = []

    def halt(share):
        told.append(share)
        if share > 0.5:
            raise Halt

    with pytest.raises(Halt):
        nlink.simulate(ball, *start, t=0.3, save=tmp_path / "run", progress=halt, **EULER)
    assert len(told) > 10
    resumed = nlink.simulate(ball, *start, t=0.3, save=tmp_path / "run", progress=False, **EULER)
    assert np.asarray(resumed.q).tobytes() == whole.q.tobytes()
    for name in whole.parts:
        assert np.asarray(resumed.parts[name]).tobytes() == whole.parts[name].tobytes()
    assert resumed.stats.contact.sweeps.tolist() == whole.stats.contact.sweeps.tolist()


def test_events_and_samples_go_with_contact():
    """A ball that passes a place while it slides, and one that a sampled controller pushes."""
    ball = contact_cases.ball(0.1, world=nlink.World(friction=0.0))
    q0 = [0, 0, 0.1, *FLAT]
    run = nlink.simulate(ball, q0, [0, 0, 0, 2.0, 0, 0], t=1.0, events={
        "there": nlink.Event(lambda t, q, qd: q[0] - 0.5, terminal=True)}, **EULER)
    assert run.status == "event"
    assert float(run.t_end) == pytest.approx(0.25, abs=1e-6)
    assert run.events.q[0, 2] == pytest.approx(0.1, abs=1e-12)
    pushed = nlink.simulate(ball, q0, t=0.5, tau=Sampled(
        lambda t, q, qd: np.array([0, 0, 0, 1.0, 0, 0]), 0.01), **EULER)
    assert pushed.qd[-1, 3] == pytest.approx(0.5)
    assert pushed.contacts["body"].force[-1, 2] == pytest.approx(G)
