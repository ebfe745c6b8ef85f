"""The events of a run under way: rows that the kernel writes, collected between its calls.

A trajectory has room for a few events in a buffer; when it is full the trajectory waits for
the next call, so any number of events is recorded whatever the room. On disk events are
appended, before the records that count them are replaced: what was appended after the last
records is left out on resuming, and computed again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nlink.formats.files import write_bytes
from nlink.iterations.integration import STATUS
from nlink.simulation.checks import checksum
from nlink.simulation.events import Events, Watched, spread_switches
from nlink.simulation.variation import Variation
from nlink.simulation.velocities import VELOCITIES

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
EVENTS = "events.bin"
"""The file of a directory, or of a zarr group, that they are appended to."""
BUFFER = 2**24
"""Bytes that all buffers of a run may take, if that leaves room for a few events each."""
FEW, MANY = 4, 256
"""Rows of a trajectory's buffer, besides one for each function watched."""


def row_type(size: int) -> np.dtype:
    """An event: the trajectory, its number among that trajectory's, when, which, the state."""
    return np.dtype([("trajectory", "i8"), ("ordinal", "i8"), ("t", "f8"), ("which", "f8"),
                     ("y", "f8", (size,))])


class EventLog:
    """Events of trajectories whose states have `size` elements."""

    def __init__(self, count: int, size: int, kinds: int) -> None:
        width = 2 + size
        room = min(max(BUFFER // (8 * width * max(count, 1)), FEW), MANY)
        self.buffer = np.empty((count, kinds + room, width)) if kinds else None
        self.rows = np.empty(0, row_type(size))
        self.sums = np.zeros(count, np.uint64)
        """The sum of each trajectory's events: see `checks`."""
        self._fresh: list[Array] = []
        self._saved = 0
        """Rows that are on disk."""

    def collect(self, records: Array) -> None:
        """Empty the buffers."""
        fill = records["fill"]
        if self.buffer is None or not fill.any():
            return
        trajectory, row = np.nonzero(np.arange(self.buffer.shape[1]) < fill[:, None])
        taken = self.buffer[trajectory, row]
        found = np.empty(len(row), self.rows.dtype)
        found["trajectory"], found["t"], found["which"] = trajectory, taken[:, 0], taken[:, 1]
        found["ordinal"] = (records["events"] - fill)[trajectory] + row
        found["y"] = taken[:, 2:]
        np.add.at(self.sums, trajectory, self._sums(found))
        self._fresh.append(found)
        records["fill"] = 0

    @staticmethod
    def _sums(rows: Array) -> Array:
        return checksum(rows.view(np.uint64).reshape(len(rows), rows.itemsize // 8))

    def save(self, path: Path, records: Array) -> None:
        """Append what is new to the file in the directory `path`.

        Rows count as saved when they are: what an error cut off is written again.
        """
        self.collect(records)
        self._gather()
        fresh = self.rows[self._saved:]
        if len(fresh):
            with (path / EVENTS).open("ab") as stream:
                stream.truncate(self._saved * fresh.itemsize)
                stream.write(fresh.tobytes())
                stream.flush()
                os.fsync(stream.fileno())
            self._saved = len(self.rows)

    def _gather(self) -> None:
        self.rows, self._fresh = np.concatenate([self.rows, *self._fresh]), []

    def read(self, path: Path, records: Array, sums: Array, *, repair: bool) -> None:
        """What the directory holds of events that the records know, and whose sums are known."""
        file = path / EVENTS
        data = file.read_bytes() if file.exists() else b""
        rows = np.frombuffer(data, self.rows.dtype, len(data) // self.rows.dtype.itemsize)
        inside = (rows["trajectory"] >= 0) & (rows["trajectory"] < len(records))
        rows = rows[inside]
        self.rows = rows[rows["ordinal"] < records["events"][rows["trajectory"]]].copy()
        self._saved = len(self.rows)
        np.add.at(self.sums, self.rows["trajectory"], self._sums(self.rows))
        if not np.array_equal(self.sums, sums):
            raise ValueError(f"{EVENTS}: events were changed, or are missing")
        if repair and len(data) != self.rows.nbytes:
            write_bytes(file, self.rows.tobytes())

    def in_order(self) -> Array:
        """All rows, by trajectory and time."""
        self._gather()
        return self.rows[np.lexsort((self.rows["ordinal"], self.rows["trajectory"]))]

    def events(self, robot: Robot, names: Sequence[str], velocity: str,
               variation: Variation | None = None, modes: int = 0) -> Events | None:
        """All of it, as users see it; None if nothing is watched. States end with so many
        modes."""
        if not names:
            return None
        rows = self.in_order()
        which = rows["which"].astype(int)
        if modes:
            these, which = spread_switches(names, rows["trajectory"], which,
                                           rows["y"][:, -modes:])
            rows = rows[these]
        q, rates = (np.ascontiguousarray(rows["y"][:, part]) for part in (
            slice(0, robot.nq), slice(robot.nq, robot.nq + robot.n)))
        qd, name = rates, VELOCITIES[velocity].rates
        if name is not None:
            qd = robot.compute(name, q, rates) if variation is None else variation.taken(
                rows["trajectory"]).compute(robot, name, q[:, None], rates[:, None])[:, 0]
        return Events(tuple(names), rows["trajectory"].copy(), rows["t"].copy(), which,
                      q, qd)


def stop_outside(records: Array, log: EventLog, watched: Sequence[Watched]) -> None:
    """Trajectories that begin outside a limit end there, before they start."""
    for k, each in enumerate(watched):
        if each.trigger.bounds:
            with np.errstate(invalid="ignore"):
                out = each.g(0.0, records["y"].T, None) < 0
            out &= records["status"] == STATUS["running"]
            if out.any() and log.buffer is not None:
                log.buffer[out, 0, 0], log.buffer[out, 0, 1] = records["t"][out], k
                log.buffer[out, 0, 2:] = records["y"][out]
                records["events"][out] = records["fill"][out] = 1
                records["status"][out] = STATUS["limit reached"]
