"""Looking up a table in machine code: an index for each lane, then a load for each lane."""

from __future__ import annotations

from nlink.backends.llvm.ir import Lanes, number
from nlink.scalars.lookup import LookupTable

LARGEST = float(2**31)
"""No table is longer; beyond it every index is the last."""


def integer_parts(lanes: Lanes, x: str) -> str:
    """The integers below x, within 0 and LARGEST, 0 for nan: what tables of any size need."""
    zero, most = lanes.const(0.0), lanes.const(LARGEST)
    x = lanes.select(lanes.compare("ogt", x, zero), x, zero)
    x = lanes.select(lanes.compare("olt", x, most), x, most)
    return lanes.to_integer(x)


def look_up(lanes: Lanes, table: LookupTable, x: str, place: str) -> str:
    """The values at the places, nan where x is."""
    f, n = lanes.function, len(table.values)
    values = ", ".join(f"double {number(v)}" for v in table.values.tolist())
    f.constants[table.name] = f"@{table.name} = internal constant [{n} x double] [{values}]"
    last = lanes.int(n - 1)
    below = f.let(f"icmp slt {lanes.integer} {place}, {last}")
    place = f.let(f"select {lanes.truth} {below}, {lanes.integer} {place}, "
                  f"{lanes.integer} {last}")
    found = "poison"
    for k in range(lanes.width):
        at = place if lanes.width == 1 else f.let(
            f"extractelement {lanes.integer} {place}, i32 {k}")
        value = f.load("double", f.let(f"getelementptr double, ptr @{table.name}, i64 {at}"))
        found = value if lanes.width == 1 else f.let(
            f"insertelement {lanes.real} {found}, double {value}, i32 {k}")
    return lanes.select(lanes.compare("uno", x, x), x, found)
