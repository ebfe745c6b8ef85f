"""Random mechanisms: every shape a description can have, and the shapes that break programs.

Placements mix general rotations with exact quarter turns, with parallel axes, and with quarter
turns rounded to 1.5708 as files print them, which makes axes nearly parallel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.description import Description, Frame, Friction, Joint, Link
from nlink.model.joints import JOINT_TYPES, Fixed, Free, JointType
from nlink.model.pose import Mount, Pose
from nlink.robot import Robot

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

MOVING = ("revolute", "prismatic")
EVERY = tuple(name for name in JOINT_TYPES if name != "fixed")


def random_description(seed: int, bodies: int | None = None, tree: bool = True,
                       types: Sequence[str] = MOVING, fixed: bool = True,
                       friction: bool = True, armature: bool = True) -> Description:
    """A valid mechanism that depends on the arguments alone.

    `bodies` links (1 to 8 if None) hang from one another in a chain, or in a tree with
    branches; joints are of the given `types` (names as in files), with `fixed` some of them are
    fixed (never all).

    >>> random_description(1, bodies=3) == random_description(1, bodies=3)
    True
    """
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9)) if bodies is None else bodies
    if count < 1:
        raise ValueError(f"bodies: {count}, expected at least 1")
    unknown = sorted(set(types) - set(JOINT_TYPES))
    if unknown or not set(types) - {"fixed"}:
        raise ValueError(f"types: {tuple(types)}, expected some of {', '.join(JOINT_TYPES)}, "
                         "one of them moving")
    links, joints = [], []
    moving = int(rng.integers(count))  # at least this joint is not fixed
    for i in range(count):
        is_fixed = fixed and i != moving and rng.random() < 0.15
        kind: JointType = Fixed() if is_fixed else _joint_type(rng, types)
        rotor = armature and kind.nv > 0
        links.append(_link(rng, f"link{i + 1}"))
        joints.append(Joint(
            name=f"joint{i + 1}", type=kind,
            parent=int(rng.integers(0, i + 1)) if tree and rng.random() < 0.5 else i,
            placement=Mount(_pose(rng), _pose(rng) if rng.random() < 0.5 else Pose()),
            friction=Friction(*_sometimes(rng, 2)) if friction and kind.nv else Friction(),
            armature=_sometimes(rng, 1)[0] * (not isinstance(kind, Free)) if rotor else 0.0))
    gravity = _vector(rng.normal(size=3) * 5) if rng.random() < 0.7 else (0.0, 0.0, -9.81)
    frames = tuple(Frame(f"frame{k}", int(rng.integers(0, count + 1)), _pose(rng))
                   for k in range(int(rng.integers(0, 3))))
    return Description(f"random({seed}, {count})", tuple(links), tuple(joints), frames,
                       gravity, physical="error")


def random_robot(seed: int, bodies: int | None = None, **options: Any) -> Robot:
    """The robot of `random_description`.

    >>> random_robot(7, bodies=4, fixed=False)
    <Robot random(7, 4): 4 joints, 4 rates, fixed base>
    """
    return Robot(random_description(seed, bodies, **options))


def robots(max_bodies: int = 8, **options: Any) -> SearchStrategy[Robot]:
    """A Hypothesis strategy of robots; a failing one shrinks to few bodies and a small seed.

    `options` are those of `random_description`; without them, joints are of every type, and trees
    and chains alternate.

    >>> import nlink.testing
    >>> strategy = nlink.testing.robots()
    >>> strategy.validate()
    """
    try:
        from hypothesis import strategies
    except ImportError:
        raise ImportError(
            "robots() needs Hypothesis, expected: pip install nlink[test]") from None
    options = {"types": EVERY} | options
    chosen = {"tree": strategies.booleans()} | {k: strategies.just(v) for k, v in options.items()}
    return strategies.builds(
        random_robot, seed=strategies.integers(0, 2**32 - 1),
        bodies=strategies.integers(1, max_bodies), **chosen)


def _joint_type(rng: np.random.Generator, types: Sequence[str]) -> JointType:
    moving = [JOINT_TYPES[name] for name in types if name != "fixed"]
    kind = moving[int(rng.integers(len(moving)))]
    parameters: dict[str, Any] = {}
    if "axis" in (names := {field.name for field in fields(kind)}):  # type: ignore[arg-type]
        general = rng.normal(size=3)
        straight = np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
        parameters["axis"] = _vector(straight if rng.random() < 0.5 else general)
    if "pitch" in names:
        parameters["pitch"] = float(rng.normal())
    return kind(**parameters)


def _link(rng: np.random.Generator, name: str) -> Link:
    """A body that exists: its inertia is that of five point masses about their centre."""
    masses = rng.uniform(0.1, 1.0, size=5)
    points = rng.normal(size=(5, 3)) * 0.2
    points -= masses @ points / masses.sum()
    second = points.T @ (masses[:, None] * points)
    second = (second + second.T) / 2
    inertia = np.trace(second) * np.eye(3) - second
    com = rng.normal(size=3) * 0.3 if rng.random() < 0.8 else np.zeros(3)
    return Link(name, float(masses.sum()), _vector(com), tuple(map(_vector, inertia)))  # type: ignore[arg-type]


def _pose(rng: np.random.Generator) -> Pose:
    return Pose.of(_rotation(rng), _offset(rng))


def _rotation(rng: np.random.Generator) -> np.ndarray:
    """General, or a product of turns that files write: none, exact or rounded quarters."""
    if rng.random() < 0.4:
        angles = rng.uniform(-math.pi, math.pi, size=3)
    else:
        written = (0.0, 0.0, math.pi / 2, -math.pi / 2, math.pi, 1.5708, -1.5708, 3.1416)
        angles = rng.choice(written, size=3)
    roll, pitch, yaw = angles.tolist()
    return (Pose.turn("z", yaw) @ Pose.turn("y", pitch) @ Pose.turn("x", roll)).R


def _offset(rng: np.random.Generator) -> np.ndarray:
    """None, along one axis, or general."""
    shape = (np.zeros(3), np.eye(3)[rng.integers(3)], np.ones(3))[rng.integers(3)]
    return rng.normal(size=3) * 0.5 * shape


def _sometimes(rng: np.random.Generator, count: int) -> tuple[float, ...]:
    return tuple((rng.uniform(0.01, 0.3, count) * (rng.random(count) < 0.5)).tolist())


def _vector(values: np.ndarray) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return x, y, z
