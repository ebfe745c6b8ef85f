"""Geoms that touch, against MuJoCo's own distances."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.algorithms.contact_points import contact_points
from nlink.algorithms.kinematics import forward_kinematics
from nlink.algorithms.sweep import Unrolled
from nlink.formats.exchange import Exchange
from nlink.formats.mjcf import from_mujoco

mujoco = pytest.importorskip("mujoco")

SOLIDS = {
    "ball": 'type="sphere" size="0.1"',
    "pill": 'type="capsule" size="0.1 0.2" pos="0 0 0.1" euler="10 20 30"',
    "can": 'type="cylinder" size="0.1 0.2" euler="40 20 30"',
    "egg": 'type="ellipsoid" size="0.1 0.2 0.15"',
    "brick": 'type="box" size="0.1 0.2 0.15" condim="1"',
    "rock": 'type="mesh" mesh="rock" condim="6"',
    "ghost": 'type="sphere" size="0.1" contype="0" conaffinity="0"',
    "aloof": 'type="sphere" size="0.1" contype="2" conaffinity="2"',
}
WORLDS = {
    "plane": '<geom type="plane" size="0 0 1" pos="0 0 0.1" euler="10 5 0" friction="0.4"/>',
    "box": '<geom type="box" size="0.3 0.4 0.2" pos="0 0 0.1" euler="0 0 30"/>',
    "field": '<geom type="hfield" hfield="hills" pos="0.1 0.2 -0.3"/>',
}


def model(solids, world: str):
    bodies = "".join(
        f'<body name="{name}"><freejoint name="j_{name}"/><inertial pos="0 0 0" mass="1" '
        f'diaginertia="1 1 1"/><geom name="g_{name}" friction="0.7" margin="9" {SOLIDS[name]}/>'
        "</body>" for name in solids)
    vertices = " ".join(f"{x:.4f}" for x in np.random.default_rng(0).normal(
        0, 0.1, size=(12, 3)).ravel())
    elevation = " ".join(f"{x:.4f}" for x in np.random.default_rng(1).uniform(size=35))
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><asset><mesh name="rock" vertex="{vertices}"/><hfield name="hills" nrow="5" '
        f'ncol="7" size="1 0.8 0.3 0.1" elevation="{elevation}"/></asset>'
        f"<worldbody>{WORLDS[world]}{bodies}</worldbody></mujoco>")


def gaps(robot: nlink.Robot, q) -> dict[str, float]:
    """The least gap of each shape."""
    driver = Unrolled(robot.mechanism)
    places = forward_kinematics(driver, robot.mechanism.split(q, "nq"), robot.mechanism.base.p)
    found: dict[str, float] = {}
    for touch in contact_points(driver, places, robot.mechanism.base.p):
        name = touch.contact.name.split(".")[0]
        found[name] = min(float(touch.gap), found.get(name, np.inf))
    return found


@pytest.mark.parametrize(("world", "solids"), [
    ("plane", ["ball", "pill", "can", "egg", "brick", "rock"]), ("box", ["ball", "pill"])])
def test_gaps_are_those_of_mujoco(world, solids):
    """In 20 random states, for each shape the least of all distances, above the surface."""
    theirs = model(solids, world)
    robot = nlink.Robot(from_mujoco(theirs)).with_contacts(collisions="file")
    exchange, data = Exchange.mujoco(robot.description), mujoco.MjData(theirs)
    rng = np.random.default_rng(2)
    seen = 0
    for _ in range(20):
        data.qpos = rng.normal(size=theirs.nq)
        data.qpos[2::7] += 1.0
        for k in range(0, theirs.nq, 7):
            data.qpos[k + 3:k + 7] /= np.linalg.norm(data.qpos[k + 3:k + 7])
        mujoco.mj_forward(theirs, data)
        least = {}
        for contact in data.contact:
            one, two = (theirs.geom_bodyid[k] for k in (contact.geom1, contact.geom2))
            if (one == 0) != (two == 0):
                name = theirs.geom(max(contact.geom1, contact.geom2)).name
                least[name] = min(contact.dist, least.get(name, np.inf))
        ours = gaps(robot, exchange.q_back(data.qpos))
        for name, dist in least.items():
            if dist > 0.01:
                assert ours[name] == pytest.approx(dist, abs=2e-6), name
                seen += 1
    assert seen > 10 * len(solids)


def test_what_touches_what_and_with_which_friction():
    robot = nlink.Robot(from_mujoco(model(SOLIDS, "plane")))
    assert robot.mechanism.contacts == ()  # until it is asked for
    robot = robot.with_contacts(collisions="file")
    friction = {x.name.split(".")[0]: x.friction for x in robot.mechanism.contacts}
    assert friction == {f"g_{name}": 0.7 for name in ("ball", "pill", "can", "egg", "brick",
                                                      "rock")}
    report = "\n".join(robot.report)
    aloof, = (x for x in robot.description.collisions if x.name == "g_aloof")
    assert aloof.shape.pairs_only
    for line in ("geom that touches nothing of the world is for pairs only: 1 (g_aloof)",
                 "torsional and rolling friction ignored: 1 (g_rock)",
                 "margin of soft contact ignored", "mesh taken as a hull of at most 16 points",
                 "contact between geoms of the robot left out, but for pairs that are named"):
        assert line in report
    alone = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom type="plane" size="1 1 1" condim="1"/><body><freejoint/>'
        '<geom type="sphere" size="0.1" condim="1"/></body></worldbody></mujoco>')
    slippery, = nlink.Robot(from_mujoco(alone)).with_contacts(
        collisions="file").mechanism.contacts
    assert slippery.friction == 0


def test_the_world_of_a_file():
    """Planes, boxes and height fields; of the latter, the heights that MuJoCo's rays hit."""
    theirs = model(["ball"], "field")
    world = from_mujoco(theirs).surroundings
    assert world.planes == ()
    heights = np.array(world.height_field.heights)
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    at = [np.linspace(*span, count) for span, count in zip(
        (world.height_field.x, world.height_field.y), heights.shape, strict=True)]
    geom = np.zeros(1, dtype=np.int32)
    for i in range(1, heights.shape[0] - 1):
        for j in range(1, heights.shape[1] - 1):
            start = np.array([at[0][i] + 1e-7, at[1][j] + 1e-7, 5.0])
            far = mujoco.mj_ray(theirs, data, start, np.array([0, 0, -1.0]), None, 1, 1, geom)
            assert 5.0 - far == pytest.approx(heights[i, j], abs=1e-5)
    boxed = from_mujoco(model(["ball"], "box")).surroundings
    assert boxed.planes == ()
    assert boxed.boxes[0].edges == pytest.approx((0.6, 0.8, 0.4))
