"""From shapes to contacts: which features of which bodies may touch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from nlink.model.contacts import Contact, Feature, HalfSpace, RoundPoint
from nlink.model.mechanism import Attachment
from nlink.model.names import fresh
from nlink.model.pose import Pose
from nlink.model.shapes import Box, Capsule, SolidShape, Sphere
from nlink.model.world import Collision, World
from nlink.spatial import Vector

Attach = Callable[[str, Pose], Attachment]
"""A pose in a link or frame, as seen from the moving body that carries it."""


@dataclass(frozen=True, slots=True)
class PlacedShape:
    """A shape on a moving body."""

    name: str
    shape: SolidShape
    at: Attachment


def contacts_of(collisions: tuple[Collision, ...], world: World | None, attach: Attach,
                ) -> tuple[Contact, ...]:
    """All contacts of the shapes of a mechanism with the world; none without a world."""
    if world is None:
        return ()
    used: set[str] = set()
    shapes = []
    for collision in collisions:
        name = fresh(collision.name or collision.link, used)
        used.add(name)
        shapes.append(PlacedShape(name, collision.shape, attach(
            collision.link, collision.shape.pose)))
    contacts: list[Contact] = []
    parts = world_parts(world)
    for group, (shape, (part, feature)) in enumerate(
            (shape, part) for shape in shapes if shape.at.body for part in parts):
        name = shape.name if len(parts) == 1 else f"{shape.name}-{part}"
        pairs = list(against(shape, feature))
        for k, (one, two) in enumerate(pairs, 1):
            contacts.append(Contact(
                name if len(pairs) == 1 else f"{name}.{k}", shape.at.body, 0,
                _coefficient(world.friction, shape.shape.friction),
                _coefficient(world.restitution, shape.shape.restitution), group, one, two))
    return tuple(contacts)


def _coefficient(common: float, *own: float | None) -> float:
    """That of the shapes that have one, else the world's."""
    return max((x for x in own if x is not None), default=common)


def world_parts(world: World) -> list[tuple[str, HalfSpace]]:
    """What of the world may be touched, by name."""
    return [("plane" if k == 0 else f"plane{k + 1}", HalfSpace(Vector(*normal), offset))
            for k, (normal, offset) in enumerate(world.planes or ())]


def against(shape: PlacedShape, feature: HalfSpace) -> Iterator[tuple[Feature, Feature]]:
    """The pairs of features by which a shape touches a part of the world."""
    for point in round_points(shape):
        yield point, feature


def round_points(shape: PlacedShape) -> Iterator[RoundPoint]:
    """The points with a radius around them of which a shape is the convex hull."""
    solid, at = shape.shape, shape.at
    if isinstance(solid, Sphere):
        yield RoundPoint(at.p, solid.radius)
    elif isinstance(solid, Capsule):
        for z in (-0.5, 0.5):
            yield RoundPoint(at.p + at.R @ Vector(0, 0, z * solid.length), solid.radius)
    elif isinstance(solid, Box):
        halves = [0.5 * edge for edge in solid.edges]
        for signs in product((-1, 1), repeat=3):
            corner = (s * x for s, x in zip(signs, halves, strict=True))
            yield RoundPoint(at.p + at.R @ Vector(*corner), 0.0)
    else:
        raise ValueError(f"contact of {shape.name!r}: a {solid.kind}, expected a sphere, a "
                         "capsule or a box")
