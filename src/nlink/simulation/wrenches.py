"""Wrenches on links in a simulation: pushes, thrust, wind, a tool that presses.

A wrench is six numbers, (moment, force) about the origin of a link's frame, in world axes or in
those of the link. It is known as numbers, which each trajectory may have of its own; as a table on
the output times, linear in between; or as a function of t, q and qd that is traced. Where qd is
integrated they go along with the bias forces of forward dynamics, which costs least. Elsewhere, and
for whatever decides modes, they become joint forces J^T f by the inward sweep of inverse dynamics
[Saha99, eq. 30].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nlink.scalars.arrays import batch
from nlink.scalars.functions import Scalar, Scalars

if TYPE_CHECKING:
    from nlink.robot import Robot

Array = np.ndarray
AXES = ("world", "link")
WIDTH = 6
"""Numbers of a wrench."""


@dataclass(frozen=True)
class Wrenches:
    """An argument `f_ext` whose wrenches are in the axes of "world" or of each "link".

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> thrust = nlink.simulation.Wrenches({"link2": [0, 0, 0, 0, 5.0, 0]}, axes="link")
    >>> nlink.simulate(robot, t=0.1, f_ext=thrust).status
    'done'
    """

    f_ext: Any
    axes: str = "world"

    def __post_init__(self) -> None:
        if self.axes not in AXES:
            raise ValueError(f"axes: {self.axes!r}, expected 'world' or 'link'")


@dataclass(frozen=True)
class AppliedWrenches:
    """Which links get wrenches from outside, and where these come from: this decides programs."""

    numbers: tuple[int, ...] = ()
    """Links whose wrench never changes: six numbers each in what varies."""
    table: tuple[int, ...] = ()
    """Links with six columns each of the table."""
    functions: tuple[tuple[int | None, Callable[..., Any]], ...] = ()
    """Functions of t, q, qd and the parameters that vary, of one link or of all."""
    axes: str = "world"

    @property
    def columns(self) -> int:
        """Columns of the table."""
        return WIDTH * len(self.table)

    def on_links(self, links: int, numbers: Scalars, row: Scalars, t: Scalar, q: Array,
                 qd: Array, *parameters: Any) -> list[Scalar]:
        """Six numbers for each link, zeros where nothing acts."""
        found: list[Scalar] = [0.0] * (WIDTH * links)

        def put(link: int, wrench: Scalars) -> None:
            found[WIDTH * link:WIDTH * (link + 1)] = list(wrench)

        for names, values in ((self.numbers, numbers), (self.table, row)):
            for k, link in enumerate(names):
                put(link, values[WIDTH * k:WIDTH * (k + 1)])
        for link, function in self.functions:
            count = links if link is None else 1
            given = list(np.asarray(function(t, q, qd, *parameters), dtype=object).ravel())
            if len(given) != WIDTH * count:
                shape = f"({links}, 6)" if link is None else "6"
                raise ValueError(f"f_ext: the function gave {len(given)} values, expected {shape} "
                                 "numbers")
            for k in range(count):
                put(k if link is None else link, given[WIDTH * k:WIDTH * (k + 1)])
        return found


class GivenWrenches(NamedTuple):
    """An argument `f_ext`, checked."""

    applied: AppliedWrenches | None
    numbers: Array | None
    """(..., 6 wrenches): those that never change."""
    table: Array | None
    """(..., times, 6 wrenches)"""


def given_wrenches(robot: Robot, f_ext: Any) -> GivenWrenches:
    """The argument `f_ext` of a system."""
    axes = "world"
    if isinstance(f_ext, Wrenches):
        f_ext, axes = f_ext.f_ext, f_ext.axes
    if f_ext is None:
        return GivenWrenches(None, None, None)
    if callable(f_ext):
        return GivenWrenches(AppliedWrenches(functions=((None, f_ext),), axes=axes), None, None)
    numbers: dict[int, Array] = {}
    table: dict[int, Array] = {}
    functions: list[tuple[int | None, Callable[..., Any]]] = []
    for link, given in _by_link(robot, f_ext):
        if callable(given):
            functions.append((link, given))
        elif given.ndim == 1:
            numbers[link] = given
        else:
            table[link] = given
    applied = AppliedWrenches(tuple(numbers), tuple(table), tuple(functions), axes)
    return GivenWrenches(applied, *(_joined(each) if each else None for each in (numbers, table)))


def _by_link(robot: Robot, f_ext: Any) -> list[tuple[int, Any]]:
    """Links, and their wrenches as a function, (6,) or (..., times, 6)."""
    if isinstance(f_ext, Mapping):
        return [(link_number(robot, name), given if callable(given) else _expected(
            f"f_ext: {name!r}", given, (WIDTH,))) for name, given in f_ext.items()]
    links = len(robot.links)
    values = _expected("f_ext", f_ext, (links, WIDTH))
    return [(k, np.ascontiguousarray(values[..., k, :])) for k in range(links)
            if values[..., k, :].any()]


def _expected(name: str, given: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Numbers of a shape, or rows of them at the output times."""
    values = batch(name, given, ())
    if values.shape == shape or (values.ndim > len(shape) and values.shape[-len(shape):] == shape):
        return values
    raise ValueError(f"{name}: shape {values.shape}, expected {shape}, or (..., times, "
                     f"{', '.join(map(str, shape))}): a wrench at each output time")


def wrench_numbers(robot: Robot, given: Any) -> tuple[tuple[int, ...], Array]:
    """Wrenches that differ between trajectories: {link: (..., 6)} or (..., links, 6)."""
    if isinstance(given, Mapping):
        columns = {link_number(robot, name): batch(f"vary: f_ext: {name!r}", x, (WIDTH,))
                   for name, x in given.items()}
        if not columns:
            raise ValueError("vary: f_ext: no links, expected {link: wrenches}")
        return tuple(columns), _joined(columns)
    values = batch("vary: f_ext", given, (len(robot.links), WIDTH))
    return tuple(range(len(robot.links))), values.reshape(*values.shape[:-2], -1)


def _joined(columns: Mapping[int, Array]) -> Array:
    """Wrenches side by side."""
    try:
        shape = np.broadcast_shapes(*(x.shape[:-1] for x in columns.values()))
    except ValueError:
        raise ValueError("f_ext: leading shapes of wrenches do not broadcast: " + ", ".join(
            str(x.shape) for x in columns.values())) from None
    return np.concatenate([np.broadcast_to(x, (*shape, WIDTH)) for x in columns.values()], axis=-1)


def link_number(robot: Robot, name: Any) -> int:
    """The place of a link, given by its name or its number from 1."""
    names = [link.name for link in robot.links]
    if isinstance(name, int | np.integer) and 1 <= name <= len(names):
        return int(name) - 1
    if name not in names:
        raise ValueError(f"f_ext: {name!r}, expected a link of {robot.name}: {', '.join(names)}")
    return names.index(str(name))
