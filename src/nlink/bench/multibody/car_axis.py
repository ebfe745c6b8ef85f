"""The car axis of the Test Set for IVP Solvers: one wheel rolls over bumps."""

from __future__ import annotations

import numpy as np

from nlink.bench.multibody.problem import PUBLISHED, Array, Problem, Reference, State, model, point
from nlink.bench.multibody.squeezer import TEST_SET
from nlink.robot import Robot
from nlink.scalars.functions import Scalar, atan2, cos, sin, sqrt
from nlink.simulation.run import Run

STIFFNESS, REST_LENGTH = 1e4, 0.5
"""Of both springs, in N/m (1 / epsilon^2) and m."""
BUMP, FREQUENCY = 0.1, 10.0
"""Height of the right wheel's motion, m, and rad/s. The wheels are 1 m apart."""


def axle(t: Scalar) -> Scalar:
    """The angle of the line between the wheels: the right one is BUMP sin(FREQUENCY t) high."""
    height = BUMP * sin(FREQUENCY * t)
    return atan2(height, sqrt(1.0 - height * height))


def forces(_t: Scalar, q: list[Scalar], _qd: list[Scalar]) -> list[Scalar]:
    """The springs from each wheel to its point of the chassis, in the axle's axes: the right wheel
    is at (1, 0), the left point at (0, h), the right one at (cos a, h + sin a)."""
    h, a = q[1], q[2]
    x, y = cos(a) - 1.0, h + sin(a)
    length = sqrt(x * x + y * y)
    push = STIFFNESS * (REST_LENGTH - length) / length
    return [0.0, STIFFNESS * (REST_LENGTH - h) + push * y, push * (y * cos(a) - x * sin(a))]


def car_axis() -> Problem:
    """For 3 s: both points of the chassis."""
    def start(robot: Robot) -> State:
        rate = BUMP * FREQUENCY  # of the axle; the chassis starts level
        return robot.neutral, np.array([rate, 0.0, -rate])

    def points(robot: Robot, run: Run) -> Array:
        left, right = (point(name)(robot, run)[..., :2] for name in ("left", "right"))
        return np.concatenate([left, right], axis=-1)

    reference = Reference.of(
        [(3.0, 0.4934557842755629e-1, 0.4969894602303324, 0.1041742524885400e+1,
          0.3739110272652214)],
        PUBLISHED, "the test set's solution")
    return Problem("car-axis", "car axis, driven", TEST_SET.format("Car Axis"), model("car_axis"),
                   start, "x and y of both points, m", points, reference, forces,
                   options={"motion": {"axle": axle}})
