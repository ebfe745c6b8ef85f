"""Free bodies with shapes that touch, for tests of contact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import nlink
from nlink.model.joints import Free

POINT = 1e-13
"""The radius of a point."""


def body(mass: float, moments: Sequence[float], shape, world: nlink.World | None = None,
         gravity: Sequence[float] = (0, 0, -9.81)) -> nlink.Robot:
    """A free body whose mass centre is its frame's origin."""
    link = nlink.Link("body", mass, (0, 0, 0), tuple(map(tuple, np.diag(moments).tolist())))
    description = nlink.Description("body", (link,), (nlink.Joint("free", Free()),),
                                    gravity=tuple(gravity), physical="ignore")
    return nlink.Robot(description).with_contacts({"body": shape}, world)


def ball(radius: float, mass: float = 1.0, world: nlink.World | None = None, **more) -> nlink.Robot:
    """A homogeneous ball: 0.4 m r^2."""
    return body(mass, [0.4 * mass * radius**2] * 3, nlink.Sphere(radius), world, **more)


def table(edges: Sequence[float], mass: float = 1.0, world: nlink.World | None = None,
          ) -> nlink.Robot:
    """A homogeneous box that touches with the four corners of its lower side."""
    a, b, c = np.square(edges)
    feet = [nlink.Sphere(POINT, pose=nlink.Pose.of(np.eye(3), [
        x * edges[0] / 2, y * edges[1] / 2, -edges[2] / 2])) for x in (-1, 1) for y in (-1, 1)]
    return body(mass, mass / 12 * np.array([b + c, a + c, a + b]), feet, world)


def turn(vector: Sequence[float]) -> np.ndarray:
    """The quaternion of a rotation vector."""
    return np.asarray(nlink.quaternion_from_matrix(nlink.exp3(vector)))
