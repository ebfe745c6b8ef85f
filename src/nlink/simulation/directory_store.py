"""A run under way in a directory: `run.json` (what is computed), `y.npy` (states), `tau.npy` (joint
forces of finished blocks, if there are any) and `records.npy`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.files import write_bytes, write_text
from nlink.robot import Robot
from nlink.simulation import checks
from nlink.simulation.event_log import EVENTS, EventLog
from nlink.simulation.run import Run
from nlink.simulation.store import SavedStore, check_array, checked_head, read_records, shaped

Array = np.ndarray


class DirectoryStore(SavedStore):
    """A run in a directory, its states mapped into memory."""

    @classmethod
    def create(cls, records: Array, head: dict[str, Any], log: EventLog, path: Path,
               ) -> DirectoryStore:
        path.mkdir(parents=True, exist_ok=True)
        (path / EVENTS).unlink(missing_ok=True)
        store = cls(records, head, log, path)
        for name, width in store.widths().items():
            store._blank(name, width)
        store.checkpoint()
        # last, since it says that the others are there
        write_text(path / "run.json", json.dumps(head | {"t": head["t"].tolist()}))
        return store

    @staticmethod
    def there(path: Path) -> bool:
        return (path / "run.json").exists()

    @staticmethod
    def read_head(path: Path) -> dict[str, Any]:
        return checked_head("run.json", json.loads((path / "run.json").read_text("utf-8")))

    @classmethod
    def open(cls, path: Path, head: dict[str, Any], kind: np.dtype | None = None, *,
             repair: bool = False) -> DirectoryStore:
        """The run in a directory whose head is known."""
        for left in path.glob(".*.tmp") if repair else ():
            left.unlink(missing_ok=True)
        records, sums, log = read_records(
            path, np.load(path / "records.npy", allow_pickle=False), head, kind, repair=repair)
        store = cls(records, head, log, path)
        store.sums = sums
        for name, width in store.widths().items():
            store._map(name, width)
        return store

    def widths(self) -> dict[str, int]:
        """The files of states and forces, and how many columns they have."""
        return {"y.npy": self.size} | ({"tau.npy": self.n} if self.head["forces"] else {})

    def _blank(self, name: str, width: int) -> None:
        """A file of nan, written block by block: mapped, all of it would count as memory."""
        shape = (self.count, self.outputs, width)
        with (self.path / name).open("wb") as stream:
            np.lib.format.write_array_header_1_0(
                stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
            rows = np.full((min(self.rows, self.count), *shape[1:]), np.nan)
            for begin in range(0, self.count, self.rows):
                stream.write(rows[:self.count - begin].data)

    def _map(self, name: str, width: int, mode: Any = "r") -> Array:
        array = np.load(self.path / name, mmap_mode=mode)
        check_array(name, array, (self.count, self.outputs, width))
        if not array.flags.c_contiguous:
            raise ValueError(f"{name}: columns first, expected rows first")
        return array

    def states(self) -> Array:
        whole = self._map("y.npy", self.size)
        if not self.count:
            return whole
        assert isinstance(whole, np.memmap)
        return np.memmap(self.path / "y.npy", np.float64, "r+",
                         whole.offset + self.begin * whole.strides[0],
                         (self.end - self.begin, self.outputs, self.size))

    def saved_forces(self) -> Array:
        return self._map("tau.npy", self.n)[self.begin:self.end]

    def write_forces(self, tau: Array) -> None:
        self._map("tau.npy", self.n, "r+")[self.begin:self.end] = tau

    def checkpoint(self) -> None:
        self.log.save(self.path, self.records)  # before the records that count its rows
        if isinstance(self.out, np.memmap):
            self.out.flush()
        self.add_up()
        buffer = io.BytesIO()
        np.save(buffer, checks.seal(self.records, self.sums))
        write_bytes(self.path / "records.npy", buffer.getvalue())

    def run(self, robot: Robot | None = None, forces: Any = None) -> Run:
        y = self._map("y.npy", self.size)
        if self.head["forces"]:
            forces = shaped(self._map("tau.npy", self.n), tuple(self.head["lead"]))
        return self.assemble(*self.columns(y), robot, forces)
