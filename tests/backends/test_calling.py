"""Kernels are called like NumPy gufuncs, and so is every other engine."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from nlink.programs.calling import call
from nlink.programs.program import Port

Q, M = Port("q", (6,)), Port("m", (2, 3))
OUT, FULL = Port("u", (6,)), Port("v", (2, 3))


def run(inputs, outputs, count):
    """u = 2 q + sum(m), v = m + q[0], on flat arrays."""
    q, m = inputs
    assert q.shape == (count, 6)
    assert m.shape == (count, 6)
    for x in (*inputs, *outputs):
        assert x.strides[1] == x.itemsize
        assert x.dtype == inputs[0].dtype
    outputs[0][...] = 2 * q + m.sum(axis=1, keepdims=True)
    outputs[1][...] = m + q[:, :1]


def ask(q, m, out=None):
    return call((Q, M), (OUT, FULL), (q, m), out, run)


def expected(q, m):
    q, m = np.asarray(q, float), np.asarray(m, float)
    return 2 * q + m.sum(axis=(-1, -2))[..., None], m + q[..., :1, None]


@pytest.fixture
def q():
    return np.random.default_rng(0).normal(size=(4, 5, 6))


@pytest.fixture
def m():
    return np.random.default_rng(1).normal(size=(4, 5, 2, 3))


def check(q, m):
    narrow = q.dtype.itemsize < 8  # float32 is computed in float32
    for got, wanted in zip(ask(q, m), expected(q, m), strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-5 if narrow else 1e-12,
                                   atol=1e-5 * narrow)


def test_leading_shapes(q, m):
    for lead in ((), (0,), (slice(0, 1),), (slice(None), 2), (2, slice(None)), (...,)):
        check(q[lead], m[lead])
    check(q[0, 0], m[0, 0])


def test_broadcasting(q, m):
    check(q[0, 0], m)
    check(q, m[0, 0])
    check(q[:, :1], m[:1])
    check(q[:, None, :1], m[0])
    check(np.broadcast_to(q[0, 0], (4, 5, 6)), m)


@pytest.mark.parametrize("change", [
    lambda x: x[::-1], lambda x: x[:, ::-1], lambda x: x[::2], lambda x: x[:, ::2],
    lambda x: np.asfortranarray(x), lambda x: x.swapaxes(0, 1).copy().swapaxes(0, 1),
    lambda x: np.repeat(x, 2, axis=-1)[..., ::2], lambda x: x[..., ::-1],
    lambda x: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 2)])[..., 1:-2],
    lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64).reshape(x.shape),
    lambda x: x.astype(">f8"), lambda x: x.astype(np.float32), lambda x: (x * 9).astype(int),
    lambda x: (x * 9).astype(">i4"), lambda x: x > 0])
def test_any_strides_and_safe_dtypes(q, m, change):
    check(change(q), change(m))


def test_row_major_rows_and_strided_batches_are_not_copied(q, m):
    seen = []

    def look(inputs, outputs, count):
        seen.extend(inputs)
        run(inputs, outputs, count)

    wide = np.zeros((4, 5, 9))
    for x in (q, q[1], q[::-1, 0], q[:, 2], wide[..., 2:8], q[:, :0]):
        seen.clear()
        call((Q, M), (OUT, FULL), (x, m[0, 0]), None, look)
        assert not x.size or np.shares_memory(seen[0], x)
        assert not x.size or np.shares_memory(seen[1], m)


def test_lists_and_read_only_arrays(q, m):
    q.flags.writeable = False
    check(q, m)
    u, _ = ask(q[0, 0].tolist(), m[0, 0].tolist())
    np.testing.assert_allclose(u, expected(q[0, 0], m[0, 0])[0])


def test_results_land_in_out(q, m):
    wanted = expected(q, m)
    u, v = np.empty((4, 5, 6)), np.empty((4, 5, 2, 3))
    assert ask(q, m, (u, v))[0] is u
    np.testing.assert_allclose(v, wanted[1])
    big = np.full((8, 5, 6), 7.0)
    ask(q, m, (big[::2], None))
    np.testing.assert_allclose(big[::2], wanted[0])
    assert (big[1::2] == 7).all()
    fortran = np.empty((4, 5, 6), order="F")
    ask(q, m, (fortran, v))
    np.testing.assert_allclose(fortran, wanted[0])


def test_out_may_overlap_an_input(q, m):
    wanted = expected(q, m)
    ask(q, m, (q, m))
    np.testing.assert_allclose(q, wanted[0])
    np.testing.assert_allclose(m, wanted[1])
    row = np.random.default_rng(2).normal(size=7 * 6)
    inside, shifted = row[:36].reshape(6, 6), row[3:39].reshape(6, 6)
    wanted = expected(inside, m[0, 0])
    ask(inside, m[0, 0], (shifted, None))
    np.testing.assert_allclose(shifted, wanted[0])


def test_a_scalar_port_gives_a_scalar():
    def energy(inputs, outputs, count):
        outputs[0][...] = inputs[0].sum(axis=1, keepdims=True)

    assert call((Q,), (Port("e", ()),), (np.ones(6),), None, energy) == 6.0
    assert call((Q,), (Port("e", ()),), (np.ones((3, 6)),), None, energy).shape == (3,)


@pytest.mark.parametrize(("bad", "error", "message"), [
    (np.ones((6, 100)), ValueError, r"q: shape \(6, 100\), expected \(..., 6\); did you mean q.T"),
    (np.ones(5), ValueError, r"q: shape \(5,\), expected \(..., 6\)$"),
    (1.0, ValueError, r"q: shape \(\), expected"),
    (np.ones(6, complex), TypeError, "q: dtype complex128"),
    (np.array(["a"] * 6), TypeError, "q: dtype <U1"),
    (np.array([None] * 6), TypeError, "q: dtype object"),
    (np.ones((3, 6)), ValueError, "leading shapes do not broadcast: q .3, 6., m .4, 5, 2, 3."),
])
def test_wrong_inputs_are_named(m, bad, error, message):
    with pytest.raises(error, match=message):
        ask(bad, m)


@pytest.mark.parametrize(("bad", "error", "message"), [
    (np.ones((4, 5, 6), np.float32), TypeError, "out .u.: dtype float32, expected float64"),
    (np.ones((4, 5, 6), ">f8"), TypeError, "dtype >f8"),
    (np.ones((4, 6)), ValueError, r"out .u.: shape \(4, 6\), expected \(4, 5, 6\)"),
    ([0.0] * 6, TypeError, "a list, expected a NumPy array"),
    (np.broadcast_to(0.0, (4, 5, 6)), ValueError, "read-only"),
])
def test_wrong_outs_are_named(q, m, bad, error, message):
    with pytest.raises(error, match=message):
        ask(q, m, (bad, None))


def test_wrong_numbers_of_arrays(q, m):
    with pytest.raises(TypeError, match=r"1 arrays given, expected 2 \(q, m\)"):
        call((Q, M), (OUT, FULL), (q,), None, run)
    with pytest.raises(TypeError, match=r"out: 1 arrays given, expected 2 \(u, v\)"):
        ask(q, m, np.empty(6))


@pytest.mark.slow
def test_the_convention_needs_no_llvm():
    script = ("import sys, nlink.backends.llvm, nlink.programs.calling, nlink.backends.llvm.cache;"
              "sys.exit('llvmlite' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
