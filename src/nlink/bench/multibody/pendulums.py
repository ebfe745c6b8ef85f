"""Problems A01 and A02 of the IFToMM library, which have closed forms."""

from __future__ import annotations

import math

import numpy as np

from nlink.bench.multibody.elliptic import swinging, turning_over
from nlink.bench.multibody.problem import (
    CLOSED,
    Array,
    Problem,
    Reference,
    State,
    at_rest,
    model,
    point,
)
from nlink.robot import Robot
from nlink.simulation.run import Run
from nlink.testing.linkages import GRAVITY, ladder, ladder_acceleration, ladder_rates

LIBRARY = ("M. Gonzalez, D. Dopico, U. Lugris, J. Cuadrado, A benchmarking system for MBS "
           "simulation software, Multibody System Dynamics 16 (2006); {} of the library of the "
           "IFToMM committee for multibody dynamics")
ELLIPTIC = "Jacobi's elliptic functions"


def pendulum() -> Problem:
    """A point of 1 kg on a massless link of 1 m, from the horizontal, for 2000 s."""
    times = np.linspace(0.0, 2000.0, 4001)
    phi = swinging(times[1:], math.sqrt(GRAVITY), math.pi / 2)
    values = np.column_stack([np.sin(phi), -np.cos(phi)])
    return Problem(
        "A01", "simple pendulum", LIBRARY.format("A01"), model("pendulum"), at_rest,
        "x and y of the mass, m", lambda robot, run: point("mass")(robot, run)[..., :2],
        Reference(times, values, CLOSED, ELLIPTIC))


def four_bars(loops: int) -> Problem:
    """N four-bars side by side, upright, pushed at 1 m/s, for 20 s: they pass the horizontal
    position, where N + 1 rods could turn each for itself, twice in a turn.

    All rods stay parallel, so the motion is that of one pendulum, nlink.testing.linkages.
    """
    times = np.linspace(0.0, 20.0, 401)
    rate = math.sqrt(-ladder_acceleration(loops, 0.0))
    x, y = turning_over(times[1:], rate, 1.0)

    def start(robot: Robot) -> State:
        return robot.neutral, np.array(ladder_rates(loops, -1.0))

    def tip(robot: Robot, run: Run) -> Array:
        return np.stack([np.cos(run.q[..., 0]), np.sin(run.q[..., 0])], axis=-1)

    return Problem(
        f"A02-{loops}", f"{loops} four-bars", LIBRARY.format("A02"),
        lambda: Robot(ladder(loops, math.pi / 2)), start, "x and y of the first tip, m", tip,
        Reference(times, np.column_stack([-x, -y]), CLOSED, ELLIPTIC))
