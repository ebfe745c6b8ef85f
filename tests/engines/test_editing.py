"""Edited robots: what an edit says it does, on random mechanisms of every joint kind."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nlink
from nlink import Fixed, Limits, Mimic, Pose, Robot
from nlink.testing.mechanisms import EVERY, random_robot, robots

SOME = settings(max_examples=12, deadline=None)
HOW = {"engine": "python"}


def place(robot: Robot, frame: str, q: np.ndarray) -> np.ndarray:
    return robot.pose(q, frame, **HOW)


def moving(robot: Robot, joints: list[str], width: str = "qd") -> np.ndarray:
    """The places in q or qd of joints that are not among these."""
    index = robot.q_index if width == "q" else robot.qd_index
    kept = [np.atleast_1d(np.arange(robot.nq if width == "q" else robot.n)[index(joint.name)])
            for joint in robot.moving_joints if joint.name not in joints]
    return np.concatenate(kept) if kept else np.array([], dtype=int)


@pytest.mark.slow
@SOME
@given(robots(max_bodies=6), st.integers(0, 2**16), st.data())
def test_locked_dynamics_are_the_blocks_that_are_left(robot, seed, data):
    """M' = E^T M E, tau' = E^T ID(q, E qd', E qdd'), and frames are where they were."""
    rng = np.random.default_rng(seed)
    q, qd = robot.random_state(rng)
    names = [joint.name for joint in robot.moving_joints]
    held = data.draw(st.lists(st.sampled_from(names), unique=True))
    locked = robot.lock({name: q[robot.q_index(name)] for name in held})
    of_q, rates = moving(robot, held, "q"), moving(robot, held)
    assert locked.q_names == tuple(np.array(robot.q_names, dtype=object)[of_q])
    assert locked.frames == robot.frames
    rest = np.zeros(robot.n)
    rest[rates] = qd[rates]
    tau = robot.inverse_dynamics(q, rest, rest, **HOW)[rates]
    ours = locked.inverse_dynamics(q[of_q], qd[rates], qd[rates], **HOW)
    size = max(1.0, np.abs(tau).max(initial=0.0))
    np.testing.assert_allclose(ours, tau, rtol=0, atol=1e-12 * size)
    M = robot.mass_matrix(q, **HOW)
    np.testing.assert_allclose(locked.mass_matrix(q[of_q], **HOW), M[np.ix_(rates, rates)],
                               rtol=0, atol=1e-13 * np.abs(M).max())
    for frame in robot.frames:
        np.testing.assert_allclose(place(locked, frame, q[of_q]), place(robot, frame, q),
                                   atol=1e-12)
    same = robot.lock(held, q)
    assert same.description == locked.description
    assert len(locked.report) - len(robot.report) == bool(held)


@SOME
@given(robots(max_bodies=5), st.integers(0, 2**16))
def test_a_payload_is_a_body_on_a_fixed_joint(robot, seed):
    """tau = ID without it - J^T of its inertial wrench: as a link of its own would do."""
    rng = np.random.default_rng(seed)
    frame = rng.choice(robot.frames[1:])
    number = robot.frames.index(frame)
    link, pose = ((number, Pose()) if number <= len(robot.links) else next(
        (f.link, f.pose) for f in robot.description.frames if f.name == frame))
    mass, com = rng.uniform(0.1, 2.0), rng.normal(size=3)
    points = rng.normal(size=(4, 3))
    points -= points.mean(0)
    tensor = sum(p @ p * np.eye(3) - np.outer(p, p) for p in points) * mass / 4
    body = nlink.Link("body", mass, tuple(com), tuple(map(tuple, tensor)))
    d = robot.description
    q, qd = robot.random_state(rng)
    if link == 0:
        with pytest.raises(ValueError, match="never moves"):
            robot.with_payload(mass, frame=frame)
        return
    loaded = robot.with_payload(mass, com, tensor, frame=frame)
    apart = Robot(replace(d, links=(*d.links, body), joints=(*d.joints, nlink.Joint(
        "holds", Fixed(), link, nlink.Mount(pose)))))
    tau = apart.inverse_dynamics(q, qd, qd, **HOW)
    np.testing.assert_allclose(loaded.inverse_dynamics(q, qd, qd, **HOW), tau,
                               rtol=0, atol=1e-12 * max(1.0, np.abs(tau).max()))
    assert loaded.frames == robot.frames
    assert loaded.joints == robot.joints


@SOME
@given(robots(max_bodies=6), st.integers(0, 2**16))
def test_a_sub_chain_moves_as_in_the_whole(robot, seed):
    """Its frames are where the whole has them when all else rests, and its dynamics are those of
    the whole with the rest locked and without mass."""
    rng = np.random.default_rng(seed)
    q, _ = robot.random_state(rng)
    first = int(rng.integers(0, len(robot.links) + 1))
    part = robot.sub(first, q=q)
    names = [joint.name for joint in part.moving_joints]
    others = [joint.name for joint in robot.moving_joints if joint.name not in names]
    of_q = moving(robot, others, "q")
    for frame in part.frames[1:]:
        np.testing.assert_allclose(place(part, frame, q[of_q]), place(robot, frame, q), atol=1e-12)
    kept = set(part.frames)
    light = replace(robot.lock(others, q).description, physical="ignore", links=tuple(
        link if link.name in kept else nlink.Link(link.name) for link in robot.links))
    M = Robot(light).mass_matrix(q[of_q], **HOW)
    np.testing.assert_allclose(part.mass_matrix(q[of_q], **HOW), M, rtol=0,
                               atol=1e-12 * np.abs(M).max(initial=1.0))
    g = Robot(light).gravity_torque(q[of_q], **HOW)
    np.testing.assert_allclose(part.gravity_torque(q[of_q], **HOW), g, atol=1e-11)
    assert (len(part.links) == len(robot.links)) == (not part.report)


def test_a_sub_chain_ends_where_it_is_told():
    tree = random_robot(5, bodies=7, types=EVERY)
    ends = [(0, k) for k in range(1, len(tree.links) + 1)]
    for start, end in ends:
        part = tree.sub(start, end)
        assert tree.frames[end] in part.frames
        on_the_way = {tree.joints[end - 1].name}
        at = tree.joints[end - 1].parent
        while at:
            on_the_way.add(tree.joints[at - 1].name)
            at = tree.joints[at - 1].parent
        assert {j.name for j in part.moving_joints} <= on_the_way


@pytest.mark.slow
@SOME
@given(robots(max_bodies=5), st.integers(0, 2**16))
def test_edited_robots_survive_files(tmp_path_factory, robot, seed):
    q, _ = robot.random_state(seed)
    names = [joint.name for joint in robot.moving_joints]
    edited = (robot.lock(names[1:2], q).with_payload(0.3, (0.1, 0.2, 0.0))
              .with_gravity((1.0, 2.0, 3.0)).with_base(Pose.turn("y", 0.3) @ Pose.shift(1.0)))
    path = tmp_path_factory.mktemp("edited") / "edited.toml"
    assert edited.save(path) == []
    assert nlink.load(path, physical="ignore").description == edited.description


def test_edited_robots_survive_urdf(tmp_path):
    robot = random_robot(3, bodies=5, types=("revolute", "prismatic"), friction=False,
                         armature=False)
    q, qd = robot.random_state(0)
    held = robot.moving_joints[1].name
    edited = robot.lock([held], q).with_payload(0.3, (0.1, 0.2, 0.0)).with_gravity((0, 0, -9.81))
    edited.save(tmp_path / "edited.urdf")
    back = nlink.load(tmp_path / "edited.urdf")
    order = [back.q_index(name) for name in edited.q_names]
    x, v = np.zeros(back.n), np.zeros(back.n)
    x[order], v[order] = np.delete(q, robot.q_index(held)), np.delete(qd, robot.qd_index(held))
    tau = edited.inverse_dynamics(x[order], v[order], v[order], **HOW)
    np.testing.assert_allclose(back.inverse_dynamics(x, v, v, **HOW)[order], tau, atol=1e-12)


@SOME
@given(robots(max_bodies=5), st.integers(0, 2**16))
def test_a_base_moves_all_and_nothing_else(robot, seed):
    """Poses are moved by the base's, and gravity is seen from there: g' = R g needs R^T g."""
    rng = np.random.default_rng(seed)
    q, qd = robot.random_state(rng)
    base = Pose.turn("z", 0.4) @ Pose.turn("x", -1.1) @ Pose.shift(0.3, -0.2, 2.0)
    moved = robot.with_base(base.matrix).with_gravity(base.R @ robot.gravity)
    for frame in robot.frames[1:]:
        np.testing.assert_allclose(place(moved, frame, q), base.matrix @ place(robot, frame, q),
                                   atol=1e-12)
    tau = robot.inverse_dynamics(q, qd, qd, **HOW)
    np.testing.assert_allclose(moved.inverse_dynamics(q, qd, qd, **HOW), tau,
                               rtol=0, atol=1e-11 * max(1.0, np.abs(tau).max()))


def test_a_base_floats_and_is_fixed_again():
    on_table = random_robot(11, bodies=4, fixed=False).description
    root = nlink.Link("root", 3.0, (0.0, 0.1, 0.0), ((0.2, 0, 0), (0, 0.2, 0), (0, 0, 0.2)))
    d = replace(on_table, links=(root, *on_table.links), joints=(
        nlink.Joint("root_joint", Fixed()),
        *(replace(j, parent=j.parent + 1) for j in on_table.joints)), frames=())
    robot = Robot(d)
    free = robot.with_base(floating=True)
    assert free.n == robot.n + 6
    q, qd = robot.random_state(0)
    still = np.concatenate([free.neutral[:7], q]), np.concatenate([np.zeros(6), qd])
    tau = robot.inverse_dynamics(q, qd, qd, **HOW)
    np.testing.assert_allclose(
        free.inverse_dynamics(*still, still[1], **HOW)[6:], tau, atol=1e-11)
    again = free.with_base(floating=False)
    assert again.description.joints == robot.description.joints
    assert robot.with_base(floating=False).description == d


def test_friction_and_armature_by_number_list_and_name():
    robot = nlink.load("planar3")
    for value in (0.5, [0.5] * 3, {"joint1": 0.5, "joint2": 0.5, "joint3": 0.5}):
        other = robot.with_friction(viscous=value, dry=0.1)
        assert {joint.friction for joint in other.joints} == {nlink.Friction(0.5, 0.1)}
        np.testing.assert_allclose(
            other.with_armature(value).mass_matrix([0, 1, 2]) - robot.mass_matrix([0, 1, 2]),
            0.5 * np.eye(3), atol=1e-15)
    one = robot.with_friction(viscous=0.5).with_friction(dry={"joint2": 0.2})
    assert [j.friction.coulomb for j in one.joints] == [0.0, 0.2, 0.0]
    assert [j.friction.viscous for j in one.joints] == [0.5] * 3
    floating = random_robot(2, bodies=3, types=("free", "revolute"), fixed=False, tree=False)
    loads = floating.with_armature(0.1)
    assert [j.armature for j in loads.joints if j.type.name == "free"] == [0.0] * sum(
        j.type.name == "free" for j in loads.joints)


def test_limits_are_arrays_of_rates():
    robot = random_robot(4, bodies=6, types=EVERY)
    bounds = Limits((-1.0, 2.0), 3.0, 4.0)
    d = replace(robot.description, joints=tuple(
        replace(j, limits=bounds) if j.type.nv else j for j in robot.joints))
    limits = Robot(d).limits
    for joint in robot.moving_joints:
        own = np.atleast_1d(np.arange(robot.n)[robot.qd_index(joint.name)])
        flat = joint.type.space.flat
        assert (limits.lower[own] == (-1.0 if flat else -np.inf)).all()
        assert (limits.upper[own] == (2.0 if flat else np.inf)).all()
        assert (limits.velocity[own] == 3.0).all()
        assert (limits.effort[own] == 4.0).all()
    with pytest.raises(ValueError, match="read-only"):
        limits.lower[0] = 0.0
    assert len(robot.q_names) == len(set(robot.q_names)) == robot.nq
    assert len(robot.qd_names) == len(set(robot.qd_names)) == robot.n
    assert [robot.q_index(name) for name in robot.q_names if "." in name] == [
        k for k, name in enumerate(robot.q_names) if "." in name]


def test_units_say_what_turns():
    from nlink.model.coordinates import coordinate_units, effort_units, rate_units

    kinds = {"revolute": ("rad", "rad"), "prismatic": ("m", "m"), "helical": ("rad", "rad"),
             "planar": ("m m rad", "m m rad"), "spherical": ("   ", "rad rad rad"),
             "free": ("m m m    ", "rad rad rad m m m"), "universal": ("rad rad", "rad rad")}
    for kind, (q, qd) in kinds.items():
        d = random_robot(0, bodies=1, types=(kind,), fixed=False).description
        assert coordinate_units(d) == tuple(q.split(" "))
        assert rate_units(d) == tuple(qd.split(" "))
        assert effort_units(d) == tuple("N m" if u == "rad" else "N" for u in qd.split(" "))


def chain_of_followers() -> Robot:
    d = nlink.load("planar3").description
    first, second, third = d.joints
    return Robot(replace(d, joints=(
        first, replace(second, mimic=Mimic("joint1", 2.0, 0.1)),
        replace(third, mimic=Mimic("joint2", -1.0, 0.0)))))


def test_followers_are_locked_where_they_follow_to():
    robot = chain_of_followers()
    alone = robot.lock({"joint1": 0.3})
    assert alone.n == 0
    np.testing.assert_allclose(alone.pose([]), robot.pose([0.3, 0.7, -0.7]), atol=1e-15)
    with pytest.raises(ValueError, match="'joint2' follows 'joint1', which moves"):
        robot.lock({"joint2": 0.3})


def test_a_follower_of_the_joint_that_is_cut_is_left_to_itself():
    tip = chain_of_followers().sub("link1")
    assert tip.q_names == ("joint2", "joint3")
    assert "mimic of a joint left out: joint2 of joint1" in tip.report
    assert [joint.mimic and joint.mimic.joint for joint in tip.joints] == [None, None, "joint2"]


def test_loops_close_again_or_are_left_out():
    bar = nlink.load("four_bar")
    half = bar.lock({"crank": 0.4})
    assert half.loops.closed(half.neutral)
    whole = bar.lock(bar.q_names)
    assert whole.n == 0
    assert not whole.description.loops
    assert "loop 'pin' left out" in whole.report[-1]
    with pytest.raises(ValueError, match="loop 'pin': open"):
        bar.lock(bar.q_names, bar.neutral + 0.1)
    with pytest.raises(ValueError, match="do not close"):
        bar.lock({"rocker": 0.4})


WRONG = {
    "joint: 'joint11', expected one of joint1, joint2, joint3; did you mean 'joint1'?":
        lambda r: r.lock({"joint11": 0.0}),
    "position of joint 'joint1': shape (2,), expected (1,)": lambda r: r.lock({"joint1": (0, 1)}),
    "joint 'joint1' is fixed already, expected one that moves":
        lambda r: r.lock({"joint1": 0.0}).lock({"joint1": 0.0}),
    "joints: 'joint1', expected positions by name, or a list of names": lambda r: r.lock("joint1"),
    "mass: -1, expected a number >= 0": lambda r: r.with_payload(-1),
    "frame: 'base' never moves, expected one of a link": lambda r: r.with_payload(1, frame="base"),
    "inertia: not symmetric, expected the moments about the mass centre":
        lambda r: r.with_payload(1, inertia=np.triu(np.ones((3, 3)))),
    "link: 'link9', expected one of base, link1, link2, link3; did you mean 'link3'?":
        lambda r: r.with_payload(1, frame="link9"),
    "viscous: shape (2,), expected (3,): one for each joint that moves":
        lambda r: r.with_friction(viscous=[1, 2]),
    "dry: shape (2,), expected (3,): one for each joint that moves":
        lambda r: r.with_friction(dry=[1, 2]),
    "friction: unknown 'sticky', expected some of": lambda r: r.with_friction(sticky=1.0),
    "friction: coulomb, expected its name here: dry": lambda r: r.with_friction(coulomb=1.0),
    "sub: 'link3' does not carry 'link1', expected a link on its way to the base":
        lambda r: r.sub("link3", "link1"),
    "pose: shape (3, 3), expected (4, 4)": lambda r: r.with_base(np.eye(3)),
    "q: joints has positions already, expected one of the two":
        lambda r: r.lock({"joint1": 0.0}, [0, 0, 0]),
}


@pytest.mark.parametrize("message", WRONG)
def test_refusals_are_one_sentence(message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        WRONG[message](nlink.load("planar3"))


def test_numbers_that_were_warned_of_are_not_warned_of_again():
    with pytest.warns(nlink.NonPhysicalWarning):
        robot = nlink.load("puma_saha")
    robot.lock(["joint6"]).with_gravity((0, 0, 0)).with_friction(viscous=0.1).sub("link2")


@pytest.mark.parametrize("name", ["puma560", "panda", "ur5"])
def test_a_part_looks_like_its_own_links_and_is_written(name, tmp_path):
    robot = nlink.load(name)
    part = robot.sub("base", robot.links[1].name)
    shapes = {visual.link for visual in part.description.visuals}
    assert shapes <= {"", *(link.name for link in part.links), *part.frames}
    assert {x.link for x in robot.description.visuals} - shapes
    path = tmp_path / "part.toml"
    path.write_text(part.to_toml(), "utf-8")
    assert nlink.load(path).to_toml() == part.to_toml()
