"""A page that simulates: the scene, and modules of WebAssembly with where their numbers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nlink.viewer.pictures import Camera, picture, png
from nlink.viewer.scene import Scene
from nlink.viewer.scene_page import PageBytes, document, scene_numbers

Array = np.ndarray


def live_page(scene: Scene, title: str, places: Array, modules: Sequence[bytes],
              live: Mapping[str, Any], notes: Sequence[str] = (), beside: str = "") -> str:
    """The page of robots whose links are at `places` (robots, frames, links + 1, 4, 4) in the first
    frames of their motion; `live` is what the script reads."""
    data = PageBytes()
    corners = scene.corners(places).reshape(-1, 3)
    camera = Camera.around(scene, corners, 1.4)
    head = scene_numbers(scene, corners, camera, data)
    head["notes"] = [*notes, *head["notes"]]
    still = png(picture(scene, places[0, 0], width=480, height=345, camera=camera))
    blocks = {f"module{k}": code for k, code in enumerate(modules)}
    return document(title, {"title": title, "compact": False, "live": dict(live)} | head, data,
                    still, "live.js", blocks=blocks, computes=True, beside=beside)
