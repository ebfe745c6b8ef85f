"""A published problem, and an attempt at it: the error at the reference's times, and the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from typing import Any

import numpy as np

from nlink.formats.dh import parse_toml
from nlink.robot import Robot
from nlink.simulation.run import Run
from nlink.simulation.simulator import simulate

Array = np.ndarray
State = tuple[Array, Array]
MODELS = resources.files("nlink.bench.multibody") / "models"
CLOSED, PUBLISHED, INDEPENDENT = "closed form", "published", "independent"


@dataclass(frozen=True)
class Reference:
    """The right values of what is measured: a row for each of the times but the first, 0."""

    times: Array
    values: Array
    kind: str
    """"closed form", "published", or "independent": equations written by hand for this mechanism
    and integrated by SciPy to 1e-12 or better (tests/bench/independent_motions.py)."""
    source: str
    """Who published the values, or how they are found."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]], kind: str, source: str) -> Reference:
        """From rows of a time and the values then."""
        table = np.array(rows)
        return cls(np.concatenate([[0.0], table[:, 0]]), table[:, 1:], kind, source)


@dataclass(frozen=True)
class Problem:
    """A mechanism, its motion, and what of it is compared with what."""

    name: str
    title: str
    source: str
    """Where the problem is published."""
    robot: Callable[[], Robot]
    start: Callable[[Robot], State]
    measured: str
    """What is measured, with its unit."""
    measure: Callable[[Robot, Run], Array]
    """The measured numbers, a row for each time."""
    reference: Reference
    drive: Callable[..., Any] | None = None
    """Joint forces as a function of t, q and qd, to be traced."""
    methods: tuple[str, ...] = ("dop853", "rkf45")
    """Integrators, the one of the table first."""
    options: dict[str, Any] = field(default_factory=dict)
    """What else `simulate` is told."""

    def simulate(self, robot: Robot, method: str, tolerance: float) -> Run:
        """The motion up to the reference's last time; `tolerance` is rtol and atol."""
        q0, qd0 = self.start(robot)
        return simulate(robot, q0, qd0, t=self.reference.times, tau=self.drive, method=method,
                        rtol=tolerance, atol=tolerance, **self.options)

    def error(self, robot: Robot, run: Run) -> float:
        """The largest difference from the reference at any of its times; inf if the run failed."""
        if not run.ok:
            return float("inf")
        return float(np.abs(self.measure(robot, run)[1:] - self.reference.values).max())


@dataclass(frozen=True, slots=True)
class Solution:
    """A problem solved at a tolerance: seconds of the first call, which compiles, and the next."""

    problem: str
    method: str
    tolerance: float
    error: float
    first_call: float
    seconds: float
    steps: int
    rejects: int


def solve(problem: Problem, robot: Robot, method: str, tolerance: float,
          repeats: int = 3) -> Solution:
    """Simulate a problem, and again as often as said; the least time counts."""
    def timed() -> tuple[float, Run]:
        begin = time.perf_counter()
        run = problem.simulate(robot, method, tolerance)
        return time.perf_counter() - begin, run

    first, run = timed()
    seconds = min((timed()[0] for _ in range(repeats)), default=first)
    return Solution(problem.name, method, tolerance, problem.error(robot, run), first, seconds,
                    int(run.stats.steps), int(run.stats.rejects))


def model(name: str) -> Callable[[], Robot]:
    """What loads a model file of this folder."""
    return partial(_load, name)


def _load(name: str) -> Robot:
    return Robot(parse_toml((MODELS / f"{name}.toml").read_text("utf-8"), origin=name))


def at_rest(robot: Robot) -> State:
    """The home configuration without rates."""
    return robot.neutral, np.zeros(robot.n)


def point(frame: str) -> Callable[[Robot, Run], Array]:
    """What measures the origin of a frame."""
    return lambda robot, run: robot.pose(run.q, frame)[..., :3, 3]


def coordinates(*names: str) -> Callable[[Robot, Run], Array]:
    """What measures joints by their names."""
    def read(robot: Robot, run: Run) -> Array:
        known = [joint.name for joint in robot.joints if joint.type.nv]
        return run.q[..., [known.index(name) for name in names]]
    return read
