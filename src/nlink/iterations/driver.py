"""Iterations on floats and NumPy arrays, one process at a time.

This is the reference that compiled lanes are tested against, and it runs what cannot be
compiled: a right-hand side or an event function may be any Python function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from nlink.iterations.iteration import Iteration, State, WithOutputs

Array = np.ndarray
NO_TIMES = np.empty(0)


@dataclass
class Outcome:
    """How one process ended."""

    out: Array
    """A row for each output time; nan where none was reached."""
    state: State
    status: int
    """1 if all outputs were reached, else what the iteration says."""
    log: list[tuple[float, int, Array]] = field(default_factory=list)
    """Entries of the log: when, which mark, and the column."""


def drive(iteration: Iteration, given: Mapping[str, Any], start: Mapping[str, Any],
          times: Array = NO_TIMES, *, dense: bool = False) -> Outcome:
    """Run a process until its status says that it has ended, or all outputs are written, if
    there are any.

    `start` are the cells and columns that do not begin as the layout says, y among them; `given`
    the numbers and functions that the text asks for; `discrete` of the elements, the last ones,
    only jump. `dense` says that outputs lie within steps, else steps stop at each.
    """
    y = np.array(start["y"], dtype=float)
    layout, size = iteration.layout, len(y)
    cells = {**layout.cells, **dict.fromkeys(layout.brief_cells, 0.0)} | dict(start)
    state = State({name: np.float64(cells[name]) for name in cells if name != "y"} | {
        name: np.zeros(size) for name in (*layout.columns, *layout.brief_columns)} | {"y": y})
    discrete, outputs = given.get("discrete", 0), iteration if isinstance(
        iteration, WithOutputs) else None
    ends = {"begin": times[0], "final": times[-1]} if outputs else {}
    space = SimpleNamespace(**{
        "share": 1.0 / (size - discrete), "index": np.arange(size), "discrete": discrete,
        "continuous": size - discrete, **ends, **given})
    if "restore" not in given:
        space.restore = lambda time, column: column
    if "coordinate_rates" not in given and "rates" in given:
        space.coordinate_rates = space.rates
    outcome = Outcome(np.full((len(times), size), np.nan), state, 0)
    outcome.out[:1] = y
    following = 1
    with np.errstate(all="ignore"):
        while not outcome.status:
            if outputs:
                space.due = times[following]
                space.stop = times[-1] if dense else space.due
            state = iteration.step(state, space)
            if layout.marks and state["marked"] > 0:
                outcome.log += [(float(state["mark_time"]), k, np.array(state["mark"]))
                                for k, name in enumerate(layout.marks) if state[name] > 0]
            while outputs and following < len(times) and times[following] <= state["t"]:
                space.due = times[following]
                outcome.out[following] = outputs.output(state, space)
                following += 1
            outcome.status = int(state["status"]) or int(following == len(times))
    outcome.state = state
    return outcome
