"""Runs under way: in memory, in a directory, or in a zarr group.

Trajectories are worked on block by block, and only the block at hand is in memory, so an
ensemble may be larger than that. On disk there are the states, written as they are reached,
and a record of where each trajectory stands, replaced atomically after them. What was written
after the records were is computed again on resuming, to the same bits, so a run that is
killed at any moment loses seconds and changes nothing.

A directory holds `run.json` (what is computed), `y.npy` (states), `tau.npy` (joint forces of
finished blocks, if there are any) and `records.npy`. A zarr group holds the same as
attributes and arrays, and how each trajectory went when it is done.
"""

from __future__ import annotations

import io
import json
import math
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.compiler.integrator import STATUS, record_type
from nlink.formats.dh import parse_toml
from nlink.formats.files import write_bytes, write_text
from nlink.simulation.event_log import EVENTS, EventLog
from nlink.simulation.run import Run, Stats
from nlink.simulation.variation import Variation

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray

BLOCK = 2**25
"""Bytes of states that are worked on at a time when they go to disk."""
HEAD = ("robot", "digest", "lead", "t", "start", "evaluations", "stages", "method")
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
        return bool(((records["status"] == STATUS["running"]) | (
            records["next"] + records["steps"] + records["rejects"] == 1)).any())

    def take(self, block: int) -> tuple[Array, Array]:
        """Make a block the one at hand: its records and its states, both to be written into."""
        self.begin = block * self.rows
        self.end = min(self.begin + self.rows, self.count)
        self.out = self.states()
        records = self.records[self.begin:self.end]
        fresh = records["next"] + records["steps"] + records["rejects"] == 1
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
        return self.assemble(self.out[..., :self.nq], self.out[..., self.nq:], robot, forces)

    @property
    def nq(self) -> int:
        return int(self.head["nq"])

    def forces_of_block(self, robot: Robot, forces: Any) -> Array:
        """tau of the block at hand."""
        own = Store(self.records[self.begin:self.end], self.head | {
            "lead": (self.end - self.begin,), "events": ()}, self.log)
        return own.assemble(self.out[..., :self.nq], self.out[..., self.nq:], robot, forces).tau

    def assemble(self, q: Any, rates: Any, robot: Robot | None, forces: Any) -> Run:
        head, records, lead = self.head, self.records, tuple(self.head["lead"])
        steps, rejects, evaluations = (x.reshape(lead)[()] for x in self.statistics())
        variation = None
        if head["vary"]:
            width = sum(width for _, width in head["vary"]["columns"])
            variation = Variation.from_head(
                head["vary"], records["memory"][:, -width:].reshape(*lead, width))
        robot = robot or stored_robot(head["robot"])
        return Run(robot, np.array(head["t"]), shaped(q, lead),
                   shaped(rates, lead), records["status"].reshape(lead),
                   records["t"].reshape(lead), Stats(steps, rejects, evaluations),
                   head["method"], head["velocity"], forces, variation,
                   self.log.events(robot, head["events"], head["velocity"], variation),
                   head.get("closing", "project"))

    def statistics(self) -> tuple[Array, Array, Array]:
        """Steps, rejected steps and evaluations of each trajectory."""
        head, (steps, rejects, sweeps) = self.head, (
            self.records[name] for name in ("steps", "rejects", "sweeps"))
        return steps, rejects, (head["start"] + (steps + rejects) * head["evaluations"]
                                + sweeps * head["stages"])


class Directory(Store):
    """A run in a directory, its states mapped into memory."""

    def __init__(self, records: Array, head: dict[str, Any], log: EventLog, path: Path) -> None:
        super().__init__(records, head, log)
        self.path = path
        self.rows = block_rows(self.outputs, self.size)

    @classmethod
    def create(cls, records: Array, head: dict[str, Any], log: EventLog, path: Path) -> Directory:
        path.mkdir(parents=True, exist_ok=True)
        (path / EVENTS).unlink(missing_ok=True)
        store = cls(records, head, log, path)
        store._blank("y.npy", store.size)
        if head["forces"]:
            store._blank("tau.npy", store.size - store.nq)
        store.checkpoint()
        # last, since it says that the others are there
        write_text(path / "run.json", json.dumps(head | {"t": head["t"].tolist()}))
        return store

    @classmethod
    def open(cls, path: Path, *, repair: bool = False) -> Directory:
        try:
            head = read_head("run.json", json.loads((path / "run.json").read_text("utf-8")))
            size = np.load(path / "y.npy", mmap_mode="r").shape[2]
            raw = np.load(path / "records.npy", allow_pickle=False)
            head.setdefault("nq", stored_robot(head["robot"]).nq)
            records = as_records(raw, size)
            return cls(records, head, read_log(path, records, head, repair=repair), path)
        except (OSError, ValueError, EOFError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"{path}: not a run under way: {error}") from None

    def _blank(self, name: str, width: int) -> None:
        """A file of nan, written block by block: mapped, all of it would count as memory."""
        shape = (self.count, self.outputs, width)
        with (self.path / name).open("wb") as stream:
            np.lib.format.write_array_header_1_0(
                stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
            rows = np.full((min(self.rows, self.count), *shape[1:]), np.nan)
            for begin in range(0, self.count, self.rows):
                stream.write(rows[:self.count - begin].data)

    def _map(self, name: str, mode: Any = "r+") -> Array:
        return np.load(self.path / name, mmap_mode=mode)

    def states(self) -> Array:
        whole = self._map("y.npy")
        assert isinstance(whole, np.memmap)
        return np.memmap(self.path / "y.npy", np.float64, "r+",
                         whole.offset + self.begin * whole.strides[0],
                         (self.end - self.begin, self.outputs, self.size))

    def checkpoint(self) -> None:
        self.log.save(self.path, self.records)  # before the records that count its rows
        if isinstance(self.out, np.memmap):
            self.out.flush()
        buffer = io.BytesIO()
        np.save(buffer, as_bytes(self.records))
        write_bytes(self.path / "records.npy", buffer.getvalue())

    def finish(self, robot: Robot, forces: Any) -> None:
        if self.head["forces"]:
            whole = self._map("tau.npy")
            whole[self.begin:self.end] = self.forces_of_block(robot, forces)
            del whole
        self.checkpoint()
        self.out = self.out[:0].copy()  # the block's pages are no longer this process's

    def run(self, robot: Robot | None = None, forces: Any = None) -> Run:
        y = self._map("y.npy", "r")
        if self.head["forces"]:
            forces = shaped(self._map("tau.npy", "r"), tuple(self.head["lead"]))
        return self.assemble(y[..., :self.nq], y[..., self.nq:], robot, forces)


class Group(Store):
    """A run in a zarr group, a chunk of every array for each block."""

    def __init__(self, records: Array, head: dict[str, Any], log: EventLog, path: Path,
                 group: Any) -> None:
        super().__init__(records, head, log)
        self.path, self.group = path, group
        self.rows = block_rows(self.outputs, self.size)

    @classmethod
    def create(cls, records: Array, head: dict[str, Any], log: EventLog, path: Path) -> Group:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        group = zarr().open_group(str(temporary), mode="w")
        store = cls(records, head, log, path, group)
        n = store.size - store.nq
        create_arrays(group, {"q": store.nq, head["velocity"]: n}
                      | ({"tau": n} if head["forces"] else {}), head["t"], store.count, store.rows)
        log.save(temporary, records)
        raw = as_bytes(records)
        group.create_array("records", shape=raw.shape, dtype=raw.dtype,
                           chunks=(max(1, min(store.rows, store.count)), raw.shape[1]))
        group["records"][...] = raw
        group.attrs.update({k: v for k, v in head.items() if k != "t"})
        os.replace(temporary, path)
        store.group = zarr().open_group(str(path), mode="r+")
        return store

    @classmethod
    def open(cls, path: Path, mode: str = "r") -> Group:
        group = zarr().open_group(str(path), mode=mode)
        head = read_head("the group", dict(group.attrs) | {"t": group["t"][...]})
        size = group["q"].shape[2] + group[head["velocity"]].shape[2]
        records = as_records(group["records"][...], size)
        log = read_log(path, records, head, repair=mode != "r")
        return cls(records, head, log, path, group)

    def states(self) -> Array:
        rows = slice(self.begin, self.end)
        return np.concatenate([self.group["q"][rows], self.group[self.head["velocity"]][rows]],
                              axis=-1)

    def checkpoint(self) -> None:
        if self.end == self.begin:
            return
        self.log.save(self.path, self.records)
        rows = slice(self.begin, self.end)
        self.group["q"][rows] = self.out[..., :self.nq]
        self.group[self.head["velocity"]][rows] = self.out[..., self.nq:]
        self.group["records"][rows] = as_bytes(self.records[rows])

    def finish(self, robot: Robot, forces: Any) -> None:
        if self.head["forces"]:
            self.group["tau"][self.begin:self.end] = self.forces_of_block(robot, forces)
        self.checkpoint()
        self.begin, self.end, self.out = 0, 0, self.out[:0].copy()

    def close(self) -> None:
        write_summary(self.group, self.run())

    def run(self, robot: Robot | None = None, forces: Any = None) -> Run:
        if self.head["forces"]:
            forces = shaped(self.group["tau"], tuple(self.head["lead"]))
        return self.assemble(self.group["q"], self.group[self.head["velocity"]], robot, forces)


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


def read_head(where: str, head: dict[str, Any]) -> dict[str, Any]:
    """What a file says of its run, with what older versions left out."""
    missing = [key for key in HEAD if key not in head]
    if missing:
        raise ValueError(f"{where} has no {', '.join(missing)}")
    return {"velocity": "qd", "vary": None, "forces": False, "events": ()} | head


def shaped(x: Any, lead: tuple[int, ...]) -> Any:
    """Rows of trajectories in the ensemble's shape. Zarr arrays stay on disk if they can."""
    if len(lead) == 1:
        return x
    return np.asarray(x[...]).reshape(*lead, *x.shape[1:])


def stored_robot(text: str) -> Robot:
    from nlink.robot import Robot

    return Robot(parse_toml(text, physical="ignore"))


def as_bytes(records: Array) -> Array:
    return records.view(np.uint8).reshape(len(records), records.itemsize)


def as_records(raw: Array, size: int) -> Array:
    memory = raw.shape[1] // 8 - record_type(size).itemsize // 8
    return np.ascontiguousarray(raw).view(record_type(size, memory)).ravel()


def read_log(path: Path, records: Array, head: dict[str, Any], *, repair: bool) -> EventLog:
    """The events a run under way has recorded."""
    log = EventLog(len(records), records["y"].shape[1], len(head["events"]))
    log.read(path, records, repair=repair)
    return log


def create(records: Array, head: dict[str, Any], path: Path | None, log: EventLog) -> Store:
    """A new store, or the one at `path` if it holds the same run."""
    log.collect(records)
    if path is None:
        return Store(records, head, log)
    grouped = path.suffix == ".zarr"
    if not (path if grouped else path / "run.json").exists():
        return (Group if grouped else Directory).create(records, head, log, path)
    try:
        store = Group.open(path, "r+") if grouped else Directory.open(path, repair=True)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"save: {path} is there and no run under way; remove it or choose "
                         "another name") from None
    if store.head["digest"] != head["digest"]:
        raise ValueError(f"save: {path} holds another run; remove it or choose another name")
    if store.head.get("source") != head["source"]:
        raise ValueError(f"save: {path} holds this run by another version of nlink, whose numbers "
                         "may differ; remove it or choose another name")
    return store


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
