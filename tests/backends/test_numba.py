"""Kernels inside code that Numba compiles: the bits of methods, its caches, its errors."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys

import numpy as np
import pytest

import nlink

numba = pytest.importorskip("numba")
pytestmark = pytest.mark.slow

ROBOT = nlink.load("planar3")


@numba.njit
def into(function, a, b, c, out):
    function(a, b, c, out)


@numba.njit
def new(function, a, b, c):
    return function(a, b, c)


@numba.njit(parallel=True)
def in_parallel(function, q, qd, tau, out):
    for k in numba.prange(len(q)):
        function(q[k], qd[k], tau[k], out[k])


WEIGHT = nlink.numba.function(ROBOT, "gravity_torque")


@numba.njit(cache=True)
def weight(q):
    return WEIGHT(q)


def states(count, dtype=np.float64):
    return np.random.default_rng(3).normal(size=(3, count, 3)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_state_a_batch_and_prange_have_the_bits_of_the_method(dtype):
    function = nlink.numba.function(ROBOT, "forward_dynamics", dtype=dtype)
    arrays = states(37, dtype)
    wanted = ROBOT.forward_dynamics(*arrays)
    out = np.empty_like(wanted)
    assert into(function, *arrays, out) is None
    np.testing.assert_array_equal(out, wanted)
    found = new(function, *arrays)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(new(function, *(x[5] for x in arrays)), wanted[5])
    shared = new(function, arrays[0], arrays[1][0], arrays[2])
    np.testing.assert_array_equal(shared, ROBOT.forward_dynamics(
        arrays[0], arrays[1][0], arrays[2]))
    np.testing.assert_array_equal(function(*(x[5] for x in arrays)), wanted[5])
    if dtype == "float32":  # to compile parallel code takes longest
        out[:] = 0
        in_parallel(function, *arrays, out)
        np.testing.assert_array_equal(out, wanted)


def test_several_results_and_numbers():
    function = nlink.numba.function(ROBOT, "forward_dynamics_derivatives")
    arrays = states(20)
    for found, wanted in zip(new(function, *arrays), ROBOT.forward_dynamics_derivatives(*arrays),
                             strict=True):
        np.testing.assert_array_equal(found, wanted)

    @numba.njit
    def energies(energy, q, qd):
        total = 0.0
        for k in range(len(q)):
            total += energy(q[k], qd[k])
        return total, energy(q, qd)

    total, each = energies(nlink.numba.function(ROBOT, "kinetic_energy"), *arrays[:2])
    np.testing.assert_array_equal(each, ROBOT.kinetic_energy(*arrays[:2]))
    assert total == pytest.approx(each.sum())


def test_scratch_memory_beyond_the_stack(monkeypatch):
    from nlink.backends import numba_calls

    monkeypatch.setattr(numba_calls, "ON_STACK", -1)
    own = numba.njit(lambda function, a, b, c: function(a, b, c))
    arrays = states(40)
    np.testing.assert_array_equal(own(nlink.numba.function(ROBOT, "forward_dynamics"), *arrays),
                                  ROBOT.forward_dynamics(*arrays))


def test_functions_of_ones_own_with_their_derivatives():
    cost = nlink.function(lambda x, t: x @ x * nlink.sin(t), 3, ())
    values, gradient = (nlink.numba.function(cost, kind) for kind in ("value", "vjp"))

    @numba.njit
    def descend(gradient, x, t):
        for _ in range(3):
            x = x - 0.1 * gradient(x, t, 1.0)[0]
        return x

    x = np.array([1.0, 2.0, 3.0])
    wanted = x.copy()
    for _ in range(3):
        wanted = wanted - 0.1 * cost.vjp((wanted, 0.5), 1.0)[0]
    np.testing.assert_allclose(descend(gradient, x, 0.5), wanted, rtol=1e-15)
    call = numba.njit(lambda f, x, t: f(x, t))
    assert call(values, x, 0.5) == call(nlink.numba.function(cost), x, 0.5) == cost(x, 0.5)


def test_parameters_and_wrenches_are_arguments():
    q, g = np.ones(3), np.array([1.0, -2.0, 0.0])
    torque = nlink.numba.function(ROBOT, "gravity_torque", vary="gravity")
    call = numba.njit(lambda f, *x: f(*x))
    np.testing.assert_allclose(call(torque, q, g), ROBOT.with_gravity(g).gravity_torque(q))
    pushed = nlink.numba.function(ROBOT, "inverse_dynamics", f_ext=True)
    f_ext = np.random.default_rng(1).normal(size=(len(ROBOT.links), 6))
    np.testing.assert_array_equal(call(pushed, q, q, q, f_ext),
                                  ROBOT.inverse_dynamics(q, q, q, f_ext))
    with pytest.raises(ValueError, match="dtype: 'half', expected 'float64' or 'float32'"):
        nlink.numba.function(ROBOT, "gravity_torque", dtype="half")


@pytest.mark.parametrize(("dtype", "rounding"), [("float64", 1e-12), ("float32", 1e-4)])
def test_steps_are_those_of_simulate(dtype, rounding):
    """A closed loop with a parameter that varies; in float32 to its rounding."""
    system = nlink.System(ROBOT, tau=lambda t, q, qd: nlink.sin(t) - 2.0 * qd,
                          vary={"gravity": np.array([0.0, -9.81, 0.0])})
    step = nlink.numba.step(system, 0.01, "rk4", dtype=dtype)

    @numba.njit
    def run(step, y, tau, gravity, h, steps):
        for k in range(steps):
            y = step(y, tau, h * k, gravity)
        return y

    gravity, q0 = np.array([0.0, -5.0, 0.0]), np.array([0.3, 0.2, -0.1])
    found = run(step, np.array([*q0, 0, 0, 0], dtype), np.zeros(3, dtype),
                gravity.astype(dtype), 0.01, 50)
    assert found.dtype == dtype
    wanted = nlink.simulate(ROBOT.with_gravity(gravity), q0, t=0.5, method="rk4", step=0.01,
                            tau=lambda t, q, qd: nlink.sin(t) - 2.0 * qd)
    np.testing.assert_allclose(found, [*wanted.q[-1], *wanted.qd[-1]], rtol=rounding, atol=rounding)
    with pytest.raises(ValueError, match="method: 'rodas5p', expected one of"):
        nlink.numba.step(ROBOT, 0.01, "rodas5p")


@pytest.mark.parametrize(("change", "complaint"), [
    (lambda a: (a[0].astype("f4"), *a[1:]), r"q is array\(float32, 2d, C\), expected a C-cont"),
    (lambda a: (a[0][:, ::2], *a[1:]), r"q is array\(float64, 2d, A\), expected a C-contiguous"),
    (lambda a: (a[0][None], *a[1:]), "q is array.*expected a C-contiguous array of float64 of 1 d"),
    (lambda a: (*a[:3], a[3][0]), "qdd is array.*expected an array of 2 dimensions"),
    (lambda a: (*a[:3], frozen(a[3])), "qdd is readonly array.*expected a C-contiguous writable"),
    (lambda a: (*a[:3], 1), "qdd is (int64|Literal).*expected a C-contiguous"),
])
def test_what_does_not_fit_is_a_typing_error(change, complaint):
    function = nlink.numba.function(ROBOT, "forward_dynamics")
    with pytest.raises(numba.TypingError, match=complaint):
        into(function, *change((*states(4), np.empty((4, 3)))))


def frozen(x):
    x.flags.writeable = False
    return x


def test_the_number_of_arguments_and_wrong_sizes():
    function = nlink.numba.function(ROBOT, "forward_dynamics")
    with pytest.raises(numba.TypingError, match=r"2 arguments, expected 3 or 4 .*q, qd, tau, qdd"):
        numba.njit(lambda f, x: f(x, x))(function, np.zeros(3))
    a, b, c = states(4)
    with pytest.raises(ValueError, match="qd: its shape is not"):
        new(function, a, np.zeros((4, 2)), c)
    with pytest.raises(ValueError, match="tau: not as many states"):
        new(function, a, b, c[:3])
    with pytest.raises(ValueError, match="qdd: not as many states"):
        into(function, a, b, c, np.zeros((5, 3)))
    with pytest.raises(ValueError, match="qdd shares memory with another argument"):
        into(function, a, b, c, c)
    assert new(function, a[:0], b[:0], c[:0]).shape == (0, 3)


def test_a_global_name_is_not_cached_and_numba_says_so():
    with pytest.warns(numba.NumbaWarning, match="dynamic globals"):
        found = weight(np.ones(3))
    np.testing.assert_array_equal(found, ROBOT.gravity_torque(np.ones(3)))
    enclosed = WEIGHT
    own = numba.njit(lambda q: enclosed(q), cache=True)
    with pytest.raises(TypeError, match=r"gravity_torque: machine code is not pickled.*argument"):
        own(np.ones(3))


PROGRAM = """
import sys
import numba, numpy as np, nlink

@numba.njit(cache=True)
def fall(function, q, steps):
    qd, qdd = np.zeros(3), np.zeros(3)
    for _ in range(steps):
        function(q, qd, qd, qdd)
        qd += 1e-3 * qdd
        q += 1e-3 * qd
    return q

robot = nlink.load("planar3").with_payload(float(sys.argv[1]))
found = fall(nlink.numba.function(robot, "forward_dynamics"), np.zeros(3), 50)
print(sum(fall.stats.cache_hits.values()), found.tobytes().hex())
"""


def test_another_process_uses_the_cache(tmp_path, monkeypatch):
    """Also with another robot of as many joints: addresses are no part of the code."""
    program = tmp_path / "fall.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", [str(program), "0.0"])
    first = runpy.run_path(str(program), run_name="__main__")
    assert not first["fall"].stats.cache_hits
    done = subprocess.run(
        [sys.executable, program, "1.0"], text=True, capture_output=True, check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")})
    hits, found = done.stdout.split()
    assert hits == "1"
    heavier = nlink.numba.function(ROBOT.with_payload(1.0), "forward_dynamics")
    assert found == first["fall"](heavier, np.zeros(3), 50).tobytes().hex()
    assert found != first["found"].tobytes().hex()
