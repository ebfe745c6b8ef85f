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


class Cameraman:
    """Draws a robot; where it has a free base, the camera goes along with that."""

    def __init__(self, robot: Robot) -> None:
        self._scene = Scene.of(robot)
        self._follows = bool(robot.joints) and isinstance(robot.joints[0].type, Free)
        places = self._scene.places(robot.neutral)
        corners = self._scene.corners(places)
        if not self._follows:  # all that the robot may reach: a ball about its base
            base = places[0][:3, 3]
            flat = corners.reshape(-1, 3)
            reach = np.nanmax(np.linalg.norm(flat - base, axis=1))
            corners = np.concatenate([flat, base + 0.8 * reach * np.vstack([
                np.eye(3), -np.eye(3)])])
        self._camera = Camera.around(self._scene, corners, WIDTH / HEIGHT)
        self._begin = robot.neutral[:3]

    def picture(self, q: Array) -> Array:
        """(height, width, 3) bytes of a robot at q."""
        camera = self._camera
        if self._follows:
            moved = (q[:3] - self._begin) * [1.0, 1.0, 0.0]
            camera = replace(camera, eye=camera.eye + moved, target=camera.target + moved)
        return picture(self._scene, self._scene.places(q), width=WIDTH, height=HEIGHT,
                       camera=camera)
