"""A description as URDF text, where URDF has words for it.

A URDF joint sits at its child link's origin, so a link's frame can stay the author's if its
origin lies on the joint's axis (for a prismatic joint, anywhere). Where it does not, as in
standard DH tables, a massless link on the axis carries the joint and the link is fixed to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from nlink.formats.files import LARGEST
from nlink.formats.urdf_collisions import collision_element
from nlink.model.canonical import align
from nlink.model.description import Description, Friction, Joint, Limits, Link
from nlink.model.joints import Fixed, Free, Planar, Prismatic, Revolute
from nlink.model.names import SIGNS, distinct, first_few, fresh, plain
from nlink.model.pose import DH, Pose
from nlink.model.shapes import Ellipsoid, Hull

EARTH = (0.0, 0.0, -9.81)


def to_urdf(description: Description) -> str:
    """URDF text of the same mechanism; `urdf_losses` says what URDF has no words for.

    Links fixed to the base at its origin become the root link; without one it is a massless
    "world". Frames become massless links on fixed joints.

    >>> import nlink
    >>> to_urdf(nlink.load("planar3").description).splitlines()[:2]
    ['<robot name="planar3">', '  <link name="world" />']
    """
    description = plainly_named(description)
    robot = Element("robot", name=description.name)
    robot.extend(list(_elements(description)))
    links = {element.get("name"): element for element in robot if element.tag == "link"}
    for collision in description.collisions:
        shape = collision_element(collision, _origin(collision.shape.pose), numbers)
        if shape is not None:  # the first link is, or is fixed at, the base
            links.get(collision.link, robot[0]).append(shape)
    return xml_text(robot)


def xml_text(root: Element) -> str:
    """XML with a line for each element."""
    indent(root)
    return tostring(root, "unicode") + "\n"


def urdf_losses(description: Description) -> list[str]:
    """The parts of a description that URDF cannot express, one line for each kind."""
    lost = []
    if description.gravity != EARTH:
        lost.append(f"gravity {description.gravity}: URDF has none, and a reader takes {EARTH}")
    rotors = [joint.name for joint in description.joints if joint.rotor_inertia]
    if rotors:
        lost.append(f"armature: {len(rotors)} joints ({first_few(rotors)}), written as an "
                    "attribute that other readers pass over")
    if description.actuators:
        names = [each.name for each in description.actuators]
        lost.append(f"actuators: {len(names)} ({first_few(names)})")
    curves = [joint.name for joint in description.joints if joint.friction.excess]
    if curves:
        lost.append(f"breakaway friction: {len(curves)} joints ({first_few(curves)}), written as "
                    "attributes that other readers pass over")
    if description.source:
        lost.append("source: the text about where the numbers come from")
    lost += loop_losses(description)
    tables = [joint.name for joint in description.joints if isinstance(joint.placement, DH)]
    if tables:
        lost.append(f"DH parameters: {len(tables)} rows become placements ({first_few(tables)})")
    helped = [link.name for link, joint in zip(description.links, description.joints, strict=True)
              if _urdf_axis(joint) is None]
    if helped:
        lost.append(f"massless links added where a link's origin is off its joint's axis: "
                    f"{len(helped)} ({first_few(helped)})")
    if description.frames:
        frames = [frame.name for frame in description.frames]
        lost.append(f"frames become massless links: {len(frames)} ({first_few(frames)})")
    shapes = description.collisions
    unknown = [each.link for each in shapes if isinstance(each.shape, Ellipsoid | Hull)]
    if unknown:
        lost.append(f"ellipsoids and hulls that touch: {len(unknown)} ({first_few(unknown)})")
    own = [each.link for each in shapes if each.shape.friction is not None
           or each.shape.restitution is not None or each.shape.pairs_only]
    if own:
        lost.append(f"friction, restitution and pairs_only of shapes: {len(own)} "
                    f"({first_few(own)})")
    if description.world is not None:
        lost.append("the world, and pairs of links that touch")
    return lost + name_losses(description)


def plainly_named(description: Description) -> Description:
    """The description with plain names, each used once: what a generated file may carry."""
    links, joints, loops = map(distinct, _names(description))
    if not _changed(description):
        return description
    return replace(
        description, name=plain(description.name), physical="ignore",
        links=tuple(replace(link, name=links[link.name]) for link in description.links),
        frames=tuple(replace(frame, name=links[frame.name]) for frame in description.frames),
        collisions=tuple(replace(each, link=links.get(each.link, each.link))
                         for each in description.collisions),
        pairs=tuple((links.get(one, one), links.get(two, two))
                    for one, two in description.pairs),
        joints=tuple(replace(joint, name=joints[joint.name], mimic=joint.mimic and replace(
            joint.mimic, joint=joints[joint.mimic.joint])) for joint in description.joints),
        loops=tuple(replace(loop, name=loops[loop.name], of=replace(
            loop.of, name=f"{loops[loop.name]}.of"), on=replace(
            loop.on, name=f"{loops[loop.name]}.on")) for loop in description.loops),
        gears=tuple(replace(gear, ratios={joints[name]: x for name, x in gear.ratios.items()})
                    for gear in description.gears))


def name_losses(description: Description) -> list[str]:
    """A line about names that a generated file does not carry as they are."""
    changed = _changed(description)
    return [f"characters of names other than letters, digits and {SIGNS.strip()} become _: "
            f"{len(changed)} ({first_few(changed)})"] if changed else []


def _names(description: Description) -> tuple[list[str], list[str], list[str]]:
    """Names of links and frames, of joints, and of loops."""
    return ([item.name for item in (*description.links, *description.frames)],
            [joint.name for joint in description.joints],
            [loop.name for loop in description.loops])


def _changed(description: Description) -> list[str]:
    names = (description.name, *(name for kind in _names(description) for name in kind))
    return [name for name in names if plain(name) != name]


def loop_losses(description: Description) -> list[str]:
    """The loops, home and joints without a motor, which a tree format cannot express."""
    loops = [loop.name for loop in description.loops]
    passive = [joint.name for joint in description.joints if not joint.actuated]
    return [f"{what}: {len(names)} ({first_few(names)})" for what, names in (
        ("loops left open", loops),
        ("gears left out", [gear.name for gear in description.gears]),
        ("joints no longer known to be without a motor", passive)) if names] + (
            ["home: the configuration to start from"] if description.home else [])


def _elements(description: Description) -> Iterator[Element]:
    links, joints = description.links, description.joints
    names = {*(link.name for link in links), *(f.name for f in description.frames)}
    joint_names = {joint.name for joint in joints}
    on_base = [number for number, joint in enumerate(joints, 1) if joint.parent == 0]
    root = on_base[0] if len(on_base) == 1 and _coincides(joints[on_base[0] - 1]) else 0
    base = links[root - 1].name if root else fresh("world", names)
    yield _link(links[root - 1]) if root else Element("link", name=base)
    frame_of = [base, *(link.name for link in links)]
    for number, (link, joint) in enumerate(zip(links, joints, strict=True), 1):
        if number == root:
            continue
        parent, place = frame_of[joint.parent], joint.placement
        axis = _urdf_axis(joint)
        if axis is not None:
            yield _link(link)
            yield _joint(joint, parent, link.name, place.before @ place.after, axis)
            continue
        helper = fresh(f"{link.name}_axis", names)
        mount = fresh(f"{joint.name}_mount", joint_names)
        names.add(helper)
        joint_names.add(mount)
        yield Element("link", name=helper)
        yield _joint(joint, parent, helper, place.before,
                     np.array(joint.type.axis or (0.0, 0.0, 1.0)))
        yield _link(link)
        yield _joint(Joint(mount, Fixed()), helper, link.name, place.after, np.zeros(3))
    for frame in description.frames:
        name = fresh(f"{frame.name}_fixed", joint_names)
        joint_names.add(name)
        yield Element("link", name=frame.name)
        yield _joint(Joint(name, Fixed()), frame_of[frame.link], frame.name, frame.pose,
                     np.zeros(3))


def _coincides(joint: Joint) -> bool:
    place = joint.placement
    return isinstance(joint.type, Fixed) and place.before @ place.after == Pose()


def _urdf_axis(joint: Joint) -> np.ndarray | None:
    """The joint's axis in its link's own frame, or None if that frame is off the axis."""
    after, kind = joint.placement.after, joint.type
    axis = after.R.T @ np.array(kind.axis or (0.0, 0.0, 1.0))
    if isinstance(kind, Fixed | Prismatic):
        return axis
    if isinstance(kind, Revolute):
        off = np.cross(np.array(kind.axis), after.p)
        return axis if np.abs(off).max() <= 1e-15 * np.abs(after.p).max() else None
    if isinstance(kind, Planar):  # a reader has x and y from the axis
        same = np.abs(align(tuple(axis.tolist())).R - after.R.T).max() <= 1e-15
        return axis if same and after.origin == (0.0, 0.0, 0.0) else None
    return axis if after == Pose() else None


def _link(link: Link) -> Element:
    element = Element("link", name=link.name)
    if link.mass or np.any(link.inertia):
        inertial = SubElement(element, "inertial")
        SubElement(inertial, "origin", xyz=numbers(link.com))
        SubElement(inertial, "mass", value=numbers([link.mass]))
        SubElement(inertial, "inertia", {
            f"i{'xyz'[i]}{'xyz'[j]}": written(link.inertia[i][j]) for i in range(3)
            for j in range(i, 3)})
    return element


def _origin(pose: Pose) -> Element:
    return Element("origin", xyz=numbers(pose.origin), rpy=numbers(roll_pitch_yaw(pose.R)))


def _joint(joint: Joint, parent: str, child: str, origin: Pose, axis: np.ndarray) -> Element:
    kind, friction, mimic = _type(joint), joint.friction, joint.mimic
    element = Element("joint", name=joint.name, type=kind)
    SubElement(element, "parent", link=parent)
    SubElement(element, "child", link=child)
    element.append(_origin(origin))
    if kind not in ("fixed", "floating"):
        SubElement(element, "axis", xyz=numbers(axis))
    if friction != Friction() or joint.rotor_inertia:
        own = {"armature": joint.rotor_inertia, "breakaway": friction.breakaway,
               "stribeck": friction.stribeck}  # attributes of nlink's, which others pass over
        SubElement(element, "dynamics", {
            "damping": written(friction.viscous), "friction": written(friction.coulomb),
            **{name: written(x) for name, x in own.items() if x}})
    if kind in ("revolute", "prismatic") or (kind != "fixed" and joint.limits != Limits()):
        SubElement(element, "limit", _limits(joint.limits, kind))
    if mimic is not None:
        SubElement(element, "mimic", joint=mimic.joint, multiplier=written(mimic.multiplier),
                   offset=written(mimic.offset))
    return element


def _type(joint: Joint) -> str:
    kind = joint.type
    if isinstance(kind, Revolute):
        bounded = any(map(math.isfinite, joint.limits.position))
        return "revolute" if bounded else "continuous"
    for type, word in ((Prismatic, "prismatic"), (Fixed, "fixed"), (Free, "floating"),
                       (Planar, "planar")):
        if isinstance(kind, type):
            return word
    raise ValueError(f"joint {joint.name!r}: URDF has no {kind.name} joint")


def _limits(limits: Limits, kind: str) -> dict[str, str]:
    """Readers want numbers: one beyond all sense stands for none."""
    low, high, velocity, effort = (
        repr(float(min(max(x, -LARGEST), LARGEST)))
        for x in (*limits.position, limits.velocity, limits.effort))
    position = {"lower": low, "upper": high} if kind in ("revolute", "prismatic") else {}
    return position | {"velocity": velocity, "effort": effort}


def roll_pitch_yaw(R: np.ndarray) -> tuple[float, float, float]:
    """The angles of R = Rz(yaw) Ry(pitch) Rx(roll), to rounding even where yaw is arbitrary.

    Roll is taken from Rz(yaw)^T R, so that whatever yaw came out, the product is R.

    >>> roll_pitch_yaw(Pose.turn("y", math.pi / 2).R)
    (0.0, 1.5707963267948966, 0.0)
    """
    yaw = math.atan2(R[1, 0], R[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    pitch = math.atan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])
    roll = math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return roll, pitch, yaw


def numbers(values: Iterable[float]) -> str:
    """Numbers as an attribute has them, none of them -0.0."""
    return " ".join(map(written, values))


def written(value: float) -> str:
    """A number as an attribute has it: not -0.0, nor what NumPy calls it."""
    return repr(float(value) + 0.0)
