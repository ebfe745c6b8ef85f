"""A mechanism with shapes that touch, and a world around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from nlink.model.description import Description
from nlink.model.editing import edited
from nlink.model.names import did_you_mean, first_few
from nlink.model.shapes import SolidShape
from nlink.model.world import Collision, World

ShapesByLink = Mapping[str, SolidShape | Sequence[SolidShape] | Mapping[str, SolidShape]]
FileShapes = Literal["file"] | Sequence[str] | None
Pairs = Sequence[tuple[str, str]]


def with_contacts(description: Description, shapes: ShapesByLink | None, world: World | None,
                  collisions: FileShapes, pairs: Pairs) -> Description:
    """The mechanism with shapes of its links in a world; see `Robot.with_contacts`."""
    if shapes is None and collisions is None and not (pairs and description.collisions):
        raise ValueError("shapes: none, expected shapes by the names of links, or "
                         "collisions='file' for those of the robot's file")
    if not isinstance(world, World | None):
        raise TypeError(f"world: a {type(world).__name__}, expected a nlink.World")
    given = _listed(shapes or {})
    kept = _of_file(description, "file" if shapes is None and collisions is None else collisions)
    around = description.world or (description.surroundings if kept else None) or World()
    return edited(description, collisions=(*kept, *given), world=world or around,
                  pairs=tuple(_pair(each) for each in pairs))


def _of_file(description: Description, collisions: FileShapes) -> list[Collision]:
    """All shapes of the robot's file, or those of links that are named."""
    if collisions is None:
        return []
    known = [each.link for each in description.collisions]
    if isinstance(collisions, str):
        if collisions != "file":
            raise ValueError(f"collisions: {collisions!r}, expected 'file', names of links, or "
                             f"None{did_you_mean(collisions, ['file'])}")
        wanted = known
    else:
        wanted = list(collisions)
    if not known:
        raise ValueError(f"collisions: 'file', but {description.name} has no shapes; expected "
                         "some in its file, or shapes by the names of links")
    for name in wanted:
        if name not in known:
            raise ValueError(f"collisions: {name!r}, expected links with shapes in the file, some "
                             f"of {first_few(known, 40)}{did_you_mean(str(name), known)}")
    return [each for each in description.collisions if each.link in wanted]


def _listed(shapes: ShapesByLink) -> list[Collision]:
    if not isinstance(shapes, Mapping):
        raise TypeError(f"shapes: a {type(shapes).__name__}, expected shapes by the names of "
                        "links, such as {'foot': nlink.Sphere(0.02)}")
    found = []
    for link, given in shapes.items():
        named = (given.items() if isinstance(given, Mapping) else
                 [("", x) for x in ([given] if isinstance(given, SolidShape) else given)])
        for name, shape in named:
            if not isinstance(shape, SolidShape):
                raise TypeError(f"shapes: of {link!r}, a {type(shape).__name__}, expected a "
                                "shape such as nlink.Sphere(0.02)")
            found.append(Collision(link, shape, name))
    return found


def _pair(given: Any) -> tuple[str, str]:
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2 and (
            isinstance(given[0], str) and isinstance(given[1], str)):
        return given[0], given[1]
    raise ValueError(f"pairs: {given!r:.80}, expected two names of links")
