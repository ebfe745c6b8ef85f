"""Numbers no real mechanism has, and numbers that look like the wrong unit.

Laws hold for any numbers; these findings are about what the numbers say. An "error" is
impossible (a negative moment of inertia, an indefinite mass matrix), a "warning" is unlikely:
its thresholds are wider than every bundled robot by more than a factor of ten and narrower than
the factors 1e3 and 1e6 that a slip of units makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nlink.engines.engines import Engine
from nlink.model.description import Description
from nlink.robot import Robot
from nlink.testing.laws import FEW
from nlink.testing.samples import EPS, Samples, reach, smallest_eigenvalue

DENSITY = (1e-3, 1e5)
"""kg per cubic metre of a mean link's share of the reach; arms have 1 to 1500, humanoids more,
their mass being on several branches."""
GYRATION = (2e-4, 3.0)
"""Radius of gyration of a link, in reaches of the robot."""
GRAVITY = 1e3
"""m/s^2; in millimetres the Earth's is 9810."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence about the robot's numbers.

    >>> import nlink, nlink.testing
    >>> broken = nlink.load("puma_saha", physical="ignore")
    >>> nlink.testing.findings(broken, nlink.testing.samples(broken))[0].level
    'error'
    """

    level: Literal["error", "warning"]
    message: str


def findings(robot: Robot, x: Samples, engine: Engine | None = None) -> tuple[Finding, ...]:
    """What is impossible or unlikely about a robot; empty for a plausible one.

    >>> import nlink, nlink.testing
    >>> robot = nlink.load("puma560")
    >>> nlink.testing.findings(robot, nlink.testing.samples(robot))
    ()
    """
    d = robot.description
    return (*_bodies(d), *_mass_matrix(robot, x, engine), *_units(d))


def _bodies(description: Description) -> Iterator[Finding]:
    """The description's own complaint, which it raises when asked to be strict."""
    if description.objection:
        yield Finding("error", description.objection.removeprefix("not a physical mechanism: "))


def _mass_matrix(robot: Robot, x: Samples, engine: Engine | None) -> Iterator[Finding]:
    if not 0 < robot.n <= FEW:
        return
    smallest = smallest_eigenvalue(robot, x, engine)
    rounding = 10 * robot.n * EPS
    indefinite, singular = int((smallest < -rounding).sum()), int((smallest <= rounding).sum())
    if indefinite:
        yield Finding("error", f"the mass matrix is indefinite in {indefinite} of "
                               f"{len(smallest)} states")
    elif singular:
        yield Finding("error", f"the mass matrix is singular in {singular} of "
                               f"{len(smallest)} states")


def _units(description: Description) -> Iterator[Finding]:
    size, mass = reach(description), sum(link.mass for link in description.links)
    strength = float(np.linalg.norm(description.gravity))
    if strength > GRAVITY:
        yield Finding("warning", f"gravity is {strength:.4g} m/s^2: is it in mm/s^2?")
    if size == 0:
        return
    density = mass * _depth(description) ** 2 / size**3
    if density > DENSITY[1]:
        yield Finding("warning", f"{mass:.4g} kg is much for a reach of {size:.4g} m: are the "
                                 "masses in grams, or the lengths too small by 1000?")
    if 0 < density < DENSITY[0]:
        yield Finding("warning", f"{mass:.4g} kg is little for a reach of {size:.4g} m: are the "
                                 "lengths in millimetres?")
    yield from _gyration(description, size)


def _depth(description: Description) -> int:
    """Joints that move, on the branch with most of them."""
    depths = [0]
    for joint in description.joints:
        depths.append(depths[joint.parent] + (joint.type.nv > 0))
    return max(1, *depths)


def _gyration(description: Description, size: float) -> Iterator[Finding]:
    """Links whose radius of gyration does not fit the robot, those of one kind in one sentence."""
    low, high = GYRATION
    outliers: dict[str, list[str]] = {"small": [], "large": []}
    for link in description.links:
        largest = np.abs(np.linalg.eigvalsh(np.array(link.inertia, dtype=float))).max()
        if link.mass > 0 and largest > 0:
            radius = math.sqrt(largest / link.mass)
            if not low * size <= radius <= high * size:
                outliers["large" if radius > size else "small"].append(link.name)
    for kind, names in outliers.items():
        if names:
            yield Finding("warning", f"the inertia is much too {kind} for the mass and a reach of "
                                     f"{size:.4g} m, expected kg m^2: {', '.join(names)}")
