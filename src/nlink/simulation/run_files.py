"""Runs from and to disk: .npz and .zarr files of finished runs, and what a `RunStore` has."""

from __future__ import annotations

import errno
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.files import file_kind, replacing
from nlink.robot import Robot
from nlink.scalars.misuse import tell
from nlink.simulation.events import Events, events_of
from nlink.simulation.run import Run, Stats
from nlink.simulation.variation import Variation
from nlink.storage.array_store import DirectoryArrays, ZarrArrays, check_array, open_group
from nlink.storage.checks import check_status, refused
from nlink.storage.locking import one_writer
from nlink.storage.run_store import RunStore, block_rows, open_store, shaped, stored_robot

FORMAT = 1
PART = ".part"
"""The suffix of a file that is still being computed."""
_EVENTS = ("trajectory", "t", "which", "q", "qd")
"""The arrays of events in a file."""


def run_of(store: RunStore, robot: Robot | None = None, forces: Any = None) -> Run:
    """The run of a store as it stands; of a given robot, under given forces if it keeps none."""
    head, records, lead = store.head, store.records, tuple(store.head["lead"])
    columns, tau = store.known()
    columns = {name.removeprefix("part_"): shaped(x, lead) for name, x in columns.items()}
    robot = robot or stored_robot(head["robot"])
    variation = None
    if head["vary"]:
        width = sum(width for _, width in head["vary"]["columns"])
        variation = Variation.from_head(head["vary"], records["own"].reshape(*lead, width))
    return Run(robot, np.array(head["t"]), columns.pop("q"), columns.pop(head["velocity"]),
               records["status"].reshape(lead), records["t"].reshape(lead),
               Stats.of(store.statistics(), lead),
               head["method"], head["velocity"], forces if tau is None else shaped(tau, lead),
               variation, events_of(store.log, robot, head["events"], head["velocity"], variation,
                                    dict(head["parts"])),
               head["closing"], columns, wrenches=head.get("wrenches", False),
               moved_loops=head.get("moved_loops", False))


def finish_block(store: RunStore, robot: Robot, forces: Any) -> None:
    """The block at hand is done; `forces` are its `Run.forces`."""
    store.finish(run_of(store.alone(), robot, forces).tau if store.keeps_forces else None)


def save_run(run: Run, path: Path) -> Path:
    """Write a run where nobody else is writing."""
    if path.suffix not in (".npz", ".zarr"):
        raise ValueError(f"path: {str(path)!r} has the suffix {path.suffix!r}, "
                         "expected .npz or .zarr")
    if path.suffix == ".zarr":
        path.parent.mkdir(parents=True, exist_ok=True)
    with one_writer(path):
        return write_run(run, path)


def write_run(run: Run, path: Path) -> Path:
    """Write a run, as its only writer."""
    check_replaceable(path)
    head = {"format": FORMAT, "method": run.method, "robot": run.robot.to_toml(),
            "vary": None if run.variation is None else run.variation.head(),
            "closing": run.closing, "parts": list(run.parts)} | (
                {"wrenches": True} if run.wrenches else {}) | (
                {"moved_loops": True} if run.moved_loops else {})
    if run.log is not None:
        head["events"] = list(run.log.names)
    if path.suffix == ".zarr":
        return _save_zarr(run, path, head)
    # files have float64, whatever states were given in
    q, qd, tau = (np.asarray(x, float) for x in (run.q, run.qd, run.tau))
    arrays = {"t": run.t, "q": q, "qd": qd, "tau": tau, "status": run.status_codes,
              "t_end": run.t_end}
    arrays |= {name: np.asarray(value) for name, value in run.stats.by_name().items()}
    arrays |= {f"part_{name}": np.asarray(values, float) for name, values in run.parts.items()}
    if run.variation is not None:
        arrays["vary"] = run.variation.values
    if run.desired is not None:
        arrays["desired"] = run.desired
    arrays |= _event_arrays(run)
    with replacing(path) as stream:
        np.savez(stream, head=np.array(json.dumps(head)), **arrays)  # type: ignore[arg-type]
    return path


def _event_arrays(run: Run) -> dict[str, np.ndarray]:
    return {} if run.log is None else {
        f"events_{name}": getattr(run.log, name) for name in _EVENTS}


def _save_zarr(run: Run, path: Path, head: dict[str, Any]) -> Path:
    """Piece by piece."""
    arrays, n, count = ZarrArrays.begin(path), run.robot.n, run.status_codes.size
    widths = {"q": run.robot.nq, "qd": n, "tau": n} | {
        f"part_{name}": values.shape[-1] for name, values in run.parts.items()}
    rows = block_rows(len(run.t), sum(widths.values()) - n)
    for name, width in widths.items():
        arrays.add(name, count, len(run.t), width, rows)
    begin = 0
    for piece in run.pieces():
        rows = slice(begin, begin + len(piece.status_codes))
        for name in ("q", "qd", "tau"):
            arrays.write(name, rows, getattr(piece, name))
        for name, values in piece.parts.items():
            arrays.write(f"part_{name}", rows, values)
        begin = rows.stop
    columns = {"status": run.status_codes, "t_end": run.t_end} | run.stats.by_name()
    arrays.put(**{name: np.reshape(values, -1) for name, values in columns.items()},
               **_event_arrays(run))
    if run.variation is not None:
        arrays.put(vary=run.variation.taken(slice(None)).values)
    if run.desired is not None:
        arrays.put(desired=run.desired)
    arrays.publish(head | {"t": run.t, "lead": run.status_codes.shape}, replacing=True)
    return path


def check_replaceable(path: Path, argument: str = "path") -> None:
    """Refuse to put a file or a group where there is something else than a run."""
    if not os.path.lexists(path):
        return
    mode, group = path.lstat().st_mode, path.suffix == ".zarr"
    if not (stat.S_ISDIR(mode) if group else stat.S_ISREG(mode)):
        raise ValueError(f"{argument}: {path} is {file_kind(mode)}, expected a new name or that of "
                         "a run")
    if not (any(path.iterdir()) if group else path.stat().st_size):
        return
    try:
        if group:
            run = {"robot", "method", "lead"} <= set(open_group(path, "r").attrs)
        else:
            with zipfile.ZipFile(path) as archive:
                run = {"head.npy", "t.npy", "q.npy"} <= set(archive.namelist())
    except ImportError:
        raise
    except Exception:  # readers raise anything if a file holds something else
        run = False
    if not run:
        raise ValueError(f"{argument}: {path} holds something else than a run, expected a new name "
                         "or that of a run")


def load_run(path: str | Path) -> Run:
    """A run from a file that `Run.save` wrote, or from what `simulate(save=...)` left so far.

    >>> import nlink, tempfile
    >>> path = tempfile.mkdtemp() + "/fall.npz"
    >>> _ = nlink.simulate(nlink.load("double_pendulum"), t=0.1).save(path)
    >>> nlink.load_run(path).status
    'done'
    """
    path = Path(path)
    part = path.with_name(path.name + PART)
    if path.is_dir() and path.suffix != ".zarr":
        return run_of(open_store(DirectoryArrays, path))
    if not path.exists():
        if part.is_dir():
            return run_of(open_store(DirectoryArrays, part))
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if part.is_dir():
        tell(f"{path} is a finished run; an interrupted one of the same name is in {part}, which "
             "load_run reads as well")
    with refused(f"{path}: not a run that nlink wrote"):
        return _read_zarr(path) if path.is_dir() else _read_npz(path)


def _read_npz(path: Path) -> Run:
    if not path.is_file():
        raise ValueError(f"it is {file_kind(path.stat().st_mode)}, expected a file")
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files}
    return _assemble(json.loads(str(arrays.pop("head"))), arrays)


def _read_zarr(path: Path) -> Run:
    group = open_group(path, "r")
    if "records" in group:
        return run_of(open_store(ZarrArrays, path))
    head = dict(group.attrs)
    lead = tuple(head["lead"])
    whole = ["q", "qd", "tau", *(f"part_{name}" for name in head.get("parts", ()))]
    arrays = {name: group[name][...] for name in group if name not in whole}
    arrays |= {name: x.reshape((*lead, *x.shape[1:])) for name, x in arrays.items()
               if name not in ("t", "desired") and not name.startswith("events_")}
    arrays |= {name: shaped(group[name], lead) for name in whole}
    return _assemble(head, arrays)


def _assemble(head: dict[str, Any], arrays: dict[str, Any]) -> Run:
    if head.get("format") != FORMAT:
        raise ValueError(f"the run has format {head.get('format')!r}, expected {FORMAT}")
    robot, codes = stored_robot(head["robot"]), check_status(arrays["status"])
    for name, width in (("q", robot.nq), ("qd", robot.n), ("tau", robot.n)):
        check_array(name, arrays[name], (*codes.shape, len(arrays["t"]), width))
    parts = {str(name): arrays[f"part_{name}"] for name in head.get("parts", ())}
    for name, values in parts.items():
        check_array(name, values, (*codes.shape, len(arrays["t"]), *values.shape[-1:]))
    stats = Stats.of(arrays, codes.shape)
    varied = head.get("vary")
    log = Events(tuple(head["events"]), *(arrays[f"events_{name}"] for name in _EVENTS)
                 ) if head.get("events") else None
    return Run(robot, arrays["t"], arrays["q"], arrays["qd"], codes, arrays["t_end"],
               stats, head["method"], forces=arrays["tau"],
               variation=Variation.from_head(varied, arrays["vary"]) if varied else None, log=log,
               closing=head.get("closing", "project"), parts=parts,
               wrenches=bool(head.get("wrenches", False)),
               moved_loops=bool(head.get("moved_loops", False)),
               target=_desired(arrays, robot))


def _desired(arrays: dict[str, Any], robot: Robot) -> np.ndarray | None:
    """The desired trajectory, if the file has it."""
    if "desired" not in arrays:
        return None
    check_array("desired", arrays["desired"], (len(arrays["t"]), robot.nq))
    return arrays["desired"]
