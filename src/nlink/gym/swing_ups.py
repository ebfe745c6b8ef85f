"""Pendulums that hang and are to stand: a double pendulum, and a pole on a cart."""

from __future__ import annotations

import math
from typing import Any

from nlink.formats.load import load_description
from nlink.model.description import Description, Joint, Limits, Link
from nlink.model.joints import Prismatic, Revolute
from nlink.model.pose import Mount
from nlink.robot import Robot
from nlink.scalars.functions import cos, less, sin
from nlink.studies.drawing import Uniform

TORQUE = (12.0, 8.0)
"""Nm; 29.4 and 9.8 would hold the rods level."""
PUSH, TRACK = 15.0, 2.4
"""N on the cart, and how far it may go, m."""
POLE = 0.6


def double_pendulum_swing_up() -> dict[str, Any]:
    """Two rods of 1 m, whose motors cannot lift them: they must be swung up, and kept there."""
    def observation(t: Any, q: Any, qd: Any) -> Any:
        angles = q[0], q[0] + q[1]
        return [f(x) for x in angles for f in (sin, cos)] + [0.1 * x for x in qd]

    def reward(t: Any, q: Any, qd: Any, action: Any) -> Any:
        height = (2.0 + sin(q[0]) + sin(q[0] + q[1])) / 4.0
        return height - 2e-3 * (qd @ qd) - 1e-3 * (action @ action)

    def forces(t: Any, q: Any, qd: Any, action: Any) -> Any:
        return [limit * x for limit, x in zip(TORQUE, action, strict=True)]

    return {"robot": Robot(load_description("double_pendulum")), "observation": observation,
            "reward": reward, "forces": forces, "step": 0.01, "frame_skip": 4,
            "q": Uniform([-math.pi / 2 - 0.3, -0.3], [-math.pi / 2 + 0.3, 0.3]),
            "qd": Uniform([-0.2, -0.2], [0.2, 0.2])}


def cart_pole() -> Description:
    """A cart of 1 kg on a track along x, and a pole of 0.2 kg that hangs at q = (0, 0)."""
    inertia = 0.2 * POLE**2 / 12
    return Description(
        "cart_pole",
        (Link("cart", 1.0, inertia=((1e-3, 0, 0), (0, 1e-3, 0), (0, 0, 1e-3))),
         Link("pole", 0.2, com=(0.0, 0.0, -POLE / 2),
              inertia=((inertia, 0, 0), (0, inertia, 0), (0, 0, 1e-4)))),
        (Joint("track", Prismatic((1, 0, 0)), 0, Mount(), limits=Limits(
            position=(-TRACK, TRACK), effort=PUSH)),
         Joint("hinge", Revolute((0, 1, 0)), 1, Mount(), actuated=False)))


def cart_pole_swing_up() -> dict[str, Any]:
    """A pole that hangs from a cart, which alone is driven."""
    def observation(t: Any, q: Any, qd: Any) -> Any:
        return [q[0], sin(q[1]), -cos(q[1]), 0.3 * qd[0], 0.1 * qd[1]]

    def reward(t: Any, q: Any, qd: Any, action: Any) -> Any:
        return 0.5 - 0.5 * cos(q[1]) - 0.02 * q[0] * q[0] - 1e-3 * qd[1] * qd[1] - (
            1e-3 * (action @ action))

    def forces(t: Any, q: Any, qd: Any, action: Any) -> Any:
        return [PUSH * action[0], 0.0]

    def termination(t: Any, q: Any) -> Any:
        return less(TRACK * TRACK, q[0] * q[0])

    return {"robot": Robot(cart_pole()), "observation": observation, "reward": reward,
            "forces": forces, "termination": termination, "action_size": 1, "step": 0.01,
            "frame_skip": 2, "q": Uniform([-0.5, -0.3], [0.5, 0.3]),
            "qd": Uniform([-0.1, -0.1], [0.1, 0.1])}
