"""Surfaces of triangles: simple shapes, normals with creases, simplification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nlink.model.visuals import Colour

Array = np.ndarray
CREASE = np.cos(np.radians(35))
"""Faces that meet at a smaller angle look as one smooth surface."""
MANY = 32
"""Faces around a vertex whose normals are averaged; a vertex of more is where a disc is centred,
or a mesh is broken."""


@dataclass(frozen=True, slots=True)
class Surface:
    """Vertices (N, 3), triangles (M, 3) and a normal for each vertex, outward."""

    vertices: Array
    triangles: Array
    normals: Array
    colour: Colour | None = None

    @classmethod
    def of(cls, vertices: Array, triangles: Array, colour: Colour | None = None) -> Surface:
        """Vertices at one place are one, except along creases, where each side has its own."""
        vertices, triangles = _welded(np.asarray(vertices, float), np.asarray(triangles, int))
        if not len(triangles):
            return cls(np.zeros((0, 3)), np.zeros((0, 3), int), np.zeros((0, 3)), colour)
        normals = _corner_normals(vertices, triangles)
        corners = triangles.ravel()
        # a vertex for each pair of a place and a normal, told apart to a few hundredths
        parts = np.round((normals + 1) * 31).astype(np.int64)
        keys = ((corners.astype(np.int64) * 64 + parts[:, 0]) * 64 + parts[:, 1]) * 64 + parts[:, 2]
        _, first, index = np.unique(keys, return_index=True, return_inverse=True)
        return cls(vertices[corners[first]], index.reshape(-1, 3), normals[first], colour)

    def placed(self, T: Array) -> Surface:
        """Seen from the frame in which this one is at T, 4x4, perhaps scaled or mirrored."""
        A, p = T[:3, :3], T[:3, 3]
        volume = float(np.linalg.det(A))
        normals = self.normals @ np.linalg.inv(A) if volume else self.normals
        size = np.linalg.norm(normals, axis=1, keepdims=True)
        triangles = self.triangles[:, ::-1] if volume < 0 else self.triangles
        return replace(self, vertices=self.vertices @ A.T + p, triangles=triangles,
                       normals=normals / np.where(size, size, 1))

    def coloured(self, colour: Colour | None) -> Surface:
        return replace(self, colour=colour)

    def simplified(self, count: int) -> Surface:
        """The surface with about `count` triangles or fewer: vertices in one cell of a grid become
        their mean [Rossignac and Borrel 1993]."""
        if len(self.triangles) <= count:
            return self
        low, extent = self.vertices.min(axis=0), float(np.ptp(self.vertices, axis=0).max()) or 1.0
        fewest, most, best = 2, 1024, self
        while most - fewest > 1:
            cells = (fewest + most) // 2
            found = self._clustered(low, extent / cells)
            if len(found[1]) <= count:
                fewest, best = cells, Surface.of(*found, self.colour)
            else:
                most = cells
        return best if best is not self else Surface.of(
            *self._clustered(low, extent / fewest), self.colour)

    def _clustered(self, low: Array, cell: float) -> tuple[Array, Array]:
        place = np.round((self.vertices - low) / cell).astype(np.int64)
        _, index = np.unique((place[:, 0] * 4096 + place[:, 1]) * 4096 + place[:, 2],
                             return_inverse=True)
        size = np.bincount(index)
        means = np.stack([np.bincount(index, x) / size for x in self.vertices.T], axis=1)
        triangles = index[self.triangles]
        a, b, c = triangles.T
        return means, triangles[(a != b) & (b != c) & (c != a)]


def joined(surfaces: Sequence[Surface]) -> Surface:
    """Surfaces of one colour as one."""
    starts = np.cumsum([0, *(len(s.vertices) for s in surfaces[:-1])])
    return Surface(np.concatenate([s.vertices for s in surfaces]),
                   np.concatenate([s.triangles + k for s, k in zip(surfaces, starts, strict=True)]),
                   np.concatenate([s.normals for s in surfaces]), surfaces[0].colour)


def plate(points: Sequence[Array], thickness: float) -> Surface | None:
    """A plate that holds three or more points, if they lie in a plane and not in a line."""
    if len(points) < 3:
        return None
    p = np.array(points, float)
    middle = p.mean(axis=0)
    sizes, axes = np.linalg.svd(p - middle)[1:]
    if sizes[1] < 0.2 * sizes[0] or sizes[2] > 0.02 * sizes[0]:
        return None
    corners = _hull((p - middle) @ axes[:2].T)
    count, ring = len(corners), corners @ axes[:2] + middle
    normal = np.cross(axes[0], axes[1])  # the hull runs counterclockwise about it
    vertices = np.concatenate([ring - thickness / 2 * normal, ring + thickness / 2 * normal])
    fans = [(0, k, k + 1) for k in range(1, count - 1)]
    triangles = [*((a, c, b) for a, b, c in fans),
                 *((a + count, b + count, c + count) for a, b, c in fans)]
    for k in range(count):
        m = (k + 1) % count
        triangles += [(k, m, m + count), (k, m + count, k + count)]
    return Surface.of(vertices, np.array(triangles))


def _hull(points: Array) -> Array:
    """The convex hull of points in a plane, counterclockwise [Andrew 1979]."""
    order = points[np.lexsort(points.T[::-1])]

    def side(rows: Array) -> list[Array]:
        chain: list[Array] = []
        for point in rows:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        return chain[:-1]

    return np.array([*side(order), *side(order[::-1])])


def _turn(a: Array, b: Array, c: Array) -> float:
    """Positive if a, b, c turn left."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _welded(vertices: Array, triangles: Array) -> tuple[Array, Array]:
    """Vertices at one place, to a millionth of the size, made one; flat triangles left out."""
    if not len(vertices):
        return vertices.reshape(-1, 3), triangles.reshape(-1, 3)[:0]
    low, extent = vertices.min(axis=0), float(np.ptp(vertices, axis=0).max()) or 1.0
    place = np.round((vertices - low) / extent * (2**20 - 1)).astype(np.int64)
    _, first, index = np.unique((place[:, 0] << 40) + (place[:, 1] << 20) + place[:, 2],
                                return_index=True, return_inverse=True)
    triangles = index[triangles.reshape(-1, 3)]
    a, b, c = triangles.T
    return vertices[first], triangles[(a != b) & (b != c) & (c != a)]


def _corner_normals(vertices: Array, triangles: Array) -> Array:
    """A normal for each corner of each triangle: the mean, by area, of those around its vertex
    that are across no crease."""
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    areas = np.cross(b - a, c - a)
    size = np.linalg.norm(areas, axis=1, keepdims=True)
    units = areas / np.where(size, size, 1)
    corners = triangles.ravel()
    order = np.argsort(corners, kind="stable")
    face = order // 3
    count = np.bincount(corners, minlength=len(vertices))[corners[order]]
    start = (np.cumsum(np.bincount(corners, minlength=len(vertices)))
             - np.bincount(corners, minlength=len(vertices)))[corners[order]]
    place = np.arange(len(order)) - start
    total = areas[face].copy()
    for shift in range(1, min(MANY, int(count.max(initial=1)))):
        rows = np.flatnonzero((count > shift) & (count <= MANY))
        other = face[start[rows] + (place[rows] + shift) % count[rows]]
        smooth = np.einsum("ij,ij->i", units[face[rows]], units[other]) > CREASE
        total[rows] += np.where(smooth[:, None], areas[other], 0.0)
    size = np.linalg.norm(total, axis=1, keepdims=True)
    normals = np.empty_like(total)
    normals[order] = np.where(size > 0, total / np.where(size, size, 1), units[face])
    return normals


def lathe(profile: Sequence[tuple[float, float]], around: int = 24) -> Surface:
    """What a profile of points (radius, height), from low to high, makes when turned about z."""
    r, z = np.array(profile, float).T
    angle = np.arange(around) * (2 * np.pi / around)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    vertices = np.concatenate([np.column_stack([radius * ring, np.full(around, height)])
                               for radius, height in zip(r, z, strict=True)])
    k = np.arange(around)
    quads = np.concatenate([np.stack([level * around + k, level * around + (k + 1) % around,
                                      (level + 1) * around + (k + 1) % around,
                                      (level + 1) * around + k], axis=1)
                            for level in range(len(r) - 1)])
    return Surface.of(vertices, np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]))


def box(x: float, y: float, z: float) -> Surface:
    """A box of these edges around the origin."""
    corners = np.array([(i, j, k) for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], float)
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = [t for a, b, c, d in faces for t in ((a, b, c), (a, c, d))]
    return Surface.of(corners * (np.array([x, y, z]) / 2), np.array(triangles))


def cylinder(radius: float, length: float, top: float | None = None) -> Surface:
    """A cylinder along z around the origin, or a cone that ends with the radius `top`."""
    top, half = radius if top is None else top, length / 2
    return lathe([(0.0, -half), (radius, -half), (top, half), (0.0, half)])


def capsule(radius: float, length: float, top: float | None = None) -> Surface:
    """A cylinder or cone along z with round ends, `length` between their centres."""
    top, half = radius if top is None else top, length / 2
    low = [(radius * np.sin(a), -half - radius * np.cos(a)) for a in np.linspace(0, np.pi / 2, 7)]
    high = [(top * np.cos(a), half + top * np.sin(a)) for a in np.linspace(0, np.pi / 2, 7)]
    return lathe([*low, *high])


def ellipsoid(x: float, y: float, z: float) -> Surface:
    """An ellipsoid of these half axes."""
    ball = lathe([(np.sin(a), -np.cos(a)) for a in np.linspace(0, np.pi, 15)])
    return ball.placed(np.diag([x or 1e-9, y or 1e-9, z or 1e-9, 1.0]))


def rod(start: Array, end: Array, radius: float, top: float | None = None) -> Surface:
    """A tapered rod with round ends between two points."""
    length = float(np.linalg.norm(end - start))
    return capsule(radius, length, top).placed(pointing(end - start, (start + end) / 2))


def arrow(length: float, radius: float) -> Surface:
    """An arrow from the origin along z."""
    head = min(6 * radius, 0.5 * length)
    return lathe([(0.0, 0.0), (radius, 0.0), (radius, length - head), (2.5 * radius, length - head),
                  (0.0, length)], 16)


def pointing(direction: Array, at: Array) -> Array:
    """The frame at a point whose z axis has a direction, 4x4."""
    T, size = np.eye(4), float(np.linalg.norm(direction))
    T[:3, 3] = at
    if size:
        z = direction / size
        x = np.eye(3)[int(np.argmin(np.abs(z)))]
        x = np.cross(z, x) / np.linalg.norm(np.cross(z, x))
        T[:3, :3] = np.column_stack([x, np.cross(z, x), z])
    return T
