"""The store of a run: a new one, or the one that holds the same run and is gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nlink.simulation import checks
from nlink.simulation.directory_store import DirectoryStore
from nlink.simulation.event_log import EventLog
from nlink.simulation.store import Store, reason
from nlink.simulation.zarr_store import ZarrStore

Array = np.ndarray


def create(records: Array, head: dict[str, Any], path: Path | None, log: EventLog) -> Store:
    """A new store, or the one at `path` if it holds the same run."""
    log.collect(records)
    if path is None:
        return Store(records, head, log)
    kind = ZarrStore if path.suffix == ".zarr" else DirectoryStore
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


def open_store(kind: type[DirectoryStore] | type[ZarrStore], path: Path,
               ) -> DirectoryStore | ZarrStore:
    """The run under way at `path`, to be read."""
    try:
        return kind.open(path, kind.read_head(path))
    except ImportError:
        raise
    except Exception as error:  # readers raise anything if a file holds something else
        raise ValueError(f"{path}: not a run under way: {reason(error)}") from None
