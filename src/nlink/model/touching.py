"""A mechanism with shapes that touch, and a world around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from nlink.model.description import Description
from nlink.model.editing import edited
from nlink.model.names import did_you_mean
from nlink.model.shapes import SolidShape
from nlink.model.world import Collision, World

ShapesByLink = Mapping[str, SolidShape | Sequence[SolidShape]]


def with_contacts(description: Description, shapes: ShapesByLink | None, world: World | None,
                  collisions: Literal["file"] | None) -> Description:
    """The mechanism with shapes of its links in a world; see `Robot.with_contacts`."""
    if collisions not in (None, "file"):
        raise ValueError(f"collisions: {collisions!r}, expected 'file' or None"
                         f"{did_you_mean(collisions, ['file'])}")
    if shapes is None and collisions is None:
        raise ValueError("shapes: none, expected shapes by the names of links, or "
                         "collisions='file' for those of the robot's file")
    if collisions == "file" and not description.collisions:
        raise ValueError(f"collisions: 'file', but {description.name} has no shapes; expected "
                         "some in its file, or shapes by the names of links")
    if not isinstance(world, World | None):
        raise TypeError(f"world: a {type(world).__name__}, expected a nlink.World")
    given = _listed(shapes or {})
    kept = description.collisions if collisions == "file" else ()
    return edited(description, collisions=(*kept, *given), world=world or World())


def _listed(shapes: ShapesByLink) -> list[Collision]:
    if not isinstance(shapes, Mapping):
        raise TypeError(f"shapes: a {type(shapes).__name__}, expected shapes by the names of "
                        "links, such as {'foot': nlink.Sphere(0.02)}")
    found = []
    for link, given in shapes.items():
        for shape in [given] if isinstance(given, SolidShape) else given:
            if not isinstance(shape, SolidShape):
                raise TypeError(f"shapes: of {link!r}, a {type(shape).__name__}, expected a "
                                "shape such as nlink.Sphere(0.02)")
            found.append(Collision(link, shape))
    return found
