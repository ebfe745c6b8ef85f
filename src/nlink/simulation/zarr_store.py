"""A run under way in a zarr group: attributes for what is computed, arrays of states, joint forces
and records, and how each trajectory went when it is done."""

from __future__ import annotations

import os
import secrets
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from nlink.formats.files import name_beside
from nlink.robot import Robot
from nlink.simulation import checks
from nlink.simulation.event_log import EventLog
from nlink.simulation.run import Run
from nlink.simulation.store import SavedStore, check_array, checked_head, read_records, shaped

Array = np.ndarray


class ZarrStore(SavedStore):
    """A run in a zarr group, a chunk of every array for each block."""

    group: Any

    @classmethod
    def create(cls, records: Array, head: dict[str, Any], log: EventLog, path: Path) -> ZarrStore:
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
             repair: bool = False) -> ZarrStore:
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
