"""Products with the derivatives of what robots compute, against the complex step and each other."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.programs.products import find
from nlink.testing.mechanisms import EVERY, random_robot
from nlink.testing.samples import coordinate_rates

STEP = 1e-30
NAMES = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "jacobian", "kinetic_energy",
         "pose")


def arguments(robot, name, rng):
    """Arrays for a computation, and tangents."""
    q, qd = robot.random_state(rng)
    given = {"q": q, "qd": qd}
    names = [port for port, _ in find(name, loops=bool(robot.description.loops)).inputs
             if port != "f_ext"]
    args = tuple(given.get(port, rng.normal(size=robot.n)) for port in names)
    return args, tuple(rng.normal(size=robot.n) for _ in names)


def complex_step(robot, name, args, tangents, moving=None):
    """The derivative of a program's flat results along tangents; the others stand still."""
    moving = len(args) if moving is None else moving
    moved = []
    for k, (x, v) in enumerate(zip(args, tangents, strict=False)):
        rate = coordinate_rates(robot, x, v) if k == 0 else v
        moved.append(x + 1j * STEP * rate * (k < moving))
    moved += list(args[len(tangents):])
    results = robot.request(name).program()(*(list(np.ravel(x)) for x in moved))
    return [np.imag(np.array(x, complex)) / STEP for x in results]


def close(a, b, *scales, rtol=1e-12):
    a, b = np.ravel(np.concatenate([np.ravel(x) for x in a])), np.concatenate(
        [np.ravel(x) for x in b])
    scale = max(1e-3, np.abs(a).max(initial=0), np.abs(b).max(initial=0), *scales)
    return np.abs(a - b).max(initial=0) <= rtol * scale


def check_products(seed):
    """jvp and hvp are complex steps, vjp is the transpose: for a random mechanism."""
    robot = random_robot(seed, 1 + seed % 5, types=EVERY, friction=False)
    rng = np.random.default_rng(seed)
    condition = max(1.0, np.linalg.cond(robot.mass_matrix(robot.random_state(rng)[0])))
    how = {"engine": "numpy"}
    for name in NAMES:
        args, tangents = arguments(robot, name, rng)
        change = nlink.jvp(robot, name, args, tangents, **how)
        loss = condition if name == "forward_dynamics" else 1.0
        assert close([change], complex_step(robot, name, args, tangents), rtol=1e-12 * loss), name
        w = rng.normal(size=np.shape(change))
        gradients = nlink.vjp(robot, name, args, w, **how)
        one, other = np.sum(w * change), sum(map(np.dot, gradients, tangents))
        assert close([one], [other], *(abs(g).max() for g in gradients), rtol=1e-11 * loss), name
        if name in ("inverse_dynamics", "mass_matrix"):
            second = nlink.hvp(robot, name, args, w, tangents, **how)
            assert close(second, complex_step(robot, f"{name}_vjp", (*args, w), tangents),
                         rtol=1e-11), name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [1, 0, 28, 3])
def test_products_are_complex_steps(seed):
    check_products(seed)


@pytest.mark.slow
def test_products_are_complex_steps_for_many():
    for seed in range(4, 9):
        check_products(seed)


@pytest.mark.slow
def test_formulations_and_engines_agree():
    robot = random_robot(5, 2, tree=False, fixed=False)
    rng = np.random.default_rng(2)
    args, tangents = arguments(robot, "forward_dynamics", rng)
    w = rng.normal(size=robot.n)
    for kind, more in (("jvp", tangents), ("vjp", (w,)), ("hvp", (w, *tangents))):
        name = f"forward_dynamics_{kind}"
        expected = robot.compute(name, *args, *more, engine="python")
        for engine in ("numpy", "compiled") if kind != "hvp" else ("numpy",):
            assert close(np.atleast_2d(robot.compute(name, *args, *more, engine=engine)),
                         np.atleast_2d(expected), rtol=1e-9)
        for formulation in ("implicit", "implicit-sweeps", "articulated", "denoc", "composite"):
            assert close(np.atleast_2d(robot.compute(name, *args, *more, engine="numpy",
                                                     algorithm=formulation)),
                         np.atleast_2d(expected), rtol=1e-9), (kind, formulation)


def test_forward_undoes_inverse_with_friction():
    robot = random_robot(11, 3, types=EVERY)
    rng = np.random.default_rng(3)
    (q, qd, qdd), (dq, dqd, dqdd) = arguments(robot, "inverse_dynamics", rng)
    tau = robot.inverse_dynamics(q, qd, qdd)
    dtau = nlink.jvp(robot, "inverse_dynamics", (q, qd, qdd), (dq, dqd, dqdd), engine="numpy")
    back = nlink.jvp(robot, "forward_dynamics", (q, qd, tau), (dq, dqd, dtau), engine="numpy")
    assert close([back], [dqdd], rtol=1e-12 * np.linalg.cond(robot.mass_matrix(q)))


def test_products_of_loops_are_limits_of_differences():
    robot = nlink.load("four_bar")
    args, tangents = arguments(robot, "forward_dynamics", np.random.default_rng(1))
    change = nlink.jvp(robot, "forward_dynamics", args, tangents, engine="numpy")
    h = 1e-3
    there = [robot.forward_dynamics(*(x + s * h * v for x, v in zip(args, tangents, strict=True)),
                                    engine="numpy") for s in (1, -1, 2, -2)]
    slope = (8 * (there[0] - there[1]) - (there[2] - there[3])) / (12 * h)
    assert close([change], [slope], rtol=1e-9)


def test_wrenches_have_tangents_and_gradients():
    robot = nlink.load("planar3")
    rng = np.random.default_rng(4)
    args, tangents = arguments(robot, "forward_dynamics", rng)
    f, df = rng.normal(size=(2, 3, 6))
    change = nlink.jvp(robot, "forward_dynamics", (*args, f), (*tangents, df), engine="numpy")
    w = rng.normal(size=3)
    gradients = nlink.vjp(robot, "forward_dynamics", (*args, f), w, engine="numpy")
    assert gradients[3].shape == (3, 6)
    assert np.isclose(w @ change, sum(np.sum(g * t) for g, t in zip(
        gradients, (*tangents, df), strict=True)))
    alone = nlink.jvp(robot, "forward_dynamics", (*args, f), (None, None, None, df),
                      engine="numpy")
    difference = [robot.forward_dynamics(*args, f + s * df, engine="numpy") for s in (1, -1)]
    assert np.allclose(alone, (difference[0] - difference[1]) / 2)  # linear in the wrenches


def test_products_of_products():
    robot = random_robot(1, 2, types=("spherical", "revolute"), friction=False)
    rng = np.random.default_rng(0)
    (q,), (v,) = arguments(robot, "mass_matrix", rng)
    (second,) = complex_step(robot, "mass_matrix_jvp", (q, v), (v, np.zeros_like(v)))
    twice = robot.compute("mass_matrix_jvp_jvp", q, v, v, np.zeros_like(v), engine="numpy")
    assert close([twice], [second])


@pytest.mark.parametrize(("robot", "name"), [
    ("planar3", "regressor"), ("planar3", "poses"), ("planar3", "operational_mobility"),
    ("four_bar", "closure_error")])
def test_weights_that_are_arguments_may_stand_still(robot, name):
    robot = nlink.load(robot)
    q, qd = robot.random_state(1)
    args = (q,) if name != "regressor" else (q, qd, qd)
    w, still = np.ones_like(robot.compute(name, *args)), (None,) * len(args[1:])
    given, expected = (np.hstack(nlink.jvp(robot, f"{name}_vjp", (*args, w), (qd, *still, rate)))
                       for rate in (None, 0 * w))
    np.testing.assert_array_equal(given, expected)


def test_products_of_products_of_the_dynamics_need_no_wrenches():
    robot = nlink.load("double_pendulum")
    rng = np.random.default_rng(0)
    args, v = arguments(robot, "forward_dynamics", rng)
    w, f = rng.normal(size=2), rng.normal(size=(2, 6))
    still = (None,) * 3
    twice = nlink.jvp(robot, "forward_dynamics_jvp", (*args, *v), (*v, *still), engine="numpy")
    hessian = nlink.hvp(robot, "forward_dynamics", args, w, v, engine="numpy")
    assert np.isclose(w @ twice, sum(h @ x for h, x in zip(hessian, v, strict=True)))
    loaded = nlink.jvp(robot, "forward_dynamics_jvp", (*args, f, *v, 0 * f),
                       (*v, None, *still, None), engine="numpy")
    hessian = nlink.hvp(robot, "forward_dynamics", (*args, f), w, (*v, None), engine="numpy")
    assert np.isclose(w @ loaded, sum(h @ x for h, x in zip(hessian[:3], v, strict=True)))
    assert not np.allclose(loaded, twice)


def test_matrices_of_derivatives_are_products_with_units():
    robot = random_robot(3, 4, types=EVERY, friction=False)
    (q,), _ = arguments(robot, "mass_matrix", np.random.default_rng(1))
    dM = robot.mass_matrix_derivatives(q, engine="numpy")
    dJ = robot.jacobian_derivatives(q, engine="numpy")
    for k, unit in enumerate(np.eye(robot.n)):
        assert close([dM[..., k]], [nlink.jvp(robot, "mass_matrix", q, unit, engine="numpy")])
        assert close([dJ[..., k]], [nlink.jvp(robot, "jacobian", q, unit, engine="numpy")])
    dV = robot.compute("potential_energy_derivatives", q, engine="numpy")
    assert close([dV], [robot.gravity_torque(q, engine="numpy")])


def test_batches_and_out():
    robot = nlink.load("planar3")
    rng = np.random.default_rng(0)
    q, qd = robot.random_state(rng, (4, 5))
    v = rng.normal(size=3)
    Mdot = nlink.jvp(robot, "mass_matrix", q, v)
    assert Mdot.shape == (4, 5, 3, 3)
    out = np.empty_like(Mdot)
    assert nlink.jvp(robot, "mass_matrix", (q,), (v,), out=out) is out
    assert np.array_equal(out, Mdot)
    assert np.allclose(Mdot[2, 3], nlink.jvp(
        robot, "mass_matrix", q[2, 3], v))
    g = nlink.vjp(robot, "kinetic_energy", (q, qd), np.ones((4, 5)))
    assert [x.shape for x in g] == [(4, 5, 3)] * 2
    assert np.allclose(g[1], np.einsum("...ij,...j", robot.mass_matrix(q), qd))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["puma560", "panda"])
def test_few_operations(name):
    robot = nlink.load(name)
    whole = nlink.count(robot, "forward_dynamics").total
    assert nlink.count(robot, "forward_dynamics_vjp", "implicit").total < 2.3 * whole
    assert nlink.count(robot, "forward_dynamics_hvp", "implicit").total < 5.6 * whole


@pytest.mark.parametrize(("call", "message"), [
    (lambda r: nlink.jvp(r, "bias", (np.zeros(3),), (np.zeros(3),)),
     r"args: 1 arrays, expected 2 \(q, qd\)"),
    (lambda r: nlink.jvp(r, "bias", (np.zeros(3),) * 2, (np.zeros(3),)),
     r"tangents: 1 arrays, expected 2 \(q, qd\)"),
    (lambda r: nlink.jvp(r, "bias", (np.zeros(3),) * 2, (np.zeros(3), np.zeros(2))),
     r"tangents \(qd\): shape \(2,\), expected \(..., 3\)"),
    (lambda r: nlink.vjp(r, "bias", (np.zeros(3),) * 2, np.zeros(4)),
     r"cotangent: shape \(4,\), expected \(..., 3\)"),
    (lambda r: nlink.hvp(r, "factor_mass_matrix", np.zeros(3), (np.eye(3), np.eye(2)), np.zeros(3)),
     r"cotangent \(D\): shape \(2, 2\), expected \(..., 3\)"),
    (lambda r: nlink.vjp(r, "mass_matrix", np.zeros(3), None), "cotangent: dtype object"),
    (lambda r: nlink.vjp(r, "factor_mass_matrix", (np.zeros(3),), 1.0),
     r"cotangent: expected a tuple of 2 arrays \(U, D\)"),
    (lambda r: nlink.vjp(r, "nothing", (np.zeros(3),), 1.0), "'nothing' is not computed here"),
    (lambda r: nlink.vjp(None, "bias", (np.zeros(3),), 1.0), "expected a Robot"),
    (lambda r: r.compute("forward_dynamics_vjp", f_ext=np.zeros((3, 6))),
     "give both to nlink.jvp"),
    (lambda r: nlink.count(r, "bias_vjp", shared=False), "written by the graph"),
])
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(nlink.load("planar3"))


@pytest.mark.slow
def test_products_agree_with_the_recursions():
    robot = random_robot(8, 3, types=EVERY, friction=False)
    rng = np.random.default_rng(5)
    for name in ("inverse_dynamics", "forward_dynamics"):
        args, (dq, dqd, dx) = arguments(robot, name, rng)
        by_q, by_qd, *by_tau = robot.compute(f"{name}_derivatives", *args, engine="numpy")
        by_third = by_tau[0] if by_tau else robot.mass_matrix(args[0], engine="numpy")
        change = nlink.jvp(robot, name, args, (dq, dqd, dx), engine="numpy")
        assert close([change], [by_q @ dq + by_qd @ dqd + by_third @ dx], rtol=1e-11)
