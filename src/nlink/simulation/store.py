"""Runs under way: in memory, in a directory, or in a zarr group.

Trajectories are worked on block by block, and only the block at hand is in memory, so an
ensemble may be larger than that. On disk there are the states, written as they are reached,
and a record of where each trajectory stands, replaced atomically after them. What was written
after the records were is computed again on resuming, to the same bits, so a run that is
killed at any moment loses seconds and changes nothing. What something else has changed is
refused: sums of all that is known go with the records (see `checks`). Who writes a run holds a
lock on it (see `writing`).

A directory holds `run.json` (what is computed), `y.npy` (states), `tau.npy` (joint forces of
finished blocks, if there are any) and `records.npy`. A zarr group holds the same as
attributes and arrays, and how each trajectory went when it is done.
"""

from __future__ import annotations

import io
import json
import math
import os
import secrets
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from nlink.formats.dh import parse_toml
from nlink.formats.files import name_beside, write_bytes, write_text
from nlink.iterations.integration import STATUS
from nlink.robot import Robot
from nlink.simulation import checks
from nlink.simulation.event_log import EVENTS, EventLog
from nlink.simulation.run import Run, Stats
from nlink.simulation.variation import Variation

Array = np.ndarray

BLOCK = 2**25
"""Bytes of states that are worked on at a time when they go to disk."""
HEAD = ("robot", "digest", "source", "check", "lead", "t", "start", "evaluations", "stages",
        "method", "nq", "parts", "velocity", "closing", "vary", "forces", "events", "record")
"""What is known of every run under way."""


class Store:
    """A run under way, in memory; the base of those on disk."""

    def __init__(self, records: Array, head: dict[str, Any], log: EventLog) -> None:
        self.records, self.head, self.log = records, head, log
        self.count, self.outputs = len(records), len(head["t"])
        self.size = records["y"].shape[1]
        self.rows = max(1, self.count)
        """Trajectories in a block."""
        self.begin, self.end = 0, 0
        self.out = np.empty((0, self.outputs, self.size))
        """The states of the block at hand."""

    @property
    def blocks(self) -> int:
        return math.ceil(self.count / self.rows)

    def waits(self, rows: slice) -> bool:
        """Whether some trajectories are running, or ended before they started."""
        records = self.records[rows]
        return bool(((records["status"] == STATUS["running"]) | checks.fresh(records)).any())

    def take(self, block: int) -> tuple[Array, Array]:
        """Make a block the one at hand: its records and its states, both to be written into."""
        self.begin = block * self.rows
        self.end = min(self.begin + self.rows, self.count)
        self.out = self.states()
        records = self.records[self.begin:self.end]
        fresh = checks.fresh(records)
        self.out[fresh] = np.nan
        self.out[fresh, 0] = records["y"][fresh]
        return records, self.out

    def states(self) -> Array:
        """The block's states as far as they are known, nan beyond."""
        return np.full((self.end - self.begin, self.outputs, self.size), np.nan)

    def checkpoint(self) -> None:
        """Make what has been computed so far permanent."""

    def finish(self, robot: Robot, forces: Any) -> None:
        """A block is done; `forces` are its `Run.forces`."""

    def close(self) -> None:
        """All blocks are done."""

    def run(self, robot: Robot | None = None, forces: Any = None) -> Run:
        """The run as it stands."""
        return self.assemble(*self.columns(self.out), robot, forces)

    @property
    def nq(self) -> int:
        return int(self.head["nq"])

    @property
    def n(self) -> int:
        return self.size - self.nq - sum(size for _, size in self.head["parts"])

    def columns(self, y: Array) -> tuple[Array, Array, dict[str, Array]]:
        """Coordinates, velocities, and the parts of states by name."""
        at, parts = self.nq + self.n, {}
        for name, size in self.head["parts"]:
            parts[name] = y[..., at:at + size]
            at += size
        return y[..., :self.nq], y[..., self.nq:self.nq + self.n], parts

    def forces_of_block(self, robot: Robot, forces: Any) -> Array:
        """tau of the block at hand."""
        own = Store(self.records[self.begin:self.end], self.head | {
            "lead": (self.end - self.begin,), "events": ()}, self.log)
        return own.assemble(*self.columns(self.out), robot, forces).tau

    def assemble(self, q: Any, rates: Any, parts: dict[str, Any], robot: Robot | None,
                 forces: Any) -> Run:
        head, records, lead = self.head, self.records, tuple(self.head["lead"])
        steps, rejects, evaluations = (x.reshape(lead)[()] for x in self.statistics())
        variation = None
        if head["vary"]:
            width = sum(width for _, width in head["vary"]["columns"])
            variation = Variation.from_head(
                head["vary"], records["own"].reshape(*lead, width))
        robot = robot or stored_robot(head["robot"])
        return Run(robot, np.array(head["t"]), shaped(q, lead),
                   shaped(rates, lead), records["status"].reshape(lead),
                   records["t"].reshape(lead), Stats(steps, rejects, evaluations),
                   head["method"], head["velocity"], forces, variation,
                   self.log.events(robot, head["events"], head["velocity"], variation,
                                   dict(head["parts"]).get("mode", 0)),
                   head["closing"], {name: shaped(x, lead) for name, x in parts.items()})

    def statistics(self) -> tuple[Array, Array, Array]:
        """Steps, rejected steps and evaluations of each trajectory."""
        head, (steps, rejects, sweeps) = self.head, (
            self.records[name] for name in ("steps", "rejects", "sweeps"))
        samples = self.records["ticks"] - 1 if "ticks" in (
            self.records.dtype.names or ()) else 0
        return steps, rejects, (head["start"] + (steps + rejects) * head["evaluations"]
                                + sweeps * head["stages"] + samples)


class SavedStore(Store):
    """What directories and groups have in common: sums of all that is known."""

    def __init__(self, records: Array, head: dict[str, Any], log: EventLog, path: Path) -> None:
        super().__init__(records, head, log)
        self.path = path
        self.rows = block_rows(self.outputs, self.size)
        self.sums = np.zeros(self.count, checks.SUMS)

    def saved_forces(self) -> Array:
        """tau of the block at hand, as it is on disk."""
        raise NotImplementedError

    def add_up(self) -> None:
        """The sums of the block at hand."""
        rows = slice(self.begin, self.end)
        known = checks.known_outputs(self.records[rows], self.outputs)
        self.sums["states"][rows] = checks.known_sum(self.out, known)
        self.sums["events"] = self.log.sums

    def finish(self, robot: Robot, forces: Any) -> None:
        if self.head["forces"]:
            tau = self.forces_of_block(robot, forces)
            self.write_forces(tau)
            self.sums["forces"][self.begin:self.end] = checks.known_sum(
                tau, np.ones(tau.shape[:2], bool))
        self.checkpoint()
        self.begin, self.end = 0, 0
        self.out = self.out[:0].copy()  # the block's pages are no longer this process's

    def write_forces(self, tau: Array) -> None:
        """Keep tau of the block at hand."""
        raise NotImplementedError

    def verify(self) -> None:
        """Refuse states and joint forces that are not what was written."""
        for block in range(self.blocks):
            self.begin, self.end = block * self.rows, min((block + 1) * self.rows, self.count)
            rows = slice(self.begin, self.end)
            known = checks.known_outputs(self.records[rows], self.outputs)
            if not known.any():
                continue
            if not np.array_equal(checks.known_sum(self.states(), known),
                                  self.sums["states"][rows]):
                raise ValueError("states were changed")
            if self.head["forces"] and not self.waits(rows):
                tau = self.saved_forces()
                if not np.array_equal(checks.known_sum(tau, np.ones(tau.shape[:2], bool)),
                                      self.sums["forces"][rows]):
                    raise ValueError("joint forces were changed")
        self.begin, self.end = 0, 0


class Directory(SavedStore):
    """A run in a directory, its states mapped into memory."""

    @classmethod
    def create(cls, records: Array, head: dict[str, Any], log: EventLog, path: Path) -> Directory:
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
             repair: bool = False) -> Directory:
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


class Group(SavedStore):
    """A run in a zarr group, a chunk of every array for each block."""

    group: Any

    @classmethod
    def create(cls, records: Array, head: dict[str, Any], log: EventLog, path: Path) -> Group:
        temporary = name_beside(path, f"{secrets.token_hex(8)}.tmp")
        group = zarr().open_group(str(temporary), mode="w")
        store = cls(records, head, log, path)
        create_arrays(group, store.widths(), head["t"], store.count, store.rows)
        log.save(temporary, records)
        store.add_up()
        raw = checks.seal(records, store.sums)
        group.create_array("records", shape=raw.shape, dtype=raw.dtype,
                           chunks=(max(1, min(store.rows, store.count)), raw.shape[1]))
        group["records"][...] = raw
        group.attrs.update({k: v for k, v in head.items() if k != "t"})
        os.replace(temporary, path)
        store.group = zarr().open_group(str(path), mode="r+")
        return store

    @staticmethod
    def there(path: Path) -> bool:
        return path.exists()

    @staticmethod
    def read_head(path: Path) -> dict[str, Any]:
        group = zarr().open_group(str(path), mode="r")
        return checked_head("the group", dict(group.attrs) | {"t": group["t"][...]})

    @classmethod
    def open(cls, path: Path, head: dict[str, Any], kind: np.dtype | None = None, *,
             repair: bool = False) -> Group:
        """The run in a group whose head is known."""
        for left in path.rglob("*.partial") if repair else ():
            left.unlink(missing_ok=True)  # temporaries of zarr's
        group = zarr().open_group(str(path), mode="r+" if repair else "r")
        records, sums, log = read_records(path, group["records"][...], head, kind, repair=repair)
        store = cls(records, head, log, path)
        store.sums, store.group = sums, group
        for name, width in store.widths().items():
            check_array(name, group[name], (store.count, store.outputs, width))
        return store

    def widths(self) -> dict[str, int]:
        """The arrays of states and forces, and how many columns they have."""
        return self.state_widths() | ({"tau": self.n} if self.head["forces"] else {})

    def state_widths(self) -> dict[str, int]:
        """The arrays of states, in the order of the state."""
        return {"q": self.nq, self.head["velocity"]: self.n} | {
            f"part_{name}": size for name, size in self.head["parts"]}

    def states(self) -> Array:
        rows = slice(self.begin, self.end)
        return np.concatenate([self.group[name][rows] for name in self.state_widths()], axis=-1)

    def saved_forces(self) -> Array:
        return self.group["tau"][self.begin:self.end]

    def write_forces(self, tau: Array) -> None:
        self.group["tau"][self.begin:self.end] = tau

    def checkpoint(self) -> None:
        if self.end == self.begin:
            return
        self.log.save(self.path, self.records)
        rows = slice(self.begin, self.end)
        at = 0
        for name, width in self.state_widths().items():
            self.group[name][rows] = self.out[..., at:at + width]
            at += width
        self.add_up()
        self.group["records"][rows] = checks.seal(self.records[rows], self.sums[rows], self.begin)

    def close(self) -> None:
        write_summary(self.group, self.run())

    def run(self, robot: Robot | None = None, forces: Any = None) -> Run:
        if self.head["forces"]:
            forces = shaped(self.group["tau"], tuple(self.head["lead"]))
        parts = {name: self.group[f"part_{name}"] for name, _ in self.head["parts"]}
        return self.assemble(self.group["q"], self.group[self.head["velocity"]], parts, robot,
                             forces)


def open_store(kind: type[Directory] | type[Group], path: Path) -> Directory | Group:
    """The run under way at `path`, to be read."""
    try:
        return kind.open(path, kind.read_head(path))
    except ImportError:
        raise
    except Exception as error:  # readers raise anything if a file holds something else
        raise ValueError(f"{path}: not a run under way: {reason(error)}") from None


def reason(error: Exception) -> str:
    """What an error says, in one line."""
    said = " ".join(str(error).split())
    return f"no {said}" if isinstance(error, KeyError) else said or type(error).__name__


def block_rows(outputs: int, size: int) -> int:
    """Trajectories whose states fill a block."""
    return max(1, BLOCK // (8 * outputs * size))


def create_arrays(group: Any, widths: dict[str, int], t: Array, count: int, rows: int) -> None:
    """The arrays of a run in a zarr group: (trajectories, times, width), nan until written."""
    group.create_array("t", data=np.ascontiguousarray(t))
    for name, width in widths.items():
        group.create_array(name, shape=(count, len(t), width), dtype="float64",
                           chunks=(max(1, min(rows, count)), len(t), width), fill_value=np.nan,
                           dimension_names=("trajectory", "time", name))


def write_summary(group: Any, run: Run) -> None:
    """How each trajectory of a run went."""
    columns = {"status": run.status_codes, "t_end": run.t_end, "steps": run.stats.steps,
               "rejects": run.stats.rejects, "evaluations": run.stats.evaluations}
    flat = {name: np.ascontiguousarray(values).reshape(-1) for name, values in columns.items()}
    if run.variation is not None:
        flat["vary"] = np.ascontiguousarray(run.variation.taken(slice(None)).values)
    for name, values in flat.items():
        group.create_array(name, data=values, overwrite=True)


def check_array(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Refuse an array of another shape or kind."""
    if array.shape != shape or array.dtype != np.dtype("<f8"):
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}, expected float64 of "
                         f"shape {shape}")


def checked_head(where: str, head: dict[str, Any]) -> dict[str, Any]:
    """What a file says of its run."""
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


def read_records(path: Path, raw: Array, head: dict[str, Any], kind: np.dtype | None, *,
                 repair: bool) -> tuple[Array, Array, EventLog]:
    """Records and their sums, and the events they count."""
    robot = stored_robot(head["robot"])
    size = robot.nq + robot.n + sum(size for _, size in head["parts"])
    if head["nq"] != robot.nq:
        raise ValueError(f"nq {head['nq']}, expected {robot.nq} for {robot.name}")
    records, sums = checks.unseal(raw, head, kind)
    log = EventLog(len(records), size, len(head["events"]))
    log.read(path, records, sums["events"], repair=repair)
    return records, sums, log


def create(records: Array, head: dict[str, Any], path: Path | None, log: EventLog) -> Store:
    """A new store, or the one at `path` if it holds the same run."""
    log.collect(records)
    if path is None:
        return Store(records, head, log)
    kind = Group if path.suffix == ".zarr" else Directory
    head = head | {"check": checks.head_sum(head)}
    if not kind.there(path):
        return kind.create(records, head, log, path)
    try:
        found = kind.read_head(path)
        if found["digest"] == head["digest"] and found["source"] == head["source"]:
            if found["check"] != head["check"]:
                raise ValueError("what is said of the run was changed")
            store = kind.open(path, head, records.dtype, repair=True)
            store.verify()
            return store
    except ImportError:
        raise
    except Exception as error:  # readers raise anything if a file holds something else
        raise ValueError(f"save: {path} is damaged, or no run under way: {reason(error)}; remove "
                         "it or choose another name") from None
    if found["digest"] != head["digest"]:
        raise ValueError(f"save: {path} holds another run; remove it or choose another name")
    raise ValueError(f"save: {path} holds this run by another version of nlink, whose numbers "
                     "may differ; remove it or choose another name")


def zarr() -> Any:
    """What is needed of the package: groups of format 3 only, since those of format 2 may hold
    pickles, which run whatever a stranger wrote."""
    try:
        import zarr
    except ImportError:
        raise ImportError(".zarr files need zarr: pip install nlink[sim]") from None
    if tuple(map(int, zarr.__version__.split(".")[:2])) < (3, 1):
        raise ImportError(f".zarr files need zarr 3.1 or later, not {zarr.__version__}: "
                          "pip install -U nlink[sim]")
    return SimpleNamespace(open_group=partial(zarr.open_group, zarr_format=3))
