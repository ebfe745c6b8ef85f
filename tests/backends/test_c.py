"""C export: strict C99 that computes what the kernel computes."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import sys
from pathlib import Path

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


NARROW = ["-Wdouble-promotion", "-Wfloat-conversion"]


@needs_gcc
@pytest.mark.slow
def test_float32_is_float_throughout_and_is_the_kernel_of_float32(tmp_path):
    programs = [random_program(seed, size=80) for seed in range(2)]
    for dtype in ("float64", "float32"):  # both fit into one program
        source, header = write_c(programs, "arm", tmp_path, dtype)
    assert source.name == "arm_float32.c"
    assert "double" not in source.read_text()
    subprocess.run([GCC, *STRICT, *NARROW, "-c", source, "-o", tmp_path / "arm.o"], check=True)
    library = built(source, header)
    for program in programs:
        arrays = [np.ascontiguousarray(x[0], np.float32) for x in random_arrays(program, 1)]
        outs = [np.empty(port.shape, np.float32) for port in program.outputs]
        getattr(library, f"arm_float32_{program.name}")(*(
            ctypes.c_void_p(x.ctypes.data) for x in (*arrays, *outs)))
        kernel = Kernel(compile_program(program, "float32"))
        for got, wanted in zip(outs, kernel(*arrays), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


@needs_gcc
def test_every_primitive_tables_and_constants_in_floats(tmp_path):
    from nlink.scalars.lookup import LookupTable

    g = Graph()
    x, y = g.input("x[0]"), g.input("x[1]")
    values = [nlink.minimum(x, y), x.sign(), nlink.floor(x), abs(y), nlink.tanh(x),
              nlink.log(abs(y)), LookupTable([1.5, 2.5e-20, 3.0])(x), nlink.where(x < y, x, 1e-7),
              x * 1e30 * 1e30, nlink.scalars.primitives.on("scramble", x, y)]
    program = Program("some", (Port("x", (2,)),), (Port("u", (len(values),)),), tuple(values))
    source, header = write_c([program], "all", tmp_path, "float32")
    library, given = built(source, header), np.array([1.25, -0.5], np.float32)
    out = np.empty(len(values), np.float32)
    library.all_float32_some(ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(out.ctypes.data))
    np.testing.assert_allclose(out, Kernel(compile_program(program, "float32"))(given), rtol=1e-6)


def integrator(robot, period):
    """A step of semi-implicit Euler as a function of one's own, and the same in NumPy."""
    def step(q, qd, tau):
        rates = qd + period * robot.forward_dynamics(q, qd, tau)
        return np.concatenate([q + period * rates, rates])

    return step, nlink.function(step, *[robot.n] * 3)


@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_steps_in_c_are_those_in_python(tmp_path, dtype):
    robot = nlink.load("double_pendulum")
    plain, traced = integrator(robot, 1e-3)
    library = built(*nlink.export_c(robot, [traced, "kinetic_energy"], tmp_path, dtype=dtype))
    stem = "double_pendulum" + "_float32" * (dtype == "float32")
    step = getattr(library, f"{stem}_step")
    state, tau, out = np.array([0.3, 0.2, 0.0, 0.0], dtype), np.zeros(2, dtype), np.empty(4, dtype)
    wanted = state.astype(float)
    for _ in range(200):
        step(*(ctypes.c_void_p(x.ctypes.data) for x in (state[:2], state[2:], tau, out)))
        state[:] = out
        wanted = plain(wanted[:2], wanted[2:], np.zeros(2))
    np.testing.assert_allclose(state, wanted, rtol=1e-12 if dtype == "float64" else 1e-4)
    with pytest.raises(ValueError, match="dtype: 'float16', expected 'float64' or 'float32'"):
        nlink.export_c(robot, ["kinetic_energy"], tmp_path, dtype="float16")


EXAMPLE = Path(__file__).parents[2] / "examples" / "microcontroller"
CROSS = shutil.which("aarch64-linux-gnu-gcc")


@needs_gcc
@pytest.mark.slow
def test_the_microcontroller_example_reaches_its_goal_and_is_small(tmp_path):
    subprocess.run([sys.executable, EXAMPLE / "generate.py", tmp_path], check=True)
    source, program = tmp_path / "double_pendulum_float32.c", tmp_path / "desktop"
    subprocess.run([GCC, *STRICT, *NARROW, "-Os", f"-I{tmp_path}", EXAMPLE / "desktop.c", source,
                    "-o", program, "-lm"], check=True)
    answer = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    np.testing.assert_allclose([float(x) for x in answer.split()], [0.5, -0.8], atol=1e-5)
    sketch = (EXAMPLE / "microcontroller.ino").read_text()
    header = (tmp_path / "double_pendulum_float32.h").read_text()
    for name in ("double_pendulum_float32_control", "double_pendulum_float32_step"):
        assert f"{name}(" in sketch
        assert f"{name}(" in header
    if CROSS is None:
        return
    subprocess.run([CROSS, "-std=c99", "-Os", "-c", source, "-o", tmp_path / "arm.o"], check=True)
    tool = CROSS.removesuffix("gcc")
    code = subprocess.run([f"{tool}objdump", "-d", tmp_path / "arm.o"], capture_output=True,
                          text=True, check=True).stdout
    assert "fcvt" not in code  # no number becomes a double
    size = subprocess.run([f"{tool}size", tmp_path / "arm.o"], capture_output=True, text=True,
                          check=True).stdout.splitlines()[1].split()
    assert int(size[0]) < 2000
    assert size[1:3] == ["0", "0"]  # nothing in RAM


ARM = shutil.which("arm-none-eabi-gcc")
CORTEX = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
"""A Cortex-M4 whose floating-point unit has no doubles."""
ARDUINO = """
unsigned long micros();
struct Printer {
  void begin(long);
  void print(float, int);
  void print(char);
  void print(const char *);
  void println(unsigned long);
};
extern Printer Serial;
"""


@pytest.mark.slow
@pytest.mark.skipif(ARM is None, reason="arm-none-eabi-gcc is not installed")
def test_the_microcontroller_example_runs_on_a_microcontroller(tmp_path):
    """In half a kilobyte of code, without a double; in qemu, where there is one, to its goal."""
    assert ARM is not None
    subprocess.run([sys.executable, EXAMPLE / "generate.py", tmp_path], check=True)
    source, alone = tmp_path / "double_pendulum_float32.c", tmp_path / "alone.o"
    subprocess.run([ARM, *CORTEX, *STRICT, *NARROW, "-Os", "-c", source, "-o", alone], check=True)
    wanted = subprocess.run([ARM.removesuffix("gcc") + "nm", "-u", alone], capture_output=True,
                            text=True, check=True).stdout.split()
    assert {x for x in wanted if x != "U"} <= {"sinf", "cosf"}
    size = subprocess.run([ARM.removesuffix("gcc") + "size", alone], capture_output=True, text=True,
                          check=True).stdout.splitlines()[1].split()
    assert int(size[0]) < 600
    assert size[1:3] == ["0", "0"]
    (tmp_path / "Arduino.h").write_text(ARDUINO)  # what the sketch uses of it
    subprocess.run([ARM.removesuffix("gcc") + "g++", *CORTEX, *STRICT[1:], "-Os", "-x", "c++",
                    "-include", tmp_path / "Arduino.h", f"-I{tmp_path}", "-c",
                    EXAMPLE / "microcontroller.ino", "-o", tmp_path / "sketch.o"], check=True)
    program, own = tmp_path / "arm.elf", EXAMPLE / "cortex_m4.c"
    linked = subprocess.run(
        [ARM, *CORTEX, "-Os", "--specs=rdimon.specs", "-T", EXAMPLE / "cortex_m4.ld", own,
         EXAMPLE / "desktop.c", source, f"-I{tmp_path}", "-lm", "-o", program],
        capture_output=True, text=True, check=False)
    if "rdimon.specs" in linked.stderr:
        pytest.skip("newlib for ARM is not installed")
    assert not linked.returncode, linked.stderr
    qemu = shutil.which("qemu-system-arm")
    if qemu is None:
        pytest.skip("compiled and linked; qemu-system-arm, to run it, is not installed")
    answer = subprocess.run(
        [qemu, "-M", "mps2-an386", "-nographic", "-semihosting-config",
         "enable=on,target=native", "-kernel", program],
        capture_output=True, text=True, check=True, timeout=60).stdout
    np.testing.assert_allclose([float(x) for x in answer.split()], [0.5, -0.8], atol=1e-5)
