"""A still picture of a robot: NumPy alone, no display, no graphics library.

A camera looks at the robot from the front, the side and above; the sky lights what faces it, the
sun the rest, and its shadow falls on a ground with a grid.
"""

from __future__ import annotations

import base64
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nlink.formats.files import write_bytes
from nlink.model.joints import AxialJoint
from nlink.scalars.arrays import single
from nlink.viewer.raster import Work, rasterize
from nlink.viewer.scene import LAYERS, Part, Scene
from nlink.viewer.solids import level_ground

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
FINER = 2
"""Pixels are means of this many squared."""
FEW = 40
"""Links of a robot that is drawn wherever it is shown."""
LARGEST = 4096
"""Pixels across."""
COVERS = 20
"""How often the triangles of a picture may cover it before the largest are left out."""
LEAST_WORK = 20_000_000
"""Pixels that are looked at in any case: a small picture of a mesh of many small triangles."""
THEMES = {
    "light": {"sky": (1.0, 1.0, 1.0), "ground": (0.965, 0.968, 0.975), "line": (0.80, 0.82, 0.85),
              "shadow": 0.30},
    "dark": {"sky": (0.086, 0.094, 0.102), "ground": (0.125, 0.135, 0.148),
             "line": (0.24, 0.255, 0.275), "shadow": 0.55},
}


@dataclass(frozen=True)
class Camera:
    """Where a picture is taken from: it looks at `target` from `eye`, `up` being upward."""

    eye: Array
    target: Array
    up: Array
    angle: float = 0.55
    """The angle of the view from top to bottom, radians."""

    @property
    def axes(self) -> Array:
        """Rows: right, up, and toward the viewer."""
        back = (self.eye - self.target) / np.linalg.norm(self.eye - self.target)
        right = np.cross(self.up, back)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(back, right), back])

    @classmethod
    def around(cls, scene: Scene, corners: Array, aspect: float = 4 / 3) -> Camera:
        """A view from the front, side and above that holds all corners (..., 3)."""
        corners = corners.reshape(-1, 3)
        corners = corners[np.isfinite(corners).all(axis=1)]
        low, high = corners.min(axis=0), corners.max(axis=0)
        target, up = (low + high) / 2, scene.up
        front, side = _ground_axes(scene, up)
        back = 0.74 * side + 0.60 * front + 0.42 * up
        camera = cls(target + back / np.linalg.norm(back), target, up)
        x, y, z = ((corners - target) @ camera.axes.T).T
        slope = np.tan(camera.angle / 2) * 0.86
        far = max(float((np.abs(y) / slope + z).max()),
                  float((np.abs(x) / (slope * aspect) + z).max()), 1e-6)
        return cls(target + back / np.linalg.norm(back) * far, target, up)

    def project(self, points: Array, width: int, height: int) -> Array:
        """x, y in pixels and 1/distance; nan behind the camera."""
        x, y, z = ((points - self.eye) @ self.axes.T).T
        scale = height / 2 / np.tan(self.angle / 2)
        near = np.where(z < -1e-9, -z, np.nan)
        return np.stack([width / 2 + scale * x / near, height / 2 - scale * y / near, 1 / near],
                        axis=1)


def _ground_axes(scene: Scene, up: Array) -> tuple[Array, Array]:
    """Two level directions: ahead, and to the side from which a plane mechanism is seen."""
    ahead = np.eye(3)[int(np.argmin(np.abs(up[:2])))] if abs(up[2]) < 0.9 else np.eye(3)[0]
    ahead = ahead - up * (up @ ahead)
    ahead /= np.linalg.norm(ahead)
    side = np.cross(ahead, up)
    axes = [places[:3, :3] @ np.array(joint.type.axis) for places, joint in zip(
        scene.places(np.array(_zeros(scene)))[1:], scene.description.joints, strict=True)
        if isinstance(joint.type, AxialJoint) and joint.type.axis is not None]
    flat = len(axes) > 1 and all(np.linalg.norm(np.cross(axes[0], x)) < 1e-6 for x in axes)
    if flat and abs(axes[0] @ up) < 0.1:
        side = axes[0] * (1.0 if axes[0] @ side >= 0 else -1.0)
        return 0.35 * np.cross(up, side), 1.4 * side
    return ahead, side


def _zeros(scene: Scene) -> list[float]:
    d = scene.description
    return list(d.home) or [x for joint in d.joints for x in joint.type.space.neutral]


def picture(scene: Scene, places: Array, *, width: int = 960, height: int = 720,
            camera: Camera | None = None, theme: str = "light",
            layers: Iterable[str] = (), ghosts: Sequence[Array] = (),
            tell: Callable[[str], object] = lambda _note: None) -> Array:
    """(height, width, 3) bytes: the robot with its links at `places` (links + 1, 4, 4); `tell` is
    told what was left out because it would take too long."""
    if theme not in THEMES:
        raise ValueError(f"theme: {theme!r}, expected {' or '.join(map(repr, THEMES))}")
    unknown = [layer for layer in layers if layer not in LAYERS]
    if unknown:
        raise ValueError(f"layers: {unknown[0]!r}, expected some of {', '.join(LAYERS)}")
    if not all(hasattr(size, "__index__") and 16 <= size <= LARGEST for size in (width, height)):
        raise ValueError(f"size: {width} x {height} pixels, expected 16 to {LARGEST}")
    corners = scene.corners(places)
    camera = camera or Camera.around(scene, corners, width / height)
    wanted = {"body", "world", *layers}
    parts = [part for part in (*scene.parts, *(scene.extras() if layers else ()))
             if part.layer in wanted]
    solid = [part for part in parts if part.colour[3] >= 0.99]
    clear = [part for part in parts if part.colour[3] < 0.99]
    w, h = width * FINER, height * FINER
    work = Work(max(COVERS * w * h, LEAST_WORK))
    ground = _ground(scene, solid, places, camera, width, height, THEMES[theme])
    image, depth = ground.repeat(FINER, 0).repeat(FINER, 1), np.full(w * h, np.inf)
    image, depth = _paint(image, depth, solid, places, camera, w, h, 1.0, work)
    for ghost in ghosts:
        image, _ = _paint(image, depth, solid, ghost, camera, w, h, 0.25, work)
    for part in clear:
        work.pixels -= w * h  # each is laid over all of the picture
        image, _ = _paint(image, depth, [part], places, camera, w, h, part.colour[3], work)
    if work.left_out:
        tell(f"{work.left_out} triangles that cover much of the picture are left out: all of them "
             f"would cover it more than {COVERS} times")
    image = image.reshape(height, FINER, width, FINER, 3).mean(axis=(1, 3))
    return np.round(255 * np.clip(image, 0, 1)).astype(np.uint8)


def _world(parts: Sequence[Part], places: Array) -> tuple[Array, Array, Array, Array]:
    """Vertices, normals, triangles, and a colour for each triangle, of parts together."""
    vertices, normals, triangles, colours, start = [], [], [], [], 0
    for part in parts:
        T, s = places[part.link], part.surface
        vertices.append(s.vertices @ T[:3, :3].T + T[:3, 3])
        normals.append(s.normals @ T[:3, :3].T)
        triangles.append(s.triangles + start)
        colours.append(np.broadcast_to(part.colour[:3], (len(s.triangles), 3)))
        start += len(s.vertices)
    return tuple(np.concatenate(x) for x in (vertices, normals, triangles, colours))  # type: ignore


def _paint(image: Array, depth: Array, parts: Sequence[Part], places: Array, camera: Camera,
           w: int, h: int, opacity: float, work: Work) -> tuple[Array, Array]:
    """The image with parts in front of what is farther away."""
    if not parts or work.pixels <= 0:
        work.left_out += sum(len(part.surface.triangles) for part in parts)
        return image, depth
    vertices, normals, triangles, colours = _world(parts, places)
    buffer = rasterize(camera.project(vertices, w, h), triangles, w, h, work)
    hit = np.flatnonzero((buffer.triangle >= 0) & (buffer.depth < depth))
    which = buffer.triangle[hit]
    weights = buffer.weights[hit, :, None]
    n = (weights * normals[triangles[which]]).sum(axis=1)
    at = (weights * vertices[triangles[which]]).sum(axis=1)
    shaded = shade(colours[which], n, at, camera)
    image, depth = image.reshape(-1, 3).copy(), depth.copy()
    image[hit] = (1 - opacity) * image[hit] + opacity * shaded
    depth[hit] = buffer.depth[hit]
    return image.reshape(h, w, 3), depth


def sun(camera: Camera) -> Array:
    """From where the light comes: over the viewer's left shoulder, more from above."""
    direction = 1.6 * camera.up + 0.55 * camera.axes[2] - 0.75 * camera.axes[0]
    return direction / np.linalg.norm(direction)


def shade(colour: Array, n: Array, at: Array, camera: Camera) -> Array:
    """Light from sky, ground and sun, and a small highlight; both sides of a surface alike."""
    n = n / np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-12)
    view = camera.eye - at
    view /= np.linalg.norm(view, axis=1, keepdims=True)
    n = np.where((n * view).sum(axis=1, keepdims=True) < 0, -n, n)
    light = sun(camera)
    sky = 0.5 + 0.5 * (n @ camera.up)
    half = view + light
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    gloss = np.maximum((n * half).sum(axis=1), 0) ** 40
    bright = 0.30 + 0.28 * sky + 0.52 * np.maximum(n @ light, 0)
    return np.clip(colour * bright[:, None] + 0.16 * gloss[:, None], 0, 1)


def ground_height(scene: Scene, corners: Array) -> float:
    """Along the upward direction: a level plane of the world, or below all corners and terrain."""
    known = level_ground(scene.description.world, scene.up)
    if known is not None:
        return known
    every = [corners.reshape(-1, 3), *(part.surface.vertices for part in scene.parts
                                       if part.layer == "world")]
    return float(np.nanmin(np.concatenate(every) @ scene.up)) - 1e-3 * scene.size


def _ground(scene: Scene, parts: Sequence[Part], places: Array, camera: Camera, w: int, h: int,
            theme: dict) -> Array:
    """The sky, and a ground with a grid and a shadow that fades with the distance."""
    up, level = camera.up, ground_height(scene, scene.corners(places))
    x = (np.arange(w) + 0.5 - w / 2)[None, :]
    y = (h / 2 - np.arange(h) - 0.5)[:, None]
    right, above, back = camera.axes
    scale = h / 2 / np.tan(camera.angle / 2)
    ray = x[..., None] * right + y[..., None] * above - scale * back
    down = ray @ up
    t = (level - camera.eye @ up) / np.where(np.abs(down) > 1e-9, down, np.nan)
    hit = np.isfinite(t) & (t > 0)
    t = np.where(hit, t, 0.0)
    at = camera.eye + t[..., None] * ray
    span = max(2.2 * scene.size, 1e-9)
    e1, e2 = _level_axes(up)
    middle = camera.target - up * (camera.target @ up)
    near = np.linalg.norm((at - middle) - ((at - middle) @ up)[..., None] * up, axis=-1)
    fade = np.clip(1.25 - near / span, 0, 1) * hit
    fade = fade * fade * (3 - 2 * fade)
    cell = 10.0 ** np.floor(np.log10(scene.size / 2))
    cell *= 5 if scene.size / cell > 12 else 2 if scene.size / cell > 6 else 1
    pixel = t * np.linalg.norm(ray, axis=-1) / scale / np.maximum(np.abs(down) / np.linalg.norm(
        ray, axis=-1), 0.05)
    lines = np.zeros((h, w))
    for e in (e1, e2):
        d = (at @ e) / cell
        d = np.abs(d - np.round(d)) * cell
        lines = np.maximum(lines, np.clip(1.2 - d / np.maximum(0.8 * pixel, 1e-12), 0, 1))
    sky, ground, line = (np.array(theme[k]) for k in ("sky", "ground", "line"))
    colour = ground + (0.8 * lines * np.clip(2 - 12 * pixel / cell, 0, 1))[..., None] * (
        line - ground)
    dark = _shadow(parts, places, camera, at, hit, level, span)
    colour = colour * (1 - theme["shadow"] * dark)[..., None]
    return sky + fade[..., None] * (colour - sky)


def _level_axes(up: Array) -> tuple[Array, Array]:
    e = np.eye(3)[int(np.argmin(np.abs(up)))]
    e1 = np.cross(up, e) / np.linalg.norm(np.cross(up, e))
    return e1, np.cross(up, e1)


def _shadow(parts: Sequence[Part], places: Array, camera: Camera, at: Array, hit: Array,
            level: float, span: float, cells: int = 512) -> Array:
    """How dark the ground is at points: the parts seen from the sun, on the ground, blurred."""
    dark = np.zeros(at.shape[:2])
    if not parts:
        return dark
    vertices, _, triangles, _ = _world(parts, places)
    up, light = camera.up, sun(camera)
    vertices = vertices - ((vertices @ up - level) / (light @ up))[:, None] * light
    e1, e2 = _level_axes(up)
    flat = np.stack([vertices @ e1, vertices @ e2], axis=1)
    low, high = flat.min(axis=0), flat.max(axis=0)
    margin = 0.08 * max(float((high - low).max()), 1e-6)
    low, cell = low - margin, (float((high - low).max()) + 2 * margin) / cells
    points = np.column_stack([(flat - low) / cell, np.ones(len(flat))])
    work = Work(max(COVERS * cells**2, LEAST_WORK))
    mask = (rasterize(points, triangles, cells, cells, work).triangle >= 0) * 1.0
    mask = mask.reshape(cells, cells)
    for _ in range(3):
        for axis in (0, 1):
            total = np.cumsum(np.pad(mask, [(4, 4) if k == axis else (0, 0) for k in (0, 1)]),
                              axis=axis)
            upper, lower = (np.take(total, range(a, a + cells), axis=axis) for a in (8, 0))
            mask = (upper - lower) / 8
    spot = np.stack([(at @ e1 - low[0]) / cell, (at @ e2 - low[1]) / cell], axis=-1)
    x, y = np.clip(spot, 0, cells - 1.001)[..., 0], np.clip(spot, 0, cells - 1.001)[..., 1]
    i, j, fx, fy = x.astype(int), y.astype(int), x % 1, y % 1
    dark = (mask[j, i] * (1 - fx) * (1 - fy) + mask[j, i + 1] * fx * (1 - fy)
            + mask[j + 1, i] * (1 - fx) * fy + mask[j + 1, i + 1] * fx * fy)
    within = ((spot >= 0) & (spot <= cells - 1)).all(axis=-1)
    return np.where(hit & within, dark, 0.0)


def png(image: Array) -> bytes:
    """An image (height, width, 3) of bytes as a PNG file.

    >>> png(np.zeros((16, 16, 3), np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width = image.shape[:2]
    rows = np.zeros((height, 3 * width + 1), np.uint8)
    flat = image.reshape(height, -1)
    rows[:, 0], rows[:, 1:] = 2, flat  # each row as its difference from the one above
    rows[1:, 1:] -= flat[:-1]

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b""))


def robot_png(robot: Robot, path: str | Path | None, q: ArrayLike | None = None, *,
              width: int = 960, height: int = 720, theme: str = "light",
              layers: Iterable[str] = (), packages: Sequence[str | Path] = (),
              scene: Scene | None = None) -> bytes:
    """A picture of a robot in a configuration, written to `path` if given; what could not be
    drawn is said on standard error."""
    if not isinstance(path, str | Path | None):
        raise TypeError(f"path: {path!r:.60}, expected the name of a .png file, or None: "
                        "robot.png(path, q)")
    if path is not None and Path(path).suffix != ".png":
        raise ValueError(f"path: {str(path)!r} has the suffix {Path(path).suffix!r}, "
                         "expected .png")
    q = single("q", robot.neutral if q is None else q, (robot.nq,))
    scene = scene or Scene.of(robot, packages)
    notes = list(scene.notes)
    data = png(picture(scene, scene.places(q), width=width, height=height, theme=theme,
                       layers=layers, tell=notes.append))
    for note in notes:
        print(f"nlink: {note}", file=sys.stderr)
    if path is not None:
        write_bytes(path, data)
    return data


def inline_picture(robot: Robot, *, width: int = 320, height: int = 240) -> str:
    """A small picture within a page; nothing where meshes would have to be read first, or the
    links are so many that drawing takes long."""
    if len(robot.links) > FEW or any(visual.file for visual in robot.description.visuals):
        return ""
    data = base64.b64encode(robot_png(robot, None, width=width, height=height)).decode("ascii")
    return f'<img width="{width}" height="{height}" alt="" src="data:image/png;base64,{data}">'
