"""The store of a sweep: a zarr group of format 3, local or at any fsspec address.

Its attributes say which study it holds, `chunks/N.json` that chunk N is done. A chunk of the
study is a whole chunk of every array, written by one task, and each file replaces the one
before in one step; the marker is written last. So a task that is killed leaves no marker, and
who does it again writes the same bytes. The set of markers is the manifest.

The first file that is written says which study it is, in one step, and the last change says that
the store is complete. So a client that is killed at any moment while it makes a store leaves
nothing, or a store that the same call makes complete. Nothing that a store says of
itself is believed: it is compared with the study, or with its arrays.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np

from nlink.formats.files import write_bytes
from nlink.storage.array_store import open_group, remove_partial
from nlink.storage.checks import bytes_sum, reason, refused
from nlink.studies.study import StoredArray, Study

Array = np.ndarray
MARKERS = "chunks"
FORMAT = 1
LONGEST_MARKER = 2**20
"""Bytes of a marker, at most."""


class SweepStore:
    """A store by its path or address."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ImportError("sweeps need fsspec: pip install nlink[scale]") from None
        try:
            self.files, self.root = url_to_fs(self.path)
        except (ValueError, ImportError) as error:
            raise ValueError(f"out: {self.path!r}: {error}, expected a path or an address that "
                             "fsspec knows") from None
        self.local = "://" not in self.path or self.path.startswith(("file://", "local://"))

    def group(self, mode: str = "r", **more: Any) -> Any:
        return open_group(self.root if self.local else self.path, mode, local=self.local, **more)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the store; ValueError if it is no store of a sweep."""
        found = None
        with refused(f"{self.path}: not the store of a sweep"), suppress(FileNotFoundError):
            found = dict(self.group().attrs)
        if found is None:
            raise ValueError(f"{self.path}: no such store of a sweep")
        if found.get("nlink_sweep") != FORMAT:
            raise ValueError(f"{self.path}: not the store of a sweep that this version of nlink "
                             "reads")
        return found

    def prepare(self, study: Study, *, verify: bool = False) -> None:
        """Make the store, or refuse one that holds something else; `verify` also makes what has
        gone from one that was complete."""
        if self.local and os.path.islink(self.root):
            raise ValueError(f"out: {self.path} is a link, expected a name of its own")
        if self._begun():
            try:
                found = self.attributes
            except ValueError:
                raise ValueError(f"out: {self.path} holds something else than a sweep; remove it "
                                 "or choose another name") from None
            if found.get("study") != study.digest:
                raise ValueError(f"out: {self.path} holds another study; remove it or choose "
                                 "another name")
            if found.get("source") != study.source:
                raise ValueError(f"out: {self.path} holds this study by another version of nlink, "
                                 "whose numbers may differ; remove it or choose another name")
            if found.get("complete"):
                gone = self._missing(study)
                if not gone:
                    return
                if not verify:
                    raise ValueError(f"out: {self.path} has no {', '.join(gone)} any more; "
                                     "verify=True computes again what is missing")
        try:
            self._create(study)
        except (IsADirectoryError, NotADirectoryError) as error:  # where a file should be made
            raise ValueError(f"out: {self.path} is damaged: {reason(error)}; remove it or choose "
                             "another name") from None

    def _begun(self) -> bool:
        """Whether there is anything but what zarr left of a first file that it did not finish."""
        if not self.files.exists(self.root):
            return False
        names = [name.rpartition("/")[2] for name in self.files.ls(self.root, detail=False)]
        return not all(name.startswith("zarr.") and name.endswith(".partial") for name in names)

    def _missing(self, study: Study) -> list[str]:
        """The names of arrays that are missing, and of the directory of markers if that is. Arrays
        of another study are refused."""
        with refused(f"out: {self.path} is damaged", "; remove it or choose another name"):
            group = self.group()
            gone = [] if MARKERS in group else [MARKERS]
            for array in study.arrays():
                if array.name not in group:
                    gone.append(array.name)
                    continue
                made, (shape, chunks) = group[array.name], self._extent(study, array)
                if made.shape != shape or made.chunks != chunks or made.dtype != array.dtype:
                    raise ValueError(
                        f"{array.name}: {made.dtype} of shape {made.shape} in chunks of "
                        f"{made.chunks}, expected {array.dtype} of {shape} in chunks of {chunks}")
        return gone

    def _create(self, study: Study) -> None:
        """All arrays, not one chunk; `complete` is said last. Nothing is removed, so that another
        client may make the same store at the same time, or have done so."""
        group = self.group("a", attributes={
            "nlink_sweep": FORMAT, "study": study.digest, "source": study.source})
        group.require_group(MARKERS)
        for array in study.arrays():
            shape, chunks = self._extent(study, array)
            _make_array(
                group, array.name, shape=shape, chunks=chunks, dtype=array.dtype,
                fill_value=array.fill, compressors=None, attributes={"units": array.units}
                if array.units else {}, dimension_names=(*array.axes, *(
                    name for name, _ in array.further)))
        labels = {} if study.final else {"time": study.times}
        if study.sample == "grid":
            labels |= {name: study.values(name) for name in study.varied}
        for name, values in labels.items():
            several = values.ndim > 1 and values.shape[1] > 1
            data = np.ascontiguousarray(values if several else values.reshape(-1))
            _make_array(
                group, f"{name}_values" if several else name, shape=data.shape, dtype=data.dtype,
                dimension_names=(name, f"{name}_number") if several else (name,))[...] = data
        group.update_attributes({  # in one step, unlike group.attrs.update
            "labels": study.labels(), "robots": dict(study.robots), "axes": list(study.axes),
            "shape": list(study.shape), "chunk_shape": list(study.chunk_shape),
            "sample": study.sample, "seed": study.seed, "t": [float(study.times[0]),
                                                              float(study.times[-1])],
            "options": {name: str(x) for name, x in study.options.items()},
            "reproducible": study.reproducible, "complete": True})

    @staticmethod
    def _extent(study: Study, array: StoredArray) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and chunks: those of the study, and all of what is further."""
        further = tuple(size for _, size in array.further)
        k = len(study.axes) - len(array.axes)
        return (*study.shape[k:], *further), (*study.chunk_shape[k:], *further)

    def write_chunk(self, study: Study, chunk: int, arrays: Mapping[str, Array]) -> None:
        """Write whole chunks of arrays, each file in one step."""
        region = study.region(chunk)
        for array in study.arrays():
            if array.name in arrays:
                where = region[len(region) - len(array.axes):]
                _array(self.path, study.digest, array.name)[where] = arrays[array.name]

    def mark(self, chunk: int, marker: Mapping[str, Any]) -> None:
        """Say that a chunk is done: last, and in one step."""
        data = json.dumps(marker).encode()
        name = f"{self.root}/{MARKERS}/{chunk}.json"
        if self.local:
            self._check_markers()
            write_bytes(name, data)
        else:
            self.files.pipe_file(name, data)

    def markers(self, digest: str, chunks: int) -> dict[int, dict[str, Any]]:
        """The markers of finished chunks, by their numbers, of a study of so many chunks. A file
        that is not regular, or no marker of this study, counts as nothing."""
        self.files.invalidate_cache()
        self._check_markers()
        try:
            entries = self.files.ls(f"{self.root}/{MARKERS}", detail=True)
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(f"{self.path} has no {MARKERS} any more, expected those of a sweep; "
                             "the same sweep with verify=True makes them") from None
        numbers = {entry["name"]: number for entry in entries
                   if entry["type"] == "file" and not entry.get("islink")
                   and entry["size"] <= LONGEST_MARKER
                   and (number := _chunk_number(entry["name"])) is not None and number < chunks}
        found = {}
        contents = self.files.cat(list(numbers), on_error="return") if numbers else {}
        for name, data in contents.items():
            with suppress(ValueError, TypeError, RecursionError):
                marker = json.loads(data)
                if is_marker(marker, digest, numbers[name]):
                    found[numbers[name]] = marker
        return dict(sorted(found.items()))

    def _check_markers(self) -> None:
        """Refuse to read and write markers elsewhere."""
        if self.local and os.path.islink(f"{self.root}/{MARKERS}"):
            raise ValueError(f"{self.path}: {MARKERS} is a link, expected a directory")

    def unmark(self, chunk: int) -> None:
        """Say that a chunk is not done."""
        self.files.rm_file(f"{self.root}/{MARKERS}/{chunk}.json")

    def damaged(self, study: Study, markers: Mapping[int, Mapping[str, Any]]) -> list[int]:
        """Chunks whose numbers are not those that were written, or cannot be read; all are read."""
        group = self.group()
        wrong = []
        for chunk, marker in markers.items():
            region = study.region(chunk)
            arrays = {}
            with suppress(Exception):  # readers raise anything if a file is too short or too long
                for array in study.arrays():
                    if array.axes == study.axes or region[0].start == 0:
                        arrays[array.name] = np.ascontiguousarray(
                            group[array.name][region[len(region) - len(array.axes):]])
            if bytes_sum(arrays) != marker["sum"]:
                wrong.append(chunk)
        return wrong

    def tidy(self) -> None:
        """Remove what writers that were killed left: when all chunks are done."""
        if self.local:
            remove_partial(self.root)


@lru_cache(64)
def _array(path: str, _digest: str, name: str) -> Any:
    """An array of a store, to be written: what is said of it never changes."""
    try:
        return SweepStore(path).group("r+")[name]
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such store on {gethostname()}, expected a directory "
                                "or an address that all workers reach") from None


def _chunk_number(name: str) -> int | None:
    """The number of a chunk from the name of its marker.

    >>> _chunk_number("s/chunks/12.json"), _chunk_number("s/chunks/\u00b2.json")
    (12, None)
    """
    digits, _, ending = name.rpartition("/")[2].rpartition(".")
    plain = ending == "json" and digits.isascii() and digits.isdigit() and len(digits) < 19
    return int(digits) if plain and str(int(digits)) == digits else None


def is_marker(marker: Any, digest: str, chunk: int) -> bool:
    """Whether it says that a chunk of a study is done, and all that a marker says."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "sum": str, "trajectories": int, "status": dict, "steps": int, "seconds": (int, float),
        "cpu": str}
    return (isinstance(marker, dict) and marker.get("study") == digest
            and marker.get("chunk") == chunk
            and all(isinstance(marker.get(name), kind) for name, kind in kinds.items())
            and marker["steps"] >= 0 and 0 <= marker["seconds"] < math.inf
            and all(isinstance(n, int) and n >= 0 for n in marker["status"].values())
            and sum(marker["status"].values()) == marker["trajectories"])


def _make_array(group: Any, name: str, **more: Any) -> Any:
    """An array of a group, made unless it is there, or comes into being meanwhile."""
    from zarr.errors import ContainsArrayError

    if name not in group:
        with suppress(ContainsArrayError):
            return group.create_array(name, **more)
    return group[name]
