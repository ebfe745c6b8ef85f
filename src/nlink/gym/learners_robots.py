"""Robots as an environment needs them: they act, are told of, and start anew from what is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nlink.gym.acting import Acting, LearnersTask
from nlink.gym.draws import draw, drawn, is_draw
from nlink.gym.starts import Start
from nlink.iterations.integration import STATUS
from nlink.robot import Robot
from nlink.simulation.sampled_robots import WAITING, SampledRobots
from nlink.simulation.setting import Physics, Solver
from nlink.simulation.system import System
from nlink.simulation.variation import SURFACE
from nlink.simulation.wrenches import WIDTH

Array = np.ndarray
FINISHED = tuple(STATUS[word] for word in ("event", "limit reached", "at rest on a limit"))
"""How a robot may end without having failed."""
Told = tuple[Array, Array, Array]
SINGLE_NUMBERS = ("payload", *SURFACE)
"""What varies and is one number for each robot."""
FAR = 100_000
"""Steps within a call, at most, of a method that chooses their size."""


def _first(name: str, given: Any, rng: np.random.Generator, count: int) -> Any:
    """The first values of what varies."""
    if not is_draw(given):
        return given
    values = draw(given, rng, count)
    return values.reshape(-1) if name in SINGLE_NUMBERS else values


class LearnersRobots:
    """Robots of one task. What is drawn anew at resets is in `own`, what never changes too."""

    def __init__(self, robot: Robot, count: int, task: LearnersTask, start: Start,
                 vary: Mapping[str, Any], pushes: Mapping[str, Any], f_ext: Mapping[str, Any],
                 physics: Physics, method: str, step: float, skip: int, threads: int | None,
                 rng: np.random.Generator) -> None:
        self.start, self.pushes = start, dict(pushes)
        self.draws = {name: given for name, given in vary.items() if is_draw(given)}
        values = {name: _first(name, given, rng, count) for name, given in vary.items()}
        if pushes:
            values["f_ext"] = dict(values.get("f_ext", {})) | {
                link: np.zeros((count, WIDTH)) for link in pushes}
        period = skip * step
        system = System(robot, lambda t, q, qd, *p: [0.0] * robot.n, vary=values or None,
                        f_ext=f_ext or None, physics=physics)
        drive = Acting(task, period, 0)
        told = system.but(drive=drive).program_of("told", drive.observe)
        drive = replace(drive, told=len(told.results))
        self.task, self.width = task, drive.told - 2
        q, qd = start.drawn(rng, count)
        solver = Solver(method, step=step, max_steps=FAR)
        self.robots = SampledRobots(system.but(drive=drive), q, qd, solver, period, threads)
        self._told = self.robots.system.kernel("observe")
        self._places = self._columns()

    def _columns(self) -> dict[str, slice]:
        """Where a record has what varies, by name."""
        found, at = {}, 0
        for name, width in self.robots.system.varied.columns:
            found[name], at = slice(at, at + width), at + width
        return found

    @property
    def failed(self) -> Array:
        """Robots whose step failed: they stay where they were."""
        if self.robots.all_wait:
            return np.zeros(self.robots.count, bool)
        status = self.robots.status
        return (status != WAITING) & ~np.isin(status, FINISHED)

    def act(self, actions: Array, resting: Array | None) -> Told:
        """All robots go on under actions (count, size) but those that rest; what they tell."""
        robots = self.robots
        robots.hold(actions)
        idle = None if robots.all_wait else robots.status != WAITING
        if resting is not None:
            robots.status[resting] = STATUS["done"]
            robots.all_wait = False
            idle = None if idle is None else idle & ~resting
        seen = np.empty((robots.count, self.width), np.float32)
        told = np.empty((robots.count, 2))
        robots.advance(seen, told)
        if idle is not None and idle.any():  # they have not moved
            rows = np.flatnonzero(idle)
            seen[rows], told[rows, 0], told[rows, 1] = self.told(rows)
        return seen, told[:, 0], told[:, 1] > 0.5

    def restart(self, rows: Array, rng: np.random.Generator) -> None:
        """Some robots start anew, from numbers that are drawn."""
        robots = self.robots
        own = robots.own[rows]
        for name, given in self.draws.items():
            place = self._places[name]
            own[:, place] = drawn(f"vary: {name}", given, rng, len(rows), place.stop - place.start)
        robots.own[rows] = own
        self.push(rows, rng)
        q, qd = self.start.drawn(rng, len(rows))
        states = np.concatenate([q, qd], axis=1)
        if self.start.change is not None:
            states = self.start.changed(states, self.parameters(rows))
        robots.place(rows, states, robots.own[rows])

    def parameters(self, rows: Any) -> Array:
        """The numbers p of some robots, (rows, k)."""
        return self.robots.own[rows][:, self._places["p"]] if "p" in self._places else (
            np.empty((len(self.robots.own[rows]), 0)))

    def push(self, rows: Array, rng: np.random.Generator) -> None:
        """Wrenches drawn anew for some robots."""
        if not self.pushes:
            return
        varied, robot = self.robots.system.varied, self.robots.system.robot
        begin = self._places["f_ext"].start
        for name, given in self.pushes.items():
            link = [each.name for each in robot.links].index(name)
            at = begin + WIDTH * varied.links.index(link)
            self.robots.own[rows, at:at + WIDTH] = drawn(
                f"pushes: {name}", given, rng, len(rows), WIDTH)

    def told(self, rows: Any = slice(None)) -> Told:
        """Observations as float32, rewards, and which episodes have ended, of some robots."""
        robots = self.robots
        found = self._told(robots.t[rows, None], robots.y[rows], robots.own[rows])
        width = self.width
        with np.errstate(over="ignore"):
            seen = found[:, :width].astype(np.float32)
        return seen, found[:, width], found[:, width + 1] > 0.5
