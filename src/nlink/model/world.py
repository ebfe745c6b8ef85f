"""What robots stand on: planes, and what they are made of; and the shapes of links that touch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from nlink.model.shapes import SolidShape, check_friction
from nlink.scalars.arrays import single

PlaneNumbers = tuple[tuple[float, float, float], float]
GROUND: PlaneNumbers = ((0.0, 0.0, 1.0), 0.0)


@dataclass(frozen=True)
class World:
    """What stands still around a robot, and what it is made of.

    `planes` are pairs (normal, offset): points with normal . x >= offset are outside. Without any,
    there is the ground, z = 0. `friction` and `restitution` are those of every contact for which
    neither shape has its own; of two shapes that have their own, the larger number counts.

    >>> import nlink
    >>> nlink.World(friction=0.5).planes
    (((0.0, 0.0, 1.0), 0.0),)
    """

    planes: tuple[PlaneNumbers, ...] | None = None
    friction: float = 0.8
    restitution: float = 0.0

    def __post_init__(self) -> None:
        planes = (GROUND,) if self.planes is None else tuple(
            _plane(k, given) for k, given in enumerate(_listed("planes", self.planes)))
        object.__setattr__(self, "planes", planes)
        for name in ("friction", "restitution"):
            if getattr(self, name) is None:
                raise ValueError(f"world: {name} None, expected a number")
        check_friction("world", self.friction, self.restitution)


def _listed(name: str, given: object) -> list[object]:
    if not isinstance(given, Iterable):
        raise TypeError(f"world: {name} is a {type(given).__name__}, expected a list")
    return list(given)


def _plane(number: int, given: object) -> PlaneNumbers:
    who = f"world: plane {number}"
    try:
        normal, offset = given  # type: ignore[misc]
    except (TypeError, ValueError):
        raise ValueError(f"{who}: {given!r:.80}, expected (normal, offset)") from None
    x, y, z = single(f"{who}: normal", normal, (3,)).tolist()
    size = math.hypot(x, y, z)
    if abs(size - 1.0) < 1e-15:  # a normal that was made so keeps its digits
        size = 1.0
    if not size:
        raise ValueError(f"{who}: normal {normal!r:.80}, expected one that is not zero")
    height = float(single(f"{who}: offset", offset, ()))
    # the point set stays: normal . x >= offset, both divided by the normal's length
    return (x / size, y / size, z / size), height / size


@dataclass(frozen=True, slots=True)
class Collision:
    """A shape of a link, or of a named frame, that touches others."""

    link: str
    """The name of the link or frame."""
    shape: SolidShape
    name: str = ""
    """What its contacts are called; the link's name if empty."""
