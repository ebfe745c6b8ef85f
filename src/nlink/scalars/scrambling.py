"""A number between 0 and 1 that looks random, from the bits of two others.

    z = bits(a) K + bits(b) mod 2^64,   then z is mixed as in SplitMix64 [Steele, Lea, Flood 2014]

and (z / 2^12 rounded down + 1/2) 2^-52 is the result. It is a function and keeps nothing, so that
noise drawn by it depends on its arguments alone: on a seed, a trajectory, the number of a
sample. Integers only, so every implementation gives the same bits.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Any

import numpy as np

_K, _M1, _M2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ROUNDS = ((30, _M1), (27, _M2), (31, 1))
_ALL = 2**64 - 1


def floats(a: float, b: float) -> float:
    """The value for two numbers; nan if one is."""
    if a != a or b != b:
        return math.nan
    x, y = (struct.unpack("<Q", struct.pack("<d", value))[0] for value in (a, b))
    z = (x * _K + y) & _ALL
    for shift, factor in _ROUNDS:
        z = ((z ^ (z >> shift)) * factor) & _ALL
    return ((z >> 12) + 0.5) * 2.0**-52


def arrays(a: Any, b: Any) -> Any:
    """The values for arrays, which broadcast."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    x, y = (np.atleast_1d(np.ascontiguousarray(value)).view(np.uint64) for value in (a, b))
    z = x * np.uint64(_K) + y
    for shift, factor in _ROUNDS:
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    found = ((z >> np.uint64(12)).astype(float) + 0.5) * 2.0**-52
    return np.where(np.isnan(a) | np.isnan(b), np.nan, found.reshape(a.shape))[()]


def llvm(block: Any, a: str, b: str) -> str:
    """The same in LLVM."""

    def whole(value: int) -> str:
        return block.int(value - 2**64 if value >= 2**63 else value)

    z = block.bits("add", block.bits("mul", block.as_bits(a), whole(_K)), block.as_bits(b))
    for shift, factor in _ROUNDS:
        z = block.bits("xor", z, block.bits("lshr", z, whole(shift)))
        z = z if factor == 1 else block.bits("mul", z, whole(factor))
    found = block.to_real(block.bits("lshr", z, whole(12)))
    found = block.mul(block.add(found, block.const(0.5)), block.const(2.0**-52))
    unknown = block.compare("uno", a, b)
    return block.select(unknown, block.const(math.nan), found)


def expression(sympy: Any, a: Any, b: Any) -> Any:
    """A function of SymPy's that is known where its arguments are."""
    return _function(sympy)(a, b)


@cache
def _function(sympy: Any) -> Any:
    class scramble(sympy.Function):
        @classmethod
        def eval(cls, a: Any, b: Any) -> Any:
            return sympy.Float(floats(float(a), float(b))) if a.is_Number and b.is_Number else None

        def _ccode(self, printer: Any) -> str:
            return f"nlink_scramble({', '.join(map(printer._print, self.args))})"

    return scramble


C = f"""static double nlink_scramble(double a, double b)
{{
    uint64_t x, y, z;
    if (a != a || b != b) return NAN;
    memcpy(&x, &a, 8);
    memcpy(&y, &b, 8);
    z = x * UINT64_C({_K}) + y;
    z = (z ^ (z >> 30)) * UINT64_C({_M1});
    z = (z ^ (z >> 27)) * UINT64_C({_M2});
    z = z ^ (z >> 31);
    return ((double)(int64_t)(z >> 12) + 0.5) * {2.0**-52!r};
}}
"""

_WASM_ROUNDS = " ".join(
    f"local.get 2 local.get 2 i64.const {shift} i64.shr_u i64.xor "
    f"i64.const {factor - 2**64 if factor >= 2**63 else factor} i64.mul local.set 2"
    for shift, factor in _ROUNDS)
WASM = (f"local.get 0 i64.reinterpret_f64 i64.const {_K - 2**64} i64.mul "
        f"local.get 1 i64.reinterpret_f64 i64.add local.set 2 {_WASM_ROUNDS} "
        f"f64.const nan local.get 2 i64.const 12 i64.shr_u f64.convert_i64_s f64.const 0.5 f64.add "
        f"f64.const {2.0**-52!r} f64.mul "
        "local.get 0 local.get 0 f64.ne local.get 1 local.get 1 f64.ne i32.or select")
"""The same in words of WebAssembly, of parameters 0 and 1 and an integer, the local 2."""
