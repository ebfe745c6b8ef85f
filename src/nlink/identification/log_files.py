"""Files of logs as named arrays: CSV, NPZ, MAT, Parquet and ROS bags. Nothing in them is run."""

from __future__ import annotations

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nlink.robot import Robot

Array = np.ndarray
LARGEST_FILE = 2**31
"""Bytes."""
POINTER = b"version https://git-lfs"
DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
HEADS = {2: ("q", "tau"), 3: ("q", "qd", "tau"), 4: ("q", "qd", "qdd", "tau")}
"""What columns are in a table without names, after the time, by their number for each joint."""


def read_arrays(path: Path, robot: Robot) -> Mapping[str, Any]:
    """The arrays of a file by name."""
    kind = path.suffix.lower()
    if path.is_dir() or kind in (".bag", ".mcap", ".db3"):
        _refuse_pointer(path)
        return _read_bag(path, robot)
    readers: dict[str, Callable[[Path, Robot], Mapping[str, Any]]] = {
        ".csv": _read_csv, ".txt": _read_csv, ".tsv": _read_csv, ".dat": _read_csv,
        ".npz": _read_npz, ".mat": _read_mat, ".parquet": _read_parquet}
    if kind not in readers:
        raise ValueError(f"{path}: the suffix {kind!r}, expected {', '.join(readers)}, .bag, .mcap "
                         "or .db3")
    _refuse_pointer(path)
    return readers[kind](path, robot)


def _refuse_pointer(path: Path) -> None:
    """A file that is there, of sane size, and not what git-lfs left in its place."""
    if path.is_dir():
        return
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(len(POINTER))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    if head == POINTER:
        raise ValueError(f"{path}: a pointer of git-lfs instead of data, expected the file itself: "
                         "git lfs pull")
    if not size:
        raise ValueError(f"{path}: empty, expected a log")
    if size > LARGEST_FILE and path.suffix.lower() in (".csv", ".txt", ".tsv", ".npz", ".mat"):
        raise ValueError(f"{path}: larger than {LARGEST_FILE // 2**20} MiB")


def _read_csv(path: Path, robot: Robot) -> dict[str, Array]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text") from None
    lines = text.splitlines()
    first = next((k for k, line in enumerate(lines) if line.strip()
                  and not _is_comment(line)), None)
    if first is None:
        raise ValueError(f"{path}: no rows, expected a log")
    mark = next((sign for sign in (";", ",", "\t") if sign in lines[first]), None)
    head = _cells(lines[first], mark)
    named = not all(_is_number(cell) for cell in head)
    if not named and first and _is_comment(lines[first - 1]):
        above = _cells(lines[first - 1].lstrip(" #%/"), mark)
        if len(above) == len(head) and not any(map(_is_number, above)):
            head, named, first = above, True, first - 1
    start = first + named
    if mark in (";", "\t"):  # decimal commas
        lines = [*lines[:start], *(DECIMAL_COMMA.sub(".", line) for line in lines[start:])]
    body = [line for line in lines[start:] if line.strip() and not _is_comment(line)]
    if not body:
        raise ValueError(f"{path}: no rows below the names, expected a log")
    try:
        table = np.loadtxt(body, delimiter=mark, ndmin=2, comments=None)
    except ValueError:
        table = _slow_table(path, lines, start, mark, head)
    if named:
        if len(head) != table.shape[1]:
            raise ValueError(f"{path}: {len(head)} names and {table.shape[1]} columns, expected as "
                             "many")
        if len(set(head)) < len(head):
            twice = next(name for name in head if head.count(name) > 1)
            raise ValueError(f"{path}: two columns named {twice!r}, expected different names")
        return {name: table[:, k] for k, name in enumerate(head)
                if not np.isnan(table[:, k]).all()}
    return _without_names(path, table, robot.n)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(("#", "%", "//"))


def _cells(line: str, mark: str | None) -> list[str]:
    cells = line.split() if mark is None else next(csv.reader([line], delimiter=mark))
    return [cell.strip() for cell in cells]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _slow_table(path: Path, lines: list[str], start: int, mark: str | None,
                head: list[str]) -> Array:
    """Cell by cell: columns of words become NaN throughout, other words are refused, and so are
    rows of another length."""
    rows, places = [], []
    for number, line in enumerate(lines[start:], start + 1):
        if line.strip() and not _is_comment(line):
            cells = _cells(line, mark)
            if len(cells) == len(head) + 1 and not cells[-1]:
                del cells[-1]
            if len(cells) != len(head):
                raise ValueError(f"{path}, line {number}: {len(cells)} columns, expected "
                                 f"{len(head)} as above")
            rows.append(cells)
            places.append(number)
    table = np.full((len(rows), len(head)), np.nan)
    for k in range(len(head)):
        fit = [_is_number(row[k]) for row in rows]
        if not any(fit):
            continue  # a column of words
        for i, (row, number) in enumerate(zip(rows, fit, strict=True)):
            if number:
                table[i, k] = float(row[k])
            elif row[k]:
                raise ValueError(f"{path}, line {places[i]}: {row[k]!r} in column {k + 1} "
                                 f"({head[k]}), expected a number")
    return table


def _without_names(path: Path, table: Array, n: int) -> dict[str, Array]:
    """The time, then q and tau, or q, qd, tau, or q, qd, qdd, tau."""
    width, left = divmod(table.shape[1] - 1, max(n, 1))
    if left or width not in HEADS:
        raise ValueError(f"{path}: {table.shape[1]} columns without names, expected t and q, tau "
                         f"of {n} joints ({1 + 2 * n} columns), or q, qd, tau, or q, qd, qdd, tau")
    parts = np.split(table[:, 1:], width, axis=1)
    return {"t": table[:, 0], **dict(zip(HEADS[width], parts, strict=True))}


def _read_npz(path: Path, robot: Robot) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(item.file_size for item in archive.infolist())
        if size > LARGEST_FILE:
            raise ValueError(f"{path}: unpacks to more than {LARGEST_FILE // 2**20} MiB")
        with np.load(path, allow_pickle=False) as archive:
            found = {}
            for key in archive.files:
                try:
                    found[key] = archive[key]
                except ValueError:
                    continue  # objects, which are not loaded
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise ValueError(f"{path}: not a readable NPZ file: {error}") from None
    return {key: x for key, x in found.items() if x.dtype.kind in "fiub"
            and 0 < x.ndim <= 2 + (key == "f_ext")}


def _read_mat(path: Path, robot: Robot) -> dict[str, Array]:
    if path.read_bytes()[:64].startswith(b"MATLAB 7.3"):
        raise ValueError(f"{path}: a MAT file of version 7.3, expected one saved with -v7")
    try:
        from scipy.io import loadmat
    except ImportError:
        raise ImportError("MAT files need SciPy: pip install nlink[sim]") from None
    try:
        found = loadmat(io.BytesIO(path.read_bytes()), struct_as_record=True)
    except Exception as error:  # SciPy raises whatever comes
        raise ValueError(f"{path}: not a readable MAT file: {error}") from None
    flat: dict[str, Array] = {}
    for key, x in found.items():
        if key.startswith("__"):
            continue
        if x.dtype.names and x.size == 1:
            flat |= {name: np.asarray(x[name].item()) for name in x.dtype.names}
        else:
            flat[key] = x
    flat = {key: x for key, x in flat.items() if x.dtype.kind in "fiub" and x.ndim == 2
            and x.size > 1}
    return {key: x.reshape(-1) if 1 in x.shape else x for key, x in flat.items()}


def _read_parquet(path: Path, robot: Robot) -> dict[str, Array]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError("Parquet files need PyArrow: pip install pyarrow") from None
    try:
        table = parquet.read_table(path)
    except Exception as error:
        raise ValueError(f"{path}: not a readable Parquet file: {error}") from None
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        x = column.to_numpy()
        if x.dtype == object:
            try:
                x = np.array([np.asarray(row, dtype=float) for row in x])
            except (TypeError, ValueError):
                continue
        found[name] = x
    return {key: x for key, x in found.items() if x.dtype.kind in "fiubM"}


def _read_bag(path: Path, robot: Robot) -> dict[str, Array]:
    """The messages of the kind JointState that name all joints of the robot, by their own stamps;
    where those stand still, by the times at which they were recorded."""
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise ImportError("ROS bags need rosbags: pip install nlink[logs]") from None
    from rosbags.highlevel.anyreader import AnyReaderError

    target = path.parent if path.suffix == ".db3" and (
        path.parent / "metadata.yaml").is_file() else path
    names = list(robot.qd_names)
    rows: dict[str, list[Any]] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with AnyReader([target], default_typestore=get_typestore(Stores.LATEST)) as reader:
                wanted = [each for each in reader.connections
                          if each.msgtype == "sensor_msgs/msg/JointState"]
                if not wanted:
                    topics = sorted({f"{each.topic} ({each.msgtype})"
                                     for each in reader.connections})
                    raise ValueError(f"{path}: no messages sensor_msgs/JointState, expected some "
                                     f"beside {', '.join(topics[:6]) or 'nothing'}")
                for connection, stamp, raw in reader.messages(connections=wanted):
                    message: Any = reader.deserialize(raw, connection.msgtype)
                    if not set(names) <= set(message.name):
                        continue
                    at = [list(message.name).index(each) for each in names]
                    head = message.header.stamp
                    rows.setdefault(connection.topic, []).append((
                        head.sec * 10**9 + head.nanosec, stamp,
                        *(np.asarray(part, dtype=float)[at] if len(part) > max(at) else None
                          for part in (message.position, message.velocity, message.effort))))
    except AnyReaderError as error:
        raise ValueError(f"{path}: not a readable bag: {error}") from None
    if not rows:
        raise ValueError(f"{path}: no message names all of the robot's joints, expected "
                         f"{', '.join(names[:8])}")
    best = max(rows.values(), key=len)
    own, recorded, *parts = zip(*best, strict=True)
    stamps = np.array(own if len(set(own)) > len(own) / 2 else recorded)
    found: dict[str, Array] = {"t": (stamps - stamps[0]) * 1e-9}
    for kind, column in zip(("q", "qd", "tau"), parts, strict=True):
        if all(x is not None for x in column):
            found[kind] = np.array(column)
    return found
