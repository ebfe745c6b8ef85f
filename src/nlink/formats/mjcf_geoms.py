"""The geoms of a compiled MuJoCo model: what bodies look like, and what touches.

Those that its own viewer shows are for drawing. Those that touch something (contype, conaffinity)
are shapes of links, and those of the world's body are what stands around the robot. Contacts here
are rigid: what MuJoCo has for its soft ones is in the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nlink.formats.safe_xml import Notes
from nlink.model.pose import Pose
from nlink.model.shapes import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Hull,
    SolidShape,
    Sphere,
    thinned,
)
from nlink.model.visuals import ShapeName, Visual
from nlink.model.world import Collision, HeightField, World

SHOWN = 3
"""Geoms of groups below this are shown, as MuJoCo's viewer does; others are for collisions."""
SHAPES: dict[int, ShapeName] = {0: "plane", 2: "sphere", 3: "capsule", 4: "ellipsoid",
                                5: "cylinder", 6: "box", 7: "mesh"}
"""Shapes by MuJoCo's number; height fields (1) and distance functions (8) are not drawn."""
PLANE, FIELD = 0, 1
SOFTNESS = (("geom_solref", (0.02, 1.0)), ("geom_solimp", (0.9, 0.95, 0.001, 0.5, 2.0)),
            ("geom_margin", 0.0), ("geom_gap", 0.0), ("geom_priority", 0))
"""What soft contacts have, and where it says nothing."""
Place = Callable[..., Pose]
"""A pose from a position and a quaternion."""


def geoms(model: Any, links: Sequence[str], pose: Place, notes: Notes) -> Iterator[Visual]:
    """The looks of bodies; `links` are their names here, "" that of the world."""
    for number in range(model.ngeom):
        if model.geom_group[number] >= SHOWN:
            continue
        shape = SHAPES.get(int(model.geom_type[number]))
        if shape is None:
            notes.add("geom not drawn", _name(model, number))
            continue
        material = int(model.geom_matid[number])
        rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[number]
        red, green, blue, opacity = np.clip(rgba, 0, 1).tolist()
        if not opacity:
            continue
        vertices = triangles = None
        if shape == "mesh":
            vertices, triangles = _mesh(model, int(model.geom_dataid[number]))
        yield Visual(links[int(model.geom_bodyid[number])], shape,
                     _size(shape, model.geom_size[number].tolist()),
                     pose(model.geom_pos[number], model.geom_quat[number]),
                     (red, green, blue, opacity), vertices=vertices, triangles=triangles)


def _name(model: Any, number: int) -> str:
    return model.geom(number).name or f"number {number}"


def _size(shape: ShapeName, size: list[float]) -> tuple[float, ...]:
    """MuJoCo has half edges and half lengths."""
    if shape == "box":
        return tuple(2 * x for x in size)
    if shape in ("cylinder", "capsule"):
        return size[0], 2 * size[1]
    if shape == "mesh":
        return 1.0, 1.0, 1.0
    return tuple(size[:{"sphere": 1, "ellipsoid": 3, "plane": 2}[shape]])


def _mesh(model: Any, number: int) -> tuple[np.ndarray, np.ndarray]:
    first, count = int(model.mesh_vertadr[number]), int(model.mesh_vertnum[number])
    face, faces = int(model.mesh_faceadr[number]), int(model.mesh_facenum[number])
    return (np.array(model.mesh_vert[first:first + count], dtype=np.float32),
            np.array(model.mesh_face[face:face + faces], dtype=np.int32))


def _touching(model: Any, *, world: bool) -> list[int]:
    """The geoms of the world's body, or of all others, that may touch anything."""
    return [k for k in range(model.ngeom) if (model.geom_bodyid[k] == 0) == world and (
        model.geom_contype[k] or model.geom_conaffinity[k])]


def _meet(model: Any, one: int, two: int) -> bool:
    return bool(model.geom_contype[one] & model.geom_conaffinity[two]
                or model.geom_contype[two] & model.geom_conaffinity[one])


def collisions(model: Any, links: Sequence[str], pose: Place, notes: Notes,
               ) -> Iterator[Collision]:
    """The shapes of links that touch the world, or would touch it if there were one. The friction
    of two geoms is the larger one, 0 where both have condim 1."""
    ground = _touching(model, world=True)
    for number in _touching(model, world=False):
        under = [k for k in ground if _meet(model, number, k)]
        if ground and not under:
            notes.add("geom that touches nothing of the world is for pairs only",
                      _name(model, number))
        both = [number, *under]
        condim = max(int(model.geom_condim[k]) for k in both)
        if condim > 3:
            notes.add("torsional and rolling friction ignored", _name(model, number))
        _note_softness(model, number, notes)
        friction = max(float(model.geom_friction[k][0]) for k in both) if condim > 1 else 0.0
        try:
            shape = _solid(model, number, pose, notes, friction=friction,
                           pairs_only=bool(ground) and not under)
        except ValueError as error:
            notes.add(f"collision not read ({error})", _name(model, number))
            continue
        yield Collision(links[int(model.geom_bodyid[number])], shape, model.geom(number).name)
    count = len(_touching(model, world=False))
    if count > 1:
        notes.add("contact between geoms of the robot left out, but for pairs that are named",
                  f"{count} geoms")


def _note_softness(model: Any, number: int, notes: Notes) -> None:
    for field, usual in SOFTNESS:
        if not np.allclose(getattr(model, field)[number], usual):
            notes.add(f"{field.removeprefix('geom_')} of soft contact ignored",
                      _name(model, number))


def _solid(model: Any, number: int, pose: Place, notes: Notes, **surface: Any) -> SolidShape:
    kind = SHAPES.get(int(model.geom_type[number]))
    if kind is None or kind == "plane":
        raise ValueError(f"geom type {int(model.geom_type[number])}, expected a solid")
    surface["pose"] = pose(model.geom_pos[number], model.geom_quat[number])
    if kind == "mesh":
        corners, lack = thinned(_mesh(model, int(model.geom_dataid[number]))[0])
        notes.add(f"mesh taken as a hull of at most 16 points, about {1e3 * lack:.2g} mm inside "
                  "of it at most", _name(model, number))
        return Hull(corners, **surface)
    x, *rest = _size(kind, model.geom_size[number].tolist())
    if kind == "sphere":
        return Sphere(x, **surface)
    if kind in ("capsule", "cylinder"):
        return (Capsule if kind == "capsule" else Cylinder)(x, rest[0], **surface)
    return (Box if kind == "box" else Ellipsoid)((x, rest[0], rest[1]), **surface)


def surroundings(model: Any, pose: Place, notes: Notes) -> World | None:
    """The surroundings of the robot: planes, boxes and a height field of the world's body; None if
    nothing of it may be touched."""
    planes, boxes, field, friction = [], [], None, []
    for number in _touching(model, world=True):
        kind, at = int(model.geom_type[number]), pose(
            model.geom_pos[number], model.geom_quat[number])
        if kind == PLANE:
            normal = at.R[:, 2]
            planes.append((tuple(normal.tolist()), float(normal @ at.p)))
        elif SHAPES.get(kind) == "box":
            x, y, z = _size("box", model.geom_size[number].tolist())
            boxes.append(Box((x, y, z), pose=at))
        elif kind == FIELD and field is None and np.allclose(at.R, np.eye(3)):
            field = _height_field(model, int(model.geom_dataid[number]), at)
        else:
            notes.add("geom of the world left out, no plane, box or level height field",
                      _name(model, number))
            continue
        friction.append(float(model.geom_friction[number][0]))
    if not friction:
        return None
    return World(tuple(planes), friction=max(friction), height_field=field, boxes=tuple(boxes))


def _height_field(model: Any, number: int, at: Pose) -> HeightField:
    """MuJoCo's rows are along y; heights are fractions of the third size."""
    rows, columns = int(model.hfield_nrow[number]), int(model.hfield_ncol[number])
    first = int(model.hfield_adr[number])
    half_x, half_y, top, _ = model.hfield_size[number].tolist()
    data = np.array(model.hfield_data[first:first + rows * columns], float)
    heights = top * data.reshape(rows, columns).T + at.p[2]
    return HeightField(heights, (at.p[0] - half_x, at.p[0] + half_x),
                       (at.p[1] - half_y, at.p[1] + half_y))
