"""The shapes that touch: what of a link, or of the world, is solid.

A shape is placed in the frame of its link by `pose`. `friction` and `restitution` are its own,
or those of the world if None (see `nlink.World`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.model.pose import Pose
from nlink.scalars.arrays import single


def _positive(who: str, name: str, value: float) -> None:
    if not (isinstance(value, int | float | np.number) and math.isfinite(value) and value > 0):
        raise ValueError(f"{who}: {name} {value!r:.80}, expected a finite number > 0")


def _check_round(who: str, shape: Capsule | Cylinder) -> None:
    """Refuse the sizes of what has a radius around an axis."""
    _positive(who, "radius", shape.radius)
    _positive(who, "length", shape.length)


def _check_three(who: str, shape: SolidShape, key: str, each: str) -> None:
    """Refuse the sizes of what has three along its axes, and keep them as numbers."""
    sizes = single(f"{who}: {key}", getattr(shape, key), (3,)).tolist()
    for size in sizes:
        _positive(who, each, size)
    object.__setattr__(shape, key, tuple(sizes))


def check_friction(who: str, friction: float | None, restitution: float | None) -> None:
    """Coefficients that a law of contact can have, or None."""
    if friction is not None and not (math.isfinite(friction) and friction >= 0):
        raise ValueError(f"{who}: friction {friction!r:.80}, expected a finite number >= 0")
    if restitution is not None and not 0 <= restitution <= 1:
        raise ValueError(f"{who}: restitution {restitution!r:.80}, expected a number from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class SolidShape:
    """The base of all shapes: a place in the link, friction and restitution."""

    pose: Pose = field(default_factory=Pose)
    friction: float | None = None
    """Coulomb's coefficient; None is the world's."""
    restitution: float | None = None
    """The part of the normal speed that a bounce leaves; None is the world's."""
    pairs_only: bool = False
    """Whether it touches only what pairs of links name, and not the world."""

    def __post_init__(self) -> None:
        who = self.kind
        if not isinstance(self.pose, Pose):
            raise TypeError(f"{who}: pose is a {type(self.pose).__name__}, expected a nlink.Pose")
        check_friction(who, self.friction, self.restitution)
        self._check(who)

    @property
    def kind(self) -> str:
        """The shape's name in sentences and files."""
        return type(self).__name__.lower()

    def _check(self, who: str) -> None:
        """Refuse sizes that no body has."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sphere(SolidShape):
    """A ball.

    >>> import nlink
    >>> nlink.Sphere(0.016, friction=0.9).radius
    0.016
    """

    radius: float

    def _check(self, who: str) -> None:
        _positive(who, "radius", self.radius)


@dataclass(frozen=True)
class Capsule(SolidShape):
    """A cylinder along z with half a ball at either end; `length` is that of the cylinder.

    >>> import nlink
    >>> nlink.Capsule(0.02, 0.1).length
    0.1
    """

    radius: float
    length: float

    def _check(self, who: str) -> None:
        _check_round(who, self)


@dataclass(frozen=True)
class Box(SolidShape):
    """A box by its full edges along x, y and z.

    >>> import nlink
    >>> nlink.Box((0.2, 0.1, 0.1)).edges
    (0.2, 0.1, 0.1)
    """

    edges: tuple[float, float, float]

    def _check(self, who: str) -> None:
        _check_three(who, self, "edges", "edge")


@dataclass(frozen=True)
class Cylinder(SolidShape):
    """A cylinder along z; `length` is the distance of its ends.

    >>> import nlink
    >>> nlink.Cylinder(0.05, 0.2).radius
    0.05
    """

    radius: float
    length: float

    def _check(self, who: str) -> None:
        _check_round(who, self)


@dataclass(frozen=True)
class Ellipsoid(SolidShape):
    """An ellipsoid by its half axes along x, y and z.

    >>> import nlink
    >>> nlink.Ellipsoid((0.1, 0.1, 0.05)).half_axes
    (0.1, 0.1, 0.05)
    """

    half_axes: tuple[float, float, float]

    def _check(self, who: str) -> None:
        _check_three(who, self, "half_axes", "half axis")


MOST_CORNERS = 16
"""Corners of a hull: each may touch by itself."""


@dataclass(frozen=True)
class Hull(SolidShape):
    """The convex hull of at most 16 points.

    >>> import nlink
    >>> wedge = nlink.Hull([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
    >>> len(wedge.points)
    4
    """

    points: tuple[tuple[float, float, float], ...]

    @classmethod
    def around(cls, points: ArrayLike, **surface: Any) -> Hull:
        """A hull of at most 16 of many points, such as the vertices of a mesh: those which come
        nearest to the hull of all, from the inside.

        >>> import numpy as np, nlink
        >>> points = np.random.default_rng(0).normal(size=(1000, 3))
        >>> len(nlink.Hull.around(points).points)
        16
        """
        return cls(thinned(points)[0], **surface)

    def _check(self, who: str) -> None:
        rows = single(f"{who}: points", self.points, (None, 3)).tolist()
        if not 1 <= len(rows) <= MOST_CORNERS:
            raise ValueError(f"{who}: {len(rows)} points, expected 1 to {MOST_CORNERS}; "
                             "nlink.Hull.around(points) chooses among more")
        object.__setattr__(self, "points", tuple(map(tuple, rows)))


@dataclass(frozen=True)
class MeshShape(SolidShape):
    """A mesh that a robot's file names; `robot.with_contacts(collisions="file")` reads it and
    takes its hull."""

    file: str
    origin: str
    """The robot's file, beside which it is looked for."""
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)

    @property
    def kind(self) -> str:
        return "mesh"

    def _check(self, who: str) -> None:
        single(f"{who}: scale", self.scale, (3,))


DIRECTIONS = 4000
"""Directions in which a thinned hull is compared with that of all points."""


def thinned(points: ArrayLike) -> tuple[tuple[tuple[float, float, float], ...], float]:
    """At most 16 of many points whose hull is near to that of all, and about how far, at most,
    another point lies outside it, in the unit of the points.

    One after the other, the point is added that is farthest outside in one of 4,000 directions.
    """
    rows = np.unique(single("points", points, (None, 3)), axis=0)
    if not len(rows):
        raise ValueError("points: none, expected at least one")
    # a spiral of equal areas on the sphere, and the axes, which boxes have
    k = np.arange(DIRECTIONS) + 0.5
    z, turn = 1 - 2 * k / DIRECTIONS, math.pi * (1 + math.sqrt(5)) * k
    flat = np.sqrt(1 - z * z)
    directions = np.vstack([np.stack([flat * np.cos(turn), flat * np.sin(turn), z], axis=1),
                            np.eye(3), -np.eye(3)])
    far = np.full(len(directions), -np.inf)
    best = np.full(len(directions), -1)
    for start in range(0, len(rows), 1024):  # of a large mesh, part by part
        heights = rows[start:start + 1024] @ directions.T
        at = heights.argmax(axis=0)
        top = heights[at, np.arange(len(directions))]
        best, far = np.where(top > far, start + at, best), np.maximum(far, top)
    chosen: list[int] = []
    reach = np.full(len(directions), -np.inf)
    lack = np.where(np.arange(len(directions)) == DIRECTIONS, math.inf, 0.0)  # begin along x
    while len(chosen) < MOST_CORNERS and lack.max() > 0:
        chosen.append(int(best[lack.argmax()]))
        reach = np.maximum(reach, directions @ rows[chosen[-1]])
        lack = far - reach
    x = rows[sorted(set(chosen))]
    return tuple(map(tuple, x.tolist())), float(lack.max())


def moments(shape: SolidShape, mass: float) -> tuple[float, float, float]:
    """The moments of inertia of a homogeneous body of a shape, about its centre, in its axes."""
    if isinstance(shape, Sphere):
        all_around = 0.4 * mass * shape.radius ** 2
        return all_around, all_around, all_around
    if isinstance(shape, Box):
        x, y, z = (edge * edge for edge in shape.edges)
        return mass / 12 * (y + z), mass / 12 * (x + z), mass / 12 * (x + y)
    if isinstance(shape, Ellipsoid):
        x, y, z = (half * half for half in shape.half_axes)
        return mass / 5 * (y + z), mass / 5 * (x + z), mass / 5 * (x + y)
    if isinstance(shape, Cylinder):
        r, l = shape.radius ** 2, shape.length ** 2
        across = mass * (r / 4 + l / 12)
        return across, across, mass * r / 2
    if isinstance(shape, Capsule):
        # the cylinder's part of the volume, and two half balls 3/8 r from its ends
        r, l = shape.radius, shape.length
        tube = mass * l / (l + 4 / 3 * r)
        ends = mass - tube
        across = (tube * (r * r / 4 + l * l / 12)
                  + ends * (0.4 * r * r + l * l / 4 + 3 / 8 * l * r))
        return across, across, tube * r * r / 2 + 0.4 * ends * r * r
    raise ValueError(f"shape: a {shape.kind}, expected a sphere, capsule, box, cylinder or "
                     "ellipsoid, whose moments are known")
