"""A robot in the browser, by viser: links that move, sliders, marks, the numbers of a link.

Every way to move it ends in `RobotView.show(q)`: sliders, playback, a simulation that is followed,
or what finds configurations for a hand that drags a frame.
"""

from __future__ import annotations

import io
import logging
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.model.names import visible
from nlink.scalars.arrays import single
from nlink.viewer.access import own_pages_only
from nlink.viewer.pictures import Camera, ground_height
from nlink.viewer.places import quaternions
from nlink.viewer.scene import LAYERS, MASS, Part, Scene
from nlink.viewer.sliders import Hand, Sliders
from nlink.viewer.surfaces import Surface, pointing

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
FIRST_PORT, PORTS = 8080, 100
GHOST_TRIANGLES = 20_000


class RobotView:
    """A robot that is shown in the browser, until `close()`.

    `url` is where; `show(q)` moves it; `wait()` returns when somebody presses Ctrl-C.
    """

    def __init__(self, robot: Robot, *, q: ArrayLike | None = None, host: str = "localhost",
                 port: int | None = None, dark: bool = False,
                 packages: Sequence[str | Path] = (), sliders: bool = True) -> None:
        self.robot = robot
        self.q = single("q", robot.neutral if q is None else q, (robot.nq,))
        self.scene = Scene.of(robot, packages)
        self._busy = threading.RLock()
        port = free_port(host, port)
        viser: Any = _viser()
        # it greets and says goodbye on standard output
        with redirect_stdout(io.StringIO()), own_pages_only(host):
            self.server: Any = viser.ViserServer(host=host, port=port, verbose=False,
                                                 label=visible(robot.name))
        shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{port}"
        self.server.gui.configure_theme(dark_mode=dark, show_logo=False,
                                        show_share_button=False)
        self.frames = self._add_links("robot", self.scene.parts)
        self._extras: dict[str, list[Any]] = {}
        self._ground(dark)
        self.gui = self.server.gui
        self.controls()
        self._add_marks()
        self._add_numbers()
        self.sliders = Sliders(self) if sliders else None
        self.hand = Hand(self) if sliders and robot.n else None
        self.show(self.q)

    def controls(self) -> None:
        """Controls of a view above its sliders; playback has its own."""

    def show(self, q: ArrayLike) -> None:
        """Put the robot at q."""
        q = single("q", q, (self.robot.nq,))
        with self._busy:
            self.q = q
            self.place(self.frames, self.scene.places(q))

    def place(self, frames: dict[int, Any], places: Array) -> None:
        """Put links at places (links + 1, 4, 4), all of them in one message."""
        turns = quaternions(places[:, :3, :3])
        with self.server.atomic():
            for link, frame in frames.items():
                frame.position = places[link, :3, 3]
                frame.wxyz = turns[link]
            if frames is self.frames and self._center is not None and self._center.visible:
                self._center.position = np.nan_to_num(self.scene.center_of_mass(places))

    def follow(self) -> Follower:
        """For `nlink.simulate(..., progress=view.follow())`: the robot moves while a long
        simulation runs, the first trajectory of an ensemble."""
        return Follower(self)

    def close(self) -> None:
        """End the server; `url` leads nowhere then."""
        with redirect_stdout(io.StringIO()):
            self.server.stop()

    def wait(self) -> None:
        """Wait for Ctrl-C, then close."""
        try:
            while True:
                time.sleep(0.2)
        except KeyboardInterrupt:
            self.close()

    def __enter__(self) -> RobotView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {visible(self.robot.name)} at {self.url}>"

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" style="width:100%;height:480px;border:0"></iframe>'

    def _add_links(self, root: str, parts: Sequence[Part], opacity: float = 1.0,
                   ) -> dict[int, Any]:
        """A frame for each link that has parts, and a mesh for each part."""
        frames: dict[int, Any] = {}
        for number, part in enumerate(parts):
            if part.link not in frames:
                frames[part.link] = self.server.scene.add_frame(
                    f"/{root}/{part.link}", show_axes=False)
            mesh = self._add_mesh(f"/{root}/{part.link}/{number}", part, opacity)
            if opacity == 1.0:
                mesh.on_click(lambda _, link=part.link: self._pick(link))
        return frames

    def _add_mesh(self, name: str, part: Part, opacity: float = 1.0) -> Any:
        surface: Surface = part.surface
        red, green, blue, own = part.colour
        seen = own * opacity
        return self.server.scene.add_mesh_simple(
            name, surface.vertices.astype(np.float32), surface.triangles.astype(np.uint32),
            color=tuple(round(255 * x) for x in (red, green, blue)),
            opacity=None if seen >= 0.99 else seen, side="double")

    def add_ghost(self, number: int) -> dict[int, Any]:
        """Another robot, pale and of few triangles."""
        share = max(64, GHOST_TRIANGLES // max(1, len(self.scene.parts)))
        parts = [Part(part.link, part.surface.simplified(share)) for part in self.scene.parts
                 if part.layer == "body"]
        return self._add_links(f"ghost{number}", parts, 0.25)

    def _ground(self, dark: bool) -> None:
        scene, places = self.scene, self.scene.places(self.q)
        corners = scene.corners(places)
        up, camera = scene.up, Camera.around(scene, corners)
        self.server.scene.set_up_direction(tuple(up))
        start = self.server.initial_camera
        start.position, start.look_at, start.up = (tuple(x) for x in (
            camera.target + 1.4 * (camera.eye - camera.target), camera.target, up))
        start.fov = camera.angle
        T = pointing(up, up * ground_height(scene, corners))
        cell = 10.0 ** np.floor(np.log10(scene.size / 2))
        tint = (70, 74, 80) if dark else (200, 205, 212)
        self.server.scene.add_grid(
            "/ground", width=40 * cell, height=40 * cell, cell_size=cell, section_size=5 * cell,
            cell_color=tint, section_color=tint, plane="xy", wxyz=quaternions(T[:3, :3]),
            position=T[:3, 3])

    def _add_marks(self) -> None:
        self._center: Any = None
        with self.gui.add_folder("Show", expand_by_default=False):
            for layer, words in LAYERS.items():
                box = self.gui.add_checkbox(words, False)
                box.on_update(lambda event, layer=layer: self._mark(layer, event.target.value))

    def _mark(self, layer: str, wanted: bool) -> None:
        """Show or hide marks of one kind, which are made when they are first asked for."""
        with self._busy:
            if wanted and layer not in self._extras:
                handles = []
                for k, part in enumerate(x for x in self.scene.extras() if x.layer == layer):
                    name = f"/robot/{part.link}"
                    if part.link not in self.frames:
                        self.frames[part.link] = self.server.scene.add_frame(name, show_axes=False)
                    handles.append(self._add_mesh(f"{name}/{layer}{k}", part))
                if layer == "masses":
                    self._center = self.server.scene.add_icosphere(
                        "/center", radius=0.02 * self.scene.size,
                        color=tuple(round(255 * x) for x in MASS[:3]))
                    handles.append(self._center)
                self._extras[layer] = handles
            for handle in self._extras.get(layer, ()):
                handle.visible = wanted
            self.show(self.q)

    def _add_numbers(self) -> None:
        """A link's numbers, picked in the scene or from a list; what could not be drawn."""
        with self.gui.add_folder("Link", expand_by_default=False) as self._numbers_folder:
            names = [visible(link.name) for link in self.robot.links]
            self._link = self.gui.add_dropdown("name", names or ["none"])
            self._numbers = self.gui.add_markdown("")
        self._link.on_update(lambda event: self._tell(names.index(event.target.value) + 1))
        if names:
            self._tell(1)
        if self.scene.notes:
            with self.gui.add_folder("Notes", expand_by_default=False):
                self.gui.add_markdown("\n".join(f"- {escaped(note)}" for note in self.scene.notes))

    def _pick(self, link: int) -> None:
        if link:
            self._link.value = visible(self.robot.links[link - 1].name)
            self._tell(link)

    def _tell(self, number: int) -> None:
        link, joint = self.robot.links[number - 1], self.robot.joints[number - 1]
        place = self.scene.places(self.q)[number, :3, 3]
        moments = np.linalg.eigvalsh(np.array(link.inertia, float))
        low, high = joint.limits.position
        rows = [("joint", f"{visible(joint.name)}, {joint.type.name}"),
                ("limits", f"{low:.4g} to {high:.4g}" if joint.type.nv == 1 else "-"),
                ("mass", f"{link.mass:.6g} kg"),
                ("mass centre", _numbers(link.com, "m")),
                ("principal moments", _numbers(moments, "kg m²")),
                ("origin", _numbers(place, "m"))]
        self._numbers.content = "| | |\n|---|---|\n" + "\n".join(
            f"| {name} | {escaped(value)} |" for name, value in rows)


class Follower:
    """Shows a simulation under way: `simulate` calls it with the share that is done, and `states`
    with the times and coordinates reached."""

    def __init__(self, view: RobotView) -> None:
        self.view = view
        with view.gui.add_folder("Simulation"):
            self.bar = view.gui.add_progress_bar(0.0)
            self.clock = view.gui.add_markdown("")

    def __call__(self, share: float) -> None:
        self.bar.value = 100.0 * share

    def states(self, t: Array, q: Array) -> None:
        if np.isfinite(q[0]).all():
            self.clock.content = f"t = {float(t[0]):.3f} s"
            self.view.show(q[0])


def free_port(host: str, port: int | None) -> int:
    """A port that can be listened on: the one asked for, or the first that is free."""
    try:
        families = [found[0] for found in socket.getaddrinfo(host, None,
                                                             type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        raise ValueError(f"host: {host!r} is no name or address that this machine knows, expected "
                         "localhost or one of its own") from None
    family = socket.AF_INET if socket.AF_INET in families else families[0]
    wanted = range(FIRST_PORT, FIRST_PORT + PORTS) if port is None else [port]
    for number in wanted:
        if not 0 < number < 65536:
            raise ValueError(f"port: {number}, expected 1 to 65535")
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            with suppress(OSError):
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, number))
            except OSError as error:
                if port is not None:
                    raise ValueError(f"port: {port} on {host} cannot be used "
                                     f"({error.strerror}), expected a free one") from None
                continue
            return number
    raise ValueError(f"port: none from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} is free on {host}")


def escaped(words: str) -> str:
    """Words that are no markup."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]()<>#+-!|&" else c for c in words)


def _numbers(values: Sequence[float] | Array, unit: str) -> str:
    return f"{', '.join(f'{x:.4g}' for x in values)} {unit}"


def _viser() -> Any:
    try:
        viser = import_module("viser")
    except ImportError:
        raise ImportError("a view in the browser needs viser: pip install nlink[viewer]") from None
    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)
    return viser
