"""The ground that robots stand on: planes, boxes, terrain; and the shapes of links on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nlink.model.shapes import Box, SolidShape, check_friction
from nlink.scalars.arrays import single

PlaneNumbers = tuple[tuple[float, float, float], float]
GROUND: PlaneNumbers = ((0.0, 0.0, 1.0), 0.0)


MOST_HEIGHTS = 1_000_000
"""Numbers of a height field."""


@dataclass(frozen=True, repr=False)
class HeightField:
    """Terrain: heights on a grid, bilinear in between. `heights[i][j]` is the height at the i-th of
    evenly spaced places from x[0] to x[1], and the j-th of those from y[0] to y[1].

    Outside of the grid the heights are those of its edge. `friction` and `restitution` are its
    own, or those of the world if None.

    >>> import nlink
    >>> nlink.HeightField([[0.0, 0.0], [0.1, 0.1]], x=(0.0, 2.0), y=(-1.0, 1.0))
    HeightField(2 x 2 heights from 0 to 0.1, x=(0.0, 2.0), y=(-1.0, 1.0))
    """

    heights: tuple[tuple[float, ...], ...]
    x: tuple[float, float]
    y: tuple[float, float]
    friction: float | None = None
    restitution: float | None = None

    def __init__(self, heights: ArrayLike, x: Sequence[float], y: Sequence[float],
                 friction: float | None = None, restitution: float | None = None) -> None:
        who = "height field"
        rows = single(f"{who}: heights", heights, (None, None))
        if min(rows.shape) < 2 or rows.size > MOST_HEIGHTS:
            raise ValueError(f"{who}: heights of shape {rows.shape}, expected at least (2, 2) and "
                             f"at most {MOST_HEIGHTS} numbers")
        object.__setattr__(self, "heights", tuple(map(tuple, rows.tolist())))
        for name, given in (("x", x), ("y", y)):
            low, high = single(f"{who}: {name}", given, (2,)).tolist()
            if not low < high:
                raise ValueError(f"{who}: {name} {given!r:.80}, expected (low, high), low < high")
            object.__setattr__(self, name, (low, high))
        check_friction(who, friction, restitution)
        object.__setattr__(self, "friction", friction)
        object.__setattr__(self, "restitution", restitution)

    def __repr__(self) -> str:
        rows = np.array(self.heights)
        return (f"HeightField({rows.shape[0]} x {rows.shape[1]} heights from {rows.min():g} to "
                f"{rows.max():g}, x={self.x}, y={self.y})")


@dataclass(frozen=True)
class World:
    """The fixed surroundings of a robot: planes, boxes and terrain, with friction and restitution.

    `planes` are pairs (normal, offset): points with normal . x >= offset are outside.
    `height_field` is ground that is not even, a `nlink.HeightField`, `boxes` are shapes
    `nlink.Box` whose poses are in the world. Without planes and height field there is the ground,
    z = 0; `planes=()` is none. `friction` and `restitution` are those of every contact for which
    neither shape has its own; of two shapes that have their own, the larger number counts.

    >>> import nlink
    >>> nlink.World(friction=0.5).planes
    (((0.0, 0.0, 1.0), 0.0),)
    """

    planes: tuple[PlaneNumbers, ...] | None = None
    friction: float = 0.8
    restitution: float = 0.0
    height_field: HeightField | None = None
    boxes: tuple[Box, ...] = ()

    def __post_init__(self) -> None:
        default = (GROUND,) if self.height_field is None else ()
        planes = default if self.planes is None else tuple(
            _plane(k, given) for k, given in enumerate(_listed("planes", self.planes)))
        object.__setattr__(self, "planes", planes)
        if not isinstance(self.height_field, HeightField | None):
            raise TypeError(f"world: height_field is a {type(self.height_field).__name__}, "
                            "expected a nlink.HeightField")
        object.__setattr__(self, "boxes", tuple(_listed("boxes", self.boxes)))
        for k, box in enumerate(self.boxes):
            if not isinstance(box, Box):
                raise TypeError(f"world: box {k}: a {type(box).__name__}, expected a nlink.Box "
                                "with a pose in the world")
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
    """The name of its contacts; the link's name if empty."""
