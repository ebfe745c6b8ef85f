"""Contacts as algorithms see them: two features, each fixed in a moving body or in the world.

A feature is the part of a shape that may touch: a point with a radius around it, a half space.
Features of the world (body 0) are in the world's axes, seen from the world's origin.
Their numbers may be any scalars.
"""

from __future__ import annotations

from dataclasses import dataclass

from nlink.scalars.functions import Scalar
from nlink.spatial import Vector


@dataclass(frozen=True, slots=True)
class RoundPoint:
    """All points within a radius of a centre: a ball, the end of a capsule, a corner."""

    centre: Vector
    radius: Scalar


@dataclass(frozen=True, slots=True)
class HalfSpace:
    """All points with normal . x <= offset; the normal has length 1."""

    normal: Vector
    offset: Scalar


Feature = RoundPoint | HalfSpace


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
