"""From the author's description to frames that lie on the joints.

Inputs are numbers; this runs once per robot. A body's frame may be slid along its joint
axis by h and turned about it by phi without changing anything the joint does. Both are
used up to reach the first child by a shift a along x, a tilt alpha about x and a rise b
along the child's own axis; any other child needs a full offset and one more turn.

Where the base stands in the world enters `base` and nothing else: all other numbers are seen
from the link that carries the first joint, and all sizes are those of bodies and of what is
between their joints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nlink.model.candidates import contacts_of
from nlink.model.carrying import carries_of
from nlink.model.constraints import ANGLE_TOLERANCE
from nlink.model.coordinates import frame_place
from nlink.model.description import Description, Frame, Link, Loop
from nlink.model.gears import Gear
from nlink.model.joints import Fixed, JointType
from nlink.model.mechanism import NO_TURN, Attachment, Closure, GearRow, Mechanism, MovingJoint
from nlink.model.pose import Pose
from nlink.spatial import Matrix, RigidInertia, Symmetric, Turn, Vector

FAR = 10.0
"""A common normal whose foot is this many sizes of the tree away is not used: two axes that
are parallel but for a rounded angle would put it at the horizon and lose all digits, of which
float32 has few."""

Places = list[tuple[int, Pose]]
"""For each link, the base first, its body and its pose in that body's A."""


@dataclass(slots=True)
class _Body:
    """A moving body while its frame is being chosen; frame A has z on the joint axis."""

    number: int
    link: int
    parent: int
    seat: Pose  # A at q = 0, in the parent's A
    adjusted: bool  # whether the frame may be slid and turned along an axis
    slide: Pose  # the chosen frame in A: Tz(h) Rz(phi)
    children: list[int]
    extent: float = 0.0  # the largest length in it: of a mass centre, or a radius of gyration

    @property
    def offset(self) -> float:
        """How far the joint is from that of the parent."""
        return math.hypot(*self.seat.origin)


def canonical(description: Description) -> Mechanism:
    """The mechanism of a description; see the module's docstring."""
    stand, bodies, places = _moving_bodies(description)
    sizes = _tree_sizes(bodies)
    for body, size in zip(reversed(bodies), reversed(sizes), strict=True):
        body.slide = _choose_slide(bodies, body, size)
    root = bodies[0].children[0] if bodies[0].children else None
    bodies[0].slide = Pose() if root is None else bodies[root].seat @ bodies[root].slide
    base = stand @ bodies[0].slide

    inertias = [RigidInertia.zero() for _ in bodies]
    for link, (number, pose) in zip(description.links, places[1:], strict=True):
        inertias[number] += _inertia(link, pose.seen_from(bodies[number].slide))
    joints = []
    for body in bodies[1:]:
        joint = description.joints[body.link]
        nv = joint.type.nv
        joints.append(MovingJoint(
            joint.type, *_seat(joint.type, bodies, body, sizes[body.number]),
            inertia=inertias[body.number],
            armature=(joint.rotor_inertia,) * nv,
            viscous=(joint.friction.viscous,) * nv,
            coulomb=(joint.friction.coulomb,) * nv,
            excess=(joint.friction.excess,) * nv,
            falloff=(joint.friction.falloff,) * nv,
        ))

    def attached(name: str, pose: Pose) -> Attachment:
        link, place = frame_place(description, name)
        number, there = places[link]
        pose = there @ place @ pose
        return _attachment(number, pose.seen_from(bodies[number].slide) if number else stand @ pose)

    mechanism = Mechanism(
        joints=tuple(joints),
        parents=tuple(body.parent for body in bodies[1:]),
        gravity=_vector(base.R.T @ np.array(description.gravity, dtype=float)),
        base=_attachment(0, base),
        links=tuple(_attachment(k, pose.seen_from(bodies[k].slide)) for k, pose in places),
        closures=tuple(_closure(bodies, places, max(sizes), loop) for loop in description.loops),
        gears=tuple(_gear(description, bodies, max(sizes) or 1.0, gear)
                    for gear in description.gears),
        contacts=contacts_of(description.collisions, description.pairs, description.world,
                             attached),
    )
    return replace(mechanism, carries=carries_of(mechanism)) if description.closed else mechanism


def _tree_sizes(bodies: list[_Body]) -> list[float]:
    """Of each body, the largest length in the tree of its root, where that stands left out."""
    roots, sizes = [0], [0.0] * len(bodies)
    for body in bodies[1:]:
        roots.append(roots[body.parent] or body.number)
        sizes[roots[-1]] = max(sizes[roots[-1]], body.extent, body.offset if body.parent else 0.0)
    return [sizes[root] for root in roots]


def _closure(bodies: list[_Body], places: Places, largest: float, loop: Loop) -> Closure:
    """A loop and its lengths: of the bodies between its ends, from where the two branches part.

    What is lost in the `largest` length of the whole mechanism is rounding, and no size.
    """

    def end(frame: Frame) -> tuple[int, Pose]:
        body, place = places[frame.link]
        return body, place @ frame.pose

    ends = [end(frame) for frame in (loop.of, loop.on)]
    (one, _), (other, _) = ends
    if one == other:
        raise ValueError(f"loop {loop.name!r}: both its frames are fixed in one body, expected "
                         "two bodies that move")
    between = _way(bodies, one) ^ _way(bodies, other)
    lengths = {i: max(bodies[i].extent, bodies[i].offset if bodies[i].parent in between else 0.0)
               for i in between | {one, other} if i}
    for body, pose in ends:
        if body:
            lengths[body] = max(lengths[body], math.hypot(*pose.origin))
    size = max(*lengths.values(), ANGLE_TOLERANCE * largest) or 1.0
    arms = (max(lengths.get(x, 0.0), ANGLE_TOLERANCE * size) for x in (one, other))
    a, b = (_attachment(body, pose.seen_from(bodies[body].slide)) for body, pose in ends)
    return Closure(loop.constraint, a, b, size, (next(arms), next(arms)))


def _gear(description: Description, bodies: list[_Body], length: float, gear: Gear) -> GearRow:
    """A gear, by the joints that move."""
    numbers = {description.joints[body.link].name: body.number - 1 for body in bodies[1:]}
    units = [1.0 if _turns(description.joints[bodies[numbers[name] + 1].link].type) else length
             for name in gear.ratios]
    scale = max(abs(x) * unit for x, unit in zip(gear.ratios.values(), units, strict=True))
    return GearRow(tuple(numbers[name] for name in gear.ratios), tuple(gear.ratios.values()),
                   gear.offset, units[0] == 1.0, scale, length)


def _turns(kind: JointType) -> bool:
    """Whether the rate of a joint is an angle's."""
    twist = kind.rate(kind.space.neutral, (1.0,))
    return any(x != 0 for x in twist.angular.components)


def _way(bodies: list[_Body], body: int) -> set[int]:
    """A moving body and all that carry it."""
    way = set()
    while body:
        way.add(body)
        body = bodies[body].parent
    return way


def attach(mechanism: Mechanism, link: int, pose: Pose) -> Attachment:
    """A frame given in a link, as seen from the moving body that carries the link."""
    at = mechanism.links[link]
    place = Pose.of(np.array(at.R.rows, dtype=float), np.array(at.p.components, dtype=float))
    return _attachment(at.body, place @ pose)


def _moving_bodies(description: Description) -> tuple[Pose, list[_Body], Places]:
    """Merge fixed joints. A of the base is the link that carries the first joint that moves;
    where it stands in the world comes first."""
    stand, still = _stand(description)
    bodies = [_Body(0, -1, -1, Pose(), False, Pose(), [])]
    places: Places = [(0, still[0])]
    for i, joint in enumerate(description.joints):
        parent, place = places[joint.parent]
        seat = place @ joint.placement.before
        if isinstance(joint.type, Fixed):
            places.append((parent, still.get(i + 1, seat @ joint.placement.after)))
            continue
        turn = align(joint.type.axis)
        body = _Body(len(bodies), i, parent, seat @ turn, joint.type.axis is not None, Pose(), [])
        bodies[parent].children.append(body.number)
        bodies.append(body)
        places.append((body.number, turn.inverse() @ joint.placement.after))
    for link, (number, pose) in zip(description.links, places[1:], strict=True):
        if link.mass:
            centre = math.hypot(*(pose @ Pose.shift(*link.com)).origin)
            trace = sum(link.inertia[k][k] for k in range(3))
            gyration = math.sqrt(max(0.0, trace) / link.mass)
            bodies[number].extent = max(bodies[number].extent, centre, gyration)
    return stand, bodies, places


def _stand(description: Description) -> tuple[Pose, dict[int, Pose]]:
    """The link that carries the first joint that moves, in the world, and as seen from it the
    links on the way to the world."""
    link = next((j.parent for j in description.joints if not isinstance(j.type, Fixed)), 0)
    stand, still = Pose(), {link: Pose()}
    while link:
        joint = description.joints[link - 1]
        place = joint.placement.before @ joint.placement.after
        stand = place @ stand
        still[joint.parent] = still[link] @ place.inverse()
        link = joint.parent
    return stand, still


def align(axis: tuple[float, float, float] | None) -> Pose:
    """A rotation that takes z to the axis; a permutation of axes if it is one of them."""
    if axis is None:
        return Pose()
    z = np.array(axis)
    k = int(np.argmin(np.abs(z)))  # the coordinate axis farthest from z, x first
    x = np.eye(3)[k] - z * z[k]
    x /= np.linalg.norm(x)
    return Pose.of(np.column_stack([x, np.cross(z, x), z]), np.zeros(3))


def _choose_slide(bodies: list[_Body], body: _Body, size: float) -> Pose:
    if not body.adjusted:
        return Pose()
    if not body.children:
        return Pose(origin=(0.0, 0.0, _foot(body, size)))
    child = bodies[body.children[0]]
    o, z = (child.seat @ child.slide).p, child.seat.R[:, 2]
    x = np.array([-z[1], z[0]])  # e_z cross z
    if np.hypot(*x) < 1e-12:  # parallel axes: x along the perpendicular, if there is one
        x = o[:2] if np.hypot(*o[:2]) > 1e-12 * (size + abs(o[2])) else np.array([1.0, 0.0])
    if x[0] < 0 or (x[0] == 0 and x[1] < 0):
        x = -x  # the sense nearest to the author's x
    c, s = _clean(*(x / np.hypot(*x)))
    frame = Pose(((c, -s, 0.0), (s, c, 0.0), (0.0, 0.0, 1.0)))
    _, rise = _offset(frame.R.T @ o, frame.R.T @ z, size)
    return Pose(origin=(0.0, 0.0, o[2] - z[2] * rise)) @ frame


def _foot(body: _Body, size: float) -> float:
    """Where on a last joint's axis the common normal from its parent's axis arrives, so that
    the joint has no rise; 0 if that is nowhere near or the parent has no axis."""
    back = body.seat.inverse()
    c, d = back.p, back.R[:, 2]
    across = d[0] ** 2 + d[1] ** 2
    if body.parent == 0 or across < 1e-24:
        return 0.0
    height = float(c[2] - (c[0] * d[0] + c[1] * d[1]) / across * d[2])
    return _tidy(height) if abs(height) <= FAR * size else 0.0


def _offset(o: np.ndarray, z: np.ndarray, size: float) -> tuple[bool, float]:
    """Whether origin o on axis z is reached by a shift along x and a rise b, and that b."""
    rise = o[1] / z[1] if abs(z[1]) > 1e-12 else math.inf
    if abs(o[1]) <= 1e-15 * size:
        return True, 0.0
    return (True, float(rise)) if abs(rise) <= FAR * size else (False, 0.0)


def _seat(type: JointType, bodies: list[_Body], body: _Body, size: float,
          ) -> tuple[Vector, tuple[Turn, ...], Turn, float, tuple[float, ...]]:
    """p, fixed turns, last turn, rise and zero of a joint between chosen frames."""
    parent = bodies[body.parent]
    first = body.number == parent.children[0]
    zeros = (0,) * type.nq
    if body.parent == 0 and first:  # the base frame was chosen to be this joint's
        return Vector(0, 0, 0), (), NO_TURN, 0, zeros
    seat = body.seat.seen_from(parent.slide)
    first = first and parent.adjusted
    swing, tilt, spin = _zxz(seat.R, first=first)
    if type.axis is None:
        return _vector(seat.p), (swing, tilt, spin), NO_TURN, 0, zeros
    o = (seat @ body.slide).p
    aligned, rise = _offset(o, seat.R[:, 2], size) if first else (False, 0.0)
    p = Vector(_tidy(o[0]), 0, 0) if aligned else _vector(o)
    last = spin @ Turn("z", *body.slide.R[:2, 0].tolist())
    zero, last, rise = type.absorb(Turn("z", *_clean(last.c, last.s)), _tidy(rise))
    return p, (swing, tilt), last, rise, zero


def _zxz(R: np.ndarray, *, first: bool) -> tuple[Turn, Turn, Turn]:
    """R = Rz Rx Rz; a first child's frame was chosen so that the first turn is none."""
    swing = NO_TURN
    tilt = math.hypot(R[0, 2], R[1, 2])
    if not first and tilt > 1e-12:
        swing = Turn("z", *_clean(-R[1, 2] / tilt, R[0, 2] / tilt))
        if swing.c < 0 or (swing.c == 0 and swing.s < 0):
            swing = Turn("z", -swing.c, -swing.s)
    c, s = swing.c, swing.s
    R = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) @ R
    ca, sa = _clean(R[2, 2], -R[1, 2])
    spin = _clean(R[0, 0], ca * R[1, 0] + sa * R[2, 0])
    return swing, Turn("x", ca, sa), Turn("z", *spin)


def _clean(c: float, s: float) -> tuple[float, float]:
    """A unit (cos, sin) pair, exact where it is a quarter turn to rounding."""
    if min(abs(c), abs(s)) < 1e-15:
        return (math.copysign(1.0, c), 0.0) if abs(c) > abs(s) else (0.0, math.copysign(1.0, s))
    norm = math.hypot(c, s)
    return float(c / norm), float(s / norm)


def _tidy(x: float) -> float:
    """Rounding residue of a subtraction of lengths is a zero that was meant."""
    return 0.0 if abs(x) < 1e-16 else float(x)


def _vector(v: np.ndarray) -> Vector:
    return Vector(*(_tidy(x) for x in v))


def _attachment(body: int, pose: Pose) -> Attachment:
    return Attachment(body, Matrix.from_rows(pose.rotation), _vector(pose.p))


def _inertia(link: Link, pose: Pose) -> RigidInertia:
    """A link's inertia in the frame in which `pose` places it."""
    R = pose.R
    tensor = R @ np.array(link.inertia, dtype=float) @ R.T
    com = _vector(R @ np.array(link.com, dtype=float) + pose.p)
    return RigidInertia.from_com(float(link.mass), com, Symmetric.from_rows(tensor.tolist()))
