"""A scene: what is drawn of a robot, part by part, each fixed in a link.

Links look as their file says. Those without a visual get a skeleton: tapered rods from the link's
joint to all that it carries, by way of the joint's axis, drums on the joints, and the box of equal
inertia for a body that floats, or the shapes with which it touches others. The world around them
is drawn, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from nlink.model.coordinates import frame_place
from nlink.model.description import Description, Joint
from nlink.model.joints import AxialJoint, Fixed, Free, Prismatic
from nlink.model.names import visible
from nlink.model.visuals import Colour, Visual
from nlink.viewer import surfaces
from nlink.viewer.mesh_files import check_reach, find_mesh, read_mesh
from nlink.viewer.places import LinkPlaces
from nlink.viewer.solids import equal_inertia, solid, world_surfaces
from nlink.viewer.surfaces import Surface

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
Layer = Literal["body", "world", "axes", "frames", "masses", "inertias", "contacts"]

LAYERS = {"frames": "Frames", "axes": "Joint axes", "masses": "Centres of mass",
          "inertias": "Inertia ellipsoids", "contacts": "Contact shapes"}
"""What is shown on request, and how it is called."""
GREY: Colour = (0.72, 0.74, 0.77, 1.0)
"""The colour of shapes whose file names none."""
BONES: tuple[Colour, ...] = ((0.90, 0.89, 0.86, 1.0), (0.62, 0.66, 0.71, 1.0))
"""The colours of links that are drawn, in turn."""
DRUM: Colour = (0.10, 0.42, 0.68, 1.0)
TUBE, INNER = 0.6, 0.7
"""Of a link and one that slides in it along it: how much of their length is the outer tube, and
how much is the rod."""
GROUND: Colour = (0.74, 0.70, 0.62, 1.0)
TOUCHES: Colour = (0.93, 0.45, 0.13, 0.45)
LOOP: Colour = (0.84, 0.37, 0.0, 1.0)
AXIS: Colour = (0.85, 0.20, 0.45, 1.0)
MASS: Colour = (0.95, 0.70, 0.10, 1.0)
INERTIA: Colour = (0.35, 0.55, 0.95, 0.35)
FRAME: tuple[Colour, ...] = ((0.85, 0.22, 0.20, 1.0), (0.20, 0.65, 0.30, 1.0),
                             (0.20, 0.40, 0.90, 1.0))


@dataclass(frozen=True, slots=True)
class Part:
    """A surface in the frame of a link; its number, 0 is the base."""

    link: int
    surface: Surface
    layer: Layer = "body"

    @property
    def colour(self) -> Colour:
        return self.surface.colour or GREY


@dataclass
class Scene:
    """The parts of a robot, and where they are."""

    description: Description
    parts: list[Part]
    places: LinkPlaces
    size: float
    """How large the robot is, metres."""
    notes: list[str] = field(default_factory=list)
    """What could not be drawn as the file has it, a sentence each."""

    @classmethod
    def of(cls, robot: Robot, packages: Sequence[str | Path] = ()) -> Scene:
        """The scene of a robot; `packages` are directories in which package:// names are looked
        for, besides those above the robot's file."""
        description = robot.description
        places = LinkPlaces(description)
        notes = [line for line in robot.report if line.startswith("visual not drawn")]
        size = _size(description, places(robot.neutral))
        names = {link.name: number for number, link in enumerate(description.links, 1)}
        parts, drawn, wanting = [], set(), set()
        read = _Meshes([Path(x) for x in packages])
        for visual in description.visuals:
            link = names.get(visual.link, 0)
            try:
                found = read.surfaces(visual, size)
            except (ValueError, ImportError) as error:
                notes.append(f"{_who(visual)}: not drawn: {error}")
                wanting.add(link)
                continue
            if visual.material:
                notes.append(f"{_who(visual)}: material {visible(visual.material)!r} is not "
                             "defined, so it is grey")
            drawn.add(link)
            parts += [Part(link, surface) for surface in found]
        skeleton = _Skeleton(description, size)
        touching = [x for x in contact_shapes(description) if x.link not in drawn]
        parts += [Part(x.link, x.surface.coloured(BONES[x.link % len(BONES)])) for x in touching]
        afloat = {x.link for x in touching if x.link and isinstance(
            description.joints[x.link - 1].type, Free)}
        for number in range(len(description.links) + 1):
            if number in drawn or number in afloat or (drawn and number not in wanting and not (
                    number and description.links[number - 1].mass)):
                continue
            parts += skeleton.parts(number)
        scene = cls(description, parts, places, size, _brief(notes))
        if description.world is not None:
            scene.parts += [Part(0, x.coloured(GROUND), "world") for x in world_surfaces(
                description.world, size, scene.up)]
        return scene

    @property
    def up(self) -> Array:
        """Against gravity; z where there is none."""
        g = np.array(self.description.gravity)
        return -g / np.linalg.norm(g) if np.linalg.norm(g) else np.array([0.0, 0.0, 1.0])

    def extras(self) -> Iterator[Part]:
        """Frames, joint axes, mass centres, ellipsoids of inertia and shapes that touch, to be
        shown on request."""
        d, s = self.description, self.size
        yield from contact_shapes(d)
        for number, (link, joint) in enumerate(zip(d.links, d.joints, strict=True), 1):
            if isinstance(joint.type, AxialJoint):
                at, axis = _axis(joint)
                shape = surfaces.arrow(0.16 * s, 0.005 * s).placed(surfaces.pointing(
                    axis, at - 0.05 * s * axis))
                yield Part(number, shape.coloured(AXIS), "axes")
            for k, colour in enumerate(FRAME):
                shape = surfaces.arrow(0.08 * s, 0.0025 * s).placed(
                    surfaces.pointing(np.eye(3)[k], np.zeros(3)))
                yield Part(number, shape.coloured(colour), "frames")
            if link.mass > 0:
                T = np.eye(4)
                T[:3, 3] = link.com
                ball = surfaces.ellipsoid(*[0.012 * s] * 3).placed(T)
                yield Part(number, ball.coloured(MASS), "masses")
                body = equal_inertia(link, s)
                if body is not None:
                    yield Part(number, body.coloured(INERTIA), "inertias")

    def center_of_mass(self, places: Array) -> Array:
        """The center of mass of all links that move, (..., 3), from the places of links."""
        moving = _moving(self.description)
        masses = np.array([link.mass * moves for link, moves in zip(
            self.description.links, moving, strict=True)])
        if not masses.sum():
            return np.full((*places.shape[:-3], 3), np.nan)
        own = np.array([link.com for link in self.description.links])
        at = places[..., 1:, :3, 3] + np.einsum("...kij,kj->...ki", places[..., 1:, :3, :3], own)
        return np.einsum("k,...ki->...i", masses, at) / masses.sum()

    def corners(self, places: Array) -> Array:
        """Points that bound all bodies in given places (..., links + 1, 4, 4): (..., points, 3)."""
        links, points = [], []
        for part in self.parts:
            v = part.surface.vertices
            if part.layer == "body" and len(v):
                low, high = v.min(axis=0), v.max(axis=0)
                links += [part.link] * 8
                points += [np.where(pick, low, high) for pick in np.ndindex(2, 2, 2)]
        if not points:
            return places[..., :3, 3]
        T = places[..., links, :, :]
        return T[..., :3, 3] + np.einsum("...kij,kj->...ki", T[..., :3, :3], np.array(points))


def contact_shapes(description: Description) -> Iterator[Part]:
    """The shapes with which links touch others."""
    for collision in description.collisions:
        surface = solid(collision.shape)
        if surface is not None:
            link, pose = frame_place(description, collision.link)
            yield Part(link, surface.placed(pose.matrix).coloured(TOUCHES), "contacts")


class _Meshes:
    """Surfaces of visuals; a file that several use is read once."""

    def __init__(self, packages: list[Path]) -> None:
        self.packages = packages
        self.known: dict[Path, list[Surface] | str] = {}

    def surfaces(self, visual: Visual, size: float) -> list[Surface]:
        T = visual.pose.matrix
        if visual.shape != "mesh":
            return [_simple(visual, size).placed(T).coloured(visual.colour)]
        found = self._mesh(visual)
        with np.errstate(all="ignore"):
            T = T @ np.diag([*(x or 1e-9 for x in visual.size), 1.0])
            for surface in found:
                check_reach(surface.vertices @ T[:3, :3].T + T[:3, 3])
        # a file's own colours are finer than one for all of it, which most URDF files repeat
        own = visual.file.lower().endswith((".dae", ".obj"))
        return [s.placed(T).coloured((s.colour if own else None) or visual.colour or s.colour)
                for s in found]

    def _mesh(self, visual: Visual) -> list[Surface]:
        if visual.vertices is not None and visual.triangles is not None:
            return [Surface.of(visual.vertices, visual.triangles)]
        path = find_mesh(visual.file, visual.origin, self.packages)
        if path not in self.known:
            try:
                self.known[path] = read_mesh(path)
            except ValueError as error:
                self.known[path] = str(error)
        found = self.known[path]
        if isinstance(found, str):
            raise ValueError(found)
        return found


def _simple(visual: Visual, size: float) -> Surface:
    shape, s = visual.shape, visual.size
    if not all(np.isfinite(x) and abs(x) < 1e6 for x in s):
        raise ValueError(f"a {shape} of size {s}, expected a size in metres")
    if shape == "box":
        return surfaces.box(*s)
    if shape == "sphere":
        return surfaces.ellipsoid(s[0], s[0], s[0])
    if shape == "cylinder":
        return surfaces.cylinder(*s)
    if shape == "capsule":
        return surfaces.capsule(*s)
    if shape == "ellipsoid":
        return surfaces.ellipsoid(*s)
    x, y = (2 * half or 6 * size for half in s)
    return surfaces.box(x, y, 1e-3 * size)  # a plane


class _Skeleton:
    """Links as rods between joints."""

    def __init__(self, description: Description, size: float) -> None:
        self.d = description
        spans = [np.linalg.norm(b - a) for k in range(len(description.links) + 1)
                 for a, b in self._spans(k)]
        spans = [x for x in spans if x > 1e-3 * size]
        # long chains have thin links, and a robot of few links is no sausage
        self.r = min(0.021 * size, 0.14 * float(np.median(spans)) if spans else size)
        self.size = size

    def _start(self, number: int) -> Array:
        """Where a link's own joint is, in its frame."""
        return (np.zeros(3) if number == 0
                else self.d.joints[number - 1].placement.after.inverse().p)

    def _ends(self, number: int) -> list[Array]:
        """What a link carries, in its frame: joints, but not bodies that float; ends of loops; its
        tip if it carries nothing."""
        ends = [joint.placement.before.p for joint in self.d.joints
                if joint.parent == number and not isinstance(joint.type, Free)]
        ends += [frame.pose.p for loop in self.d.loops for frame in (loop.of, loop.on)
                 if frame.link == number]
        if ends or not number:
            return ends
        start, link = self._start(number), self.d.links[number - 1]
        tips = [np.zeros(3), *(f.pose.p for f in self.d.frames if f.link == number)]
        tips = [tip for tip in tips if np.linalg.norm(tip - start) > 1e-9]
        return tips or ([2 * np.array(link.com) - start] * (link.mass > 0))

    def _spans(self, number: int) -> list[tuple[Array, Array]]:
        start = self._start(number)
        return [(start, end) for end in self._ends(number)]

    def _telescope(self, number: int) -> tuple[Array, float] | None:
        """Of a link that slides out of its parent along that link: the direction in which it
        does, in the parent, and the length of the parent. Such a pair is drawn as a tube with a
        rod in it."""
        joint = self.d.joints[number - 1]
        if not isinstance(joint.type, Prismatic) or not joint.parent:
            return None
        if len(self._ends(joint.parent)) != 1:
            return None
        before = joint.placement.before
        span = before.p - self._start(joint.parent)
        length = float(np.linalg.norm(span))
        axis = before.R @ np.array(joint.type.axis)
        if length < 1e-3 * self.size or abs(axis @ span) < 0.999 * length:
            return None
        return span / length, length

    def parts(self, number: int) -> Iterator[Part]:
        bone = BONES[number % len(BONES)]
        joint = self.d.joints[number - 1] if number else None
        free = joint is not None and isinstance(joint.type, Free)
        plate = (surfaces.plate(self._ends(number), 1.2 * self.r) if free or joint is None
                 else None)
        if plate is not None:
            yield Part(number, plate.coloured(bone))
        elif free:
            body = equal_inertia(self.d.links[number - 1], self.size, box=True)
            if body is not None:
                yield Part(number, body.coloured(bone))
        rods = [] if plate is not None or free else list(self._rods(number, joint))
        if rods:
            yield Part(number, surfaces.joined(rods).coloured(bone))
        drums = list(self._drum(number)) if number else []
        if number == 0:
            drums = [surfaces.cylinder(2.4 * self.r, 0.6 * self.r)] * bool(
                self._spans(0) and plate is None)
        if drums:
            yield Part(number, surfaces.joined(drums).coloured(DRUM if number else BONES[1]))
        ends = [frame.pose.p for loop in self.d.loops for frame in (loop.of, loop.on)
                if frame.link == number]
        if ends:
            yield Part(number, surfaces.joined([
                surfaces.ellipsoid(*[1.5 * self.r] * 3).placed(_shift(end)) for end in ends],
            ).coloured(LOOP))

    def _rods(self, number: int, joint: Joint | None) -> Iterator[Surface]:
        """The rods of a link; a tube if one slides in it, and what slides reaches back into it."""
        tubes = [found for k, carried in enumerate(self.d.joints, 1)
                 if carried.parent == number and number and (found := self._telescope(k))]
        if tubes:
            direction, length = tubes[0]
            start = self._start(number)
            yield surfaces.rod(start, start + TUBE * length * direction, 1.5 * self.r, 1.5 * self.r)
            return
        found = self._telescope(number) if joint is not None else None
        if found is not None and joint is not None:
            back = joint.placement.after.inverse()
            direction = back.R @ joint.placement.before.R.T @ found[0]
            yield surfaces.rod(back.p, back.p - INNER * found[1] * direction, self.r, self.r)
        elif joint is not None and joint.parent and isinstance(joint.type, Prismatic):
            # a boom slides through what carries it, and so has a part behind that
            at, axis = _axis(joint)
            low, high = joint.limits.position
            travel = min(high - low, 0.5 * self.size)
            yield surfaces.rod(at, at - travel * axis, self.r, self.r)
        for a, b in self._spans(number):
            yield from self._bent(a, b, joint)

    def _bent(self, a: Array, b: Array, joint: Joint | None) -> Iterator[Surface]:
        """A rod from a to b: first along the joint's axis, then across it."""
        if np.linalg.norm(b - a) < 1e-3 * self.size:
            return
        corner = a
        if joint is not None and isinstance(joint.type, AxialJoint):
            axis = _axis(joint)[1]
            corner = a + axis * float(axis @ (b - a))
            if min(np.linalg.norm(corner - a), np.linalg.norm(b - corner)) < 1.5 * self.r:
                corner = a
        if corner is not a:
            yield surfaces.rod(a, corner, self.r, self.r)
        yield surfaces.rod(corner, b, self.r, 0.75 * self.r)

    def _drum(self, number: int) -> Iterator[Surface]:
        joint = self.d.joints[number - 1]
        if self._telescope(number):
            return
        at, axis = _axis(joint)
        frame = surfaces.pointing(axis, at)
        if isinstance(joint.type, Fixed | Free):
            return
        if isinstance(joint.type, Prismatic):
            yield surfaces.box(2.6 * self.r, 2.6 * self.r, 4 * self.r).placed(frame)
        elif isinstance(joint.type, AxialJoint):
            yield surfaces.cylinder(1.5 * self.r, 3.2 * self.r).placed(frame)
        else:
            yield surfaces.ellipsoid(*[1.8 * self.r] * 3).placed(frame)


def _axis(joint: Joint) -> tuple[Array, Array]:
    """A point of a joint's axis and its direction, in the frame of the link it carries."""
    back = joint.placement.after.inverse()
    return back.p, back.R @ np.array(joint.type.axis or (0.0, 0.0, 1.0))


def _shift(p: Array) -> Array:
    T = np.eye(4)
    T[:3, 3] = p
    return T


def _moving(description: Description) -> list[bool]:
    moves = [False]
    for joint in description.joints:
        moves.append(bool(joint.type.nv) or moves[joint.parent])
    return moves[1:]


def _size(description: Description, places: Array) -> float:
    """The largest distance between joints, tips and mass centres; a metre if there is none."""
    points = [places[:, :3, 3]]
    for number, joint in enumerate(description.joints, 1):
        points.append((places[joint.parent] @ joint.placement.before.matrix)[None, :3, 3])
        link = description.links[number - 1]
        if link.mass > 0:
            T = places[number]
            points.append((T[:3, :3] @ np.array(link.com) + T[:3, 3])[None])
            moments = np.linalg.eigvalsh(np.array(link.inertia, float))
            reach = np.sqrt(max(moments[-1], 0) / link.mass)
            points.append(points[-1] + reach / 2 * np.array([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]]))
    every = np.concatenate(points)
    return float(np.linalg.norm(np.ptp(every, axis=0))) or 1.0


def _who(visual: Visual) -> str:
    return f"link {visible(visual.link)!r}" if visual.link else "base"


def _brief(notes: list[str], most: int = 20) -> list[str]:
    notes = [visible(" ".join(note.split())) for note in notes]
    if len(notes) <= most:
        return notes
    return [*notes[:most], f"and {len(notes) - most} more"]
