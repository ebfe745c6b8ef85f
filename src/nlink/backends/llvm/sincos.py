"""Sine and cosine together, in the IR.

|x| is reduced to y = |x| - j pi/2 in [-pi/4, pi/4] by pi/2 in three parts (Cody and
Waite); then two minimax polynomials (for doubles the coefficients are those of fdlibm, for floats
Remez' of half the degree) give the sine and cosine of y, and j says which is which and with what
sign. The errors stay below 2 ulp, sin(-x) is exactly -sin(x), and sin(-0.0) is -0.0.

Beyond `LIMIT` three parts are not enough: `reduce_large` multiplies the 53 bits of x by
the window of 2/pi that matters (Payne and Hanek), with 190 bits of fraction. In a vector
there is no branch: the emitter is told that a lane was large and computes the block
again lane by lane.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from nlink.backends.llvm.ir import (
    COMMON,
    MODULE_BREAK,
    MODULE_TAIL,
    Function,
    Lanes,
    Target,
    number,
)
from nlink.backends.llvm.precision import FLOAT32, FLOAT64
from nlink.scalars import elementary

LIMIT = 1e5

SINE = {
    FLOAT64: elementary.SINE,
    FLOAT32: (-1.6666653752326965e-01, 8.33212397992611e-03, -1.9510177662596107e-04)}
"""(sin(y) / y - 1) / y^2, from the lowest power of y^2 up."""
COSINE = {
    FLOAT64: elementary.COSINE,
    FLOAT32: (4.166664555668831e-02, -1.3887266395613551e-03, 2.442732329654973e-05)}
"""(cos(y) - 1 + y^2/2) / y^4."""


def _parts(bits: int, last: int = 53) -> tuple[float, float, float]:
    """pi/2 as a sum of three numbers, the first two of so many bits."""
    return elementary.leading_parts(elementary.PI_HALVES, elementary.PI_BITS + 1, bits, last)


@dataclass(frozen=True, slots=True)
class SinCos:
    """The two functions of one argument, and whether it was out of reach in some lane."""

    sin: str
    cos: str
    large: str | None
    """An i1; None where a branch has dealt with large arguments already."""


def sincos(lanes: Lanes, x: str, *, branch: bool) -> SinCos:
    """Emit both functions of x; large arguments branch to `reduce_large`, or are reported."""
    f = lanes.function
    size = lanes.intrinsic("fabs", x)
    beyond = lanes.compare("ogt", size, lanes.const(LIMIT))
    large = lanes.any(beyond)
    y, j = _reduce(lanes, size)
    if not branch:
        return SinCos(*_finish(lanes, x, y, j), large)
    near, far, join = f.label, f.fresh("far"), f.fresh("reduced")
    f.branch(large, far, join, unlikely=True)
    f.begin(far)
    slow = _reduce_large(lanes, size, beyond, y, j)
    f.go(join)
    f.begin(join)
    y, j = (f.phi(kind, (a, near), (b, far)) for kind, a, b
            in zip((lanes.real, lanes.integer), (y, j), slow, strict=True))
    return SinCos(*_finish(lanes, x, y, j), None)


def _reduce_large(lanes: Lanes, size: str, beyond: str, y: str, j: str) -> tuple[str, str]:
    """y and j with those of `reduce_large` in the lanes that are beyond the limit."""
    f, precision = lanes.function, lanes.precision

    def reduced(each: str) -> tuple[str, str]:
        """The same for one lane: what doubles give, rounded."""
        if precision == FLOAT32:
            each = f.let(f"fpext float {each} to double")
        f.constants["reduce_large"] = (
            f"declare hidden {LARGE_TYPE} @reduce_large(double) cold nounwind")
        slow = f.let(f"call {LARGE_TYPE} @reduce_large(double {each})")
        y, j = (f.let(f"extractvalue {LARGE_TYPE} {slow}, {k}") for k in range(2))
        if precision == FLOAT32:
            y, j = f.let(f"fptrunc double {y} to float"), f.let(f"trunc i64 {j} to i32")
        return y, j

    if lanes.width == 1:
        return reduced(size)
    size = lanes.select(beyond, size, lanes.const(2 * LIMIT))  # the others do not matter
    found = ["poison", "poison"]
    kinds = (precision.real, lanes.real), (precision.integer, lanes.integer)
    for lane in range(lanes.width):
        values = reduced(f.let(f"extractelement {lanes.real} {size}, i32 {lane}"))
        for k, ((kind, part), value) in enumerate(zip(kinds, values, strict=True)):
            found[k] = f.let(f"insertelement {part} {found[k]}, {kind} {value}, i32 {lane}")
    return (lanes.select(beyond, found[0], y), f.let(
        f"select {lanes.truth} {beyond}, {lanes.integer} {found[1]}, {lanes.integer} {j}"))


def _reduce(lanes: Lanes, size: str) -> tuple[str, str]:
    """y = size - j pi/2 and j, for 0 <= size <= LIMIT; y is right to one ulp.

    The first difference is exact. No double up to LIMIT is closer to a multiple of pi/2
    than 2**-56 or so, and three parts of pi/2 know j pi/2 to 2**-109: what is left is one
    rounding of each of the last two differences. With floats these are 2**-28 and 2**-52.
    """
    # adding it rounds to an integer and leaves that integer in the low bits
    rounder = lanes.const(1.5 * 2.0**(lanes.precision.digits - 1))
    shifted = lanes.muladd(size, lanes.const(2 / math.pi), rounder)
    minus_j = lanes.neg(lanes.sub(shifted, rounder))

    def subtract(lanes: Lanes, y: str, minus_j: str) -> str:
        # products of j and the leading parts are exact: by FMA, or since the parts are short
        digits = lanes.precision.digits
        for part in _parts(digits if lanes.fma else 36, digits):
            y = lanes.muladd(minus_j, lanes.const(part), y)
        return y

    # floats have no room for short parts
    y = (subtract(lanes, size, minus_j) if lanes.fma
         else lanes.in_doubles(subtract, size, minus_j))
    return y, lanes.as_bits(shifted)


def _finish(lanes: Lanes, x: str, y: str, j: str) -> tuple[str, str]:
    """Sine and cosine of x from the reduced argument of |x|."""
    z = lanes.mul(y, y)
    s = lanes.muladd(lanes.mul(z, y), _polynomial(lanes, z, SINE[lanes.precision]), y)
    c = lanes.muladd(z, _polynomial(lanes, z, COSINE[lanes.precision]), lanes.const(-0.5))
    c = lanes.muladd(z, c, lanes.const(1.0))

    f, bits = lanes.function, 8 * lanes.size
    sign, top = lanes.int(-(1 << bits - 1)), lanes.int(bits - 2)
    odd = f.let(f"trunc {lanes.integer} {j} to {lanes.truth}")
    sin, cos = lanes.select(odd, c, s), lanes.select(odd, s, c)
    flip = lanes.bits("xor", lanes.bits("shl", j, top), lanes.as_bits(x))
    sin = lanes.bits("xor", lanes.as_bits(sin), lanes.bits("and", flip, sign))
    flip = lanes.bits("shl", lanes.bits("add", j, lanes.int(1)), top)
    cos = lanes.bits("xor", lanes.as_bits(cos), lanes.bits("and", flip, sign))
    return lanes.as_real(sin), lanes.as_real(cos)


def _polynomial(lanes: Lanes, z: str, coefficients: tuple[float, ...]) -> str:
    value = lanes.const(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = lanes.muladd(value, z, lanes.const(c))
    return value


LARGE_TYPE = "{ double, i64 }"

_WORDS = 21
"""One word of zeros, then the 1280 bits of 2/pi, most significant word first."""


def with_reduction(modules: Sequence[str], target: Target) -> str:
    """Modules as one text, with `reduce_large` if any of them calls it."""
    if any("@reduce_large" in text for text in modules):
        modules = [*modules, large_reduction(fma=target.fma)]
    return MODULE_BREAK.join(modules)


@functools.cache
def large_reduction(*, fma: bool) -> str:
    """The module of the function `reduce_large`: y and j for any |x| > LIMIT; nan for infinity.

    x = m 2**e, m an integer of 53 bits. Bits of 2/pi whose product with x is a multiple
    of 4 do not matter, so 192 bits from there on, times m, modulo 2**192, are
    j (two bits) and the fraction, wrong by at most 2**-137.
    """
    f = Function()
    let = f.let
    lanes = Lanes(f, 1, fma)
    bits = let("bitcast double %size to i64")
    exponent = let(f"lshr i64 {bits}, 52")
    mantissa = let(f"or i64 {let(f'and i64 {bits}, {(1 << 52) - 1}')}, {1 << 52}")
    # e = exponent - 1075; the window starts at bit e - 1 (from 1) of 2/pi, after 64 zeros
    start = let(f"add i64 {exponent}, {64 - 1075 - 2}")
    word = let(f"lshr i64 {start}, 6")
    window = ""
    for k in range(4):
        part = let(f"add i64 {word}, {k}")
        part = let(f"getelementptr [{_WORDS} x i64], ptr @two_over_pi, i64 0, i64 {part}")
        part = let(f"zext i64 {f.load('i64', part)} to i256")
        part = let(f"shl i256 {part}, {64 * (3 - k)}")
        window = let(f"or i256 {window}, {part}") if window else part
    shift = let(f"zext i64 {let(f'and i64 {start}, 63')} to i256")
    window = let(f"lshr i256 {let(f'shl i256 {window}, {shift}')}, 64")
    window = let(f"trunc i256 {window} to i192")
    product = let(f"mul i192 {window}, {let(f'zext i64 {mantissa} to i192')}")
    # round to the nearest quarter turn; what remains is a signed fraction of 190 bits
    quarter = let(f"lshr i192 {let(f'add i192 {product}, {1 << 189}')}, 190")
    j = let(f"trunc i192 {quarter} to i64")
    rest = let(f"ashr i192 {let(f'shl i192 {product}, 2')}, 2")
    # in exact pieces of 48 bits, the uppermost signed, to a sum of two doubles
    pieces = []
    for k in (3, 2, 1):
        piece = let(f"ashr i192 {rest}, {48 * k}") if k == 3 else let(
            f"and i192 {let(f'lshr i192 {rest}, {48 * k}')}, {(1 << 48) - 1}")
        piece = let(f"sitofp i64 {let(f'trunc i192 {piece} to i64')} to double")
        pieces.append(lanes.mul(piece, number(2.0 ** (48 * k - 190))))
    high = lanes.add(pieces[0], pieces[1])
    low = lanes.add(lanes.sub(pieces[1], lanes.sub(high, pieces[0])), pieces[2])
    total = lanes.add(high, low)
    low = lanes.sub(low, lanes.sub(total, high))
    # times pi/2
    pi0, pi1, _ = _parts(53)
    rest = lanes.add(lanes.mul(total, number(pi1)), lanes.mul(low, number(pi0)))
    y = lanes.muladd(total, number(pi0), rest)
    y = lanes.select(lanes.compare("oeq", "%size", number(math.inf)), number(math.nan), y)
    pair = let(f"insertvalue {LARGE_TYPE} poison, double {y}, 0")
    f.do(f"ret {LARGE_TYPE} {let(f'insertvalue {LARGE_TYPE} {pair}, i64 {j}, 1')}")
    words = ", ".join(f"i64 {elementary.TWO_OVER_PI >> 64 * k & (1 << 64) - 1}"
                      for k in reversed(range(_WORDS - 1)))
    table = f"@two_over_pi = internal constant [{_WORDS} x i64] [i64 0, {words}]\n"
    return "".join([COMMON, table, f.define(
        f"hidden {LARGE_TYPE} @reduce_large(double %size) cold noinline"), MODULE_TAIL])
