"""What pages with a scene have in common: meshes and numbers as bytes, a still picture, scripts.

Numbers are bytes: vertices as 16-bit fractions of their mesh's box, normals as 8-bit integers;
differences where neighbours are alike, the bytes of equal weight together, then deflated. A page
is one file that asks nobody for anything: its policy lets the browser run its own script alone,
named by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np

from nlink.model.joints import AxialJoint
from nlink.viewer.pictures import Camera, ground_height
from nlink.viewer.scene import GREY, Part, Scene, contact_shapes

Array = np.ndarray
PAGE_TRIANGLES = 100_000
"""The most triangles of a page; larger meshes are simplified."""
DRAWN = ("body", "world", "contacts")
"""Layers that a page has as meshes; contact shapes are shown on request."""


class PageBytes:
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
        return _deflated(b"".join(self.data))


def scene_numbers(scene: Scene, swept: Array, camera: Camera, data: PageBytes,
                  triangles: int = PAGE_TRIANGLES) -> dict[str, Any]:
    """What the script of a scene reads: meshes, the camera, the ground, marks, notes."""
    parts, words = _within(scene, triangles)
    return {"parts": [_part(part, data) for part in parts],
            "eye": camera.eye.tolist(), "target": camera.target.tolist(), "up": camera.up.tolist(),
            "angle": camera.angle, "size": scene.size, "ground": ground_height(scene, swept),
            **_marks(scene), "notes": [*scene.notes, *words]}


def document(title: str, head: Mapping[str, Any], data: PageBytes, still: bytes, player: str, *,
             compact: bool = False, blocks: Mapping[str, bytes] | None = None,
             computes: bool = False, beside: str = "") -> str:
    """A page: the scene and the script `player` that shows something in it.

    `blocks` are more bytes by name, deflated; `computes` lets it run WebAssembly; `beside` is
    markup for the column of curves.
    """
    here = resources.files("nlink.viewer")
    style = (here / "motion.css").read_text("utf-8")
    program = _SCRIPT.format("".join((here / name).read_text("utf-8")
                                     for name in ("scene.js", player)))
    # "</" would end a script within its text
    numbers = json.dumps(head, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    name, policy = html.escape(title, quote=True), _policy(style, program, computes=computes)
    more = "".join(f'<script type="text/plain" id="{block}">{_deflated(content)}</script>'
                   for block, content in (blocks or {}).items())
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{name}</title><style>{style}</style></head>"
            f'<body class="{"compact" if compact else "whole"}">'
            f'<header><h1>{name}</h1><p id="about"></p></header>'
            f'<main><section id="stage"><canvas id="scene" tabindex="0" aria-label="{name}">'
            f'</canvas><img id="still" alt="{name}" '
            f'src="data:image/png;base64,{base64.b64encode(still).decode("ascii")}">'
            f'<p id="problem" hidden></p></section>'
            f'<div id="controls"></div><section id="curves">{beside}</section></main>'
            f'<footer id="notes"></footer>'
            f'<script type="application/json" id="head">{numbers}</script>'
            f'<script type="text/plain" id="data">{data.text()}</script>{more}'
            f"<script>{program}</script></body></html>\n")


_SCRIPT = """"use strict";
(async () => {{
{}}})().catch((error) => {{
  const words = document.getElementById("problem");
  words.textContent = `The motion cannot be shown: ${{error.message}}`;
  words.hidden = false;
}});
"""


def _policy(style: str, program: str, *, computes: bool) -> str:
    """What a browser may do for a page: its own style and script, known by their digests."""
    def digest(text: str) -> str:
        found = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
        return f"'sha256-{found}'"

    compiles = " 'wasm-unsafe-eval'" if computes else ""
    return (f"default-src 'none'; style-src {digest(style)}; script-src {digest(program)}{compiles}"
            "; img-src data:; base-uri 'none'; form-action 'none'")


def _deflated(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def inline_frame(page: str, height: int = 460) -> str:
    """A page within another: a frame that has it as its text, and is loaded when it is seen."""
    return (f'<iframe loading="lazy" title="motion" sandbox="allow-scripts" '
            f'style="width:100%;height:{height}px;border:0;border-radius:8px" '
            f'srcdoc="{html.escape(page, quote=True)}"></iframe>')


def _within(scene: Scene, most: int) -> tuple[list[Part], list[str]]:
    """The bodies with at most about so many triangles, large meshes giving way first."""
    bodies = [part for part in (*scene.parts, *contact_shapes(scene.description))
              if part.layer in DRAWN and len(part.surface.triangles)]
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


def is_closed(vertices: Array, triangles: Array) -> bool:
    """Whether triangles are the whole outside of a body, so that their backs are never seen: each
    edge is passed once in either direction, and the volume is positive."""
    _, same = np.unique(vertices, axis=0, return_inverse=True)
    t = same.ravel()[triangles]
    t = t[(t[:, 0] != t[:, 1]) & (t[:, 1] != t[:, 2]) & (t[:, 2] != t[:, 0])]
    begin, end = t.ravel(), np.roll(t, -1, axis=1).ravel()
    there, back = (np.sort(a * len(vertices) + b) for a, b in ((begin, end), (end, begin)))
    a, b, c = (vertices[triangles[:, k]].astype(float) for k in range(3))
    return bool(len(t) and (np.diff(there) > 0).all() and np.array_equal(there, back)
                and np.einsum("ij,ij->", a, np.cross(b, c)) > 0)


def _part(part: Part, data: PageBytes) -> dict[str, Any]:
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
    return {"link": part.link, "layer": part.layer,
            "closed": is_closed(grid, part.surface.triangles),
            "colour": [round(x, 4) for x in part.surface.colour or GREY],
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
            "upright": scene.up.tolist()}
