"""Every algorithm of the catalogue over loops of joints, and those of users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.algorithms.catalogue import ALGORITHMS, CLOSED, Algorithm, Options
from nlink.algorithms.inverse_dynamics import no_wrenches, rigid_forces
from nlink.algorithms.kinematics import forward_kinematics, twists
from nlink.bench.bench_robots import random_arm
from nlink.engines import engines
from nlink.engines.engines import ENGINES, NotCompiled, Request
from nlink.programs.rolled_columns import NotRolled
from nlink.programs.rolled_program import RolledProgram
from nlink.programs.rolled_tracing import trace_rolled
from nlink.programs.tracing import trace
from nlink.robot import Robot
from nlink.testing.mechanisms import random_robot

ENTRIES = [entry for entries in ALGORITHMS.values() for entry in entries.values()]
DENSE = {"forward_dynamics_derivatives", "regressor", "momentum_regressor", "energy_regressor"}
"""What takes matrices apart by columns, in all formulations."""
STRAIGHT = {("forward_dynamics", "composite"), ("inverse_mass_matrix", "denoc")}
"""The formulations that are dense linear algebra, not sweeps."""
CASES = [pytest.param(entry, wrenches, id=f"{entry.name}-{entry.formulation}{'-f_ext' * wrenches}")
         for entry in ENTRIES for wrenches in (False, True)
         if (entry.name, entry.formulation) not in STRAIGHT and entry.name not in DENSE
         and (not wrenches or "f_ext" in dict(entry.inputs))]
Q, QD = ("q", ("nq",)), ("qd", ("n",))


def small(name: str) -> Robot:
    """Mechanisms that between them have branches, fixed links and joints of several rates."""
    return {"tree": lambda: random_robot(3, 6),
            "joints of several rates": lambda: random_robot(
                11, 5, types=("universal", "spherical", "revolute", "free")),
            "chain": lambda: nlink.load("stanford")}[name]()


def arguments(robot: Robot, request: Request, count: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    q, _ = robot.random_state(rng, (count,))
    return [q if port.name == "q" else rng.normal(size=(count, *port.shape))
            for port in request.ports[0]]


def agree(found, wanted, rtol=1e-9):
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, wanted)), strict=True):
        scale = np.nanmax(np.abs(b), initial=1.0)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("entry", "wrenches"), CASES)
def test_rolled_is_unrolled(entry, wrenches):
    """With and without wrenches on different robots, where there are both."""
    robot = small("tree" if wrenches else "joints of several rates")
    request = Request(entry, robot.mechanism, (robot.mechanism.links[-2],), wrenches)
    flat = [list(x.reshape(len(x), -1).T) for x in arguments(robot, request)]
    with np.errstate(all="ignore"):
        rolled, straight = (driver(entry, robot.mechanism, request.options, wrenches=wrenches)
                            (*flat) for driver in (trace_rolled, trace))
    if entry.outputs[0][0] == "Lambda":  # the frame may be short of directions: nan, or none
        return
    for a, b in zip(rolled, straight, strict=True):
        agree(*(np.array([np.broadcast_to(x, 5) for x in values]) for values in (a, b)))


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("entry", "wrenches"), [
    case for case in CASES if case.values[1] or "f_ext" not in dict(case.values[0].inputs)])
def test_compiled_is_interpreted(entry, wrenches, roll):
    roll()
    robot = small("tree")
    request = Request(entry, robot.mechanism, (robot.mechanism.links[-1],), wrenches)
    arrays = arguments(robot, request, 9)  # more than a vector, and some left over
    if entry.outputs[0][0] == "Lambda":
        arrays[0] = arrays[0][:1]
    found, wanted = (ENGINES[engine](request)(*arrays) for engine in ("compiled", "numpy"))
    agree(found, wanted, 1e-8 if entry.outputs[0][0] == "Lambda" else 1e-9)


def long(shape: str) -> Robot:
    """60 joints in a row, or in five rows from one."""
    description = random_arm(60).description
    parents = range(60) if shape == "chain" else [0, *(max(1, i - 4) for i in range(1, 60))]
    joints = tuple(replace(joint, parent=parent)
                   for joint, parent in zip(description.joints, parents, strict=True))
    return Robot(replace(description, joints=joints))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "shape"), [
    ("inverse_dynamics", "chain"),
    *((name, "tree") for name in ALGORITHMS if name not in DENSE)])
def test_engines_agree_on_long_mechanisms(name, shape, roll):
    roll()
    robot = long(shape)
    request = robot.request(
        name, wrenches="f_ext" in dict(robot.request(name).algorithm.inputs))
    assert isinstance(request.program(), RolledProgram)
    arrays = [x[0] for x in arguments(robot, request, 1)]
    found = {engine: make(request)(*arrays) for engine, make in ENGINES.items()}
    agree(found["compiled"], found["python"], 1e-6)
    agree(found["numpy"], found["python"], 1e-6)


@pytest.mark.slow
def test_matrices_of_a_long_tree_are_each_others():
    robot = long("tree")
    q, qd = robot.random_state(0)
    M = robot.mass_matrix(q, engine="compiled")
    U, D = robot.factor_mass_matrix(q, engine="compiled")
    agree((U * D) @ U.T, M)
    agree(robot.inverse_mass_matrix(q, engine="compiled") @ M, np.eye(60), 1e-7)
    agree(robot.coriolis_matrix(q, qd, engine="compiled") @ qd,
          robot.bias(q, qd) - robot.gravity_torque(q))
    J = robot.jacobian(q, 40, engine="compiled")
    agree(robot.operational_inertia(q, 40, inverse=True, engine="compiled"),
          J @ np.linalg.solve(M, J.T), 1e-7)


@pytest.mark.slow
def test_several_frames_of_a_long_tree():
    robot = long("tree")
    q, _ = robot.random_state(0)
    frames = (30, 33, 0)
    J = np.concatenate([robot.jacobian(q, frame) for frame in frames])
    found = robot.operational_inertia(q, frames=frames, inverse=True, engine="compiled")
    agree(found, J @ np.linalg.solve(robot.mass_matrix(q), J.T), 1e-7)


def own(output, text) -> Algorithm:
    """An algorithm such as users write, of an output that nlink has not heard of."""
    return Algorithm(output[0], "own", (Q, QD), (output,), text)


USERS = {
    "for each rate": (("power", ("n",)), lambda m, o, q, qd: m.each(
        lambda joint, tau, qd: tuple(t * x for t, x in zip(tau, qd, strict=True)),
        rigid_forces(m, q, qd, qd, no_wrenches(m)), qd)),
    "for each coordinate": (("speed", ("nq",)), lambda m, o, q, qd: m.each(
        lambda joint, q, qd: joint.type.space.tangent(q, qd), q, qd)),
    "along the second axis": (("axes", (3, "n")), lambda m, o, q, qd: m.each(
        lambda joint, place, q: tuple(zip(*((place.R @ s.angular).components
                                            for s in joint.subspace(q)), strict=True)),
        forward_kinematics(m, q), q)),
    "for each link": (("origins", ("links", 3)), lambda m, o, q, qd: m.to_links(
        o.links[1:], lambda link, place: place.of(link).p, o.links[0].p,
        forward_kinematics(m, q))),
    "of the whole": (("twist", (6,)), lambda m, o, q, qd: m.at(twists(m, q, qd), 2)),
}


@pytest.mark.parametrize("which", USERS)
def test_an_output_of_a_users_own(which, roll):
    roll()
    robot = small("joints of several rates")
    request = Request(own(*USERS[which]), robot.mechanism, (robot.mechanism.links[-1],), False)
    assert request.rolled
    arrays = arguments(robot, request)
    found = {engine: make(request)(*arrays) for engine, make in ENGINES.items()}
    assert np.abs(found["python"]).max() > 0
    agree(found["compiled"], found["python"])
    agree(found["numpy"], found["python"])


@pytest.mark.parametrize(("shape", "text", "reason"), [
    (("n",), lambda m, o, q, qd: [x for qs in qd for x in qs], "single joints"),
    (("n",), lambda m, o, q, qd: [0.0 for _ in m.joints], "asks for joints"),
    (("n",), lambda m, o, q, qd: m.each(lambda joint, q: (), q), "gives 0 values"),
    ((3,), lambda m, o, q, qd: (1.0,), "gives 1 values of the whole"),
    (("n", "n"), lambda m, o, q, qd: qd, r"output x of shape \('n', 'n'\)"),
])
def test_what_cannot_be_rolled_is_refused(shape, text, reason):
    robot = small("chain")
    options = Options(robot.mechanism.links[-1:], robot.mechanism.links)
    with pytest.raises(NotRolled, match=reason):
        trace_rolled(own(("x", shape), text), robot.mechanism, options)


def test_what_cannot_be_compiled_says_so(monkeypatch):
    robot = random_arm(10)
    q, qd = robot.random_state(0)
    monkeypatch.setattr(engines, "LONGEST_STRAIGHT", 3000)
    with pytest.raises(NotCompiled, match=r"engine: 'compiled', but forward_dynamics \(composite\) "
                                          r"of 10 joints .* 3000 .* expected 'numpy' or 'python'"):
        robot.forward_dynamics(q, qd, qd, algorithm="composite", engine="compiled")
    # without an engine asked for, NumPy answers
    agree(robot.forward_dynamics(q, qd, qd, algorithm="composite"),
          robot.forward_dynamics(q, qd, qd, algorithm="composite", engine="python"))


def test_short_code_need_not_be_rolled():
    """By its instructions, not by the joints: those that only copy are few."""
    robot = long("chain")
    q, qd = robot.random_state(0)
    entry = own(("x", ("n",)), lambda m, o, q, qd: [x for qs in qd for x in qs])
    request = Request(entry, robot.mechanism, robot.mechanism.links[:1], False)
    np.testing.assert_array_equal(engines.prepare(request, "compiled")(q, qd), qd)


@pytest.mark.slow
def test_a_robots_own_zeros_decide():
    """Between short and long, straight-line code has to spare instructions."""
    link = {"joint": "revolute", "a": 0.5, "mass": 1.0, "com": (-0.2, 0, 0), "inertia": (0.1,) * 3}
    planar = Robot.from_dh([link] * 30)
    assert not planar.request("coriolis_matrix").rolled
    assert random_arm(16).request("coriolis_matrix").rolled


def test_dense_results_of_rolled_columns_are_not_rolled():
    """Elimination takes the mass matrix apart; it is straight-line code, however long."""
    robot = long("tree")
    request = robot.request("forward_dynamics_derivatives")
    with pytest.raises(NotRolled):
        trace_rolled(request.algorithm, robot.mechanism, request.options)


def test_what_is_no_sweep_is_known():
    robot = nlink.load("two_arms_box")
    for name, formulation in (*STRAIGHT, ("forward_dynamics", "early")):
        entry = (ALGORITHMS if formulation != "early" else CLOSED)[name][formulation]
        request = Request(entry, robot.mechanism, robot.mechanism.links[-1:], False)
        with pytest.raises(NotRolled):
            trace_rolled(entry, robot.mechanism, request.options)
