"""Write the C of an arm's controller, and of the arm itself to try it on.

    python examples/microcontroller/generate.py [DIRECTORY]
"""

import sys
from pathlib import Path

import numpy as np

import nlink

PERIOD = 1e-3
robot = nlink.load("double_pendulum")


def control(q, qd, goal):
    """Computed torque: accelerations of a critically damped spring, and the forces for them."""
    return robot.inverse_dynamics(q, qd, 400.0 * (goal - q) - 40.0 * qd)


def step(q, qd, tau):
    """The state a period later, q and then qd, by semi-implicit Euler."""
    rates = qd + PERIOD * robot.forward_dynamics(q, qd, tau)
    return np.concatenate([q + PERIOD * rates, rates])


directory = Path(sys.argv[1] if sys.argv[1:] else Path(__file__).parent)
functions = [nlink.function(each, robot.n, robot.n, robot.n) for each in (control, step)]
for path in nlink.export_c(robot, functions, directory, dtype="float32"):
    print(path)
