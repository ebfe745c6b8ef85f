"""The events of a run under way: rows that the kernel writes, collected between its calls.

A trajectory has room for a few events in a buffer; when it is full the trajectory waits for
the next call, so any number of events is recorded whatever the room. On disk events are
appended, before the records that count them are replaced: what was appended after the last
records is left out on resuming, and computed again.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from nlink.formats.files import NO_LINKS, check_plain_file, write_bytes
from nlink.storage.checks import checksum

Array = np.ndarray
EVENTS = "events.bin"
"""The file of a directory, or of a zarr group, that they are appended to."""
BUFFER = 2**24
"""Bytes that all buffers of a run may take, if that leaves room for a few events each."""
APPENDING = (os.O_CREAT | os.O_WRONLY | os.O_APPEND | NO_LINKS
             | getattr(os, "O_BINARY", 0))
FEW, MANY = 4, 256
"""Rows of a trajectory's buffer, besides one for each function watched."""


@lru_cache(64)
def row_type(size: int) -> np.dtype:
    """An event: the trajectory, its number among that trajectory's, when, which, the state."""
    return np.dtype([("trajectory", "i8"), ("ordinal", "i8"), ("t", "f8"), ("which", "f8"),
                     ("y", "f8", (size,))])


class EventLog:
    """Events of trajectories whose states have `size` elements."""

    def __init__(self, count: int, size: int, kinds: int, buffer: Array | None = None) -> None:
        width = 2 + size
        room = min(max(BUFFER // (8 * width * max(count, 1)), FEW), MANY)
        if buffer is None and kinds:
            buffer = np.empty((count, kinds + room, width))
        self.buffer = buffer
        self.rows = np.empty(0, row_type(size))
        self.sums = np.zeros(count, np.uint64)
        """The sum of each trajectory's events: see `checks`."""
        self._fresh: list[Array] = []
        self._saved = 0
        """Rows that are on disk."""

    @property
    def empty(self) -> bool:
        """Whether nothing has been collected."""
        return not (len(self.rows) or self._fresh)

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
            handle = os.open(path / EVENTS, APPENDING, 0o666)
            with os.fdopen(handle, "ab") as stream:
                stream.truncate(self._saved * fresh.itemsize)
                stream.write(fresh.tobytes())
                stream.flush()
                os.fsync(stream.fileno())
            self._saved = len(self.rows)

    def _gather(self) -> None:
        self.rows, self._fresh = np.concatenate([self.rows, *self._fresh]), []

    def read(self, path: Path, records: Array, sums: Array, *, repair: bool) -> None:
        """Read the events that the records count; their sums must be those given."""
        file = path / EVENTS
        data = b""
        if os.path.lexists(file):
            check_plain_file(file)
            data = file.read_bytes()
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
