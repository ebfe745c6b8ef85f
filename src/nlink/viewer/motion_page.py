"""A motion as one HTML file: frames, meshes, curves and a small WebGL program, nothing outside.

Places are 32-bit floats and turns are quaternions of 16-bit integers; a page interpolates between
frames. A motion within a notebook is the page that `run.html` writes, in a frame; no server.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.formats.files import write_text
from nlink.viewer.clip import Clip
from nlink.viewer.pictures import Camera, picture, png
from nlink.viewer.places import quaternions
from nlink.viewer.scene_page import (
    PAGE_TRIANGLES,
    PageBytes,
    document,
    inline_frame,
    scene_numbers,
)

if TYPE_CHECKING:
    from nlink.simulation.run import Run


Array = np.ndarray
REACHES = (1.5, 3.0, 6.0)
"""Sizes of a robot within which it is looked at: the first in which most of it stays."""
STAYS = 0.6
"""The share of it that must stay there."""


def motion_page(clip: Clip, *, triangles: int = PAGE_TRIANGLES, compact: bool = False,
                playing: bool = True) -> str:
    """The page of a clip; `compact` is without curves, for a report or a notebook, and one that
    is `playing` begins by itself, unless the reader has asked the browser for less motion."""
    data = PageBytes()
    swept = _swept(clip)
    camera = Camera.around(clip.scene, swept, 1.4)
    head = {
        "title": clip.title, "compact": compact, "playing": playing,
        "t": data.add(clip.t.astype(np.float32)),
        "links": clip.places.shape[2], "trajectories": len(clip.places), "total": clip.total,
        "status": clip.status,
        "p": data.add(clip.places[..., :3, 3].astype(np.float32).transpose(2, 3, 0, 1)),
        "r": data.add(_smooth(quaternions(clip.places[..., :3, :3])).transpose(2, 3, 0, 1)),
        "trace": data.add(clip.trace.astype(np.float32)), "traced": clip.traced,
        "forces": data.add(clip.arrows.astype(np.float32)),
        "points": data.add(clip.points.astype(np.float32)),
        "energy": data.add(clip.energy.astype(np.float32)),
        "curves": [] if compact else [
            {"name": name, "y": data.add(values.astype(np.float32))}
            for name, values in clip.curves.items()],
        "center": data.add(clip.scene.center_of_mass(clip.places).astype(np.float32)),
        **scene_numbers(clip.scene, swept, camera, data, triangles),
    }
    still = png(picture(clip.scene, clip.places[0, 0], width=640, height=460, camera=camera))
    return document(clip.title, head, data, still, "motion.js", compact=compact)


def run_page(run: Run, path: str | Path, **options: Any) -> Path:
    """Write the page of a run."""
    path = Path(path)
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"path: {str(path)!r} has the suffix {path.suffix!r}, expected .html")
    write_text(path, motion_page(Clip.of(run, **options)))
    return path


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


class InlineView:
    """A page in a notebook: what `run.view()` gives there."""

    def __init__(self, page: str) -> None:
        self.page = page

    def _repr_html_(self) -> str:
        return inline_frame(self.page)

    def __repr__(self) -> str:
        return f"<InlineView: a page of {len(self.page)} characters>"

    def close(self) -> None:
        """Nothing runs that would have to be ended."""
