"""The looks of links in TOML files: a [[visual]] table for each shape.

A table has the `link` that the shape is fixed in (none for the base), the `shape`, its `size` (as
in `nlink.model.visuals.Visual`), a place (`xyz` and `rotation`) and a `colour` of three or four
numbers from 0 to 1. A cylinder or capsule may say instead where its axis runs: `from` one point
`to` another, with its `radius`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from nlink.formats.rows import check_keys
from nlink.model.canonical import align
from nlink.model.names import did_you_mean
from nlink.model.pose import Pose
from nlink.model.visuals import Colour, ShapeName, Visual

SIZES = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2, "ellipsoid": 3}
"""Shapes that a file may have, and how many numbers are their size."""
MOST_VISUALS = 10_000


def visual_table(visual: Visual, pose: Mapping[str, Any]) -> dict[str, Any]:
    """A table that `read_visuals` reads; `pose` is that of the shape."""
    table: dict[str, Any] = {"link": visual.link} if visual.link else {}
    table |= {"shape": visual.shape, "size": [float(x) for x in visual.size]}
    table |= dict(pose) if visual.pose != Pose() else {}
    return table | ({} if visual.colour is None else {
        "colour": [float(x) for x in visual.colour]})


def read_visuals(tables: Any, pose: Callable[[Mapping[str, Any]], Pose]) -> tuple[Visual, ...]:
    """The shapes of [[visual]] tables; `pose` reads xyz and rotation."""
    if not isinstance(tables, list) or len(tables) > MOST_VISUALS:
        raise ValueError(f"visual: expected at most {MOST_VISUALS} tables [[visual]]")
    found = []
    for number, table in enumerate(tables, 1):
        try:
            found.append(_visual(table, pose))
        except (ValueError, TypeError) as error:
            raise type(error)(f"visual {number}: {error}") from None
    return tuple(found)


def _visual(table: Any, pose: Callable[[Mapping[str, Any]], Pose]) -> Visual:
    if not isinstance(table, Mapping):
        raise TypeError(f"a {type(table).__name__}, expected a table")
    shape, link = table.get("shape"), table.get("link", "")
    if shape not in SIZES:
        raise ValueError(f"shape {shape!r}, expected one of {', '.join(SIZES)}"
                         f"{did_you_mean(str(shape), SIZES)}")
    if not isinstance(link, str):
        raise TypeError(f"link: {link!r}, expected a name")
    if "from" in table or "to" in table:
        check_keys(table, {"link", "shape", "colour", "from", "to", "radius"})
        size, place = _along(shape, table)
    else:
        check_keys(table, {"link", "shape", "colour", "size", "xyz", "rotation"})
        size = _numbers("size", table.get("size"), SIZES[shape])
        place = pose({key: table[key] for key in ("xyz", "rotation") if key in table})
    if min(size) <= 0:
        raise ValueError(f"size: {list(size)}, expected positive numbers")
    return Visual(link, cast(ShapeName, shape), size, place, _colour(table.get("colour")))


def _along(shape: str, table: Mapping[str, Any]) -> tuple[tuple[float, ...], Pose]:
    """Radius and length, and the place, of a shape around an axis between two points."""
    if shape not in ("cylinder", "capsule"):
        raise ValueError(f"from, to: of a {shape}, expected a cylinder or a capsule")
    start, end = (np.array(_numbers(key, table.get(key), 3)) for key in ("from", "to"))
    length = float(np.linalg.norm(end - start))
    if not length:
        raise ValueError(f"to: {list(end)} is where it begins, expected another point")
    middle = cast(tuple[float, float, float], tuple(((start + end) / 2).tolist()))
    axis = cast(tuple[float, float, float], tuple(((end - start) / length).tolist()))
    (radius,) = _numbers("radius", [table.get("radius")], 1)
    return (radius, length), Pose(Pose().rotation, middle) @ align(axis)


def _colour(values: Any) -> Colour | None:
    if values is None:
        return None
    if not isinstance(values, list | tuple) or len(values) not in (3, 4):
        raise ValueError(f"colour: {values!r:.80}, expected three or four numbers from 0 to 1")
    numbers = _numbers("colour", values, len(values))
    if not all(0 <= x <= 1 for x in numbers):
        raise ValueError(f"colour: {values!r:.80}, expected three or four numbers from 0 to 1")
    red, green, blue, opacity = (*numbers, 1.0)[:4]
    return red, green, blue, opacity


def _numbers(key: str, values: Any, count: int) -> tuple[float, ...]:
    if (not isinstance(values, list | tuple) or len(values) != count or any(
            isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x)
            for x in values)):
        raise ValueError(f"{key}: {values!r:.80}, expected {count} finite numbers")
    return tuple(map(float, values))
