"""Bodies that touch each other, and shapes beside balls and boxes, against closed forms."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import contact_cases
import nlink

G, STEP = 9.81, 1e-3
EULER = {"method": "semi_implicit", "step": STEP}
FLAT = [1.0, 0, 0, 0]


def beads(masses, e: float) -> nlink.Robot:
    """Balls on one rail along x, without gravity; neighbours touch."""
    names = [f"bead{k}" for k in range(len(masses))]
    rail = nlink.Robot(nlink.Description(
        "rail", tuple(nlink.Link(name, m) for name, m in zip(names, masses, strict=True)),
        tuple(nlink.Joint(f"x{k}", nlink.Prismatic((1, 0, 0))) for k in range(len(masses))),
        gravity=(0, 0, 0)))
    return rail.with_contacts({name: nlink.Sphere(0.05, pairs_only=True) for name in names},
                              nlink.World(restitution=e), pairs=list(pairwise(names)))


@pytest.mark.parametrize(("e", "speeds"), [
    (1.0, (-1 / 3, 2 / 3, 2 / 3)), (0.5, (0, 0.5, 0.5)), (0.0, (1 / 3, 1 / 3, 1 / 3))])
def test_a_cradle_of_three_that_touch(e, speeds):
    """Moreau's law: all impacts of a step are one."""
    run = nlink.simulate(beads([1, 1, 1], e), [0, 0.1, 0.2], [1.0, 0, 0], t=[0.0, 0.01], **EULER)
    assert run.qd[-1] == pytest.approx(speeds, abs=1e-9)


def test_a_cradle_with_gaps_hands_the_speed_on():
    run = nlink.simulate(beads([1, 1, 1], 1.0), [0, 0.12, 0.24], [1.0, 0, 0], t=0.1, **EULER)
    assert run.qd[-1] == pytest.approx([0, 0, 1], abs=1e-12)


def test_a_stack_with_the_heavy_body_on_top():
    """1, 30 and 1,000 kg above each other on a rail: normals are the weights above, for 2 s."""
    masses = [1.0, 30.0, 1000.0]
    tower = beads(masses, 0.0).with_gravity((-G, 0, 0))
    tower = tower.with_contacts({**{f"bead{k}": nlink.Sphere(0.05, pairs_only=True)
                                    for k in (1, 2)}, "bead0": nlink.Sphere(0.05)}, nlink.World(
        planes=[((1, 0, 0), 0)]), pairs=[("bead1", "bead0"), ("bead2", "bead1")])
    q0 = [0.05, 0.15, 0.25]
    run = nlink.simulate(tower, q0, t=2.0, every=0.1, **EULER)
    assert run.ok
    assert run.stats.contact.residual < 1e-8
    assert np.abs(run.q - q0).max() < 1e-10
    normal = [np.abs(run.contacts[name].force[-1, 0]) for name in run.contacts]
    assert normal == pytest.approx([G * 1031, G * 1030, G * 1000], rel=1e-6)


def slab(name: str, mass: float) -> nlink.Robot:
    """A square slab on three points, with a deck that those of another may stand on."""
    feet = {f"{name}{k}": nlink.Sphere(1e-6, pairs_only=name != "low", pose=nlink.Pose(
        origin=(0.1 * math.cos(turn), 0.1 * math.sin(turn), -0.05)))
        for k, turn in enumerate((0, 2 * math.pi / 3, 4 * math.pi / 3))}
    deck = nlink.Box((0.4, 0.4, 0.1), pairs_only=True)
    return nlink.free_body(name, mass, deck).with_contacts(
        {name: {**feet, f"{name}_deck": deck}}, nlink.World(friction=0.5))


@pytest.mark.slow
def test_slabs_of_1_30_and_1000_kg_stand_on_each_other():
    names = ["low", "mid", "top"]
    stack = nlink.together(*(slab(name, m) for name, m in zip(names, (1, 30, 1000), strict=True)))
    stack = stack.with_contacts(pairs=[
        (f"{upper}{k}", f"{lower}_deck") for lower, upper in pairwise(names)
        for k in range(3)])
    q0 = np.concatenate([[0, 0, 0.05 + 0.1 * k + 1e-6 * (1 + k), *FLAT] for k in range(3)])
    run = nlink.simulate(stack, q0, t=2.0, every=0.5, **EULER)
    assert run.ok
    assert run.stats.contact.residual < 1e-8
    assert np.abs(run.q - q0).max() < 1e-9
    for name, weight in zip(names, (1031, 1030, 1000), strict=True):
        forces = [run.contacts[x].force[-1] for x in run.contacts if x.startswith(name)]
        assert sum(forces) == pytest.approx([0, 0, weight * G], rel=1e-6, abs=1e-3)


def momenta(robot: nlink.Robot, run: nlink.Run) -> np.ndarray:
    """Linear and angular momentum about the world's origin at the run's times, (times, 6)."""
    total = np.zeros((len(run.t), 6))
    for k, link in enumerate(robot.links):
        twist = robot.frame_velocity(run.q, run.qd, link.name)
        R = robot.pose(run.q, link.name)[:, :3, :3]
        x = run.q[:, 7 * k:7 * k + 3]
        p = link.mass * twist[:, 3:]
        spin = R @ np.array(link.inertia) @ R.transpose(0, 2, 1)
        total[:, :3] += p
        total[:, 3:] += np.cross(x, p) + np.einsum("tij,tj->ti", spin, twist[:, :3])
    return total


def test_balls_that_collide_keep_their_momenta():
    """A ball of 10 kg at 5 m/s hits another one off its centre, with friction: 1e-13."""
    world = nlink.World(planes=(), friction=0.5, restitution=0.7)
    heavy = nlink.free_body("heavy", 10.0, nlink.Sphere(0.2), world)
    light = nlink.free_body("light", 3.0, nlink.Sphere(0.3), world)
    both = nlink.together(heavy, light).with_gravity((0, 0, 0)).with_contacts(
        pairs=[("heavy", "light")])
    q0 = [0, 0, 0, *FLAT, 1.0, 0.2, 0.1, *FLAT]
    qd0 = [1.0, -2.0, 0.5, 5.0, 0, 0, 0.3, 0.2, 0.1, 0, 0, 0]
    run = nlink.simulate(both, q0, qd0, t=0.5, every=STEP, **EULER)
    assert (run.contacts["heavy-light"].force != 0).any()
    kept = momenta(both, run)
    assert np.abs(kept - kept[0]).max() < 1e-13 * np.abs(kept[0]).max()
    assert run.qd[-1, 9] > 1


@pytest.mark.slow
def test_a_ball_that_hits_a_quadruped_keeps_their_momenta():
    """10 kg at 5 m/s against the trunk's corner, without gravity: linear momentum, and angular
    about the mass centre, before and after the impact, and less energy."""
    dog = nlink.load("quadruped").with_contacts({"trunk": {"hull": nlink.Box(
        (0.4, 0.16, 0.06), pairs_only=True)}})
    ball = nlink.free_body("ball", 10.0, nlink.Sphere(0.1, pairs_only=True))
    both = nlink.together(dog, ball).with_gravity((0, 0, 0)).with_contacts(
        pairs=[("ball", "hull")])
    q, qd = both.neutral, np.zeros(24)
    q[3:7] = contact_cases.turn([0.1, 0.2, 0.3])
    q[-7:-4] = q[:3] + np.array([0, 0, 0.2])
    for _ in range(20):  # down until it touches
        q[-5] -= both.contact_problem(q, np.zeros(24), np.zeros(24)).gap[0]
    qd[3:6], qd[-3:] = [0.1, -0.2, 0.3], [0.3, 0.2, -5.0]  # nothing turns before
    run = nlink.simulate(both, q, qd, t=[0.0, 1e-9], method="semi_implicit", step=1e-9)
    assert run.contacts["ball-hull"].force[-1, 2] * 1e-9 > 1
    hit = run.qd[1].copy()
    for turn, linear in ((slice(3, 7), slice(3, 6)), (slice(-4, None), slice(-3, None))):
        # the step ends with rates along axes that have turned
        old, new = (nlink.matrix_from_quaternion(x[turn]) for x in run.q)
        hit[linear] = old.T @ new @ hit[linear]
    before, after = (both.centroidal_momentum(q, x) for x in (qd, hit))
    assert after == pytest.approx(before, abs=1e-13 * np.abs(before).max())
    assert both.kinetic_energy(q, hit) < both.kinetic_energy(q, qd) - 1


@pytest.mark.slow
def test_balls_roll_on_a_box_that_is_pushed():
    """SimBenchmark's rolling: a box slides on the ground with mu1, balls roll on it with mu2.

    a_box = (F - mu1 (M + n m) g) / (M + 2/7 n m), and a ball has 2/7 of it.
    """
    M, m, n, push, mu1 = 10.0, 1.0, 2, 60.0, 0.4
    feet = [nlink.Sphere(contact_cases.POINT, friction=mu1, pose=nlink.Pose(
        origin=(x, y, -0.1))) for x, y in ((1, 0), (-1, 1), (-1, -1))]
    deck = nlink.Box((4.0, 4.0, 0.2), pairs_only=True)
    box = nlink.free_body("box", M, deck).with_contacts({"box": [*feet, deck]}, nlink.World())
    balls = [nlink.free_body(f"ball{k}", m, nlink.Sphere(0.1, pairs_only=True)) for k in range(n)]
    robot = nlink.together(box, *balls).with_contacts(pairs=[
        (f"ball{k}", "box_4") for k in range(n)])
    q0 = [0, 0, 0.1, *FLAT, *[-0.5, 0.3, 0.3, *FLAT], *[0.4, -0.5, 0.3, *FLAT]]
    direction = np.array([0.5, math.sqrt(3) / 2])
    tau = np.zeros(6 * (n + 1))
    tau[3:5] = push * direction
    # at the height of the ground, so that the feet bear evenly enough
    tau[:2] = np.array([direction[1], -direction[0]]) * 0.1 * push
    run = nlink.simulate(robot, q0, t=1.0, tau=lambda t, q, qd: tau, every=0.1, **EULER)
    assert run.ok
    box_speed = (push - mu1 * (M + n * m) * G) / (M + 2 / 7 * n * m)
    assert run.qd[-1, 3:5] == pytest.approx(box_speed * direction, abs=2e-3)
    for k in range(n):
        speed = robot.frame_velocity(run.q[-1], run.qd[-1], f"ball{k}")[3:]
        assert speed == pytest.approx([*(2 / 7 * box_speed * direction), 0], abs=2e-3)


@pytest.mark.slow
def test_a_cylinder_spins_on_its_end_and_rolls_on_its_side():
    """On an end it slows by 2 mu g / R, all friction being at the rim, down to rest; on its side it
    rolls down a slope with 2/3 g sin a, on both its rims."""
    slope = 0.2
    down = [G * math.sin(slope), 0, -G * math.cos(slope)]
    can = nlink.free_body("can", 2.0, nlink.Cylinder(0.1, 0.3), nlink.World(friction=0.3))
    lying = contact_cases.turn([math.pi / 2, 0, 0])
    q0 = [[0, 0, 0.15, *FLAT], [0, 0, 0.1, *lying]]
    runs = nlink.simulate(can, q0, [[0, 0, 20.0, 0, 0, 0], [0] * 6], t=0.4, every=STEP, vary={
        "gravity": [[0, 0, -G], down]}, **EULER)
    spin = runs.qd[0, :, 2]
    assert spin[100] == pytest.approx(20 - 2 * 0.3 * G / 0.1 * 0.1, abs=1e-9)
    assert runs.t[np.abs(spin) > 1e-9][-1] == pytest.approx(20 * 0.1 / (2 * 0.3 * G),
                                                            abs=2 * STEP)
    assert np.abs(runs.q[0, :, :2]).max() < 1e-9
    v = can.frame_velocity(runs.q[1, -1], runs.qd[1, -1], "can")
    assert v[3] == pytest.approx(2 / 3 * G * math.sin(slope) * 0.4, rel=1e-6)
    assert v[1] == pytest.approx(v[3] / 0.1, rel=1e-6)
    assert runs.q[1, -1, 2] == pytest.approx(0.1, abs=1e-9)


def test_a_ball_rolls_down_terrain_as_down_a_plane():
    """On a height field with the heights of a slope: 5/7 g sin a."""
    slope = 0.3
    x = np.linspace(-1, 9, 11)
    field = nlink.HeightField(-math.tan(slope) * x[:, None] * np.ones((1, 3)), (-1, 9), (-1, 1))
    ball = nlink.free_body("ball", 2.0, nlink.Sphere(0.1), nlink.World(height_field=field))
    start = 0.1 * np.array([math.sin(slope), 0, math.cos(slope)])
    run = nlink.simulate(ball, [*start, *FLAT], t=1.0, **EULER)
    v = ball.frame_velocity(run.q[-1], run.qd[-1], "ball")[3:]
    exact = 5 / 7 * G * math.sin(slope) * np.array([math.cos(slope), 0, -math.sin(slope)])
    assert v == pytest.approx(exact, rel=1e-6, abs=1e-9)
    raised = nlink.simulate(ball, [*(start + np.array([0, 0, 0.25])), *FLAT], t=1.0, vary={
        "ground": [0.25, 0.0]}, **EULER)
    assert raised.q[0, -1] - run.q[-1] == pytest.approx([0, 0, 0.25, 0, 0, 0, 0], abs=1e-9)
    assert raised.q[1, -1, 2] < raised.q[0, -1, 2] - 0.1


def test_friction_ground_and_masses_vary_with_any_shape():
    """A ball on a box of the world: its own friction and mass, and the box raised."""
    world = nlink.World(planes=(), friction=0.1, boxes=[nlink.Box((9, 9, 1))])
    ball = nlink.free_body("ball", 2.0, nlink.Sphere(0.1), world)
    heavy = np.array([ball.inertias, 3 * ball.inertias, ball.inertias])
    runs = nlink.simulate(ball, [[0, 0, 0.6 + up, *FLAT] for up in (0, 0, 0.2)],
                          [0, 0, 0, 1.0, 0, 0], t=0.1, vary={
        "contact_friction": [0.1, 0.1, 0.2], "ground": [0, 0, 0.2], "inertia": heavy}, **EULER)
    touch = runs.contacts["ball"]
    assert np.abs(touch.gap).max() < 1e-12
    assert touch.force[:, -1, 2] == pytest.approx([2 * G, 6 * G, 2 * G])
    assert -touch.force[:, -1, 0] == pytest.approx([0.2 * G, 0.6 * G, 0.4 * G])
    stepper = nlink.Stepper(ball, [0, 0, 0.6, *FLAT], [0, 0, 0, 1.0, 0, 0], step=STEP,
                            method="semi_implicit")
    for _ in range(100):
        stepper.step()
    assert stepper.contacts["ball"].force[2] == pytest.approx(2 * G)


@pytest.mark.slow
def test_a_block_pushed_high_up_slides_or_topples():
    """A push at the height z slides a block of width b iff mu < b / (2 z)."""
    b, z, mass, friction = 0.2, 0.4, 3.0, np.array([0.24, 0.26])
    block = contact_cases.table((b, b, 1.0), mass)
    push = 1.02 * mass * G * np.minimum(friction, b / (2 * z))
    tau = np.zeros((2, 6))
    tau[:, 3] = push
    tau[:, 1] = (z - 0.5) * push  # about the mass centre, at 0.5
    run = nlink.simulate(block, [0, 0, 0.5, *FLAT], t=0.2, vary={
        "contact_friction": friction, "tau": tau}, **EULER)
    slid, toppled = 2 * np.arcsin(np.abs(run.q[:, -1, 5]))
    assert slid < 1e-7
    assert run.q[0, -1, 0] > 1e-4
    assert toppled > 1e-4


def test_a_top_on_its_tip_is_one_on_a_ball_joint():
    """To first order in the step, with a tip that sticks; and its precession is steady."""
    mass, arm, transverse, axial, spin, tilt = 0.5, 0.05, 4e-3, 2e-3, 80.0, 0.3
    root = math.sqrt((axial * spin) ** 2 - 4 * transverse * mass * G * arm * math.cos(tilt))
    slow = (axial * spin - root) / (2 * transverse * math.cos(tilt))
    about_centre = transverse - mass * arm**2
    link = nlink.Link("top", mass, (0, 0, arm), ((about_centre, 0, 0), (0, about_centre, 0),
                                                 (0, 0, axial)))
    free = nlink.Robot(nlink.Description("top", (link,), (nlink.Joint("j", nlink.Free()),)))
    free = free.with_contacts({"top": nlink.Sphere(contact_cases.POINT)}, nlink.World(friction=9))
    held = nlink.Robot(nlink.Description("top", (link,), (nlink.Joint("j", nlink.Spherical()),)))
    turn = contact_cases.turn([0, tilt, 0])
    # precession about z, and a spin whose component along the top's axis is `spin`
    w = np.array([-slow * math.sin(tilt), 0, spin])
    exact = nlink.simulate(held, turn, w, t=0.2, rtol=1e-11, atol=1e-12)
    axis = nlink.matrix_from_quaternion(exact.q[-1])[:, 2]
    assert axis == pytest.approx([math.sin(tilt) * math.cos(slow * 0.2),
                                  math.sin(tilt) * math.sin(slow * 0.2), math.cos(tilt)], abs=1e-8)
    off = []
    for h in (4e-4, 2e-4):
        run = nlink.simulate(free, [0, 0, 0, *turn], [*w, 0, 0, 0], t=0.2, method="semi_implicit",
                             step=h)
        assert np.abs(run.q[-1, :3]).max() < 1e-6
        off.append(np.linalg.norm(nlink.matrix_from_quaternion(run.q[-1, 3:])[:, 2] - axis))
    assert off[0] < 0.02
    assert off[0] / off[1] == pytest.approx(2, abs=0.3)
