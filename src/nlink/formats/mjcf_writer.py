"""A description as MJCF text, and what MJCF has no words for.

MuJoCo puts the joints of a body into the body's own frame. A moving body needs a mass there, but
may have several joints: a massless link between two of them is not written as a body, its joint
goes to the link it carries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from nlink.formats.actuator_tables import write_actuators
from nlink.formats.urdf_writer import (
    loop_losses,
    name_losses,
    numbers,
    plainly_named,
    written,
    xml_text,
)
from nlink.model.actuators import Actuator
from nlink.model.constraints import Ball, Rigid
from nlink.model.description import Description, Frame, Joint, Link, Loop, inertia_rounding
from nlink.model.gears import Gear
from nlink.model.joints import Fixed, Free, Planar, Prismatic, Revolute, Spherical, Universal
from nlink.model.names import first_few, fresh
from nlink.model.pose import DH, Pose

DEEPEST = 496
"""Bodies nest, and MuJoCo's reader takes this many within one another."""
MOST_RATES = 6
"""The most rates that the joints of one body have."""
LEAST = 1e-15
"""MuJoCo's least mass and moment of inertia of a body that moves."""
CHAINED = (Revolute, Prismatic, Universal, Planar)
"""Joints that may share a body: hinges and slides."""


def to_mjcf(description: Description) -> str:
    """MJCF text of the mechanism: bodies, joints, inertias and frames (as sites), contacts off;
    `mjcf_losses` says what MJCF has no words for.

    MuJoCo asks for positive definite inertias, which rods and point masses have not: their
    moments are raised by what is rounding beside the mass. `balanceinertia` stays off, so what
    it accepts it takes as given.

    >>> import nlink
    >>> to_mjcf(nlink.load("planar3").description).splitlines()[0]
    '<mujoco model="planar3">'
    """
    description = plainly_named(description)
    root = Element("mujoco", model=description.name)
    SubElement(root, "compiler", angle="radian", inertiafromgeom="false", boundmass="0",
               boundinertia="0")
    option = SubElement(root, "option", gravity=numbers(description.gravity), integrator="RK4",
                        timestep="0.001")
    flag = SubElement(option, "flag", contact="disable", limit="disable", frictionloss="disable")
    _fill(SubElement(root, "worldbody"), _Plan.of(description))
    loops, gears = _written(description), _written_gears(description)
    if loops or gears:
        # equalities of sites need no closed configuration to begin with
        equality = SubElement(root, "equality")
        for loop in loops:
            kind = "connect" if isinstance(loop.constraint, Ball) else "weld"
            SubElement(equality, kind, name=loop.name, site1=loop.on.name, site2=loop.of.name)
        for gear in gears:
            (one, ratio), *rest = gear.ratios.items()
            own = {"name": gear.name, "joint1": one}
            slope = 0.0
            for two, x in rest:
                own["joint2"], slope = two, -x / ratio
            SubElement(equality, "joint", own, polycoef=numbers(
                (gear.offset / ratio, slope, 0.0, 0.0, 0.0)))
    else:
        flag.set("constraint", "disable")
    write_actuators(root, _driven(description))
    return xml_text(root)


def _driven(description: Description) -> list[Actuator]:
    """Actuators on hinges and slides, which MJCF has as they are."""
    joints = {joint.name for joint in description.joints
              if isinstance(joint.type, Revolute | Prismatic)}
    return [each for each in description.actuators if each.joint in joints]


@dataclass(frozen=True, slots=True)
class _Plan:
    """The links that become bodies, each with the links whose joints it gets."""

    description: Description
    bodies: dict[int, tuple[int, ...]]
    """The link that is a body, and the links whose joints it has, from its parent outward."""
    children: dict[int, list[int]]
    """The bodies within each body, by link; 0 is the world."""

    @classmethod
    def of(cls, description: Description) -> _Plan:
        below = description.children
        with_frames = {frame.link for frame in _frames(description)}
        waiting: dict[int, tuple[int, ...]] = {}  # merged links, and the joints so far
        bodies: dict[int, tuple[int, ...]] = {}
        children: dict[int, list[int]] = {}
        for number, (link, joint) in enumerate(
                zip(description.links, description.joints, strict=True), 1):
            chain = (*waiting.get(joint.parent, ()), number)
            further = [description.joints[k - 1].type for k in below.get(number, [])]
            rates = sum(description.joints[k - 1].type.nv for k in chain)
            if (_massless(link) and number not in with_frames and len(further) == 1
                    and isinstance(joint.type, CHAINED) and isinstance(further[0], CHAINED)
                    and rates + further[0].nv <= MOST_RATES):
                waiting[number] = chain
                continue
            bodies[number] = chain
            parent = description.joints[chain[0] - 1].parent
            children.setdefault(parent, []).append(number)
        return cls(description, bodies, children)

    @property
    def merged(self) -> list[str]:
        return [link.name for number, link in enumerate(self.description.links, 1)
                if number not in self.bodies]

    def name(self, number: int) -> str:
        """A link's name; MuJoCo has a body called world already."""
        name = self.description.links[number - 1].name
        if name != "world":
            return name
        return fresh(name, ["world", *(link.name for link in self.description.links)])


def _written(description: Description) -> list[Loop]:
    """The loops that MuJoCo has: balls and rigid ones."""
    return [loop for loop in description.loops if isinstance(loop.constraint, Ball | Rigid)]


def _written_gears(description: Description) -> list[Gear]:
    """The gears that MuJoCo has: those of one or two joints."""
    return [gear for gear in description.gears if len(gear.ratios) <= 2]


def _massless(link: Link) -> bool:
    return not link.mass and not np.any(link.inertia)


def _fill(world: Element, plan: _Plan) -> None:
    """Put all bodies into the world's, each into its parent's."""
    description = plan.description
    world.extend(_sites(description, 0))
    waiting = [(number, world, 0) for number in reversed(plan.children.get(0, []))]
    while waiting:  # chains are too long for a function that calls itself
        number, parent, deep = waiting.pop()
        body, deeper = _body(plan, number, parent)
        deep += deeper
        if deep > DEEPEST:
            raise ValueError(f"{description.name}: link {description.links[number - 1].name!r} is "
                             f"body {deep} of a chain, and MuJoCo reads at most {DEEPEST} within "
                             "one another")
        waiting += [(child, body, deep) for child in reversed(plan.children.get(number, []))]


def _body(plan: _Plan, number: int, parent: Element) -> tuple[Element, int]:
    """A new body whose frame is the link's own, and how many bodies were needed for it.

    A quaternion of MuJoCo's turns the body's own axes, so the body of a ball or free joint has
    the joint's frame, and a link whose frame is elsewhere is a body fixed in it.
    """
    description, name = plan.description, plan.name(number)
    link, last = description.links[number - 1], description.joints[number - 1]
    before, after = last.placement.before, last.placement.after
    needed = 1
    if isinstance(last.type, Spherical | Free) and after != Pose():
        seat = SubElement(parent, "body", _pose(before))
        seat.extend(_joints(last, Pose(), plan))
        body = SubElement(seat, "body", {"name": name, **_pose(after)})
        needed = 2
    else:
        joints: list[Element] = []
        rest = Pose()  # the body seen from a joint's frame, at q = 0
        for k in reversed(plan.bodies[number]):
            joint = description.joints[k - 1]
            rest = joint.placement.after @ rest
            joints = [*_joints(joint, rest.inverse(), plan), *joints]
            rest = joint.placement.before @ rest
        body = SubElement(parent, "body", {"name": name, **_pose(rest)})
        body.extend(joints)
    body.extend([*_inertial(link), *_sites(description, number)])
    return body, needed


def _joints(joint: Joint, frame: Pose, plan: _Plan) -> list[Element]:
    """The joint's elements, `frame` being its frame in the body's."""
    kind = joint.type
    x, y, z = np.eye(3)
    if isinstance(kind, Free):
        if joint.parent or joint.placement.before != Pose():
            raise ValueError(f"joint {joint.name!r}: MuJoCo's free joint is that of a body of the "
                             "world, placed at its origin")
        parts = [("free", None, "")]
    elif isinstance(kind, Revolute | Prismatic):
        hinge = "hinge" if isinstance(kind, Revolute) else "slide"
        parts = [(hinge, np.array(kind.axis), "")]
    elif isinstance(kind, Spherical):
        parts = [("ball", None, "")]
    elif isinstance(kind, Universal):
        parts = [("hinge", z, "_z"), ("hinge", x, "_x")]
    elif isinstance(kind, Planar):
        parts = [("slide", x, "_x"), ("slide", y, "_y"), ("hinge", z, "_z")]
    elif isinstance(kind, Fixed):
        parts = []
    else:
        raise ValueError(f"joint {joint.name!r}: a {kind.name} joint has no twin in MuJoCo")
    names = {other.name for other in plan.description.joints}
    elements = []
    for type, axis, suffix in parts:
        name = fresh(joint.name + suffix, names) if suffix else joint.name
        element = Element("joint", name=name, type=type)
        if not isinstance(kind, Free):
            element.set("pos", numbers(frame.p))
        if axis is not None:
            element.set("axis", numbers(frame.R @ axis))
        if _bounded(joint):
            element.set("range", numbers(joint.limits.position))
        element.set("armature", written(joint.rotor_inertia))
        element.set("damping", written(joint.friction.viscous))
        element.set("frictionloss", written(joint.friction.coulomb))
        elements.append(element)
    return elements


def _bounded(joint: Joint) -> bool:
    """Whether MuJoCo has a range for the joint's limits: two numbers, of a hinge or slide."""
    low, high = joint.limits.position
    return (isinstance(joint.type, Revolute | Prismatic) and math.isfinite(low)
            and math.isfinite(high) and low < high)


def _sites(description: Description, number: int) -> list[Element]:
    return [Element("site", {"name": frame.name, **_pose(frame.pose)})
            for frame in _frames(description) if frame.link == number]


def _frames(description: Description) -> list[Frame]:
    """The frames of the description, and those that loops hold."""
    return [*description.frames,
            *(end for loop in _written(description) for end in (loop.of, loop.on))]


def _inertial(link: Link) -> list[Element]:
    """MuJoCo wants a mass: a body without one has no inertial element."""
    if not link.mass:
        return []
    moments, axes = _principal(link)
    element = Element("inertial", pos=numbers(link.com), mass=written(link.mass),
                      diaginertia=numbers(_raised(link.mass, moments)))
    if not np.array_equal(axes, np.eye(3)):
        element.set("xyaxes", numbers((*axes[:, 0], *axes[:, 1])))
    return [element]


def _principal(link: Link) -> tuple[np.ndarray, np.ndarray]:
    """Moments about principal axes, and these as columns."""
    tensor = np.array(link.inertia, dtype=float)
    moments, axes = np.diag(tensor), np.eye(3)
    if np.any(tensor - np.diag(moments)):
        moments, axes = np.linalg.eigh(tensor)
        axes[:, 2] = np.cross(axes[:, 0], axes[:, 1])
    return moments, axes


def _raised(mass: float, moments: np.ndarray) -> np.ndarray:
    """Moments as MuJoCo wants them, a >= LEAST and a + b >= c, if only rounding is missing."""
    a, b, c = np.argsort(moments)
    for least in (LEAST, 0.0):  # a body that does not move may have less
        raised = np.maximum(moments, least)
        while raised[a] + raised[b] < raised[c]:
            raised[a] = np.nextafter(max(raised[a], raised[c] - raised[b]), np.inf)
        if np.max(raised - moments) <= inertia_rounding(mass, moments):
            return raised
    return moments


def _pose(pose: Pose) -> dict[str, str]:
    x, y = pose.R[:, 0], pose.R[:, 1]
    return {"pos": numbers(pose.origin), "xyaxes": numbers((*x, *y))}


def mjcf_losses(description: Description) -> list[str]:
    """The parts of a description that our MJCF cannot express, one line for each kind."""
    plan = _Plan.of(description)
    joints = [joint for joint in description.joints if joint.type.nv]
    massive = [link for link in description.links if link.mass]
    lost = ["source: the text about where the numbers come from"] if description.source else []
    written = _written(description)
    lost += loop_losses(replace(description, physical="ignore", loops=tuple(
        loop for loop in description.loops if loop not in written), gears=tuple(
        gear for gear in description.gears if len(gear.ratios) > 2)))
    for what, names in (
            ("DH parameters become placements",
             _which(joints, lambda j: isinstance(j.placement, DH))),
            ("limits of velocity and effort", _which(joints, lambda j: (
                math.isfinite(j.limits.velocity) or math.isfinite(j.limits.effort)))),
            ("position limits that MuJoCo has no range for, such as one-sided ones",
             _which(joints, lambda j: _limited(j) and not _bounded(j))),
            ("position limits written but inactive", _which(joints, _bounded)),
            ("Coulomb friction written as frictionloss but inactive",
             _which(joints, lambda j: j.friction.coulomb > 0)),
            ("breakaway friction", _which(joints, lambda j: j.friction.excess > 0)),
            ("universal and planar joints become several",
             _which(joints, lambda j: isinstance(j.type, Universal | Planar))),
            ("rotors behind gears become armatures", _which(joints, lambda j: j.motor.inertia > 0)),
            ("actuators", [each.name for each in description.actuators
                           if each not in _driven(plainly_named(description))]),
            ("mimic joints become independent", _which(joints, lambda j: j.mimic is not None)),
            ("loops become MuJoCo's soft equalities", [loop.name for loop in written]),
            ("gears become MuJoCo's soft equalities",
             [gear.name for gear in _written_gears(description)]),
            ("inertia of links without mass",
             [link.name for link in description.links if not link.mass and np.any(link.inertia)]),
            ("massless links left out, their joints given to the links they carry", plan.merged),
            ("link renamed, since MuJoCo's own body has that name",
             [link.name for link in description.links if link.name == "world"]),
            ("moments of inertia raised to what MuJoCo accepts, which is rounding beside the mass",
             [link.name for link in massive
              if np.any(_written_moments(link) > np.sort(_principal(link)[0]))]),
            ("MuJoCo refuses links with moments of inertia that no body has",
             [link.name for link in massive if _impossible(link)]),
            ("MuJoCo refuses links that move and have no mass or no inertia",
             _weightless(plan))):
        if names:
            lost.append(f"{what}: {len(names)} ({first_few(names)})")
    lost += name_losses(description)
    if joints:
        lost.append("contacts, limits and dry friction are switched off: there is no geometry")
    return lost


def _which(joints: list[Joint], holds: Callable[[Joint], bool]) -> list[str]:
    return [joint.name for joint in joints if holds(joint)]


def _limited(joint: Joint) -> bool:
    return any(map(math.isfinite, joint.limits.position))


def _written_moments(link: Link) -> np.ndarray:
    """The principal moments in the file, in order."""
    return np.sort(_raised(link.mass, _principal(link)[0]))


def _impossible(link: Link) -> bool:
    """Whether a moment in the file is larger than the other two together."""
    a, b, c = _written_moments(link)
    return bool(a + b < c)


def _weightless(plan: _Plan) -> list[str]:
    """Bodies with a joint that have, as those fixed in them, not the mass and inertia it needs."""
    links, joints = plan.description.links, plan.description.joints
    sound: set[int] = set()
    found = []
    for number in reversed(plan.bodies):
        joint, link = joints[number - 1], links[number - 1]
        if link.mass >= LEAST and _written_moments(link)[0] >= LEAST:
            sound.add(number)
        if isinstance(joint.type, Fixed):
            sound |= {joint.parent} if number in sound else set()
        elif number not in sound:
            found.append(link.name)
    return found[::-1]
