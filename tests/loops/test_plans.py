"""What a plan of elimination says of itself, and draws."""

from __future__ import annotations

import pytest

import nlink
from nlink.robot import Robot
from nlink.testing.linkages import ladder, net, walker

ROBOTS = {"four_bar": lambda: nlink.load("four_bar"),
          "two_arms_box": lambda: nlink.load("two_arms_box"),
          "stewart": lambda: nlink.load("stewart"), "ladder": lambda: Robot(ladder(5)),
          "net": lambda: Robot(net(3, 4)), "walker": lambda: Robot(walker(2))}


@pytest.mark.parametrize("name", ROBOTS)
def test_every_joint_and_loop_is_in_the_tree_or_cut_or_holds_nothing(name):
    plan = ROBOTS[name]().loops.plan
    tree = [plan.edges[held.edge] for held in plan.elimination.tree]
    loose = [plan.edges[k] for k in plan.elimination.loose]
    assert sorted([*tree, *plan.cut, *loose]) == sorted(plan.edges)
    assert len(tree) == len(plan.bodies) - 1


@pytest.mark.parametrize("name", ROBOTS)
def test_rows_go_when_the_bodies_of_their_branches_are_gone(name):
    plan = ROBOTS[name]().loops.plan
    gone = set()
    for step in plan.elimination.order:
        if step.is_body:
            gone.add(step.number)
        else:
            assert set(plan.cycles[plan.elimination.cut[step.number]]) - {step.meets} <= gone


@pytest.mark.parametrize("name", ROBOTS)
def test_a_plan_is_printed_a_step_in_a_line(name):
    plan = ROBOTS[name]().loops.plan
    head, *steps = str(plan).splitlines()
    assert head.startswith(plan.name)
    assert len(steps) == len(plan.elimination.order)
    for cut in plan.cut:
        assert f"of {cut}, whose branches meet in" in str(plan)
    assert plan.name in repr(plan)
    assert "\n" not in repr(plan)


def test_open_rows_of_a_ladder_are_those_of_two_loops_however_long_it_is():
    plans = [Robot(ladder(n)).loops.plan for n in (5, 40)]
    assert [plan.width for plan in plans] == [10, 10]
    assert [len(plan.cut) for plan in plans] == [5, 40]


def test_legs_with_four_bars_open_no_more_rows_however_many_there_are():
    assert Robot(walker(40)).loops.plan.width == Robot(walker(2)).loops.plan.width


def test_a_box_in_two_hands_hangs_on_one_of_them():
    plan = nlink.load("two_arms_box").loops.plan
    assert plan.cut == ("right_grasp",)
    assert "box, with the rates of loop left_grasp, from left_link6; open: right_grasp" in str(plan)


def test_pictures_have_every_body_and_every_cut(tmp_path):
    pytest.importorskip("matplotlib")
    plan = Robot(net(3, 3)).loops.plan
    words = {text.get_text() for text in plan.figure().axes[0].texts}
    assert words >= {*plan.bodies, *(f"{cut}, 3 rows" for cut in plan.cut)}
    assert plan.plot(tmp_path / "plan.png").stat().st_size > 5000


def test_what_no_picture_shows_is_refused():
    with pytest.raises(ValueError, match=r"ladder\(40\) has 81 bodies, expected at most 60 in a"):
        Robot(ladder(40)).loops.plan.figure()
    with pytest.raises(ValueError, match=r"has the suffix '\.jpeg', expected"):
        nlink.load("four_bar").loops.plan.plot("plan.jpeg")
