"""The arms of the papers, their motions, and the runs the report asks for, each made once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nlink.robot import Robot, load
from nlink.simulation.controllers import FeedForward
from nlink.simulation.run import Run
from nlink.simulation.simulator import simulate
from nlink.simulation.trajectories import Cycloid

T = 10.0
EVERY, SPARSE = 0.02, 0.25
"""Seconds between outputs: of figures, and where outputs must not shorten the steps."""
LEFT = 0.05
"""An error, in rad or m, at which a run has left its desired trajectory."""
STANFORD_START = np.radians([0.0, 90.0, 0.0, 0.0, 0.0, 0.0])
STANFORD_END = np.array([*np.radians([60.0, 60.0]), 0.1, *np.radians([60.0, 60.0, 60.0])])


@dataclass(frozen=True, slots=True)
class Arm:
    """A robot and the papers' motion of it."""

    robot: Robot
    start: np.ndarray
    end: np.ndarray
    _runs: dict[tuple[Any, ...], Run] = field(default_factory=dict)

    @property
    def path(self) -> Cycloid:
        return Cycloid(self.start, self.end, T)

    def desired(self, t: np.ndarray) -> tuple[np.ndarray, ...]:
        """q, qd and qdd at times t."""
        motion = [self.path(float(x)) for x in t]
        return tuple(np.array([m[k] for m in motion], dtype=float) for k in range(3))

    def names(self) -> tuple[list[str], list[str], list[str]]:
        """Panel titles, units of positions, units of forces."""
        kinds = [joint.type.name for joint in self.robot.joints if joint.type.nv]
        return ([f"joint {k + 1}" for k in range(self.robot.n)],
                ["m" if kind == "prismatic" else "rad" for kind in kinds],
                ["N" if kind == "prismatic" else "N m" for kind in kinds])

    def fall(self, method: str = "rkf45", rtol: float = 1e-10, atol: float = 1e-12,
             t: float = T) -> Run:
        """From rest at the start, without joint forces."""
        key = "fall", method, rtol, t
        if key not in self._runs:
            self._runs[key] = simulate(self.robot, self.start, t=t, every=EVERY, method=method,
                                       rtol=rtol, atol=atol, progress=False)
        return self._runs[key]

    def forced(self, method: str, rtol: float, every: float = EVERY) -> Run:
        """Under the forces of the desired motion, open loop."""
        key = "forced", method, rtol, every
        if key not in self._runs:
            self._runs[key] = simulate(self.robot, self.start, t=T, every=every, method=method,
                                       rtol=rtol, atol=rtol, progress=False,
                                       tau=FeedForward(self.robot, self.path))
        return self._runs[key]

    def error(self, run: Run) -> np.ndarray:
        """How far a forced run is from the desired motion, at each output."""
        return np.abs(run.q - self.desired(run.t)[0]).max(axis=1)

    def rows(self) -> list[list[str]]:
        """The arm's DH parameters and inertias, as computed with."""
        table = []
        for number, (link, joint) in enumerate(zip(
                self.robot.links, self.robot.joints, strict=True), 1):
            dh = joint.placement
            inertia = np.diag(np.array(link.inertia, dtype=float))
            table.append([str(number), *(_short(getattr(dh, name)) for name in ("a", "b")),
                          *(_short(np.degrees(getattr(dh, name))) for name in ("alpha", "theta")),
                          _short(link.mass), ", ".join(map(_short, link.com)),
                          ", ".join(map(_short, inertia))])
        return table


ROW_HEAD = ("link", "a, m", "b, m", "alpha, deg", "theta, deg", "mass, kg", "mass centre, m",
            "Ixx, Iyy, Izz, kg m^2")


def arms() -> dict[str, Arm]:
    """The papers' three manipulators; the PUMA with valid inertias and as printed."""
    return {
        "planar": Arm(load("planar3"), np.zeros(3), np.full(3, np.pi)),
        "Stanford": Arm(load("stanford"), STANFORD_START, STANFORD_END),
        "PUMA": Arm(load("puma560"), np.zeros(6), np.full(6, np.pi)),
        "PUMA as printed": Arm(load("puma_saha", physical="ignore"), np.zeros(6),
                               np.full(6, np.pi)),
    }


def _short(x: float) -> str:
    return f"{x + 0.0:.6g}"
