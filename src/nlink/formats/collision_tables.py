"""Shapes that touch in TOML files: a [[collision]] table for each, and [world]."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from nlink.formats.rows import check_keys
from nlink.model.names import did_you_mean
from nlink.model.pose import Pose
from nlink.model.shapes import Box, Capsule, SolidShape, Sphere
from nlink.model.world import Collision, World

SHAPES: dict[str, type[SolidShape]] = {
    kind.__name__.lower(): kind for kind in (Sphere, Capsule, Box)}
_SURFACE = ("friction", "restitution")
_PLACE = ("xyz", "rotation")
MOST_SHAPES = 10_000


def _sizes(kind: type[SolidShape]) -> list[str]:
    """The keys that are a shape's own."""
    return [each.name for each in fields(kind) if each.name not in ("pose", *_SURFACE)]


def collision_table(collision: Collision, pose: Mapping[str, Any]) -> dict[str, Any]:
    """A table that `read_collisions` reads; `pose` is that of the shape."""
    shape = collision.shape
    table: dict[str, Any] = {"link": collision.link, "shape": shape.kind}
    for key in _sizes(type(shape)):
        value = getattr(shape, key)
        table[key] = list(value) if isinstance(value, tuple) else float(value)
    table |= dict(pose) if shape.pose != Pose() else {}
    table |= {key: float(getattr(shape, key)) for key in _SURFACE
              if getattr(shape, key) is not None}
    return table | ({"name": collision.name} if collision.name else {})


def world_table(world: World) -> dict[str, Any]:
    """A table that `read_world` reads."""
    return {"planes": [[*normal, offset] for normal, offset in world.planes or ()],
            "friction": float(world.friction), "restitution": float(world.restitution)}


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
    check_keys(table, {"link", "shape", "name", *sizes, *_SURFACE, *_PLACE})
    names = [table.get("link"), table.get("name", "")]
    if not all(isinstance(x, str) for x in names) or not names[0]:
        raise ValueError(f"link {names[0]!r} and name {names[1]!r}, expected names")
    given = {key: _number(key, table[key]) for key in (*sizes, *_SURFACE) if key in table}
    missing = [key for key in sizes if key not in given]
    if missing:
        raise ValueError(f"{missing[0]}: none, expected that of a {table['shape']}")
    place = pose({key: table[key] for key in _PLACE if key in table})
    return Collision(names[0], kind(**given, pose=place), names[1])


def read_world(table: Any) -> World:
    """What surrounds a robot, from a table."""
    if not isinstance(table, Mapping):
        raise TypeError(f"world: a {type(table).__name__}, expected a table")
    try:
        check_keys(table, {"planes", *_SURFACE})
        planes: Any = None
        if "planes" in table:
            rows = [_number("planes", row) for row in table["planes"]]
            planes = tuple((row[:3], row[3]) for row in rows)
        return World(planes, **{key: _number(key, table[key]) for key in _SURFACE if key in table})
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise ValueError(f"world: {error}") from None


def _number(key: str, value: Any) -> Any:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)
               for x in values):
        raise ValueError(f"{key}: {value!r:.80}, expected finite numbers")
    return tuple(map(float, values)) if isinstance(value, list) else float(value)
