"""JAX's functions have the values of the robot to the bit, and its derivatives to any order."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from framework_cases import LARGE_LAST, arguments, robot_named, tangents

import nlink
from nlink.testing import random_robot

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


@functools.cache
def curved() -> nlink.Robot:
    """A robot whose coordinates are quaternions, among others."""
    return random_robot(3, 2, tree=False, types=("spherical", "revolute"), fixed=False)


@functools.cache
def arm() -> nlink.Robot:
    return nlink.load("planar3")


def close(found, wanted, rtol=1e-10):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rtol * max(1.0, np.abs(wanted).max()))


def test_values_are_the_robots_to_the_bit():
    robot, f = arm(), nlink.jax.function(arm(), "forward_dynamics")
    q, qd, tau = arguments(robot, "forward_dynamics", lead=(4, 5))
    wanted = robot.forward_dynamics(q, qd, tau)
    for found in (f(q, qd, tau), jax.jit(f)(q, qd, tau), jax.vmap(f)(q, qd, tau),
                  jax.vmap(jax.jit(jax.vmap(f)))(q, qd, tau)):
        np.testing.assert_array_equal(found, wanted)
    for shared in (f(q, qd, tau[0, 0]), jax.vmap(f, (0, 0, None))(q, qd, tau[0, 0]),
                   jax.vmap(jax.vmap(f, (0, 0, None)), (0, 0, None))(q, qd, tau[0, 0])):
        np.testing.assert_array_equal(shared, robot.forward_dynamics(q, qd, tau[0, 0]))
    out = jax.vmap(f, in_axes=(1, 1, 1), out_axes=1)(q, qd, tau)
    np.testing.assert_array_equal(out, wanted)
    assert f(q[:0], qd[:0], tau[:0]).shape == (0, 5, 3)


def test_each_against_each():
    robot, f = arm(), nlink.jax.function(arm(), "forward_dynamics")
    q, qd, tau = arguments(robot, "forward_dynamics", lead=(4,))
    found = jax.vmap(jax.vmap(f, (None, 0, 0)), (0, None, None))(q, qd, tau)
    np.testing.assert_array_equal(found, robot.forward_dynamics(q[:, None], qd, tau))
    found = jax.vmap(lambda x: f(q, qd, x))(tau)
    np.testing.assert_array_equal(found, robot.forward_dynamics(q, qd, tau[:, None]))


@pytest.mark.slow
def test_float32_is_the_robots_to_the_bit():
    robot, f = arm(), jax.jit(nlink.jax.function(arm(), "forward_dynamics"))
    given = [x.astype(np.float32) for x in arguments(robot, "forward_dynamics", lead=(33,))]
    found = f(*given)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, robot.forward_dynamics(*given))
    assert f(given[0], *(x.astype(float) for x in given[1:])).dtype == np.float64
    slope = jax.vmap(jax.jacfwd(f))(*given)
    assert slope.dtype == np.float32
    close(slope, robot.forward_dynamics_derivatives(*map(np.float64, given))[0], 1e-3)


@pytest.mark.parametrize("which", LARGE_LAST)
def test_rates_and_gradients_are_the_robots(which):
    robot = robot_named(which)
    f = nlink.jax.function(robot, "forward_dynamics")
    given = arguments(robot, "forward_dynamics", lead=(3,))
    rates, moved = tangents(robot, given)
    value, rate = jax.jvp(f, given, moved)
    close(value, robot.forward_dynamics(*given), 1e-13)
    close(rate, nlink.jvp(robot, "forward_dynamics", given, rates))
    w = np.random.default_rng(0).normal(size=value.shape)
    gradients = jax.vjp(f, *given)[1](w)
    assert [g.shape for g in gradients] == [x.shape for x in given]
    close(sum((g * v).sum() for g, v in zip(gradients, moved, strict=True)), (w * rate).sum())


def named(robot, name):
    return nlink.jax.function(robot, name), arguments(robot, name)


def stepped(robot):
    system = nlink.System(robot, lambda t, q, qd: -qd, friction="smooth")
    return nlink.jax.step(system, 0.01), [system.start(*robot.random_state(1)), np.ones(robot.n)]


@pytest.mark.slow
@pytest.mark.parametrize("make", [
    lambda: named(curved(), "forward_dynamics"), lambda: named(curved(), "pose"),
    lambda: named(nlink.load("four_bar"), "forward_dynamics"),
    lambda: named(arm(), "regressor"), lambda: stepped(arm()),
    lambda: stepped(nlink.load("four_bar"))])
def test_derivatives_are_those_that_jax_checks(make):
    from jax.test_util import check_grads

    f, given = make()
    check_grads(f, given, order=2, modes=("fwd", "rev"), eps=1e-6, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_matrices_of_derivatives():
    robot, f = arm(), nlink.jax.function(arm(), "forward_dynamics")
    given = arguments(robot, "forward_dynamics", lead=(5,))
    wanted = robot.forward_dynamics_derivatives(*given)
    for transform in (jax.jacfwd, jax.jacrev):
        found = jax.jit(jax.vmap(transform(f, argnums=(0, 1, 2))))(*given)
        for x, y in zip(found, wanted, strict=True):
            close(x, y)
    H = jax.hessian(lambda q: f(q, given[1][0], given[2][0])[0])(given[0][0])
    v, e = np.array([1.0, 2.0, -1.0]), np.eye(3)[0]
    zero = np.zeros(3)
    close(H @ v, nlink.hvp(robot, "forward_dynamics", [x[0] for x in given], e,
                           [v, zero, zero])[0])


@pytest.mark.slow
def test_gradients_by_what_all_states_share():
    robot = arm()
    f = nlink.jax.function(robot, "forward_dynamics", vary=("inertia", "gravity"))
    q, qd, tau = arguments(robot, "forward_dynamics", lead=(4,))
    found = jax.grad(lambda I, g: f(q, qd, tau, I, g).sum(), argnums=(0, 1))(
        robot.inertias, robot.gravity)
    by = nlink.function(robot, "forward_dynamics").by
    for x, name in zip(found, ("inertia", "gravity"), strict=True):
        close(x, by(name)(q, qd, tau, cotangent=np.ones_like(q)).sum(axis=0))
    heavy = robot.with_payload(1.0)
    close(f(q, qd, tau, heavy.inertias, robot.gravity), heavy.forward_dynamics(q, qd, tau))


def test_functions_of_ones_own_and_wrenches():
    robot = arm()
    energy = nlink.function(lambda q, qd: robot.kinetic_energy(q, qd) + nlink.sin(q[0]), 3, 3)
    q, qd = arguments(robot, "inverse_dynamics")[:2]
    f = nlink.jax.function(energy)
    close(jax.grad(f)(q, qd), energy.gradient(q, qd)[0])
    f_ext = np.random.default_rng(0).normal(size=(3, 6))
    pushed = nlink.jax.function(robot, "inverse_dynamics", f_ext=True)
    close(pushed(q, qd, qd, f_ext), robot.inverse_dynamics(q, qd, qd, f_ext=f_ext), 1e-14)


def test_quaternions_of_any_length():
    robot, f = curved(), nlink.jax.function(curved(), "forward_dynamics")
    q, qd, tau = arguments(robot, "forward_dynamics")
    k = robot.mechanism.joints[0].type.nq
    longer = np.concatenate([2.5 * q[:k], q[k:]]) if k == 4 else q
    close(f(longer, qd, tau), f(q, qd, tau))


@pytest.mark.slow
def test_steps_and_rollouts_are_simulations():
    robot = arm()
    system = nlink.System(robot, lambda t, q, qd: nlink.sin(t) - 0.5 * qd)
    y = system.start(*robot.random_state(0, (4,)))
    forces = np.random.default_rng(0).normal(size=(6, robot.n))
    step, run = nlink.jax.step(system, 0.01, "rk4"), nlink.jax.rollout(system, 0.01, "rk4")
    close(step(y), system.step(y, 0.01), 1e-13)
    states, now = [], y
    for k, tau in enumerate(forces):
        now = step(now, tau, 0.01 * k)
        states.append(now)
    close(jax.jit(run)(y, forces), np.array(states), 1e-13)
    free = nlink.simulate(robot, *robot.random_state(2), t=0.05, every=0.01, step=0.01,
                          method="rk4")
    last = nlink.jax.rollout(robot, 0.01, "rk4")(np.concatenate([free.q[0], free.qd[0]]),
                                                 np.zeros((5, robot.n)))[-1]
    close(last, np.concatenate([free.q[-1], free.qd[-1]]), 1e-12)


@pytest.mark.slow
def test_gradient_of_a_rollout_is_the_adjoint():
    robot, (q, qd) = arm(), arm().random_state(4)
    run = nlink.jax.rollout(robot, 0.02, "rk4")

    def cost(q, qd):
        last = run(jnp.concatenate([q, qd]), jnp.zeros((10, 3)))[-1]
        return last[:3] @ last[:3] + last[3]

    found = nlink.adjoint(robot, lambda q, qd: q @ q + qd[0], q, qd, t=0.2, every=0.02)
    for x, name in zip(jax.jit(jax.grad(cost, argnums=(0, 1)))(q, qd), ("q0", "qd0"), strict=True):
        close(x, found.gradient[name], 1e-9)


@pytest.mark.slow
def test_what_varies_in_a_step_has_derivatives():
    robot = arm()
    system = nlink.System(robot, vary={"inertia": robot.inertias})
    step, y = nlink.jax.step(system, 0.01), system.start([0.1, 0.2, 0.3])
    heavy = robot.with_payload(2.0)
    close(step(y, np.zeros(3), 0.0, heavy.inertias),
          nlink.System(heavy).step(y, 0.01, method="semi_implicit"), 1e-13)
    np.testing.assert_array_equal(step(y), step(y, np.zeros(3), 0.0, robot.inertias))
    slope = jax.jacrev(lambda I: step(y, np.zeros(3), 0.0, I))(robot.inertias)
    assert slope.shape == (6, 3, 10)
    assert np.abs(slope).max() > 0


def test_scratch_memory_that_is_not_on_the_stack(monkeypatch):
    from nlink.backends.llvm import xla_handler

    monkeypatch.setattr(xla_handler, "ON_STACK", 0)
    robot = nlink.load("double_pendulum")
    f = nlink.jax.function(robot, "operational_mobility")
    q = robot.random_state(0, (100,))[0]
    np.testing.assert_array_equal(f(q), robot.compute("operational_mobility", q))


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda f, x: f(x, x), TypeError, "2 arguments, expected 3 .q, qd, tau."),
    (lambda f, x: f(x[:2], x, x), ValueError, r"q has shape \(2,\), expected \(..., 3\)"),
    (lambda f, x: f(x.astype(complex), x, x), TypeError, "complex128, float64, float64, expected"),
    (lambda f, x: f(x.astype(np.float16), *[np.float16(x)] * 2), TypeError, "expected float64 or"),
    (lambda f, x: f(np.ones((2, 3)), np.ones((4, 3)), x), ValueError, "do not broadcast: q"),
    (lambda f, x: f("x", x, x), TypeError, "not a valid JAX"),
])
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(nlink.jax.function(arm(), "forward_dynamics"), np.zeros(3))


def test_versions_that_are_not_known_are_refused(tmp_path, monkeypatch):
    from nlink.backends.llvm.xla_handler import expect_known_api

    expect_known_api(Path(jax.ffi.include_dir()))
    header = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    header.parent.mkdir(parents=True)
    for text, message in (("#define XLA_FFI_API_MAJOR 1\n#define XLA_FFI_API_MINOR 0\n",
                           "version 1.0 of the FFI, expected 0.1 to 0.3"), ("", "no version")):
        header.write_text(text)
        with pytest.raises(ImportError, match=message):
            expect_known_api(tmp_path)
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "nlink.backends.jax_calls", raising=False)
    monkeypatch.delattr("nlink.backends.jax_calls", raising=False)
    with pytest.raises(ImportError, match=r"pip install nlink\[jax\]"):
        nlink.jax.function(arm(), "pose")


@pytest.mark.slow
def test_several_devices(tmp_path):
    """Each device computes a part of the states; the gradient by what they share is their sum."""
    script = """
        import jax, numpy as np, nlink
        from jax.sharding import Mesh, PartitionSpec as P
        jax.config.update("jax_enable_x64", True)
        robot = nlink.load("planar3")
        f = nlink.jax.function(robot, "forward_dynamics")
        q, qd = robot.random_state(0, (6,))
        tau = np.ones(3)
        mesh = Mesh(np.array(jax.devices()), ("x",))
        g = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=(P("x"), P("x"), P()), out_specs=P("x")))
        assert np.array_equal(g(q, qd, tau), robot.forward_dynamics(q, qd, tau))
        one, other = (jax.grad(lambda tau: (h(q, qd, tau)**2).sum())(tau) for h in (f, g))
        assert np.allclose(one, other, rtol=1e-12), (one, other)
        print(len(jax.devices()), "devices")
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=False, text=True,
        capture_output=True, env=os.environ | {
            "XLA_FLAGS": "--xla_force_host_platform_device_count=2"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 devices\n"
