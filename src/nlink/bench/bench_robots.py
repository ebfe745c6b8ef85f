"""The robots of `nlink bench`, by name."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np

from nlink.formats.load import load_description
from nlink.model.description import Description, Joint, Link
from nlink.model.pose import DH
from nlink.robot import Robot, load

HUMANOID, QUADRUPED = "talos_floating", "solo12_floating"
FILES = {HUMANOID: "talos_reduced.urdf", QUADRUPED: "solo12.urdf"}
"""Of pip's example-robot-data."""
RANDOM = "random"


def bench_robot(name: str) -> Robot | None:
    """A bundled robot, "random7" and the like (see `random_arm`), or one of `FILES` with a floating
    base; None if its file is not installed."""
    if name in FILES:
        path = example_robot(FILES[name])
        return None if path is None else Robot(replace(
            load_description(path, physical="ignore", floating=True), name=name))
    if name.startswith(RANDOM):
        return random_arm(int(name.removeprefix(RANDOM)))
    return load(name, physical="ignore")


def example_robot(name: str) -> Path | None:
    """A file of pip's example-robot-data, or None if it is not installed."""
    try:
        found = metadata.files("example-robot-data") or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in found if f.name == name), None)


def random_arm(n: int, seed: int = 0) -> Robot:
    """A serial arm of revolute joints with random twists, lengths and offsets."""
    rng = np.random.default_rng(seed)
    links, joints = [], []
    for k in range(n):
        size = rng.uniform(0.05, 0.3, 3)
        mass = rng.uniform(0.5, 3.0)
        moments = np.diag(mass / 12 * (size @ size - size**2))
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        links.append(Link(f"link{k + 1}", mass, tuple(rng.uniform(-0.1, 0.1, 3)),
                          tuple(map(tuple, turn @ moments @ turn.T))))
        a, b = rng.uniform(-0.3, 0.3, 2)
        joints.append(Joint(f"joint{k + 1}", parent=k, placement=DH(
            a, b, rng.uniform(-np.pi, np.pi), 0.0)))
    return Robot(Description(f"random{n}", tuple(links), tuple(joints)))
