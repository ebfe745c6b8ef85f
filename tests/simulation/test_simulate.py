"""Simulation: the papers' free fall, conserved energy, ensembles, failures, controllers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nlink
from nlink.bench.bench_robots import random_arm
from nlink.iterations.methods import METHODS
from nlink.model.description import Description, Joint, Link
from nlink.model.pose import Mount, Pose

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "reference.json").read_text())
RUNS = {
    "planar": ("planar3", np.zeros(3)),
    "stanford": ("stanford", np.radians([0, 90, 0, 0, 0, 0])),
    "puma_abs": ("puma560", np.zeros(6)),
    "puma_printed": ("puma_saha", np.zeros(6)),
}
ADAPTIVE = [name for name, method in METHODS.items() if method.adaptive]


def ball_chain(n: int = 2, free: bool = False) -> nlink.Robot:
    """Balls in a row, the first free to fly if wanted, none symmetric."""
    links = tuple(Link(f"l{k}", 1.0 + k, (0.1, 0.2, -0.3),
                       ((0.1, 0.01, 0.0), (0.01, 0.2, 0.02), (0.0, 0.02, 0.25)))
                  for k in range(n))
    joints = tuple(Joint(f"j{k}", nlink.Free() if free and k == 0 else nlink.Spherical(), parent=k,
                         placement=Mount(Pose(origin=(0.1, 0.0, -0.4)))) for k in range(n))
    return nlink.Robot(Description("balls", links, joints))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["rkf45", "abm", "dop853", "rodas5p", "symplectic", "rk4"])
@pytest.mark.parametrize("run", RUNS)
def test_free_fall_of_the_reference_file(run, method):
    name, q0 = RUNS[run]
    states = REFERENCE[run]["freefall"]
    robot = nlink.load(name, physical="ignore")
    t = [0.0, *(float(x) for x in states)]
    result = nlink.simulate(robot, q0, t=t, method=method, rtol=1e-12, atol=1e-14,
                            step=1e-4 if method in ("symplectic", "rk4") else None)
    assert result.ok
    assert np.abs(result.q[1:] - np.array(list(states.values()))).max() <= 1e-10


def test_free_fall_of_the_printed_puma_ends_at_its_singularity():
    robot = nlink.load("puma_saha", physical="ignore")
    run = nlink.simulate(robot, np.zeros(6), t=3.0, rtol=1e-10)
    assert run.status in ("step too small", "not finite")
    assert abs(run.t_end - 1.8185) < 1e-3
    assert np.isnan(run.q[-1]).all()
    assert np.isfinite(run.q[run.t < 1.8]).all()


@pytest.mark.slow
def test_energy_of_a_conservative_puma_over_100_seconds():
    robot = nlink.load("puma560")
    run = nlink.simulate(robot, np.zeros(6), t=100.0, method="dop853", rtol=1e-12, atol=1e-14,
                         every=0.1)
    assert np.abs(run.energy / run.energy[0] - 1).max() <= 1e-9


@pytest.mark.slow
def test_energy_is_conserved_by_every_method():
    robot = nlink.load("puma560")
    for method in ADAPTIVE:
        run = nlink.simulate(robot, np.zeros(6), t=2.0, method=method)
        assert np.abs(run.energy / run.energy[0] - 1).max() <= 1e-7


def test_the_symplectic_method_keeps_its_energy_error_bounded():
    """Where RK4 at the same step drifts, the error of the Gauss method oscillates."""
    robot = nlink.load("double_pendulum")
    errors = {}
    for method in ("symplectic", "rk4"):
        run = nlink.simulate(robot, [0.8 - np.pi / 2, 0.3], t=200.0, method=method, step=0.02,
                             every=0.1)
        error = np.abs(run.energy - run.energy[0])
        errors[method] = error[:500].max(), error[-500:].max()
    assert errors["symplectic"][1] <= 1.5 * errors["symplectic"][0]
    assert errors["rk4"][1] >= 3 * errors["rk4"][0]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkf45", "dop853", "abm", "rk4", "symplectic"])
def test_an_ensemble_is_its_trajectories_one_by_one_bit_for_bit(method):
    robot = nlink.load("puma560")
    q0, qd0 = robot.random_state(0, (3, 7))
    options = {"t": 0.5, "every": 0.05, "method": method, "rtol": 1e-8}
    together = nlink.simulate(robot, q0, qd0, threads=1, **options)
    parallel = nlink.simulate(robot, q0, qd0, threads=4, **options)
    assert np.array_equal(together.q, parallel.q)
    assert np.array_equal(together.qd, parallel.qd)
    for index in np.ndindex(3, 7):
        alone = nlink.simulate(robot, q0[index], qd0[index], **options)
        assert np.array_equal(together.q[index], alone.q)
        assert np.array_equal(together.qd[index], alone.qd)
        assert together.stats.steps[index] == alone.stats.steps


@pytest.mark.parametrize("method", ["rkf45", "dop853", "abm", "rk4"])
def test_poisoned_trajectories_fail_alone(method):
    robot = nlink.load("puma560")
    q0, qd0 = robot.random_state(1, (40,))
    options = {"t": 0.2, "every": 0.05, "method": method, "step": 0.01}
    clean = nlink.simulate(robot, q0, qd0, **options)
    bad = [3, 17, 18, 39]
    q0[3, 2], qd0[17, 0], qd0[18, 5], q0[39, 0] = np.nan, np.inf, 1e300, np.inf
    run = nlink.simulate(robot, q0, qd0, **options)
    assert run.failed.ravel().tolist() == bad
    assert set(run.status[bad]) <= {"not finite", "step too small"}
    assert np.isnan(run.q[bad, 1:]).all()
    good = np.setdiff1d(np.arange(40), bad)
    assert np.array_equal(run.q[good], clean.q[good])
    assert "4 not to the end" in repr(run)


def test_too_many_steps_is_a_failure_of_its_own():
    run = nlink.simulate(nlink.load("puma560"), t=5.0, max_steps=50)
    assert run.status == "too many steps"
    assert 0 < run.t_end < 5
    assert run.stats.steps + run.stats.rejects == 50


def test_angles_too_large_for_the_vector_are_right():
    """10^5 turns change nothing but rounding; only lanes with such an angle take the detour."""
    robot = nlink.load("double_pendulum")
    near = nlink.simulate(robot, [[0.3, 0.1], [0.2, 0.0]], t=0.5)
    far = nlink.simulate(robot, [[0.3 + 2e5 * np.pi, 0.1], [0.2, 0.0]], t=0.5)
    assert np.abs(far.q[0] - near.q[0] - [2e5 * np.pi, 0]).max() < 1e-8
    assert np.array_equal(far.q[1], near.q[1])


@pytest.mark.slow
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("method", ["rkf45", "dop853", "abm", "rk4"])
def test_quaternions_stay_unit_without_drift(method, free):
    robot = ball_chain(2, free)
    q0, qd0 = robot.random_state(2)
    run = nlink.simulate(robot, q0, qd0, t=20.0, method=method, every=0.05, step=0.01)
    parts = [run.q[:, 3:7], run.q[:, 7:]] if free else [run.q[:, :4], run.q[:, 4:]]
    for quaternion in parts:
        assert np.abs(np.linalg.norm(quaternion, axis=1) - 1).max() <= 4e-16
    if method != "rk4":
        scale = robot.kinetic_energy(run.q, run.qd).max()
        assert np.abs(run.energy - run.energy[0]).max() <= 1e-6 * scale


@pytest.mark.slow
def test_a_body_in_free_flight_keeps_its_momentum_and_falls():
    robot = ball_chain(1, free=True)
    q0 = np.array([0.0, 0, 0, 1, 0, 0, 0])
    qd0 = np.array([1.0, 2.0, -0.5, 0.3, 0.1, 2.0])
    run = nlink.simulate(robot, q0, qd0, t=2.0, method="dop853", rtol=1e-11)
    c = robot.center_of_mass(run.q)
    J = robot.jacobian(q0)
    v0 = (J @ qd0)[3:] + np.cross((J @ qd0)[:3], c[0] - robot.pose(q0)[:3, 3])
    fall = c[0] + v0 * run.t[:, None] + 0.5 * robot.gravity * run.t[:, None] ** 2
    assert np.abs(c - fall).max() <= 1e-9


def test_the_compiled_loop_is_the_reference_loop():
    robot = nlink.load("stanford")
    q0 = np.radians([0, 90, 0, 0, 0, 0])
    for method in ("rkf45", "verner65", "rk4"):
        fast, slow = (nlink.simulate(robot, q0, t=0.5, method=method, traced=traced)
                      for traced in (True, False))
        assert (fast.stats.steps, fast.stats.rejects) == (slow.stats.steps, slow.stats.rejects)
        assert np.abs(fast.q - slow.q).max() <= 1e-12


@pytest.mark.slow
def test_interpolated_outputs_are_as_good_as_those_at_steps():
    robot = nlink.load("puma560")
    exact = nlink.simulate(robot, t=1.0, every=0.001, rtol=1e-13, atol=1e-15, method="verner65")
    for method, bound in (("dop853", 1e-7), ("dopri5", 1e-6), ("abm", 1e-7)):
        run = nlink.simulate(robot, t=1.0, every=0.001, method=method)
        assert run.stats.steps < 200  # fewer than outputs: they lie inside steps
        assert np.abs(run.q - exact.q).max() <= bound


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["lsoda", "radau"])
def test_scipys_methods_agree(method):
    pytest.importorskip("scipy")
    robot = nlink.load("double_pendulum")
    ours = nlink.simulate(robot, [0.3, 0.2], t=1.0)
    theirs = nlink.simulate(robot, [0.3, 0.2], t=1.0, method=method, rtol=1e-10)
    assert theirs.ok
    assert np.abs(ours.q - theirs.q).max() <= 1e-6


def test_wrong_arguments_are_named():
    robot = nlink.load("planar3")
    for arguments, message in (
            ({"q0": np.zeros(4)}, r"q0: shape \(4,\), expected \(\.\.\., 3\)"),
            ({"qd0": np.zeros((2, 2))}, r"qd0: shape \(2, 2\), expected \(\.\.\., 3\)"),
            ({"method": "euler"}, "method: 'euler', expected one of .*rkf45"),
            ({"t": -1.0}, "t: -1.0, expected a positive number"),
            ({"t": [0.0, 0.0]}, "increasing"),
            ({"every": 0.0}, "every: 0.0"),
            ({"tau": np.zeros((5, 3))}, r"tau: shape \(5, 3\), expected \(\.\.\., 1001, 3\)"),
            ({"tau": lambda t, q, qd: [0.0]}, "the controller gave 1 value, expected 3 numbers"),
                ({"tau": lambda t, q, qd: None}, "the controller gave None, expected 3 numbers"),
            ({"rtol": -1.0}, "rtol: -1.0"),
            ({"step": 0.0}, "step: 0.0"),
            ({"threads": 0}, "threads: 0"),
            ({"save": "x.csv"}, "save: 'x.csv' has the suffix '.csv'")):
        with pytest.raises(ValueError, match=message):
            nlink.simulate(robot, **arguments)
    with pytest.raises(TypeError, match="q0: dtype complex128"):
        nlink.simulate(robot, np.zeros(3, complex))
    with pytest.raises(ValueError, match="needs as many coordinates as rates"):
        nlink.simulate(ball_chain(1), method="symplectic")


def test_output_times_are_hit_exactly_and_the_end_is_among_them():
    run = nlink.simulate(nlink.load("planar3"), t=0.25, every=0.1)
    assert run.t.tolist() == [0.0, 0.1, 0.2, 0.25]
    assert nlink.simulate(nlink.load("planar3"), t=1.0, every=0.1).t[-1] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkf45", "abm"])
def test_long_chains_run_in_loops_over_their_joints(method, roll):
    """The rolled right-hand side gives what the unrolled one does, with controllers and balls."""
    arm, balls = random_arm(12), ball_chain(6)
    controller = lambda t, q, qd: [nlink.sin(3 * t) - 0.5 * v for v in qd]  # noqa: E731
    options = {"t": 0.2, "every": 0.05, "method": method, "rtol": 1e-8}
    states = balls.random_state(3, (3,))
    unrolled = [nlink.simulate(arm, np.zeros(12), tau=controller, **options).q,
                nlink.simulate(balls, *states, **options).q]
    roll()
    arm, balls = random_arm(12), ball_chain(6)
    rolled = [nlink.simulate(arm, np.zeros(12), tau=controller, **options).q,
              nlink.simulate(balls, *states, **options).q]
    for a, b in zip(unrolled, rolled, strict=True):
        assert 0 < np.abs(a - b).max() <= 1e-9


@pytest.mark.slow
def test_a_chain_of_200_joints_keeps_its_energy():
    robot = random_arm(200)
    run = nlink.simulate(robot, np.zeros(200), t=0.05, every=0.01, method="dop853")
    assert run.ok
    assert np.abs(run.energy - run.energy[0]).max() <= 1e-7


@pytest.mark.parametrize("method", ["rkf45", "dop853", "abm"])
def test_an_equilibrium_is_a_start_without_tracing(method):
    robot = nlink.Robot.from_dh([{"joint": "prismatic", "mass": 1.0}], gravity=(0, 0, 0))
    run = nlink.simulate(robot, [0.0], t=1.0, every=0.5, method=method, traced=False,
                         tau=lambda t, q, qd: 0.0 * qd)
    assert run.ok
    assert (run.q == 0.0).all()
