"""A Panda that reaches for points and pushes a puck, and the crank of a four-bar linkage."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from nlink.formats.load import load_description
from nlink.model.description import Description, Friction, Joint, Link
from nlink.model.joints import Prismatic
from nlink.model.pose import Mount, Pose
from nlink.robot import Robot
from nlink.scalars.functions import cos, exp, maximum, sin, sqrt, tanh
from nlink.studies.drawing import Uniform

Array = np.ndarray
HOME = (0.0, -math.pi / 4, 0.0, -3 * math.pi / 4, 0.0, math.pi / 2, math.pi / 4)
RATE, GAIN = 1.5, 20.0
"""rad/s at an action of 1, and how fast the rates follow, 1/s."""
PUCK, HAND, TABLE = 0.06, 0.04, 0.12
"""Radii of the puck and of the hand that touches it, m, and below which height it does."""
STIFFNESS, DAMPING = 4000.0, 40.0
"""Of the contact between hand and puck, N/m and N s/m."""
BARS = (0.4, 1.0, 0.8, 1.0)
"""Crank, coupler, rocker and ground of the four-bar, m."""


def _driven(robot: Robot, q: Any, qd: Any, action: Any) -> Any:
    """Joint forces by which an arm's rates follow an action; what is behind its joints is free."""
    count = len(action)
    wanted = np.zeros(robot.n, dtype=object)
    wanted[:count] = [GAIN * (RATE * a - v) for a, v in zip(action, qd, strict=False)]
    tau = robot.inverse_dynamics(q, qd, wanted)
    return np.array([*tau[:count], *[0.0] * (robot.n - count)], dtype=object)


def panda_reach() -> dict[str, Any]:
    """A Panda whose hand is to come to a point, which is drawn for each episode, and to stay."""
    robot = Robot(load_description("panda"))

    def observation(t: Any, q: Any, qd: Any, action: Any, p: Any) -> Any:
        hand = robot.pose(q)[:3, 3]
        return [*q, *(0.3 * x for x in qd), *hand, *(p - hand)]

    def reward(t: Any, q: Any, qd: Any, action: Any, p: Any) -> Any:
        apart = p - robot.pose(q)[:3, 3]
        square = apart @ apart
        return exp(-100.0 * square) - sqrt(square + 1e-8) - 1e-2 * (action @ action)

    return {"robot": robot, "observation": observation, "reward": reward,
            "forces": lambda t, q, qd, action: _driven(robot, q, qd, action),
            "vary": {"p": Uniform([0.3, -0.4, 0.2], [0.6, 0.4, 0.7])}, "step": 0.004,
            "frame_skip": 5, "q": Uniform(np.subtract(HOME, 0.2), np.add(HOME, 0.2))}


def panda_with_puck() -> Description:
    """A Panda, and a puck of 0.5 kg that slides on a table before it."""
    panda = load_description("panda")
    n, light = len(panda.joints), ((1e-3, 0, 0), (0, 1e-3, 0), (0, 0, 1e-3))
    slide = Friction(viscous=0.5, coulomb=0.5)
    return replace(
        panda, name="panda_with_puck", home=(*HOME, 0.5, 0.0),
        links=(*panda.links, Link("slide", 0.01, inertia=light), Link("puck", 0.5, inertia=light)),
        joints=(*panda.joints,
                Joint("puck_x", Prismatic((1, 0, 0)), 0, Mount(Pose(origin=(0.0, 0.0, 0.03))),
                      friction=slide, actuated=False),
                Joint("puck_y", Prismatic((0, 1, 0)), n + 1, Mount(), friction=slide,
                      actuated=False)))


def panda_push() -> dict[str, Any]:
    """A Panda whose hand is to push a puck on a table to a place drawn for each episode."""
    robot = Robot(panda_with_puck())
    arm = robot.n - 2

    def forces(t: Any, q: Any, qd: Any, action: Any) -> Any:
        # a spring and a damper between hand and puck, level, where the hand is low
        hand = robot.pose(q, "flange")[:3, 3]
        lines = robot.jacobian(q, "flange")[3:5]
        apart, rate = q[arm:] - hand[:2], qd[arm:] - lines @ qd
        distance = sqrt(apart @ apart + 1e-8)
        along = apart / distance
        depth = maximum(PUCK + HAND - distance, 0.0)
        low = 0.5 * (1.0 + tanh((TABLE - hand[2]) / 0.005))
        press = low * maximum(STIFFNESS * depth - DAMPING * (along @ rate) * tanh(
            depth / 0.002), 0.0)
        back = lines.T @ (press * along)
        tau = _driven(robot, q, qd, action)
        return [*(a - b for a, b in zip(tau[:arm], back[:arm], strict=True)), *(press * along)]

    def observation(t: Any, q: Any, qd: Any, action: Any, p: Any) -> Any:
        hand = robot.pose(q, "flange")[:3, 3]
        return [*q, *(0.3 * x for x in qd), *hand, *(q[arm:] - hand[:2]), *(p - q[arm:])]

    def reward(t: Any, q: Any, qd: Any, action: Any, p: Any) -> Any:
        hand = robot.pose(q, "flange")[:3, 3]
        left, before = p - q[arm:], q[arm:] - hand[:2]
        low = maximum(hand[2] - 0.8 * TABLE, 0.0)
        return 2.0 * exp(-50.0 * (left @ left)) - sqrt(left @ left + 1e-8) - 0.2 * sqrt(
            before @ before + low * low + 1e-8) - 5e-3 * (action @ action)

    start = np.array([*HOME, 0.5, 0.0])
    spread = np.array([*[0.05] * arm, 0.05, 0.1])
    return {"robot": robot, "observation": observation, "reward": reward, "forces": forces,
            "action_size": arm, "vary": {"p": Uniform([0.45, -0.25], [0.7, 0.25])},
            "step": 0.002, "frame_skip": 10, "q": Uniform(start - spread, start + spread)}


def closed_four_bar(rng: np.random.Generator, count: int) -> Array:
    """Closed configurations (count, 3) of the four-bar, its crank anywhere: the triangle of
    coupler, rocker, and the line between their pins [law of cosines]."""
    crank, coupler, rocker, ground = BARS
    angle = rng.uniform(-math.pi, math.pi, count)
    pin = crank * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    line = [ground, 0.0] - pin
    length, toward = np.linalg.norm(line, axis=1), np.arctan2(line[:, 1], line[:, 0])
    opening = np.arccos((coupler**2 + length**2 - rocker**2) / (2 * coupler * length))
    end = pin + coupler * np.stack([np.cos(toward + opening), np.sin(toward + opening)], axis=1)
    return np.stack([angle, toward + opening - angle,
                     np.arctan2(end[:, 1], end[:, 0] - ground)], axis=1)


def four_bar_crank() -> dict[str, Any]:
    """A crank that is to turn evenly, at a speed drawn for each episode, whatever hangs on it."""
    def observation(t: Any, q: Any, qd: Any, action: Any, p: Any) -> Any:
        return [f(x) for x in q for f in (sin, cos)] + [*(0.2 * x for x in qd), 0.2 * p[0]]

    def reward(t: Any, q: Any, qd: Any, action: Any, p: Any) -> Any:
        off = qd[0] - p[0]
        return exp(-off * off) - 1e-3 * (action @ action)

    def forces(t: Any, q: Any, qd: Any, action: Any) -> Any:
        return [20.0 * action[0], 0.0, 0.0]

    return {"robot": Robot(load_description("four_bar")), "observation": observation,
            "reward": reward, "forces": forces, "action_size": 1,
            "vary": {"p": Uniform([2.0], [6.0])}, "step": 0.005, "frame_skip": 4,
            "method": "rk4", "q": closed_four_bar}
