"""Gears, racks and differentials: rows on rates, alone and among loops of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kkt import Dense
from test_graphs import along, pseudo_inverse, random_graph

import nlink
from nlink import Description, Free, Gear, Joint, Link, Mimic, Prismatic, Robot
from nlink.formats.dh import parse_toml
from nlink.formats.toml_writer import to_toml
from nlink.testing.closed import random_arms
from nlink.testing.loop_laws import LOOP_LAWS
from nlink.testing.samples import samples


def geared_graph(seed: int) -> Robot:
    """A random graph of joints and loops with one to three gears among joints of one rate; half
    of the loops are left out in every third."""
    robot, rng = random_graph(seed), np.random.default_rng(1000 + seed)
    d = robot.description
    names = [joint.name for joint in d.joints if (joint.type.nq, joint.type.nv) == (1, 1)]
    if len(names) < 2:
        return robot
    q = dict(zip(robot.q_names, robot.neutral, strict=True))
    gears = []
    for k in range(int(rng.integers(1, 4))):
        some = rng.choice(names, size=int(rng.integers(2, min(3, len(names)) + 1)), replace=False)
        ratios = {str(name): float(x) for name, x in zip(
            some, rng.uniform(0.5, 2.0, size=3) * rng.choice([-1, 1], size=3), strict=False)}
        gears.append(Gear(f"gear{k}", ratios, sum(x * q[name] for name, x in ratios.items())))
    loops = d.loops if seed % 3 else ()
    return Robot(replace(d, loops=loops, gears=tuple(gears)))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_random_graphs_with_gears_agree_with_a_dense_solve(block):
    compared = 0
    for seed in range(block * 15, (block + 1) * 15):
        robot = geared_graph(seed)
        if not robot.description.closed:
            continue
        rng, dense, q = np.random.default_rng(seed), Dense(robot), robot.neutral
        qd, tau = rng.normal(size=(2, robot.n))
        qd = dense.closed_rates(q, qd)
        assert np.abs(dense.rows(q, qd)[2]).max() < 1e-12
        expected, freely, least = pseudo_inverse(dense, q, qd, tau)
        found = robot.forward_dynamics(q, qd, tau, engine="python", algorithm="elimination")
        if least >= 1e-3:
            compared += 1
            assert np.abs(found - expected).max() < 1e-10 * np.abs((expected, freely)).max(), seed
    assert compared >= 10


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [1, 3, 4, 6, 7, 11, 12, 15, 16, 18, 22])
def test_all_trees_give_the_same_accelerations_and_forces(seed, monkeypatch):
    """Joints of gears may be cut, or held the other way round."""
    robot, rng = geared_graph(seed), np.random.default_rng(seed)
    assert robot.description.gears
    q = robot.neutral
    qd, tau = rng.normal(size=(2, robot.n))
    qd = Dense(robot).closed_rates(q, qd)
    for name in ("forward_dynamics", "closure_forces"):
        expected = along(lambda graph, authors: authors, robot, monkeypatch, q, qd, tau, name=name)
        if name == "closure_forces" and robot.loops.mobility(q).redundant:
            continue  # which of several rows carry what is a matter of order
        for tree in (lambda graph, authors: graph.breadth_first(),
                     lambda graph, authors: graph.exchanged(authors)):
            found = along(tree, robot, monkeypatch, q, qd, tau, name=name)
            if found is not None:
                assert np.abs(found - expected).max() < 1e-10 * max(np.abs(expected).max(), 1.0)


@pytest.mark.slow
def test_laws_of_loops_hold_with_gears():
    robot = Robot(replace(nlink.load("puma560").description, gears=(
        Gear("pair", {"joint2": 2.0, "joint4": 1.0}, 0.3), Gear("lock", {"joint6": 1.0}),
        Gear("differential", {"joint1": 1.0, "joint3": -0.5, "joint5": 0.7}))))
    x = samples(robot, states=3)
    for law in LOOP_LAWS:
        residual = law(robot, x, "compiled")
        assert residual <= law.bound(robot), f"{law.statement} by {residual:.2e}"


def train(*kinds: nlink.JointType) -> Description:
    """Bodies of 1, 2, ... kg on the base, each with a moment of inertia of its mass / 4."""
    links = tuple(Link(f"body{k}", k, (0.0, 0.0, 0.0), tuple(
        tuple(k / 4 * float(i == j) for j in range(3)) for i in range(3)))
        for k in range(1, len(kinds) + 1))
    joints = tuple(Joint(f"joint{k}", kind) for k, kind in enumerate(kinds, 1))
    return Description("train", links, joints, gravity=(0.0, 0.0, 0.0))


def test_a_pair_of_wheels_has_the_inertia_of_both():
    """pinion = -3 wheel: I = 1/4 + 9 2/4 at the wheel."""
    robot = Robot(train(nlink.Revolute(), nlink.Revolute())).with_gears(
        [{"name": "pair", "ratios": {"joint1": 3.0, "joint2": 1.0}}])
    qdd = robot.forward_dynamics([0, 0], [0, 0], [1.0, 0.5])
    wheel = (1.0 - 3 * 0.5) / (0.25 + 9 * 0.5)
    np.testing.assert_allclose(qdd, [wheel, -3 * wheel], rtol=1e-14)
    force = robot.loops.forces([0, 0], [0, 0], [1.0, 0.5])[0, 0]
    np.testing.assert_allclose(0.25 * wheel, 1.0 + 3 * force, rtol=1e-13)


def test_a_rack_carries_its_mass_to_the_wheel():
    robot = Robot(train(nlink.Revolute(), Prismatic((1, 0, 0)))).with_gears(
        [Gear("rack", {"joint2": 1.0, "joint1": -0.1})])
    run = nlink.simulate(robot, t=1.0, tau=[0.3, 0.0])
    alpha = 0.3 / (0.25 + 2 * 0.01)
    np.testing.assert_allclose(run.q[-1], [alpha / 2, 0.1 * alpha / 2], rtol=1e-9)


def test_a_differential_shares_a_torque_between_its_sides():
    """carrier = (left + right) / 2, and the sides turn as they like otherwise."""
    robot = Robot(train(*[nlink.Revolute()] * 3)).with_gears(
        [Gear("differential", {"joint1": 0.5, "joint2": 0.5, "joint3": -1.0})])
    I = np.array([0.25, 0.5, 0.75])
    J = np.array([0.5, 0.5, -1.0])
    tau = np.array([0.2, -0.1, 1.0])
    force = -(J @ (tau / I)) / (J @ (J / I))
    np.testing.assert_allclose(robot.forward_dynamics([0] * 3, [0] * 3, tau),
                               (tau + J * force) / I, rtol=1e-14)
    assert robot.loops.mobility().freedom == 2


def test_a_gear_that_is_there_twice_changes_nothing():
    robot = nlink.load("planar3").with_gears([Gear("a", {"joint1": 1.0, "joint2": 2.0})])
    twice = robot.with_gears([Gear("b", {"joint1": -3.0, "joint2": -6.0})])
    q, qd, tau = [0.4, -0.2, 0.3], [1.0, -0.5, 2.0], [1.0, 2.0, 3.0]
    np.testing.assert_allclose(twice.forward_dynamics(q, qd, tau),
                               robot.forward_dynamics(q, qd, tau), rtol=1e-12)
    assert twice.loops.mobility(q).redundant == 1


@pytest.mark.slow
def test_a_four_bar_whose_gear_follows_from_its_loop_moves_as_before():
    """The rods of a parallelogram turn alike, with a gear or without."""
    from nlink.testing.linkages import ladder

    plain = Robot(ladder(2))
    geared = plain.with_gears([Gear("alike", {"rod0": 1.0, "rod1": -1.0})])
    rates = plain.loops.complete(plain.neutral, {"rod0": 1.0})[0]
    one, other = (nlink.simulate(robot, qd0=rates, t=0.5, rtol=1e-10, atol=1e-12)
                  for robot in (plain, geared))
    np.testing.assert_allclose(other.q[-1], one.q[-1], atol=1e-9)


def mimicking(seed: int = 5) -> Robot:
    free = nlink.testing.random_description(seed, 3, types=("revolute",), fixed=False,
                                            friction=False)
    lead, middle, tip = free.joints
    return Robot(replace(free, joints=(lead, middle, replace(
        tip, mimic=Mimic(middle.name, -1.5, 0.2)))))


@pytest.mark.slow
def test_a_geared_robot_moves_as_the_coupled_one():
    """Simulated as a mechanism with rows, and by the controller that couples the tree."""
    robot = mimicking()
    coupled = nlink.Coupled(robot)
    q, qd = coupled.expand([0.3, -0.4]), coupled.expand_rates([0.5, 1.0])
    how = {"t": 0.5, "rtol": 1e-10, "atol": 1e-12, "every": 0.1}
    there = nlink.simulate(robot, q, qd, tau=coupled.controller(), **how)
    found = nlink.simulate(robot.geared, q, qd, **how)
    np.testing.assert_allclose(found.q, there.q, atol=1e-8)
    assert found.closure_error.max() < 1e-14
    assert np.ptp(found.energy) < 1e-8


def test_what_is_given_of_a_geared_joint_moves_the_other():
    robot = mimicking().geared
    lead = robot.joints[1].name
    run = nlink.simulate(robot, t=0.5, motion={lead: lambda t: 0.3 * nlink.sin(t)}, rtol=1e-9,
                         atol=1e-11)
    np.testing.assert_allclose(run.q[:, 2], -1.5 * 0.3 * np.sin(run.t) + 0.2, atol=1e-9)


@pytest.mark.slow
def test_limits_hold_geared_joints():
    d = mimicking().geared.description
    joints = (*d.joints[:2], replace(d.joints[2], limits=nlink.Limits((0.15, 0.4))))
    run = nlink.simulate(Robot(replace(d, joints=joints)), t=2.0, limits="hold")
    assert run.ok
    assert run.q[:, 2].min() > 0.15 - 1e-9
    assert run.q[:, 2].max() < 0.4 + 1e-9
    assert run.closure_error.max() < 1e-9
    assert len(run.events) > 0


@pytest.mark.slow
def test_inverse_kinematics_and_linear_models_know_gears():
    robot = nlink.load("panda").with_gears([Gear("pair", {"joint1": 1.0, "joint3": -0.5})])
    q = robot.loops.assemble(robot.neutral + 0.2)
    found = nlink.ik(robot, robot.pose(q), q0=q + 0.1)
    assert found.solved
    np.testing.assert_allclose(robot.pose(found.q), robot.pose(q), atol=1e-9)
    assert np.abs(robot.loops.error(found.q)).max() < 1e-9
    small = mimicking().geared
    x = small.loops.random_state(np.random.default_rng(0))
    A, _ = nlink.linearize(small, *x, np.zeros(3))
    h = 1e-6 * np.eye(3)
    change = (small.forward_dynamics(x[0], x[1] + h, np.zeros(3))
              - small.forward_dynamics(x[0], x[1] - h, np.zeros(3))) / 2e-6
    np.testing.assert_allclose(A[3:, 3:], change.T, rtol=1e-6, atol=1e-6 * np.abs(change).max())


def test_motors_hold_what_gears_share():
    """Statics: one motor holds both arms of a pair."""
    d = mimicking().geared.description
    robot = Robot(replace(d, joints=tuple(replace(joint, actuated=k < 2)
                                          for k, joint in enumerate(d.joints))))
    q = robot.loops.random_state(np.random.default_rng(3))[0]
    tau, forces = robot.loops.inverse_dynamics(q, [0] * 3, [0] * 3)
    np.testing.assert_allclose(robot.forward_dynamics(q, [0] * 3, tau), 0, atol=1e-9)
    whole = robot.gravity_torque(q)
    np.testing.assert_allclose(whole - tau, robot.loops.jacobian(q).T @ forces[:, 0], atol=1e-9)


def test_files_and_edits_keep_gears(tmp_path):
    robot = nlink.load("planar3").with_gears(
        [Gear("belt", {"joint1": 1.0, "joint3": -2.0}, 0.25)], home=(0.25, 0.0, 0.0))
    assert parse_toml(to_toml(robot.description)) == robot.description
    lost = robot.save(tmp_path / "arm.urdf")
    assert "gears left out: 1 (belt)" in lost
    locked = robot.lock({"joint1": 0.5}).description
    assert locked.gears == (Gear("belt", {"joint3": -2.0}, -0.25),)
    assert Robot(locked).loops.assemble()[-1] == pytest.approx(0.125)
    assert robot.lock({"joint1": 0.5, "joint3": 0.125}).description.gears == ()
    with pytest.raises(ValueError, match=r"'belt': joint1 - 2 joint3 = 0\.25 does not hold"):
        robot.lock({"joint1": 0.5, "joint3": 0.5})
    assert robot.sub("link2").description.gears == ()
    assert repr(robot) == "<Robot planar3: 3 joints, 3 rates, fixed base, 1 gear>"
    assert repr(robot.loops) == "<Loops of planar3: belt (gear)>"
    plan = robot.loops.plan
    assert "the row of belt, whose branches meet in base" in str(plan)
    assert str(plan).count("open: belt") == 3
    plan.plot(tmp_path / "plan.png")
    assert robot.tree.description.gears == ()
    both = nlink.together({"a": robot, "b": robot})
    assert [gear.name for gear in both.description.gears] == ["a/belt", "b/belt"]
    one, two, qdd = robot.neutral, [0.3, 0.2, 0.1], [1.0, 2.0, 3.0]
    alone = robot.forward_dynamics(one, two, qdd)
    np.testing.assert_allclose(both.forward_dynamics([*one, *one], [*two, *two], [*qdd, *qdd]),
                               [*alone, *alone], rtol=1e-12)


@pytest.mark.parametrize(("gear", "words"), [
    (lambda: Gear("g", {}), "gear 'g': ratios {}, expected a mapping"),
    (lambda: Gear("g", {"joint1": 0.0}), "joint1 0.0, expected a finite number that is not 0"),
    (lambda: Gear("g", {"joint1": 1.0}, float("nan")), "offset nan, expected a finite number"),
    (lambda: Gear("g", {"joint9": 1.0}), "joint 'joint9' does not exist"),
    (lambda: {"name": "g", "ratio": {}}, "gear 1: unknown key 'ratio', expected some of name"),
    (lambda: {"name": "g", "ratios": {"joint1": "x"}}, "joint1 'x', expected a finite number")])
def test_a_slip_in_a_gear_gives_one_sentence(gear, words):
    with pytest.raises(ValueError, match=words):
        nlink.load("planar3").with_gears([gear()])


def test_gears_of_joints_with_more_coordinates_are_refused():
    d = train(Free(), nlink.Revolute())
    with pytest.raises(ValueError, match="joint 'joint1' is free, expected joints of one coord"):
        replace(d, gears=(Gear("g", {"joint1": 1.0, "joint2": 1.0}),))


@pytest.mark.slow
def test_equalities_of_joints_are_gears(tmp_path):
    """There and back, with joints whose zero MuJoCo has elsewhere; curved ones are left out."""
    mujoco = pytest.importorskip("mujoco")
    from nlink.formats.mjcf import from_mujoco

    robot = nlink.load("planar3").with_gears([
        Gear("belt", {"joint1": 2.0, "joint3": -1.0}, 0.25), Gear("fast", {"joint2": 4.0}, 1.0),
        Gear("three", {"joint1": 1.0, "joint2": 1.0, "joint3": 1.0})])
    lost = robot.save(tmp_path / "arm.xml")
    assert "gears become MuJoCo's soft equalities: 2 (belt, fast)" in lost
    assert "gears left out: 1 (three)" in lost
    read = nlink.load(tmp_path / "arm.xml").description.gears
    assert read == (Gear("belt", {"joint1": 1.0, "joint3": -0.5}, 0.125),
                    Gear("fast", {"joint2": 1.0}, 0.25))
    body = "<body>" + "<joint name='{}' ref='{}' axis='0 0 1'/><geom size='.1'/>"
    text = ("<mujoco><worldbody>" + body.format("a", 20) + body.format("b", 30)
            + "</body></body></worldbody><equality><joint joint1='a' joint2='b' "
            "polycoef='.1 2 0 0 0'/><joint joint1='a' polycoef='0 1 1 0 0'/></equality></mujoco>")
    model = mujoco.MjModel.from_xml_string(text)
    found = nlink.Robot(from_mujoco(model))
    assert len(found.description.gears) == 1
    assert any("not linear in joints, ignored" in line for line in found.report)
    a, b = model.qpos0
    np.testing.assert_allclose(found.loops.error([a + 0.1 + 2 * 0.3, b + 0.3]), 0, atol=1e-15)


@pytest.mark.slow
def test_early_rows_know_what_gears_wait_for():
    """Four hands on an object, two of whose arms have a gear, so that their rows go late."""
    robot, names = Robot(random_arms(2, arms=4)), ("arm1_joint2", "arm4_joint6")
    q = dict(zip(robot.q_names, robot.neutral, strict=True))
    robot = robot.with_gears([Gear("pair", dict.fromkeys(names, 1.0), sum(q[x] for x in names))])
    rng = np.random.default_rng(0)
    qd = robot.loops.project(robot.neutral, rng.normal(size=robot.n))[1]
    state = robot.neutral, qd, rng.normal(size=robot.n)
    late, early = (robot.forward_dynamics(*state, engine="python", algorithm=order)
                   for order in ("elimination", "early"))
    assert np.abs(early - late).max() < 1e-11 * np.abs(late).max()
