"""Kernels agree with the programs they were made from, and with themselves to the bit."""

from __future__ import annotations

import functools
import gc
import math
import os
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import random_arrays, random_program, reference

from nlink.backends.llvm.kernel import Compiled, Kernel
from nlink.backends.llvm.translate import compile_program


@pytest.fixture(scope="module")
def program():
    return random_program(7, size=150)


@pytest.fixture(scope="module")
def kernel(program):
    return Kernel(compile_program(program))


def same_bits(a, b):
    """The same numbers to the bit; a nan may have either sign."""
    return all(x.shape == y.shape and ((x.view(np.int64) == y.view(np.int64))
                                       | np.isnan(x) & np.isnan(y)).all()
               for x, y in zip(a, b, strict=True))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**30), size=st.integers(1, 150))
def test_compiled_equals_interpreted(seed, size):
    program = random_program(seed, size=size)
    arrays = random_arrays(program, 11, seed)
    with np.errstate(all="ignore"):
        expected = reference(program, arrays)
    for got, wanted in zip(Kernel(compile_program(program))(*arrays), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("shapes", "outs"), [
    (((1,),), ((1,),)), (((),), ((),)), (((7,), (1,)), ((5,),)), (((3, 3),), ((3, 3), (), (1,))),
    (((2,), (0,)), ((0,), (3,)))])
def test_ports_of_any_shape(shapes, outs):
    program = random_program(5, size=30, shapes=shapes, outs=outs)
    arrays = random_arrays(program, 19)
    kernel = Kernel(compile_program(program))
    got = kernel(*arrays)
    got = got if isinstance(got, tuple) else (got,)
    for x, y in zip(got, reference(program, arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)
    single = kernel(*(x[4] for x in arrays))
    single = single if isinstance(single, tuple) else (single,)
    assert same_bits([np.asarray(x) for x in single], [np.asarray(x[4]) for x in got])


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 100, 4097])
@pytest.mark.parametrize("threads", [None, 1, 2, 3])
def test_no_state_depends_on_the_batch_it_is_in(program, kernel, count, threads):
    arrays = random_arrays(program, 4097)
    whole = kernel(*arrays, threads=1)
    part = kernel(*(x[:count] for x in arrays), threads=threads)
    assert same_bits(part, [x[:count] for x in whole])
    one = kernel(*(x[count - 1] for x in arrays))
    assert same_bits(one, [x[count - 1] for x in whole])
    assert same_bits(kernel.bare(*(x[count - 1] for x in arrays)), one)


def test_nan_stays_in_its_lane(program, kernel):
    arrays = random_arrays(program, 29)
    whole = kernel(*arrays)
    for lane in (0, 6, 28):
        spoilt = [x.copy() for x in arrays]
        spoilt[0][lane] = math.nan
        others = np.arange(29) != lane
        assert same_bits([x[others] for x in kernel(*spoilt)], [x[others] for x in whole])
        assert any(np.isnan(x[lane]).any() for x in kernel(*spoilt))


def test_infinities_and_zero_divisions_follow_ieee():
    from nlink.programs.program import Port, Program
    from nlink.scalars.graph import Graph

    g = Graph()
    a, b = g.input("a[0]"), g.input("b[0]")
    program = Program("ieee", (Port("a", ()), Port("b", ())), (Port("u", (4,)),),
                      (a / b, a * b - a, a.sqrt(), a.sign()))
    values = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324])
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.stack([x / y, x * y - x, np.sqrt(x), np.sign(x)], axis=-1)
    np.testing.assert_array_equal(Kernel(compile_program(program))(x, y), expected)


def test_constant_and_repeated_results():
    from nlink.programs.program import Port, Program
    from nlink.scalars.graph import Graph

    g = Graph()
    a = g.input("a[1]")
    program = Program("plain", (Port("a", (3,)),), (Port("u", (4,)),),
                      (g.const(2.5), a, a, g.const(-0.0)))
    np.testing.assert_array_equal(
        Kernel(compile_program(program))(np.arange(30.0).reshape(10, 3))[:, 1],
        np.arange(10) * 3.0 + 1)


@pytest.fixture(scope="module")
def many_outputs():
    """More outputs than are stored one by one: zeros, repeated values and a few of each size."""
    from nlink.programs.program import Port, Program

    few = random_program(11, size=40, outs=((9,),))
    x = few.results
    matrix = [x[min(i, j)] if (i + j) % 3 else x[0] * 0.0 for i in range(9) for j in range(9)]
    sizes = {"u": (9, 9), "v": (), "w": (3,), "x": (4,), "y": (0,), "z": (7,)}
    return Program("many", few.inputs, tuple(Port(n, shape) for n, shape in sizes.items()),
                   (*matrix, x[8], *x[:3], x[1], x[1], *x[4:6], *x[2:9]))


def test_many_outputs_are_those_of_the_program_at_any_batch_size(many_outputs):
    kernel = Kernel(compile_program(many_outputs))
    arrays = random_arrays(many_outputs, 37)
    whole = kernel(*arrays)
    for got, wanted in zip(whole, reference(many_outputs, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-9)
    matrix = whole[0]
    assert same_bits([matrix], [np.ascontiguousarray(matrix.transpose(0, 2, 1))])
    for count in (1, 2, 3, 4, 5, 7, 8, 9, 33):
        part = [x[37 - count:] for x in arrays]
        assert same_bits(kernel(*part, threads=1), [x[37 - count:] for x in whole])
        assert same_bits(kernel(*part, threads=3), [x[37 - count:] for x in whole])
    assert same_bits([np.asarray(x) for x in kernel(*(x[5] for x in arrays))],
                     [np.asarray(x[5]) for x in whole])
    spoilt = [x.copy() for x in arrays]
    spoilt[0][6], spoilt[1][7] = math.nan, 1e9
    others = ~np.isin(np.arange(37), (6, 7))
    after = kernel(*spoilt)
    assert same_bits([x[others] for x in after], [x[others] for x in whole])
    assert same_bits([np.asarray(x) for x in kernel(*(x[7] for x in spoilt))],
                     [np.asarray(x[7]) for x in after])


def test_many_outputs_into_the_memory_of_an_input():
    from nlink.programs.program import Port, Program

    few = random_program(12, size=40, shapes=((81,),), outs=((9,),))
    program = Program("many", few.inputs, (Port("u", (81,)),), few.results * 9)
    kernel = Kernel(compile_program(program))
    (array,) = random_arrays(program, 13)
    wanted = kernel(array)
    assert same_bits([kernel(array, out=array)], [wanted])
    strided = np.zeros((13, 100))
    (again,) = random_arrays(program, 13)
    assert same_bits([np.ascontiguousarray(kernel(again, out=strided[:, 10:91]))], [wanted])
    assert not strided[:, :10].any()
    assert not strided[:, 91:].any()


def test_code_does_not_grow_with_repeated_outputs():
    from nlink.backends.llvm.host import host
    from nlink.backends.llvm.translate import module
    from nlink.programs.program import Port, Program

    few = random_program(12, size=40, outs=((9,),))
    lines = {module(Program("many", few.inputs, (Port("u", (9 * n,)),), few.results * n),
                    host().target)[0].count("\n") for n in (8, 80)}
    assert len(lines) == 1


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [1, 3])
def test_pieces_have_the_bits_of_the_whole(program, kernel, many_outputs, monkeypatch, vectors):
    from nlink.backends.llvm import emit, pieces

    monkeypatch.setattr(pieces, "BLOCK", vectors)
    # a single state in all lanes, or by code of its own
    monkeypatch.setattr(emit, "SCALAR", 0 if vectors == 1 else 100)
    for each, whole in ((program, kernel), (many_outputs, Kernel(compile_program(many_outputs)))):
        with monkeypatch.context() as patch:
            patch.setattr(emit, "cut", functools.partial(pieces.cut, piece=30))
            pieced = Kernel(compile_program(each))
        arrays = random_arrays(each, 61)
        arrays[0][17], arrays[1][40] = math.nan, 1e9  # one angle too large for a vector
        for count in (1, 3, 4, 5, 11, 12, 13, 23, 24, 25, 50, 61):
            part = [x[61 - count:] for x in arrays]
            for threads in (1, 2):
                assert same_bits(pieced(*part, threads=threads), whole(*part))
        assert same_bits([np.asarray(x) for x in pieced(*(x[40] for x in arrays))],
                         [np.asarray(x) for x in whole(*(x[40] for x in arrays))])


def test_kernels_have_their_calls_in_common(monkeypatch):
    """Of a second kernel whose ports have the shapes of the first, only the mathematics is
    compiled; all of it without the cache gives the same bytes."""
    from nlink.backends.llvm import host

    def compiled(seed: int) -> tuple[bytes, int]:
        count = len(texts)
        code = compile_program(random_program(seed, size=20, shapes=((3,),), outs=((2,),))).code
        return code, len(texts) - count

    texts = list[str]()
    alone = host._compile_module
    monkeypatch.setattr(host, "_compile_module",
                        lambda text, opt: [alone(text, opt), texts.append(text)][0])
    monkeypatch.setattr(host, "_common", {})
    monkeypatch.setenv("NLINK_CACHE", "off")
    (_, first), (second, few) = compiled(1), compiled(2)
    assert first > few == 1
    host._common.clear()
    assert compiled(2) == (second, first)
    monkeypatch.setattr(host, "MOST_COMMON", 0)
    compiled(1)
    assert not host._common


@pytest.mark.slow
def test_compiled_code_survives_as_bytes(program, kernel):
    compiled = compile_program(program)
    again = Compiled.from_bytes(compiled.to_bytes())
    assert again == compiled
    arrays = random_arrays(program, 10)
    assert same_bits(Kernel(again)(*arrays), kernel(*arrays))


@pytest.mark.slow
def test_a_kernel_is_freed_and_its_bare_call_outlives_it(program):
    kernel = Kernel(compile_program(program))
    arrays = random_arrays(program, 1)
    bare, gone = kernel.bare, weakref.ref(kernel._image)
    expected = kernel(*(x[0] for x in arrays))
    del kernel
    gc.collect()
    outs = [np.empty(port.shape) for port in program.outputs]
    assert bare(*(x[0] for x in arrays), *outs) is None
    assert same_bits(outs, expected)
    del bare
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_work_in_a_forked_child(program, kernel):
    arrays = random_arrays(program, 1000)
    kernel(*arrays, threads=2)
    child = os.fork()
    if not child:
        good = same_bits(kernel(*arrays, threads=2), kernel(*arrays, threads=1))
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
