"""The address of a kernel: what a caller in C gets is what Python gets, to the bit."""

from __future__ import annotations

import ctypes
import gc
import threading

import numpy as np
import pytest
from random_programs import random_arrays, random_program

import nlink
from nlink.backends.llvm.kernel import Kernel
from nlink.backends.llvm.translate import compile_program

PROGRAM = random_program(3, size=120, shapes=((6,), (2, 3), ()), outs=((4,), (2, 2)))
BATCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p,
                         ctypes.c_void_p)


def call(function, inputs, outputs, count, scratch=None):
    """Call by ctypes as a caller in C would, knowing `address` and `signature` alone."""
    s, arrays = function.signature, [*inputs, *outputs]
    scratch = np.full(s.scratch, 255, np.uint8) if scratch is None else scratch
    assert [x.shape[1:] for x in arrays] == [port.shape for port in s.ports]
    ports = (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
    strides = (ctypes.c_int64 * len(arrays))(*(
        0 if len(x) == 1 else x.strides[0] for x in arrays))
    BATCH(function.address)(ports, strides, count, s.data, scratch.ctypes.data)


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 5, 64, 1001])
def test_a_call_by_address_gives_the_bits_of_a_call(count):
    kernel = Kernel(compile_program(PROGRAM))
    inputs = random_arrays(PROGRAM, max(count, 1))
    outputs = [np.full((max(count, 1), *port.shape), 7.0) for port in PROGRAM.outputs]
    call(kernel, inputs, outputs, count)
    for x, expected in zip(outputs, kernel(*inputs), strict=True):
        np.testing.assert_array_equal(x[:count], expected[:count])
        assert (x[count:] == 7.0).all()


def test_rows_may_be_any_number_of_bytes_apart():
    kernel = Kernel(compile_program(PROGRAM))
    wide = [np.zeros((40, 3 * max(1, port.size))) for port in PROGRAM.inputs]
    inputs = [x[::-2, :port.size] for x, port in zip(wide, PROGRAM.inputs, strict=True)]
    for x, values in zip(inputs, random_arrays(PROGRAM, 20), strict=True):
        x[...] = values.reshape(x.shape)
    shaped = [np.lib.stride_tricks.as_strided(
        x, (20, *port.shape), (x.strides[0], *np.zeros(port.shape).strides))
        for x, port in zip(inputs, PROGRAM.inputs, strict=True)]
    shaped[1] = shaped[1][:1]  # shared by all states
    outputs = [np.empty((20, *port.shape)) for port in PROGRAM.outputs]
    call(kernel, shaped, outputs, 20)
    for x, expected in zip(outputs, kernel(*shaped), strict=True):
        np.testing.assert_array_equal(x, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "forward_dynamics", "mass_matrix", "forward_dynamics_derivatives"])
def test_what_compile_returns_has_an_address_and_keeps_it_valid(name):
    robot = nlink.load("ur5")
    q, qd, tau = (np.random.default_rng(2).normal(size=(3, 33, 6)))
    arrays = (q,) if name == "mass_matrix" else (q, qd, tau)
    expected = getattr(robot, name)(*arrays)
    fn = robot.compile(name)
    del robot
    gc.collect()
    outputs = [np.empty((33, *port.shape)) for port in fn.signature.outputs]
    call(fn, arrays, outputs, 33)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for x, y in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    assert type(fn.address) is int
    assert str(fn.signature).startswith(f"{name}(q: float64 (6,)")
    one = [np.empty(port.shape) for port in fn.signature.outputs]
    fn(*(x[4].copy() for x in arrays), *one)
    np.testing.assert_array_equal(one[0], expected[0][4])


@pytest.mark.slow
def test_threads_call_one_address_with_scratch_of_their_own():
    fn = nlink.load("panda").compile("forward_dynamics_derivatives")
    arrays = np.random.default_rng(3).normal(size=(4, 3, 200, 7))
    results = [[np.empty((200, 7, 7)) for _ in range(3)] for _ in range(4)]
    threads = [threading.Thread(target=call, args=(fn, given, out, 200))
               for given, out in zip(arrays, results, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for given, out in zip(arrays, results, strict=True):
        for x, expected in zip(out, fn(*given), strict=True):
            np.testing.assert_array_equal(x, expected)


def test_cffi_takes_the_declaration():
    cffi = pytest.importorskip("cffi")
    fn, ffi = nlink.load("planar3").compile("gravity_torque"), cffi.FFI()
    q, out = np.random.default_rng(4).normal(size=(9, 3)), np.zeros((9, 3))
    places = [ffi.from_buffer(x) for x in (q, out)]
    scratch = ffi.new("char[]", max(1, fn.signature.scratch))
    ffi.cast(fn.signature.DECLARATION, fn.address)(
        ffi.new("void *[]", places), ffi.new("int64_t[]", [24, 24]), 9,
        ffi.cast("void *", fn.signature.data), scratch)
    np.testing.assert_array_equal(out, fn(q))
