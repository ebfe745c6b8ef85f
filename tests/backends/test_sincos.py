"""Sine and cosine against mpmath, at the arguments that are hard."""

from __future__ import annotations

import functools
import math

import mpmath
import numpy as np
import pytest

from nlink.backends.llvm.host import Image, compile_object, host
from nlink.backends.llvm.ir import MODULE_TAIL, Target
from nlink.backends.llvm.kernel import Compiled, Kernel
from nlink.backends.llvm.translate import compile_program, module
from nlink.programs.program import Port, Program
from nlink.scalars.graph import Graph

mpmath.mp.prec = 1400


def program() -> Program:
    g = Graph()
    x = g.input("x[0]")
    return Program("sincos", (Port("x", ()),), (Port("s", ()), Port("c", ())), (x.sin(), x.cos()))


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Kernel(compile_program(program()))


@pytest.fixture(scope="module")
def plain() -> Kernel:
    """The same without fused multiply-add, for hosts that have none."""
    target = Target(host().target.width, fma=False)
    text, operations, scratch, data = module(program(), target)
    p = program()
    return Kernel(Compiled(p.name, p.inputs, p.outputs, target.width, operations, scratch, data,
                           compile_object(text)))


def near_multiples() -> list[float]:
    rng = np.random.default_rng(1)
    ks = [*range(1, 100), *map(int, rng.integers(100, 63662, 200))]
    xs = [float(k * mpmath.pi / 2) for k in ks]
    return xs + [math.nextafter(x, 0) for x in xs] + [math.nextafter(x, 1e9) for x in xs]


def hardest() -> list[float]:
    """The multiples of pi/2 below 1e5 that come closest to a double."""
    k = np.arange(1, 63662)
    high = np.float64(math.pi / 2)
    with mpmath.workprec(160):
        low = mpmath.pi / 2 - mpmath.mpf(math.pi) / 2
        exact = [(abs(mpmath.mpf(float(x)) - (mpmath.mpf(float(high)) + low) * int(j)), float(x))
                 for j, x in zip(k[::7], (k * high)[::7], strict=True)]
    return [x for _, x in sorted(exact)[:200]]


ARGUMENTS = {
    "small": lambda: np.random.default_rng(0).uniform(-1, 1, 400),
    "usual": lambda: np.random.default_rng(2).uniform(-10, 10, 400),
    "to the limit": lambda: np.random.default_rng(3).uniform(-1e5, 1e5, 400),
    "near multiples of pi/2": near_multiples,
    "nearest to multiples": hardest,
    "around the limit": lambda: [1e5, math.nextafter(1e5, 0), math.nextafter(1e5, 2e5), 1e5 + 1],
    "large": lambda: [1e6, 1e10, 1e15, 2.0**53, 1e16, 1e22, 1e100, 1e300, 1.7976931348623157e308,
                      6381956970095103 * 2.0**797, 5.319372648326541e255],
    "any exponent": lambda: np.ldexp(np.random.default_rng(4).uniform(0.5, 1, 200),
                                     np.random.default_rng(5).integers(17, 1024, 200)),
    "tiny": lambda: [5e-324, 1e-310, 2.2250738585072014e-308, 1e-200, 1e-20, 1e-9, 1e-8],
}


def ulps(got: float, exact: mpmath.mpf) -> float:
    return float(abs(mpmath.mpf(got) - exact) / math.ulp(float(exact)))


@functools.cache
def exact_values(x: tuple[float, ...]) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
    return [(mpmath.sin(v), mpmath.cos(v)) for v in map(mpmath.mpf, x)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("code", ["kernel", "plain"])
@pytest.mark.parametrize("which", ARGUMENTS)
def test_sin_and_cos_are_within_two_ulp(which, code, request):
    x = np.array(ARGUMENTS[which](), dtype=float)
    x = np.concatenate([x, -x])
    s, c = request.getfixturevalue(code)(x)
    exact = exact_values(tuple(x.tolist()))
    assert max(ulps(float(a), e[0]) for a, e in zip(s, exact, strict=True)) <= 2
    assert max(ulps(float(a), e[1]) for a, e in zip(c, exact, strict=True)) <= 2


def test_sine_is_odd_and_keeps_the_sign_of_zero(kernel):
    x = np.concatenate([np.random.default_rng(0).normal(size=100) * 1e4, [0.0, 1e22]])
    s, c = kernel(x)
    t, d = kernel(-x)
    assert (s == -t).all()
    assert (c == d).all()
    s, c = kernel(np.array([-0.0, 0.0] * 8))
    assert (np.signbit(s) == [True, False] * 8).all()
    assert (s == 0).all()
    assert (c == 1).all()


def test_not_a_number_and_infinity_give_nan_in_their_lane_only(kernel):
    for bad in (math.nan, math.inf, -math.inf):
        x = np.linspace(-3, 3, 37)
        s0, c0 = kernel(x)
        for lane in (0, 5, 36):
            y = x.copy()
            y[lane] = bad
            s, c = kernel(y)
            assert math.isnan(s[lane])
            assert math.isnan(c[lane])
            others = np.arange(37) != lane
            assert (s[others] == s0[others]).all()
            assert (c[others] == c0[others]).all()


def test_a_large_angle_changes_no_other_lane(kernel):
    x = np.linspace(-3, 3, 37)
    s0, c0 = kernel(x)
    y = x.copy()
    y[[3, 20]] = 1e22, -1e7
    s, c = kernel(y)
    others = np.isin(np.arange(37), [3, 20], invert=True)
    assert (s[others] == s0[others]).all()
    assert (c[others] == c0[others]).all()
    assert (s[3], c[20]) == (kernel(np.array(1e22))[0], kernel(np.array(-1e7))[1])


def test_the_module_refers_to_no_other_symbol():
    text = module(program(), host().target)[0]
    assert text.endswith(MODULE_TAIL)
    Image(compile_object(text)).address("nlink_batch")  # would not resolve otherwise
