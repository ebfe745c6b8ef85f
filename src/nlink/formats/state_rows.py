"""Tables of states, one in each row: CSV text or NPY, from a file or from standard input."""

from __future__ import annotations

import io
import sys
from codecs import getincrementaldecoder
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nlink.model.names import counted

_NPY_MAGIC = b"\x93NUMPY"
LONGEST_STREAM = 2**28
"""Bytes of what is no file, at most: it may have no end."""
PIECE = 2**16


def read_table(source: str, widths: Sequence[int], what: str) -> list[np.ndarray]:
    """The columns of a table in groups of the given widths; `what` names the groups in the error
    for a table of another width."""
    table = read_rows(source)
    if table.shape[1] != sum(widths):
        raise ValueError(f"{_source_name(source)}: shape {table.shape}, expected (states, "
                         f"{sum(widths)}): {what}")
    return np.split(table, np.cumsum(widths)[:-1], axis=1)


def read_rows(source: str) -> np.ndarray:
    """A table of finite numbers, from a CSV or NPY file; "-" is standard input.

    CSV may start with a line of column names; lines that start with # are comments.
    """
    name = _source_name(source)
    if source == "-":
        data = _read_stream(sys.stdin.buffer, name)
    elif Path(source).is_file():
        data = Path(source).read_bytes()
    else:
        with Path(source).open("rb") as stream:
            data = _read_stream(stream, name)
    table = _read_npy(data, name) if data.startswith(_NPY_MAGIC) else _read_csv(data, name)
    if table.ndim == 1:
        table = table[np.newaxis]
    if table.ndim != 2:
        raise ValueError(f"{name}: shape {table.shape}, expected a table of rows")
    unfit = np.argwhere(~np.isfinite(table))
    if len(unfit):
        row, column = unfit[0]
        raise ValueError(f"{name}: state {row + 1} has {table[row, column]} in column "
                         f"{column + 1}, expected finite numbers")
    return table


def _read_stream(stream: BinaryIO, name: str) -> bytes:
    """All of a pipe or a device, which may have no end: what is no table is refused at once."""
    pieces: list[bytes] = []
    decoder, size = getincrementaldecoder("utf-8")(), 0
    while piece := stream.read(PIECE):
        pieces.append(piece)
        size += len(piece)
        if not pieces[0].startswith(_NPY_MAGIC):
            try:
                text = decoder.decode(piece)
            except UnicodeDecodeError:
                text = "\0"
            if "\0" in text:
                raise ValueError(f"{name}: neither UTF-8 text nor NPY")
        if size > LONGEST_STREAM:
            raise ValueError(f"{name}: more than {LONGEST_STREAM // 2**20} MiB, expected a file "
                             "for as many states")
    return b"".join(pieces)


def _source_name(source: str) -> str:
    return "standard input" if source == "-" else source


def read_numbers(name: str, text: str, size: int) -> np.ndarray:
    """Exactly `size` finite numbers from a comma list.

    >>> read_numbers("q", "0, 0.5,1e-3", 3)
    array([0.   , 0.5  , 0.001])
    """
    try:
        values = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise ValueError(f"{name}: {text!r}, expected {_many(size)}") from None
    if len(values) != size:
        raise ValueError(f"{name}: {counted(len(values), 'number')}, expected {size}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: {text!r}, expected finite numbers")
    return values


def _read_npy(data: bytes, name: str) -> np.ndarray:
    try:
        table = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{name}: not a readable NPY file: {error}") from None
    if not np.can_cast(table.dtype, np.float64, casting="safe"):
        raise TypeError(f"{name}: dtype {table.dtype}, expected real numbers")
    return table.astype(np.float64)


def _read_csv(data: bytes, name: str) -> np.ndarray:
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{name}: neither UTF-8 text nor NPY") from None
    rows = [(number, line.split(",")) for number, line in enumerate(lines, 1)
            if line.strip() and not line.lstrip().startswith("#")]
    if rows and not any(is_number(cell) for cell in rows[0][1]):
        del rows[0]
    if not rows:
        raise ValueError(f"{name}: no states")
    width = len(rows[0][1])
    for number, cells in rows:
        if len(cells) != width:
            raise ValueError(f"{name}, line {number}: {len(cells)} columns, "
                             f"expected {width} as above")
        wrong = next((cell for cell in cells if not is_number(cell)), None)
        if wrong is not None:
            raise ValueError(f"{name}, line {number}: {wrong.strip()!r}, expected a number")
    return np.array([cells for _, cells in rows], dtype=np.float64)


def is_number(text: str) -> bool:
    """Whether a cell of a table is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _many(size: int) -> str:
    return "a number" if size == 1 else f"{size} numbers with commas between"
