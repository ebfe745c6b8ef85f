"""Tables: functions given by their values, which any scalar can look up.

A table is one more primitive of the graph, so a law may depend on a thousand waypoints and
stay as small as if there were two: a kernel loads the value, whatever the table's size.

>>> steps = Table([1.0, 4.0, 9.0])
>>> steps(1.7), steps(-5), steps(100.0)
(4.0, 1.0, 9.0)
"""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from nlink.scalars.functions import Scalar

PREFIX = "table_"
TABLES: WeakValueDictionary[str, Table] = WeakValueDictionary()
"""Tables in use, by the names of their operations; equal ones are one."""


class Table:
    """values[k] for k <= x < k + 1, the first value before and the last behind; nan for nan."""

    arity, commutes = 1, False

    def __init__(self, values: Any) -> None:
        self.values = np.array(values, dtype=float)
        if self.values.ndim != 1 or not len(self.values):
            raise ValueError(f"values: shape {self.values.shape}, expected (k,), k >= 1")
        self.values.flags.writeable = False
        self.name = PREFIX + sha256(self.values.tobytes()).hexdigest()[:32]

    def __call__(self, x: Scalar) -> Scalar:
        table = getattr(x, "table", None)
        return self.apply(x) if table is None else table(self)

    def apply(self, x: Scalar) -> Scalar:
        """The meaning of the operation, on numbers and arrays."""
        last = len(self.values) - 1
        if isinstance(x, (int, float)):
            return math.nan if math.isnan(x) else float(self.values[int(min(max(x, 0.0), last))])
        try:
            x = np.asarray(x, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(f"a {type(x).__name__} cannot be looked up in a table, expected a "
                            "number, an array of numbers or a graph node") from None
        at = np.clip(np.where(np.isnan(x), 0.0, x), 0.0, last).astype(int)
        return np.where(np.isnan(x), x, self.values[at])
