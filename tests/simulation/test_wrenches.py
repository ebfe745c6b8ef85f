"""Wrenches on links in simulations: `f_ext`."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import nlink
from nlink.simulation import Wrenches
from nlink.simulation.moment import Moment
from nlink.testing.mechanisms import random_robot

W = np.array([0.1, 0.2, -0.3, 2.0, -1.0, 1.5])
FINE = {"rtol": 1e-11, "atol": 1e-13}


@pytest.fixture(scope="module")
def arm():
    return nlink.load("double_pendulum")


def by_hand(robot, link, turned=False):
    """The joint forces J^T f of one wrench, as a controller."""
    def tau(t, q, qd):
        R = robot.pose(q, frame=link)[:3, :3]
        f = np.concatenate([R @ W[:3], R @ W[3:]]) if turned else W
        return robot.jacobian(q, frame=link).T @ f

    return tau


@pytest.mark.parametrize("name", ["double_pendulum", "puma560", "four_bar"])
def test_a_constant_wrench_is_its_joint_forces(name):
    robot = nlink.load(name)
    link = robot.links[-1].name
    q0 = robot.neutral + (0.0 if robot.mechanism.closures else 0.2)
    pushed = nlink.simulate(robot, q0, t=0.3, f_ext={link: W}, **FINE)
    driven = nlink.simulate(robot, q0, t=0.3, tau=by_hand(robot, link), **FINE)
    assert pushed.status == "done"
    assert abs(pushed.q - driven.q).max() < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_wrenches_on_joints_of_every_kind(seed):
    """qdd of the first instant is that of forward dynamics with f_ext."""
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, 4)
    q, qd = robot.random_state(rng)
    f = rng.normal(size=(len(robot.links), 6))
    h = 1e-4
    run = nlink.simulate(robot, q, qd, t=[0.0, h, 2 * h], f_ext=f, method="dop853", **FINE)
    there = robot.forward_dynamics(run.q[1], run.qd[1], np.zeros(robot.n), f_ext=f)
    assert (run.qd[2] - run.qd[0]) / (2 * h) == pytest.approx(there, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize(("name", "options"), [
    ("double_pendulum", {}), ("double_pendulum", {"algorithm": "composite"}),
    ("double_pendulum", {"algorithm": "denoc"}),
    ("double_pendulum", {"friction": "smooth", "width": 0.1}),
    ("double_pendulum", {"friction": "dry"}), ("double_pendulum", {"vary": {"payload": 2.0}}),
    ("double_pendulum", {"velocity": "nu"}), ("puma560", {}),
    ("four_bar", {"closing": "drift"}), ("four_bar", {"closing": 10.0})])
@pytest.mark.parametrize("axes", ["world", "link"])
@pytest.mark.sampled(20)
def test_rates_under_a_wrench_are_those_under_its_joint_forces(name, options, axes):
    """On whichever way the wrench takes through the dynamics."""
    robot, rng = nlink.load(name), np.random.default_rng(0)
    if "friction" in options:
        robot = robot.with_friction(dry=0.5, viscous=0.1)
    q, qd = robot.neutral, np.zeros(robot.n)
    if not robot.mechanism.closures:
        q, qd = q + 0.3, rng.normal(size=robot.n)
    link = robot.links[-1].name

    def rates(**more):
        system = nlink.System(robot, **more, **options)
        own = [] if system.numbers.variation is None else system.numbers.variation.values.tolist()
        y = system.start(q, qd).tolist()
        return np.array(system.derivative(Moment(system, 0.2, y, own)), float)

    pushed = rates(f_ext=Wrenches({link: lambda t, q, qd: W}, axes))
    assert pushed == pytest.approx(rates(tau=by_hand(robot, link, turned=axes == "link")),
                                   rel=1e-11, abs=1e-11)
    assert abs(pushed - rates()).max() > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_one_wrench_alone_is_the_same_as_among_zeros(seed):
    """Traced, one wrench takes a way of its own."""
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, 5)
    q, qd = robot.random_state(rng)
    f = np.zeros((len(robot.links), 6))
    f[rng.integers(len(f))] = rng.normal(size=6)
    tau = rng.normal(size=robot.n)

    def alone(x):
        return robot.forward_dynamics(q, qd, tau, f_ext=[[e * x[0] if e else 0.0 for e in row]
                                                         for row in f.tolist()])

    found = nlink.function(alone, 1)([1.0], engine="python")
    expected = robot.forward_dynamics(q, qd, tau, f_ext=f)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-10 * (1 + abs(expected).max()))


def test_axes_of_the_link(arm):
    link = arm.links[-1].name
    pushed = nlink.simulate(arm, [0.3, 0.4], t=0.3, f_ext=Wrenches({link: W}, "link"), **FINE)
    driven = nlink.simulate(arm, [0.3, 0.4], t=0.3, tau=by_hand(arm, link, turned=True), **FINE)
    assert abs(pushed.q - driven.q).max() < 1e-12


@pytest.mark.parametrize("options", [
    {}, {"method": "rk4"}, {"method": "semi_implicit", "step": 1e-3}, {"velocity": "nu"},
    {"method": "symplectic"}, {"method": "rodas5p"}, {"method": "lsoda"}, {"traced": False}])
def test_numbers_tables_and_functions_are_one_wrench(arm, options):
    link, table = arm.links[-1].name, np.zeros((31, 2, 6))
    table[:, -1] = W
    ways = [{link: W}, {link: lambda t, q, qd: W}, table, {2: np.broadcast_to(W, (31, 6))},
            lambda t, q, qd: [[0.0] * 6, list(W)]]
    if options.get("velocity") == "nu":
        ways = ways[:2]
    runs = [nlink.simulate(arm, [0.3, 0.4], t=0.3, f_ext=f, **options) for f in ways]
    for run in runs[1:]:
        assert abs(run.q - runs[0].q).max() < 1e-9


def test_energy_changes_by_the_work_of_the_wrench(arm):
    link = arm.links[-1].name
    run = nlink.simulate(arm, [0.3, 0.4], t=1.0, every=1e-3, f_ext={link: W}, **FINE)
    power = np.einsum("tij,i,tj->t", arm.jacobian(run.q, frame=link), W, run.qd)
    work = (power[0] + power[-1] + 4 * power[1:-1:2].sum() + 2 * power[2:-1:2].sum()) * 1e-3 / 3
    assert run.energy[-1] - run.energy[0] == pytest.approx(work, abs=1e-9)


def test_a_sinusoidal_push_is_that_of_scipy(arm):
    link = arm.links[-1].name
    run = nlink.simulate(arm, [0.3, 0.4], t=1.0, **FINE,
                         f_ext={link: lambda t, q, qd: W * nlink.sin(7 * t)})

    def rates(t, y):
        f = np.stack([np.zeros(6), W * np.sin(7 * t)])
        return np.concatenate([y[2:], arm.forward_dynamics(y[:2], y[2:], np.zeros(2), f_ext=f)])

    there = solve_ivp(rates, (0, 1), [0.3, 0.4, 0, 0], method="DOP853", rtol=1e-12, atol=1e-13)
    assert run.q[-1] == pytest.approx(there.y[:2, -1], abs=1e-9)


def test_each_trajectory_has_its_own_wrench(arm):
    link = arm.links[-1].name
    runs = nlink.simulate(arm, [0.3, 0.4], t=0.2, vary={"f_ext": {link: np.stack([0 * W, W])}})
    alone = nlink.simulate(arm, [0.3, 0.4], t=0.2, f_ext={link: W})
    assert np.array_equal(runs.q[1], alone.q)
    assert np.array_equal(nlink.simulate(arm, [0.3, 0.4], t=0.2).q[-1].round(9),
                          runs.q[0, -1].round(9))
    assert runs.to_xarray()["f_ext"].dims == ("ensemble", "pushed_link", "wrench")


def test_parameters_reach_the_function(arm):
    link = arm.links[-1].name
    runs = nlink.simulate(arm, [0.3, 0.4], t=0.2, vary={"p": [[0.0], [2.0]]},
                          f_ext={link: lambda t, q, qd, p: p[0] * W})
    twice = nlink.simulate(arm, [0.3, 0.4], t=0.2, f_ext={link: 2 * W})
    assert abs(runs.q[1] - twice.q).max() < 1e-9


@pytest.mark.slow
def test_sensitivities_and_gradients_by_wrenches_and_forces(arm):
    link, h = arm.links[-1].name, 1e-6

    def final(f=W, tau=(0.5, -0.2)):
        return nlink.simulate(arm, [0.3, 0.4], t=0.2, tau=tau, f_ext={link: f}, **FINE).q[-1]

    run = nlink.simulate(arm, [0.3, 0.4], t=0.2, tau=[0.5, -0.2], f_ext={link: W},
                         sensitivities=["f_ext", "tau"], **FINE)
    slopes = run.sensitivity("f_ext").q[-1]
    for k, unit in enumerate(np.eye(6)):
        change = (final(W + h * unit) - final(W - h * unit)) / (2 * h)
        assert slopes[:, k] == pytest.approx(change, abs=1e-7)
    found = nlink.adjoint(arm, lambda q, qd: q @ q, [0.3, 0.4], t=0.2, tau=[0.5, -0.2],
                          f_ext={link: W})
    fixed = nlink.simulate(arm, [0.3, 0.4], t=0.2, tau=[0.5, -0.2], f_ext={link: W}, method="rk4",
                           sensitivities=["f_ext", "tau"])
    for name in ("f_ext", "tau"):
        by_forward = 2 * fixed.q[-1] @ fixed.sensitivity(name).q[-1]
        assert found.gradient[name] == pytest.approx(by_forward, abs=1e-10)


def test_constant_joint_forces(arm):
    run = nlink.simulate(arm, [0.3, 0.4], t=0.2, tau=[1.0, -1.0])
    table = nlink.simulate(arm, [0.3, 0.4], t=0.2, tau=np.broadcast_to([1.0, -1.0], (21, 2)))
    assert abs(run.q - table.q).max() < 1e-9
    assert np.array_equal(run.tau, table.tau)


@pytest.mark.parametrize(("f_ext", "sentence"), [
    ({"hand": W}, "f_ext: 'hand', expected a link of double_pendulum"),
    ({"link2": W[:5]}, "f_ext: 'link2': shape \\(5,\\), expected \\(6,\\)"),
    (np.zeros((3, 6)), "f_ext: shape \\(3, 6\\), expected \\(2, 6\\)"),
    (lambda t, q, qd: W, "f_ext: the function gave 6 values, expected \\(2, 6\\) numbers")])
def test_what_is_no_wrench_is_said(arm, f_ext, sentence):
    if isinstance(f_ext, dict) and "link2" in f_ext:
        f_ext = {arm.links[-1].name: W[:5]}
        sentence = sentence.replace("link2", arm.links[-1].name)
    with pytest.raises(ValueError, match=sentence):
        nlink.simulate(arm, t=0.1, f_ext=f_ext)


def test_forces_of_loops_know_the_wrenches(tmp_path):
    robot = nlink.load("four_bar")
    link = robot.links[1].name
    run = nlink.simulate(robot, t=0.05, f_ext=Wrenches({link: W}, "link"))
    f_ext = np.zeros((len(run.q), len(robot.links), 6))
    R = robot.pose(run.q, frame=link)[:, :3, :3]
    f_ext[:, 1] = np.concatenate([R @ W[:3], R @ W[3:]], axis=-1)
    there = robot.compute("closure_forces", run.q, run.qd, 0 * run.qd, f_ext=f_ext)
    assert run.closure_forces == pytest.approx(there, abs=1e-12)
    run.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="closure_forces: a run from a file"):
        _ = nlink.load_run(tmp_path / "run.npz").closure_forces
