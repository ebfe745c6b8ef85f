"""Loops in TOML files: every type goes there and back, every slip gives one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nlink
from nlink import Robot
from nlink.formats.dh import parse_toml
from nlink.formats.toml_writer import to_toml
from nlink.model.constraints import CONSTRAINTS, Rows, Screw
from nlink.model.description import Frame, Loop
from nlink.model.pose import Pose
from nlink.testing.closed import random_arms, random_constraint

FOUR_BAR = nlink.load("four_bar").description
LOOP = """
[[loop]]
name = "pin"
joint = "revolute"
of = { link = "coupler", xyz = [1.0, 0.0, 0.0] }
on = { link = "rocker", xyz = [0.8, 0.0, 0.0] }
"""
TREE = to_toml(replace(FOUR_BAR, loops=()))


@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_every_type_of_loop_goes_there_and_back(kind):
    for seed in range(3):
        description = random_arms(seed, arms=2, joints=3, types=[kind])
        assert parse_toml(to_toml(description)) == description


@pytest.mark.parametrize("name", ["four_bar", "slider_crank", "stewart", "two_arms_box"])
def test_bundled_mechanisms_go_there_and_back(name, tmp_path):
    robot = nlink.load(name)
    robot.to_toml(tmp_path / "again.toml")
    assert nlink.load(tmp_path / "again.toml").description == robot.description


def test_a_loop_without_a_name_or_places_has_the_plain_ones():
    text = TREE + ('[[loop]]\njoint = "spherical"\n'
                   'of = { link = "coupler" }\non = { link = "base" }\n')
    (loop,) = parse_toml(text).loops
    assert loop.name == "loop1"
    assert (loop.of.link, loop.on.link) == (2, 0)
    assert loop.of.pose == loop.on.pose == Pose()


def test_an_axis_turns_both_frames():
    """z of the constraint lies along the axis, in either link."""
    text = TREE + LOOP.replace('"revolute"', '"revolute"\naxis = [0.0, 2.0, 0.0]')
    (loop,) = parse_toml(text).loops
    for end in (loop.of, loop.on):
        assert end.pose.R[:, 2] == pytest.approx([0.0, 1.0, 0.0], abs=1e-15)


NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(matrix=st.lists(st.lists(NUMBERS, min_size=6, max_size=6).filter(any), min_size=1,
                       max_size=6))
def test_any_matrix_goes_there_and_back(matrix):
    loop = replace(FOUR_BAR.loops[0], constraint=Rows(tuple(map(tuple, matrix))))
    description = replace(FOUR_BAR, loops=(loop,))
    assert parse_toml(to_toml(description)).loops == (loop,)


@given(pitch=NUMBERS.filter(bool), xyz=st.tuples(NUMBERS, NUMBERS, NUMBERS))
def test_any_pitch_and_place_go_there_and_back(pitch, xyz):
    end = Frame("pin.of", 2, Pose(origin=xyz))
    loop = replace(FOUR_BAR.loops[0], constraint=Screw(pitch), of=end)
    description = replace(FOUR_BAR, loops=(loop,))
    assert parse_toml(to_toml(description)).loops == (loop,)


@pytest.mark.parametrize(("old", "new", "words"), [
    ('joint = "revolute"', 'joint = "hinge"', "loop 'pin': joint 'hinge', expected one of fixed"),
    ('joint = "revolute"', "", "loop 'pin': joint None, expected one of fixed"),
    ('joint = "revolute"', "joint = 3", "loop 'pin': joint 3, expected one of fixed"),
    ('joint = "revolute"', 'joint = "helical"', "loop 'pin': a helical loop needs pitch"),
    ('joint = "revolute"', 'joint = "helical"\npitch = 0.0', "pitch: 0.0, expected a finite"),
    ('joint = "revolute"', 'joint = "helical"\npitch = "x"', "pitch"),
    ('joint = "revolute"', 'joint = "helical"\npitch = inf', "pitch"),
    ('joint = "revolute"', 'joint = "revolute"\npitch = 1.0', "a revolute loop has no pitch"),
    ('joint = "revolute"', 'joint = "matrix"', "a matrix loop needs matrix"),
    ('joint = "revolute"', 'joint = "matrix"\nmatrix = []', r"matrix: \(\), expected one to six"),
    ('joint = "revolute"', 'joint = "matrix"\nmatrix = [[1, 2]]', "expected one to six rows"),
    ('joint = "revolute"', 'joint = "matrix"\nmatrix = [[0, 0, 0, 0, 0, 0]]', "none of them all"),
    ('joint = "revolute"', 'joint = "matrix"\nmatrix = 3', "matrix: 3, expected"),
    ('joint = "revolute"', 'joint = "matrix"\nmatrix = [1, 2]', "matrix: .* expected"),
    ('joint = "revolute"', 'joint = "matrix"\nmatrix = [["a", 0, 0, 0, 0, 1]]', r"matrix: \['a'"),
    ('joint = "revolute"', 'joint = "revolute"\naxis = [0, 0, 0]', "axis: .* expected a direction"),
    ('joint = "revolute"', 'joint = "revolute"\naxis = [1]', "axis"),
    ('joint = "revolute"', 'joint = "revolute"\naxis = 1', "axis"),
    ('joint = "revolute"', 'joint = "revolute"\ngap = 1', "loop 'pin': unknown key 'gap'"),
    ('link = "coupler"', 'link = "couple"', "loop 'pin': of: link 'couple' does not exist"),
    ('link = "coupler"', "link = [1]", r"of: link \[1\] does not exist"),
    ('link = "coupler",', "", "of: link None does not exist"),
    ('link = "coupler", xyz', 'link = "coupler", place', "of: .* expected a table with link, xyz"),
    ('of = { link = "coupler", xyz = [1.0, 0.0, 0.0] }', "of = 2", "of: 2, expected a table"),
    ('of = { link = "coupler", xyz = [1.0, 0.0, 0.0] }', "", "of: None, expected a table"),
    ("xyz = [0.8, 0.0, 0.0]", "xyz = [0.8, 0.0]", "loop 'pin': .*xyz"),
    ("xyz = [0.8, 0.0, 0.0]", "rotation = [[1, 0, 0], [0, 1, 0], [0, 0, -1]]", "proper orthogonal"),
    ("xyz = [0.8, 0.0, 0.0]", "xyz = [0.8, 0.0, nan]", "loop 'pin': .*"),
    ('name = "pin"', "name = 3", "loop: name 3, expected a non-empty string"),
    ('name = "pin"', 'name = ""', "loop: name '', expected a non-empty string"),
])
def test_a_slip_in_a_loop_gives_one_sentence(old, new, words):
    assert old in LOOP
    with pytest.raises(ValueError, match=words) as refusal:
        parse_toml(TREE + LOOP.replace(old, new), origin="bar.toml")
    message = str(refusal.value)
    assert message.startswith("bar.toml: ")
    assert "\n" not in message


@pytest.mark.parametrize(("text", "words"), [
    (TREE + LOOP + LOOP, "loop 'pin': the name is used twice"),
    ("loop = 3\n" + TREE, r"loop: expected one \[\[loop\]\] table for each loop"),
    ("loop = [3]\n" + TREE, "loop 1: int, expected a table"),
    ("home = [0.0, 1.0]\n" + TREE.replace("home =", "#"), r"home: shape \(2,\), expected \(3,\)"),
    ("home = 1.0\n" + TREE.replace("home =", "#"), "home: 1.0, expected"),
    ('home = ["a", 1.0, 1.0]\n' + TREE.replace("home =", "#"), r"home: \['a', .*, expected"),
    (TREE.replace("actuated = false", "actuated = 0", 1), "actuated: 0, expected true or false"),
])
def test_a_slip_in_a_file_gives_one_sentence(text, words):
    with pytest.raises(ValueError, match=words) as refusal:
        parse_toml(text, origin="bar.toml")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("of", [0, 2])
def test_both_frames_in_one_body_are_refused(of):
    """Links on a fixed joint are one body, and those on the base are the base."""
    constraint = random_constraint(np.random.default_rng(0), "spherical")
    loop = Loop("self", constraint, Frame("a", of), Frame("b", of, Pose.shift(x=1.0)))
    with pytest.raises(ValueError, match="loop 'self': both its frames are fixed in one body"):
        Robot(replace(FOUR_BAR, loops=(loop,)))


def test_a_loop_beyond_the_links_is_refused():
    loop = replace(FOUR_BAR.loops[0], of=Frame("pin.of", 9))
    with pytest.raises(ValueError, match=r"frame 'pin.of': link 9, expected 0 to 3"):
        replace(FOUR_BAR, loops=(loop,))


def test_a_tree_has_no_loops():
    with pytest.raises(ValueError, match="puma560 has no loops"):
        _ = nlink.load("puma560").loops
    with pytest.raises(ValueError, match="closure_error: of mechanisms with loops"):
        nlink.load("puma560").compute("closure_error", np.zeros(6))


@pytest.mark.parametrize("name", ["link_accelerations", "operational_inertia"])
def test_what_loops_change_is_refused(name):
    bar = nlink.load("four_bar")
    arrays = [bar.neutral, np.zeros(3), np.zeros(3)][:3 if name.startswith("link") else 1]
    with pytest.raises(ValueError, match=f"{name}: of trees, and this mechanism has loops"):
        getattr(bar, name)(*arrays)
    assert np.isfinite(getattr(bar.tree, name)(*arrays, **(
        {} if name.startswith("link") else {"inverse": True}))).all()


def test_formulations_of_a_tree_are_no_formulations_of_loops():
    with pytest.raises(ValueError, match="denoc"):
        nlink.load("four_bar").forward_dynamics(np.zeros(3), np.zeros(3), np.zeros(3),
                                                algorithm="denoc")


def test_rows_of_a_matrix_are_lists_tuples_or_arrays():
    Q = np.eye(6)[3:5]
    ends = {"of": {"link": "link3"}, "on": {"link": "base", "xyz": (2.0, 1.0, 0.0)}}
    robots = [nlink.load("planar3").with_loops([{
        "name": "wall", "joint": "matrix", "matrix": matrix, **ends}])
        for matrix in (Q, Q.tolist(), tuple(map(tuple, Q.tolist())), list(Q))]
    assert len({robot.to_toml() for robot in robots}) == 1
