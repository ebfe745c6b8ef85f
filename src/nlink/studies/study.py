"""Study: what a sweep computes, as a value that can be sent to workers.

The simulations of a study have places in a box of labelled axes: the robots, if there are
several, and then the axes of a grid, or the trajectories of a sample or a table. The box is cut
into chunks, and chunk k is a function of the study and of k alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nlink.model.coordinates import coordinate_units, rate_units
from nlink.simulation.control_scheme import Controller
from nlink.simulation.variation import Payload
from nlink.storage.run_store import stored_robot
from nlink.studies.drawing import DRAWN, Distribution, unit_points

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
STATES = ("q0", "qd0")
"""What varies besides the keys of `simulate`'s vary."""
KEEP = ("q", "qd", "tau", "energy")
"""What of a trajectory may be kept."""
TRAJECTORY = "trajectory"


@dataclass(frozen=True)
class StoredArray:
    """An array of a store: the axes of the study, of which a chunk writes its own part, and
    further ones, of which it writes all."""

    name: str
    axes: tuple[str, ...]
    further: tuple[tuple[str, int], ...] = ()
    dtype: str = "float64"
    fill: float | int = math.nan
    units: str = ""


@dataclass(frozen=True)
class Study:
    """What varies, how it is simulated and what is kept; made by `read_study` and `nlink.sweep`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from nlink.studies import read_study
    >>> path = Path(tempfile.mkdtemp()) / "study.toml"
    >>> _ = path.write_text('robot = "double_pendulum"\\nt = 0.1\\nvary = {payload = [0.0, 1.0]}')
    >>> study = read_study(path)
    >>> study.axes, study.trajectories
    (('payload',), 2)
    """

    robots: Mapping[str, str]
    """Descriptions as TOML, by their names."""
    controllers: Mapping[str, Controller | Array | None]
    """Controllers, or joint forces that never change, by the names of robots."""
    q0: Array
    qd0: Array
    times: Array
    final: bool
    """Whether only the last state is kept."""
    sample: str
    varied: Mapping[str, Distribution | Array]
    """Distributions; or arrays (values, width), of a grid's axes or a table's columns."""
    payload: Payload | None
    """Where payloads are held, and their mass centres and inertias."""
    count: int
    """Trajectories of a sample or a table."""
    seed: int
    keep: tuple[str, ...]
    chunk: int
    """The most trajectories of a chunk."""
    options: Mapping[str, Any]
    """Further arguments of `simulate`."""
    events: Any = None
    f_ext: Any = None
    """Wrenches on links, the same in all simulations."""
    event_names: tuple[str, ...] = ()
    reproducible: bool = False
    digest: str = ""
    """A digest of all that decides the numbers."""
    source: str = ""
    """A digest of nlink's own source."""
    first_row: int = field(default=0, compare=False)
    """The number of the first row of a table that was cut to one chunk."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes along which there are simulations."""
        robots = ("robot",) if len(self.robots) > 1 else ()
        return robots + (tuple(self.varied) if self.sample == "grid" else (TRAJECTORY,))

    @property
    def shape(self) -> tuple[int, ...]:
        robots = (len(self.robots),) if len(self.robots) > 1 else ()
        return robots + (tuple(len(self.values(name)) for name in self.varied)
                         if self.sample == "grid" else (self.count,))

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Whole axes from the last one on, a part of one, and single places of those before."""
        sizes: list[int] = []
        left = self.chunk
        for axis, length in zip(reversed(self.axes), reversed(self.shape), strict=True):
            sizes.append(1 if axis == "robot" else min(length, left))
            left //= sizes[-1]
        return tuple(reversed(sizes))

    @property
    def chunk_grid(self) -> tuple[int, ...]:
        """Chunks along each axis."""
        return chunk_grid(self.shape, self.chunk_shape)

    @property
    def chunks(self) -> int:
        return math.prod(self.chunk_grid)

    @property
    def trajectories(self) -> int:
        return math.prod(self.shape)

    def region(self, chunk: int) -> tuple[slice, ...]:
        """The places of a chunk in the box."""
        return region(chunk, self.shape, self.chunk_shape)

    def values(self, name: str) -> Array:
        """All values of a grid's axis or a table's column, (values, width)."""
        given = self.varied[name]
        assert isinstance(given, np.ndarray)
        return given

    def cut(self, chunk: int) -> Study:
        """The study with only the part of a table that one chunk needs, to be sent to a worker."""
        if self.sample != "table":
            return self
        rows = self.region(chunk)[-1]
        return replace(self, first_row=rows.start, varied={
            name: self.values(name)[rows] for name in self.varied})

    def drawn(self, chunk: int) -> dict[str, Array]:
        """What varies in a chunk, (trajectories, width) each, places in C order."""
        region = self.region(chunk)
        if self.sample == "grid":
            lengths = [s.stop - s.start for s in region]
            if "robot" in self.axes:
                region, lengths = region[1:], lengths[1:]
            places = np.indices(lengths).reshape(len(lengths), math.prod(lengths))
            return {name: self.values(name)[s.start + k] for name, s, k in zip(
                self.varied, region, places, strict=True)}
        rows = region[-1]
        if self.sample == "table":
            first = self.first_row
            return {name: self.values(name)[rows.start - first:rows.stop - first]
                    for name in self.varied}
        assert self.sample in DRAWN
        kinds: dict[str, Any] = dict(self.varied)
        sizes = [kind.size for kind in kinds.values()]
        number = rows.start // self.chunk_shape[-1]
        u = unit_points(self.sample, sum(sizes), self.seed, number, rows.start, rows.stop)
        return {name: kind.quantile(part) for (name, kind), part in zip(
            kinds.items(), np.split(u, np.cumsum(sizes)[:-1], axis=1), strict=True)}

    def robot_of(self, chunk: int) -> tuple[str, Robot, Controller | Array | None]:
        """The robot of a chunk, by its name, and its controller."""
        index = self.region(chunk)[0].start if len(self.robots) > 1 else 0
        name = list(self.robots)[index]
        return name, stored(self.robots[name], self.reproducible), self.controllers[name]

    def arrays(self) -> list[StoredArray]:
        """The arrays of the store that chunks write."""
        robot = stored(next(iter(self.robots.values())), self.reproducible)
        time = () if self.final else (("time", len(self.times)),)
        ends = {"q": (("coordinate", robot.nq),), "qd": (("rate", robot.n),),
                "tau": (("rate", robot.n),), "energy": ()}
        units = {"energy": "J"}
        found = [StoredArray(name, self.axes, (*time, *ends[name]), units=units.get(name, ""))
                 for name in self.keep]
        found += [StoredArray("status", self.axes, dtype="int8", fill=-1),
                  StoredArray("t_end", self.axes, units="s"),
                  StoredArray("steps", self.axes, dtype="int32", fill=-1)]
        if self.event_names:
            events = (("event", len(self.event_names)),)
            found += [StoredArray("event_count", self.axes, events, "int32", -1),
                      StoredArray("event_time", self.axes, events, units="s")]
        return found + self.varied_arrays(robot)

    def varied_arrays(self, robot: Robot) -> list[StoredArray]:
        """The arrays of numbers drawn or read from a table; those of a grid are labels of its axes
        instead."""
        if self.sample == "grid":
            return []
        return [StoredArray(name, (TRAJECTORY,), (number_axis(name, width, robot),) if width > 1
                            else ()) for name, width in self.widths().items()]

    def widths(self) -> dict[str, int]:
        """The number of values of each name for one trajectory."""
        return {name: given.shape[1] if isinstance(given, np.ndarray) else given.size
                for name, given in self.varied.items()}

    def labels(self) -> dict[str, Any]:
        """Names and units along axes, for attributes."""
        robot = stored(next(iter(self.robots.values())), self.reproducible)
        d = robot.description
        return {"robot": list(self.robots), "coordinate": list(robot.q_names),
                "rate": list(robot.qd_names), "event": list(self.event_names),
                "q_unit": list(coordinate_units(d)),
                "qd_unit": [f"{unit}/s" for unit in rate_units(d)]}


def chunk_grid(shape: Sequence[int], chunk_shape: Sequence[int]) -> tuple[int, ...]:
    """Chunks along each axis of a box."""
    return tuple(-(-length // size) for length, size in zip(shape, chunk_shape, strict=True))


def region(chunk: int, shape: Sequence[int], chunk_shape: Sequence[int]) -> tuple[slice, ...]:
    """The places of a chunk in a box.

    >>> region(3, (2, 5), (1, 3))
    (slice(1, 2, None), slice(3, 5, None))
    """
    at = np.unravel_index(chunk, chunk_grid(shape, chunk_shape))
    return tuple(slice(int(k) * size, min((int(k) + 1) * size, length)) for k, size, length
                 in zip(at, chunk_shape, shape, strict=True))


@lru_cache(32)
def stored(text: str, _reproducible: bool) -> Robot:
    """A robot, and with it the kernels that were made for it; other ones if reproducible."""
    return stored_robot(text)


def number_axis(name: str, width: int, robot: Robot) -> tuple[str, int]:
    """The axis along which a trajectory has several numbers of one name."""
    if name == "q0":
        return "coordinate", width
    return ("rate" if width == robot.n and name != "p" else f"{name}_number"), width
