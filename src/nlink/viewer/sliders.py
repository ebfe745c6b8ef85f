"""Sliders for the joints of a view: within limits, followers with their leaders, loops closed.

A hand in the view: a frame is dragged, and the joints follow by inverse kinematics.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.joints import Prismatic
from nlink.model.names import visible
from nlink.model.rotations import matrix_from_quaternion, quaternion_from_matrix
from nlink.model.spaces import Lines

if TYPE_CHECKING:
    from nlink.model.description import Joint
    from nlink.viewer.server import RobotView


Array = np.ndarray


class Sliders:
    """A slider for each rate; a joint whose coordinates are no plain numbers moves from neutral
    along its rates."""

    def __init__(self, view: RobotView) -> None:
        self.view = view
        self.robot = view.robot
        self.handles: dict[tuple[int, int], Any] = {}
        self.setting = False
        q = view.q
        with view.gui.add_folder("Joints"):
            for number, (joint, own) in enumerate(zip(
                    self.robot.joints, _split(self.robot.joints, q), strict=True)):
                if joint.mimic is not None:
                    continue
                for k in range(joint.type.nv):
                    self._add(number, k, joint, own)
            self.problem = view.gui.add_markdown("")
            if self.handles:
                view.gui.add_button("Home").on_click(lambda _: self.home())

    def _add(self, number: int, k: int, joint: Joint, own: Array) -> None:
        low, high = self._range(joint)
        flat = isinstance(joint.type.space, Lines)
        value = float(np.clip(own[k], low, high)) if flat else 0.0
        name = visible(joint.name) + (f" {k + 1}" if joint.type.nv > 1 else "")
        handle = self.view.gui.add_slider(name, low, high, (high - low) / 1000, value)
        handle.on_update(lambda _, number=number: self.moved(number))
        self.handles[number, k] = handle

    def _range(self, joint: Joint) -> tuple[float, float]:
        low, high = joint.limits.position if joint.type.nv == 1 else (-math.inf, math.inf)
        reach = self.view.scene.size if isinstance(joint.type, Prismatic) else math.pi
        low, high = (-reach if low < -1e3 else low), (reach if high > 1e3 else high)
        return (low, high) if high - low > 1e-6 else (low - 1e-3, high + 1e-3)

    def configuration(self) -> Array:
        """q as the sliders are."""
        joints = self.robot.joints
        parts = _split(joints, np.array(self.view.q))
        for number, joint in enumerate(joints):
            v = [self.handles[number, k].value for k in range(joint.type.nv)
                 if (number, k) in self.handles]
            if len(v) != joint.type.nv or not v:
                continue
            space = joint.type.space
            parts[number] = (np.array(v) if isinstance(space, Lines)
                             else np.array(space.integrate(space.neutral, tuple(v)), float))
        by_name = {joint.name: number for number, joint in enumerate(joints)}
        for _ in joints:  # a leader may follow another
            for number, joint in enumerate(joints):
                if joint.mimic is not None:
                    lead = parts[by_name[joint.mimic.joint]]
                    parts[number] = joint.mimic.multiplier * lead + joint.mimic.offset
        return np.concatenate([*parts, np.zeros(0)])

    def moved(self, number: int) -> None:
        """A slider was moved: close loops around it, and show the result."""
        if self.setting:
            return
        q = self.configuration()
        if self.robot.description.closed:
            try:
                q = self.robot.loops.assemble(q, keep=[self.robot.joints[number].name])
            except ValueError as error:
                self.problem.content = visible(str(error))
                return
            self.problem.content = ""
            self.set(q)
        self.view.show(q)

    def home(self) -> None:
        """Back to neutral."""
        self.set(self.robot.neutral)
        self.view.show(self.robot.neutral)

    def set(self, q: Array) -> None:
        """Put sliders where a configuration is, without moving anything."""
        self.setting = True
        try:
            for (number, k), handle in self.handles.items():
                space = self.robot.joints[number].type.space
                own = _split(self.robot.joints, q)[number]
                value = own[k] if isinstance(space, Lines) else space.difference(
                    space.neutral, tuple(own))[k]
                handle.value = float(np.clip(value, handle.min, handle.max))
        finally:
            self.setting = False


def _split(joints: tuple[Joint, ...], q: Array) -> list[Array]:
    """The coordinates of each joint."""
    ends = np.cumsum([joint.type.nq for joint in joints])[:-1] if joints else []
    return [np.array(part) for part in np.split(np.asarray(q, float), ends)] if joints else []


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
