"""The store of a sweep: a zarr group of format 3, local or at any fsspec address.

Its attributes say which study it holds, `chunks/N.json` that chunk N is done. A chunk of the
study is a whole chunk of every array, written by one task, and each file replaces the one
before in one step; the marker is written last. So a task that is killed leaves no marker, and
who does it again writes the same bytes. The set of markers is the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np

from nlink.formats.files import write_bytes
from nlink.simulation.store import reason
from nlink.simulation.zarr_store import zarr
from nlink.sweeps.study import StoredArray, Study

Array = np.ndarray
MARKERS = "chunks"
FORMAT = 1


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

    def group(self, mode: str = "r") -> Any:
        place = self.root if self.local else self.path
        return zarr().open_group(place, mode=mode)

    @property
    def attributes(self) -> dict[str, Any]:
        """What the store says of itself; a sentence if it is none."""
        try:
            found = dict(self.group().attrs)
        except ImportError:
            raise
        except FileNotFoundError:
            raise ValueError(f"{self.path}: no such store of a sweep") from None
        except Exception as error:  # readers raise anything if a file holds something else
            raise ValueError(f"{self.path}: not the store of a sweep: {reason(error)}"
                             ) from None
        if found.get("nlink_sweep") != FORMAT:
            raise ValueError(f"{self.path}: not the store of a sweep that this version of nlink "
                             "reads")
        return found

    def prepare(self, study: Study, *, verify: bool = False) -> None:
        """Make the store, or refuse one that holds something else; `verify` also makes what has
        gone from one that was complete."""
        if self.files.exists(self.root) and self.files.ls(self.root):
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
            if found.get("complete") and not (verify and self._lacks(study)):
                return
        self._create(study)

    def _lacks(self, study: Study) -> bool:
        """Whether an array has gone, or what holds the markers."""
        group = self.group()
        return any(name not in group for name in (
            MARKERS, *(array.name for array in study.arrays())))

    def _create(self, study: Study) -> None:
        """All arrays, not one chunk; `complete` is said last. Nothing is removed, so that another
        client may make the same store at the same time, or have done so."""
        group = self.group("a")
        if "study" not in group.attrs:
            group.attrs.update({"nlink_sweep": FORMAT, "study": study.digest,
                                "source": study.source})
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
        group.attrs.update({
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
            write_bytes(name, data)
        else:
            self.files.pipe_file(name, data)

    def markers(self, digest: str) -> dict[int, dict[str, Any]]:
        """What is known of chunks that are done, by their numbers."""
        self.files.invalidate_cache()
        names = [name for name in self.files.ls(f"{self.root}/{MARKERS}", detail=False)
                 if name.endswith(".json") and name.rpartition("/")[2][:-5].isdigit()]
        found = {}
        for name, data in (self.files.cat(names, on_error="return") if names else {}).items():
            chunk = int(name.rpartition("/")[2][:-5])
            with suppress(ValueError, TypeError, KeyError):
                marker = json.loads(data)
                if marker["study"] == digest and marker["chunk"] == chunk and marker["sum"]:
                    found[chunk] = marker
        return dict(sorted(found.items()))

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
            if checksum(arrays) != marker["sum"]:
                wrong.append(chunk)
        return wrong

    def tidy(self) -> None:
        """Remove what writers that were killed left: when all chunks are done."""
        for left in Path(self.root).rglob("*.partial") if self.local else ():
            left.unlink(missing_ok=True)


@lru_cache(64)
def _array(path: str, _digest: str, name: str) -> Any:
    """An array of a store, to be written: what is said of it never changes."""
    try:
        return SweepStore(path).group("r+")[name]
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such store on {gethostname()}, expected a directory "
                                "or an address that all workers reach") from None


def _make_array(group: Any, name: str, **more: Any) -> Any:
    """An array of a group, made unless it is there, or comes into being meanwhile."""
    from zarr.errors import ContainsArrayError

    if name not in group:
        with suppress(ContainsArrayError):
            return group.create_array(name, **more)
    return group[name]


def checksum(arrays: Mapping[str, Array]) -> str:
    """A checksum of the bytes of a chunk's arrays."""
    digest = sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + arrays[name].tobytes())
    return digest.hexdigest()
