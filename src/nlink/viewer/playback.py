"""A run in the browser: time slider, speed, traces, loop forces, curves, ghosts of an ensemble."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.names import visible
from nlink.viewer.clip import Clip
from nlink.viewer.server import RobotView

if TYPE_CHECKING:
    from nlink.robot import Robot
    from nlink.simulation.run import Run

RATE = 30
"""Updates in a second while it plays."""
SPEEDS = ("0.1x", "0.25x", "0.5x", "1x", "2x", "5x")
HUES = ("#0072b2", "#d55e00", "#00845f", "#b5578c", "#7a6f00", "#56a4e0", "#8a5a2b", "#6a4fb3",
        "#00838f", "#c2185b", "#607d8b", "#9e9d24")
ALL = "all"


class RunView(RobotView):
    """A run that plays in the browser, until `close()`."""

    def __init__(self, run: Run, *, frame: int | str = -1, trajectories: int = 8,
                 robot: Robot | None = None, packages: Sequence[str | Path] = (),
                 **options: Any) -> None:
        self.run, self._frame, self._trajectories = run, frame, trajectories
        self._packages, self._drawn = packages, robot or run.robot
        self.playing, self._closed = False, threading.Event()
        first = np.asarray(run.q).reshape(-1, *run.q.shape[-2:])[0, 0]
        super().__init__(self._drawn, q=first, packages=packages, sliders=False, **options)
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def controls(self) -> None:
        clip = self.clip = Clip.of(
            self.run, frame=self._frame, trajectories=self._trajectories, frames=2000,
            robot=self._drawn, scene=self.scene)
        self._lengths = clip.arrows
        self.ghosts = [self.add_ghost(k) for k in range(1, len(clip.places))]
        gui, begin, end = self.gui, float(clip.t[0]), float(clip.t[-1])
        with gui.add_folder("Motion"):
            self.button = gui.add_button("Play")
            self.clock = gui.add_slider("time", begin, max(end, begin + 1e-6),
                                        max(end - begin, 1e-6) / 1000, begin)
            self.speed = gui.add_dropdown("speed", SPEEDS, initial_value="1x")
            names = [str(k + 1) for k in range(len(clip.places))]
            self.which = gui.add_dropdown("trajectory", [*([ALL] if self.ghosts else []), *names])
            self.trace = gui.add_checkbox(f"trace of {visible(clip.traced)}", True)
            self.arrows = gui.add_checkbox("forces", True) if clip.forces.shape[2] else None
        self._add_curves()
        self.button.on_click(lambda _: self._press())
        for handle in (self.clock, self.which, self.trace, self.arrows):
            if handle is not None:
                handle.on_update(lambda _: self._show_at(self.clock.value))

    def _add_curves(self) -> None:
        clip = self.clip
        with self.gui.add_folder("Curves"):
            for title, curves in (("energy, J", {"energy": clip.energy}),
                                  ("coordinates, rad or m", clip.curves)):
                series = ({"label": "t"}, *({"label": name, "stroke": HUES[k % len(HUES)],
                                             "width": 1.5} for k, name in enumerate(curves)))
                data = (clip.t, *(values[0] for values in curves.values()))
                self.gui.add_uplot(tuple(np.ascontiguousarray(x, float) for x in data),
                                   series, title=title, scales={"x": {"time": False}},
                                   aspect=1.5)

    def seek(self, t: float) -> None:
        """Show the motion at a time."""
        self.clock.value = float(np.clip(t, self.clock.min, self.clock.max))

    def _show_at(self, t: float) -> None:
        clip = self.clip
        at = int(np.argmin(np.abs(clip.t - t)))
        chosen = 0 if self.which.value == ALL else int(self.which.value) - 1
        with self._busy:
            self.q = clip.q[chosen, at]
            self.place(self.frames, clip.places[chosen, at])
            for k, ghost in enumerate(self.ghosts, 1):
                shown = self.which.value == ALL
                for frame in ghost.values():
                    frame.visible = shown
                if shown:
                    self.place(ghost, clip.places[k, at])
            self._draw_trace(chosen, at)
            self._draw_forces(chosen, at)

    def _draw_trace(self, chosen: int, at: int) -> None:
        path = self.clip.trace[chosen, :at + 1]
        if len(path) < 2 or not self.trace.value:
            self.server.scene.remove_by_name("/trace")
            return
        self.server.scene.add_line_segments(
            "/trace", np.stack([path[:-1], path[1:]], axis=1).astype(np.float32), (214, 94, 0),
            thickness=2.0,
            thickness_units="screen")

    def _draw_forces(self, chosen: int, at: int) -> None:
        clip = self.clip
        if self.arrows is None:
            return
        start = clip.points[chosen, at]
        points = np.stack([start, start + self._lengths[chosen, at]], axis=1)
        if self.arrows.value:
            s = clip.scene.size
            self.server.scene.add_arrows(
                "/forces", points.astype(np.float32), (25, 150, 90), shaft_radius=0.006 * s,
                head_radius=0.014 * s, head_length=0.03 * s)
        else:
            self.server.scene.remove_by_name("/forces")

    def _press(self) -> None:
        self.playing = not self.playing
        self.button.label = "Pause" if self.playing else "Play"

    def _play(self) -> None:
        before = time.monotonic()
        while not self._closed.wait(1 / RATE):
            now = time.monotonic()
            passed, before = now - before, now
            if not self.playing:
                continue
            begin, end = float(self.clip.t[0]), float(self.clip.t[-1])
            t = self.clock.value + passed * float(self.speed.value.rstrip("x"))
            self.clock.value = begin if t > end else t  # its update shows the frame

    def close(self) -> None:
        self.playing = False
        self._closed.set()
        super().close()
