"""Robots made of several mechanisms, and bodies that robots push."""

from __future__ import annotations

from collections.abc import Mapping

from nlink.model.joining import free_body as free_body_description
from nlink.model.joining import joined, prefixed
from nlink.model.shapes import SolidShape
from nlink.model.world import World
from nlink.robot import Robot


def together(*robots: Robot | Mapping[str, Robot], name: str = "") -> Robot:
    """Several robots as one: their links, joints, frames, loops, gears and shapes on one base,
    with their coordinates and rates one after the other.

    Names must differ; a mapping puts its keys before them: `nlink.together({"left": arm,
    "right": arm})` has the links "left/link1" and so on. `robot.with_base(pose)` first says where
    each one stands. Gravity is that of all, and a world that one of them has is for all;
    `robot.with_contacts(..., pairs=[("hand", "crate")])` says which links touch each other.

    >>> import nlink
    >>> arm = nlink.load("planar3")
    >>> two = nlink.together({"left": arm, "right": arm.with_base(nlink.Pose(origin=(1, 0, 0)))})
    >>> two, two.q_names[2:4]
    (<Robot left, right: 6 joints, 6 rates, fixed base>, ('left/joint3', 'right/joint1'))
    """
    parts = []
    for given in robots:
        named = given.items() if isinstance(given, Mapping) else [("", given)]
        for prefix, robot in named:
            if not isinstance(robot, Robot):
                raise TypeError(f"together: a {type(robot).__name__}, expected robots, or robots "
                                "by the names that they get")
            parts.append(prefixed(robot.description, prefix) if prefix else robot.description)
    if not parts:
        raise ValueError("together: no robots, expected at least one")
    return Robot(joined(parts, name or ", ".join(part.name for part in parts)))


def free_body(name: str, mass: float, shape: SolidShape, world: World | None = None) -> Robot:
    """A homogeneous body that moves freely and touches the world: an object to push, carry or
    throw.

    Its coordinates are those of a free joint, the place (x, y, z) and a quaternion (w, x, y, z) of
    the frame in which the shape has its pose.

    >>> import nlink
    >>> crate = nlink.free_body("crate", 2.0, nlink.Box((0.3, 0.3, 0.2)))
    >>> crate.n, crate.mass_matrix(crate.neutral).diagonal().round(4)
    (6, array([0.0217, 0.0217, 0.03  , 2.    , 2.    , 2.    ]))
    """
    return Robot(free_body_description(name, mass, shape, world))
