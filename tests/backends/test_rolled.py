"""Rolled programs: compiled equals interpreted, at any length, on chains and trees."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import random_arrays, random_rolled_program, reference

from nlink.backends.llvm.kernel import Kernel
from nlink.backends.llvm.layout import plan
from nlink.backends.llvm.translate import compile_program
from nlink.programs.program import Port
from nlink.programs.rolled_program import (
    Domain,
    Element,
    Kept,
    Parameter,
    RolledProgram,
    Slice,
    Sweep,
    SweepOrder,
    SweepStep,
    Write,
)
from nlink.scalars.graph import Graph


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("seed", "serial", "kinds"), [
    (0, True, 1), (1, True, 1), (1, False, 1), (1, True, 3), (1, False, 3)])
def test_compiled_equals_interpreted(seed, serial, kinds):
    program = random_rolled_program(seed, 1 + 12 * seed, kinds=kinds, serial=serial)
    arrays = random_arrays(program, 13)
    kernel = Kernel(compile_program(program))
    for got, wanted in zip(kernel(*arrays), reference(program, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("serial", [True, False])
def test_no_state_depends_on_the_batch_it_is_in(serial):
    program = random_rolled_program(9, 20, kinds=2, serial=serial)
    kernel = Kernel(compile_program(program))
    arrays = random_arrays(program, 100)
    arrays[0][50, 3] = np.nan
    arrays[1][70, 3] = 1e9
    whole = kernel(*arrays, threads=1)
    for count in (1, 3, 5, 8, 9, 51, 71, 100):
        for part, full in zip(kernel(*(x[:count] for x in arrays), threads=3), whole, strict=True):
            np.testing.assert_array_equal(part, full[:count])
    for state in (0, 50, 70):
        for one, full in zip(kernel(*(x[state] for x in arrays)), whole, strict=True):
            np.testing.assert_array_equal(one, full[state])
    assert np.isnan(whole[0][50]).any()
    assert not np.isnan(np.delete(whole[0], 50, axis=0)).any()


def test_what_nobody_reads_is_not_kept():
    program = random_rolled_program(2, 10)
    layout = plan(program, fma=True)
    last = layout.sweeps[-1]
    assert not last.stored  # a chain hands the last sweep's values on in registers
    assert layout.slots <= sum(len(s.steps[0].keeps) for s in program.sweeps[:-1])


@pytest.mark.slow
def test_ten_thousand_joints_compile_like_ten():
    """They differ in numbers: a thousand times the joints, less than twice the code."""
    lengths = []
    for n in (10, 10_000):
        program = random_rolled_program(5, n)
        compiled = compile_program(program)
        lengths.append(len(compiled.code))
        assert all(np.isfinite(x).all() for x in Kernel(compiled)(*random_arrays(program, 9)))
    assert lengths[1] < 2 * lengths[0]


def test_constants_and_parameters_are_not_kept():
    g, h = Graph(), Graph()
    a, u = Slice("a", 0), Slice("u", 0)
    keeps = (g.input(Parameter(0)), g.const(2.5), g.input(Element(a, 0)).sin())
    first = Sweep(SweepOrder.OUTWARD, (SweepStep(keeps),), base=(0.0, 0.0, 0.0))
    s = [h.input(Kept(0, k)) for k in range(3)]
    second = Sweep(SweepOrder.INWARD, (SweepStep(writes=(Write(u, 0, s[0] * s[2] + s[1]),)),))
    program = RolledProgram(
        "forward", (Port("a", (3,)),), (Port("u", (3,)),),
        Domain((0, 1, 2), (0,) * 3, np.array([[1.0], [3.0], [5.0]]), {a: (0, 1, 2), u: (0, 1, 2)}),
        (first, second))
    assert plan(program, fma=True).slots == 1
    arrays = random_arrays(program, 10)
    np.testing.assert_allclose(Kernel(compile_program(program))(*arrays),
                               reference(program, arrays)[0], rtol=1e-14)


def test_elements_no_joint_writes_are_zero():
    g = Graph()
    a, u = Slice("a", 0), Slice("u", 0)
    step = SweepStep(writes=(Write(u, 0, g.input(Parameter(0)) * g.input(Element(a, 0))),))
    program = RolledProgram(
        "sparse", (Port("a", (2,)),), (Port("u", (4,)),),
        Domain((0, 1), (0, 0), np.array([[1.0], [3.0]]), {a: (0, 1), u: (0, 2)}),
        (Sweep(SweepOrder.OUTWARD, (step,)),))
    arrays = random_arrays(program, 10)
    out = Kernel(compile_program(program))(*arrays, out=np.full((10, 4), 7.0))
    np.testing.assert_array_equal(out, reference(program, arrays)[0])
    assert not out[:, [1, 3]].any()
