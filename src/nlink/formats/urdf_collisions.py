"""The <collision> elements of a URDF file: shapes of links that touch, read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from xml.etree.ElementTree import Element, SubElement

from nlink.formats.safe_xml import XmlNode
from nlink.model.pose import Pose
from nlink.model.shapes import Box, Capsule, Cylinder, MeshShape, SolidShape, Sphere
from nlink.model.world import Collision

SHAPES = {"box", "sphere", "cylinder", "capsule", "mesh"}
"""The elements of a <geometry>."""


def read_collisions(robot: XmlNode, origin: str, place: Callable[[XmlNode], Pose],
                    ) -> Iterator[Collision]:
    """The shapes of links that touch; what is wrong with one is a note. `place` reads the
    <origin> of an element."""
    for element in robot.children("link"):
        link = element.get("name") or ""
        for child in element.findall("collision"):
            node = XmlNode(child, f"link {link!r}: collision", link, robot.notes)
            try:
                yield Collision(link, _shape(node, link, origin, place(node)),
                                node.element.get("name") or "")
            except ValueError as error:
                reason = str(error).removeprefix(f"{node.path}: ")
                robot.notes.add(f"collision not read ({reason})", link)


def _shape(node: XmlNode, link: str, origin: str, pose: Pose) -> SolidShape:
    node.used({"origin", "geometry"}, {"name"}, "collision")
    shapes = [child for child in node.needed("geometry").element if child.tag in SHAPES]
    kinds = [shape.tag for shape in shapes]
    if len(kinds) != 1:
        raise ValueError(f"{' and '.join(kinds) or 'no shape'}, expected one of "
                         f"{', '.join(sorted(SHAPES))}")
    element = XmlNode(shapes[0], node.path, link, node.notes)
    kind, numbers = kinds[0], shape_size(kinds[0], element)
    if kind == "mesh":
        return MeshShape(element.text("filename").strip(), origin,
                         (numbers[0], numbers[1], numbers[2]), pose=pose)
    if kind == "box":
        return Box((numbers[0], numbers[1], numbers[2]), pose=pose)
    if kind == "sphere":
        return Sphere(numbers[0], pose=pose)
    return (Cylinder if kind == "cylinder" else Capsule)(numbers[0], numbers[1], pose=pose)


def shape_size(kind: str, shape: XmlNode) -> tuple[float, ...]:
    """The numbers of a shape in a <geometry>, in the order of `Visual.size`."""
    if kind == "mesh":
        return shape.vector("scale", (1.0, 1.0, 1.0))
    if kind == "box":
        shape.text("size")
        return shape.vector("size", (1.0, 1.0, 1.0))
    names = ("radius",) if kind == "sphere" else ("radius", "length")
    return tuple(shape.number(name) for name in names)


def collision_element(collision: Collision, origin: Element,
                      written: Callable[[Iterable[float]], str]) -> Element | None:
    """A <collision> with its <origin>; None of a shape that URDF has no word for."""
    shape = collision.shape
    if isinstance(shape, Box):
        sizes = {"size": written(shape.edges)}
    elif isinstance(shape, Sphere):
        sizes = {"radius": written([shape.radius])}
    elif isinstance(shape, Cylinder | Capsule):
        sizes = {"radius": written([shape.radius]), "length": written([shape.length])}
    elif isinstance(shape, MeshShape):
        sizes = {"filename": shape.file, "scale": written(shape.scale)}
    else:
        return None
    element = Element("collision", {"name": collision.name} if collision.name else {})
    element.append(origin)
    SubElement(SubElement(element, "geometry"), shape.kind, sizes)
    return element
