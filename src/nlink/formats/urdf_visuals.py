"""The <visual> elements of a URDF file, for drawing: what is wrong with one is a note, and the
mechanism is read all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from nlink.formats.safe_xml import XmlNode
from nlink.model.pose import Pose
from nlink.model.visuals import Colour, ShapeName, Visual

_SHAPES = {"box", "sphere", "cylinder", "capsule", "mesh"} & {*get_args(ShapeName)}


def read_visuals(robot: XmlNode, origin: str, place: Callable[[XmlNode], Pose],
                 ) -> Iterator[Visual]:
    """What the links of a robot look like; `place` reads the <origin> of an element."""
    # defined for all of the robot, or in the first visual that has it
    defined = [*robot.children("link/visual/material"), *robot.children("material")]
    materials = {name: colour for element in defined
                 if (name := element.get("name"))
                 and (colour := _colour(XmlNode(element, "material", name, robot.notes)))}
    for element in robot.children("link"):
        link = element.get("name") or ""
        for child in element.findall("visual"):
            node = XmlNode(child, f"link {link!r}: visual", link, robot.notes)
            try:
                yield _visual(node, link, origin, materials, place)
            except ValueError as error:
                reason = str(error).removeprefix(f"{node.path}: ")
                robot.notes.add(f"visual not drawn ({reason})", link)


def _visual(node: XmlNode, link: str, origin: str, materials: dict[str, Colour],
            place: Callable[[XmlNode], Pose]) -> Visual:
    node.used({"origin", "geometry", "material"}, {"name"}, "visual")
    geometry = node.needed("geometry")
    shapes = [child for child in geometry.element if child.tag in _SHAPES]
    if len(shapes) != 1:
        raise ValueError(f"{node.path}: {len(shapes)} shapes, expected one of "
                         f"{', '.join(sorted(_SHAPES))}")
    shape = XmlNode(shapes[0], node.path, link, node.notes)
    colour, unknown = None, ""
    material = node.child("material")
    if material is not None:
        name = material.element.get("name") or ""
        colour = _colour(material) or materials.get(name)
        # a texture is not drawn, and a name that is defined nowhere is said when it is drawn
        unknown = name if colour is None and not material.children("texture") else ""
    kind: ShapeName = shapes[0].tag  # type: ignore[assignment]  # one of _SHAPES
    return Visual(link, kind, _size(kind, shape), place(node), colour, unknown,
                  shape.text("filename").strip() if kind == "mesh" else "", origin)


def _size(kind: str, shape: XmlNode) -> tuple[float, ...]:
    if kind == "mesh":
        return shape.vector("scale", (1.0, 1.0, 1.0))
    if kind == "box":
        shape.text("size")
        return shape.vector("size", (1.0, 1.0, 1.0))
    names = ("radius",) if kind == "sphere" else ("radius", "length")
    return tuple(shape.number(name) for name in names)


def _colour(node: XmlNode) -> Colour | None:
    """Red, green, blue and opacity; none if a material has no such colour."""
    for element in node.children("color"):
        try:
            values = [float(word) for word in (element.get("rgba") or "").split()]
        except ValueError:
            continue
        if len(values) in (3, 4):
            red, green, blue, opacity = (min(max(x, 0.0), 1.0) for x in (*values, 1.0)[:4])
            return red, green, blue, opacity
    return None
