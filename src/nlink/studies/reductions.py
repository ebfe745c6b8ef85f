"""The result of a sweep: its store, opened lazily, and reduced chunk by chunk.

A reduction reads one chunk at a time, here or on the workers of a cluster, and combines the results
of chunks in order, so that it does not depend on where they were computed. Chunks that are not done
are left out, and so are trajectories whose number is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nlink.model.names import visible
from nlink.simulation.run import ENDS, MESSAGES
from nlink.simulation.setting import whole_number
from nlink.storage.checks import refused
from nlink.studies.cluster import Cluster
from nlink.studies.study import chunk_grid, region
from nlink.studies.sweep_store import SweepStore

Array = np.ndarray
Function = Callable[[Any], Array]
Region = tuple[slice, ...]
EXACT = 2**25
"""Numbers that are held in memory for exact quantiles."""
BINS = 2**14
"""Bins of the histogram from which quantiles of more numbers are read."""


class SweepResult:
    """The results of a sweep, finished or not, from the path or address of its store.

    `what` of the reductions is the name of an array, or a function of a mapping of all arrays of a
    chunk (flattened to (trajectories, ...)) that returns (trajectories, ...).

    >>> import nlink, tempfile
    >>> result = nlink.sweep(nlink.load("double_pendulum"), t=0.1, sample="latin", count=100,
    ...     vary={"payload": (0.0, 1.0)}, out=tempfile.mkdtemp() + "/s.zarr", chunk=30)
    >>> result
    <SweepResult of double_pendulum: 100 trajectories, 4 of 4 chunks done>
    >>> float(result.mean("payload")).__round__(1), result.failures().shape
    (0.5, (0, 1))
    >>> result.quantiles("q", [0.05, 0.5, 0.95]).shape
    (3, 2)
    """

    def __init__(self, path: str | Path) -> None:
        self.store = SweepStore(path)
        self.path = self.store.path
        self.attributes = self.store.attributes
        if not self.attributes.get("complete"):
            raise ValueError(f"{self.path}: a store whose making was interrupted, expected one by "
                             "nlink.sweep: the same call makes it")
        with refused(f"{self.path}: not the store of a sweep"):
            self.shape, self._chunk_shape = _checked_extent(self.attributes, self.store.group())

    @property
    def trajectories(self) -> int:
        return math.prod(self.shape)

    @property
    def chunks(self) -> int:
        return math.prod(chunk_grid(self.shape, self._chunk_shape))

    @property
    def markers(self) -> dict[int, dict[str, Any]]:
        """The markers of finished chunks: checksums, how trajectories ended, steps, seconds, the
        processor."""
        return self.store.markers(self.attributes["study"], self.chunks)

    @property
    def done(self) -> int:
        """Chunks that are done."""
        return len(self.markers)

    def __repr__(self) -> str:
        robots = ", ".join(self.attributes["labels"]["robot"])
        return (f"<SweepResult of {visible(robots)}: {self.trajectories:,} trajectories, "
                f"{self.done} of {self.chunks} chunks done>")

    def open(self) -> Any:
        """An xarray Dataset with labelled axes; a chunk is read when something is taken from it."""
        try:
            import xarray
        except ImportError:
            raise ImportError("open_sweep needs xarray: pip install nlink[scale]") from None
        with refused(f"{self.path}: not the store of a sweep"):
            return self._labelled(xarray)

    def _labelled(self, xarray: Any) -> Any:
        data = xarray.open_zarr(self.store.group().store, chunks=None, consolidated=False)
        labels = self.attributes["labels"]
        named = {name: labels[name] for name in ("robot", "coordinate", "rate", "event")
                 if name in data.sizes}
        named |= {name: (axis, labels[name]) for name, axis in (
            ("q_unit", "coordinate"), ("qd_unit", "rate")) if axis in data.sizes}
        varied = [name for name, x in data.data_vars.items() if name not in RESULTS]
        data = data.set_coords(varied).assign_coords(named)
        data.attrs = {name: self.attributes[name] for name in (
            "sample", "seed", "t", "options", "reproducible", "study")}
        data["status"].attrs["words"] = {str(code): word for code, word in MESSAGES.items()}
        return data

    def status(self) -> dict[str, int]:
        """The number of trajectories with each status."""
        found: dict[str, int] = {}
        for marker in self.markers.values():
            for word, count in marker["status"].items():
                found[word] = found.get(word, 0) + count
        return found

    def mean(self, what: str | Function, *, client: Any = None) -> Array:
        """The mean over all trajectories."""
        return self.moments(what, client=client)[0]

    def moments(self, what: str | Function, *, client: Any = None) -> tuple[Array, Array, Array]:
        """Mean, standard deviation and number of finite values; chunks are joined by the
        update of [Chan, Golub, LeVeque 79]."""
        mean = square = count = np.zeros(())
        for n, m, s in self._each(_chunk_moments, what, client):
            total = count + n
            with np.errstate(all="ignore"):
                share = np.where(total > 0, n / total, 0.0)
            step = m - mean
            square = square + s + step**2 * count * share
            mean, count = mean + step * share, total
        with np.errstate(all="ignore"):
            return (np.where(count > 0, mean, np.nan), np.sqrt(np.where(
                count > 0, square / count, np.nan)), count.astype(np.int64))

    def histogram(self, what: str | Function, bins: int = 50,
                  range: tuple[float, float] | None = None, *, client: Any = None,
                  ) -> tuple[Array, Array]:
        """Counts (bins, ...) and edges (bins + 1, ...) between the least and the greatest value,
        or within a given range."""
        bins = whole_number("bins", bins)
        if range is None:
            low, high = self._bounds(what, client)
        else:
            low, high = (np.asarray(x, dtype=float) for x in range)
            if not (low < high).all():
                raise ValueError(f"range: {range!r}, expected (lower, upper)")
        edges = np.linspace(low, high, bins + 1)
        counts: Any = 0
        for found in self._each(partial(_chunk_histogram, edges=edges), what, client):
            counts = counts + found
        shape = np.shape(counts)[1:]
        return counts, np.broadcast_to(edges.reshape(bins + 1, *(1,) * (
            len(shape) - edges.ndim + 1), *edges.shape[1:]), (bins + 1, *shape))

    def quantiles(self, what: str | Function, at: Sequence[float], *, client: Any = None) -> Array:
        """Quantiles over all trajectories, (quantiles, ...).

        They are those of NumPy for up to 2^25 trajectories of a column; beyond that they are read
        from a histogram of 2^14 bins, and exact to the width of one bin.
        """
        levels = np.asarray(at, dtype=float)
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"at: {at!r}, expected a sequence of numbers from 0 to 1")
        if self.trajectories > EXACT:
            return self._quantiles_of_histogram(what, levels, client)
        pieces = list(self._each(_chunk_columns, what, client, columns=slice(0, 1)))
        shape, width = pieces[0][1], math.prod(pieces[0][1])
        group = max(1, EXACT // max(1, self.trajectories))
        found = []
        for first in builtin_range(0, width, group):
            pieces = list(self._each(_chunk_columns, what, client,
                                     columns=slice(first, first + group)))
            found.append(_nanquantile(np.concatenate([x for x, _ in pieces]), levels))
        return np.concatenate(found, axis=1).reshape(len(levels), *shape)

    def _quantiles_of_histogram(self, what: str | Function, levels: Array, client: Any) -> Array:
        counts, edges = self.histogram(what, BINS, client=client)
        shape = counts.shape[1:]
        flat, places = counts.reshape(BINS, -1), edges.reshape(BINS + 1, -1)
        below = np.concatenate([np.zeros((1, flat.shape[1])), np.cumsum(flat, axis=0)])
        found = [np.interp(levels * column[-1], column, x) for column, x in zip(
            below.T, places.T, strict=True)]
        return np.stack(found, axis=1).reshape(len(levels), *shape)

    def worst(self, what: str | Function, count: int = 10, *, client: Any = None,
              ) -> tuple[Array, Array]:
        """The indices (count, axes) of the trajectories with the greatest magnitudes, greatest
        first, and the magnitudes; if a trajectory has several numbers, the greatest one counts."""
        count = whole_number("count", count)
        places, sizes = np.zeros((0, len(self.shape)), int), np.zeros(0)
        for where, size in self._each(partial(_chunk_worst, count=count), what, client):
            places, sizes = np.concatenate([places, where]), np.concatenate([sizes, size])
            best = np.argsort(-sizes, kind="stable")[:count]
            places, sizes = places[best], sizes[best]
        return places, sizes

    def failures(self, *, client: Any = None) -> Array:
        """The indices (count, axes) of trajectories that did not reach the end or a terminal
        event."""
        found = list(self._each(_chunk_failures, "status", client))
        return np.concatenate([np.zeros((0, len(self.shape)), int), *found])

    def _bounds(self, what: str | Function, client: Any) -> tuple[Array, Array]:
        low, high = np.inf, -np.inf
        for least, greatest in self._each(_chunk_bounds, what, client):
            low, high = np.minimum(low, least), np.maximum(high, greatest)
        known = np.isfinite(low)
        return np.where(known, low, 0.0), np.where(known, high, 1.0)

    def _each(self, reduce: Callable[..., Any], what: str | Function, client: Any,
              **more: Any) -> Iterator[Any]:
        """The results of a function for all finished chunks, in their order."""
        if not isinstance(what, str) and not callable(what):
            raise TypeError(f"what: a {type(what).__name__}, expected the name of an array, or a "
                            "function of the arrays of a chunk")
        place = self.store.root if self.store.local else self.path
        tasks = [partial(_reduce_chunk, reduce, place, what, self._region(chunk), **more)
                 for chunk in self.markers]
        if not tasks:
            raise ValueError(f"{self.path}: no chunk is done, expected at least one")
        if client is None:
            yield from (task() for task in tasks)
            return
        with Cluster.of(client) as cluster:
            for begin in builtin_range(0, len(tasks), WINDOW):
                futures = [cluster.client.submit(task, pure=False)
                           for task in tasks[begin:begin + WINDOW]]
                yield from cluster.client.gather(futures)

    def _region(self, chunk: int) -> tuple[slice, ...]:
        return region(chunk, self.shape, self._chunk_shape)


RESULTS = ("q", "qd", "tau", "energy", "status", "t_end", "steps", "event_count", "event_time")
WINDOW = 256
"""Chunks that a cluster reduces at a time."""
builtin_range = range


class _Arrays(dict[str, Array]):
    """The arrays of a chunk, each read when it is asked for."""

    def __init__(self, path: str, where: Region) -> None:
        super().__init__()
        self._path, self._group = path, SweepStore(path).group()
        self._where = dict(zip(self._group.attrs["axes"], where, strict=True))

    def __missing__(self, name: str) -> Array:
        with refused(f"{self._path}: not the store of a sweep"):
            known = sorted(self._group.array_keys())
        if name not in known and f"{name}_values" not in known:
            raise ValueError(f"what: {name!r}, expected one of {', '.join(known)}")
        with refused(f"{self._path}: {name} cannot be read"):
            self[name] = self._read(name if name in known else f"{name}_values")
        return self[name]

    def _read(self, name: str) -> Array:
        array = self._group[name]
        axes = array.metadata.dimension_names or ()
        values = array[tuple(self._where.get(axis, slice(None)) for axis in axes)]
        # what was drawn has no axis of robots, and values of a grid have only their own
        missing = [k for k, axis in enumerate(self._where) if axis not in axes]
        values = np.expand_dims(values, missing)
        box = tuple(s.stop - s.start for s in self._where.values())
        further = values.shape[len(box):]
        return np.broadcast_to(values, (*box, *further)).reshape(self.rows, *further)

    @property
    def rows(self) -> int:
        """The trajectories of the chunk."""
        return math.prod(s.stop - s.start for s in self._where.values())


def _checked_extent(attributes: Mapping[str, Any], group: Any,
                    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of a study and of its chunks, as the attributes say and the arrays have it."""
    shape, chunks, axes = (attributes[name] for name in ("shape", "chunk_shape", "axes"))
    for name, numbers in (("shape", shape), ("chunk_shape", chunks)):
        if not isinstance(numbers, list) or not all(
                type(x) is int and 0 < x < 2**62 for x in numbers):
            raise ValueError(f"{name} {str(numbers)[:60]}, expected lengths")
    made = group["status"]
    if made.shape != tuple(shape) or made.chunks != tuple(chunks) or len(axes) != len(shape):
        raise ValueError(f"shape {shape} in chunks of {chunks}, expected {list(made.shape)} in "
                         f"chunks of {list(made.chunks)} as of the array status")
    labels = attributes["labels"]
    if not all(isinstance(name, str) for name in (*labels["robot"], attributes["study"])):
        raise ValueError("labels that are no names")
    return tuple(shape), tuple(chunks)


def _reduce_chunk(reduce: Callable[..., Any], path: str, what: str | Function,
                  where: Region, **more: Any) -> Any:
    arrays = _Arrays(path, where)
    values = np.asarray(arrays[what] if isinstance(what, str) else what(arrays), dtype=float)
    if values.shape[:1] != (arrays.rows,):
        raise ValueError(f"what: numbers of shape {values.shape}, expected ({arrays.rows}, ...) "
                         "for the trajectories of a chunk")
    return reduce(values, where, **more)


def _chunk_moments(x: Array, _where: Region) -> tuple[Array, Array, Array]:
    known = np.isfinite(x)
    n = known.sum(axis=0).astype(float)
    x = np.where(known, x, 0.0)
    mean = x.sum(axis=0) / np.maximum(n, 1.0)
    return n, mean, (np.where(known, x - mean, 0.0) ** 2).sum(axis=0)


def _chunk_bounds(x: Array, _where: Region) -> tuple[Array, Array]:
    known = np.isfinite(x)
    return (np.where(known, x, np.inf).min(axis=0), np.where(known, x, -np.inf).max(axis=0))


def _chunk_histogram(x: Array, _where: Region, edges: Array) -> Array:
    bins = len(edges) - 1
    flat = x.reshape(len(x), -1)
    each = np.broadcast_to(edges.reshape(bins + 1, -1), (bins + 1, flat.shape[1]))
    counts = [np.histogram(column[np.isfinite(column)], at)[0] if at[-1] > at[0] else
              np.bincount(np.zeros(int(np.isfinite(column).sum()), int), minlength=bins)
              for column, at in zip(flat.T, each.T, strict=True)]
    return np.stack(counts, axis=1).reshape(bins, *x.shape[1:])


def _chunk_columns(x: Array, _where: Region, columns: slice) -> tuple[Array, tuple[int, ...]]:
    return np.array(x.reshape(len(x), -1)[:, columns]), x.shape[1:]


def _nanquantile(x: Array, levels: Array) -> Array:
    """Quantiles of finite numbers, (levels, columns); nan where there are none."""
    found = np.full((len(levels), x.shape[1]), np.nan)
    for k, column in enumerate(x.T):
        known = column[np.isfinite(column)]
        if known.size:
            found[:, k] = np.quantile(known, levels)
    return found


def _chunk_worst(x: Array, where: Region, count: int) -> tuple[Array, Array]:
    size = np.abs(x.reshape(len(x), -1)).max(axis=1)
    known = np.flatnonzero(np.isfinite(size))
    best = known[np.argsort(-size[known], kind="stable")[:count]]
    return _indices(best, where), size[best]


def _chunk_failures(codes: Array, where: Region) -> Array:
    return _indices(np.flatnonzero(~np.isin(codes, ENDS)), where)


def _indices(flat: Array, where: Region) -> Array:
    """Places in the box from places in a chunk."""
    found = np.unravel_index(flat, [s.stop - s.start for s in where])
    return np.stack([k + s.start for k, s in zip(found, where, strict=True)], axis=1)
