"""A serial arm as a table of Denavit and Hartenberg, by the classic construction.

Between two joint axes lies a common normal. Turned by theta about the first axis and slid by b
along it, a frame has its x on the normal; shifted by a along x and tilted by alpha about x, its
z lies on the second axis. The rows of a table are these four numbers: `standard` keeps them
together, `modified` puts a and alpha into the next row. The base frame reaches the first axis
in the same way, by a fixed row where it must.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nlink.model.canonical import FAR
from nlink.model.description import Description, Frame, Joint, Link
from nlink.model.joints import Fixed, Prismatic, Revolute
from nlink.model.names import first_few, fresh
from nlink.model.pose import DH, Convention, Pose

SAME = 1e-12
"""Directions and points closer than this, in radians and sizes of the arm, coincide."""


def to_dh(description: Description, convention: Convention = "standard") -> Description:
    """The same arm with DH frames: equal dynamics, the author's frames kept as named frames.

    For serial chains of revolute and prismatic joints; links on fixed joints merge into the one
    that carries them. A link's own frame becomes its DH frame, the author's `name_frame`.
    """
    DH(0.0, 0.0, 0.0, 0.0, convention)  # refuses an unknown convention
    if description.closed:
        raise ValueError(f"{description.name}: has loops or gears, and DH tables are for serial "
                         "chains")
    arm = _Arm.of(description)
    screws = arm.screws(tool=convention == "standard")
    rows, places = (_standard if convention == "standard" else _modified)(screws)
    base, rows = rows[0], rows[1:]
    massive = any(link.mass for link in arm.members(0))
    mounted = massive or base != DH(0.0, 0.0, 0.0, 0.0, convention)
    used = {link.name for link in arm.links} | {frame.name for frame in description.frames}
    names = [fresh("base_body", used), *(arm.links[k].name for k in arm.moving)]
    bodies = [_merged(names[k], arm, k, places[k]) for k in range(len(names))]
    mount = Joint(fresh("base_mount", [j.name for j in description.joints]), Fixed(), 0, base)
    first = int(mounted)
    joints = [
        replace(joint, type=Revolute() if isinstance(joint.type, Revolute) else Prismatic(),
                parent=number + first, placement=row)
        for number, (joint, row) in enumerate(zip(arm.joints, rows, strict=True))]
    if not mounted:
        places[0] = Pose()
    return replace(
        description, links=tuple(bodies[1 - first:]),
        frames=_frames(description, arm, places, first, names),
        joints=tuple([mount] * first + joints), collisions=(), world=None, pairs=(), visuals=())


def to_dh_rows(description: Description, convention: Convention = "standard",
               ) -> list[dict[str, Any]]:
    """The table as rows that `Robot.from_dh` takes; the author's frames are in `to_dh`.

    >>> import nlink
    >>> rows = to_dh_rows(nlink.load("planar3").description)
    >>> [row["a"] for row in rows]
    [1.0, 1.0, 1.0]
    """
    dh = to_dh(description, convention)
    return [_row(link, joint) for link, joint in zip(dh.links, dh.joints, strict=True)]


def _row(link: Link, joint: Joint) -> dict[str, Any]:
    place, limits, friction = joint.placement, joint.limits, joint.friction
    assert isinstance(place, DH)
    return {
        "name": link.name, "joint_name": joint.name, "joint": joint.type.name,
        "a": place.a, "b": place.b, "alpha": place.alpha, "theta": place.theta,
        "mass": link.mass, "com": link.com, "inertia": link.inertia, "armature": joint.armature,
        "friction": friction.table,
        "motor": {"ratio": joint.motor.ratio, "inertia": joint.motor.inertia},
        "limits": {"position": limits.position, "velocity": limits.velocity,
                   "effort": limits.effort}}


@dataclass(frozen=True, slots=True)
class _Screw:
    """From one axis to the next: Rz(theta) Tz(b), then Tx(a) Rx(alpha)."""

    theta: float = 0.0
    b: float = 0.0
    a: float = 0.0
    alpha: float = 0.0

    @property
    def along_z(self) -> Pose:
        return Pose.turn("z", self.theta) @ Pose.shift(z=self.b)

    @property
    def pose(self) -> Pose:
        return self.along_z @ Pose.shift(x=self.a) @ Pose.turn("x", self.alpha)


@dataclass(frozen=True, slots=True)
class _Arm:
    """A serial chain at q = 0 in the world: moving joints, their seats, where all links are."""

    joints: tuple[Joint, ...]
    seats: tuple[Pose, ...]
    moving: tuple[int, ...]
    """Links that moving joints carry."""
    links: tuple[Link, ...]
    places: tuple[Pose, ...]
    body: tuple[int, ...]
    """The moving body (0 the base) that each link belongs to."""

    @classmethod
    def of(cls, description: Description) -> _Arm:
        places, body = [Pose()], [0]
        joints, seats, moving = [], [], []
        for number, joint in enumerate(description.joints):
            seat = places[joint.parent] @ joint.placement.before
            places.append(seat @ joint.placement.after)
            if isinstance(joint.type, Fixed):
                body.append(body[joint.parent])
                continue
            if not isinstance(joint.type, Revolute | Prismatic):
                raise ValueError(f"joint {joint.name!r}: DH tables have no {joint.type.name} joint")
            if body[joint.parent] != len(joints):
                raise ValueError(f"joint {joint.name!r}: branches off, and DH tables are for "
                                 "serial chains")
            joints.append(joint)
            seats.append(seat)
            moving.append(number)
            body.append(len(joints))
        if not joints:
            raise ValueError(f"{description.name}: nothing moves, so there is no DH table")
        return cls(tuple(joints), tuple(seats), tuple(moving), description.links,
                   tuple(places[1:]), tuple(body[1:]))

    def members(self, body: int) -> list[Link]:
        return [link for link, owner in zip(self.links, self.body, strict=True) if owner == body]

    def screws(self, *, tool: bool) -> list[_Screw]:
        """To the axis of each joint in turn, then to the last link's own z if asked for."""
        origins = np.array([np.zeros(3), *(seat.p for seat in self.seats),
                            self.places[self.moving[-1]].p])
        first, *others = np.linalg.norm(np.diff(origins, axis=0), axis=1).tolist()
        own = max(others) or 1.0
        frame, screws, before = Pose(), [], "the base"
        for joint, seat in zip(self.joints, self.seats, strict=True):
            size = own if screws else max(own, first)  # where the base stands is no size
            screw = _reach(frame, seat.p, seat.R @ np.array(joint.type.axis), size, keep=False)
            if screw is None:
                raise ValueError(
                    f"joint {joint.name!r}: its axis is parallel to that of {before} but for a "
                    "rounded angle, so the common normal of a DH table is at the horizon")
            screws.append(screw)
            frame, before = frame @ screw.pose, f"joint {joint.name!r}"
        last = self.places[self.moving[-1]]
        end = _reach(frame, last.p, last.R[:, 2], own, keep=True) if tool else None
        return [*screws, end or _Screw()]


def _reach(frame: Pose, point: np.ndarray, axis: np.ndarray, size: float, *,
           keep: bool) -> _Screw | None:
    """The screw from a frame's z axis to another axis through a point, or None if its common
    normal is too far away; `keep` has the point as new origin where the axes leave a choice."""
    o, z = frame.R.T @ (point - frame.p), frame.R.T @ axis
    slope = math.hypot(z[0], z[1])
    if slope < SAME:
        distance = math.hypot(o[0], o[1])
        x = o[:2] / distance if distance > SAME * size else np.array([1.0, 0.0])
        b = o[2] if keep or distance > SAME * size else 0.0
        foot = 0.0
    else:
        x = np.array([-z[1], z[0]]) / slope
        y = np.array([-x[1], x[0]])
        foot = -float(o[:2] @ y) / float(z[:2] @ y)
        b = o[2] + foot * z[2]
    if x[0] < -SAME or (x[0] < SAME and x[1] < 0):
        x = -x  # the sense nearest to the frame's x
    if max(abs(b), abs(foot)) > FAR * size:
        return None
    y = np.array([-x[1], x[0]])
    a, theta = float(o[:2] @ x), math.atan2(x[1], x[0])
    alpha = math.atan2(-float(z[:2] @ y), z[2])
    b, a = (0.0 if abs(length) < 1e-15 * size else float(length) for length in (b, a))
    theta, alpha = (0.0 if abs(angle) < 1e-15 else angle for angle in (theta, alpha))
    return _Screw(theta, b, a, alpha)


def _standard(screws: list[_Screw]) -> tuple[list[DH], list[Pose]]:
    """A row a screw, the base's first, and where the link frames are."""
    rows = [DH(s.a, s.b, s.alpha, s.theta, "standard") for s in screws]
    places = [Pose()]
    for screw in screws:
        places.append(places[-1] @ screw.pose)
    return rows, places[1:]


def _modified(screws: list[_Screw]) -> tuple[list[DH], list[Pose]]:
    """a and alpha go with the next row: frames are where their own joint's axis is left."""
    before = [_Screw(), *screws]
    rows = [DH(p.a, s.b, p.alpha, s.theta, "modified")
            for p, s in zip(before, screws, strict=False)]
    places, at = [], Pose()
    for screw in screws:
        places.append(at @ screw.along_z)
        at = at @ screw.pose
    return rows, places


def _merged(name: str, arm: _Arm, body: int, frame: Pose) -> Link:
    """All links of a body as one, in its DH frame: m c = sum m_i c_i, I = sum I_i + m_i d~ d~^T."""
    parts = [(link, frame.inverse() @ place) for link, place, owner
             in zip(arm.links, arm.places, arm.body, strict=True) if owner == body]
    mass = sum(link.mass for link, _ in parts)
    centres = [pose.R @ np.array(link.com) + pose.p for link, pose in parts]
    total = sum((link.mass * c for (link, _), c in zip(parts, centres, strict=True)), np.zeros(3))
    com = total / mass if mass else np.zeros(3)
    inertia = np.zeros((3, 3))
    for (link, pose), c in zip(parts, centres, strict=True):
        d = c - com
        inertia += pose.R @ np.array(link.inertia) @ pose.R.T
        inertia += link.mass * (d @ d * np.eye(3) - np.outer(d, d))
    inertia = (inertia + inertia.T) / 2
    x, y, z = com.tolist()
    return Link(name, float(mass), (x, y, z),
                tuple(map(tuple, inertia.tolist())))  # type: ignore[arg-type]


def _frames(description: Description, arm: _Arm, places: list[Pose], first: int,
            names: list[str]) -> tuple[Frame, ...]:
    """The author's link frames, where they are no DH frames, and his named frames."""
    used = {*names, *(link.name for link in arm.links),
            *(frame.name for frame in description.frames)}
    frames: list[Frame] = []

    def place(name: str, body: int, world: Pose) -> None:
        frames.append(Frame(name, body + first if body else 0,
                            places[body].inverse() @ world if body else world))

    for number, (link, world, body) in enumerate(
            zip(arm.links, arm.places, arm.body, strict=True)):
        if number not in arm.moving:
            place(link.name, body, world)
        elif not _near(places[body], world):
            name = fresh(f"{link.name}_frame", used)
            used.add(name)
            place(name, body, world)
    for frame in description.frames:
        body = arm.body[frame.link - 1] if frame.link else 0
        world = arm.places[frame.link - 1] @ frame.pose if frame.link else frame.pose
        place(frame.name, body, world)
    return tuple(frames)


def _near(a: Pose, b: Pose) -> bool:
    return bool(np.abs(a.matrix - b.matrix).max() <= SAME)


def dh_losses(description: Description) -> list[str]:
    """The changes that a DH table makes beyond the frames."""
    merged = [link.name for link, joint in zip(description.links, description.joints, strict=True)
              if isinstance(joint.type, Fixed)]
    lost = ["link frames become DH frames, the author's kept under another name where they differ"]
    if merged:
        lost.append(f"links on fixed joints merged, their frames kept: {len(merged)} "
                    f"({first_few(merged)})")
    return lost
