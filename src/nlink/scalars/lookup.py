"""Tables: functions given by their values, which any scalar can look up.

A table is one more primitive of the graph, so a controller may depend on a thousand waypoints and
stay as small as if there were two: a kernel loads the value, whatever the table's size.

>>> steps = LookupTable([1.0, 4.0, 9.0])
>>> steps(1.7), steps(-5), steps(100.0)
(4.0, 1.0, 9.0)
"""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from nlink.scalars.arrays import single
from nlink.scalars.primitives import Scalar, c_number

PREFIX = "table_"
TABLES: WeakValueDictionary[str, LookupTable] = WeakValueDictionary()
"""Tables in use, by the names of their operations; equal ones are one."""


class LookupTable:
    """values[k] for k <= x < k + 1, the first value before and the last behind; nan for nan.

    It has the columns of a `Primitive`, so that what reads that table reads this row too.
    """

    arity, truths, is_truth, commutes, casadi = 1, 0, False, False, "pw_const"
    counts = None

    def __init__(self, values: Any) -> None:
        self.values = single("values", values, (None,), finite=False)
        if not len(self.values):
            raise ValueError("values: none, expected at least one")
        self.values.flags.writeable = False
        self.name = PREFIX + sha256(self.values.tobytes()).hexdigest()[:32]
        self.c = f"nlink_{self.name}({{}})"

    def __repr__(self) -> str:
        return f"<table of {len(self.values)} values {self.name[len(PREFIX):][:8]}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LookupTable) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def apply(self, x: Scalar) -> Scalar:
        """The value on any scalar."""
        table = getattr(x, "table", None)
        return self.floats(x) if table is None else table(self)

    __call__ = apply

    def floats(self, x: Scalar) -> Scalar:
        """The value on numbers and arrays."""
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

    def derivatives(self, x: Scalar, *, result: Scalar) -> tuple[Scalar, ...]:
        return (0.0,)

    def llvm(self, block: Any, x: str) -> str:
        return block.look_up(self, x)

    def wasm(self, address: int) -> str:
        """Words of WebAssembly, the values being at an address in memory."""
        last = len(self.values) - 1
        return (f"{{0}} {{0}} f64.const 0 f64.max f64.const {last} f64.min i32.trunc_sat_f64_s "
                f"i32.const 3 i32.shl f64.load {address} {{0}} {{0}} f64.ne select")

    @property
    def c_helper(self) -> str:
        values = ", ".join(map(c_number, self.values.tolist()))
        last = len(self.values) - 1
        return (f"static double nlink_{self.name}(double x)\n{{\n"
                f"    static const double values[] = {{{values}}};\n"
                f"    return x != x ? x : values[x > 0.0 ? x < {last}.0 ? (int)x : {last} : 0];"
                "\n}\n")
