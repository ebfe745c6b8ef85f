"""PyTorch's functions have the values of the robot to the bit, and gradients of gradients."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from framework_cases import LARGE_LAST, arguments, robot_named, tangents

import nlink
from nlink.testing import random_robot

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install nlink[torch]")
make_fx = importlib.import_module("torch.fx.experimental.proxy_tensor").make_fx


@functools.cache
def arm() -> nlink.Robot:
    return nlink.load("planar3")


def tensors(arrays, requires_grad=True):
    return [torch.tensor(x, requires_grad=requires_grad) for x in arrays]


def given(robot, name="forward_dynamics", lead=(), **how):
    return tensors(arguments(robot, name, lead=lead), **how)


def close(found, wanted, rtol=1e-10):
    found, wanted = (np.asarray(x.detach() if torch.is_tensor(x) else x) for x in (found, wanted))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rtol * max(1.0, np.abs(wanted).max()))


def test_values_are_the_robots_to_the_bit():
    robot, f = arm(), nlink.torch.function(arm(), "forward_dynamics")
    x = given(robot, lead=(4, 5), requires_grad=False)
    wanted = robot.forward_dynamics(*(each.numpy() for each in x))
    vmap = torch.func.vmap
    for found in (f(*x), vmap(f)(*x), vmap(vmap(f))(*x), vmap(f, (1, 1, 1), 1)(*x)):
        np.testing.assert_array_equal(found, wanted)
    tau = x[2][0, 0]
    wanted = robot.forward_dynamics(x[0].numpy(), x[1].numpy(), tau.numpy())
    for found in (f(x[0], x[1], tau), vmap(vmap(f, (0, 0, None)), (0, 0, None))(x[0], x[1], tau)):
        np.testing.assert_array_equal(found, wanted)
    q, qd, tau = (each[0] for each in x)
    crossed = vmap(vmap(f, (None, 0, 0)), (0, None, None))(q, qd, tau)
    wanted = robot.forward_dynamics(q[:, None].numpy(), qd.numpy(), tau.numpy())
    np.testing.assert_array_equal(crossed, wanted)
    single = [each.float() for each in x]
    assert f(*single).dtype == torch.float32
    np.testing.assert_array_equal(
        f(*single), robot.forward_dynamics(*(each.numpy() for each in single)))
    assert f(single[0], *x[1:]).dtype == torch.float64
    assert f(*(each[:0] for each in x)).shape == (0, 5, 3)


@pytest.mark.parametrize("which", LARGE_LAST)
def test_gradients_are_the_robots(which):
    robot = robot_named(which)
    f = nlink.torch.function(robot, "forward_dynamics")
    arrays = arguments(robot, "forward_dynamics", lead=(3,))
    rates, moved = tangents(robot, arrays)
    x = tensors(arrays)
    w = torch.ones(3, robot.n, dtype=torch.float64)
    gradients = torch.autograd.grad(f(*x), x, w)
    rate = nlink.jvp(robot, "forward_dynamics", arrays, rates)
    close(sum((g * torch.tensor(v)).sum() for g, v in zip(gradients, moved, strict=True)),
          rate.sum())


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "name"), [
    (lambda: random_robot(3, 2, tree=False, types=("spherical", "revolute"), fixed=False),
     "forward_dynamics"),
    (lambda: nlink.load("four_bar"), "forward_dynamics"), (arm, "pose"), (arm, "mass_matrix")])
def test_derivatives_are_those_that_torch_checks(robot, name):
    robot = robot()
    f, x = nlink.torch.function(robot, name), given(robot, name)
    assert torch.autograd.gradcheck(f, x)
    assert torch.autograd.gradgradcheck(f, x, atol=1e-4)


def test_gradients_by_what_all_states_share():
    robot = arm()
    f = nlink.torch.function(robot, "forward_dynamics", vary=("inertia", "gravity"))
    x = given(robot, lead=(4,), requires_grad=False)
    own = tensors([robot.inertias, robot.gravity])
    found = torch.autograd.grad(f(*x, *own).sum(), own)
    for g, name in zip(found, ("inertia", "gravity"), strict=True):
        wanted = nlink.function(robot, "forward_dynamics").by(name)(
            *(each.numpy() for each in x), cotangent=np.ones((4, 3)))
        close(g, wanted.sum(axis=0))
    assert torch.autograd.gradcheck(f, [*given(robot, lead=(2,)), *own])


def test_the_operator_is_one_that_torch_accepts():
    f = nlink.torch.function(arm(), "forward_dynamics")
    from nlink.backends import torch_calls
    from nlink.derivatives.differentiable import differentiable

    name = torch_calls.registered(differentiable(arm(), "forward_dynamics"))
    x = given(arm(), lead=(4,))
    for arrays in (x, [x[0], x[1], x[2][0].detach().requires_grad_()]):
        found = torch.library.opcheck(torch.ops.nlink.call.default, (arrays, name))
        assert set(found.values()) == {"SUCCESS"}
    assert f is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of PyTorch's own compiler
def test_compiled_functions_have_the_same_values_and_gradients():
    f = nlink.torch.function(arm(), "forward_dynamics")
    compiled = torch.compile(lambda *x: f(*x).square().sum(), fullgraph=True, backend="aot_eager")
    for lead in ((4,), (7,)):
        x = given(arm(), lead=lead)
        close(compiled(*x), f(*x).square().sum(), 1e-14)
        for g, h in zip(torch.autograd.grad(compiled(*x), x),
                        torch.autograd.grad(f(*x).square().sum(), x), strict=True):
            close(g, h, 1e-13)


def test_matrices_by_vmap():
    robot, f = arm(), nlink.torch.function(arm(), "forward_dynamics")
    x = given(robot, lead=(5,), requires_grad=False)
    wanted = robot.forward_dynamics_derivatives(*(each.numpy() for each in x))
    found = torch.func.vmap(torch.func.jacrev(f, argnums=(0, 1, 2)))(*x)
    for matrix, own in zip(found, wanted, strict=True):
        close(matrix, own)


def test_steps_and_rollouts_are_simulations():
    robot = arm()
    run = nlink.torch.rollout(robot, 0.02, "rk4")
    start = tensors(robot.random_state(4))
    states = run(torch.cat(start), torch.zeros(10, 3, dtype=torch.float64))
    cost = states[-1, :3] @ states[-1, :3] + states[-1, 3]
    found = nlink.adjoint(robot, lambda q, qd: q @ q + qd[0], *(x.detach().numpy() for x in start),
                          t=0.2, every=0.02)
    for g, name in zip(torch.autograd.grad(cost, start), ("q0", "qd0"), strict=True):
        close(g, found.gradient[name], 1e-9)


def test_threads_are_as_many_as_torch_may_have():
    robot, f = arm(), nlink.torch.function(arm(), "forward_dynamics")
    x = given(robot, lead=(20_000,), requires_grad=False)
    wanted, before = f(*x), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(f(*x), wanted)
    finally:
        torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore")  # of PyTorch's own tracer
def test_layouts_threads_and_what_looks_on():
    """Numbers may lie anywhere, calls come from any thread and process, and what looks on sees
    them."""
    f, x = nlink.torch.function(arm(), "forward_dynamics"), given(
        arm(), lead=(50,), requires_grad=False)
    wanted = f(*x)
    for strange in ([each.T.contiguous().T for each in x],
                    [torch.stack([each, each], -1)[..., 0] for each in x]):
        assert torch.equal(f(*strange), wanted)
    assert torch.equal(f(*(each[::2] for each in x)), wanted[::2])
    with torch.no_grad():
        assert torch.equal(f(torch.nn.Parameter(x[0]), *x[1:]), wanted)
    with torch.inference_mode():
        assert torch.equal(f(*x), wanted)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: torch.equal(f(*x), wanted), range(100)))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x[2], torch.ones_like(x[2]))
        rate = torch.autograd.forward_ad.unpack_dual(f(x[0], x[1], dual)).tangent
    zero = np.zeros((50, 3))
    close(rate, nlink.jvp(arm(), "forward_dynamics", [each.numpy() for each in x],
                          [zero, zero, np.ones((50, 3))]))
    graph = make_fx(f)(*x)
    other = [each + 0.1 for each in x]
    assert torch.equal(graph(*other), f(*other))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_functions_work_in_a_forked_worker():
    """As the workers of a DataLoader are; in a process that nothing else has given threads."""
    script = """
        import os, warnings
        import torch, nlink
        warnings.simplefilter("ignore")
        robot = nlink.load("planar3")
        f = nlink.torch.function(robot, "forward_dynamics")
        q, qd = map(torch.tensor, robot.random_state(0, (50,)))
        x = [q, qd, torch.ones_like(qd)]
        wanted = f(*x)
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.equal(f(*x), wanted) else 1)
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda f, x: f(x.to("meta"), x, x), TypeError, "meta device"),
    (lambda f, x: f(x[None].to_sparse(), x, x), TypeError, "Sparse layout"),
    (lambda f, x: f(x, x), TypeError, "2 arguments, expected 3 .q, qd, tau."),
    (lambda f, x: f(x[:2], x, x), RuntimeError, r"q has shape \(2,\), expected \(..., 3\)"),
    (lambda f, x: f(x.cfloat(), x, x), RuntimeError, "complex128, expected float64 or float32"),
    (lambda f, x: f(x.half(), x.half(), x.half()), RuntimeError, "float16, expected float64 or"),
    (lambda f, x: f(x.expand(2, 3), x.expand(4, 3), x), RuntimeError, "mismatch|broadcast"),
    (lambda f, x: torch.ops.nlink.call([x.float(), x, x], next(iter(names()))), RuntimeError,
     "expected float64 or float32 throughout"),
    (lambda f, x: torch.ops.nlink.call([x], "pose:0"), RuntimeError, "no function 'pose:0'"),
])
def test_what_does_not_fit_is_refused(call, error, message):
    f = nlink.torch.function(arm(), "forward_dynamics")
    with pytest.raises(error, match=message):
        call(f, torch.zeros(3, dtype=torch.float64))


def names():
    from nlink.backends import torch_calls

    return [name for name in torch_calls._FUNCTIONS if name.startswith("forward_dynamics:")]


def test_functions_live_as_long_as_what_refers_to_them():
    from nlink.backends import torch_calls

    def own():
        return {name for name in torch_calls._FUNCTIONS if name.startswith("fleeting")}

    def fleeting(x):
        return nlink.sin(x)

    f = nlink.torch.function(fleeting, 2)
    x = torch.zeros(2, requires_grad=True)
    y = f(x).sum()
    del f
    gc.collect()
    assert len(own()) == 1
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    del y
    gc.collect()
    close(slope, np.ones(2))
    close(torch.autograd.grad(slope.sum(), x)[0], np.zeros(2))
    del slope
    gc.collect()
    assert not own()


def test_without_torch_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "nlink.backends.torch_calls", raising=False)
    with pytest.raises(ImportError, match=r"pip install nlink\[torch\]"):
        nlink.torch.function(arm(), "pose")
