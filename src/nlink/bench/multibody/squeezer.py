"""Andrews' squeezer: problem A03 of the IFToMM library, and of the Test Set for IVP Solvers."""

from __future__ import annotations

import numpy as np

from nlink.bench.multibody.pendulums import LIBRARY
from nlink.bench.multibody.problem import (
    INDEPENDENT,
    PUBLISHED,
    Problem,
    Reference,
    State,
    at_rest,
    coordinates,
    model,
    point,
)
from nlink.robot import Robot
from nlink.scalars.functions import Scalar, cos, sin, sqrt

TORQUE, STIFFNESS, REST_LENGTH = 0.033, 4530.0, 0.07785
"""Of the motor, in N m; of the spring from D to C, in N/m and m."""
B, C = (-0.03635, 0.03273), (0.014, 0.072)
D = 0.02, -0.018
"""The spring's end in the axes of the body k3, which turns about B."""
TEST_SET = ("F. Mazzia, C. Magherini, Test Set for Initial Value Problem Solvers, release 2.4 "
            "(2008), problem {}")
ANGLES = ("beta", "theta", "gamma", "phi", "delta", "omega", "epsilon")
A03 = (
    (0.01, -0.00385129059363, 0.00584530245269),
    (0.02, -0.00222941183453, 0.00663548964825),
    (0.03, -0.00697026078177, -0.000644565461494),
    (0.04, 0.00505124544268, -0.0048461241707),
    (0.05, -0.0051589852502, 0.00473126528407),
)
"""Seconds, then x and y of F in metres."""


def forces(_t: Scalar, q: list[Scalar], _qd: list[Scalar]) -> list[Scalar]:
    """The motor on beta, and the moment of the spring about B."""
    gamma = q[2]
    c, s = cos(gamma), sin(gamma)
    arm = D[0] * c - D[1] * s, D[0] * s + D[1] * c
    reach = [b + a - end for a, b, end in zip(arm, B, C, strict=True)]
    length = sqrt(reach[0] * reach[0] + reach[1] * reach[1])
    pull = -STIFFNESS * (length - REST_LENGTH) / length
    moment = pull * (arm[0] * reach[1] - arm[1] * reach[0])
    return [TORQUE, 0.0, moment, 0.0, 0.0, 0.0, 0.0]


def squeezer() -> Problem:
    """As the test set has it: the seven angles at 0.03 s."""
    reference = Reference.of(
        [(0.03, 0.1581077119629904e+2, -0.1575637105984298e+2, 0.4082224013073101e-1,
          -0.5347301163226948, 0.5244099658805304, 0.5347301163226948, 0.1048080741042263e+1)],
        PUBLISHED, "the test set's solution, by PSIDE in Cray double precision at 1e-14")
    return Problem("Andrews", "Andrews' squeezer", TEST_SET.format("Andrews"), model("andrews"),
                   at_rest, "the seven angles, rad", coordinates(*ANGLES), reference, forces)


def library_squeezer() -> Problem:
    """As the library has it: from beta = -0.0620, the point F for 0.05 s."""
    def start(robot: Robot) -> State:
        guess = np.array(robot.neutral)
        guess[0] = -0.0620
        return robot.loops.assemble(guess, keep=["beta"]), np.zeros(robot.n)

    reference = Reference.of(
        A03, INDEPENDENT, "Newton's equations of the bodies with multipliers for the pins, DOP853")
    return Problem("A03", "Andrews' squeezer", LIBRARY.format("A03"), model("andrews"), start,
                   "x and y of F, m", lambda robot, run: point("k2")(robot, run)[..., :2],
                   reference, forces)
