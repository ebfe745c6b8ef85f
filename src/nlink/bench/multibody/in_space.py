"""Problems in space: Bricard's mechanism, the heavy top, the spatial slider-crank."""

from __future__ import annotations

import numpy as np

from nlink.bench.multibody.pendulums import LIBRARY
from nlink.bench.multibody.problem import (
    INDEPENDENT,
    Array,
    Problem,
    Reference,
    State,
    at_rest,
    coordinates,
    model,
    point,
)
from nlink.robot import Robot
from nlink.simulation.run import Run

SPIN, PRECESSION = 150.0, -4.61538
"""Of the top at the start, in rad/s about its axis and about the vertical."""
CRANK_RATE = 6.0
"""In rad/s."""
A04 = (
    (1, 0.50866476023, -1.64982706321, 0.139035330748),
    (2, -0.96989200379, -1.21945514095, 0.75646457961),
    (4, 0.532399282557, -1.6410322101, 0.153506642712),
    (6, 0.484302768902, -1.65825237374, 0.1250995325),
    (8, -0.962483804494, -1.24204600142, 0.728660865184),
    (10, 0.999999729395, -1.00073538991, 0.9992643397),
)
"""Seconds, then P3 in metres."""
TOP = (
    (0.5, -0.702468297057, -0.0211651847015, -0.711400257652),
    (1, 0.173343964098, 0.64008859207, -0.748490791134),
    (1.5, -0.968165715638, 0.250306062133, -0.00142208385132),
    (2, -0.150416822746, -0.724165591637, -0.67302226956),
)
"""Seconds, then the centre in metres."""
SLIDER_CRANK = (
    (1, 0.211721661393),
    (2, 0.289085197067),
    (3, 0.228484813698),
    (4, 0.188230475581),
    (5, 0.240719573732),
)
"""Seconds, then the slider in metres."""


def bricard() -> Problem:
    """From rest on the edges of a cube, for 10 s."""
    reference = Reference.of(
        A04, INDEPENDENT, "points and axes as coordinates, 24 quadratic constraints solved by "
        "pseudoinverse, DOP853")
    return Problem("A04", "Bricard's mechanism", LIBRARY.format("A04"), model("bricard"), at_rest,
                   "x, y and z of P3, m", point("rod4"), reference)


def heavy_top(*, held: bool) -> Problem:
    """For 2 s: on a spherical joint, or a free body that a loop holds in a point."""
    def start(robot: Robot) -> State:
        turning = [0.0, SPIN, PRECESSION]
        moving = [-PRECESSION, 0.0, 0.0] if held else []  # w x (0, 1, 0) of the centre
        return robot.neutral, np.array(turning + moving)

    def centre(robot: Robot, run: Run) -> Array:
        pose = robot.pose(run.q, "top")
        return pose[..., :3, 3] if held else pose[..., :3, 1]

    reference = Reference.of(
        TOP, INDEPENDENT, "Euler's equations about the fixed point, DOP853; at 2 s those of "
        "Kynema's regression test dynamic_heavy_top, at steps of 2e-6 s, within 2e-6")
    return Problem(
        "top-held" if held else "top", f"heavy top, {'free and held' if held else 'on a ball'}",
        "O. Bruels, A. Cardona, M. Arnold, Lie group generalized-alpha time integration of "
        "constrained flexible multibody systems, Mechanism and Machine Theory 48 (2012)",
        model("heavy_top_held" if held else "heavy_top"), start, "x, y and z of the centre, m",
        centre, reference)


def slider_crank() -> Problem:
    """The crank starts at 6 rad/s, for 5 s."""
    def start(robot: Robot) -> State:
        _, qd = robot.loops.project(robot.neutral, np.zeros(robot.n))
        rates, _ = robot.loops.complete(robot.neutral, {"crank": CRANK_RATE}, {"crank": 0.0})
        return robot.neutral, qd + rates

    reference = Reference.of(
        SLIDER_CRANK, INDEPENDENT, "kinetic energy as a function of the crank's angle, DOP853; "
        "the slider is that of the library's solution by F. Gonzalez within 5e-5 m")
    return Problem(
        "slider-crank", "spatial slider-crank",
        "Spatial rigid slider-crank mechanism, library of the IFToMM committee for multibody "
        "dynamics, after E. J. Haug, Computer Aided Kinematics and Dynamics of Mechanical "
        "Systems (1989), 12.2", model("spatial_slider_crank"), start, "the slider, m",
        coordinates("slide"), reference)
