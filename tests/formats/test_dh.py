"""DH tables and TOML: two conventions, lossless round trips, clear refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlink import DH, Description, Frame, Friction, Joint, Limits, Link, Pose, Robot, load
from nlink.formats.dh import from_rows, parse_toml
from nlink.formats.files import MAX_BYTES
from nlink.formats.toml_writer import to_toml
from nlink.model.joints import Prismatic, Revolute
from nlink.testing import random_description

ROW = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0.0, 0.0),
       "inertia": (0.01, 0.1, 0.1)}
TABLE = """
name = "arm"
[[link]]
a = 1.0
mass = 1.0
"""


def turn(axis: str, angle: float) -> np.ndarray:
    return Pose.turn(axis, angle).matrix


def shift(**xyz: float) -> np.ndarray:
    return Pose.shift(**xyz).matrix


@pytest.mark.parametrize("joint", ["revolute", "prismatic"])
@pytest.mark.parametrize("convention", ["standard", "modified"])
def test_a_row_is_its_four_screws(joint, convention):
    a, b, alpha, theta, q = 0.3, -0.2, 0.7, 1.1, 0.4
    row = ROW | {"joint": joint, "a": a, "b": b, "alpha": alpha, "theta": theta}
    robot = Robot.from_dh([row], convention=convention)
    if joint == "revolute":
        theta += q
    else:
        b += q
    about_z, about_x = turn("z", theta) @ shift(z=b), shift(x=a) @ turn("x", alpha)
    expected = about_z @ about_x if convention == "standard" else about_x @ about_z
    np.testing.assert_allclose(robot.pose([q]), expected, rtol=0, atol=1e-15)


def test_the_two_conventions_describe_one_arm():
    """Modified rows are standard rows with a and alpha moved on by one link."""
    standard = [ROW | {"a": 0.4, "alpha": 0.3, "b": 0.1, "com": (0.1, 0.2, 0.3)},
                ROW | {"a": 0.5, "alpha": -0.8, "com": (0.2, 0.0, 0.1)}]
    robot = Robot.from_dh(standard)
    q = [0.3, -0.7]
    modified = [ROW | {"a": 0.0, "b": 0.1}, ROW | {"a": 0.4, "alpha": 0.3},
                {"joint": "fixed", "a": 0.5, "alpha": -0.8}]
    other = Robot.from_dh(modified, convention="modified")
    np.testing.assert_allclose(robot.pose(q), other.pose(q), rtol=0, atol=1e-15)


def test_angles_in_degrees():
    degrees = Robot.from_dh([ROW | {"alpha_deg": 90.0, "theta_deg": 30.0}])
    radians = Robot.from_dh([ROW | {"alpha": math.radians(90), "theta": math.radians(30)}])
    assert degrees.description == radians.description
    assert "alpha_deg = 90.0" in degrees.to_toml()


def test_an_inertia_is_three_moments_or_a_tensor():
    short = Robot.from_dh([ROW | {"inertia": (1.0, 2.0, 2.5)}])
    full = Robot.from_dh([ROW | {"inertia": np.diag([1.0, 2.0, 2.5])}])
    assert short.description == full.description


def test_rows_hold_friction_armature_limits_and_names():
    row = ROW | {"friction": {"viscous": 0.1, "coulomb": 0.2}, "armature": 0.3, "name": "upper",
                 "joint_name": "shoulder",
                 "limits": {"position": (-1, 1), "velocity": 2, "effort": 3}}
    (joint,) = Robot.from_dh([row]).joints
    assert joint == Joint("shoulder", Revolute(), 0, DH(1.0, 0.0, 0.0, 0.0),
                          Friction(0.1, 0.2), 0.3, Limits((-1.0, 1.0), 2.0, 3.0))


@pytest.mark.parametrize("name", ["puma560", "stanford", "planar3", "ur5", "panda"])
def test_a_bundled_robot_survives_the_round_trip(name, tmp_path):
    robot = load(name)
    path = tmp_path / "copy.toml"
    text = robot.to_toml(path)
    assert load(path).description == robot.description
    assert load(path).to_toml() == text


@given(st.integers(0, 2**32 - 1))
def test_any_tree_survives_the_round_trip(seed):
    description = random_description(seed)
    assert parse_toml(to_toml(description)) == description


@given(st.text(st.sampled_from('a"\\\'\r\n\t,[]{}#\x00\x7f\u202e\u2028é'), max_size=12))
def test_any_text_survives_the_round_trip(text):
    description = from_rows([ROW], source=text)
    assert parse_toml(to_toml(description)).source == text


def test_a_written_file_has_a_line_a_key_in_the_order_of_the_docs():
    text = to_toml(from_rows([ROW | {"friction": {"viscous": 0.1}}], source="One line,\nanother."))
    assert text == '''name = "robot"
convention = "standard"
gravity = [0.0, 0.0, -9.81]
source = """
One line,
another."""

[[link]]
name = "link1"
joint = "revolute"
a = 1.0
b = 0.0
alpha_deg = 0.0
theta_deg = 0.0
mass = 1.0
com = [-0.5, 0.0, 0.0]
inertia = [0.01, 0.1, 0.1]
friction = { viscous = 0.1, coulomb = 0.0 }
'''


def test_a_link_called_base_survives_beside_the_frame_that_never_moves():
    rows = [{"name": "base", "mass": 1.0, "com": (0.1, 0, 0)},
            {"name": "b", "parent": "base", "mass": 1.0, "com": (0.1, 0, 0)},
            {"name": "c", "parent": "world", "mass": 1.0, "com": (0.1, 0, 0)}]
    description = from_rows(rows)
    assert [joint.parent for joint in description.joints] == [0, 1, 0]
    assert description.base == "world"
    assert parse_toml(to_toml(description)) == description


ROD = {"mass": 2.0, "com": (0.1, 0.2, 0.3), "inertia": (0.3, 0.4, 0.5)}
COMPOSITE = {
    "name": "hand", "parent": "base", "joint_name": "wrist",
    "placement": {"xyz": (0.1, 0.0, 0.5)}, "after": {"xyz": (0.0, 0.2, 0.0)}, **ROD,
    "joint": [{"joint": "revolute", "axis": (1, 0, 0), "limits": {"position": (-1, 1)}},
              {"joint": "prismatic", "axis": (0, 1, 1), "armature": 0.2, "joint_name": "slide"},
              {"joint": "spherical", "friction": {"viscous": 0.1}}]}


def test_a_composite_joint_is_a_chain_of_massless_links():
    composite = from_rows([dict(ROD), COMPOSITE, dict(ROD)])
    written_out = from_rows([
        dict(ROD),
        {"name": "hand:wrist_1", "joint_name": "wrist_1", "parent": "base", "joint": "revolute",
         "axis": (1, 0, 0), "placement": {"xyz": (0.1, 0.0, 0.5)},
         "limits": {"position": (-1, 1)}},
        {"name": "hand:slide", "joint_name": "slide", "joint": "prismatic", "axis": (0, 1, 1),
         "placement": {}, "armature": 0.2},
        {"name": "hand", "joint_name": "wrist_3", "joint": "spherical", "placement": {},
         "after": {"xyz": (0.0, 0.2, 0.0)}, "friction": {"viscous": 0.1}, **ROD},
        {"name": "link3", "joint_name": "joint3", **ROD}])
    assert composite == written_out
    assert parse_toml(to_toml(composite)) == composite
    robot = Robot(composite)
    assert (robot.n, robot.nq) == (7, 8)
    q, qd = robot.random_state(0)
    tau = robot.inverse_dynamics(q, qd, qd, engine="python")
    np.testing.assert_allclose(robot.forward_dynamics(q, qd, tau, engine="python"), qd, rtol=1e-9)


@pytest.mark.parametrize(("change", "message"), [
    ({"joint": [{"joint": "revolute"}]}, "row 1: joint: .* expected a name, or two tables or more"),
    ({"joint": ["revolute", "prismatic"]}, "row 1: joint: .* expected a name, or two tables"),
    ({"axis": (0, 0, 1)}, "row 1: 'axis' belongs into one of the tables of a composite joint"),
    ({"a": 1.0}, "row 1: 'a': a composite joint has a placement, not DH parameters"),
    ({"length": 1.0}, "row 1: unknown key 'length'"),
    ({"joint": [{"joint": "revolute"}, {"mass": 1.0}]}, "row 1: unknown key 'mass'"),
    ({"joint": [{"joint": "ball"}, {}]}, "row 1: joint 'ball', expected one of"),
])
def test_composite_joints_are_refused_in_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        from_rows([COMPOSITE | change])


NUMBERS = st.floats(-1e6, 1e6)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.sampled_from(["standard", "modified"]), TEXTS, TEXTS, NUMBERS, NUMBERS, NUMBERS, NUMBERS,
       st.floats(0, 1e6), st.floats(0, math.inf))
def test_any_number_and_any_text_survive_the_round_trip(
        convention, name, source, a, b, alpha, theta, armature, effort):
    description = Description(
        name, (Link("l " + name, 1.5),),
        (Joint("j " + name, Prismatic(), placement=DH(a, b, alpha, theta, convention),
               armature=armature, limits=Limits(effort=effort)),),
        (Frame("f " + name, 1, Pose.shift(a, b, alpha)),), gravity=(theta, a, b), source=source)
    assert parse_toml(to_toml(description)) == description


def test_mixed_conventions_have_no_table():
    links = (Link("a", 1.0), Link("b", 1.0))
    joints = (Joint("j", Prismatic(), 0, DH(0, 0, 0, 0)),
              Joint("k", Prismatic(), 1, DH(0, 0, 0, 0, "modified")))
    with pytest.raises(ValueError, match="arm: rows of both DH conventions, expected one"):
        to_toml(Description("arm", links, joints))


REFUSED_ROWS = {
    "row 1: unknown key 'length', expected some of": {"length": 1.0},
    "row 1: joint 'ball', expected one of revolute, prismatic, fixed": {"joint": "ball"},
    "row 1: a fixed joint has no axis": {"joint": "fixed", "axis": (0, 0, 1)},
    "row 1: both alpha and alpha_deg are given": {"alpha": 1.0, "alpha_deg": 1.0},
    "row 1: 'a' and a placement exclude each other": {"placement": {}},
    "row 1: parent 'elbow' is not 'base' nor an earlier link": {"parent": "elbow"},
    "row 1: com: .* expected three numbers": {"com": (1.0, 2.0)},
    "row 1: inertia: shape .2,., expected three moments or a 3x3 tensor": {"inertia": (1.0, 2.0)},
    "row 1: friction: .* expected a table of breakaway, coulomb, stribeck, viscous":
        {"friction": {"static": 1.0}},
    "breakaway friction 1.0 with the stribeck rate 0.0, expected a positive rate":
        {"friction": {"breakaway": 1.0}},
    "breakaway friction 1.0 with the stribeck rate 1e-200, expected a positive rate":
        {"friction": {"breakaway": 1.0, "stribeck": 1e-200}},
    "row 1: limits: .* expected a table of effort, position, velocity": {"limits": 3},
    "row 1: position limits: .* expected two numbers": {"limits": {"position": [1.0]}},
    "link 'link1': mass -1.0, expected": {"mass": -1.0},
    "row 1: a: nan, expected a finite number": {"a": math.nan},
}


@pytest.mark.parametrize("message", REFUSED_ROWS)
def test_a_bad_row_is_refused(message):
    with pytest.raises(ValueError, match=message):
        Robot.from_dh([ROW | REFUSED_ROWS[message]])


@pytest.mark.parametrize("row", [ROW | {"mass": "1 kg"}, ROW | {"mass": True}])
def test_a_number_is_a_number(row):
    with pytest.raises(TypeError, match=r"row 1: mass: .* expected a number"):
        Robot.from_dh([row])


@pytest.mark.parametrize("rows", [ROW, "rows", 3, [3]])
def test_rows_are_a_sequence_of_mappings(rows):
    with pytest.raises(TypeError, match="expected a"):
        Robot.from_dh(rows)


REFUSED_TEXTS = {
    "bad[.]toml: not valid TOML: ": "name = ",
    "bad[.]toml: unknown key 'joints', expected some of": TABLE.replace("name", "joints"),
    "bad[.]toml: expected one \\[\\[link\\]\\] table for each link": 'name = "arm"',
    "bad[.]toml: name: 3, expected a string": TABLE.replace('"arm"', "3"),
    "bad[.]toml: row 1: unknown key 'length'": TABLE + "length = 1.0",
    "bad[.]toml: gravity: .* expected three numbers": "gravity = [1]\n" + TABLE,
    "bad[.]toml: row 1: convention: 'craig'": 'convention = "craig"\n' + TABLE,
    "bad[.]toml: frame 'tool': link 'hand' does not exist":
        TABLE + '[[frame]]\nname = "tool"\nlink = "hand"',
    "bad[.]toml: frame: expected a table": TABLE + '[[frame]]\nname = "tool"\nparent = "x"',
    "bad[.]toml: .*": "link = [1]",
}


@pytest.mark.parametrize("message", REFUSED_TEXTS)
def test_a_bad_file_is_refused_in_one_sentence(message, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(REFUSED_TEXTS[message])
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_deep_nesting_is_refused(tmp_path):
    path = tmp_path / "deep.toml"
    path.write_text("name = " + "[" * 100_000)
    with pytest.raises(ValueError, match=r"deep[.]toml: not valid TOML"):
        load(path)


def test_a_huge_file_is_refused(tmp_path):
    path = tmp_path / "huge.toml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ValueError, match=r"huge[.]toml: larger than 16 MiB"):
        load(path)


def test_what_is_no_text_or_no_file_is_refused(tmp_path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        load(path)
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        load(tmp_path / "missing.toml")
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with pytest.raises(ValueError, match="cannot be read: "):
        load(folder)
    with pytest.raises(ValueError, match=r"has the suffix '[.]stl', expected"):
        load("arm.stl")
    with pytest.raises(ValueError, match="robot: 'puma' is not bundled, expected a path or one of"):
        load("puma")
