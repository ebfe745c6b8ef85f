"""Contacts as algorithms see them: two features, each fixed in a moving body or in the world.

A feature is the part of a shape that may touch: a point with a radius around it, a half space.
Features of the world (body 0) are in the world's axes, seen from the world's origin.
Their numbers may be any scalars.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nlink.scalars.functions import Scalar
from nlink.scalars.lookup import LookupTable
from nlink.spatial import Matrix, Vector


@dataclass(frozen=True, slots=True)
class RoundPoint:
    """All points within a radius of a centre: a ball, the end of a capsule, a corner."""

    centre: Vector
    radius: Scalar


@dataclass(frozen=True, slots=True)
class RoundSegment:
    """All points within a radius of the line from a to b: a capsule."""

    a: Vector
    b: Vector
    radius: Scalar
    far: bool = False
    """Beside a box: not where the line is nearest, but at the other end of where it is above the
    same face."""


@dataclass(frozen=True, slots=True)
class RimPoint:
    """A point of a cylinder's rim: that which is lowest on an end, or a third of a turn from it.

    What is low is against the normal of the other body, so that the point moves on the rim.
    """

    centre: Vector
    """Of the cylinder."""
    axis: Vector
    """Of length 1."""
    half: Scalar
    """Half its length."""
    radius: Scalar
    end: int
    """-1 or 1 along the axis; 0 is the lower of both."""
    turn: tuple[float, float]
    """Cosine and sine of the angle from the lowest point."""
    aside: Vector
    """A direction across the axis, which stands for the lowest if no point of a rim is lower than
    others."""


@dataclass(frozen=True, slots=True)
class EllipsoidSurface:
    """All points centre + R (a_k u_k) with |u| <= 1."""

    centre: Vector
    R: Matrix
    half_axes: tuple[Scalar, Scalar, Scalar]


@dataclass(frozen=True, slots=True)
class HalfSpace:
    """All points with normal . x <= offset; the normal has length 1."""

    normal: Vector
    offset: Scalar

    def raised(self, by: Scalar) -> HalfSpace:
        """The same with its points raised along z."""
        return replace(self, offset=self.offset + by * self.normal.z)


@dataclass(frozen=True, slots=True)
class SolidBox:
    """All points centre + R x with |x_k| <= half_k."""

    centre: Vector
    R: Matrix
    half: tuple[Scalar, Scalar, Scalar]

    def raised(self, by: Scalar) -> SolidBox:
        """The same with its points raised along z."""
        return replace(self, centre=self.centre + Vector(0, 0, by))


@dataclass(frozen=True, slots=True)
class Terrain:
    """All points below a height that is bilinear over a grid along x and y.

    The point (x, y) is in the cell (x - start_x) / step_x, (y - start_y) / step_y; outside of the
    grid the heights are those of its edge.
    """

    table: LookupTable
    """The height at (i, j) at the place i n_y + j."""
    count: tuple[int, int]
    start: tuple[float, float]
    step: tuple[float, float]
    lift: Scalar = 0.0

    def raised(self, by: Scalar) -> Terrain:
        """The same with its points raised along z."""
        return replace(self, lift=self.lift + by)


Feature = (RoundPoint | RoundSegment | RimPoint | EllipsoidSurface | HalfSpace | SolidBox
           | Terrain)
WorldFeature = HalfSpace | SolidBox | Terrain
"""The shapes that the world may have."""


@dataclass(frozen=True, slots=True)
class Contact:
    """A pair of features that may touch: one point, one normal, at every time.

    The normal leads from `other` to `body`, which are numbers of moving bodies, 0 being the world.
    """

    name: str
    body: int
    other: int
    friction: Scalar
    restitution: Scalar
    group: int
    """Contacts of one shape with one other shape have one number."""
    one: Feature
    """Fixed in `body`."""
    two: Feature
    """Fixed in `other`."""
