"""Runs under way: in memory, in a directory, or in a zarr group.

Trajectories are worked on block by block, and only the block at hand is in memory, so an
ensemble may be larger than that. On disk there are the states, written as they are reached,
and a record of where each trajectory stands, replaced atomically after them. What was written
after the records were is computed again on resuming, to the same bits, so a run that is
killed at any moment loses seconds and changes nothing. What something else has changed is
refused: sums of all that is known go with the records (see `checks`). Who writes a run holds a
lock on it (see `locking`).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.dh import parse_toml
from nlink.iterations.integration import STATUS
from nlink.robot import Robot
from nlink.storage import checks
from nlink.storage.array_store import DirectoryArrays, ZarrArrays
from nlink.storage.event_log import EventLog

Array = np.ndarray
Kind = type[DirectoryArrays] | type[ZarrArrays]

BLOCK = 2**25
"""Bytes of states that are worked on at a time when they go to disk."""
HEAD = ("robot", "digest", "source", "check", "lead", "t", "start", "evaluations", "stages",
        "method", "nq", "parts", "velocity", "closing", "vary", "forces", "events", "record")
"""What is known of every run under way."""


class RunStore:
    """A run under way, in memory."""

    on_disk = False
    """Whether what is computed is made permanent on the way."""
    keeps_forces = False
    """Whether `finish` is to be given the joint forces of a block."""

    def __init__(self, records: Array, head: dict[str, Any], log: EventLog) -> None:
        self.records, self.head, self.log = records, head, log
        self.count, self.outputs = len(records), len(head["t"])
        self.size, self.starts = records["y"].shape[1], records["y"]
        self.rows = max(1, self.count)
        """Trajectories in a block."""
        self.begin, self.end = 0, 0
        self.out = np.empty((0, self.outputs, self.size))
        """The states of the block at hand."""

    @property
    def blocks(self) -> int:
        return math.ceil(self.count / self.rows)

    @property
    def block(self) -> slice:
        """The trajectories at hand."""
        return slice(self.begin, self.end)

    @property
    def columns(self) -> dict[str, int]:
        """The columns of a state in order, with their widths."""
        parts = {f"part_{name}": size for name, size in self.head["parts"]}
        nq = int(self.head["nq"])
        return {"q": nq, self.head["velocity"]: self.size - nq - sum(parts.values())} | parts

    def waits(self, rows: slice) -> bool:
        """Whether some trajectories are running, or ended before they started."""
        records = self.records[rows]
        return bool(((records["status"] == STATUS["running"]) | checks.fresh(records)).any())

    def take(self, block: int) -> tuple[Array, Array]:
        """Make a block the one at hand: its records and its states, both to be written into."""
        self.begin = block * self.rows
        self.end = min(self.begin + self.rows, self.count)
        self.out = self.states()
        records = self.records[self.block]
        fresh = checks.fresh(records)
        self.out[fresh] = np.nan
        self.out[fresh, 0] = self.starts[self.block][fresh]
        return records, self.out

    def states(self) -> Array:
        """The block's states as far as they are known, nan beyond."""
        return np.full((self.end - self.begin, self.outputs, self.size), np.nan)

    def checkpoint(self) -> None:
        """Make what has been computed so far permanent."""

    def finish(self, tau: Array | None) -> None:
        """A block is done, and these are its joint forces if they are kept."""

    def close(self) -> None:
        """All blocks are done."""

    def known(self) -> tuple[dict[str, Any], Any]:
        """The columns of all states, and the joint forces if they are kept."""
        return self.split(self.out), None

    def split(self, y: Array) -> dict[str, Array]:
        """The columns of states, by name."""
        ends = np.cumsum([*self.columns.values()])
        return {name: y[..., end - width:end] for (name, width), end in zip(
            self.columns.items(), ends, strict=True)}

    def alone(self) -> RunStore:
        """The block at hand as a run of its own, without events."""
        store = RunStore(self.records[self.block], self.head | {
            "lead": (self.end - self.begin,), "events": ()}, self.log)
        store.out = self.out
        return store

    def statistics(self) -> dict[str, Array]:
        """Steps, rejected steps and evaluations of each trajectory, and what else its record says
        of its contacts."""
        head, (steps, rejects, sweeps) = self.head, (
            self.records[name] for name in ("steps", "rejects", "sweeps"))
        names = self.records.dtype.names or ()
        samples = self.records["ticks"] - 1 if "ticks" in names else 0
        return {"steps": steps, "rejects": rejects, "evaluations": (
            head["start"] + (steps + rejects) * head["evaluations"] + sweeps * head["stages"]
            + samples)} | {name: self.records[name] for name in names
                           if name.startswith("contact_")}


class SavedStore(RunStore):
    """A run under way on disk, with sums of all that is known."""

    on_disk = True

    def __init__(self, records: Array, head: dict[str, Any], log: EventLog,
                 arrays: DirectoryArrays | ZarrArrays) -> None:
        super().__init__(records, head, log)
        self.arrays, self.keeps_forces = arrays, head["forces"]
        self.rows = block_rows(self.outputs, self.size)
        self.sums = np.zeros(self.count, checks.SUMS)

    @classmethod
    def create(cls, records: Array, head: dict[str, Any], log: EventLog, path: Path, kind: Kind,
               ) -> SavedStore:
        """A new run in a place where there is none."""
        arrays = kind.begin(path)
        store = cls(records, head, log, arrays)
        for name, width in store.widths().items():
            arrays.add(name, store.count, store.outputs, width, store.rows)
        log.save(arrays.folder, records)
        store.add_up()
        arrays.add_records(checks.seal(records, store.sums), store.rows)
        arrays.publish(head)
        return store

    @classmethod
    def open(cls, path: Path, head: dict[str, Any], kind: Kind, record: np.dtype | None = None, *,
             repair: bool = False) -> SavedStore:
        """The run in a place whose head is known; `repair` if it is to be gone on with."""
        arrays, robot = kind.open(path, repair=repair), stored_robot(head["robot"])
        if head["nq"] != robot.nq:
            raise ValueError(f"nq {head['nq']}, expected {robot.nq} for {robot.name}")
        records, sums = checks.unseal(arrays.read_records(), head, record)
        size = robot.nq + robot.n + sum(size for _, size in head["parts"])
        log = EventLog(len(records), size, len(head["events"]))
        log.read(arrays.folder, records, sums["events"], repair=repair)
        store = cls(records, head, log, arrays)
        store.sums = sums
        for name, width in store.widths().items():
            arrays.check(name, (store.count, store.outputs, width))
        return store

    def state_widths(self) -> dict[str, int]:
        """The arrays of states, and how many elements of a state each has."""
        return self.columns if self.arrays.chunked else {"y": self.size}

    def widths(self) -> dict[str, int]:
        """The arrays of states and forces."""
        n = self.columns[self.head["velocity"]]
        return self.state_widths() | ({"tau": n} if self.keeps_forces else {})

    def states(self) -> Array:
        parts = [self.arrays.read(name, self.block) for name in self.state_widths()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def checkpoint(self) -> None:
        if self.end == self.begin:
            return
        self.log.save(self.arrays.folder, self.records)  # before the records that count its rows
        columns = self.split(self.out) if self.arrays.chunked else {"y": self.out}
        for name, values in columns.items():
            self.arrays.write(name, self.block, values)
        self.add_up()
        rows = self.block if self.arrays.chunked else slice(0, self.count)
        self.arrays.write_records(rows, checks.seal(self.records[rows], self.sums[rows],
                                                    rows.start))

    def add_up(self) -> None:
        """The sums of the block at hand."""
        known = checks.known_outputs(self.records[self.block], self.outputs)
        self.sums["states"][self.block] = checks.known_sum(self.out, known)
        self.sums["events"] = self.log.sums

    def finish(self, tau: Array | None) -> None:
        if tau is not None:
            self.arrays.write("tau", self.block, np.asarray(tau))
            self.sums["forces"][self.block] = checks.whole_sum(tau)
        self.checkpoint()
        self.begin, self.end = 0, 0
        self.out = self.out[:0].copy()  # the block's pages are no longer this process's

    def close(self) -> None:
        """All blocks are done: a group also says how each trajectory went."""
        own = {"vary": self.records["own"]} if self.head["vary"] else {}
        self.arrays.put(status=self.records["status"], t_end=self.records["t"],
                        **self.statistics(), **own)

    def known(self) -> tuple[dict[str, Any], Any]:
        whole = self.arrays.whole
        columns = {name: whole(name) for name in self.columns} if self.arrays.chunked else (
            self.split(whole("y")))
        return columns, whole("tau") if self.keeps_forces else None

    def verify(self) -> None:
        """Refuse states and joint forces that are not what was written."""
        for block in range(self.blocks):
            self.begin, self.end = block * self.rows, min((block + 1) * self.rows, self.count)
            known = checks.known_outputs(self.records[self.block], self.outputs)
            if not known.any():
                continue
            if not np.array_equal(checks.known_sum(self.states(), known),
                                  self.sums["states"][self.block]):
                raise ValueError("states were changed")
            if self.keeps_forces and not self.waits(self.block) and not np.array_equal(
                    checks.whole_sum(self.arrays.read("tau", self.block)),
                    self.sums["forces"][self.block]):
                raise ValueError("joint forces were changed")
        self.begin, self.end = 0, 0


def create(records: Array, head: dict[str, Any], path: Path | None, log: EventLog) -> RunStore:
    """A new store, or the one at `path` if it holds the same run."""
    log.collect(records)
    if path is None:
        return RunStore(records, head, log)
    kind = ZarrArrays if path.suffix == ".zarr" else DirectoryArrays
    head = head | {"check": checks.head_sum(head)}
    if path.is_symlink():
        raise ValueError(f"save: {path} is a link, expected a name of its own")
    if not kind.there(path):
        return SavedStore.create(records, head, log, path, kind)
    with checks.refused(f"save: {path} is damaged, or no run under way",
                        "; remove it or choose another name"):
        found = checked_head(kind, path)
        if found["digest"] == head["digest"] and found["source"] == head["source"]:
            if found["check"] != head["check"]:
                raise ValueError("what is said of the run was changed")
            store = SavedStore.open(path, head, kind, records.dtype, repair=True)
            store.verify()
            store.starts = records["y"]
            return store
    if found["digest"] != head["digest"]:
        raise ValueError(f"save: {path} holds another run; remove it or choose another name")
    raise ValueError(f"save: {path} holds this run by another version of nlink, whose numbers "
                     "may differ; remove it or choose another name")


def open_store(kind: Kind, path: Path) -> SavedStore:
    """The run under way at `path`, to be read."""
    with checks.refused(f"{path}: not a run under way"):
        return SavedStore.open(path, checked_head(kind, path), kind)


def block_rows(outputs: int, size: int) -> int:
    """Trajectories whose states fill a block."""
    return max(1, BLOCK // (8 * outputs * size))


def checked_head(kind: Kind, path: Path) -> dict[str, Any]:
    """The head of a run on disk, checked."""
    head, where = kind.read_head(path), kind.head_name
    missing = [key for key in HEAD if key not in head]
    if missing:
        raise ValueError(f"{where} has no {', '.join(missing)}")
    head = head | {"t": np.array(head["t"], float)}
    if head["check"] != checks.head_sum(head):
        raise ValueError(f"{where} was changed")
    t, lead = head["t"], head["lead"]
    if t.ndim != 1 or len(t) < 2 or not (np.isfinite(t).all() and (np.diff(t) > 0).all()):
        raise ValueError(f"{where}: t, expected at least two increasing, finite times")
    if not all(isinstance(length, int) and length >= 0 for length in lead):
        raise ValueError(f"{where}: lead {lead}, expected lengths")
    return head


def shaped(x: Any, lead: tuple[int, ...]) -> Any:
    """Rows of trajectories in the ensemble's shape. Zarr arrays stay on disk if they can."""
    if len(lead) == 1:
        return x
    return np.asarray(x[...]).reshape(*lead, *x.shape[1:])


def stored_robot(text: str) -> Robot:
    return Robot(parse_toml(text, physical="ignore"))
