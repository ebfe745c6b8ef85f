"""A motion as one HTML file: frames, meshes, curves and a small WebGL program, nothing outside.

Numbers are bytes: places as 32-bit floats and quaternions as 16-bit integers, vertices as 16-bit
fractions of their mesh's box, normals as 8-bit integers; differences where neighbours are alike,
the bytes of equal weight together, then deflated.

A motion within a notebook: the page that `run.html` writes, in a frame; no server.
"""

from __future__ import annotations

import base64
import html
import json
import zlib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.formats.files import write_text
from nlink.model.joints import AxialJoint
from nlink.viewer.clip import Clip
from nlink.viewer.pictures import Camera, ground_height, picture, png, upward
from nlink.viewer.places import quaternions
from nlink.viewer.scene import GREY, Part, Scene

if TYPE_CHECKING:
    from nlink.simulation.run import Run


Array = np.ndarray
PAGE_TRIANGLES = 100_000
"""The most triangles of a page; larger meshes are simplified."""
REACHES = (1.5, 3.0, 6.0)
"""Sizes of a robot within which it is looked at: the first in which most of it stays."""
STAYS = 0.6
"""The share of it that must stay there."""
_POLICY = ("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
           "img-src data:")


class _Bytes:
    """Arrays in one string of bytes, and where each is."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.size = 0

    def add(self, array: Array, *, differences: bool = False) -> dict[str, Any]:
        """An array in little-endian bytes, those of equal weight together; of integers the
        differences along the first axis if asked for."""
        array = np.ascontiguousarray(array)
        if differences:
            array = np.diff(array, axis=0, prepend=array[:1] * 0)
        kind = array.dtype.newbyteorder("<")
        shuffled = array.astype(kind).reshape(-1).view(np.uint8).reshape(-1, kind.itemsize).T
        data = np.ascontiguousarray(shuffled).tobytes()
        where = {"type": array.dtype.name, "start": self.size, "shape": list(array.shape),
                 "sum": differences}
        self.data.append(data)
        self.size += len(data)
        return where

    def text(self) -> str:
        return base64.b64encode(zlib.compress(b"".join(self.data), 9)).decode("ascii")


def motion_page(clip: Clip, *, triangles: int = PAGE_TRIANGLES, compact: bool = False,
                playing: bool = True) -> str:
    """The page of a clip; `compact` is without curves, for a report or a notebook, and one that
    is `playing` begins by itself, unless the reader has asked the browser for less motion."""
    data = _Bytes()
    camera = Camera.around(clip.scene, _swept(clip), 1.4)
    parts, words = _within(clip.scene, triangles)
    head = {
        "title": clip.title, "compact": compact, "playing": playing,
        "t": data.add(clip.t.astype(np.float32)),
        "links": clip.places.shape[2], "trajectories": len(clip.places), "total": clip.total,
        "status": clip.status,
        "p": data.add(clip.places[..., :3, 3].astype(np.float32).transpose(2, 3, 0, 1)),
        "r": data.add(_smooth(quaternions(clip.places[..., :3, :3])).transpose(2, 3, 0, 1)),
        "parts": [_part(part, data) for part in parts],
        "trace": data.add(clip.trace.astype(np.float32)), "traced": clip.traced,
        "forces": data.add(clip.forces.astype(np.float32)),
        "points": data.add(clip.points.astype(np.float32)),
        "energy": data.add(clip.energy.astype(np.float32)),
        "curves": [] if compact else [
            {"name": name, "y": data.add(values.astype(np.float32))}
            for name, values in clip.curves.items()],
        "eye": camera.eye.tolist(), "target": camera.target.tolist(), "up": camera.up.tolist(),
        "angle": camera.angle, "size": clip.scene.size,
        "ground": ground_height(clip.scene, _swept(clip)),
        "center": data.add(clip.scene.center_of_mass(clip.places).astype(np.float32)),
        **_marks(clip.scene), "notes": [*clip.scene.notes, *words],
    }
    still = png(picture(clip.scene, clip.places[0, 0], width=640, height=460, camera=camera))
    return _document(clip.title, head, data, still)


def run_page(run: Run, path: str | Path, **options: Any) -> Path:
    """Write the page of a run."""
    path = Path(path)
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"path: {str(path)!r} has the suffix {path.suffix!r}, expected .html")
    write_text(path, motion_page(Clip.of(run, **options)))
    return path


def inline_frame(page: str, height: int = 460) -> str:
    """A page within another: a frame that has it as its text, and is loaded when it is seen."""
    return (f'<iframe loading="lazy" title="motion" sandbox="allow-scripts" '
            f'style="width:100%;height:{height}px;border:0;border-radius:8px" '
            f'srcdoc="{html.escape(page, quote=True)}"></iframe>')


def _document(title: str, head: dict[str, Any], data: _Bytes, still: bytes) -> str:
    here = resources.files("nlink.viewer")
    style, program = ((here / name).read_text("utf-8") for name in ("motion.css", "motion.js"))
    # "</" would end a script within its text
    numbers = json.dumps(head, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    picture = base64.b64encode(still).decode("ascii")
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(title)}</title><style>{style}</style></head>"
            f'<body class="{"compact" if head["compact"] else "whole"}">'
            f'<header><h1>{html.escape(title)}</h1><p id="about"></p></header>'
            f'<main><section id="stage"><canvas id="scene" tabindex="0" aria-label="'
            f'{html.escape(title, quote=True)}"></canvas>'
            f'<img id="still" alt="{html.escape(title, quote=True)}" '
            f'src="data:image/png;base64,{picture}"><p id="problem" hidden></p></section>'
            f'<div id="controls"></div><section id="curves"></section></main>'
            f'<footer id="notes"></footer>'
            f'<script type="application/json" id="head">{numbers}</script>'
            f'<script type="text/plain" id="data">{data.text()}</script>'
            f"<script>{program}</script></body></html>\n")


def _swept(clip: Clip) -> Array:
    """Corners of some frames, for the camera. It frames the robot, not its path: what slides or
    flies away by many sizes is left out, and if that is most of the robot, the camera looks at
    where it began."""
    some = clip.scene.corners(clip.places[:, ::max(1, clip.places.shape[1] // 24)])
    first, corners = some[:, 0].reshape(-1, 3), some.reshape(-1, 3)
    far = np.linalg.norm(corners - first.mean(axis=0), axis=1) / clip.scene.size
    reach = next((x for x in REACHES if (far <= x).mean() > STAYS), REACHES[0])
    return np.concatenate([first, corners[far <= reach]])


def _smooth(r: Array) -> Array:
    """Quaternions (trajectories, frames, links, 4) as integers, each of the sign that is next to
    the one before it."""
    flips = np.sign(np.einsum("ijkl,ijkl->ijk", r[:, 1:], r[:, :-1]))
    flips = np.concatenate([np.ones_like(flips[:, :1]), np.where(flips == 0, 1, flips)], axis=1)
    return np.round(r * np.cumprod(flips, axis=1)[..., None] * 32767).astype(np.int16)


def _within(scene: Scene, most: int) -> tuple[list[Part], list[str]]:
    """The bodies with at most about so many triangles, large meshes giving way first."""
    bodies = [part for part in scene.parts if part.layer == "body" and len(part.surface.triangles)]
    counts = np.array([len(part.surface.triangles) for part in bodies])
    total = int(counts.sum())
    if total <= most:
        return bodies, []
    low, high = 0, int(counts.max())
    while high - low > 1:  # the largest bound of a part with which all of them fit
        bound = (low + high) // 2
        low, high = (bound, high) if np.minimum(counts, bound).sum() <= most else (low, bound)
    parts = [Part(part.link, part.surface.simplified(max(low, 64)), part.layer) for part in bodies]
    left = sum(len(part.surface.triangles) for part in parts)
    return parts, [f"meshes simplified to {left} triangles of {total}"]


def _part(part: Part, data: _Bytes) -> dict[str, Any]:
    """A surface by its distinct vertices, as fractions of the box that holds them."""
    v, n = part.surface.vertices, part.surface.normals
    low, extent = v.min(axis=0), np.ptp(v, axis=0)
    extent = np.where(extent > 0, extent, 1.0)
    grid = np.round((v - low) / extent * 65535).astype(np.int64)
    small = np.round(n * 127).astype(np.int8)
    # vertices in the order in which triangles meet them: their differences are small
    order, first = np.unique(part.surface.triangles.ravel(), return_index=True)
    order = order[np.argsort(first, kind="stable")]
    renamed = np.zeros(len(v), np.int32)
    renamed[order] = np.arange(len(order))
    return {"link": part.link, "colour": [round(x, 4) for x in part.surface.colour or GREY],
            "low": low.tolist(), "extent": extent.tolist(),
            "v": data.add(grid[order].astype(np.uint16), differences=True),
            "n": data.add(small[order]),
            "f": data.add(renamed[part.surface.triangles].ravel().astype(np.int32),
                          differences=True)}


def _marks(scene: Scene) -> dict[str, Any]:
    """What is drawn by the page itself: axes as a point and a direction, ellipsoids as 4x4."""
    d, axes, masses, inertias = scene.description, [], [], []
    for number, (link, joint) in enumerate(zip(d.links, d.joints, strict=True), 1):
        if isinstance(joint.type, AxialJoint) and joint.type.axis is not None:
            back = joint.placement.after.inverse()
            axes.append([number, *back.origin, *(back.R @ np.array(joint.type.axis)).tolist()])
        if link.mass > 0:
            masses.append([number, *link.com])
            I = np.array(link.inertia)
            moments, turn = np.linalg.eigh(np.eye(3) * np.trace(I) / 2 - I)
            half = np.clip(np.sqrt(np.maximum(moments, 0) * 5 / link.mass), 4e-3 * scene.size,
                           2 * scene.size)
            inertias.append([number, *(turn * half).T.ravel().tolist(), *link.com])
    return {"axes": axes, "masses": masses, "inertias": inertias,
            "upright": upward(scene).tolist()}


class InlineView:
    """What `run.view()` gives in a notebook, which shows it."""

    def __init__(self, run: Run, **options: Any) -> None:
        self.page = motion_page(Clip.of(run, **options))

    def _repr_html_(self) -> str:
        return inline_frame(self.page)

    def __repr__(self) -> str:
        return f"<InlineView: a page of {len(self.page)} characters>"

    def close(self) -> None:
        """Nothing runs that would have to be ended."""
