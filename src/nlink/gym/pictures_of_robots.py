"""Pictures of robots on their way, from one place, or from one that goes along."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nlink.model.joints import Free
from nlink.robot import Robot
from nlink.viewer.pictures import Camera, picture
from nlink.viewer.scene import Scene

Array = np.ndarray
WIDTH, HEIGHT = 320, 240
AROUND = 0.8
"""How much of what a robot might reach is in the picture, measured from its base."""


class Cameraman:
    """Draws a robot from q on; where it has a free base, the camera goes along with that."""

    def __init__(self, robot: Robot, q: Array) -> None:
        self._scene, self._begin = Scene.of(robot), q[:3]
        self._follows = bool(robot.joints) and isinstance(robot.joints[0].type, Free)
        places = self._scene.places(q)
        corners = self._scene.corners(places).reshape(-1, 3)
        if not self._follows:
            base = places[0][:3, 3]
            reach = AROUND * np.nanmax(np.linalg.norm(corners - base, axis=1))
            corners = np.concatenate([corners, base + reach * np.vstack([np.eye(3), -np.eye(3)])])
        self._camera = Camera.around(self._scene, corners, WIDTH / HEIGHT)

    def picture(self, q: Array) -> Array:
        """(height, width, 3) bytes of a robot at q."""
        camera = self._camera
        if self._follows:
            moved = (q[:3] - self._begin) * [1.0, 1.0, 0.0]
            camera = replace(camera, eye=camera.eye + moved, target=camera.target + moved)
        return picture(self._scene, self._scene.places(q), width=WIDTH, height=HEIGHT,
                       camera=camera)
