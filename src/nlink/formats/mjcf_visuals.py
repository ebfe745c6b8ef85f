"""The geoms of a compiled MuJoCo model that its own viewer shows, for drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nlink.formats.safe_xml import Notes
from nlink.model.pose import Pose
from nlink.model.visuals import ShapeName, Visual

SHOWN = 3
"""Geoms of groups below this are shown, as MuJoCo's viewer does; others are for collisions."""
_SHAPES: dict[int, ShapeName] = {0: "plane", 2: "sphere", 3: "capsule", 4: "ellipsoid",
                                 5: "cylinder", 6: "box", 7: "mesh"}
"""Shapes by MuJoCo's number; height fields (1) and distance functions (8) are not drawn."""


def geoms(model: Any, links: Sequence[str], pose: Callable[..., Pose], notes: Notes,
          ) -> Iterator[Visual]:
    """What bodies look like; `links` are their names here, "" that of the world."""
    for number in range(model.ngeom):
        name = model.geom(number).name or f"number {number}"
        if model.geom_contype[number] or model.geom_conaffinity[number]:
            notes.add("contact of geom ignored", name)
        if model.geom_group[number] >= SHOWN:
            continue
        shape = _SHAPES.get(int(model.geom_type[number]))
        if shape is None:
            notes.add("geom not drawn", name)
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
