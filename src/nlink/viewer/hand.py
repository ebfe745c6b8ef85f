"""A hand in the view: a frame is dragged, and the joints follow by inverse kinematics."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.names import visible
from nlink.model.rotations import matrix_from_quaternion, quaternion_from_matrix

if TYPE_CHECKING:
    from nlink.viewer.server import RobotView

Array = np.ndarray
CLOSE = 1e-4
"""Metres and radians that a picture does not show."""


class Hand:
    """A frame of a view with handles to drag and turn it by."""

    def __init__(self, view: RobotView) -> None:
        self.view, self.robot = view, view.robot
        self.handle: Any = None
        self._solving = threading.Lock()
        names = {visible(name): name for name in self.robot.frames[1:]}
        with view.gui.add_folder("Hand"):
            self.on = view.gui.add_checkbox("drag a frame", initial_value=False)
            self.frame = view.gui.add_dropdown("frame", tuple(names), initial_value=next(
                reversed([name for name in names if names[name] == self.robot.links[-1].name])))
            self.problem = view.gui.add_markdown("")
        self.names = names
        self.on.on_update(lambda _: self.start())
        self.frame.on_update(lambda _: self.start())

    def start(self) -> None:
        """Put the handles at the frame, or take them away."""
        if self.handle is not None:
            self.handle.remove()
            self.handle = None
        self.problem.content = ""
        if not self.on.value:
            return
        T = self.robot.pose(self.view.q, self._name(), engine="python")
        self.handle = self.view.server.scene.add_transform_controls(
            "/hand", scale=0.3 * self.view.scene.size, wxyz=quaternion_from_matrix(T[:3, :3]),
            position=T[:3, 3])
        self.handle.on_update(lambda _: self.moved())

    def moved(self) -> None:
        """The handles were moved: the joints go where the frame is there, or as near as they can;
        what comes while a solution is being looked for is passed over."""
        if self.handle is None or not self._solving.acquire(blocking=False):
            return
        try:
            T = np.eye(4)
            T[:3, :3] = matrix_from_quaternion(np.array(self.handle.wxyz, float))
            T[:3, 3] = self.handle.position
            found = self.robot.ik(T, self._name(), self.view.q, tolerance=CLOSE, starts=1)
            self.problem.content = "" if found.solved else (
                f"{1e3 * found.distance:.0f} mm and {np.degrees(found.angle):.0f} degrees away")
            self.view.show(found.q)
            if self.view.sliders is not None:
                self.view.sliders.set(found.q)
        finally:
            self._solving.release()

    def _name(self) -> str:
        return self.names[self.frame.value]
