"""Other mechanisms from a given one: loads, friction, another base, locked joints, sub-chains.

Each function takes a description and returns another; names, numbers of links and all data that
is not the edit's own stay as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from nlink.model.actuators import Motor
from nlink.model.canonical import align
from nlink.model.coordinates import frame_place, joint_number, joint_slices, link_number
from nlink.model.description import (
    Description,
    Frame,
    Friction,
    Joint,
    Limits,
    Link,
    Loop,
    NonPhysicalWarning,
)
from nlink.model.gears import Gear
from nlink.model.joints import Fixed, Free, JointType, Prismatic, Revolute
from nlink.model.mimics import leads
from nlink.model.names import first_few
from nlink.model.pose import DH, Mount, Placement, Pose
from nlink.model.world import Collision
from nlink.scalars.arrays import single
from nlink.spatial import Matrix, Rotation, Vector

UPRIGHT = (0.0, 0.0, 1.0)
PerJoint = float | Sequence[float] | Mapping[str, float]
"""A number for all joints, one for each that moves, or numbers by the names of joints."""


def combined(link: Link, mass: float, com: np.ndarray, inertia: np.ndarray) -> Link:
    """A link and a body in its frame as one: m c = sum m_i c_i, I = sum I_i + m_i d_i~ d_i~^T with
    d_i from the common mass centre to that of each."""
    total = link.mass + mass
    own = np.array(link.com)
    centre = (link.mass * own + mass * com) / total if total else own
    tensor = np.array(link.inertia) + inertia
    for m, c in ((link.mass, own), (mass, com)):
        d = c - centre
        tensor = tensor + m * (d @ d * np.eye(3) - np.outer(d, d))
    tensor = (tensor + tensor.T) / 2
    return replace(link, mass=total, com=tuple(centre.tolist()),
                   inertia=tuple(map(tuple, tensor.tolist())))


def with_payload(description: Description, mass: float, com: Any = (0.0, 0.0, 0.0),
                 inertia: Any = None, frame: int | str = -1) -> Description:
    """The mechanism with a body fixed in a frame, its inertia added to that of the link."""
    weight = float(single("mass", mass, ()))
    if weight < 0:
        raise ValueError(f"mass: {mass}, expected a number >= 0")
    link, pose = frame_place(description, frame)
    if link == 0:
        raise ValueError(f"frame: {frame!r} never moves, expected one of a link")
    centre = pose.R @ single("com", com, (3,)) + pose.p
    given = np.zeros((3, 3)) if inertia is None else np.asarray(inertia, dtype=float)
    tensor = single("inertia", np.diag(given) if given.ndim == 1 else given, (3, 3))
    if np.abs(tensor - tensor.T).max() > 1e-9 * np.abs(tensor).max():
        raise ValueError("inertia: not symmetric, expected the moments about the mass centre")
    carrier = description.links[link - 1]
    links = list(description.links)
    links[link - 1] = combined(carrier, weight, centre, pose.R @ tensor @ pose.R.T)
    return replace(description, links=tuple(links), report=(
        *description.report, f"payload of {weight:g} kg merged into link {carrier.name!r}"))


def per_joint(description: Description, name: str, given: PerJoint) -> dict[int, float]:
    """What is given for joints, by their numbers in `joints`.

    One number is for all joints that move but free ones, which no motor and no bearing has.
    """
    moving = [k for k, joint in enumerate(description.joints) if joint.type.nv]
    if isinstance(given, Mapping):
        places = [joint_number(description, key) for key in given]
        values = [float(single(f"{name} of {key!r}", x, ())) for key, x in given.items()]
    elif np.ndim(given) == 0:
        places = [k for k in moving if not isinstance(description.joints[k].type, Free)]
        values = [float(single(name, given, ()))] * len(places)
    else:
        places = moving
        values = single(name, given, (len(moving),), ": one for each joint that moves").tolist()
    return dict(zip(places, values, strict=True))


def edited(description: Description, **changes: Any) -> Description:
    """A description with other parts, and no second warning about numbers that it had before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NonPhysicalWarning)
        return replace(description, **changes)


def _with_joints(description: Description, new: Mapping[int, Joint], **changes: Any,
                 ) -> Description:
    return edited(description, joints=tuple(
        new.get(k, joint) for k, joint in enumerate(description.joints)), **changes)


def with_friction(description: Description, **values: PerJoint | None) -> Description:
    """The mechanism with other friction; what is None stays. Names are those of `Friction`."""
    known = [field.name for field in fields(Friction)]
    joints = dict(enumerate(description.joints))
    for name, given in values.items():
        if name not in known:
            raise TypeError(f"friction: unknown {name!r}, expected some of {', '.join(known)}")
        if given is None:
            continue
        called = "dry" if name == "coulomb" else name  # as users call it
        for k, value in per_joint(description, called, given).items():
            joints[k] = replace(joints[k], friction=replace(joints[k].friction, **{name: value}))
    return _with_joints(description, joints)


def with_armature(description: Description, armature: PerJoint) -> Description:
    """The mechanism with other armatures: inertias of rotors as the joints feel them."""
    return _with_joints(description, {
        k: replace(description.joints[k], armature=value, motor=Motor())
        for k, value in per_joint(description, "armature", armature).items()})


def moved_base(description: Description, pose: Pose) -> Description:
    """The mechanism with all that is fixed in the base moved by a pose: joints on it, frames,
    and ends of loops. Gravity stays as it is in the world."""

    def moved(frame: Frame) -> Frame:
        return frame if frame.link else replace(frame, pose=pose @ frame.pose)

    joints = {k: replace(joint, placement=Mount(pose @ joint.placement.before,
                                                joint.placement.after))
              for k, joint in enumerate(description.joints) if joint.parent == 0}

    def shifted(collision: Collision) -> Collision:
        if collision.link != description.base:
            return collision
        shape = replace(collision.shape, pose=pose @ collision.shape.pose)
        return replace(collision, shape=shape)

    return _with_joints(
        description, joints, frames=tuple(map(moved, description.frames)),
        collisions=tuple(map(shifted, description.collisions)),
        loops=tuple(replace(loop, of=moved(loop.of), on=moved(loop.on))
                    for loop in description.loops))


def floated(description: Description) -> Description:
    """The mechanism with its base body free [RK88, Appendix B].

    The base body is the one link that hangs on the base, by a fixed joint: a URDF's root link,
    the first row of a TOML file if it is fixed. Its joint becomes free and keeps its name and
    place. A mechanism that floats already is returned as it is.

    >>> import nlink
    >>> floated(nlink.load("planar3").description)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: floating: planar3 has no base body: joint 'joint1' of the base is revolute, ...
    """
    on_base = [joint for joint in description.joints if joint.parent == 0]
    if _floats(description, on_base):
        return description
    if len(on_base) != 1:
        raise ValueError(f"floating: {description.name} has {len(on_base)} links on the base, "
                         "expected one base body that carries the rest")
    if not isinstance(on_base[0].type, Fixed):
        raise ValueError(f"floating: {description.name} has no base body: joint "
                         f"{on_base[0].name!r} of the base is {on_base[0].type.name}, "
                         "expected one fixed joint that carries a link to be freed")
    joints = tuple(replace(joint, type=Free()) if joint.parent == 0 else joint
                   for joint in description.joints)
    home = (*Free.space.neutral, *description.home) if description.home else ()
    return edited(description, joints=joints, home=home)


def _floats(description: Description, on_base: list[Joint]) -> bool:
    """Whether all that moves hangs on one free joint, perhaps beyond a massless world link."""
    if len(on_base) == 1 and isinstance(on_base[0].type, Fixed):
        first = description.joints.index(on_base[0]) + 1
        carried = [joint for joint in description.joints if joint.parent == first]
        return not description.links[first - 1].mass and _floats_on(carried)
    return _floats_on(on_base)


def _floats_on(joints: list[Joint]) -> bool:
    return len(joints) == 1 and isinstance(joints[0].type, Free)


def grounded(description: Description) -> Description:
    """The mechanism with its free base body held where its coordinates are neutral."""
    on_base = [joint for joint in description.joints if joint.parent == 0]
    if not _floats(description, on_base):
        return description
    free = next(joint for joint in description.joints if isinstance(joint.type, Free))
    return lock(description, {free.name: Free.space.neutral})


def displaced(type: JointType, q: Sequence[float]) -> Pose:
    """Where the moved frame of a joint is in its fixed one, in the author's axes."""
    moved, turn = type.displacement(tuple(q)), align(type.axis)
    R = Rotation(moved.turns)
    shift = moved.p + R.to_parent(moved.r)
    pose = Pose.of(np.array(R.matrix().rows, dtype=float), np.array(shift.components, dtype=float))
    return turn @ pose @ turn.inverse()


def _held(joint: Joint, q: Sequence[float]) -> Joint:
    """A joint fixed where its coordinates are q; a row of a DH table stays one."""
    place: Placement = joint.placement
    if isinstance(place, DH) and joint.type == Revolute(UPRIGHT):
        place = replace(place, theta=place.theta + q[0])
    elif isinstance(place, DH) and joint.type == Prismatic(UPRIGHT):
        place = replace(place, b=place.b + q[0])
    else:
        place = Mount(place.before @ displaced(joint.type, q), place.after)
    return replace(joint, type=Fixed(), placement=place, friction=Friction(), armature=0.0,
                   motor=Motor(),
                   limits=Limits(), mimic=None)


def lock(description: Description, positions: Mapping[str, Any]) -> Description:
    """The mechanism with joints fixed at given coordinates; see `Robot.lock`.

    With the columns of E the unit vectors of the rates that are left, q = E q' + e and
    M' = E^T M E: the rows and columns of M that are left, at the locked coordinates.
    """
    values = {joint_number(description, name): _position(description, name, given)
              for name, given in positions.items()}
    if not values:
        return description
    values = _with_followers(description, values)
    left = [x for k, (_, own) in enumerate(joint_slices(description, "nq"))
            if k not in values for x in (description.home or ())[own]]
    names = [description.joints[k].name for k in sorted(values)]
    word = "joint" if len(names) == 1 else "joints"
    locked = _with_joints(
        description, {k: _held(description.joints[k], q) for k, q in values.items()},
        home=tuple(left), loops=(), gears=())
    loops, met = _loops_left(locked, description.loops)
    gears, still = _gears_left(description, values)
    return edited(locked, loops=loops, gears=gears, report=(
        *description.report, f"locked, links merged with their parents: {len(names)} {word} "
        f"({first_few(names)})", *met, *still))


def _position(description: Description, name: str, given: Any) -> tuple[float, ...]:
    joint = description.joints[joint_number(description, name)]
    if not joint.type.nv:
        raise ValueError(f"joint {name!r} is fixed already, expected one that moves")
    flat = [given] if np.ndim(given) == 0 else given
    q = single(f"position of joint {name!r}", flat, (joint.type.nq,)).tolist()
    found = tuple(float(x) for x in joint.type.space.normalize(q))
    if not np.isfinite(found).all():
        raise ValueError(f"position of joint {name!r}: {given!r:.80} is no point of its space, "
                         "expected a quaternion that is not zero")
    return found


def _with_followers(description: Description, values: dict[int, tuple[float, ...]],
                    ) -> dict[int, tuple[float, ...]]:
    """Joints that follow a locked one are locked where they follow to, unless given; one that
    follows a joint that moves cannot be."""
    values = dict(values)
    for follower, (lead, factor, offset) in leads(description.joints).items():
        own, other = (joint_number(description, name) for name in (follower, lead.name))
        if other in values:
            values.setdefault(own, (factor * values[other][0] + offset,))
        elif own in values:
            raise ValueError(f"joint {follower!r} follows {lead.name!r}, which moves: expected "
                             f"{lead.name!r} to be locked, and {follower!r} with it")
    return values


def _loops_left(description: Description, loops: Iterable[Loop],
                ) -> tuple[tuple[Loop, ...], list[str]]:
    """Loops that still hold two bodies together, and lines about those within one body."""
    left, met = [], []
    places = _rigid_places(description)
    for loop in loops:
        (body, a), (other, b) = (
            (places[end.link][0], places[end.link][1] @ end.pose) for end in (loop.of, loop.on))
        if body != other:
            left.append(loop)
            continue
        if _opening(loop, a, b) > 1e-6:
            raise ValueError(f"loop {loop.name!r}: open, and no joint of it is left to close it; "
                             "expected other positions of the locked joints")
        met.append(f"loop {loop.name!r} left out: both its frames are fixed in one body now")
    return tuple(left), met


def _gears_left(description: Description, locked: Mapping[int, tuple[float, ...]],
                ) -> tuple[tuple[Gear, ...], list[str]]:
    """Gears of the joints that still move, and lines about those that have none left."""
    places = {description.joints[k].name: q[0] for k, q in locked.items() if q}
    left, gone = [], []
    for gear in description.gears:
        ratios = {name: x for name, x in gear.ratios.items() if name not in places}
        offset = gear.offset - sum(x * places[name] for name, x in gear.ratios.items()
                                   if name in places)
        if ratios:
            left.append(replace(gear, ratios=ratios, offset=offset))
        elif abs(offset) > 1e-6:
            raise ValueError(f"gear {gear.name!r}: {gear.equation} does not hold, expected other "
                             "positions of the locked joints")
        else:
            gone.append(f"gear {gear.name!r} left out: all its joints are locked")
    return tuple(left), gone


def _opening(loop: Loop, a: Pose, b: Pose) -> float:
    seen = a.seen_from(b)
    error = loop.constraint.error(Matrix.from_rows(seen.rotation), Vector(*seen.origin))
    return max(abs(float(x)) for x in error)


def _rigid_places(description: Description) -> list[tuple[int, Pose]]:
    """For each link, the base first, the first link of its rigid body and its pose in that."""
    places = [(0, Pose())]
    for number, joint in enumerate(description.joints, 1):
        if isinstance(joint.type, Fixed):
            body, pose = places[joint.parent]
            places.append((body, pose @ joint.placement.before @ joint.placement.after))
        else:
            places.append((number, Pose()))
    return places


def sub(description: Description, start: int | str, end: int | str | None, stand: Pose,
        ) -> Description:
    """The links from `start` to `end`, or all that `start` carries, with what is fixed to them.

    `start` stands still at the pose `stand`. A joint that leads elsewhere is left out with all
    that it carries.
    """
    first = link_number(description, start)
    kept = _carried(description, first) if end is None else _chain(
        description, first, link_number(description, end), start, end)
    numbers = {link: k for k, link in enumerate(kept, 1)} | ({0: 0} if first == 0 else {})
    names = {description.joints[link - 1].name for link in kept if link != first}
    joints, report = [], list(description.report)
    for link in kept:
        joint = description.joints[link - 1]
        if joint.mimic is not None and joint.mimic.joint not in names:
            report.append(f"mimic of a joint left out: {joint.name} of {joint.mimic.joint}")
            joint = replace(joint, mimic=None)
        joints.append(
            Joint(joint.name, Fixed(), placement=Mount(stand)) if link == first
            else replace(joint, parent=numbers[joint.parent]))
    loops = [loop for loop in description.loops
             if loop.of.link in numbers and loop.on.link in numbers]
    lost = [link.name for k, link in enumerate(description.links, 1) if k not in numbers]
    if lost:
        report.append(f"links left out: {len(lost)} ({first_few(lost)})")
    gone = [loop.name for loop in description.loops if loop not in loops]
    if gone:
        report.append(f"loops left out: {len(gone)} ({first_few(gone)})")
    gears = [gear for gear in description.gears if names.issuperset(gear.ratios)]
    if len(gears) < len(description.gears):
        gone = [gear.name for gear in description.gears if gear not in gears]
        report.append(f"gears left out: {len(gone)} ({first_few(gone)})")
    home = [x for k, (_, own) in enumerate(joint_slices(description, "nq"))
            if k + 1 in numbers and k + 1 != first for x in description.home[own]]

    def moved(frame: Frame) -> Frame:
        return replace(frame, link=numbers[frame.link])

    touching, seen = ([x for x in shapes if frame_place(description, x.link or 0)[0] in numbers]
                      for shapes in (description.collisions, description.visuals))
    known = {name for x in description.collisions if x in touching for name in (x.link, x.name)}
    return edited(
        description, links=tuple(description.links[k - 1] for k in kept), joints=tuple(joints),
        collisions=tuple(touching), visuals=tuple(seen),
        pairs=tuple(pair for pair in description.pairs if known.issuperset(pair)),
        frames=tuple(moved(f) for f in description.frames if f.link in numbers),
        loops=tuple(replace(loop, of=moved(loop.of), on=moved(loop.on)) for loop in loops),
        gears=tuple(gears), home=tuple(home), report=tuple(report))


def _carried(description: Description, first: int) -> list[int]:
    """A link and all beyond it; of the base, all links."""
    kept = {first}
    for number, joint in enumerate(description.joints, 1):
        if joint.parent in kept:
            kept.add(number)
    return sorted(kept - {0})


def _chain(description: Description, first: int, last: int, start: int | str, end: int | str,
           ) -> list[int]:
    """The links on the way from one to another that it carries, and what is fixed to them."""
    way = [last]
    while way[-1] and way[-1] != first:
        way.append(description.joints[way[-1] - 1].parent)
    if way[-1] != first:
        raise ValueError(f"sub: {start!r} does not carry {end!r}, expected a link on its way to "
                         "the base")
    kept = set(way)
    for number, joint in enumerate(description.joints, 1):
        if joint.parent in kept and isinstance(joint.type, Fixed):
            kept.add(number)
    return sorted(kept - {0})
