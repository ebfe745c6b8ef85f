"""URDF to a description: strict, safe, and with a report of all that is not dynamics.

A link's inertia I is given about its mass centre in axes turned by `rpy`: R I R^T in the
link's own. A joint's frame is its child link's frame. Links are numbered depth first, children
in the order of their joints' names, as urdfdom and with it Pinocchio do, so that q and v agree.

The root link hangs on the base by a fixed joint, which `load(..., floating=True)` frees.

The <visual> elements of a URDF file are for drawing, the <collision> elements for contact: what is
wrong with one is a note, and the mechanism is read all the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from nlink.formats.files import read_text
from nlink.formats.safe_xml import Notes, XmlNode, parse_xml
from nlink.formats.urdf_collisions import SHAPES, read_collisions, shape_size
from nlink.model.canonical import align
from nlink.model.constraints import CONSTRAINTS
from nlink.model.description import (
    Description,
    Frame,
    Friction,
    Joint,
    Limits,
    Link,
    Loop,
    Physical,
)
from nlink.model.joints import Fixed, Free, JointType, Planar, Prismatic, Revolute, unit_axis
from nlink.model.mimics import Mimic
from nlink.model.names import base_name, fresh
from nlink.model.pose import Mount, Pose
from nlink.model.visuals import Colour, ShapeName, Visual


def read_visuals(robot: XmlNode, origin: str, place: Callable[[XmlNode], Pose],
                 ) -> Iterator[Visual]:
    """The looks of the links of a robot; `place` reads the <origin> of an element."""
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
    shapes = [child for child in geometry.element if child.tag in SHAPES]
    if len(shapes) != 1:
        raise ValueError(f"{node.path}: {len(shapes)} shapes, expected one of "
                         f"{', '.join(sorted(SHAPES))}")
    shape = XmlNode(shapes[0], node.path, link, node.notes)
    colour, unknown = None, ""
    material = node.child("material")
    if material is not None:
        name = material.element.get("name") or ""
        colour = _colour(material) or materials.get(name)
        # a texture is not drawn, and a name that is defined nowhere is said when it is drawn
        unknown = name if colour is None and not material.children("texture") else ""
    kind: ShapeName = shapes[0].tag  # type: ignore[assignment]  # one of SHAPES
    return Visual(link, kind, shape_size(kind, shape), place(node), colour, unknown,
                  shape.text("filename").strip() if kind == "mesh" else "", origin)


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


ROOT_JOINT = "root_joint"
TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
_ZERO = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Edge:
    """A joint and the names of the links it connects."""

    joint: Joint
    parent: str
    child: str


def read_urdf(path: str | Path, *, physical: Physical = "warn") -> Description:
    """A description from a URDF file; its meshes are looked for when they are drawn."""
    return parse_urdf(read_text(path), origin=str(path), physical=physical)


def parse_urdf(text: str, *, origin: str = "<urdf>", physical: Physical = "warn") -> Description:
    """A description from URDF text.

    >>> parse_urdf('<robot name="x"><link name="a"><inertial><mass value="1"/></inertial></link>'
    ...            '</robot>')
    Traceback (most recent call last):
    ...
    ValueError: <urdf>: link 'a': inertial: no element <inertia>
    """
    notes = Notes(strict=physical == "error")
    root = parse_xml(text, origin, notes=notes)
    try:
        return _read_robot(root, origin, physical, notes)
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from None


def _read_robot(element: Element, origin: str, physical: Physical, notes: Notes) -> Description:
    stem = Path(origin).stem
    if element.tag != "robot":
        raise ValueError(f"root element <{element.tag}>, expected <robot>")
    # a tag in a namespace is {namespace}name; comments have no text for a tag
    if any("xacro" in str(child.tag).rpartition("}")[0] for child in element.iter()):
        raise ValueError("is a xacro file, a program that writes URDF: expand it first")
    robot = XmlNode(element, "robot", "", notes)
    robot.used({"link", "joint", "loop_joint", "material"}, {"name", "version"}, "robot")
    if not element.get("name"):
        notes.add("robot without a name, named by its file", stem)
    links = [_read_link(_named(e, "link", notes)) for e in robot.children("link")]
    edges = _sound_mimics(
        [_read_joint(_named(e, "joint", notes)) for e in robot.children("joint")], notes)
    root, order = _depth_first([link.name for link in links], edges)
    numbers = {root: 1} | {edge.child: number for number, edge in enumerate(order, 2)}
    by_name = {link.name: link for link in links}
    visuals = tuple(read_visuals(robot, origin, _origin))
    collisions = tuple(read_collisions(robot, origin, _origin))
    return Description(
        name=element.get("name") or stem,
        links=tuple(by_name[name] for name in numbers),
        joints=(Joint(fresh(ROOT_JOINT, [edge.joint.name for edge in edges]), Fixed()),
                *(replace(edge.joint, parent=numbers[edge.parent]) for edge in order)),
        loops=tuple(_read_loop(_named(e, "loop_joint", notes), numbers)
                    for e in robot.children("loop_joint")),
        report=(*notes.lines(), *_remark(root, by_name)), physical=physical, visuals=visuals,
        collisions=collisions)


def _remark(root: str, names: Collection[str]) -> Iterator[str]:
    """A link called base that is not the root is elsewhere than the frame that never moves."""
    if "base" in names and root != "base":
        yield f"frame 'base' is the file's link; the one that never moves is {base_name(names)!r}"


def _named(element: Element, tag: str, notes: Notes) -> XmlNode:
    name = XmlNode(element, tag, tag, notes).text("name")
    return XmlNode(element, f"{tag} {name!r}", name, notes)


def _read_link(node: XmlNode) -> Link:
    node.used({"inertial", "visual", "collision"}, {"name"}, "link")
    inertial = node.child("inertial")
    if inertial is None:
        node.notes.add("link without <inertial> read as massless", node.owner)
        return Link(node.owner)
    inertial.used({"origin", "mass", "inertia"}, set(), "inertial")
    pose = _origin(inertial)
    mass = inertial.child("mass")
    if mass is None:
        node.notes.repair("<inertial> without <mass>", "read as massless", node.owner)
        if inertial.child("inertia") is None:
            return Link(node.owner, com=pose.origin)
    else:
        mass.used(set(), {"value"}, "mass")
    moments = inertial.needed("inertia")
    moments.used(set(), {"ixx", "iyy", "izz", "ixy", "ixz", "iyz"}, "inertia")
    xx, yy, zz = (moments.number(name) for name in ("ixx", "iyy", "izz"))
    for name in ("ixy", "ixz", "iyz"):
        if moments.element.get(name) is None:
            node.notes.add("product of inertia not given, read as zero", node.owner)
    xy, xz, yz = (moments.number(name, 0.0) for name in ("ixy", "ixz", "iyz"))
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if pose.rotation != Pose().rotation:
        tensor = pose.R @ tensor @ pose.R.T
        tensor = (tensor + tensor.T) / 2
    return Link(node.owner, 0.0 if mass is None else mass.number("value"), pose.origin,
                tuple(map(tuple, tensor.tolist())))  # type: ignore[arg-type]


def _origin(node: XmlNode) -> Pose:
    """T = shift by xyz, then Rz(yaw) Ry(pitch) Rx(roll)."""
    origin = node.child("origin")
    if origin is None:
        return Pose()
    origin.used(set(), {"xyz", "rpy"}, "origin")
    return _placed(origin)


def _placed(node: XmlNode) -> Pose:
    """The pose in the attributes xyz and rpy."""
    roll, pitch, yaw = node.vector("rpy", _ZERO)
    x, y, z = node.vector("xyz", _ZERO)
    turn = Pose.turn("z", yaw) @ Pose.turn("y", pitch) @ Pose.turn("x", roll)
    return Pose.shift(x, y, z) @ turn


def _read_joint(node: XmlNode) -> _Edge:
    kind = node.text("type").strip()
    if kind not in TYPES:
        raise ValueError(f"{node.path}: type {kind!r}, expected one of {', '.join(TYPES)}")
    node.used({"origin", "parent", "child", "axis", "limit", "dynamics", "mimic"},
              {"name", "type"}, "joint")
    ends = [node.needed(tag) for tag in ("parent", "child")]
    for end in ends:
        if len(node.children(end.element.tag)) > 1:  # a tree of which nobody knows the shape
            raise ValueError(f"{node.path}: more than one <{end.element.tag}>, expected one")
        end.used(set(), {"link"}, end.element.tag)
    seat = _origin(node)
    if kind == "fixed":
        for tag in ("limit", "dynamics", "mimic"):
            if node.child(tag) is not None:
                node.notes.add(f"{tag} of fixed joint ignored", node.owner)
        joint = Joint(node.owner, Fixed(), placement=Mount(seat))
    else:
        type, mount = _motion(kind, _axis(node), seat)
        joint = Joint(node.owner, type, placement=mount, friction=_dynamics(node),
                      armature=_armature(node, kind), limits=_limits(node, kind),
                      mimic=_mimic(node))
    return _Edge(joint, ends[0].text("link"), ends[1].text("link"))


def _read_loop(node: XmlNode, numbers: dict[str, int]) -> Loop:
    """A `loop_joint`, an extension of URDF that Drake had: link2 is held on link1."""
    kind = node.text("type").strip()
    kind = {"continuous": "revolute", "ball": "spherical"}.get(kind, kind)
    known = [name for name, constraint in CONSTRAINTS.items()
             if not fields(constraint)]  # type: ignore[arg-type]
    if kind not in known:
        raise ValueError(f"{node.path}: type {kind!r}, expected one of {', '.join(known)}")
    node.used({"link1", "link2", "axis"}, {"name", "type"}, "loop_joint")
    turn, ends = align(_axis(node)) if node.child("axis") is not None else Pose(), []
    for tag in ("link2", "link1"):
        end = node.needed(tag)
        end.used(set(), {"link", "xyz", "rpy"}, tag)
        link = end.text("link")
        if link not in numbers:
            raise ValueError(f"{node.path}: {tag} {link!r} does not exist")
        ends.append(Frame(f"{node.owner}.{tag}", numbers[link], _placed(end) @ turn))
    return Loop(node.owner, CONSTRAINTS[kind](), *ends)


def _motion(kind: str, axis: tuple[float, float, float], seat: Pose) -> tuple[JointType, Mount]:
    """The joint type, and frames in which its axis is where URDF has it.

    A planar joint moves across its axis: x and y are those of `align(axis)`, for the z axis
    the joint's own.
    """
    if kind == "floating":
        return Free(), Mount(seat)
    if kind == "planar":
        turn = align(axis)
        return Planar(), Mount(seat @ turn, turn.inverse())
    return (Prismatic if kind == "prismatic" else Revolute)(axis), Mount(seat)


def _axis(node: XmlNode) -> tuple[float, float, float]:
    axis = node.child("axis")
    if axis is None:
        return (1.0, 0.0, 0.0)
    axis.used(set(), {"xyz"}, "axis")
    given = axis.vector("xyz", (1.0, 0.0, 0.0))
    try:
        unit = unit_axis(given)
    except ValueError as error:
        raise ValueError(f"{node.path}: {error}") from None
    if max(abs(a - b) for a, b in zip(given, unit, strict=True)) > 1e-12:
        node.notes.add("axis scaled to unit length", node.owner)
    return unit


def _dynamics(node: XmlNode) -> Friction:
    dynamics = node.child("dynamics")
    if dynamics is None:
        return Friction()
    dynamics.used(set(), {"damping", "friction", "armature", "breakaway", "stribeck"}, "dynamics")
    return Friction(*(dynamics.number(name, 0.0)
                      for name in ("damping", "friction", "breakaway", "stribeck")))


def _armature(node: XmlNode, kind: str) -> float:
    """An attribute that nlink writes."""
    dynamics = node.child("dynamics")
    return 0.0 if dynamics is None or kind == "floating" else dynamics.number("armature", 0.0)


def _limits(node: XmlNode, kind: str) -> Limits:
    limit = node.child("limit")
    bounded = kind in ("revolute", "prismatic")
    if limit is None:
        if bounded:
            node.notes.add("joint without <limit> read as unbounded", node.owner)
        return Limits()
    limit.used(set(), {"lower", "upper", "velocity", "effort"}, "limit")
    low, high = (limit.number(name, 0.0, infinite=True) for name in ("lower", "upper"))
    velocity, effort = (limit.number(name, math.inf, infinite=True)
                        for name in ("velocity", "effort"))
    if not bounded:
        return Limits(velocity=velocity, effort=effort)
    if low > high:
        node.notes.repair("lower limit above the upper", "exchanged", node.owner)
        low, high = high, low
    return Limits((low, high), velocity, effort)


def _mimic(node: XmlNode) -> Mimic | None:
    mimic = node.child("mimic")
    if mimic is None:
        return None
    mimic.used(set(), {"joint", "multiplier", "offset"}, "mimic")
    return Mimic(mimic.text("joint"), mimic.number("multiplier", 1.0), mimic.number("offset", 0.0))


def _sound_mimics(edges: list[_Edge], notes: Notes) -> list[_Edge]:
    """Joints without what they cannot follow, and a note about all that follow."""
    rates = {edge.joint.name: edge.joint.type.nv for edge in edges}

    def sound(edge: _Edge) -> _Edge:
        mimic = edge.joint.mimic
        if mimic is None:
            return edge
        if mimic.joint in rates and rates[mimic.joint] == rates[edge.joint.name] == 1:
            notes.add("mimic joint read as independent, unless by robot.geared",
                      f"{edge.joint.name} = {mimic.multiplier:g} {mimic.joint} + {mimic.offset:g}")
            return edge
        why = ("that does not exist" if mimic.joint not in rates
               else "ignored, one of the two has not one rate")
        notes.add(f"mimic of a joint {why}", f"{edge.joint.name} of {mimic.joint}")
        return replace(edge, joint=replace(edge.joint, mimic=None))

    return [sound(edge) for edge in edges]


def _depth_first(names: list[str], edges: list[_Edge]) -> tuple[str, list[_Edge]]:
    """The root, and the joints from it outward: children by name, each with all beyond it."""
    known = set(names)
    if len(known) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"link {twice!r}: the name is used twice")
    below: dict[str, list[_Edge]] = {}
    above: dict[str, _Edge] = {}
    for edge in sorted(edges, key=lambda edge: edge.joint.name.encode()):
        who = f"joint {edge.joint.name!r}"
        for role, name in (("parent", edge.parent), ("child", edge.child)):
            if name not in known:
                raise ValueError(f"{who}: {role} link {name!r} does not exist")
        if edge.child in above:
            raise ValueError(f"link {edge.child!r}: hangs on two joints, "
                             f"{above[edge.child].joint.name!r} and {edge.joint.name!r}")
        above[edge.child] = edge
        below.setdefault(edge.parent, []).append(edge)
    roots = [name for name in names if name not in above]
    if not names:
        raise ValueError("no links, expected at least one")
    if len(roots) != 1:
        found = ", ".join(map(repr, roots[:4])) or "none, so there is a cycle"
        raise ValueError(f"{len(roots)} root links ({found}), "
                         "expected one that is no joint's child")
    order: list[_Edge] = []
    waiting = below.get(roots[0], [])[::-1]
    while waiting:
        edge = waiting.pop()
        order.append(edge)
        waiting += below.get(edge.child, [])[::-1]
    if len(order) != len(edges):
        reached = {roots[0], *(edge.child for edge in order)}
        lost = next(name for name in names if name not in reached)
        raise ValueError(f"link {lost!r}: in a cycle of joints, expected a tree")
    return roots[0], order
