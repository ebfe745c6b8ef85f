"""Runs on disk: .npz and .zarr files of finished runs; see `store` for runs under way."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.files import name_beside, replacing
from nlink.robot import Robot
from nlink.simulation import checks, store, zarr_store
from nlink.simulation.directory_store import DirectoryStore
from nlink.simulation.events import Events
from nlink.simulation.resuming import open_store
from nlink.simulation.run import Run, Stats
from nlink.simulation.variation import Variation
from nlink.simulation.writing import one_writer

FORMAT = 1
PART = ".part"
"""What is appended to the name of a file while it is being computed."""
_EVENTS = ("trajectory", "t", "which", "q", "qd")
"""What a file has of events."""


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
    head = {"format": FORMAT, "method": run.method, "robot": run.robot.to_toml(),
            "vary": None if run.variation is None else run.variation.head(),
            "closing": run.closing, "parts": list(run.parts)}
    if run.log is not None:
        head["events"] = list(run.log.names)
    if path.suffix == ".zarr":
        return _save_zarr(run, path, head)
    arrays = {"t": run.t, "q": run.q, "qd": run.qd, "tau": run.tau,
              "status": run.status_codes, "t_end": run.t_end}
    arrays |= {name: np.asarray(value) for name, value in asdict(run.stats).items()}
    arrays |= {f"part_{name}": np.asarray(values) for name, values in run.parts.items()}
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
    """Piece by piece into a group beside the place, which it then takes."""
    temporary = name_beside(path, f"{secrets.token_hex(8)}.tmp")
    group = zarr_store.zarr().open_group(str(temporary), mode="w")
    n, count = run.robot.n, run.status_codes.size
    widths = {"q": run.robot.nq, "qd": n, "tau": n} | {
        f"part_{name}": values.shape[-1] for name, values in run.parts.items()}
    zarr_store.create_arrays(group, widths, run.t, count,
                             store.block_rows(len(run.t), sum(widths.values()) - n))
    begin = 0
    for piece in run.pieces():
        rows = slice(begin, begin + len(piece.status_codes))
        for name in ("q", "qd", "tau"):
            group[name][rows] = getattr(piece, name)
        for name, values in piece.parts.items():
            group[f"part_{name}"][rows] = values
        begin = rows.stop
    zarr_store.write_summary(group, run)
    if run.desired is not None:
        group.create_array("desired", data=np.ascontiguousarray(run.desired))
    for name, values in _event_arrays(run).items():
        group.create_array(name, data=np.ascontiguousarray(values))
    group.attrs.update(head | {"lead": run.status_codes.shape})
    if path.exists():
        shutil.rmtree(path)
    os.replace(temporary, path)
    return path


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
        return open_store(DirectoryStore, path).run()
    if not path.exists():
        if part.is_dir():
            return open_store(DirectoryStore, part).run()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if part.is_dir():
        warnings.warn(f"{path} is a finished run; an interrupted one of the same name is in "
                      f"{part}, which load_run reads as well", stacklevel=2)
    try:
        return _read_zarr(path) if path.is_dir() else _read_npz(path)
    except ImportError:
        raise
    except Exception as error:  # readers raise anything if a file holds something else
        raise ValueError(f"{path}: not a run that nlink wrote: {store.reason(error)}") from None


def _read_npz(path: Path) -> Run:
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files}
    return _assemble(json.loads(str(arrays.pop("head"))), arrays)


def _read_zarr(path: Path) -> Run:
    group = zarr_store.zarr().open_group(str(path), mode="r")
    if "records" in group:
        return open_store(zarr_store.ZarrStore, path).run()
    head = dict(group.attrs)
    lead = tuple(head["lead"])
    whole = ["q", "qd", "tau", *(f"part_{name}" for name in head.get("parts", ()))]
    arrays = {name: group[name][...] for name in group if name not in whole}
    arrays |= {name: x.reshape((*lead, *x.shape[1:])) for name, x in arrays.items()
               if name not in ("t", "desired") and not name.startswith("events_")}
    arrays |= {name: store.shaped(group[name], lead) for name in whole}
    return _assemble(head, arrays)


def _assemble(head: dict[str, Any], arrays: dict[str, Any]) -> Run:
    if head.get("format") != FORMAT:
        raise ValueError(f"the run has format {head.get('format')!r}, expected {FORMAT}")
    robot, codes = store.stored_robot(head["robot"]), checks.check_status(arrays["status"])
    for name, width in (("q", robot.nq), ("qd", robot.n), ("tau", robot.n)):
        store.check_array(name, arrays[name], (*codes.shape, len(arrays["t"]), width))
    parts = {str(name): arrays[f"part_{name}"] for name in head.get("parts", ())}
    for name, values in parts.items():
        store.check_array(name, values, (*codes.shape, len(arrays["t"]), *values.shape[-1:]))
    stats = Stats(*(arrays[name][()] for name in ("steps", "rejects", "evaluations")))
    varied = head.get("vary")
    log = Events(tuple(head["events"]), *(arrays[f"events_{name}"] for name in _EVENTS)
                 ) if head.get("events") else None
    return Run(robot, arrays["t"], arrays["q"], arrays["qd"], codes, arrays["t_end"],
               stats, head["method"], forces=arrays["tau"],
               variation=Variation.from_head(varied, arrays["vary"]) if varied else None, log=log,
               closing=head.get("closing", "project"), parts=parts,
               target=_desired(arrays, robot))


def _desired(arrays: dict[str, Any], robot: Robot) -> np.ndarray | None:
    """What was to be followed, of files that have it."""
    if "desired" not in arrays:
        return None
    store.check_array("desired", arrays["desired"], (len(arrays["t"]), robot.nq))
    return arrays["desired"]
