"""Runs on disk: .npz and .zarr files of finished runs, and directories of runs under way.

A directory holds `run.json` (what is computed), `y.npy` (the states, written in place by
the kernel) and `records.npy` (where each trajectory stands, replaced atomically). What was
written after the records were is computed again on resuming, to the same bits, so a run
that is killed at any moment loses seconds and changes nothing.
"""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.compiler.integrator import record_type
from nlink.formats.dh import parse_toml
from nlink.formats.files import write_bytes, write_text
from nlink.simulation.event_log import EventLog
from nlink.simulation.events import Events
from nlink.simulation.run import Run, Stats

if TYPE_CHECKING:
    from nlink.robot import Robot

FORMAT = 1
PART = ".part"
"""What is appended to the name of an .npz file while it is being computed."""
_BROKEN = (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile,
           zlib.error)
"""What readers of files raise that are cut off or hold something else."""
_HEAD = ("robot", "digest", "lead", "t", "start", "evaluations", "stages", "method", "velocity")
"""What `run.json` says."""
_EVENTS = ("trajectory", "t", "which", "q", "qd")
"""What a file has of events."""


def save_run(run: Run, path: Path) -> Path:
    if path.suffix not in (".npz", ".zarr"):
        raise ValueError(f"path: {str(path)!r} has the suffix {path.suffix!r}, "
                         "expected .npz or .zarr")
    arrays = {"t": run.t, "q": run.q, "qd": run.qd, "tau": run.tau,
              "status": run.status_codes, "t_end": run.t_end}
    arrays |= {name: np.asarray(value) for name, value in asdict(run.stats).items()}
    head = {"format": FORMAT, "method": run.method, "robot": run.robot.to_toml()}
    if run.log is not None:
        head["events"] = list(run.log.names)
        arrays |= {f"events_{name}": getattr(run.log, name) for name in _EVENTS}
    if path.suffix == ".zarr":
        zarr = _zarr()
        group = zarr.open_group(str(path), mode="w")
        group.attrs.update(head)
        for name, value in arrays.items():
            group.create_array(name, data=np.ascontiguousarray(value))
        return path
    buffer = io.BytesIO()
    np.savez(buffer, head=np.array(json.dumps(head)), **arrays)  # type: ignore[arg-type]
    write_bytes(path, buffer.getvalue())
    return path


def load_run(path: str | Path) -> Run:
    """A run from a file that `Run.save` wrote, or from what `simulate(save=...)` left so far."""
    path = Path(path)
    part = path.with_name(path.name + PART)
    if path.is_dir() and path.suffix != ".zarr":
        return Store.open(path).run()
    if not path.exists():
        if part.is_dir():
            return Store.open(part).run()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    try:
        return _assemble(*(_read_zarr(path) if path.is_dir() else _read_npz(path)))
    except KeyError as error:
        raise ValueError(f"{path}: not a run that nlink wrote: no {error}") from None
    except _BROKEN as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: not a run that nlink wrote: {reason}") from None


def _read_npz(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files}
    return json.loads(str(arrays.pop("head"))), arrays


def _read_zarr(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    group = _zarr().open_group(str(path), mode="r")
    return dict(group.attrs), {name: group[name][...] for name in group}


def _assemble(head: dict[str, Any], arrays: dict[str, np.ndarray]) -> Run:
    if head.get("format") != FORMAT:
        raise ValueError(f"the run has format {head.get('format')!r}, expected {FORMAT}")
    stats = Stats(*(arrays[name][()] for name in ("steps", "rejects", "evaluations")))
    log = Events(tuple(head["events"]), *(arrays[f"events_{name}"] for name in _EVENTS)
                 ) if head.get("events") else None
    return Run(_robot(head["robot"]), arrays["t"], arrays["q"], arrays["qd"],
               arrays["status"], arrays["t_end"], stats, head["method"], forces=arrays["tau"],
               log=log)


def _robot(text: str) -> Robot:
    from nlink.robot import Robot

    return Robot(parse_toml(text, physical="ignore"))


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise ImportError(".zarr files need zarr: pip install nlink[sim]") from None
    return zarr


def to_xarray(run: Run) -> Any:
    """q, qd, tau and energy with dimensions named time, coordinate, rate and ensemble axes."""
    try:
        import xarray
    except ImportError:
        raise ImportError("to_xarray needs xarray: pip install nlink[sim]") from None
    lead = [f"ensemble_{k}" for k in range(run.status_codes.ndim)]
    if len(lead) == 1:
        lead = ["ensemble"]
    rate = [f"qd_{k + 1}" for k in range(run.robot.n)]
    return xarray.Dataset(
        {"q": ([*lead, "time", "coordinate"], run.q), "qd": ([*lead, "time", "rate"], run.qd),
         "tau": ([*lead, "time", "rate"], run.tau), "energy": ([*lead, "time"], run.energy),
         "status": (lead, np.asarray(run.status_codes))},
        coords={"time": run.t, "rate": rate,
                "coordinate": [f"q_{k + 1}" for k in range(run.robot.nq)]},
        attrs={"robot": run.robot.name, "method": run.method})


class Store:
    """A run under way, in memory or in a directory."""

    def __init__(self, records: np.ndarray, out: np.ndarray, head: dict[str, Any],
                 path: Path | None, log: EventLog) -> None:
        self.records, self.out, self.head, self.path, self.log = records, out, head, path, log

    @classmethod
    def create(cls, records: np.ndarray, times: np.ndarray, head: dict[str, Any],
               path: Path | None, log: EventLog) -> Store:
        """A new store, or the one at `path` if it holds the same run."""
        shape = (len(records), len(times), records["y"].shape[1])
        if path is None:
            out = np.empty(shape)
        else:
            if (path / "run.json").exists():
                return cls._resumed(path, head)
            path.mkdir(parents=True, exist_ok=True)
            out = np.lib.format.open_memmap(path / "y.npy", "w+", np.float64, shape)
        out[:] = np.nan
        out[:, 0] = records["y"]
        log.collect(records)
        store = cls(records, out, head, path, log)
        store.checkpoint()
        if path is not None:  # last, since it says that the others are there
            write_text(path / "run.json", json.dumps(head | {"t": times.tolist()}))
        return store

    @classmethod
    def _resumed(cls, path: Path, head: dict[str, Any]) -> Store:
        store = cls.open(path, "r+")
        if store.head["digest"] != head["digest"]:
            raise ValueError(f"save: {path} holds another run; remove it or choose another name")
        return store

    @classmethod
    def open(cls, path: Path, mode: str = "r") -> Store:
        try:
            head = json.loads((path / "run.json").read_text("utf-8"))
            out = np.load(path / "y.npy", mmap_mode=mode)  # type: ignore[arg-type]
            raw = np.load(path / "records.npy", allow_pickle=False)
            missing = [key for key in _HEAD if key not in head]
            if missing:
                raise ValueError(f"run.json has no {', '.join(missing)}")
            memory = raw.shape[1] // 8 - record_type(out.shape[2]).itemsize // 8
            records = raw.view(record_type(out.shape[2], memory)).ravel()
        except (*_BROKEN, IndexError) as error:
            raise ValueError(f"{path}: not a run under way: {error}") from None
        log = EventLog(len(records), out.shape[2], len(head.get("events", ())))
        log.read(path, records, repair=mode != "r")
        return cls(records, out, head, path, log)

    def checkpoint(self) -> None:
        """Make what has been computed so far permanent."""
        if self.path is None:
            return
        self.log.save(self.path, self.records)  # before the records that count its rows
        if isinstance(self.out, np.memmap):
            self.out.flush()
        buffer = io.BytesIO()
        np.save(buffer, self.records.view(np.uint8).reshape(len(self.records), -1))
        write_bytes(self.path / "records.npy", buffer.getvalue())

    def run(self, robot: Robot | None = None, forces: Any = None) -> Run:
        """The run as it stands."""
        head, records = self.head, self.records
        robot = robot or _robot(head["robot"])
        lead = tuple(head["lead"])
        q = self.out[..., :robot.nq].reshape(*lead, -1, robot.nq)
        rates = self.out[..., robot.nq:].reshape(*lead, -1, robot.n)
        steps, rejects, sweeps = (records[name].reshape(lead)[()]
                                  for name in ("steps", "rejects", "sweeps"))
        evaluations = (head["start"] + (steps + rejects) * head["evaluations"]
                       + sweeps * head["stages"])
        times = np.array(head["t"]) if isinstance(head["t"], list) else head["t"]
        return Run(robot, times, q, rates, records["status"].reshape(lead),
                   records["t"].reshape(lead), Stats(steps, rejects, evaluations),
                   head["method"], head["velocity"], forces,
                   self.log.events(robot, head.get("events", ()), head["velocity"]))
