"""Run: the result of a simulation, one trajectory or an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from nlink.engines.users_view import missing_in_run
from nlink.iterations.integration import STATUS
from nlink.scalars.lazy import lazy
from nlink.scalars.notebook import html_table, in_notebook
from nlink.simulation.closing import Closing
from nlink.simulation.contact_reports import ContactHistories, ContactStats
from nlink.simulation.doubts import start_doubts, stiffness_doubts
from nlink.simulation.events import Events
from nlink.simulation.following import Target, on_times
from nlink.simulation.prescribed_loops import LoopsOfStates
from nlink.simulation.prescribed_motion import ForcesOfStates
from nlink.simulation.sensitivity import Sensitivity, sensitivity_of
from nlink.simulation.variation import Variation
from nlink.simulation.velocities import VELOCITIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nlink.robot import Robot
    from nlink.simulation.live import Slider
    from nlink.viewer.motion_page import InlineView
    from nlink.viewer.playback import RunView

Array = np.ndarray
PIECE = 2**25
"""Bytes of states that are read at a time."""
REPORTED = 10**6
"""Numbers of a run, up to which its `repr` looks at all of them for warnings."""
MESSAGES = {code: text for text, code in STATUS.items()}
ENDS = (STATUS["done"], STATUS["event"])
"""How a trajectory ends that has not failed."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What the integration took; arrays of the ensemble's shape, or integers."""

    steps: Any
    rejects: Any
    evaluations: Any
    contact: ContactStats | None = None
    """How well contacts were solved, where bodies may touch."""

    def by_name(self) -> dict[str, Any]:
        """All numbers under the names that files have."""
        own = {name: getattr(self, name) for name in ("steps", "rejects", "evaluations")}
        return own | (self.contact.by_name() if self.contact else {})

    @classmethod
    def of(cls, numbers: Any, lead: tuple[int, ...]) -> Stats:
        """From arrays by name."""
        steps, rejects, evaluations = (np.reshape(numbers[name], lead)[()] for name in (
            "steps", "rejects", "evaluations"))
        return cls(steps, rejects, evaluations, ContactStats.of(numbers, lead))

    def __str__(self) -> str:
        total = [int(np.sum(x)) for x in (self.steps, self.rejects, self.evaluations)]
        return "{} steps, {} rejected, {} evaluations".format(*total)


@dataclass(frozen=True)
class Run:
    """Trajectories on common output times.

    `q` is (..., times, nq) and `qd` (..., times, n), leading dimensions those of the ensemble.
    A trajectory that failed has nan from there on; `status` says why and `t_end` when.

    For a run in a directory or a .zarr group these are arrays on disk, memory-mapped or zarr's own:
    a slice is read when it is taken. `pieces` goes through an ensemble that does not fit in memory.

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> run = nlink.simulate(robot, [0.5, 0.0], t=0.5, every=0.1)
    >>> run.t.shape, run.q.shape, run.status
    ((6,), (6, 2), 'done')
    """

    robot: Robot
    t: Array
    q: Array
    rates: Array
    """qd, or what `velocity` names: the momenta p = M qd, or quasi-velocities nu or xi."""
    status_codes: Array
    t_end: Array
    stats: Stats
    method: str
    velocity: str = "qd"
    forces: Callable[..., Array] | Array | None = None
    """tau: a function of t, q, qd (and of the numbers that vary), or of states, or values; None if
    it is zero."""
    variation: Variation | None = None
    """The numbers that vary between trajectories, besides their states."""
    log: Events | None = None
    """Events, if any were given."""
    closing: Closing = "project"
    """What kept loops closed."""
    parts: Mapping[str, Array] = field(default_factory=dict)
    """What the state has besides coordinates and velocities, each (..., times, size): `x`, the
    state of a controller, `held`, the joint forces of a sampled one."""
    target: Target | None = None
    """The trajectory that a controller was to follow, or its coordinates on the output times."""
    wrenches: bool = False
    """Whether wrenches acted on links (`f_ext`), or friction held loops: files do not keep them."""
    moved_loops: bool = False
    """Whether loops moved as they were given to, which files do not keep."""
    loops: LoopsOfStates | None = None
    """Errors and forces of loops as functions of states, if coordinates, rates and joint forces do
    not determine them."""

    if not TYPE_CHECKING:  # a checker knows all names, and says so by itself
        def __getattr__(self, name: str) -> Any:
            known = dir(type(self))
            if name in known:  # a property that raised: its own error says why
                return object.__getattribute__(self, name)
            raise AttributeError(missing_in_run(name, known), name=name)

    @lazy
    def qd(self) -> Array:
        """Joint rates."""
        name = VELOCITIES[self.velocity].rates
        return self.rates if name is None else self._compute(name, self.q, self.rates)

    @property
    def x(self) -> Array:
        """The state of the controller, (..., times, size); of size 0 if it has none."""
        found = self.parts.get("x")
        return np.empty((*self.rates.shape[:-1], 0)) if found is None else found

    @property
    def modes(self) -> Array:
        """The modes of rates with dry friction, (..., times, rates): 1 and -1 slide, 0 sticks, 2
        and -2 are held at a lower or upper limit; at the first time 0 means at rest, held or not.
        Of size 0 where there is no dry friction."""
        found = self.parts.get("mode")
        return np.empty((*self.rates.shape[:-1], 0)) if found is None else found

    @lazy
    def contacts(self) -> ContactHistories:
        """The history of each contact, by name: `force` (..., times, 3) on its body in world axes,
        `gap`, `slip` and `mode` (0 open, 1 sticks, 2 slides), all (..., times).

        >>> import nlink
        >>> arm = nlink.load("planar3").with_contacts({"link3": nlink.Sphere(0.1)})
        >>> run = nlink.simulate(arm, [0.5, 0.3, 0.2], t=0.2, method="semi_implicit", step=1e-3)
        >>> run.contacts, run.contacts["link3"].force.shape
        (<1 contacts: link3>, (21, 3))
        """
        states, varying = (self.robot, self.q, self.qd, self.parts), self.variation
        return ContactHistories(*states) if varying is None else ContactHistories(
            *states, varying.varied, varying.values[..., None, :])

    def sensitivity(self, name: str) -> Sensitivity:
        """How q, (..., times, n, numbers), qd and the state of the controller change with the
        initial values "q0" or "qd0" or with numbers that vary, if they were among the
        `sensitivities` of the simulation. Changes of q and q0 are in the tangent space.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> run = nlink.simulate(robot, [0.5, 0.0], t=0.2, every=0.1, sensitivities=["q0"])
        >>> run.sensitivity("q0").q.shape
        (3, 2, 2)
        """
        return sensitivity_of(self.robot, np.asarray(self.q), self.parts, name)

    @property
    def events(self) -> Events:
        """The events that occurred: the time, the name and the state of each."""
        return Events.none(self.robot) if self.log is None else self.log

    @lazy
    def tau(self) -> Array:
        """Joint forces on the output times, with those that motions which are given take."""
        if isinstance(self.forces, ForcesOfStates):
            return self.forces(self)
        if "held" in self.parts:
            return np.asarray(self.parts["held"])
        if self.forces is None:
            return np.broadcast_to(0.0, self.rates.shape)
        if callable(self.forces):
            own = () if self.variation is None else (self.variation.values[..., None, :],)
            state = (np.asarray(self.x),) if "x" in self.parts else ()
            return self.forces(self.t, np.asarray(self.q), np.asarray(self.qd), *state, *own)
        if self.forces.shape == self.rates.shape:
            return self.forces
        return np.broadcast_to(self.forces, self.rates.shape)

    @lazy
    def desired(self) -> Array | None:
        """The coordinates that a controller should follow, (times, nq); None without one. Files
        keep them, directories of unfinished runs do not."""
        return on_times(self.target, self.t)

    @lazy
    def tracking_error(self) -> Array | None:
        """How far the robot is from the desired trajectory: the rates that would lead there in a
        second, desired - q for plain coordinates, (..., times, n)."""
        return None if self.desired is None else self.robot.difference(self.q, self.desired)

    @lazy
    def energy(self) -> Array:
        """Kinetic plus potential energy, (..., times)."""
        return (self._compute("kinetic_energy", self.q, self.qd)
                + self._compute("potential_energy", self.q))

    def _compute(self, name: str, *arrays: Array) -> Array:
        arrays = tuple(np.asarray(x) for x in arrays)
        if self.variation is None:
            return self.robot.compute(name, *arrays)
        return self.variation.compute(self.robot, name, *arrays)

    def pieces(self, size: int | None = None) -> Iterator[Run]:
        """The ensemble as runs of at most `size` consecutive trajectories, read into memory.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> runs = nlink.simulate(robot, [[0.0, 0.0]] * 5, t=0.1)
        >>> [len(piece.q) for piece in runs.pieces(2)]
        [2, 2, 1]
        """
        count, outputs = self.status_codes.size, len(self.t)
        if size is not None and size < 1:
            raise ValueError(f"size: {size}, expected at least 1")
        size = size or max(1, PIECE // (8 * outputs * (self.robot.nq + self.robot.n)))
        arrays = [self.q, self.rates, *self.parts.values()]
        if self.forces is not None and not callable(self.forces):
            arrays.append(np.broadcast_to(self.forces, self.rates.shape)
                          if self.forces.shape != self.rates.shape else self.forces)
        flat = [x if x.ndim == 3 else x.reshape(-1, *x.shape[-2:]) for x in arrays]
        for begin in range(0, count, size):
            rows = slice(begin, min(begin + size, count))
            q, rates, *rest = (np.array(x[rows]) for x in flat)
            parts, tau = dict(zip(self.parts, rest, strict=False)), rest[len(self.parts):]
            numbers = {name: np.asarray(x).reshape(-1)[rows]
                       for name, x in self.stats.by_name().items()}
            stats = Stats.of(numbers, (rows.stop - rows.start,))
            yield replace(self, q=q, rates=rates, stats=stats, forces=(*tau, self.forces)[0],
                          parts=parts,
                          status_codes=self.status_codes.reshape(-1)[rows],
                          t_end=self.t_end.reshape(-1)[rows],
                          variation=self.variation and self.variation.taken(rows),
                          log=self.log and self.log.within(rows.start, rows.stop))

    def in_memory(self) -> Run:
        """The same run, without arrays on disk.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> nlink.simulate(robot, t=0.1).in_memory().status
        'done'
        """
        forces = self.forces if self.forces is None or callable(self.forces) else np.array(
            self.forces)
        return replace(self, q=np.array(self.q), rates=np.array(self.rates), forces=forces,
                       parts={name: np.array(x) for name, x in self.parts.items()})

    @lazy
    def closure_error(self) -> Array:
        """The largest opening of a loop, radians or metres, (..., times)."""
        if self.loops is None and self.moved_loops:
            raise ValueError("closure_error: a run from a file whose loops moved as they were "
                             "given to, which it does not keep, expected the run itself")
        error = self.robot.loops.error(np.asarray(self.q)) if self.loops is None else (
            self.loops.error(self))
        return np.abs(error).max(axis=-1)

    @lazy
    def closure_forces(self) -> Array:
        """The wrenches in the loops, (..., times, loops, 6); see `robot.loops.forces`."""
        if self.loops is not None:
            return self.loops.forces(self)
        if self.wrenches or self.moved_loops:
            raise ValueError("closure_forces: a run from a file or with tables, which does not "
                             "keep f_ext, what friction holds and motions of loops, expected the "
                             "run itself, or robot.loops.forces(q, qd, tau, f_ext) at its states")
        return self._compute("closure_forces", self.q, self.qd, self.tau)

    def path(self, frame: int | str = -1) -> Array:
        """The path of a frame's origin, (..., times, 3); by default that of the last link.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> nlink.simulate(robot, t=0.1, every=0.05).path().shape
        (3, 3)
        """
        return self.robot.pose(self.q, frame)[..., :3, 3]

    @lazy
    def warnings(self) -> list[str]:
        """Doubts about the run, one line each: a start far outside the position limits,
        angles that look like degrees, rates above velocity limits, joint forces above effort
        limits, contacts that are not solved well, so many steps that the system may be stiff."""
        found, limits = start_doubts(self.robot, np.asarray(self.q[..., 0, :])), self.robot.limits
        for what, unit, values, most in (("rate", "velocity", self.qd, limits.velocity),
                                         ("force", "effort", self.tau, limits.effort)):
            if not np.isfinite(most).any():
                continue
            rows = np.abs(np.asarray(values)).reshape(-1, self.robot.n)
            peaks = np.fmax.reduce(rows, axis=0, initial=0.0)
            found += [f"{what} of {name} up to {peak:.4g}, its {unit} limit is {bound:.4g}"
                      for name, peak, bound in zip(self.robot.qd_names, peaks, most, strict=True)
                      if peak > bound * (1 + 1e-12)]
        if self.stats.contact is not None:
            found += self.stats.contact.doubts()
        return found + stiffness_doubts(
            self.method, np.asarray(self.stats.steps) + np.asarray(self.stats.rejects),
            np.asarray(self.t_end) - self.t[0])

    @property
    def ok(self) -> bool:
        """Whether every trajectory reached the end, or a terminal event."""
        return bool(np.isin(self.status_codes, ENDS).all())

    @property
    def status(self) -> Any:
        """"done", "event" (a terminal one), "limit reached", "at rest on a limit", "not closed"
        (loops at the start), "not finite", "step too small", "not converged" (an implicit
        step), "contact not solved", "too many steps", or "running" if the run was interrupted;
        an array of such words for an ensemble."""
        words = np.array([MESSAGES[int(code)] for code in self.status_codes.ravel()], object)
        return words.reshape(self.status_codes.shape) if self.status_codes.ndim else words[0]

    @property
    def failed(self) -> Array:
        """The indices of trajectories that did not reach the end or a terminal event."""
        return np.argwhere(~np.isin(self.status_codes, ENDS))

    def __repr__(self) -> str:
        shape = self.status_codes.shape
        what = f"{' x '.join(map(str, shape))} trajectories" if shape else "one trajectory"
        end = "" if self.ok else f", {len(self.failed)} not to the end"
        if not shape and self.status != "done":
            last = f" ({self.events.names[self.events.which[-1]]})" if len(self.events) else ""
            end = f", {self.status}{last} at t = {float(self.t_end):.6g}"
        if self.rates.size < REPORTED and self.warnings:
            end += f"; {self.warnings[0]}" + f" and {len(self.warnings) - 1} more" * (
                len(self.warnings) > 1)
        if self.robot.mechanism.closed and (self.loops or not self.moved_loops):
            end += f", loops open by at most {np.nanmax(self.closure_error, initial=0.0):.1e}"
        return (f"<Run of {self.robot.name}: {what}, t = {self.t[0]:g} to {self.t[-1]:g}, "
                f"{len(self.t)} outputs, {self.method}, {self.stats}{end}>")

    def _repr_html_(self) -> str:
        rows = [("time, s", f"{self.t[0]:g} to {self.t[-1]:g}, {len(self.t)} outputs"),
                ("trajectories", " x ".join(map(str, self.status_codes.shape)) or "1"),
                ("method", self.method), ("took", str(self.stats))]
        words, counts = np.unique(np.asarray(self.status, dtype=str), return_counts=True)
        rows += [("status", ", ".join(
            f"{word}: {n}" for word, n in zip(words, counts, strict=True)))]
        return html_table(f"run of {self.robot.name}", ("", ""), rows,
                          self.warnings if self.rates.size < REPORTED else ())

    @overload
    def plot(self, path: None = None, *, title: str = "", what: str = "q") -> Figure: ...
    @overload
    def plot(self, path: str | Path, *, title: str = "", what: str = "q") -> Path: ...

    def plot(self, path: str | Path | None = None, *, title: str = "",
             what: str = "q") -> Figure | Path:
        """A matplotlib figure of the run, one panel for each coordinate or rate. If a path is
        given, the figure is written to that .png, .svg or .pdf, atomically, and the path is
        returned.

        `what` is "q" (with the desired trajectory of a controller), "qd", "tau", "error" (of
        tracking), "energy", or "loops": how far they open and their forces, for the first
        trajectory. A few trajectories are drawn as curves; an ensemble as its median and the bands
        that contain half and nine tenths of it.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> import tempfile
        >>> nlink.simulate(robot, t=0.5).plot(tempfile.mkdtemp() + "/fall.png").name
        'fall.png'
        """
        from nlink.simulation.figures import run_figure, save

        figure = run_figure(self, what=what, title=title)
        return figure if path is None else save(figure, path)

    def view(self, *, frame: int | str = -1, trajectories: int = 8, robot: Robot | None = None,
             host: str = "localhost", port: int | None = None, dark: bool = False,
             packages: Sequence[str | Path] = ()) -> RunView | InlineView:
        """The motion in the browser, at `.url` until `.close()`: a time slider, the trace of a
        frame, forces of loops, curves, an ensemble's first few trajectories as ghosts.

        `robot` as for `html`, the rest as for `robot.view`. Needs viser. In a notebook, unless a
        host or port is given, it is the page of `html` below the cell, without a server.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> shown = nlink.simulate(robot, t=5.0).view()      # doctest: +SKIP
        >>> shown.url                                        # doctest: +SKIP
        """
        if in_notebook() and host == "localhost" and port is None:
            from nlink.viewer.clip import Clip
            from nlink.viewer.motion_page import InlineView, motion_page

            return InlineView(motion_page(Clip.of(self, frame=frame, trajectories=trajectories,
                                                  robot=robot, packages=packages)))
        from nlink.viewer.playback import RunView

        return RunView(self, frame=frame, trajectories=trajectories, robot=robot, host=host,
                       port=port, dark=dark, packages=packages)

    def html(self, path: str | Path, *, frame: int | str = -1, trajectories: int = 8,
             robot: Robot | None = None, packages: Sequence[str | Path] = ()) -> Path:
        """Write the motion as one HTML page that needs nothing else: a scene with a time slider,
        the trace of a frame, forces of loops, curves; an ensemble's first few trajectories.

        `robot` is drawn instead of the run's own robot: a run from a file has no shapes and meshes.
        `packages` as for `robot.png`. Meshes of more than 100,000 triangles in all are simplified.

        >>> import nlink, tempfile
        >>> run = nlink.simulate(nlink.load("planar3"), t=1.0)
        >>> run.html(f"{tempfile.mkdtemp()}/fall.html").name
        'fall.html'
        """
        from nlink.viewer.motion_page import run_page

        return run_page(self, path, frame=frame, trajectories=trajectories, robot=robot,
                        packages=packages)

    def live(self, path: str | Path | None = "robot.html", controller: Any = None,
             sliders: Sequence[Slider] = (), *, trajectories: int = 8, **options: Any,
             ) -> Path | InlineView:
        """Write a page that simulates the robot in the browser from where the run began, with
        sliders and a hand; the first trajectories of an ensemble in one place.

        A run does not keep the function that drove it: `controller` is to be given again. The
        options are those of `nlink.live`.

        >>> import nlink, tempfile
        >>> run = nlink.simulate(nlink.load("double_pendulum"), [[0.1, 0.2], [0.2, 0.2]], t=1.0)
        >>> run.live(f"{tempfile.mkdtemp()}/fall.html", sliders=[nlink.Slider("gravity", 0, 20)]
        ...          ).name
        'fall.html'
        """
        from nlink.simulation.live import live

        if self.forces is not None and controller is None:
            raise ValueError("controller: the run was driven by one, which it does not keep, "
                             "expected it again, or a function that gives zeros")
        n, nq = self.robot.n, self.robot.nq
        first = [x[..., 0, :].reshape(-1, width)[:trajectories]
                 for x, width in ((self.q, nq), (self.qd, n))]
        q0, qd0 = (x[0] if self.q.ndim == 2 else x for x in first)
        return live(self.robot, controller, sliders, path, q0=q0, qd0=qd0, **options)

    def save(self, path: str | Path) -> Path:
        """Write the run as .npz (atomically) or .zarr (needs zarr); `nlink.load_run` reads it.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> import tempfile
        >>> nlink.simulate(robot, t=0.1).save(tempfile.mkdtemp() + "/fall.npz").name
        'fall.npz'
        """
        from nlink.simulation.run_files import save_run

        return save_run(self, Path(path))

    def to_xarray(self) -> Any:
        """An xarray Dataset with the names and units of coordinates and rates, and with what was
        varied as coordinates of the ensemble.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> dict(nlink.simulate(robot, t=0.1, every=0.05).to_xarray().q.sizes)
        {'time': 3, 'coordinate': 2}
        """
        from nlink.simulation.datasets import to_xarray

        return to_xarray(self)
