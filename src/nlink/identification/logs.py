"""Logs: what a robot did, with the times at which it was seen, checked once.

A log may be of the motors: positions before the gears, currents in place of torques. What it is
a log of is said where it is used, in `nlink.identify`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.identification.log_columns import (
    STATE_KINDS,
    arrays_by_kind,
    free_rates,
    time_in_seconds,
    unwrapped,
    wrenches_of_links,
)
from nlink.identification.log_files import read_arrays
from nlink.model.coordinates import rate_units
from nlink.model.names import counted, first_few
from nlink.robot import Robot, expect_robot

Array = np.ndarray
MOST_DUPLICATES = 0.2
"""The share of stamps that may be those of the row before; with more, something else is wrong."""


@dataclass(frozen=True, repr=False, eq=False)
class Log:
    """Positions and torques (or currents) of all joints at the times t: (N,) and (N, n) arrays.

    `t` is None for states that do not follow one another, which need `qd` and `qdd`. So do robots
    with coordinates that are not plain numbers, such as those of a floating base: their q is
    (N, nq), and their torques may be those of the actuated joints alone.
    """

    t: Array | None
    q: Array
    tau: Array | None = None
    current: Array | None = None
    qd: Array | None = None
    qdd: Array | None = None
    name: str = "log"
    payload: Mapping[str, Any] | None = None
    """A known body at the end, as `robot.with_payload` takes it: mass, com, inertia, frame."""
    f_ext: Array | None = None
    """Known wrenches on the links, (N, links, 6), as `robot.inverse_dynamics` takes them: of
    contacts, or of a hand that pushes."""
    notes: tuple[str, ...] = field(default=())
    """What was changed in reading."""

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        span = "" if self.t is None else f" in {self.duration:.4g} s"
        return f"<Log {self.name}: {counted(len(self), 'row')}{span}, {self.q.shape[1]} joints>"

    @property
    def duration(self) -> float:
        """Seconds from the first row to the last."""
        return 0.0 if self.t is None or len(self.t) < 2 else float(self.t[-1] - self.t[0])

    def with_payload(self, mass: float, com: ArrayLike = (0.0, 0.0, 0.0),
                     inertia: ArrayLike | None = None, frame: int | str = -1) -> Log:
        """The same log, of a robot that carried a known body: see `robot.with_payload`.

        >>> import nlink, numpy as np
        >>> log = nlink.read_log(dict(t=np.arange(9) / 100, q=np.zeros((9, 2)),
        ...     tau=np.zeros((9, 2))), nlink.load("double_pendulum"))
        >>> log.with_payload(2.0).payload["mass"]
        2.0
        """
        return replace(self, payload={"mass": float(mass), "com": com, "inertia": inertia,
                                      "frame": frame})

    def between(self, start: float, stop: float) -> Log:
        """The rows from one time to another, in seconds after the first row."""
        if self.t is None:
            raise ValueError("between: a log without times, expected one with t")
        since = self.t - self.t[0]
        return self.rows((since >= start) & (since < stop))

    def rows(self, which: Any) -> Log:
        """Some rows: a mask, a slice or numbers."""
        parts = {name: None if x is None else x[which]
                 for name in ("t", *STATE_KINDS, "f_ext") for x in (getattr(self, name),)}
        return replace(self, **parts)


def read_log(source: str | Path | Mapping[str, Any] | Any, robot: Robot, *,
             columns: Mapping[str, Any] | None = None, name: str | None = None,
             payload: Mapping[str, Any] | None = None) -> Log:
    """A log from a file, or from a mapping of arrays.

    Files are CSV (with or without a line of names), NPZ, MAT, Parquet, or ROS bags (.bag, .mcap,
    .db3 or the directory of one). Columns are found by name: time as t, time or stamp; positions,
    rates, accelerations, torques and currents by words such as q, position, qd, velocity, qdd, tau,
    effort, current, with the name or the number of the joint, as `q_1`, `joint2.effort` or
    `position[0]`. Stamps are read as they are; those in milliseconds or nanoseconds are turned
    into seconds. `columns` says which they are where names do not: `{"t": "clock", "tau":
    ["m1", "m2"]}`. "f_ext" are known wrenches on links: (N, links, 6), or a
    mapping of links' names to (N, 6). `payload` is a known body that the robot carried:
    `{"mass": 2.8, "com": ...}`.

    >>> import nlink, numpy as np
    >>> t = np.arange(100) / 100
    >>> nlink.read_log({"t": t, "q": np.sin(t)[:, None] * [1, 2], "tau": np.zeros((100, 2))},
    ...                nlink.load("double_pendulum"))
    <Log log: 100 rows in 0.99 s, 2 joints>
    """
    expect_robot(robot)
    if isinstance(source, Log):
        return source
    if isinstance(source, str | Path):
        arrays, called = read_arrays(Path(source), robot), Path(source).name
    elif hasattr(source, "keys") and hasattr(source, "__getitem__"):
        arrays, called = {str(key): source[key] for key in source.keys()}, "log"  # noqa: SIM118
    else:
        raise TypeError(f"log: {source!r:.80}, expected a Log, the path of a file, or a mapping of "
                        "arrays such as {'t': ..., 'q': ..., 'tau': ...}")
    wrenches = arrays.get("f_ext")
    known, notes = arrays_by_kind({key: x for key, x in arrays.items() if key != "f_ext"}, robot,
                                  columns, name or called)
    if wrenches is not None:
        known["f_ext"] = wrenches_of_links(wrenches, robot, name or called)
    log = _checked(known, robot, name or called, tuple(notes))
    return log if payload is None else log.with_payload(**payload)


def _checked(found: dict[str, Array], robot: Robot, name: str, notes: tuple[str, ...]) -> Log:
    """A log of arrays that belong together, or one sentence."""
    n, free = robot.n, free_rates(robot)
    if "q" not in found:
        raise ValueError(f"{name}: no positions, expected columns such as q1 to q{n}")
    if "tau" not in found and "current" not in found:
        raise ValueError(f"{name}: no torque column, expected torques such as tau1 to tau{n}, or "
                         "currents")
    rows = len(found["q"])
    for kind in ("tau", "current"):
        if kind in found and free and found[kind].shape[1] == n - len(free):
            found[kind] = np.insert(found[kind], [k - i for i, k in enumerate(free)], 0.0, axis=1)
    for kind, x in found.items():
        if len(x) != rows:
            raise ValueError(f"{name}: {len(x)} rows of {kind}, expected {rows}, as of q")
        wanted = robot.nq if kind == "q" else n
        if kind not in ("t", "f_ext") and x.shape[1] != wanted:
            raise ValueError(f"{name}: {counted(x.shape[1], 'column')} of {kind}, expected "
                             f"{wanted}, one for each joint")
        unfit = np.argwhere(~np.isfinite(x.reshape(rows, -1)))
        if len(unfit):
            row, column = unfit[0].tolist()
            raise ValueError(f"{name}: {kind} is {x.reshape(rows, -1)[row, column]} in row "
                             f"{row + 1}, column {column + 1}, expected finite numbers"
                             + (f" ({len(unfit)} are not)" if len(unfit) > 1 else ""))
    if robot.nq == n and rows > 2:
        found["q"], turns = unwrapped(found["q"], rate_units(robot.description))
        notes += turns
    t = found.get("t")
    if robot.nq != n:
        if not {"qd", "qdd"} <= set(found):
            raise ValueError(f"{name}: no qd and qdd, expected both: {robot.name} has coordinates "
                             "that are not plain numbers, such as those of a floating base")
        t = None
    if t is None:
        if not {"qd", "qdd"} <= set(found) and rows:
            raise ValueError(f"{name}: no column of time, expected t, or qd and qdd of every state")
        states: dict[str, Any] = {k: found[k] for k in (*STATE_KINDS, "f_ext") if k in found}
        return Log(None, name=name, notes=notes, **states)
    t, scaled = time_in_seconds(t)
    notes += scaled
    step = np.diff(t)
    back = np.flatnonzero(step < 0)
    if len(back):
        k = int(back[0])
        raise ValueError(f"{name}: stamps are not increasing: t is {t[k + 1]:.9g} in row {k + 2} "
                         f"after {t[k]:.9g} in row {k + 1}")
    keep = np.concatenate([[True], step > 0])
    if not keep.all():
        if (~keep).mean() > MOST_DUPLICATES:
            raise ValueError(f"{name}: stamps are not increasing: {(~keep).sum()} of {rows} rows "
                             "have the time of the row before")
        first = (np.flatnonzero(~keep)[:3] + 1).tolist()
        notes += (f"{(~keep).sum()} of {rows} rows have the time of the row before and were left "
                  f"out: rows {first_few([str(k) for k in first])}",)
    own: dict[str, Any] = {
        k: found[k][keep] for k in (*STATE_KINDS, "f_ext") if k in found}
    return Log(t[keep], name=name, notes=notes, **own)
