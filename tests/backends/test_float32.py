"""Kernels of float32: the same programs, half as wide, and as right as float32 lets them be."""

from __future__ import annotations

import ctypes
import functools
import gc
import math
import threading
import weakref

import numpy as np
import pytest
from random_programs import (
    random_arrays,
    random_program,
    random_rolled_program,
    reference,
)

import nlink
from nlink.algorithms.catalogue import ALGORITHMS
from nlink.backends.llvm.host import compile_object, host, portable
from nlink.backends.llvm.ir import Target
from nlink.backends.llvm.kernel import Compiled, Kernel
from nlink.backends.llvm.precision import FLOAT32
from nlink.backends.llvm.translate import compile_program, module
from nlink.bench.bench_robots import random_arm
from nlink.bench.own_bridges import with_rounded_numbers
from nlink.programs.program import Port, Program
from nlink.programs.stepped import trace_stepped
from nlink.scalars.graph import Graph
from nlink.scalars.lookup import LookupTable
from nlink.testing import random_robot, samples

EPS = float(np.finfo(np.float32).eps)


def compiled(program, dtype="float32") -> Kernel:
    return Kernel(compile_program(program, dtype))


def narrow(arrays):
    return [np.asarray(x, np.float32) for x in arrays]


def listed(result):
    return result if isinstance(result, tuple) else (result,)


def same_bits(a, b):
    return all(np.shape(x) == np.shape(y) and x.dtype == y.dtype == np.float32
               and np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


def sincos() -> Program:
    g = Graph()
    x = g.input("x[0]")
    return Program("sincos", (Port("x", ()),), (Port("s", ()), Port("c", ())), (x.sin(), x.cos()))


@functools.cache
def sine_kernel(*, fma: bool) -> Kernel:
    target = Target(host().target.computing(FLOAT32).width, fma, FLOAT32)
    text, operations, scratch, data = module(sincos(), target)
    p = sincos()
    return Kernel(Compiled(p.name, p.inputs, p.outputs, target.width, operations, scratch, data,
                           compile_object(text), dtype="float32"))


def around(x, steps=2):
    """Each number with its neighbours among the floats."""
    bits = np.asarray(x, np.float32).view(np.int32)
    return np.concatenate([bits + k for k in range(-steps, steps + 1)]).view(np.float32)


ANGLES = {
    "usual": lambda rng: rng.uniform(-10, 10, 20_000),
    "tiny": lambda rng: np.ldexp(rng.uniform(0.5, 1, 2000), rng.integers(-148, 0, 2000)),
    "every multiple of pi/2 in reach": lambda rng: around(np.arange(1, 63663) * (math.pi / 2)),
    "around the limit": lambda rng: around([1e5], 20),
    "any exponent": lambda rng: np.ldexp(rng.uniform(0.5, 1, 5000), rng.integers(17, 129, 5000)),
    "largest, and nearest to a multiple": lambda rng: [
        np.finfo(np.float32).max, 16367173 * 2.0**72, 2.0**127, 1e30],
}


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("which", ANGLES)
def test_sine_and_cosine_are_within_two_ulp(which, fma):
    if fma and not host().target.fma:
        pytest.skip("the processor has no fused multiply-add")
    x = narrow([ANGLES[which](np.random.default_rng(6))])[0]
    x = np.concatenate([x, -x])
    for found, exact in zip(sine_kernel(fma=fma)(x), (np.sin, np.cos), strict=True):
        wanted = exact(x.astype(float))
        ulp = np.spacing(np.abs(wanted).astype(np.float32)).astype(float)
        assert (np.abs(found - wanted) / ulp).max() <= 2


def test_sine_is_odd_and_what_is_not_finite_stays_in_its_lane():
    x = np.linspace(-3, 3, 77, dtype=np.float32)
    s, c = sine_kernel(fma=host().target.fma)(x)
    t, d = sine_kernel(fma=host().target.fma)(-x)
    assert same_bits([s, c], [-t, d])
    for bad in (math.nan, math.inf, 1e20):
        y = x.copy()
        y[[5, 76]] = bad
        after = sine_kernel(fma=host().target.fma)(y)
        others = ~np.isin(np.arange(77), [5, 76])
        assert same_bits([z[others] for z in after], [s[others], c[others]])
        assert bad == 1e20 or np.isnan(np.array(after)[:, [5, 76]]).all()
    zero = sine_kernel(fma=host().target.fma)(np.array([-0.0] * 40, np.float32))[0]
    assert np.signbit(zero).all()


PROGRAM = random_program(7, size=150)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_programs_are_those_of_float64_to_rounding(seed):
    program = random_program(seed, size=60)
    arrays = [x.astype(float) for x in narrow(random_arrays(program, 40, seed))]
    with np.errstate(all="ignore"):
        wanted = reference(program, arrays)
    for found, exact in zip(compiled(program)(*narrow(arrays)), wanted, strict=True):
        close = np.abs(found - exact) <= 1e-3 * (1 + np.abs(exact))
        assert close.mean() > 0.97  # but for a choice that rounding turns


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 5, 15, 16, 17, 31, 33, 100, 4097])
def test_no_state_depends_on_the_batch_it_is_in(count):
    arrays = narrow(random_arrays(PROGRAM, 4097))
    arrays[1][::50] *= 1e7  # angles too large for a vector
    kernel = kernel_of(PROGRAM)
    whole = kernel(*arrays, threads=1)
    for threads in (None, 1, 2, 3):
        part = kernel(*(x[:count] for x in arrays), threads=threads)
        assert same_bits(part, [x[:count] for x in whole])
    one = kernel(*(x[count - 1] for x in arrays))
    assert same_bits(one, [x[count - 1] for x in whole])
    assert same_bits(kernel.bare(*(x[count - 1] for x in arrays)), one)


@functools.cache
def kernel_of(program: Program) -> Kernel:
    return compiled(program)


def many_outputs() -> Program:
    """More outputs than are stored one by one: zeros, repeated values and a few of each size."""
    few = random_program(11, size=40, outs=((9,),))
    x = few.results
    matrix = [x[min(i, j)] if (i + j) % 3 else x[0] * 0.0 for i in range(9) for j in range(9)]
    sizes = {"u": (9, 9), "v": (), "w": (3,), "x": (7,), "y": (0,), "z": (11,)}
    return Program("many", few.inputs, tuple(Port(n, shape) for n, shape in sizes.items()),
                   (*matrix, x[8], *x[:3], x[1], x[1], *x[4:9], *x[:9], x[2], x[3]))


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True])
def test_rows_may_lie_anywhere(cut, monkeypatch):
    """Strided, reversed, shared, offset by a number: the bits of plain arrays; in pieces, too."""
    from nlink.backends.llvm import emit, pieces

    program = many_outputs()
    if cut:
        monkeypatch.setattr(emit, "cut", functools.partial(pieces.cut, piece=30))
    kernel, arrays = compiled(program), narrow(random_arrays(program, 37))
    whole = kernel(*arrays)
    assert cut or same_bits(whole, kernel_of(program)(*arrays))
    for shift in range(9):
        wide = [np.full((80, port.size + 12), 7, np.float32) for port in program.outputs]
        outs = tuple(np.lib.stride_tricks.as_strided(
            x[::-2, shift % 5:], (37, *port.shape),
            (-2 * x.strides[0], *np.empty(port.shape, np.float32).strides))
            for x, port in zip(wide, program.outputs, strict=True))
        given = [np.repeat(x, 3, axis=0)[::3] for x in arrays]
        kernel(*given, out=outs)
        assert same_bits([np.ascontiguousarray(x) for x in outs], whole)
        assert all((x[:, port.size + shift % 5:] == 7).all() and (x[::2] == 7).all()
                   for x, port in zip(wide, program.outputs, strict=True))
    shared = kernel(arrays[0][:1], *arrays[1:])
    assert same_bits(shared, kernel(np.repeat(arrays[0][:1], 37, axis=0), *arrays[1:]))
    assert same_bits(kernel(*(np.asfortranarray(x) for x in arrays)), whole)


@pytest.mark.slow
def test_vectors_of_any_width_have_the_same_bits():
    """AVX2 with its constants in memory, as every x86-64 of some years has it; and no vectors of
    fused multiply-adds at all, to rounding."""
    program, arrays = PROGRAM, narrow(random_arrays(PROGRAM, 133))
    arrays[1][::50] *= 1e7
    wanted = kernel_of(program)(*arrays)
    if host().target.vector >= 32 and host().target.fma:
        with portable():
            assert same_bits(compiled(program)(*arrays), wanted)
    target = Target(4, False, FLOAT32)
    text, operations, scratch, data = module(program, target)
    plain = Kernel(Compiled(program.name, program.inputs, program.outputs, 4, operations, scratch,
                            data, compile_object(text), dtype="float32"))
    for found, exact in zip(plain(*arrays), wanted, strict=True):
        assert (np.abs(found - exact) <= 1e-4 * (1 + np.abs(exact))).mean() > 0.97


@pytest.mark.slow
@pytest.mark.parametrize("serial", [True, False])
def test_rolled_programs(serial):
    program = random_rolled_program(4, 30, kinds=3, serial=serial)
    arrays = narrow(random_arrays(program, 50))
    kernel = compiled(program)
    with np.errstate(all="ignore"):
        wanted = reference(program, [x.astype(float) for x in arrays])
    found = kernel(*arrays)
    for x, exact in zip(found, wanted, strict=True):
        assert (np.abs(x - exact) <= 1e-3).mean() > 0.95
    assert same_bits(kernel(*(x[13] for x in arrays)), [x[13] for x in found])


def test_tables_functions_of_the_library_and_bits_of_numbers():
    g = Graph()
    x, y = g.input("x[0]"), g.input("x[1]")
    table = LookupTable(np.linspace(0.1, 2.0, 50))
    program = Program("some", (Port("x", (2,)),), (Port("u", (6,)),), (
        table(x), nlink.exp(x * 0.1), nlink.atan2(x, y), nlink.pow(abs(x), 0.3),
        nlink.scalars.primitives.on("from_float_bits", nlink.scalars.primitives.on(
            "float_bits", x)), nlink.scalars.primitives.on("scramble", x, y)))
    values = narrow([np.random.default_rng(3).uniform(-60, 60, (100, 2))])[0]
    values[:4, 0] = 1e30, -1e30, 49.0, 1e9
    found, wide = compiled(program)(values), compiled(program, "float64")(values.astype(float))
    np.testing.assert_allclose(found[:, 1:4], wide[:, 1:4], rtol=4e-6)
    np.testing.assert_array_equal(found[:, [0, 5]], wide[:, [0, 5]].astype(np.float32))
    # the bits of a double, as a number, keep fourteen digits of it in a float
    np.testing.assert_allclose(found[4:, 4], values[4:, 0], rtol=2.0**-14)


def test_constants_beyond_the_range_of_floats_are_infinite_or_zero():
    g = Graph()
    program = Program("edges", (Port("x", ()),), (Port("u", (3,)),), tuple(
        g.input("x[0]") * c for c in (1e300, 1e-300, math.pi)))
    assert compiled(program)(np.float32(1.0)).tolist() == [math.inf, 0.0, np.float32(math.pi)]


def call(function, inputs, outputs, count):
    """Call by ctypes, knowing `address` and `signature` alone."""
    s, arrays = function.signature, [*inputs, *outputs]
    scratch = np.full(max(1, s.scratch), 255, np.uint8)
    ports = (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
    strides = (ctypes.c_int64 * len(arrays))(*(x.strides[0] for x in arrays))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p,
                     ctypes.c_void_p)(function.address)(
        ports, strides, count, s.data, scratch.ctypes.data)


def test_the_address_of_compiled_code_is_that_of_float32():
    robot = nlink.load("ur5")
    fn = robot.compile("forward_dynamics", dtype="float32")
    assert fn.signature.dtype == "float32"
    assert str(fn.signature).startswith("forward_dynamics(q: float32 (6,)")
    assert fn.address != robot.compile("forward_dynamics").address
    arrays = narrow(np.random.default_rng(2).normal(size=(3, 33, 6)))
    out = np.empty((33, 6), np.float32)
    call(fn, arrays, [out], 33)
    assert same_bits([out], [robot.forward_dynamics(*arrays)])
    assert same_bits([fn(*(x[7] for x in arrays))], [out[7]])
    with pytest.raises(TypeError, match="q: dtype float64, expected float32"):
        fn(*(x.astype(float) for x in arrays))
    with pytest.raises(TypeError, match=r"qdd: dtype float64, expected float32"):
        fn(*arrays, np.empty((33, 6)))
    with pytest.raises(ValueError, match="dtype: 'half', expected 'float64' or 'float32'"):
        robot.compile("forward_dynamics", dtype="half")


def test_the_arrays_decide_and_mixed_ones_are_widened():
    robot = nlink.load("planar3")
    wide = np.random.default_rng(4).normal(size=(3, 5, 3))
    q, qd, qdd = narrow(wide)
    for engine in ("compiled", "numpy", "python"):
        found = robot.inverse_dynamics(q, qd, qdd, engine=engine)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, robot.inverse_dynamics(*wide), rtol=1e-4, atol=1e-4)
        mixed = robot.inverse_dynamics(q, qd.astype(float), qdd, engine=engine)
        assert mixed.dtype == np.float64
        np.testing.assert_allclose(mixed, robot.inverse_dynamics(
            *(x.astype(float) for x in (q, qd, qdd))), rtol=1e-12)
        assert robot.inverse_dynamics(q.tolist(), qd, qdd, engine=engine).dtype == np.float64
        out = np.empty((5, 3), np.float32)
        assert robot.inverse_dynamics(q, qd, qdd, engine=engine, out=out) is out
        np.testing.assert_array_equal(out, found)
        with pytest.raises(TypeError, match=r"out \(tau\): dtype float64, expected float32"):
            robot.inverse_dynamics(q, qd, qdd, engine=engine, out=np.empty((5, 3)))
        with pytest.raises(TypeError, match=r"out \(tau\): dtype float32, expected float64"):
            robot.inverse_dynamics(*wide, engine=engine, out=out)
    energy = robot.kinetic_energy(q[0], qd[0])
    assert type(energy) is np.float32


def test_both_types_in_turns_alone_in_batches_and_by_threads():
    robots = [nlink.load("planar3").with_payload(0.5)]  # with a kernel of its own
    (robot,) = robots
    wide = np.random.default_rng(5).normal(size=(3, 40, 3))
    single = narrow(wide)
    exact, found = robot.forward_dynamics(*wide), robot.forward_dynamics(*single)
    out, wrong = np.empty(3, np.float32), []

    def work():
        for k in range(40):
            a, b = (robots[0].forward_dynamics(*(x[k] for x in y))
                    for y in (wide, single))
            if not (a == exact[k]).all() or not same_bits([b], [found[k]]):
                wrong.append(k)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert robot.forward_dynamics(*(x[3] for x in single), out=out) is out
    assert same_bits([out], [found[3]])
    assert robot.forward_dynamics(*(x[3].tolist() for x in single)).dtype == np.float64
    with pytest.raises(ValueError, match=r"tau: shape \(2,\), expected \(..., 3\)"):
        robot.forward_dynamics(single[0], single[1], single[2][0, :2])
    kernel = weakref.ref(nlink.engines.engines.kernel(robot.request("forward_dynamics")).single)
    assert kernel() is not None
    del robot, robots[:]
    gc.collect()
    assert kernel() is None


def test_a_function_of_ones_own_and_its_derivatives():
    cost = nlink.function(lambda x, u: x @ x + nlink.sin(u[0]) * x[1], 2, 1)
    x, u = narrow(np.random.default_rng(1).normal(size=(2, 9, 2)))
    u = u[:, :1].copy()
    assert cost(x, u).dtype == np.float32
    for narrower, exact in zip(cost.gradient(x, u), cost.gradient(
            x.astype(float), u.astype(float)), strict=True):
        assert narrower.dtype == np.float32
        np.testing.assert_allclose(narrower, exact, rtol=1e-5, atol=1e-6)


SHARP = 24 * EPS
"""Of the largest element of a result: what matrices of ill-conditioned mechanisms may lose."""


def accuracy(robot, entry, x, *, own_numbers=False):
    """Median errors of float32, and of float64 for arrays rounded to float32, state by state; and
    of the largest element, the same."""
    request = robot.request(entry.name, algorithm=entry.formulation)
    wide, single = (nlink.engines.engines.kernel(request, dtype)
                    for dtype in ("float64", "float32"))
    given = x.arguments(entry)
    if own_numbers:  # the robot's, too, are rounded by what computes in float32
        other = with_rounded_numbers(robot).request(entry.name, algorithm=entry.formulation)
        rounding = nlink.engines.engines.kernel(other, "float64")
    else:
        rounding = wide
    exact, rounded, found = map(listed, (
        wide(*given), rounding(*(y.astype(float) for y in narrow(given))),
        single(*narrow(given))))
    for a, b, c in zip(exact, rounded, found, strict=True):
        assert c.dtype == np.float32
        assert (np.isnan(a) == np.isnan(c)).all()
        yield [float(np.median(np.abs(np.nan_to_num(y.reshape(len(a), -1))).max(axis=1, initial=0)))
               for y in (c - a, b - a, a)]


ENTRIES = [next(iter(entries.values())) for entries in ALGORITHMS.values()]
"""One formulation of each."""


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e.name}-{e.formulation}")
def test_errors_are_of_the_size_of_rounding_the_arguments(entry):
    """In the median: three times it, or some units in the last place of the largest element."""
    robot = tree()
    if entry.refuses(robot.mechanism):
        pytest.skip(entry.refuses(robot.mechanism))
    for error, rounding, scale in accuracy(robot, entry, samples(robot, 2, 64)):
        assert error <= max(3 * rounding, SHARP * scale)


@functools.cache
def tree():
    """Two axes of it meet at 1.6 degrees."""
    return random_robot(5, 2, types=("revolute", "spherical"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["panda", "ur5", "random7"])
def test_dynamics_are_as_right_as_their_arguments(name):
    """With forces of moderate accelerations, as in a simulation: at most three times the error of
    rounding the arguments."""
    robot = random_arm(7) if name == "random7" else nlink.load(name)
    x = samples(robot, 3, 400)
    x = nlink.testing.Samples(x.q, x.qd, x.qdd, robot.inverse_dynamics(x.q, x.qd, x.qdd), x.f_ext)
    for which in ("inverse_dynamics", "forward_dynamics"):
        entry = nlink.programs.products.find(which)
        for error, rounding, _ in accuracy(robot, entry, x):
            assert error <= 3 * rounding


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_dynamics_of_large_trees_are_as_right_as_their_numbers(seed):
    """Gravity and masses are inputs as well: a heavy tree feels the rounding of 9.81 more than
    that of its state."""
    robot = random_robot(seed, 20, types=("revolute",), friction=False)
    x = samples(robot, 3, 200)
    entry = nlink.programs.products.find("inverse_dynamics")
    for error, rounding, _ in accuracy(robot, entry, x, own_numbers=True):
        assert error <= 3 * rounding


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_programs_of_steps_that_are_alike(apart):
    robot = nlink.load("four_bar")
    request = robot.request("forward_dynamics")
    program = trace_stepped(request.algorithm, robot.mechanism, request.options, wrenches=False,
                            apart=apart)
    q = np.repeat(robot.neutral[None], 21, axis=0)
    arrays = [q, *np.random.default_rng(2).normal(size=(2, 21, robot.n))]
    found, wide = compiled(program)(*narrow(arrays)), compiled(program, "float64")(*arrays)
    np.testing.assert_allclose(found, wide, atol=1e-3 * np.abs(wide).max())
    assert same_bits([compiled(program)(*(x[4] for x in narrow(arrays)))], [found[4]])


@pytest.mark.slow
def test_closed_chains_and_rolled_robots(roll):
    closed = nlink.load("four_bar")
    state = [closed.neutral, np.zeros(closed.n), np.ones(closed.n)]
    wide, found = closed.forward_dynamics(*state), closed.forward_dynamics(*narrow(state))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wide, atol=1e-3 * np.abs(wide).max())
    roll()
    robot = random_robot(3, 5)
    x = samples(robot, 1, 40)
    for name in ("forward_dynamics", "mass_matrix", "jacobian"):
        given = x.arguments(nlink.programs.products.find(name))
        wide, found = (getattr(robot, name)(*y) for y in (given, narrow(given)))
        assert found.dtype == np.float32
        error = np.abs(found - wide).reshape(len(wide), -1).max(axis=1)
        assert np.median(error) <= 1e-4 * np.abs(wide).max()
