"""From shapes to contacts: which features of which bodies may touch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from nlink.model.contacts import (
    Contact,
    EllipsoidSurface,
    Feature,
    HalfSpace,
    RimPoint,
    RoundPoint,
    RoundSegment,
    SolidBox,
    Terrain,
    WorldFeature,
)
from nlink.model.mechanism import Attachment
from nlink.model.names import fresh
from nlink.model.pose import Pose
from nlink.model.shapes import Box, Capsule, Cylinder, Ellipsoid, Hull, SolidShape, Sphere
from nlink.model.world import Collision, HeightField, World
from nlink.scalars.lookup import LookupTable
from nlink.spatial import Matrix, Vector

Attach = Callable[[str, Pose], Attachment]
"""A pose in a link or frame, as seen from the moving body that carries it."""
Features = Iterator[tuple[Feature, Feature]]
THIRDS = tuple((math.cos(angle), math.sin(angle)) for angle in (2 * math.pi / 3, -2 * math.pi / 3))


@dataclass(frozen=True, slots=True)
class PlacedShape:
    """A shape on a moving body."""

    name: str
    link: str
    shape: SolidShape
    at: Attachment


@dataclass(frozen=True, slots=True)
class WorldPart:
    """A part of the world that may be touched."""

    name: str
    feature: WorldFeature
    friction: float | None = None
    restitution: float | None = None


def contacts_of(collisions: tuple[Collision, ...], pairs: Sequence[tuple[str, str]],
                world: World | None, attach: Attach) -> tuple[Contact, ...]:
    """All contacts of the shapes of a mechanism with the world, and of those links with each
    other that are in pairs; none without a world."""
    if world is None:
        return ()
    used: set[str] = set()
    shapes = []
    for collision in collisions:
        name = fresh(collision.name or collision.link, used)
        used.add(name)
        shapes.append(PlacedShape(name, collision.link, collision.shape, attach(
            collision.link, collision.shape.pose)))
    contacts: list[Contact] = []

    def add(name: str, bodies: tuple[int, int], found: Features, *own: object) -> None:
        both = list(found)
        friction, restitution = (
            _coefficient(getattr(world, key), *(getattr(x, key) for x in own))
            for key in ("friction", "restitution"))
        group = contacts[-1].group + 1 if contacts else 0
        contacts.extend(Contact(name if len(both) == 1 else f"{name}.{k}", *bodies, friction,
                                restitution, group, one, two)
                        for k, (one, two) in enumerate(both, 1))

    parts = world_parts(world)
    for shape in shapes:
        for part in parts if shape.at.body and not shape.shape.pairs_only else ():
            name = shape.name if len(parts) == 1 else f"{shape.name}-{part.name}"
            add(name, (shape.at.body, 0), against_world(shape, part), shape.shape, part)
    for one, two in _pairs(shapes, pairs):
        add(f"{one.name}-{two.name}", (one.at.body, two.at.body), against(one, two),
            one.shape, two.shape)
    return tuple(contacts)


def _coefficient(common: float, *own: float | None) -> float:
    """That of the shapes that have one, else the world's."""
    return max((x for x in own if x is not None), default=common)


def _pairs(shapes: Sequence[PlacedShape], pairs: Sequence[tuple[str, str]],
           ) -> Iterator[tuple[PlacedShape, PlacedShape]]:
    """The shapes of links that are named, the rounder of two first."""
    for names in pairs:
        sides = [[each for each in shapes if name in (each.link, each.name)] for name in names]
        for name, side in zip(names, sides, strict=True):
            if not side:
                raise ValueError(f"pairs: {name!r} has no shape, expected links with shapes")
        for one, two in product(*sides):
            if one.at.body == two.at.body:
                raise ValueError(f"pairs: {one.name!r} and {two.name!r} are fixed in one body, "
                                 "expected two bodies that move")
            yield (two, one) if _roundness(one.shape) > _roundness(two.shape) else (one, two)


def _roundness(shape: SolidShape) -> int:
    """The place among shapes that touch each other; the last for others."""
    order = [Sphere, Capsule, Box]
    return order.index(type(shape)) if type(shape) in order else len(order)


def world_parts(world: World) -> list[WorldPart]:
    """What of the world may be touched, by name."""
    parts = [WorldPart(_numbered("plane", k), HalfSpace(Vector(*normal), offset))
             for k, (normal, offset) in enumerate(world.planes or ())]
    field = world.height_field
    if field is not None:
        parts.append(WorldPart("terrain", _terrain(field), field.friction, field.restitution))
    for k, box in enumerate(world.boxes):
        at = Attachment(0, Matrix.from_rows(box.pose.rotation), Vector(*box.pose.origin))
        parts.append(WorldPart(_numbered("box", k), _solid(box, at), box.friction,
                               box.restitution))
    return parts


def _numbered(name: str, k: int) -> str:
    return name if k == 0 else f"{name}{k + 1}"


def _terrain(field: HeightField) -> Terrain:
    heights = np.array(field.heights)
    count = (heights.shape[0], heights.shape[1])
    spans = (field.x[1] - field.x[0], field.y[1] - field.y[0])
    return Terrain(LookupTable(heights.ravel()), count, (field.x[0], field.y[0]),
                   (spans[0] / (count[0] - 1), spans[1] / (count[1] - 1)))


def against_world(shape: PlacedShape, part: WorldPart) -> Features:
    """The pairs of features by which a shape touches a part of the world."""
    if isinstance(part.feature, SolidBox):
        yield from _against_box(shape, part.feature, f"the world's {part.name}")
        return
    for feature in lowest_features(shape):
        yield feature, part.feature


def against(one: PlacedShape, two: PlacedShape) -> Features:
    """The pairs of features by which shapes of two links touch."""
    first, second = one.shape, two.shape
    if isinstance(second, Box):
        yield from _against_box(one, _solid(second, two.at), f"{two.name!r}, a box")
    elif isinstance(first, Sphere) and isinstance(second, Sphere | Capsule):
        other = (RoundPoint(two.at.p, second.radius) if isinstance(second, Sphere)
                 else _line(second, two.at))
        yield RoundPoint(one.at.p, first.radius), other
    elif isinstance(first, Capsule) and isinstance(second, Capsule):
        yield _line(first, one.at), _line(second, two.at)
    else:
        raise _unknown(one, f"{two.name!r}, a {second.kind}")


def _against_box(one: PlacedShape, box: SolidBox, what: str) -> Features:
    """A ball in one point; a capsule with its ends, and between them in two."""
    if not isinstance(one.shape, Sphere | Capsule):
        raise _unknown(one, what)
    for point in lowest_features(one):
        yield point, box
    if isinstance(one.shape, Capsule):
        for far in (False, True):
            yield _line(one.shape, one.at, far=far), box


def _unknown(one: PlacedShape, what: str) -> ValueError:
    return ValueError(f"contact of {one.name!r}, a {one.shape.kind}, with {what}: expected a "
                      "sphere or capsule against a sphere, capsule or box; any shape touches "
                      "planes and height fields")


def _solid(box: Box, at: Attachment) -> SolidBox:
    x, y, z = (0.5 * edge for edge in box.edges)
    return SolidBox(at.p, at.R, (x, y, z))


def _line(capsule: Capsule, at: Attachment, *, far: bool = False) -> RoundSegment:
    a, b = (at.p + at.R @ Vector(0, 0, z * capsule.length) for z in (-0.5, 0.5))
    return RoundSegment(a, b, capsule.radius, far)


def lowest_features(shape: PlacedShape) -> Iterator[Feature]:
    """The features of which one is the lowest point of a shape."""
    solid, at = shape.shape, shape.at
    if isinstance(solid, Sphere):
        yield RoundPoint(at.p, solid.radius)
    elif isinstance(solid, Capsule):
        line = _line(solid, at)
        yield from (RoundPoint(end, solid.radius) for end in (line.a, line.b))
    elif isinstance(solid, Box):
        halves = [0.5 * edge for edge in solid.edges]
        for signs in product((-1, 1), repeat=3):
            corner = (s * x for s, x in zip(signs, halves, strict=True))
            yield RoundPoint(at.p + at.R @ Vector(*corner), 0.0)
    elif isinstance(solid, Hull):
        yield from (RoundPoint(at.p + at.R @ Vector(*x), 0.0) for x in solid.points)
    elif isinstance(solid, Cylinder):
        # either end's lowest point, and two more of the lower end, on which it may stand
        for end, turn in ((-1, (1.0, 0.0)), (1, (1.0, 0.0)), *((0, third) for third in THIRDS)):
            yield RimPoint(at.p, at.R.z, 0.5 * solid.length, solid.radius, end, turn, at.R.x)
    elif isinstance(solid, Ellipsoid):
        yield EllipsoidSurface(at.p, at.R, solid.half_axes)
    else:
        raise ValueError(f"contact of {shape.name!r}: a {solid.kind} whose file was not read, "
                         "expected robot.with_contacts(collisions='file')")
