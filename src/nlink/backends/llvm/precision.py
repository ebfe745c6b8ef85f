"""How wide numbers are: a property of machine code, of which no algorithm knows.

Programs and their graphs have numbers without a width. A kernel is written for one of the two
precisions, and its arrays, constants, tables and scratch memory are of it throughout.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Precision:
    """One of the types of numbers that machine code computes with."""

    dtype: str
    """NumPy's name."""
    real: str
    integer: str
    """LLVM's names of the number, and of the integer of as many bits."""
    suffix: str
    """The end of the names of LLVM's intrinsics."""
    size: int
    """Bytes of a number."""
    digits: int
    """Bits of a significand."""
    numpy_number: int
    """NumPy's number of the type."""

    def nearest(self, value: float) -> float:
        """The number nearest to a double; beyond the largest one it is infinite."""
        return value if self.size == 8 else ctypes.c_float(value).value

    def literal(self, value: float) -> str:
        """A constant in LLVM's IR, which has floats by the bits of their doubles."""
        return f"0x{struct.unpack('<Q', struct.pack('<d', self.nearest(value)))[0]:016X}"

    def to_bytes(self, value: float) -> bytes:
        """A number as it lies in memory."""
        return struct.pack("<d" if self.size == 8 else "<f", self.nearest(value))


FLOAT64 = Precision("float64", "double", "i64", "f64", 8, 53, 12)
FLOAT32 = Precision("float32", "float", "i32", "f32", 4, 24, 11)
PRECISIONS = {each.dtype: each for each in (FLOAT64, FLOAT32)}
"""By NumPy's names."""
