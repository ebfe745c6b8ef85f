"""The elementary functions as texts on scalars: for machines whose mathematics library differs
from one to the next, or that have none.

Made of + - * /, floor, choices and the bits of doubles, rounding to nearest at each step and
without fused products; so they have the same bits wherever doubles are IEEE's. Polynomials and
the order of their steps are those of fdlibm and (tanh) Cephes; errors stay below 1.5 ulp.

>>> float(sine_and_cosine(1e22)[0])
-0.8522008497671888
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nlink.scalars.functions import (
    Scalar,
    abs,
    float_bits,
    floor,
    from_float_bits,
    less,
    less_equal,
    where,
)
from nlink.scalars.lookup import LookupTable
from nlink.scalars.primitives import BINADE

SINE = (-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
        2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)
COSINE = (4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
          -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)

PI_HALVES = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89452821E638D0137
"""pi * 2**316: more digits of pi than three doubles hold."""
PI_BITS = 316

TWO_OVER_PI = (
    0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0
    << 960 | 0x06492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F4
    << 640 | 0x9C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D
    << 320 | 0x7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC209AF4361D)
"""floor(2**1280 * 2/pi)."""


def leading_parts(fraction: int, scale: int, bits: int, last: int = 53,
                  ) -> tuple[float, float, float]:
    """fraction / 2**scale as a sum of three numbers: two of so many bits, and the last one."""
    parts = []
    for width in (bits, bits, last):
        drop = fraction.bit_length() - width
        parts.append(math.ldexp(fraction >> drop, drop - scale))
        fraction &= (1 << drop) - 1
    return parts[0], parts[1], parts[2]


# angles

NEAR = 1e5
"""Up to here three parts of pi/2 reduce an angle."""
_NEAR_PARTS = leading_parts(PI_HALVES, PI_BITS + 1, 36)
_PI_HALF, _PI_HALF_REST, _ = leading_parts(PI_HALVES, PI_BITS + 1, 53)
_DIGIT = 2.0**24
_FRACTION = 7
"""Digits of the fraction of x 2/pi: no double is so close to a multiple of pi/2 that fewer
than 100 bits of them are left [Payne and Hanek]."""
_DIGITS_OF_TWO_OVER_PI = LookupTable([0.0] * 4 + [
    float(TWO_OVER_PI >> 1280 - 24 * (k + 1) & 0xFFFFFF) for k in range(53)])
"""After four zeros: what stands before the point of 2/pi."""


def reduce_near(size: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """y, its rest and j with size = j pi/2 + y, for 0 <= size <= NEAR.

    The products of j with the first two parts are exact, and so is the first difference (Cody
    and Waite); what the second one loses goes into the rest.
    """
    first, second, third = _NEAR_PARTS
    j = floor(size * (2 / math.pi) + 0.5)
    coarse = size - j * first
    product = j * second
    fine = coarse - product
    lost = j * third - ((coarse - fine) - product)
    y = fine - lost
    return y, (fine - y) - lost, j


def reduce_far(size: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """The same for any size from 1 on; nan for infinity (Payne and Hanek).

    size = s 2**(24 a) with s < 2**24, and s and 2/pi are written in digits of 24 bits. Products of
    digits are exact, four of them make a column, and columns that are multiples of 4 are left out.
    """
    exponent = floor(float_bits(size) * (1 / BINADE)) - 1023.0
    a = floor(exponent * (1 / 24))
    # in two factors, since 2**-1023 has fewer bits
    half = floor(a * 0.5)
    rest = size * _power_of_two(-24.0 * half) * _power_of_two(-24.0 * (a - half))
    digits = []
    for _ in range(4):
        digit = floor(rest)
        digits.append(digit)
        rest = (rest - digit) * _DIGIT
    known = [_DIGITS_OF_TWO_OVER_PI(a + float(k)) for k in range(_FRACTION + 4)]
    # column p: digits i of s and p - 1 - i + a of 2/pi, which stands 4 further on in the table
    columns = [sum((digits[i] * known[p + 3 - i] for i in range(1, 4)), digits[0] * known[p + 3])
               for p in range(_FRACTION + 1)]
    for p in range(_FRACTION, 0, -1):
        carry = floor(columns[p] * (1 / _DIGIT))
        columns[p] = columns[p] - carry * _DIGIT
        columns[p - 1] = columns[p - 1] + carry
    above = less_equal(_DIGIT / 2, columns[1])  # to the nearest multiple of pi/2
    j = columns[0] - 4.0 * floor(columns[0] * 0.25) + where(above, 1.0, 0.0)
    columns[1] = where(above, columns[1] - _DIGIT, columns[1])
    high, middle, low = (columns[k] * _DIGIT**-k + columns[k + 1] * _DIGIT**(-k - 1)
                         for k in (1, 3, 5))
    total, lost = _sum(high, middle)
    total, lost = _sum(total, lost + low)
    y, small = _product(total, _PI_HALF)
    return *_sum(y, small + (total * _PI_HALF_REST + lost * _PI_HALF)), j


def turn(x: Scalar, y: Scalar, rest: Scalar, j: Scalar) -> tuple[Scalar, Scalar]:
    """Sine and cosine of x, |x| = j pi/2 + y + rest."""
    z = y * y
    cube = z * y
    tail = _polynomial(z, SINE[1:])
    s = y - ((z * (0.5 * rest - cube * tail) - rest) - cube * SINE[0])
    half = 0.5 * z
    near_one = 1.0 - half
    c = near_one + (((1.0 - near_one) - half) + (z * (z * _polynomial(z, COSINE)) - y * rest))
    quarter = j - 4.0 * floor(j * 0.25)
    odd = less(0.5, j - 2.0 * floor(j * 0.5))
    sin, cos = where(odd, c, s), where(odd, s, c)
    behind = less(1.5, quarter)
    below = less(x, 0.0)
    sin = where(behind & ~below | ~behind & below, -sin, sin)
    cos = where(less(0.5, quarter) & less(quarter, 2.5), -cos, cos)
    return where(less(0.0, abs(x)), sin, x), cos  # sin(-0.0) is -0.0


def sine_and_cosine(x: Scalar) -> tuple[Scalar, Scalar]:
    """Both functions of an angle of any size."""
    size = abs(x)
    near = less_equal(size, NEAR)
    return turn(x, *(where(near, a, b) for a, b in zip(
        reduce_near(where(near, size, 0.0)), reduce_far(where(near, 1.0, size)), strict=True)))


# powers

_LN2, _LN2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2, its first 33 bits and what is left."""
_EXP = (1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
        -1.65339022054652515390e-06, 4.13813679705723846039e-08)
_LARGEST_LOG, _SMALLEST_LOG = 709.782712893384, -745.1332191019411


def exp(x: Scalar) -> Scalar:
    """e**x by x = k ln 2 + r and a rational function of r."""
    inside = _clip(x, -746.0, 710.0)
    k = floor(inside * (1 / math.log(2)) + 0.5)
    high, low = inside - k * _LN2, k * _LN2_REST
    r = high - low
    z = r * r
    c = r - z * _polynomial(z, _EXP)
    value = _scaled(1.0 - ((low - (r * c) / (2.0 - c)) - high), k)
    value = where(less(_LARGEST_LOG, x), math.inf, where(less(x, _SMALLEST_LOG), 0.0, value))
    return where(less_equal(x, x), value, x)


_LOG = (6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
        2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
        1.479819860511658591e-01)


def log(x: Scalar) -> Scalar:
    """ln x by x = 2**k (1 + f) and s = f / (2 + f)."""
    m, k = _mantissa(x)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    half = 0.5 * f * f
    tail = s * (half + z * _polynomial(z, _LOG))
    value = k * _LN2 - ((half - (tail + k * _LN2_REST)) - f)
    value = where(less(x, math.inf), value, x)  # infinity and nan
    value = where(less(0.0, x), value, -math.inf)
    return where(less(x, 0.0), math.nan, where(less_equal(x, x), value, x))


_TANH = (-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1)
_TANH_BELOW = (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0)


def tanh(x: Scalar) -> Scalar:
    """By a rational function near zero, by e**(2 |x|) elsewhere."""
    size = abs(x)
    far = 1.0 - 2.0 / (exp(2.0 * size) + 1.0)
    z = x * x
    near = x + x * (z * (_polynomial(z, _TANH) / _polynomial(z, _TANH_BELOW)))
    value = where(less(size, 0.625), near, where(less(x, 0.0), -far, far))
    return where(less(0.0, size), value, x)  # -0.0 and nan


_ATAN = (3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01,
         -1.11111104054623557880e-01, 9.09088713343650656196e-02, -7.69187620504482999495e-02,
         6.66107313738753120669e-02, -5.83357013379057348645e-02, 4.97687799461593236017e-02,
         -3.65315727442169155270e-02, 1.62858201153657823623e-02)
_ATAN_OF = ((0.0, 0.0), (4.63647609000806093515e-01, 2.26987774529616870924e-17),
            (7.85398163397448278999e-01, 3.06161699786838301793e-17),
            (9.82793723247329054082e-01, 1.39033110312309984516e-17),
            (1.57079632679489655800e+00, 6.12323399573676603587e-17))
"""The angles of 0, 1/2, 1, 3/2 and infinity, with the rest of each."""


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), by the nearest of five angles that are known."""
    n, d = abs(y), abs(x)
    large = where(less(n, d), d, n)
    scale = where(less(2.0**1000, large), 2.0**-10, where(less(large, 2.0**-900), 2.0**100, 1.0))
    endless = less_equal(math.inf, n) & less_equal(math.inf, d)
    n, d = where(endless, 1.0, n * scale), where(endless, 1.0, d * scale)
    pieces = ((n, d), (2.0 * n - d, 2.0 * d + n), (n - d, n + d), (n - 1.5 * d, d + 1.5 * n),
              (-d, n))
    choices = [(*above, *below) for above, below in zip(pieces, _ATAN_OF, strict=True)]
    chosen = choices[0]
    for limit, choice in zip((7 / 16, 11 / 16, 19 / 16, 39 / 16), choices[1:], strict=True):
        beyond = less(limit * d, n)
        chosen = tuple(where(beyond, a, b) for a, b in zip(choice, chosen, strict=True))
    above, below, high, low = chosen
    t = above / where(less(0.0, below), below, 1.0)
    z = t * t
    angle = high - ((t * (z * _polynomial(z, _ATAN)) - low) - t)
    angle = where(_negative(x), math.pi - (angle - 1.2246467991473531772e-16), angle)
    angle = where(_negative(y), -angle, angle)
    # what is no number, and zeros with their signs
    angle = where(less(0.0, abs(y)) | _negative(x), angle, y)
    return where(less_equal(x, x) & less_equal(y, y), angle, x + y)


_THIRD, _THIRD_REST = 1 / 3, 1.850371707708594e-17
_LN2_PARTS = leading_parts(
    0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D, 192, 40)
"""ln 2: products of its first two parts with an exponent are exact."""
_FACTORIALS = tuple(1 / math.factorial(k) for k in range(2, 15))
_ODD = tuple(1 / k for k in range(5, 31, 2))


def power(x: Scalar, exponent: Scalar) -> Scalar:
    """x**exponent = e**(exponent ln x), with the exponent in twice as many digits."""
    size = abs(x)
    m, k = _mantissa(size)
    b = _clip(exponent, -2.0**66, 2.0**66)
    high, low = _scaled_log(m, k)
    value = _exp_of_sum(*_product_of_sums(high, low, b))
    # zeros and infinities
    growing = less(0.0, exponent)
    value = where(less(0.0, size), value, where(growing, 0.0, math.inf))
    value = where(less(size, math.inf), value, where(growing, math.inf, 0.0))
    beyond = less_equal(math.inf, abs(exponent))
    value = where(beyond, where(less(1.0, size), where(growing, math.inf, 0.0),
                                where(growing, 0.0, math.inf)), value)
    # below zero
    whole = less_equal(exponent, floor(exponent))
    half = 0.5 * exponent
    odd = whole & less(floor(half), half) & less(abs(exponent), math.inf)
    value = where(odd & _negative(x), -value, value)
    value = where(less(x, 0.0) & ~whole & less(-math.inf, x), math.nan, value)
    value = where(less_equal(x, x) & less_equal(exponent, exponent), value, x + exponent)
    one = less_equal(x, 1.0) & less_equal(1.0, x)
    one = one | less_equal(size, 1.0) & less_equal(1.0, size) & beyond
    zero = less_equal(abs(exponent), 0.0)
    return where(one | zero, 1.0, value)


def _scaled_log(m: Scalar, k: Scalar) -> tuple[Scalar, Scalar]:
    """k ln 2 + ln m as a sum of two: ln m = 2 (s + s**3/3 + ...), s = (m - 1) / (m + 1)."""
    f, (below, below_rest) = m - 1.0, _sum(1.0, m)
    s = f / below
    back, back_rest = _product(s, below)
    rest = (((f - back) - back_rest) - s * below_rest) / below
    z, z_rest = _product(s, s)
    z_rest = z_rest + 2.0 * (s * rest)
    third, third_rest = _product(z, _THIRD)
    third_rest = third_rest + (z * _THIRD_REST + z_rest * _THIRD)
    third_rest = third_rest + z * (z * _polynomial(z, _ODD))
    third, third_rest = _sum(third, third_rest)
    cube, cube_rest = _product(s, third)
    cube_rest = cube_rest + (s * third_rest + rest * third)
    first, second, third_part = _LN2_PARTS
    high, low = _sum_of_any(k * first, 2.0 * s)
    middle, middle_rest = _sum_of_any(k * second, 2.0 * cube)
    high, more = _sum_of_any(high, middle)
    low = low + more + middle_rest + 2.0 * (rest + cube_rest) + k * third_part
    return _sum(high, low)


def _product_of_sums(high: Scalar, low: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    product, rest = _product(high, b)
    return _sum(product, rest + low * b)


def _exp_of_sum(high: Scalar, low: Scalar) -> Scalar:
    """e**(high + low)."""
    inside = _clip(high, -800.0, 800.0)
    k = floor(inside * (1 / math.log(2)) + 0.5)
    first, second, third = _LN2_PARTS
    coarse = inside - k * first
    fine, lost = _sum_of_any(coarse, -(k * second))
    r, rest = _sum_of_any(fine, lost + (low - k * third))
    one, more = _sum(1.0, r)
    value = _scaled(one + (more + (rest * (1.0 + r) + r * r * _polynomial(r, _FACTORIALS))), k)
    return where(less(720.0, high), math.inf, where(less(high, -760.0), 0.0, value))


# pieces

def _polynomial(z: Scalar, coefficients: Sequence[float]) -> Scalar:
    value: Scalar = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = value * z + c
    return value


def _sum(large: Scalar, small: Scalar) -> tuple[Scalar, Scalar]:
    """The sum of two numbers and what it loses, the first one larger or zero (Dekker)."""
    total = large + small
    return total, small - (total - large)


def _sum_of_any(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """The sum of two numbers and what it loses (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _halves(x: Scalar) -> tuple[Scalar, Scalar]:
    """A number as two of 26 bits (Veltkamp)."""
    wide = 134217729.0 * x
    high = wide - (wide - x)
    return high, x - high


def _product(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """The product of two numbers and what it loses (Dekker)."""
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _power_of_two(k: Scalar) -> Scalar:
    """2**k for whole -1022 <= k <= 1023."""
    return from_float_bits((k + 1023.0) * BINADE)


def _scaled(x: Scalar, k: Scalar) -> Scalar:
    """x 2**k, in two steps: the power alone may be no double."""
    half = floor(k * 0.5)
    return x * _power_of_two(half) * _power_of_two(k - half)


def _mantissa(x: Scalar) -> tuple[Scalar, Scalar]:
    """m and k with x = m 2**k, m between sqrt(1/2) and sqrt(2), for 0 < x < inf."""
    usual = less(0.0, x) & less(x, math.inf)
    tiny = less(x, 2.0**-1022)
    size = where(usual, where(tiny, x * 2.0**54, x), 1.0)
    k = floor(float_bits(size) * (1 / BINADE)) - 1023.0
    m = _scaled(size, -k)
    above = less(math.sqrt(2), m)
    return where(above, 0.5 * m, m), where(above, k + 1.0, k) - where(tiny & usual, 54.0, 0.0)


def _clip(x: Scalar, low: float, high: float) -> Scalar:
    return where(less(x, low), low, where(less(high, x), high, x))


def _negative(x: Scalar) -> Scalar:
    """Whether the sign of a number, of zeros too, is minus."""
    return less(float_bits(x), 0.0)


FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    "sin": lambda x: sine_and_cosine(x)[0], "cos": lambda x: sine_and_cosine(x)[1],
    "exp": exp, "log": log, "tanh": tanh, "atan2": atan2, "pow": power}
"""By the names of the primitives."""
