"""The second kind of text: what goes on until it is done, on columns and cells.

A sweep goes along the tree; an iteration goes along time, or towards a solution. Its state has
named *cells*, a scalar each, and *columns*, a vector of the size of the problem each. `step`
makes one attempt and gives the next state; whether the attempt is accepted is a `where`, never
an `if`. Columns know `+ - * /`, the functions of `nlink.scalars`, and the reductions below;
a column beside a cell means that cell for every element.

Two drivers run a text. `iterations.driver` runs it on floats and NumPy arrays, one process at a
time. `Recorder` (in `iterations.recording`) runs it once on graph nodes and keeps statements,
which the compiler turns into lanes: many processes side by side, each with its own state.

What a process (one trajectory, one search) remembers between calls of compiled code is its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nlink.scalars.functions import Scalar, less_equal

Column = Any
"""A vector of the problem's size: a NumPy array, or a node that stands for one element."""


class State(Mapping[str, Any]):
    """Cells and columns by name. A state is never changed, only replaced."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", dict(values))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"the state has no {name!r}, only {', '.join(self)}") from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: a state is replaced, not changed")

    def replace(self, **changes: Any) -> State:
        """The same state but for some cells and columns."""
        unknown = changes.keys() - self._values.keys()
        if unknown:
            raise KeyError(f"the state has no {sorted(unknown)[0]!r}")
        return State(self._values | changes)


@dataclass(frozen=True)
class Layout:
    """What the state of an iteration consists of."""

    columns: tuple[str, ...]
    """Kept from step to step, and in the record of a process that waits."""
    cells: Mapping[str, float]
    """The same for cells, with their values before the first step."""
    brief_columns: tuple[str, ...] = ()
    """Left by a step for the output after it, and forgotten then."""
    brief_cells: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    """Cells; where the brief cell `marked` is positive after a step, each of them that is
    positive is an entry of the log, with the time `mark_time` and the column `mark`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a process, besides what its layout says."""

    size: int
    """Elements of a column."""
    held: int = 0
    """Values that the inputs hold from one output time to the next, the two times not counted."""
    own: int = 0
    """Values of a process's own that never change; they end its inputs and its record."""
    coordinates: int = 0
    """How many elements, the first ones, are coordinates rather than velocities."""
    discrete: int = 0
    """How many elements, the last ones, change at jumps only: their rates are zero, and they
    do not count where errors are measured."""

    @property
    def continuous(self) -> int:
        """Elements that are not discrete."""
        return self.size - self.discrete

    @property
    def timed(self) -> int:
        """Inputs that change: the output times before and after t, and the held values."""
        return self.held + 2 if self.held else 0

    @property
    def inputs(self) -> int:
        """Inputs of the programs that are called, besides time and state."""
        return self.timed + self.own


class Iteration(Protocol):
    """A text that drivers run.

    1. `layout` names the state. There is a brief cell `status`, zero while the process runs.
    2. `step(state, given)` is one attempt. `given` has the numbers that stay, by whatever names
       the text gives them (tolerances, bounds), and the programs that may be called.
    """

    layout: Layout

    def step(self, state: State, given: Any, /) -> State: ...


@runtime_checkable
class WithOutputs(Iteration, Protocol):
    """An iteration that leaves rows at given times on its way.

    1. There is a cell `t`, the time or count that outputs are due by.
    2. `given` also has `due`, the time of the next output, `stop`, where steps must end, and
       `begin` and `final`, the first time and the last.
    3. `output(state, given)` is the column to be written for the time `given.due`.
    """

    def output(self, state: State, given: Any, /) -> Column: ...


def totals(*columns: Column) -> tuple[Scalar, ...]:
    """The sums over the elements of columns, in one pass."""
    recorder = _recorder(columns)
    if recorder is not None:
        return recorder.reduce("sum", columns)
    sums = [np.sum(x) for x in columns]  # of an array of traced values, one of these
    return tuple(x if hasattr(x, "graph") else np.float64(x) for x in sums)


def total(column: Column) -> Scalar:
    """The sum over the elements of a column."""
    return totals(column)[0]


def largest(column: Column) -> Scalar:
    """The largest element of a column of numbers >= 0; nan is passed over."""
    recorder = _recorder((column,))
    if recorder is not None:
        return recorder.reduce("max", (column,))[0]
    return np.fmax.reduce(column, initial=0.0)


def kept(column: Column) -> Column:
    """A column that is computed once, in the next pass over the elements, and read after."""
    recorder = _recorder((column,))
    return column if recorder is None else recorder.keep(column)


def when(truth: Scalar, state: State, change: Callable[[State], State]) -> State:
    """`change(state)` where `truth` holds, and the state as it was elsewhere.

    `change` need not look at `truth`, nor at that of a `when` around it: whatever it does, cells
    and columns stay the same where one of them does not hold. A driver may skip it.
    """
    recorder = _recorder((truth,))
    if recorder is not None:
        return recorder.when(truth, state, change)
    return change(state) if truth else state


def repeat(most: int, cells: Sequence[str], wanted: Callable[[State], Any], state: State,
           change: Callable[[State], State]) -> State:
    """`change` again and again, at most so often, where and while `wanted(state)` holds.

    `wanted` is a truth about some of `cells`, the cells that `change` changes besides columns. As
    with `when`, nothing changes where it does not hold.
    """
    recorder = _recorder(tuple(state.values()))
    if recorder is not None:
        return recorder.repeat(most, cells, wanted, state, change)
    for _ in range(most):
        if not wanted(state):
            break
        state = change(state)
    return state


def equal(a: Scalar, b: Scalar) -> Any:
    """Whether two numbers are equal: a truth; nan equals nothing."""
    return less_equal(a, b) & less_equal(b, a)


def _recorder(values: tuple[Any, ...]) -> Any:
    for value in values:
        graph = getattr(value, "graph", None)
        if graph is not None:
            return graph
    return None


RECORD_HEAD = ("status", "next", "events", "fill")
"""How a process's record begins, eight bytes each; its cells and columns follow.

`next` is the number of the next output, `events` counts all log entries so far and `fill` those
of them that the log still holds.
"""


def record_type(layout: Layout, size: int, own: int = 0) -> np.dtype:
    """The state that a layout names, its columns of so many elements, and `own` numbers that no
    step changes."""
    return _record_type(tuple(layout.cells), tuple(layout.columns), size, own)


@lru_cache(64)
def _record_type(cells: tuple[str, ...], columns: tuple[str, ...], size: int, own: int) -> np.dtype:
    return np.dtype([*((name, "i8") for name in RECORD_HEAD), *((name, "f8") for name in cells),
                     *((name, "f8", (size,)) for name in columns), ("own", "f8", (own,))])


def new_records(count: int, layout: Layout, size: int, own: int = 0) -> np.ndarray:
    """Records of processes that have not started."""
    records = np.zeros(count, record_type(layout, size, own))
    for name, value in layout.cells.items():
        records[name] = value
    return records
