"""Arrays on disk whose rows are trajectories: .npy files of a directory, or a zarr group.

Both hold arrays (trajectories, times, width) of float64, and records, rows of bytes, and say the
same methods:

1. A new store is made by `begin`, `add` and `add_records`, and then `publish`, after which it is
   there as a whole: a process that is killed before leaves nothing that `there` finds.
2. A store that is there is read by `read_head` and `open`, with `repair` to be written, too: what
   writers that were killed left in it is removed.
3. Rows are read and written block by block. Those that `read` gives may be changed, and are
   permanent after `write`. An array from `whole` is read where it is sliced.

Which arrays a run has, and the order in which they are written, is in `run_store`. No file of
anybody else is ever opened for writing: new files are created exclusively, and a name that is a
link is refused.
"""

from __future__ import annotations

import errno
import io
import json
import os
import secrets
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from nlink.formats.files import check_plain_file, file_kind, name_beside, write_bytes, write_text
from nlink.model.names import first_few
from nlink.storage.event_log import EVENTS

Array = np.ndarray
HEAD_FILE = "run.json"
RECORDS_FILE = "records.npy"
FILES = (HEAD_FILE, "y.npy", "tau.npy", RECORDS_FILE, EVENTS)
"""All that a run in a directory has."""
MAKING_FILE = ".making.tmp"
"""What says that the files of a run are being made."""


class DirectoryArrays:
    """`run.json` (the head), `y.npy` (states), `tau.npy` (joint forces of finished blocks, if there
    are any), `records.npy`, and beside them `events.bin`; arrays are mapped into memory.

    A directory is a run's if it has `run.json`, which is written last. While the other files are
    made there is `.making.tmp`: who finds it, and no `run.json`, makes them again.
    """

    chunked = False
    """Whether columns of states are arrays of their own, and blocks chunks of their own."""
    head_name = HEAD_FILE

    def __init__(self, path: Path) -> None:
        self.folder = path

    @staticmethod
    def there(path: Path) -> bool:
        return os.path.lexists(path / HEAD_FILE)

    @staticmethod
    def read_head(path: Path) -> dict[str, Any]:
        check_plain_file(path / HEAD_FILE)
        return json.loads((path / HEAD_FILE).read_text("utf-8"))

    @classmethod
    def begin(cls, path: Path) -> DirectoryArrays:
        """In a new directory, an empty one, or one in which the making of a run was interrupted,
        whose files are removed."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise ValueError(f"save: {path} is {file_kind(path.lstat().st_mode)}, expected a new "
                             "name or an empty directory") from None
        names = os.listdir(path)
        if names and MAKING_FILE not in names:
            raise ValueError(f"save: {path} holds {first_few(sorted(names))}, and no run; expected "
                             "a new name or an empty directory")
        if not names:
            (path / MAKING_FILE).open("xb").close()
        for name in FILES:
            (path / name).unlink(missing_ok=True)
        for left in path.glob(".*.tmp"):
            if left.name != MAKING_FILE:
                left.unlink()
        return cls(path)

    @classmethod
    def open(cls, path: Path, *, repair: bool) -> DirectoryArrays:
        for left in path.glob(".*.tmp") if repair else ():
            left.unlink(missing_ok=True)
        for name in FILES:
            if os.path.lexists(path / name):
                check_plain_file(path / name)
        return cls(path)

    def add(self, name: str, count: int, times: int, width: int, rows: int) -> None:
        """Written block by block: mapped, all of it would count as memory."""
        shape = (count, times, width)
        with (self.folder / f"{name}.npy").open("xb") as stream:
            np.lib.format.write_array_header_1_0(
                stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
            blank = np.full((min(rows, count), *shape[1:]), np.nan)
            for begin in range(0, count, rows):
                stream.write(blank[:count - begin].data)

    def publish(self, head: dict[str, Any]) -> None:
        write_text(self.folder / HEAD_FILE, json.dumps(head | {"t": head["t"].tolist()}))
        (self.folder / MAKING_FILE).unlink()

    def put(self, **arrays: Array) -> None:
        pass

    def whole(self, name: str, mode: Any = "r") -> Array:
        return np.load(self.folder / f"{name}.npy", mmap_mode=mode)

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        array = self.whole(name)
        check_array(f"{name}.npy", array, shape)
        if not array.flags.c_contiguous:
            raise ValueError(f"{name}.npy: columns first, expected rows first")

    def read(self, name: str, rows: slice) -> Array:
        """Mapped alone: pages of other rows would count as memory of this process."""
        whole = self.whole(name)
        if not len(whole):
            return whole
        assert isinstance(whole, np.memmap)
        return np.memmap(self.folder / f"{name}.npy", np.float64, "r+",
                         whole.offset + rows.start * whole.strides[0],
                         (rows.stop - rows.start, *whole.shape[1:]))

    def write(self, name: str, rows: slice, values: Array) -> None:
        if isinstance(values, np.memmap):
            values.flush()
        else:
            self.whole(name, "r+")[rows] = values

    def read_records(self) -> Array:
        return np.load(self.folder / RECORDS_FILE, allow_pickle=False)

    def add_records(self, raw: Array, rows: int) -> None:
        self.write_records(slice(len(raw)), raw)

    def write_records(self, rows: slice, raw: Array) -> None:
        """Those of all trajectories, in one step."""
        buffer = io.BytesIO()
        np.save(buffer, raw)
        write_bytes(self.folder / RECORDS_FILE, buffer.getvalue())


class ZarrArrays:
    """A zarr group: attributes for the head, a chunk of every array for each block. A new group is
    made beside its place, which it takes in one step."""

    chunked = True
    head_name = "the group"

    def __init__(self, path: Path, group: Any, folder: Path) -> None:
        self.path, self.group, self.folder = path, group, folder

    @staticmethod
    def there(path: Path) -> bool:
        return path.exists()

    @staticmethod
    def read_head(path: Path) -> dict[str, Any]:
        group = open_group(path, "r")
        return dict(group.attrs) | {"t": group["t"][...]}

    @classmethod
    def begin(cls, path: Path) -> ZarrArrays:
        temporary = name_beside(path, f"{secrets.token_hex(8)}.tmp")
        return cls(path, open_group(temporary, "w"), temporary)

    @classmethod
    def open(cls, path: Path, *, repair: bool) -> ZarrArrays:
        if repair:
            remove_partial(path)
        return cls(path, open_group(path, "r+" if repair else "r"), path)

    def add(self, name: str, count: int, times: int, width: int, rows: int) -> None:
        self.group.create_array(name, shape=(count, times, width), dtype="float64",
                                chunks=(max(1, min(rows, count)), times, width), fill_value=np.nan,
                                dimension_names=("trajectory", "time", name))

    def publish(self, head: dict[str, Any], *, replacing: bool = False) -> None:
        self.put(t=head["t"])
        self.group.attrs.update({key: value for key, value in head.items() if key != "t"})
        if replacing and self.path.exists():
            shutil.rmtree(self.path)
        os.replace(self.folder, self.path)
        self.folder, self.group = self.path, open_group(self.path, "r+")

    def put(self, **arrays: Array) -> None:
        """In the place of those of these names."""
        for name, values in arrays.items():
            self.group.create_array(name, data=np.ascontiguousarray(values), overwrite=True)

    def whole(self, name: str) -> Any:
        return self.group[name]

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        check_array(name, self.group[name], shape)

    def read(self, name: str, rows: slice) -> Array:
        return self.group[name][rows]

    def write(self, name: str, rows: slice, values: Array) -> None:
        self.group[name][rows] = values

    def read_records(self) -> Array:
        return self.group["records"][...]

    def add_records(self, raw: Array, rows: int) -> None:
        self.group.create_array("records", shape=raw.shape, dtype=raw.dtype,
                                chunks=(max(1, min(rows, len(raw))), raw.shape[1]))
        self.group["records"][...] = raw

    def write_records(self, rows: slice, raw: Array) -> None:
        self.group["records"][rows] = raw


def remove_directory(path: Path) -> None:
    """Remove a run, and its directory unless that holds something else as well."""
    for name in FILES:
        (path / name).unlink(missing_ok=True)
    with suppress(OSError):
        path.rmdir()


def remove_partial(path: str | Path) -> None:
    """Remove what writers of a zarr group that were killed left in it."""
    for left in Path(path).rglob("*.partial"):
        left.unlink(missing_ok=True)


def check_array(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Refuse an array of another shape or kind."""
    if array.shape != shape or array.dtype != np.dtype("<f8"):
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}, expected float64 of "
                         f"shape {shape}")


def open_group(path: str | Path, mode: str, *, local: bool = True, **more: Any) -> Any:
    """A zarr group on this machine, of plain files, or at any address."""
    open_zarr = zarr().open_group
    if not local:
        return open_zarr(path, mode=mode, **more)
    from nlink.storage.plain_files import PlainFiles

    if mode in ("r", "r+") and not Path(path).is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return open_zarr(PlainFiles(path, read_only=mode == "r"), mode=mode, **more)


def zarr() -> Any:
    """The part of the package that is used: groups of format 3 only. Those of format 2 may hold
    pickles, which run whatever a stranger wrote."""
    try:
        import zarr
    except ImportError:
        raise ImportError(".zarr files need zarr: pip install nlink[sim]") from None
    if tuple(map(int, zarr.__version__.split(".")[:2])) < (3, 1):
        raise ImportError(f".zarr files need zarr 3.1 or later, not {zarr.__version__}: "
                          "pip install -U nlink[sim]")
    return SimpleNamespace(open_group=partial(zarr.open_group, zarr_format=3))
