"""Records: what a process (one trajectory, one search) remembers between calls of compiled code."""

from __future__ import annotations

import numpy as np

from nlink.iterations.text import Layout

RECORD_HEAD = ("status", "next", "events", "fill")
"""How a process's record begins, eight bytes each; its cells and columns follow.

`next` is the number of the next output, `events` counts all log entries so far and `fill` those
of them that the log still holds.
"""


def record_type(layout: Layout, size: int, own: int = 0) -> np.dtype:
    """The state that a layout names, its columns of so many elements, and `own` numbers that no
    step changes."""
    return np.dtype([*((name, "i8") for name in RECORD_HEAD),
                     *((name, "f8") for name in layout.cells),
                     *((name, "f8", (size,)) for name in layout.columns), ("own", "f8", (own,))])


def new_records(count: int, layout: Layout, size: int, own: int = 0) -> np.ndarray:
    """Records of processes that have not started."""
    records = np.zeros(count, record_type(layout, size, own))
    for name, value in layout.cells.items():
        records[name] = value
    return records
