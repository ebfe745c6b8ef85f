"""CasADi's Functions have the values and derivatives of the robot."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from framework_cases import LARGE_LAST, NAMES, QUADRUPED, arguments, robot_named, tangents

import nlink
from nlink.backends.casadi_graphs import casadi_function, identifier
from nlink.programs.program import Port, Program
from nlink.scalars.graph import Graph
from nlink.scalars.lookup import LookupTable
from nlink.scalars.primitives import PRIMITIVES

casadi = pytest.importorskip("casadi")


def close(found, wanted, rtol=1e-9):
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(np.array(found).reshape(wanted.shape), wanted, rtol=0,
                               atol=rtol * max(1.0, abs(wanted).max(initial=0.0)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", LARGE_LAST)
def test_values_and_first_derivatives(which, name):
    robot = robot_named(which)
    given = arguments(robot, name)
    rates, moved = tangents(robot, given)
    f = nlink.casadi.function(robot, name)
    close(f(*given), robot.compute(name, *given))
    symbols = [casadi.SX.sym("x", len(x)) for x in given]
    changes = [casadi.SX.sym("dx", len(x)) for x in given]
    rate = casadi.Function("rate", symbols + changes, [casadi.jtimes(
        f(*symbols), casadi.vertcat(*symbols), casadi.vertcat(*changes))])
    close(rate(*given, *moved), nlink.jvp(robot, name, given, rates))


@pytest.mark.parametrize("which", ["four_bar", pytest.param("panda", marks=pytest.mark.slow)])
def test_second_derivatives(which):
    robot = robot_named(which)
    given = arguments(robot, "forward_dynamics")
    rates, w = [np.ones(robot.n)] * 3, np.linspace(-1.0, 1.0, robot.n)
    symbols = [casadi.SX.sym("x", len(x)) for x in given]
    f = nlink.casadi.function(robot, "forward_dynamics")
    H, _ = casadi.hessian(casadi.dot(f(*symbols), w), casadi.vertcat(*symbols))
    found = casadi.Function("H", symbols, [H])(*given) @ np.concatenate(rates)
    close(found, np.concatenate(nlink.hvp(robot, "forward_dynamics", given, w, rates)))


def test_frames_wrenches_and_parameters():
    robot = nlink.load("panda")
    q, qd, tau = arguments(robot, "forward_dynamics")
    close(nlink.casadi.function(robot, "pose", frame=3)(q), robot.pose(q, frame=3))
    f_ext = np.random.default_rng(0).normal(size=(len(robot.links), 6))
    pushed = nlink.casadi.function(robot, "forward_dynamics", f_ext=True, vary=("gravity",
                                                                                "inertia"))
    heavier = robot.with_payload(1.5).with_gravity([1.0, 2.0, 3.0])
    close(pushed(q, qd, tau, f_ext, heavier.gravity, heavier.inertias),
          heavier.forward_dynamics(q, qd, tau, f_ext=f_ext))


def test_functions_of_ones_own():
    robot = nlink.load("planar3")

    def cost(q, qd):
        return robot.kinetic_energy(q, qd) + nlink.where(nlink.less(q[0], 0.5), q[1]**2, 0.0)

    q, qd = np.array([0.1, 0.2, 0.3]), np.array([1.0, -1.0, 0.5])
    traced = nlink.function(cost, 3, 3)
    for f in (nlink.casadi.function(cost, 3, 3), nlink.casadi.function(traced)):
        close(f(q, qd), traced(q, qd))
        close(f.factory("g", f.name_in(), ["jac:result_0:q"])(q, qd), traced.gradient(q, qd)[0])


@pytest.mark.parametrize(("which", "method"), [
    ("four_bar", "semi_implicit"), ("four_bar", "dopri5"), ("planar3", "rk4"),
    pytest.param("panda", "rk4", marks=pytest.mark.slow),
    pytest.param(QUADRUPED, "semi_implicit", marks=pytest.mark.slow)])
def test_steps_are_those_of_simulations(which, method):
    robot = robot_named(which)

    def control(t, q, qd):
        return -0.5 * qd + nlink.sin(t)

    closing = "drift" if robot.mechanism.closures else "project"
    system = nlink.System(robot, control, closing=closing)
    q, qd = robot.random_state(3)
    y = system.start(q, qd)
    step = nlink.casadi.step(system, 0.01, method)
    wanted = system.step(y, 0.01, t=0.3, method=method)
    close(step(y, np.zeros(robot.n), 0.3), wanted)


def test_a_step_takes_forces_and_what_varies():
    robot = nlink.load("planar3")
    system = nlink.System(robot, vary={"inertia": robot.inertias})
    y, tau, heavier = system.start([0.1, 0.2, 0.3]), [1.0, 2.0, 3.0], robot.with_payload(2.0)
    step = nlink.casadi.step(system, 0.01)
    assert step.name_in() == ["y", "tau", "t", "inertia"]
    wanted = nlink.System(heavier, tau).step(y, 0.01, method="semi_implicit")
    close(step(y, tau, 0, heavier.inertias), wanted)


def test_every_primitive_has_its_value():
    g = Graph()
    a, b = g.input("x[0]"), g.input("x[1]")
    c, d = nlink.less(a, b), nlink.less_equal(b, 1.0)
    values = {row.name: row.apply(*(a, b)[:row.arity]) for row in PRIMITIVES.values()
              if not (row.truths or row.is_truth) and (row.casadi or row.operator)}
    values |= {"where": nlink.where(c, b, a), "and": nlink.where(c & d, a, b),
               "or": nlink.where(c | d, 1.0, 0.0), "not": nlink.where(~c, 2.0, 3.0),
               "table": LookupTable([1.0, 4.0, 9.0]).apply(a), "one": LookupTable([5.0]).apply(a)}
    program = Program("each", (Port("x", (2,)),), (Port("y", (len(values),)),),
                      tuple(values.values()))
    f = casadi_function(program, "each")
    for x in ([0.5, 2.5], [2.5, 0.5], [1.7, 1.7], [3.0, 1.0], [0.2, -1.5]):
        close(f(x), program(x)[0])


@pytest.mark.parametrize("op", ["scramble", "float_bits"])
def test_what_casadi_has_not_is_said(op):
    x = Graph().input("x[0]")
    y = PRIMITIVES[op].apply(*[x] * PRIMITIVES[op].arity)
    with pytest.raises(ValueError, match=f"{op}: CasADi has no such operation"):
        casadi_function(Program("f", (Port("x", (1,)),), (Port("y", (1,)),), (y,)), "f")


def test_names_are_those_that_casadi_accepts():
    for name in ("solo-12", "7dof", "__x__", "", "a__b", "größe"):
        assert casadi.Function(identifier(name), [], []).name() == identifier(name)


def test_what_does_not_fit_is_refused(monkeypatch):
    robot = nlink.load("planar3")
    with pytest.raises(ValueError, match="vary: 'mass', expected some of gravity"):
        nlink.casadi.function(robot, "pose", vary="mass")
    with pytest.raises(TypeError, match="vary: given with a Python function"):
        nlink.casadi.function(lambda x: x, 1, vary="inertia")
    with pytest.raises(ValueError, match="step: not with dry friction"):
        nlink.casadi.step(robot.with_friction(dry=0.1), 0.01)
    with pytest.raises(ValueError, match="step: nan, expected a number > 0"):
        nlink.casadi.step(robot, math.nan)
    monkeypatch.setitem(sys.modules, "casadi", None)
    with pytest.raises(ImportError, match=r"pip install nlink\[casadi\]"):
        nlink.casadi.function(robot, "pose")


def test_steps_with_a_motion_that_is_given_or_with_contacts():
    robot = nlink.load("planar3")
    name = robot.moving_joints[0]
    system = nlink.System(robot, motion={
        getattr(name, "name", name): lambda t: 0.5 * nlink.sin(3.0 * t)})
    y = system.start([0.0, 0.2, 0.3], [1.5, 0.0, 0.0])
    close(nlink.casadi.step(system, 0.01, "rk4")(y, np.zeros(3), 0.1), system.step(y, 0.01, t=0.1))
    touching = robot.with_contacts({robot.links[-1].name: nlink.Sphere(0.02)}, nlink.World())
    with pytest.raises(ValueError, match="step: not with contacts"):
        nlink.casadi.step(touching, 0.01)
