"""Descriptions: every refusal is one sentence; canonical frames change nothing."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlink
from nlink import (
    DH,
    Description,
    Fixed,
    Frame,
    Free,
    Friction,
    Joint,
    Limits,
    Link,
    Mount,
    NonPhysicalWarning,
    Pose,
    Prismatic,
    Revolute,
    Robot,
)
from nlink.model.joints import unit_axis
from nlink.model.pose import cos_sin
from nlink.testing import random_description, random_robot, robots
from nlink.testing.mechanisms import MOVING
from nlink.testing.samples import EPS, reach

NAN = math.nan
ROD = Link("rod", 1.0, (0.5, 0.0, 0.0), ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, 0.1)))
HINGE = Joint("hinge")


def describe(link: Link = ROD, joint: Joint = HINGE, **options) -> Description:
    return Description("arm", (link,), (joint,), **options)


def diagonal(*moments: float) -> tuple:
    return tuple(map(tuple, np.diag(moments).tolist()))


REFUSED = {
    "link 'rod': mass -1.0, expected a finite number >= 0":
        lambda: describe(replace(ROD, mass=-1.0)),
    "link 'rod': mass nan, expected a finite number >= 0":
        lambda: describe(replace(ROD, mass=NAN)),
    "link 'rod': mass inf, expected a finite number >= 0":
        lambda: describe(replace(ROD, mass=math.inf)),
    "link 'rod': com: shape (2,), expected (3,)":
        lambda: describe(replace(ROD, com=(0.0, 0.0))),
    "link 'rod': com: (nan, 0, 0) contains a number that is not finite":
        lambda: describe(replace(ROD, com=(NAN, 0, 0))),
    "link 'rod': inertia: shape (3,), expected (3, 3)":
        lambda: describe(replace(ROD, inertia=(1.0, 1.0, 1.0))),
    "link 'rod': inertia is not symmetric":
        lambda: describe(replace(ROD, inertia=((1.0, 0.5, 0), (0, 1.0, 0), (0, 0, 1.0)))),
    "joint 'hinge': moves no mass, so the mass matrix is singular; "
    "expected a mass on its link or beyond":
        lambda: describe(Link("rod"), physical="error"),
    "joint 'hinge': parent[1] = 1 must be < 1 and >= 0: "
    "a link hangs from the base or an earlier link, so there are no cycles":
        lambda: describe(joint=replace(HINGE, parent=1)),
    "joint 'hinge': parent[1] = -1 must be < 1 and >= 0: "
    "a link hangs from the base or an earlier link, so there are no cycles":
        lambda: describe(joint=replace(HINGE, parent=-1)),
    "joint 'hinge': armature -1.0, expected a finite number >= 0":
        lambda: describe(joint=replace(HINGE, armature=-1.0)),
    "joint 'hinge': viscous friction nan, expected a finite number >= 0":
        lambda: describe(joint=replace(HINGE, friction=Friction(viscous=NAN))),
    "joint 'hinge': coulomb friction -0.1, expected a finite number >= 0":
        lambda: describe(joint=replace(HINGE, friction=Friction(coulomb=-0.1))),
    "joint 'hinge': position limits (1.0, -1.0), expected low <= high":
        lambda: describe(joint=replace(HINGE, limits=Limits((1.0, -1.0)))),
    "joint 'hinge': velocity limit -1.0, expected a number >= 0":
        lambda: describe(joint=replace(HINGE, limits=Limits(velocity=-1.0))),
    "joint 'hinge': effort limit nan, expected a number >= 0":
        lambda: describe(joint=replace(HINGE, limits=Limits(effort=NAN))),
    "joint 'hinge': a fixed joint has no friction and no armature":
        lambda: describe(joint=Joint("hinge", Fixed(), armature=1.0)),
    "joint 'hinge': armature 1.0 of a free joint, expected 0; what moves with the body belongs to "
    "the link's mass and inertia":
        lambda: describe(joint=Joint("hinge", Free(), armature=1.0)),
    "1 links and 0 joints, expected one joint for each link":
        lambda: Description("arm", (ROD,), ()),
    "gravity: shape (2,), expected (3,)":
        lambda: describe(gravity=(0.0, 9.81)),
    "gravity: (0, 0, nan) contains a number that is not finite":
        lambda: describe(gravity=(0, 0, NAN)),
    "gravity: 'down', expected numbers of shape (3,)":
        lambda: describe(gravity="down"),
    "physical: 'maybe', expected 'warn', 'error' or 'ignore'":
        lambda: describe(physical="maybe"),
    "frame 'rod': the name is used twice":
        lambda: describe(frames=(Frame("rod", 1),)),
    "frame 'base': the name is used twice":
        lambda: describe(replace(ROD, name="base"), frames=(Frame("base", 1),)),
    "joint 'hinge': the name is used twice":
        lambda: Description("arm", (ROD, replace(ROD, name="b")), (HINGE, HINGE)),
    "frame: name '', expected a non-empty string":
        lambda: describe(replace(ROD, name="")),
    "frame 'tool': link 2, expected 0 to 1":
        lambda: describe(frames=(Frame("tool", 2),)),
    "axis: (0, 0, 0) has no direction, expected a finite non-zero vector":
        lambda: Revolute((0, 0, 0)),
    "axis: (inf, 0, 0) has no direction, expected a finite non-zero vector":
        lambda: Prismatic((math.inf, 0, 0)),
    "placement: rotation (2, 2) and origin (3,), expected shapes (3, 3) and (3,)":
        lambda: Pose(((1.0, 0.0), (0.0, 1.0))),
    "placement: contains a number that is not finite":
        lambda: Pose(origin=(NAN, 0.0, 0.0)),
    "placement: rotation is not a proper orthogonal matrix (to 1e-9)":
        lambda: Pose(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, -1.0))),
    "convention: 'craig', expected 'standard' or 'modified'":
        lambda: DH(0.0, 0.0, 0.0, 0.0, "craig"),
    "alpha: inf, expected a finite number":
        lambda: DH(0.0, 0.0, math.inf, 0.0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_data_is_refused_in_one_sentence(message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        REFUSED[message]()
    assert str(caught.value) == message


def test_a_joint_type_is_required():
    with pytest.raises(TypeError, match="joint 'hinge': type 'revolute', expected a JointType"):
        describe(joint=Joint("hinge", "revolute"))


def test_armature_makes_a_massless_link_possible():
    robot = Robot(describe(Link("rod"), replace(HINGE, armature=0.5)))
    assert robot.inverse_dynamics([0.0], [0.0], [2.0]) == [1.0]


def test_mass_beyond_a_massless_link_is_enough():
    links = (Link("crank"), ROD)
    assert Robot(Description("arm", links, (HINGE, Joint("elbow", parent=1)))).n == 2


@pytest.mark.parametrize(("link", "words"), [
    (replace(ROD, inertia=diagonal(1.0, 1.0, 3.0)), "triangle inequality: 1 [+] 1 < 3"),
    (replace(ROD, inertia=diagonal(-0.1, 1.0, 1.0)), "the negative moment of inertia -0.1"),
    (replace(ROD, mass=0.0), "has inertia but no mass")])
def test_impossible_bodies_warn_or_raise_or_pass(link, words):
    with pytest.warns(NonPhysicalWarning, match=words):
        describe(link)
    with pytest.raises(ValueError, match=words):
        describe(link, physical="error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        describe(link, physical="ignore")


@pytest.mark.parametrize("noise", [-1e-10, -1e-13])
def test_rounding_is_no_complaint(noise):
    """Relative to the largest moment, or to the mass for a body that is nearly a point."""
    moments = diagonal(noise, 1.0, 1.0) if noise == -1e-10 else diagonal(noise, 1e-8, 1e-8)
    assert describe(replace(ROD, inertia=moments), physical="ignore").objection == ""


def test_an_objection_is_what_strict_reading_raises():
    flawed = describe(replace(ROD, inertia=diagonal(-0.1, 1.0, 1.0)), physical="ignore")
    with pytest.raises(ValueError, match=flawed.objection):
        replace(flawed, physical="error")


def test_a_thin_rod_is_physical():
    describe(replace(ROD, inertia=diagonal(0.0, 1.0, 1.0)), physical="error")


@given(st.lists(st.floats(-10, 10), min_size=3, max_size=3).filter(
    lambda v: math.hypot(*v) > 1e-3))
def test_the_axis_is_a_unit_vector_and_stays_the_same(axis):
    unit = unit_axis(axis)
    assert math.hypot(*unit) == pytest.approx(1, abs=4e-16)
    assert unit_axis(unit) == unit


@pytest.mark.parametrize("quarters", range(-5, 6))
def test_quarter_turns_are_exact(quarters):
    c, s = cos_sin(quarters * math.pi / 2)
    assert (c, s) == (round(math.cos(quarters * math.pi / 2)),
                      round(math.sin(quarters * math.pi / 2)))


def test_frames_by_name_and_index():
    robot = Robot(describe(frames=(Frame("tool", 1, Pose.shift(x=2.0)),)))
    assert robot.frames == ("base", "rod", "tool")
    q = [math.pi / 2]
    np.testing.assert_allclose(robot.pose(q, "tool")[:3, 3], [0, 2, 0], atol=1e-15)
    np.testing.assert_array_equal(robot.pose(q, "rod"), robot.pose(q, 1))
    np.testing.assert_array_equal(robot.pose(q, -1), robot.pose(q, 1))
    np.testing.assert_array_equal(robot.pose(q, "base"), np.eye(4))
    np.testing.assert_array_equal(robot.pose(q, 0), np.eye(4))


@pytest.mark.parametrize("frame", ["elbow", 2, -3, 1.5, None])
def test_an_unknown_frame_is_refused(frame):
    with pytest.raises(ValueError, match=r"frame: .*expected"):
        Robot(describe()).pose([0.0], frame)


def user_poses(robot: Robot, q: np.ndarray) -> dict[str, np.ndarray]:
    """All frames by the straightforward product of the author's transforms."""
    d, coordinates = robot.description, iter(q)
    places = [np.eye(4)]
    for joint in d.joints:
        moved = np.eye(4)
        if joint.type.nv:
            x, axis = next(coordinates), np.array(joint.type.axis)
            if isinstance(joint.type, Prismatic):
                moved[:3, 3] = x * axis
            else:
                K = np.cross(np.eye(3), axis)
                moved[:3, :3] += math.sin(x) * K + (1 - math.cos(x)) * K @ K
        places.append(places[joint.parent] @ joint.placement.before.matrix @ moved
                      @ joint.placement.after.matrix)
    named = {frame.name: places[frame.link] @ frame.pose.matrix for frame in d.frames}
    return dict(zip(("base", *(link.name for link in d.links)), places, strict=True)) | named


@given(robots(types=MOVING), st.integers(0, 99))
def test_canonical_frames_keep_every_pose(robot, seed):
    q, _ = robot.random_state(seed)
    bound = 100 * robot.n * EPS * (1 + reach(robot.description))
    for frame, expected in user_poses(robot, q).items():
        np.testing.assert_allclose(robot.pose(q, frame, engine="python"), expected, rtol=0,
                                   atol=bound, err_msg=frame)


def test_fixed_joints_merge_and_keep_their_frames():
    plate = replace(ROD, name="plate")
    merged = Robot(Description(
        "arm", (ROD, plate), (HINGE, Joint("bolt", Fixed(), 1, Mount(Pose.shift(x=1.0))))))
    assert merged.n == 1
    assert len(merged.mechanism.joints) == 1
    assert merged.frames == ("base", "rod", "plate")
    assert merged.pose([0.0], "plate")[0, 3] == 1.0
    # two rods, 1 m apart: m g (0.5 + 1.5)
    turned = replace(merged.description, gravity=(0.0, -9.81, 0.0))
    assert Robot(turned).gravity_torque([0.0]) == pytest.approx(2 * 9.81)


def test_a_robot_of_fixed_joints_alone_stands_still():
    robot = Robot(describe(joint=Joint("bolt", Fixed())))
    assert robot.n == 0
    assert robot.inverse_dynamics([], [], [], engine="numpy").shape == (0,)
    np.testing.assert_array_equal(robot.pose([], engine="numpy"), np.eye(4))


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_coordinate_axes_fold_to_nothing(axis):
    """A hinge about x, y or z costs the same: frames are turned, not formulas."""
    unit = tuple(np.eye(3)["xyz".index(axis)])
    turned = Joint("hinge", Revolute(unit), placement=Mount(Pose(), Pose()))
    gravity = tuple(np.roll((0.0, -9.81, 0.0), "xyz".index(axis) - 2))
    com = tuple(np.roll((0.5, 0.0, 0.0), "xyz".index(axis) - 2))
    robot = Robot(describe(replace(ROD, com=com), turned, gravity=gravity))
    assert str(nlink.count(robot)) == str(nlink.count(Robot(describe(gravity=(0, -9.81, 0)))))
    assert robot.gravity_torque([0.0]) == pytest.approx(0.5 * 9.81)


def test_random_descriptions_depend_on_the_arguments_alone():
    assert random_description(5) == random_description(5)
    assert random_description(5) != random_description(6)
    assert all(len(random_robot(s, 4, tree=False, fixed=False).mechanism.joints) == 4
               for s in range(5))


@pytest.mark.parametrize("options", [{"bodies": 0}, {"types": ("fixed",)}, {"types": ("ball",)}])
def test_random_descriptions_refuse_nonsense(options):
    with pytest.raises(ValueError, match="expected"):
        random_description(0, **options)
