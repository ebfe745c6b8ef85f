"""Problem A05 of the IFToMM library: the stiff flyball governor."""

from __future__ import annotations

import math

import numpy as np

from nlink.bench.multibody.pendulums import LIBRARY
from nlink.bench.multibody.problem import INDEPENDENT, Problem, Reference, State, coordinates, model
from nlink.robot import Robot
from nlink.scalars.functions import Scalar, cos, sin, sqrt

STIFFNESS, DAMPING, REST_LENGTH = 8e5, 4e4, 0.5
"""Of each spring, in N/m, N s/m and m."""
A05 = (
    (0.05, 0.506100897244),
    (0.1, 0.52383647557),
    (0.5, 0.743249424786),
    (1, 0.50142092238),
    (2, 0.505909294297),
    (5, 0.535563103722),
    (10, 0.619622917061),
)
"""Seconds, then the height in metres."""


def forces(_t: Scalar, q: list[Scalar], qd: list[Scalar]) -> list[Scalar]:
    """Springs with dampers between the slider and the middles of the arms, as joint forces.

    In the plane of an arm the middle is (cos a / 2, 1 - sin a / 2) from its hinge's foot, the end
    on the slider (0, h).
    """
    height, rate = q[1], qd[1]
    lift, moments = 0.0, []
    for a, turning in zip(q[2:], qd[2:], strict=True):
        c, s = cos(a) / 2, sin(a) / 2
        x, z = c, 1 - s - height
        length = sqrt(x * x + z * z)
        lengthening = (-x * s - z * c) / length * turning - z / length * rate
        pull = STIFFNESS * (length - REST_LENGTH) + DAMPING * lengthening
        lift = lift + pull * z / length
        moments.append(-pull * (-x * s - z * c) / length)
    return [0.0, lift, *moments]


def governor() -> Problem:
    """Set free at 2 pi rad/s, for 10 s: rates of some and of thousands per second."""
    def start(robot: Robot) -> State:
        return robot.neutral, np.array([2 * math.pi, 0.0, 0.0, 0.0])

    reference = Reference.of(
        A05, INDEPENDENT, "height and angle with the angular momentum kept, Radau at 1e-12")
    return Problem("A05", "stiff flyball governor", LIBRARY.format("A05"),
                   model("flyball_governor"), start, "height of the slider, m",
                   coordinates("slide"), reference, forces, methods=("rodas5p",))
