"""Splines: trajectories through waypoints, given in Python or in a file.

A cubic spline has the second derivatives m_k at its waypoints that solve

    h_k-1 m_k-1 + 2 (h_k-1 + h_k) m_k + h_k m_k+1 = 6 ((q_k+1 - q_k)/h_k - (q_k - q_k-1)/h_k-1)

which is tridiagonal. Its coefficients are in tables, so that the work of a kernel at time t, and
its size, do not depend on the number of waypoints.
"""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.files import MAX_BYTES, read_text
from nlink.formats.state_rows import is_number
from nlink.scalars.arrays import single
from nlink.scalars.functions import Scalar, sign
from nlink.scalars.lookup import LookupTable
from nlink.simulation.trajectories import Motion, at_times

Array = np.ndarray
MOST_WAYPOINTS = 20_000
"""Waypoints of a spline."""
CELLS = 150_000
"""Cells of equal size that time is divided into, at most, so that each has one waypoint or none."""
ENDS = ("clamped", "natural")


@dataclass(frozen=True, eq=False)
class Spline:
    """The cubic spline through waypoints q at increasing times t.

    A "clamped" spline starts and ends with given rates (zero if not given), a "natural" one with
    zero acceleration. Before the first time and after the last the trajectory rests.

    >>> q, qd, qdd = Spline([0.0, 1.0, 2.0], [[0.0], [1.0], [0.0]])(1.0)
    >>> round(q[0], 9), round(qdd[0], 9)
    (1.0, -6.0)
    """

    t: Any
    q: Any
    ends: str = "clamped"
    rates: Any = None
    """Rates at the two ends, (2, n)."""
    _tables: tuple[Any, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        t = single("t", self.t, (None,))
        if not 2 <= len(t) <= MOST_WAYPOINTS:
            raise ValueError(f"t: shape {t.shape}, expected 2 to {MOST_WAYPOINTS} times")
        if (np.diff(t) <= 0).any():
            raise ValueError("t: expected increasing, finite times")
        q = single("q", self.q, (len(t), None), ": a row for each time")
        if not q.shape[1]:
            raise ValueError("q: no columns, expected one for each coordinate")
        if self.ends not in ENDS:
            raise ValueError(f"ends: {self.ends!r}, expected one of {', '.join(ENDS)}")
        rates = np.zeros((2, q.shape[1]))
        if self.rates is not None:
            if self.ends != "clamped":
                raise ValueError("rates: only with ends='clamped'")
            rates = single("rates", self.rates, rates.shape)
        for array in (t, q, rates):
            array.flags.writeable = False
        for name, value in (("t", t), ("q", q), ("rates", rates),
                            ("_tables", _tables(t, q, self.ends, rates))):
            object.__setattr__(self, name, value)

    @classmethod
    def from_file(cls, path: str | Path, ends: str = "clamped") -> Spline:
        """The spline through the waypoints of a .csv file (columns t, q_1, q_2, ...; a line of
        names may come first) or an .npz file (arrays t and q)."""
        path = Path(path)
        try:
            return cls(*(_read_npz(path) if path.suffix == ".npz" else _read_csv(path)), ends)
        except ValueError as error:
            text = str(error)
            raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from None

    def __call__(self, t: Scalar) -> Motion:
        """q, qd and qdd at a time; at an array of times, arrays (times, n)."""
        if isinstance(t, np.ndarray) and t.ndim:
            return at_times(self, t)
        segments, *joints = self._tables
        k, x = segments.locate(t)
        q, qd, qdd = [], [], []
        for table in joints:
            a, b, c, d = (coefficient(k) for coefficient in table)
            q.append(a + x * (b + x * (c + x * d)))
            qd.append(b + x * (2.0 * c + x * (3.0 * d)))
            qdd.append(2.0 * c + 6.0 * d * x)
        return tuple(q), tuple(qd), tuple(qdd)


class Segments:
    """The segments between increasing times, in tables that any scalar can look up.

    Segment 0 is the rest before the first time, 1 begins at it, and the last is the rest after the
    last time. Time is divided into cells so small that each has one edge of segments or none.
    """

    def __init__(self, t: Array) -> None:
        cells = cells_of(t)
        if cells > CELLS:
            raise ValueError(f"t: the shortest interval is {np.diff(t).min():g} of "
                             f"{t[-1] - t[0]:g} s, expected at least a {CELLS // 3 * 2:,}th of it")
        # the last time belongs to the last segment
        edges = np.append(t[:-1], np.nextafter(t[-1], np.inf))
        pace = cells / (t[-1] - t[0])
        # a cell, a little larger than it is: rounding may put a time into a neighbour
        starts = t[0] + (np.arange(cells + 3) - 1 - 1e-3) / pace
        base = np.searchsorted(edges, starts, side="right")
        edge = edges[np.minimum(base, len(edges) - 1)]
        self.origin, self.pace = float(t[0]), float(pace)
        self.base = LookupTable(base)
        self.edge = LookupTable(np.where(base < len(edges), edge, np.inf))
        self.begin = LookupTable(np.append(t, t[-1])[np.r_[0, 0:len(t)]])  # rest, segments, rest

    def locate(self, t: Scalar) -> tuple[Scalar, Scalar]:
        """The segment of a time, and the time since it began."""
        cell = (t - self.origin) * self.pace + 1.0
        # the segment at the beginning of the cell, or the next from the edge on
        k = self.base(cell) + 0.5 * (sign(sign(t - self.edge(cell)) + 0.5) + 1.0)
        return k, t - self.begin(k)


def cells_of(t: Array) -> int:
    """The number of cells that increasing times need."""
    return math.ceil(1.5 * (t[-1] - t[0]) / np.diff(t).min())


def _tables(t: Array, q: Array, ends: str, rates: Array) -> tuple[Any, ...]:
    """The segments, and the coefficients of each, for each joint."""
    h, m = np.diff(t)[:, None], second_derivatives(t, q, ends, rates)
    slopes = np.diff(q, axis=0) / h
    real = (q[:-1], slopes - h * (2 * m[:-1] + m[1:]) / 6, m[:-1] / 2, np.diff(m, axis=0) / (6 * h))
    zeros = np.zeros_like(q[:1])
    coefficients = [np.concatenate([before, part, after]) for part, before, after in zip(
        real, (q[:1], zeros, zeros, zeros), (q[-1:], zeros, zeros, zeros), strict=True)]
    return (Segments(t), *(
        tuple(LookupTable(part[:, j]) for part in coefficients) for j in range(q.shape[1])))


def second_derivatives(t: Array, q: Array, ends: str, rates: Array) -> Array:
    """m_k of every joint, by elimination in the tridiagonal system."""
    h = np.diff(t)
    slopes = np.diff(q, axis=0) / h[:, None]
    lower, upper = np.append(h[:-1], 0.0), np.insert(h[1:], 0, 0.0)
    middle = np.concatenate([[1.0], 2 * (h[:-1] + h[1:]), [1.0]])
    right = np.zeros_like(q)
    right[1:-1] = 6 * np.diff(slopes, axis=0)
    if ends == "clamped":
        upper[0], lower[-1] = h[0], h[-1]
        middle[0], middle[-1] = 2 * h[0], 2 * h[-1]
        right[0], right[-1] = 6 * (slopes[0] - rates[0]), 6 * (rates[1] - slopes[-1])
    for k in range(1, len(t)):
        factor = lower[k - 1] / middle[k - 1]
        middle[k] -= factor * upper[k - 1]
        right[k] -= factor * right[k - 1]
    m = np.empty_like(q)
    m[-1] = right[-1] / middle[-1]
    for k in range(len(t) - 2, -1, -1):
        m[k] = (right[k] - upper[k] * m[k + 1]) / middle[k]
    return m


def _read_npz(path: Path) -> tuple[Array, Array]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES // 2**20} MiB")
        with np.load(path, allow_pickle=False) as data:
            missing = [name for name in ("t", "q") if name not in data.files]
            if missing:
                raise ValueError(f"no array {' and '.join(missing)}, expected t and q")
            return data["t"], data["q"]
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, EOFError):
        raise ValueError("not an .npz file") from None


def _read_csv(path: Path) -> tuple[Array, Array]:
    rows = [row for row in csv.reader(io.StringIO(read_text(path))) if row]
    if not rows:
        raise ValueError("empty, expected rows of t, q_1, q_2, ...")
    columns = range(len(rows[0]))
    first = 1
    if not is_number(rows[0][0]):
        columns, rows, first = _columns(rows[0]), rows[1:], 2
    if len(rows) > MOST_WAYPOINTS:
        raise ValueError(f"{len(rows)} waypoints, expected at most {MOST_WAYPOINTS}")
    numbers = []
    for k, row in enumerate(rows, first):
        try:
            numbers.append([float(row[c]) for c in columns])
        except (ValueError, IndexError):
            raise ValueError(f"row {k}: {','.join(row)[:60]!r}, expected {len(columns)} numbers"
                             ) from None
    table = np.array(numbers).reshape(len(numbers), len(columns))
    return table[:, 0], table[:, 1:]


def _columns(names: Sequence[str]) -> list[int]:
    """The columns of t, q_1, q_2, ... in a file with a line of names, such as `nlink simulate
    --out` writes; its rates and forces are left aside."""
    names = [name.strip() for name in names]
    q = [name for name in names if name.startswith("q_")]
    wanted = ["t", *(f"q_{k + 1}" for k in range(len(q)))]
    other = [name for name in names if name not in wanted and not name.startswith(("qd_", "tau_"))]
    if other or not q or any(names.count(name) != 1 for name in wanted):
        raise ValueError(f"columns {', '.join(names)[:100]}, expected t, q_1, q_2, ...")
    return [names.index(name) for name in wanted]
