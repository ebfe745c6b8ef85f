"""What is said of odd starts, of stiff runs and of robots that fail while they are stepped."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nlink
from nlink.simulation.doubts import start_doubts, stiffness_doubts

PANDA = nlink.load("panda")
READY = [0.0, -0.3, 0.0, -2.2, 0.0, 2.0, 0.8]


def test_a_start_within_limits_is_not_doubted():
    assert start_doubts(PANDA, np.array(READY)) == []
    assert start_doubts(nlink.load("planar3"), np.array([[57.3, 0.1, -20.123]])) == []


def test_neutral_outside_its_limits_is_told():
    with pytest.warns(UserWarning, match=r"joint4 is 0 rad in robot.neutral, outside") as heard:
        run = nlink.simulate(PANDA, t=0.01)
    assert run.warnings == [str(heard[0].message).removeprefix("panda: ")]
    assert heard[0].filename == __file__
    assert run.warnings[0] in repr(run)
    assert run.warnings[0] in run._repr_html_()


@pytest.mark.parametrize(("index", "value", "said"), [
    (0, 90.0, "joint1 starts at 90 rad, 14.3 turns"), (3, 1.5, "joint4 is 1.5 rad at the start")])
def test_starts_in_degrees_or_far_outside_limits_are_told(index, value, said):
    q = np.array(READY)
    q[index] = value
    with pytest.warns(UserWarning, match=said):
        run = nlink.simulate(PANDA, q, t=0.01)
    assert any(said in line for line in run.warnings)
    with pytest.warns(UserWarning, match=said):
        nlink.Stepper(PANDA, q)


def test_very_many_steps_of_an_explicit_method_name_the_one_for_stiff_systems():
    line, = stiffness_doubts("rkf45", np.array([10, 320_434]), np.array([2.0, 2.0]))
    assert line.startswith("320,434 steps for 2 s")
    assert "rodas5p" in line
    assert not stiffness_doubts("rkf45", np.array(320_434), np.array(1000.0))
    assert not stiffness_doubts("rodas5p", np.array(320_434), np.array(2.0))


def unstable(**options):
    robots = nlink.Stepper(nlink.load("planar3"), np.zeros((3, 3)), step=0.01, **options)
    for _ in range(20):
        robots.step(np.array([[0.0], [-2000.0], [0.0]]) * robots.qd)
    return robots


def test_a_stepper_that_fails_says_so_once():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        robots = unstable()
    assert robots.status.tolist() == ["running", "not finite", "running"]
    assert len(heard) == 1
    assert heard[0].filename == __file__
    said = str(heard[0].message)
    assert said.startswith("Stepper: planar3 1 stopped at t = 0.0")
    assert "step times damping gain over inertia" in said


def test_a_reset_lets_a_stepper_warn_of_later_failures():
    with pytest.warns(UserWarning, match=r"planar3 1 stopped"):
        robots = unstable()
    robots.reset([True, False, False])
    robots.step()  # the second one is still where it failed, which was told
    robots.reset([0, 1])
    robots.step()
    with pytest.warns(UserWarning, match=r"planar3 0 stopped"):
        robots.step([[np.nan] * 3, [0.0] * 3, [0.0] * 3])
    robots.step([[0.0] * 3, [np.nan] * 3, [0.0] * 3])
    assert list(robots.status) == ["not finite", "not finite", "running"]


def test_a_strict_stepper_raises():
    with pytest.raises(ArithmeticError, match="planar3 1 stopped at t = "):
        unstable(strict=True)


def test_forces_that_are_not_finite_are_named():
    robots = nlink.Stepper(nlink.load("planar3"), strict=True)
    with pytest.raises(ArithmeticError, match="tau has a number that is not finite"):
        robots.step([np.nan, 0.0, 0.0])


def test_what_is_reached_is_true_and_says_what_is_left():
    robot = nlink.load("planar3")
    near, far = robot.ik([1.2, 1.0, 0.0]), robot.ik([[1.2, 1.0, 0.0], [9.0, 0.0, 0.0]])
    assert near
    assert not far
    assert repr(near) == "<Reached: 1 solved>"
    assert "out of reach" in repr(far)
    assert "6 m" in repr(far)
