"""Surfaces of shapes that touch, of the world that they touch, and of bodies without a shape."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from nlink.model.description import Link
from nlink.model.shapes import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Hull,
    SolidShape,
    Sphere,
)
from nlink.model.world import HeightField, World
from nlink.viewer import surfaces
from nlink.viewer.surfaces import Surface

Array = np.ndarray
LEVEL = 1e-9
"""The square of the sine of a plane's tilt below which it is level."""
PLATE = 3.0
"""The edge of a plate that stands for a tilted plane, in sizes of the robot."""


def solid(shape: SolidShape) -> Surface | None:
    """The surface of a shape in the frame of its link; None of a mesh that was not read."""
    if isinstance(shape, Sphere):
        made = surfaces.ellipsoid(*[shape.radius] * 3)
    elif isinstance(shape, Capsule):
        made = surfaces.capsule(shape.radius, shape.length)
    elif isinstance(shape, Cylinder):
        made = surfaces.cylinder(shape.radius, shape.length)
    elif isinstance(shape, Box):
        made = surfaces.box(*shape.edges)
    elif isinstance(shape, Ellipsoid):
        made = surfaces.ellipsoid(*shape.half_axes)
    elif isinstance(shape, Hull):
        made = hull(np.array(shape.points))
    else:
        return None
    return made.placed(shape.pose.matrix)


def hull(points: Array) -> Surface:
    """The convex hull of a few points: all triangles of them beyond which there is none."""
    size = float(np.ptp(points, axis=0).max()) or 1.0
    triangles = []
    for i, j, k in combinations(range(len(points)), 3):
        n = np.cross(points[j] - points[i], points[k] - points[i])
        length = np.linalg.norm(n)
        if length < 1e-9 * size * size:
            continue
        height = (points - points[i]) @ (n / length)
        if height.max() < 1e-9 * size:
            triangles.append((i, j, k))
        elif height.min() > -1e-9 * size:
            triangles.append((i, k, j))
    return Surface.of(points, np.array(triangles, int).reshape(-1, 3))


def world_surfaces(world: World, size: float, up: Array) -> Iterator[Surface]:
    """What stands around a robot of a size: boxes, terrain, and planes that are tilted; a level
    plane is the ground of every picture."""
    for normal, offset in world.planes or ():
        n = np.array(normal)
        if np.linalg.norm(np.cross(n, up)) ** 2 > LEVEL or n @ up < 0:
            plate = surfaces.box(PLATE * size, PLATE * size, 1e-3 * size)
            yield plate.placed(surfaces.pointing(n, (offset - 5e-4 * size) * n))
    if world.height_field is not None:
        yield terrain(world.height_field)
    for box in world.boxes:
        yield surfaces.box(*box.edges).placed(box.pose.matrix)


def terrain(field: HeightField) -> Surface:
    """Two triangles for each cell."""
    z = np.array(field.heights)
    rows, columns = z.shape
    x, y = np.meshgrid(np.linspace(*field.x, rows), np.linspace(*field.y, columns), indexing="ij")
    at = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = (part.ravel() for part in (at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]))
    return Surface.of(np.stack([x, y, z], axis=-1).reshape(-1, 3),
                      np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)]))


def level_ground(world: World | None, up: Array) -> float | None:
    """How high the highest level plane of a world is, None if there is none."""
    heights = [offset for normal, offset in (world.planes or () if world else ())
               if np.linalg.norm(np.cross(normal, up)) ** 2 <= LEVEL and np.array(normal) @ up > 0]
    return max(heights, default=None)


def equal_inertia(link: Link, size: float, *, box: bool = False) -> Surface | None:
    """The uniform ellipsoid, or box, with the mass and moments of a link; none if there is none.

    J = tr(I)/2 - I has the moments m a^2/5 for half axes a, and m e^2/12 for edges e.
    """
    I = np.array(link.inertia, float)
    moments, axes = np.linalg.eigh(np.eye(3) * np.trace(I) / 2 - I)
    if not (link.mass > 0 and moments[-1] > 0):
        return None
    lengths = np.sqrt(np.maximum(moments, 0) * (12 if box else 5) / link.mass)
    lengths = np.clip(lengths, 0.004 * size, 2 * size)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = axes * np.sign(np.linalg.det(axes)), link.com
    return (surfaces.box if box else surfaces.ellipsoid)(*lengths).placed(T)
