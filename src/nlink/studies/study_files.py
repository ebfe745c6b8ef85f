"""Studies as TOML files: what `nlink sweep` reads.

    robot = "puma560"                   # or robots = ["arm.toml", "heavy.toml"]
    t = 1.0
    sample = "latin"                    # or sobol, random, grid, table
    count = 10000

    [vary]
    payload = [0.0, 5.0]                # bounds; of a grid the values, of a table its column
    viscous = {normal = [0.5, 0.1]}     # or {uniform = [a, b]}, {log = [a, b]}

    [controller]
    kind = "pd-gravity"
    to = [0.5, -0.8, 0.6, 0.3, 0.4, 0.2]
    kp = 300.0
    kd = 40.0

All other keys are arguments of `nlink.sweep`. Robots are bundled names, or files beside this one.
A table may be a file: `table = "cases.csv"` with a line of column names such as payload, q0_1,
q0_2, ...
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.files import read_text
from nlink.formats.load import robots as bundled
from nlink.robot import Robot, load
from nlink.simulation.controllers import (
    PD,
    PID,
    ComputedTorque,
    GravityCompensation,
    PDGravity,
)
from nlink.simulation.trajectories import Cycloid
from nlink.studies.asking_study import OPTIONS, study_of
from nlink.studies.drawing import DRAWN, LogUniform, Normal, Uniform
from nlink.studies.study import Study

DISTRIBUTIONS = {"uniform": Uniform, "log": LogUniform, "normal": Normal}
CONTROLLERS: dict[str, Any] = {
    "pd": PD, "pd-gravity": PDGravity, "computed-torque": ComputedTorque, "pid": PID,
    "gravity": GravityCompensation}
DEFAULTS: dict[str, Any] = {
    "q0": None, "qd0": None, "t": 10.0, "sample": "grid", "count": None, "seed": 0, "every": None,
    "keep": ("q", "qd"), "chunk": None, "reproducible": False}
OWN = ("robot", "robots", "vary", "controller", "table")


def read_study(path: str | Path) -> Study:
    """The study of a TOML file.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from nlink.studies import read_study
    >>> path = Path(tempfile.mkdtemp()) / "study.toml"
    >>> _ = path.write_text('robot = "double_pendulum"\\nt = 0.1\\nvary = {payload = [0.0, 1.0]}')
    >>> read_study(path).shape
    (2,)
    """
    path = Path(path)
    try:
        data = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from None
    unknown = [name for name in data if name not in (*OWN, *DEFAULTS, *OPTIONS)]
    if unknown:
        raise ValueError(f"{path}: {unknown[0]!r}, expected some of "
                         f"{', '.join((*OWN, *DEFAULTS, *OPTIONS))}")
    try:
        robots = _robots(data, path.parent)
        given = {name: data.get(name, default) for name, default in DEFAULTS.items()}
        q0, qd0, t = (given.pop(name) for name in ("q0", "qd0", "t"))
        vary = _vary(data, given["sample"], path.parent)
        tau = {name: _controller(data.get("controller"), robot, q0)
               for name, robot in robots.items()}
        return study_of(robots, q0, qd0, t, tau, vary=vary, events=None, options={
            name: data[name] for name in OPTIONS if name in data}, **given)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path}: {error}") from None


def _robots(data: Mapping[str, Any], folder: Path) -> dict[str, Robot]:
    if ("robot" in data) == ("robots" in data):
        raise ValueError("expected one of robot, robots")
    names = data.get("robots", [data.get("robot")])
    if not (isinstance(names, list) and names and all(isinstance(x, str) for x in names)):
        raise ValueError(f"robots: {names!r}, expected names or files")
    if len(set(names)) < len(names):
        raise ValueError(f"robots: {names!r}, expected each once")
    return {name: load(name if name in bundled() else str(folder / name)) for name in names}


def _vary(data: Mapping[str, Any], sample: str, folder: Path) -> dict[str, Any]:
    vary = data.get("vary", {})
    if not isinstance(vary, Mapping):
        raise ValueError(f"vary: {vary!r}, expected a table of names")
    if "table" in data:
        if vary or sample != "table":
            raise ValueError("table: with sample = \"table\" and without vary alone")
        if not isinstance(data["table"], str):
            raise ValueError(f"table: {data['table']!r}, expected the name of a file")
        return _table(folder / data["table"])
    return {name: _distribution(name, x) if sample in DRAWN else x for name, x in vary.items()}


def _distribution(name: str, given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    if len(given) != 1 or next(iter(given)) not in DISTRIBUTIONS:
        raise ValueError(f"vary: {name}: {dict(given)!r}, expected one of "
                         f"{', '.join(DISTRIBUTIONS)}")
    kind, parameters = next(iter(given.items()))
    if not (isinstance(parameters, list) and len(parameters) == 2):
        raise ValueError(f"vary: {name}: {kind} = {parameters!r}, expected two parameters")
    return DISTRIBUTIONS[kind](*parameters)


def _table(path: Path) -> dict[str, np.ndarray]:
    """Columns by their names; name_1, name_2, ... are the numbers of one name, in any order."""
    text = read_text(path).removeprefix("\ufeff")  # by which spreadsheets begin
    rows = [row for row in csv.reader(text.splitlines()) if row]
    if len(rows) < 2:
        raise ValueError(f"table: {path} has {len(rows)} lines, expected names and rows")
    names = [name.strip() for name in rows[0]]
    try:
        values = np.array([[float(x) for x in row] for row in rows[1:]])
    except ValueError:
        raise ValueError(f"table: {path}, expected numbers, as many in each row") from None
    if values.ndim != 2 or values.shape[1] != len(names):
        raise ValueError(f"table: {path} has {len(names)} names and rows of {values.shape[-1]}")
    columns: dict[str, dict[int, np.ndarray]] = {}
    for name, column in zip(names, values.T, strict=True):
        stem, _, number = name.rpartition("_")
        found = columns.setdefault(stem if number.isdecimal() else name, {})
        k = int(number) if number.isdecimal() else 1
        if k in found:
            raise ValueError(f"table: {path} has {name!r} twice")
        found[k] = column
    for name, found in columns.items():
        if sorted(found) != [*range(1, len(found) + 1)]:
            raise ValueError(f"table: {path} has {name} with numbers "
                             f"{', '.join(map(str, sorted(found)))}, expected 1 to {len(found)}")
    return {name: np.stack([found[k] for k in sorted(found)], axis=1)
            for name, found in columns.items()}


def _controller(given: Any, robot: Robot, q0: Any) -> Any:
    """A controller by its kind: along the cycloid from q0 to `to` within `duration`, or to `to`
    at once."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ValueError(f"controller: {given!r}, expected a table with kind, to and gains")
    given = dict(given)
    kind = given.pop("kind", None)
    if kind not in CONTROLLERS:
        raise ValueError(f"controller: kind {kind!r}, expected one of {', '.join(CONTROLLERS)}")
    if kind == "gravity":
        if given:
            raise ValueError(f"controller: {', '.join(given)} with kind 'gravity', expected none")
        return GravityCompensation(robot)
    to, duration = given.pop("to", None), given.pop("duration", None)
    if not isinstance(to, list) or len(to) != robot.nq:
        raise ValueError(f"controller: to {to!r}, expected {robot.nq} coordinates")
    start = robot.neutral if q0 is None else np.asarray(q0, dtype=float)
    desired = np.asarray(to, dtype=float) if duration is None else Cycloid(
        start, np.asarray(to, dtype=float), float(duration))
    allowed = ("kp", "ki", "kd") if kind == "pid" else ("kp", "kd")
    unknown = [name for name in given if name not in allowed]
    if unknown or set(allowed) - set(given):
        raise ValueError(f"controller: {', '.join(given) or 'no gains'}, expected "
                         f"{', '.join(allowed)}, and to, duration")
    return CONTROLLERS[kind](robot, desired, **given)
