"""Solo12 on its four feet: it is to stand where it is pushed, and to trot."""

from __future__ import annotations

import math
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.load import load_description
from nlink.model.shapes import Sphere
from nlink.model.world import World
from nlink.robot import Robot
from nlink.scalars.functions import cos, exp, less, sin
from nlink.studies.drawing import Uniform

FEET, RADIUS = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"), 0.016
LEG, HEIGHT = (0.0, 0.8, -1.6), 0.239
KP, KD, REACH = 10.0, 0.2, 0.4
"""Gains of the joints, Nm/rad and Nm s/rad, and how far an action of 1 moves a joint, rad."""
GAIT, SWING = 2.0, (0.25, -0.5)
"""Steps a second of a trot, and how far hips and knees go with it, rad."""


def solo12() -> Robot:
    """Solo12 of pip's example-robot-data with balls as feet."""
    try:
        files = metadata.files("example-robot-data") or []
    except metadata.PackageNotFoundError:
        files = []
    path = next((Path(str(each.locate())) for each in files if each.name == "solo12.urdf"), None)
    if path is None:
        raise ValueError("solo12.urdf: not installed, expected pip install example-robot-data")
    robot = Robot(load_description(path, physical="ignore", floating=True))
    return robot.with_contacts({foot: Sphere(RADIUS) for foot in FEET}, World(friction=0.9))


def _downward(q: Any) -> list[Any]:
    """Where down is, in the axes of the body: -R^T z."""
    w, x, y, z = q[3:7]
    return [2.0 * (w * y - x * z), -2.0 * (w * x + y * z), 2.0 * (x * x + y * y) - 1.0]


def _seen(q: Any, qd: Any) -> list[Any]:
    return [q[2] - HEIGHT, *_downward(q), *(0.3 * x for x in qd[:3]), *qd[3:6],
            *(x - y for x, y in zip(q[7:], LEG * 4, strict=True)), *(0.05 * x for x in qd[6:])]


def _followed(q: Any, qd: Any, targets: Any) -> list[Any]:
    """Joint forces of a position controller, none at the base."""
    return [*[0.0] * 6, *(KP * (a - b) - KD * c for a, b, c in zip(
        targets, q[7:], qd[6:], strict=True))]


def _fallen(t: Any, q: Any) -> Any:
    return less(q[2], 0.12) | less(-0.5, _downward(q)[2])


def _standing(robot: Robot) -> dict[str, Any]:
    stand = np.array([0.0, 0.0, HEIGHT, 1.0, 0.0, 0.0, 0.0, *LEG * 4])
    spread = np.array([0.0] * 7 + [0.05] * 12)
    low, high = stand - spread, stand + spread
    low[2], high[2] = HEIGHT + 0.005, HEIGHT + 0.02
    return {"robot": robot, "termination": _fallen, "action_size": 12, "step": 0.002,
            "frame_skip": 10, "q": Uniform(low, high), "method": "semi_implicit"}


def solo12_stand() -> dict[str, Any]:
    """A quadruped that is to stand still, upright, while its body is pushed now and then."""
    robot = solo12()

    def forces(t: Any, q: Any, qd: Any, action: Any) -> Any:
        return _followed(q, qd, [x + REACH * a for x, a in zip(LEG * 4, action, strict=True)])

    def reward(t: Any, q: Any, qd: Any, action: Any) -> Any:
        tall, level = q[2] - HEIGHT, 1.0 + _downward(q)[2]
        return exp(-200.0 * tall * tall - 10.0 * level) - 0.05 * (qd[:6] @ qd[:6]) - (
            0.01 * (action @ action))

    push = Uniform([0, 0, 0, -8.0, -8.0, -2.0], [0, 0, 0, 8.0, 8.0, 2.0])
    return _standing(robot) | {
        "observation": lambda t, q, qd: _seen(q, qd), "reward": reward, "forces": forces,
        "pushes": {"base_link": push}, "push_every": 50}


def solo12_trot() -> dict[str, Any]:
    """A quadruped that is to walk ahead at a speed drawn for each episode: its legs swing in
    pairs, and actions are added to that."""
    robot = solo12()

    def targets(t: Any, action: Any) -> list[Any]:
        found = []
        for leg, side in enumerate((1.0, -1.0, -1.0, 1.0)):  # diagonal legs together
            phase = side * sin(2 * math.pi * GAIT * t)
            swing = 0.0, SWING[0] * phase, SWING[1] * phase
            found += [x + s + REACH * a for x, s, a in zip(
                LEG, swing, action[3 * leg:3 * leg + 3], strict=True)]
        return found

    def observation(t: Any, q: Any, qd: Any, action: Any, p: Any) -> Any:
        clock = 2 * math.pi * GAIT * t
        return [*_seen(q, qd), sin(clock), cos(clock), p[0]]

    def reward(t: Any, q: Any, qd: Any, action: Any, p: Any) -> Any:
        off = qd[3] - p[0]
        return exp(-10.0 * off * off) - 0.2 * (1.0 + _downward(q)[2]) - 0.5 * qd[4] * qd[4] - (
            0.02 * (qd[:3] @ qd[:3])) - 0.01 * (action @ action)

    return _standing(robot) | {
        "observation": observation, "reward": reward,
        "forces": lambda t, q, qd, action: _followed(q, qd, targets(t, action)),
        "vary": {"p": Uniform([0.1], [0.5])}}
