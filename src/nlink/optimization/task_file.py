"""Tasks in TOML: a robot, where it starts, and costs that are sums of weighted squares.

    robot = "panda"
    horizon = 1.0
    step = 0.01                                  # 0.01 if not given
    effort = "limit"                             # or numbers; no bounds if not given
    q0 = [0.0, -0.4, 0.0, -2.0, 0.0, 1.8, 0.7]   # or rows

    [cost]                                       # weight |x - target|^2 / 2 for each second
    q = {target = [0.0, -0.4, 0.0, -2.0, 0.0, 1.8, 0.7], weight = 0.01}
    qd = 0.1                                     # a weight alone: the target is zero
    effort = 1e-4

    [final]                                      # the same at the end, without effort
    qd = 1.0
    [[final.frame]]
    name = "hand"                                # the last link if not given
    position = [0.35, 0.35, 0.35]
    rpy = [3.14159, 0.0, 0.0]                    # roll, pitch, yaw, if given
    weight = 1000.0                              # for metres, and for radians of small angles

A weight is a number >= 0, or one for each element. Nothing in a file is run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nlink.model.names import did_you_mean
from nlink.model.rotations import matrix_from_rpy
from nlink.optimization.optimize import optimize
from nlink.optimization.optimized import Optimized
from nlink.robot import Robot, load

Array = np.ndarray
KEYS = ("robot", "floating", "horizon", "step", "effort", "q0", "qd0", "tolerance", "iterations",
        "cost", "final")
TERMS = ("q", "qd", "effort", "frame")


@dataclass(frozen=True, eq=False)
class SquaredTerm:
    """The square roots of weights, and what is compared with what."""

    kind: str
    weight: Array
    target: Array
    frame: str = ""

    def residuals(self, robot: Robot, q: Any, qd: Any, u: Any) -> Any:
        """Of which half the squares are the cost."""
        if self.kind == "position":
            found = robot.pose(q, self.frame)[:3, 3]
        elif self.kind == "rotation":
            found = robot.pose(q, self.frame)[:3, :3].ravel()
        else:
            found = {"q": q, "qd": qd, "effort": u}[self.kind]
        if self.kind == "q" and not robot.mechanism.space.flat:
            away = robot.mechanism.space.difference(self.target.tolist(), q)
            return self.weight * np.array(list(away), dtype=object)
        return self.weight * (found - self.target)


@dataclass(frozen=True, eq=False)
class TaskFile:
    """A task as it was read, checked."""

    robot: Robot
    options: Mapping[str, Any]
    running: tuple[SquaredTerm, ...]
    ending: tuple[SquaredTerm, ...]

    @staticmethod
    def read(path: str | Path) -> TaskFile:
        """The task in a file; a robot's file is looked for beside it."""
        path = Path(path)
        try:
            given = tomllib.loads(path.read_text("utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: {error}, expected TOML") from None
        _expect_keys(str(path), given, KEYS)
        if "robot" not in given or "cost" not in given or "horizon" not in given:
            missing = next(x for x in ("robot", "horizon", "cost") if x not in given)
            raise ValueError(f"{path}: no {missing}, expected robot, horizon and cost")
        name = str(given["robot"])
        beside = path.parent / name
        robot = load(beside if beside.is_file() else name, floating=bool(given.get(
            "floating", False)))
        options = {key: given[key] for key in ("horizon", "step", "effort", "q0", "qd0",
                                               "tolerance", "iterations") if key in given}
        return TaskFile(robot, options, _terms(path, "cost", given["cost"], robot),
                        _terms(path, "final", given.get("final", {}), robot))

    def solved(self, *, progress: bool = False) -> Optimized:
        """The trajectories of least cost."""
        robot = self.robot

        def cost(q: Any, qd: Any, u: Any) -> Any:
            return _joined([term.residuals(robot, q, qd, u) for term in self.running])

        def final(q: Any, qd: Any) -> Any:
            return _joined([term.residuals(robot, q, qd, None) for term in self.ending])

        return optimize(robot, cost, final=final if self.ending else None, progress=progress,
                        **self.options)


def _joined(parts: list[Any]) -> Any:
    return np.concatenate([np.asarray(x, dtype=object) for x in parts])


def _expect_keys(where: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise ValueError(f"{where}: {key!r}, expected {', '.join(known)}"
                             f"{did_you_mean(key, known)}")


def _terms(path: Path, table: str, given: Any, robot: Robot) -> tuple[SquaredTerm, ...]:
    where = f"{path}: {table}"
    if not isinstance(given, Mapping):
        raise ValueError(f"{where}: {given!r:.80}, expected a table")
    _expect_keys(where, given, TERMS if table == "cost" else tuple(
        x for x in TERMS if x != "effort"))
    found: list[SquaredTerm] = []
    for kind in ("q", "qd", "effort"):
        if kind not in given:
            continue
        entry = given[kind] if isinstance(given[kind], Mapping) else {"weight": given[kind]}
        _expect_keys(f"{where}.{kind}", entry, ("target", "weight"))
        rest = robot.neutral if kind == "q" else np.zeros(robot.n)
        target = _numbers(f"{where}.{kind}.target", entry.get("target", rest), len(rest))
        found.append(SquaredTerm(kind, _weight(f"{where}.{kind}", entry, robot.n), target))
    frames = given.get("frame", [])
    if not isinstance(frames, list):
        raise ValueError(f"{where}.frame: {frames!r:.80}, expected [[{table}.frame]]")
    for entry in frames:
        found += _frame_terms(f"{where}.frame", entry, robot)
    if table == "cost" and not found:
        raise ValueError(f"{where}: empty, expected some of {', '.join(TERMS)}")
    return tuple(found)


def _frame_terms(where: str, given: Any, robot: Robot) -> list[SquaredTerm]:
    _expect_keys(where, given, ("name", "position", "rpy", "weight"))
    name = given.get("name", robot.links[-1].name)
    robot.pose(robot.neutral, name)  # refuses frames that there are not
    if "position" not in given and "rpy" not in given:
        raise ValueError(f"{where}: neither position nor rpy, expected at least one")
    found = []
    if "position" in given:
        found.append(SquaredTerm("position", _weight(where, given, 3), _numbers(
            f"{where}.position", given["position"], 3), name))
    if "rpy" in given:
        R = matrix_from_rpy(_numbers(f"{where}.rpy", given["rpy"], 3))
        # |R - R_target|^2 is twice the square of a small angle
        weight = np.sqrt(0.5) * _weight(where, {"weight": np.max(given.get("weight", 1.0))}, 1)
        found.append(SquaredTerm("rotation", weight, np.asarray(R).ravel(), name))
    return found


def _weight(where: str, given: Mapping[str, Any], size: int) -> Array:
    weight = np.asarray(given.get("weight", 1.0))
    if weight.dtype.kind not in "if" or weight.shape not in ((), (size,)) or not (
            np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError(f"{where}.weight: {given.get('weight')!r:.80}, expected a number >= 0, "
                         f"or {size} of them")
    return np.sqrt(weight.astype(float))


def _numbers(where: str, given: Any, size: int) -> Array:
    found = np.asarray(given)
    if found.dtype.kind not in "if" or found.shape != (size,) or not np.isfinite(found).all():
        raise ValueError(f"{where}: {given!r:.80}, expected {size} numbers")
    return found.astype(float)
