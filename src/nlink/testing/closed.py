"""Random mechanisms with loops: arms that hold a common object, in a state that is closed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nlink.model.constraints import CONSTRAINTS, Constraint, Distance, Rows, Screw
from nlink.model.description import Description, Frame, Joint, Loop
from nlink.model.joints import Free, Prismatic, Revolute
from nlink.model.pose import DH, Mount, Pose
from nlink.robot import Robot
from nlink.testing.mechanisms import _link, _rotation, _vector

Span = tuple[int, int]
QUARTER = math.pi / 2


def random_arms(seed: int, arms: int | None = None, joints: int | Span = (6, 8),
                types: Sequence[str] = tuple(CONSTRAINTS)) -> Description:
    """Arms on one free object, closed at `home`, that depend on the arguments alone.

    `arms` of them (2 to 4 if None), each a DH chain of `joints` (a number, or the least and the
    most), hold the object by loops of the given `types`, names as in files, at random. Which end
    of a loop is `of` and which is `on` is a matter of chance, too.

    >>> random_arms(3, arms=2) == random_arms(3, arms=2)
    True
    >>> [loop.of.name for loop in random_arms(3, arms=2).loops]
    ['grasp1.of', 'grasp2.of']
    """
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 5)) if arms is None else arms
    if count < 1:
        raise ValueError(f"arms: {count}, expected at least 1")
    unknown = sorted(set(types) - set(CONSTRAINTS))
    if unknown or not types:
        raise ValueError(f"types: {tuple(types)}, expected some of {', '.join(CONSTRAINTS)}")
    least, most = (joints, joints) if isinstance(joints, int) else joints
    links, carried, hands = [], [], []
    for k in range(1, count + 1):
        length = int(rng.integers(least, most + 1))
        for i in range(length):
            links.append(_link(rng, f"arm{k}_link{i + 1}"))
            carried.append(_arm_joint(rng, f"arm{k}_joint{i + 1}", len(links) - 1 if i else 0, i))
        hands.append(len(links))
    links.append(_link(rng, "object"))
    carried.append(Joint("object", Free(), 0, Mount(), actuated=False))
    gravity = _vector(rng.normal(size=3) * 5)
    tree = Description(f"arms({seed}, {count})", tuple(links), tuple(carried), (), gravity,
                       physical="error")
    return _closed(rng, tree, [(hand, len(links)) for hand in hands], types)


def random_closed_robot(seed: int, **options: object) -> Robot:
    """The robot of `random_arms`.

    >>> random_closed_robot(3, arms=2, joints=6)
    <Robot arms(3, 2): 13 joints, 18 rates, fixed base, 2 loops>
    """
    return Robot(random_arms(seed, **options))  # type: ignore[arg-type]


def close_at_random(seed: int, tree: Description, pairs: Sequence[tuple[int, int]],
                    types: Sequence[str] = tuple(CONSTRAINTS)) -> Description:
    """A tree with loops between pairs of its links (0 is the base), closed at a random `home`.

    >>> from nlink.testing import random_description
    >>> closed = close_at_random(1, random_description(1, 5), [(5, 0)], ["revolute"])
    >>> len(closed.loops), len(closed.home) == Robot(closed).nq
    (1, True)
    """
    return _closed(np.random.default_rng(seed), tree, pairs, types)


def random_constraint(rng: np.random.Generator, name: str) -> Constraint:
    """A constraint of a type, its numbers at random."""
    if name == "helical":
        return Screw(float(rng.uniform(0.05, 0.5) * rng.choice([-1.0, 1.0])))
    if name == "distance":
        return Distance(float(rng.uniform(0.2, 0.8)))
    if name == "matrix":
        Q = rng.normal(size=(int(rng.integers(1, 5)), 6))
        Q[0, :3] = 0.0  # one row that holds a place
        return Rows(tuple(map(tuple, Q.tolist())))
    return CONSTRAINTS[name]()


def _arm_joint(rng: np.random.Generator, name: str, parent: int, number: int) -> Joint:
    kind = Prismatic() if number and rng.random() < 0.15 else Revolute()
    a, b = rng.uniform(-0.5, 0.5, size=2).tolist()
    alpha = float(rng.choice([0.0, QUARTER, -QUARTER, rng.uniform(-math.pi, math.pi)]))
    row = DH(a, b, alpha, float(rng.uniform(-math.pi, math.pi)))
    if number:
        return Joint(name, kind, parent, row)
    stand = Pose.of(_rotation(rng), rng.normal(size=3))
    return Joint(name, kind, parent, Mount(stand, row.after))


def _closed(rng: np.random.Generator, tree: Description, pairs: Sequence[tuple[int, int]],
            types: Sequence[str]) -> Description:
    robot = Robot(tree)
    q = robot.random_state(rng)[0]
    loops = []
    for k, (one, other) in enumerate(pairs, 1):
        if rng.random() < 0.5:
            one, other = other, one
        constraint = random_constraint(rng, str(rng.choice(list(types))))
        of, on = (_place(robot, q, link) for link in (one, other))
        held = Pose.of(_rotation(rng), rng.normal(size=3) * 0.2)
        # of @ held = on @ carries @ allowed, so that the loop is closed with its joint displaced
        carries = on.inverse() @ of @ held @ _allowed(rng, constraint).inverse()
        loops.append(Loop(f"grasp{k}", constraint, Frame(f"grasp{k}.of", one, held),
                          Frame(f"grasp{k}.on", other, carries)))
    return replace(tree, loops=tuple(loops), home=tuple(q.tolist()))


def _place(robot: Robot, q: np.ndarray, link: int) -> Pose:
    T = robot.pose(q, link, engine="python")
    return Pose.of(T[:3, :3], T[:3, 3])


def _allowed(rng: np.random.Generator, constraint: Constraint) -> Pose:
    """A displacement that a constraint lets happen."""
    angle, slide = float(rng.uniform(-1.5, 1.5)), float(rng.normal() * 0.3)
    match constraint.name:
        case "revolute":
            return Pose.turn("z", angle)
        case "prismatic":
            return Pose.shift(z=slide)
        case "cylindrical":
            return Pose.shift(z=slide) @ Pose.turn("z", angle)
        case "helical":
            assert isinstance(constraint, Screw)
            return Pose.shift(z=angle * constraint.pitch) @ Pose.turn("z", angle)
        case "universal":
            return Pose.turn("z", angle) @ Pose.turn("x", slide)
        case "planar":
            return Pose.shift(x=slide, y=float(rng.normal() * 0.3)) @ Pose.turn("z", angle)
        case "spherical" | "soft_finger":
            return Pose.of(_rotation(rng), np.zeros(3))
        case "distance":
            assert isinstance(constraint, Distance)
            x = rng.normal(size=3)
            return Pose.of(_rotation(rng), x * constraint.length / np.linalg.norm(x))
        case "matrix":
            assert isinstance(constraint, Rows)
            held = np.array([row[3:] for row in constraint.matrix if not any(row[:3])])
            x = rng.normal(size=3) * 0.3
            return Pose.of(_rotation(rng), x - np.linalg.pinv(held) @ held @ x)
        case _:
            return Pose()
