"""`nlink.Stepper`: many robots, one step at a time, for control loops of your own.

The step is the one that `nlink.simulate` compiles for a sampled controller: joint forces are held
from one multiple of `step` to the next, and a method integrates in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.iterations.integration import STATUS, Method
from nlink.scalars.arrays import batch
from nlink.scalars.misuse import tell
from nlink.simulation.closing import Closing
from nlink.simulation.contact_reports import ContactHistories
from nlink.simulation.contact_texts import CONTACT_MODE, FORCE
from nlink.simulation.doubts import failure
from nlink.simulation.drives import Pushed, Untraced
from nlink.simulation.events import Events, events_of
from nlink.simulation.run import MESSAGES
from nlink.simulation.sampled_robots import WAITING, SampledRobots
from nlink.simulation.setting import PHYSICS, Physics, Solver, door, setting
from nlink.simulation.system import System, system_of
from nlink.simulation.wrenches import WIDTH, wrench_numbers

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
ENDED = tuple(STATUS[word] for word in ("event", "limit reached", "at rest on a limit"))
"""How a robot may end without having failed."""
STEPS = Solver("rk4", max_steps=10_000)
"""How steps are made if nothing is said."""


class Stepper:
    """Robots from states q, qd, (..., nq) and (..., n), that move `step` seconds at each call.

    The options are those of `nlink.simulate`: `method`, `rtol`, `atol`, `limits`, `restitution`,
    `friction`, `width`, `effort`, `closing`, `contact`, `algorithm`, `events`, `f_ext`, `vary`,
    `motion`, or `physics` and `solver` as values; a fixed step is `step`. `t`, `q` and `qd` are the
    current times and states of the robots; `events` has the events of the last step. `status` is
    "running", or says why a robot has ended or failed, which then stays where it was until it is
    reset. The first failure after the start or a reset is a warning with its time and likely
    reason; `strict=True` raises ArithmeticError.

    From states of float32 the steps of "rk4" and "semi_implicit" compute rates in float32, and
    `q` and `qd` are of float32 (docs/back-ends.md).

    Wrenches that are numbers can be given anew at each step: `step(tau, f_ext={"link": wrench})`,
    for the links that `f_ext` named at the beginning.

    >>> import nlink
    >>> robots = Stepper(nlink.load("planar3"), q=np.zeros((100, 3)), step=0.01)
    >>> for _ in range(20):
    ...     robots.step(-5.0 * robots.qd - 40.0 * robots.q)
    >>> robots.q.shape, float(robots.t[0])
    ((100, 3), 0.2)
    """

    @door("step", dt="step", h="step", timestep="step", q0="q", qd0="qd",
          tau="robots.step(tau), or nlink.System(robot, tau) in place of the robot")
    def __init__(self, robot: Robot | System, q: ArrayLike | None = None,
                 qd: ArrayLike | None = None, *, step: float = 1e-3, method: str | Method = "rk4",
                 rtol: float = 1e-9, atol: float = 1e-12, max_steps: int = 10_000,
                 threads: int | None = None, strict: bool = False,
                 friction: str = "dry", width: float = 1e-3,
                 limits: str = "ignore", restitution: float | None = None, effort: str = "ignore",
                 closing: Closing = "project", algorithm: str | None = None,
                 vary: Mapping[str, Any] | None = None, events: Any = None, f_ext: Any = None,
                 motion: Mapping[str, Any] | None = None, contact: str = "rigid",
                 physics: Physics | None = None, solver: Solver | None = None) -> None:
        if not (np.isfinite(step) and step > 0):
            raise ValueError(f"step: {step}, expected a positive number of seconds")
        length = float(step)
        physics = setting(physics, PHYSICS, friction=friction, width=width, limits=limits,
                          restitution=restitution, effort=effort, closing=closing,
                          algorithm=algorithm, contact=contact)
        solver = setting(solver, STEPS, method=method, rtol=rtol,
                         atol=atol, max_steps=max_steps)
        # forces are limited as they are given, not by a controller around them
        system = system_of(robot, physics, tau=None, f_ext=f_ext, vary=vary, events=events,
                           motion=motion)
        _expect_steps(system, solver.integrator)
        system = system.but(drive=Pushed(system.drive, length))
        self._robots = robots = SampledRobots(system, q, qd, solver, length, threads)
        self._system = system = robots.system
        self.robot, self.lead = system.robot, robots.ensemble.lead
        self._strict, self._length, self._told = strict, length, False
        self._limited = partial(system.physics.limited, self.robot)
        self._limited(np.zeros(self.robot.n))
        self._failed = np.zeros(robots.count, bool)

    def step(self, tau: ArrayLike | None = None, f_ext: Any = None) -> None:
        """Advance all robots by one step under joint forces (..., n), zero if not given.

        `f_ext` are wrenches from now on, {"link": (..., 6)} or (..., links, 6), in place of the
        numbers that `Stepper` was made with.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> world = nlink.Stepper(robot, [0.5, 0.0], step=1e-3)
        >>> world.step([0.0, 0.0])
        >>> float(world.t)
        0.001
        """
        robots = self._robots
        if tau is None:
            robots.held[:] = 0.0
        else:
            given = batch("tau", tau, (self.robot.n,))
            if given.shape != (*self.lead, self.robot.n):
                try:
                    given = np.broadcast_to(given, (*self.lead, self.robot.n))
                except ValueError:
                    raise ValueError(f"tau: shape {given.shape}, expected "
                                     f"{(*self.lead, self.robot.n)}") from None
            robots.hold(np.asarray(self._limited(given.reshape(-1, self.robot.n))))
        if f_ext is not None:
            self._push(f_ext)
        robots.advance()
        if not robots.all_wait:
            over = robots.status != WAITING
            self._tell_of_failures(over & ~np.isin(robots.status, ENDED))

    def _push(self, f_ext: Any) -> None:
        """Wrenches that never change, changed."""
        varied = self._system.varied
        links, wrenches = wrench_numbers(self.robot, f_ext)
        if not varied.links or any(link not in varied.links for link in links):
            known = ", ".join(repr(self.robot.links[k].name) for k in varied.links) or "none"
            raise ValueError("f_ext: a link that Stepper was not made with, expected some of those "
                             f"that its own f_ext has numbers for: {known}")
        try:
            wrenches = np.broadcast_to(wrenches, (*self.lead, wrenches.shape[-1]))
        except ValueError:
            raise ValueError(f"f_ext: leading shape {wrenches.shape[:-1]}, expected one that "
                             f"broadcasts to {self.lead}") from None
        first = varied.width - WIDTH * len(varied.links)
        for k, link in enumerate(links):
            at = first + WIDTH * varied.links.index(link)
            self._robots.own[:, at:at + WIDTH] = wrenches[..., WIDTH * k:WIDTH * (k + 1)].reshape(
                -1, WIDTH)

    def _tell_of_failures(self, failed: Array) -> None:
        """Warn of the first robot that has failed since the start or a reset, or raise."""
        robots, fresh = self._robots, failed & ~self._failed
        self._failed = failed
        if self._told or not fresh.any():
            return
        k = int(np.argmax(fresh))
        index = tuple(int(i) for i in np.unravel_index(k, self.lead)) if self.lead else ()
        said = failure(self.robot, MESSAGES[int(robots.status[k])], index,
                       float(robots.t[k]), robots.ensemble.y0[k, :self.robot.nq], self._length,
                       robots.held[k])
        if self._strict:
            raise ArithmeticError(said)
        self._told = True
        tell(said)

    def reset(self, where: Any = None, q: ArrayLike | None = None, qd: ArrayLike | None = None,
              ) -> None:
        """Restart at t = 0 the robots that `where` selects, an index or booleans of the batch's
        shape; all if not given. They start from q and qd, or from their first states if none are
        given.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> world = nlink.Stepper(robot, [[0.0, 0.0], [0.5, 0.0]], step=0.01)
        >>> world.step()
        >>> world.reset([True, False])
        >>> world.t
        array([0.  , 0.01])
        """
        robot, robots, picked = self.robot, self._robots, np.zeros(self.lead, bool)
        picked[... if where is None else where] = True
        rows, states = np.flatnonzero(picked), robots.ensemble.y0[picked.ravel()].copy()
        for name, given, part in (("q", q, slice(0, robot.nq)), ("qd", qd, slice(robot.nq, None))):
            if given is None:
                continue
            width = states[:, part].shape[1]
            values = batch(name, given, (width,))
            try:
                states[:, part] = np.broadcast_to(values, (len(rows), width)) if (
                    values.ndim < 3) else values.reshape(len(rows), width)
            except ValueError:
                raise ValueError(f"{name}: shape {values.shape}, expected ({len(rows)}, {width}) "
                                 "for the robots that are reset") from None
        robots.place(rows, states, robots.own[rows])
        self._failed[rows], self._told = False, False

    @property
    def events(self) -> Events | None:
        """The events of the last step, None if none are watched; see `Run.events`."""
        return events_of(self._robots.log, self.robot, self._system.event_names, "qd", None,
                         self._system.layout.sizes)

    @property
    def contacts(self) -> ContactHistories:
        """The state of each contact, by name, after the last step; see `Run.contacts`."""
        layout, robots = self._system.layout, self._robots
        return ContactHistories(self.robot, self.q, self.qd, {
            name: robots.y[:, layout.place([name])].reshape(*self.lead, -1)
            for name in (FORCE, CONTACT_MODE) if any(part.name == name for part in layout.parts)},
            self._system.varied, robots.own.reshape(*self.lead, -1))

    @property
    def t(self) -> Array:
        """The time of each robot since its last reset, (...)."""
        return self._robots.t.reshape(self.lead)[()]

    @property
    def q(self) -> Array:
        """Coordinates, (..., nq)."""
        return self._shown(slice(self.robot.nq))

    @property
    def qd(self) -> Array:
        """Rates, (..., n)."""
        return self._shown(slice(self.robot.nq, self.robot.nq + self.robot.n))

    def _shown(self, part: slice) -> Array:
        """Elements of the states, in the dtype that they were given in."""
        values = self._robots.y[:, part].astype(self._robots.ensemble.dtype, copy=False)
        return values.reshape(*self.lead, values.shape[1])

    @property
    def status(self) -> Any:
        """"running", or why a robot no longer moves; an array of such words for a batch."""
        words = np.array(["running" if code == WAITING else MESSAGES[int(code)]
                          for code in self._robots.status], object)
        return words.reshape(self.lead)[()]

    def __repr__(self) -> str:
        return (f"<Stepper of {self._robots.count} {self.robot.name}, "
                f"t = {float(self._robots.t.max(initial=0.0)):g}>")


def _expect_steps(system: System, method: Method) -> None:
    """Refuse systems that cannot be stepped."""
    if method.needs & {"python", "momenta"} or system.velocity.rates is not None:
        raise ValueError(f"method: {method.name!r}, expected one that is compiled and integrates "
                         "qd")
    if system.columns:
        name = "tau" if system.drive.tabled else "f_ext"
        raise ValueError(f"{name}: a table, expected numbers or functions of t, q, qd: steps have "
                         f"no output times; step(tau, f_ext=...) takes those of a step")
    if isinstance(system.drive, Untraced) or system.sampling is not None:
        raise ValueError("robot: a System whose controller is called at samples, or not traced, "
                         "expected one that acts at all times: forces of a step are given to "
                         "step(tau)")
