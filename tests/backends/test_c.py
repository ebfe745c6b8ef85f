"""C export: strict C99 that computes what the kernel computes."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess

import numpy as np
import pytest
from random_programs import random_arrays, random_program

import nlink
from nlink.backends.llvm.kernel import Kernel
from nlink.backends.llvm.translate import compile_program
from nlink.engines.exports import write_c
from nlink.programs.program import Port, Program
from nlink.scalars.graph import Graph

GCC = shutil.which("gcc")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def built(source, header):
    library = source.with_suffix(".so")
    subprocess.run([GCC, *STRICT, "-O2", "-shared", "-fPIC", source, "-o", library, "-lm"],
                   check=True, cwd=source.parent)
    subprocess.run([GCC, "-x", "c", *STRICT, "-fsyntax-only", header], check=True)
    return ctypes.CDLL(str(library))


def called(function, arrays, outs):
    pointers = [x.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for x in (*arrays, *outs)]
    function(*pointers)
    return outs


needs_gcc = pytest.mark.skipif(GCC is None, reason="needs gcc")


@needs_gcc
@pytest.mark.slow
def test_c_equals_the_kernel(tmp_path):
    programs = [random_program(seed, size=100) for seed in range(2)]
    source, header = write_c(programs, "arm", tmp_path / "new" / "place")
    library = built(source, header)
    assert sorted(p.name for p in source.parent.iterdir()) == ["arm.c", "arm.h", "arm.so"]
    for program in programs:
        arrays = [np.ascontiguousarray(x[0]) for x in random_arrays(program, 1)]
        outs = [np.empty(port.shape) for port in program.outputs]
        called(getattr(library, f"arm_{program.name}"), arrays, outs)
        for got, wanted in zip(outs, Kernel(compile_program(program))(*arrays), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-9)


@needs_gcc
def test_awkward_names_constants_and_sizes(tmp_path):
    g = Graph()
    a, b, c = g.input("t1[0]"), g.input("sin[1]"), g.input("double[0]")
    program = Program(
        "7 of*/nine", (Port("t1", (1,)), Port("sin", (2,)), Port("double", ()), Port("none", (0,)),
                       Port("unused", (3,))),
        (Port("t1", (2,)), Port("empty", (0,)), Port("h0", (6,))),
        (b, a, a.sin() * b - c, g.const(math.inf), g.const(-math.inf), g.const(math.nan),
         g.const(-2.5e-300), c.sign()))
    source, header = write_c([program, program], "é 1*/ \\", tmp_path)
    library = built(source, header)
    names = [line.split("(")[0].split()[-1] for line in header.read_text().splitlines()
             if line.startswith("void ")]
    assert len(set(names)) == 2
    arrays = [np.array([0.5]), np.array([1.5, 2.5]), np.array([-3.0]), np.zeros(0), np.zeros(3)]
    swapped, _, rest = called(getattr(library, names[0]), arrays,
                              [np.empty(2), np.empty(0), np.empty(6)])
    assert swapped.tolist() == [2.5, 0.5]
    np.testing.assert_allclose(rest, [math.sin(0.5) * 2.5 + 3, math.inf, -math.inf, math.nan,
                                      -2.5e-300, -1])


@needs_gcc
def test_an_output_may_be_an_input(tmp_path):
    g = Graph()
    a, b = g.input("a[0]"), g.input("a[1]")
    program = Program("swap", (Port("a", (2,)),), (Port("b", (2,)),), (b, a))
    x = np.array([1.0, 2.0])
    called(built(*write_c([program], "swap", tmp_path)).swap_swap, [x], [x])
    assert x.tolist() == [2.0, 1.0]


def test_the_text_is_readable(tmp_path):
    g = Graph()
    q = g.input("q[0]")
    program = Program("height", (Port("q", (1,)),), (Port("z", ()),), (2 * q.sin() + 1,))
    source, _ = write_c([program], "pendulum", tmp_path)
    assert "const double t" in source.read_text()
    assert "void pendulum_height(const double q[1], double z[1])" in source.read_text()


@needs_gcc
def test_products_with_derivatives_in_c(tmp_path):
    robot = nlink.load("double_pendulum")
    names = ["forward_dynamics_vjp", "mass_matrix_jvp", "forward_dynamics_derivatives"]
    library = built(*nlink.export_c(robot, names, tmp_path))
    q, qd, tau, w = np.random.default_rng(0).normal(size=(4, 2))
    gradients = called(library.double_pendulum_forward_dynamics_vjp, (q, qd, tau, w),
                       [np.empty(2) for _ in range(3)])
    for got, wanted in zip(gradients, nlink.vjp(robot, "forward_dynamics", (q, qd, tau), w,
                                                engine="numpy"), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10)
    matrices = called(library.double_pendulum_forward_dynamics_derivatives, (q, qd, tau),
                      [np.empty((2, 2)) for _ in range(3)])
    for got, wanted in zip(matrices, robot.forward_dynamics_derivatives(
            q, qd, tau, engine="numpy"), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10)
