"""Ladders of four-bars, whose motion is known in closed form: any number of loops, any angle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from nlink import Robot
from nlink.model.constraints import ANGLE_TOLERANCE
from nlink.model.pose import Mount, Pose
from nlink.programs import rolled_tracing
from nlink.testing.linkages import ladder, ladder_acceleration, ladder_rates


def error(robot: Robot, loops: int, theta: float, rate: float, engine: str = "python") -> float:
    """How far accelerations are from the closed form, relative to that of a rod."""
    qd = ladder_rates(loops, rate)
    found = robot.forward_dynamics(robot.neutral, qd, np.zeros(robot.n), engine=engine)
    exact = ladder_acceleration(loops, theta)
    return float(np.abs(found - ladder_rates(loops, exact)).max() / max(abs(exact), 1e-3))


@pytest.mark.parametrize("loops", [1, 2, 5, pytest.param(320, marks=pytest.mark.slow)])
def test_all_rods_of_a_ladder_are_one_pendulum(loops):
    engine = "compiled" if loops > 5 else "python"
    assert error(Robot(ladder(loops, 0.7)), loops, 0.7, -1.3, engine) < 1e-12


def test_long_ladders_swing_from_an_upright_start():
    """Where the acceleration is zero, that of 1 m/s at a rod's end is known, too."""
    assert error(Robot(ladder(40, math.pi / 2)), 40, math.pi / 2, -1.0, "numpy") < 1e-10


@pytest.mark.parametrize("rate", [0.0, -1.3])
@pytest.mark.parametrize("theta", [1e-3, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7])
def test_accelerations_are_right_close_to_dead_points(theta, rate):
    """Laid flat a ladder may leave its branch. Close to there it is not, and stays exact."""
    assert error(Robot(ladder(4, theta)), 4, theta, rate) < 1e-10


def test_flat_ladders_move_somehow():
    robot = Robot(ladder(4, 0.0))
    found = robot.forward_dynamics(robot.neutral, ladder_rates(4, 1.0), np.zeros(robot.n),
                                   engine="python")
    assert np.isfinite(found).all()


def scaled(loops: int, theta: float, length: float = 1.0, mass: float = 1.0, far: float = 0.0,
           ) -> Robot:
    """A ladder of another size, far away from where the base is."""
    d = ladder(loops, theta)

    def moved(pose: Pose) -> Pose:
        return Pose(pose.rotation, tuple(length * x for x in pose.origin))

    links = tuple(replace(
        link, mass=mass * link.mass, com=tuple(length * x for x in link.com),
        inertia=tuple(tuple(mass * length**2 * x for x in row) for row in link.inertia))
        for link in d.links)
    joints = tuple(replace(joint, placement=Mount(
        Pose.shift(y=0.0 if joint.parent else far) @ moved(joint.placement.before)))
        for joint in d.joints)
    loops_ = tuple(replace(loop, of=replace(loop.of, pose=moved(loop.of.pose)),
                           on=replace(loop.on, pose=moved(loop.on.pose))) for loop in d.loops)
    return Robot(replace(d, links=links, joints=joints, loops=loops_,
                         gravity=(0.0, -9.81 * length, 0.0)))


@pytest.mark.parametrize("changes", [
    {"length": 1e-3}, {"length": 1e3}, {"mass": 1e-9}, {"mass": 1e9}, {"far": 1e6}],
    ids=lambda changes: "-".join(f"{k}={v:g}" for k, v in changes.items()))
def test_neither_size_nor_weight_nor_place_of_the_base_matter(changes):
    """Gravity grows with the lengths, so that times stay what they are."""
    for theta, bound in ((0.7, 1e-14), (1e-5, 1e-10)):
        assert error(scaled(3, theta, **changes), 3, theta, -1.3) < bound


@pytest.mark.parametrize("ratio", [1e6, 1e-6])
def test_couplers_of_very_different_masses(ratio):
    masses = [1.0, ratio] * 5
    robot = Robot(ladder(10, 0.7, masses))
    qd, rods = np.array(ladder_rates(10, -1.3)), 11
    found = robot.forward_dynamics(robot.neutral, qd, np.zeros(robot.n), engine="python")
    exact = -9.81 * math.cos(0.7) * (rods / 2 + sum(masses)) / (rods / 3 + sum(masses))
    assert found == pytest.approx(np.array(ladder_rates(10, exact)), abs=1e-9 * abs(exact))


@pytest.mark.parametrize("masses", [(0, 1, 1), (1, 0, 1, 1), (2, 0, 3, 0, 0.5)])
def test_couplers_without_mass_move_with_what_they_carry(masses):
    """In another tree than the author's they would be tips, whose rates have no inertia."""
    robot, rods = Robot(ladder(len(masses), 0.7, masses)), len(masses) + 1
    qd = np.array(ladder_rates(rods - 1, -1.3))
    found = robot.forward_dynamics(robot.neutral, qd, np.zeros(robot.n), engine="python")
    exact = -9.81 * math.cos(0.7) * (rods / 2 + sum(masses)) / (rods / 3 + sum(masses))
    assert found == pytest.approx(np.array(ladder_rates(rods - 1, exact)), abs=1e-12 * abs(exact))
    q, qd, _ = robot.compute("project", robot.neutral, qd, engine="python")
    assert np.abs(q - robot.neutral).max() < 1e-14


def test_bodies_without_mass_that_move_as_they_like_are_refused():
    """A chain of them, straight, has no inertia across; the loops alone would hold it."""
    robot = Robot(ladder(4, 0.7, (0, 0, 0, 1)))
    with pytest.raises(ValueError, match="'coupler2' carries bodies without mass that move as"):
        robot.forward_dynamics(robot.neutral, np.zeros(robot.n), np.zeros(robot.n))


@pytest.mark.parametrize("tilt", [1e-12, 3e-6, ANGLE_TOLERANCE])
def test_axes_askew_by_the_digits_of_a_file_are_parallel(tilt):
    """Three rows of each loop follow from the others, and would lock it if they were kept."""
    d, theta = ladder(4), 1.0
    joints = tuple(replace(joint, placement=Mount(
        joint.placement.before @ Pose.turn("x", tilt * (-1) ** k)))
        if joint.parent == 0 else joint for k, joint in enumerate(d.joints))
    robot = Robot(replace(d, joints=joints))
    assert robot.compute("closure_rank", robot.neutral, engine="python") == 2 * 4
    assert error(robot, 4, theta, -1.3) < 1e-12 + 100 * tilt


def test_code_of_many_loops_is_not_rolled_in_vain(monkeypatch):
    """Tracing sweeps for each of many rows took minutes, and in the end was not used."""
    def refuse(*_: object) -> None:
        raise AssertionError("tried to roll the rows of four loops")

    monkeypatch.setattr(rolled_tracing, "Rolled", refuse)
    robot = Robot(ladder(4))
    assert not robot.request("forward_dynamics").rolled
