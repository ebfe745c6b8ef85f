"""Every law in every engine; tests/formats/test_robots.py has them on every bundled robot."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nlink
from nlink.testing import LAWS, random_robot, robots, samples
from nlink.testing.loop_laws import LOOP_LAWS
from nlink.testing.mechanisms import EVERY

LAW = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name.replace(" ", "_"))


@cache
def bundled(name: str) -> nlink.Robot:
    """Shared by all tests, so that each kernel is compiled once."""
    return nlink.load(name, physical="ignore")


@cache
def mixed_tree() -> nlink.Robot:
    """Branches, joints of five types, friction and armature."""
    return random_robot(14, 5, types=EVERY)


def assert_holds(law, robot, x, engine) -> None:
    assert law.applies(robot)
    residual = law(robot, x, engine)
    assert residual <= law.bound(robot), f"{robot.name}: {law.statement} by {residual:.2e}"


@pytest.mark.sampled(24)
@LAW
@pytest.mark.parametrize("engine", ["python", "numpy"])
def test_law_holds_for_a_mixed_tree(law, engine):
    assert_holds(law, mixed_tree(), samples(mixed_tree(), states=5), engine)


@pytest.mark.slow
@LAW
def test_law_holds_for_a_mixed_tree_compiled(law):
    assert_holds(law, mixed_tree(), samples(mixed_tree(), states=5), "compiled")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_all_laws_of_loops_hold(engine):
    x = samples(bundled("four_bar"), states=5)
    for law in LOOP_LAWS:
        assert_holds(law, bundled("four_bar"), x, engine)


@pytest.mark.slow
@LAW
@given(robot=robots(max_bodies=3), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=3)
def test_law_holds_for_any_mechanism_and_frame(law, robot, seed, data):
    frame = data.draw(st.sampled_from(robot.frames))
    assert_holds(law, robot, samples(robot, seed, states=3, frame=frame), "numpy")


@pytest.mark.slow
@given(robot=robots(max_bodies=2), seed=st.integers(0, 99))
@settings(max_examples=2)
def test_all_laws_hold_for_any_mechanism_compiled(robot, seed):
    x = samples(robot, seed, states=9)
    for law in LAWS:
        if not law.thorough:  # these compare what `test_law_holds_for_a_mixed_tree_compiled` does
            assert_holds(law, robot, x, "compiled")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["puma_saha"])
def test_laws_need_no_physical_body_but_for_positivity(name):
    robot = bundled(name)
    x = samples(robot, states=5)
    broken = [law.name for law in LAWS if not law(robot, x, "numpy") <= law.bound(robot)]
    assert broken == ["positivity"]


@pytest.mark.slow
def test_a_broken_robot_breaks_the_laws(monkeypatch):
    """Laws notice: half the torque is no torque."""
    robot = random_robot(1, 5)
    x = samples(robot, states=3)
    true = nlink.Robot.inverse_dynamics
    monkeypatch.setattr(nlink.Robot, "inverse_dynamics",
                        lambda *args, **how: true(*args, **how) / 2)
    broken = {law.name for law in LAWS
              if not law.thorough and law(robot, x, "numpy") > law.bound(robot)}
    assert {"power", "bias", "kinetic energy", "wrenches"} <= broken


@pytest.mark.slow
def test_long_chains_obey_the_laws_that_cost_little():
    robot = random_robot(4, 76, tree=False)  # more than FEW rates
    x = samples(robot, states=2)
    for law in LAWS:
        if law.applies(robot) and not law.thorough:
            residual = law(robot, x, "numpy")
            assert residual <= law.bound(robot), law.statement
