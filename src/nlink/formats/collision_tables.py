"""Shapes that touch in TOML files: a [[collision]] table for each, and [world]."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from nlink.formats.rows import check_keys
from nlink.model.names import did_you_mean
from nlink.model.pose import Pose
from nlink.model.shapes import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Hull,
    MeshShape,
    SolidShape,
    Sphere,
)
from nlink.model.world import Collision, HeightField, World

KINDS: tuple[type[SolidShape], ...] = (Sphere, Capsule, Box, Cylinder, Ellipsoid, Hull, MeshShape)
SHAPES = {"mesh" if kind is MeshShape else kind.__name__.lower(): kind for kind in KINDS}
_SURFACE = ("friction", "restitution")
_PLACE = ("xyz", "rotation")
MOST_SHAPES = 10_000


def _sizes(kind: type[SolidShape]) -> list[str]:
    """The keys that are a shape's own."""
    common = ("pose", "pairs_only", *_SURFACE)
    return [each.name for each in fields(kind) if each.name not in common]


def collision_table(collision: Collision, pose: Mapping[str, Any]) -> dict[str, Any]:
    """A table that `read_collisions` reads; `pose` is that of the shape."""
    shape = collision.shape
    table: dict[str, Any] = {"link": collision.link, "shape": shape.kind}
    for key in _sizes(type(shape)):
        value = getattr(shape, key)
        table[key] = _plain(value)
    table |= dict(pose) if shape.pose != Pose() else {}
    table |= _surface(shape) | ({"pairs_only": True} if shape.pairs_only else {})
    return table | ({"name": collision.name} if collision.name else {})


def _plain(value: Any) -> Any:
    """Numbers as files have them, whatever kind of numbers they are."""
    if isinstance(value, tuple | list):
        return [_plain(x) for x in value]
    return value if isinstance(value, str) else float(value)


def world_table(world: World, pose: Callable[[Pose], Mapping[str, Any]]) -> dict[str, Any]:
    """A table that `read_world` reads; `pose` writes that of a box."""
    table: dict[str, Any] = {
        "planes": [[*normal, offset] for normal, offset in world.planes or ()],
        "friction": float(world.friction), "restitution": float(world.restitution)}
    field = world.height_field
    if field is not None:
        table["height_field"] = {
            **{key: _plain(getattr(field, key)) for key in ("heights", "x", "y")},
            **_surface(field)}
    if world.boxes:
        table["boxes"] = [{"edges": _plain(box.edges), **pose(box.pose), **_surface(box)}
                          for box in world.boxes]
    return table


def _surface(owner: Any) -> dict[str, float]:
    """The coefficients that a shape has of its own."""
    return {key: float(getattr(owner, key)) for key in _SURFACE
            if getattr(owner, key) is not None}


def read_collisions(tables: Any, pose: Callable[[Mapping[str, Any]], Pose]) -> list[Collision]:
    """The shapes of [[collision]] tables; `pose` reads xyz and rotation."""
    if not isinstance(tables, list) or len(tables) > MOST_SHAPES:
        raise ValueError(f"collision: expected at most {MOST_SHAPES} tables [[collision]]")
    found = []
    for number, table in enumerate(tables, 1):
        try:
            found.append(_collision(table, pose))
        except (ValueError, TypeError) as error:
            raise ValueError(f"collision {number}: {error}") from None
    return found


def _collision(table: Any, pose: Callable[[Mapping[str, Any]], Pose]) -> Collision:
    if not isinstance(table, Mapping):
        raise TypeError(f"a {type(table).__name__}, expected a table")
    kind = SHAPES.get(str(table.get("shape")))
    if kind is None:
        raise ValueError(f"shape {table.get('shape')!r}, expected one of {', '.join(SHAPES)}"
                         f"{did_you_mean(str(table.get('shape')), SHAPES)}")
    sizes = _sizes(kind)
    check_keys(table, {"link", "shape", "name", "pairs_only", *sizes, *_SURFACE, *_PLACE})
    names = [table.get("link"), table.get("name", "")]
    if not all(isinstance(x, str) for x in names) or not names[0]:
        raise ValueError(f"link {names[0]!r} and name {names[1]!r}, expected names")
    given = {key: table[key] if isinstance(table[key], str) else _number(key, table[key])
             for key in (*sizes, *_SURFACE) if key in table}
    missing = [key for key in sizes if key not in given and key != "scale"]
    if missing:
        raise ValueError(f"{missing[0]}: none, expected that of a {table['shape']}")
    place = pose({key: table[key] for key in _PLACE if key in table})
    return Collision(names[0], kind(
        **given, pose=place, pairs_only=table.get("pairs_only") is True), names[1])


def read_pairs(given: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of links that touch each other."""
    if not isinstance(given, list) or not all(
            isinstance(each, list) and len(each) == 2 and all(isinstance(x, str) for x in each)
            for each in given):
        raise ValueError(f"pairs: {given!r:.80}, expected rows of two names")
    return tuple((one, two) for one, two in given)


def read_world(table: Any, pose: Callable[[Mapping[str, Any]], Pose]) -> World:
    """The surroundings of a robot, from a table; `pose` reads xyz and rotation."""
    if not isinstance(table, Mapping):
        raise TypeError(f"world: a {type(table).__name__}, expected a table")
    try:
        check_keys(table, {"planes", "height_field", "boxes", *_SURFACE})
        planes: Any = None
        if "planes" in table:
            rows = [_number("planes", row) for row in table["planes"]]
            planes = tuple((row[:3], row[3]) for row in rows)
        return World(planes, **_coefficients(table), height_field=_height_field(table),
                     boxes=tuple(_box(each, pose) for each in table.get("boxes", ())))
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise ValueError(f"world: {error}") from None


def _coefficients(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _number(key, table[key]) for key in _SURFACE if key in table}


def _height_field(table: Mapping[str, Any]) -> HeightField | None:
    if "height_field" not in table:
        return None
    given = table["height_field"]
    check_keys(given, {"heights", "x", "y", *_SURFACE})
    return HeightField([_number("heights", row) for row in given["heights"]],
                       _number("x", given["x"]), _number("y", given["y"]),
                       **_coefficients(given))


def _box(given: Any, pose: Callable[[Mapping[str, Any]], Pose]) -> Box:
    check_keys(given, {"edges", *_PLACE, *_SURFACE})
    place = pose({key: given[key] for key in _PLACE if key in given})
    return Box(_number("edges", given["edges"]), pose=place, **_coefficients(given))


def _number(key: str, value: Any) -> Any:
    """A finite number, or such numbers in rows."""
    if isinstance(value, list):
        return tuple(_number(key, x) for x in value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key}: {value!r:.80}, expected finite numbers")
    return float(value)
