"""Dry friction: rates that come to rest stick, and break away when they must."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from friction_cases import G, arm, block, reference
from scipy.integrate import quad
from scipy.optimize import brentq

import nlink

ADAPTIVE = ["rkf45", "dopri5", "verner65", "dop853", "rkf78", "abm"]
EXACT = {"rtol": 1e-12, "atol": 1e-14}
TWO = arm(1.0, 0.5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", [*ADAPTIVE, "rk4", "lsoda", "radau"])
def test_a_block_pushed_up_a_slope_stops_there_or_slides_back(method):
    """It stops at v / (g sin a + c); steeper than its friction it comes back."""
    speed, how = 3.0, {"t": 1.0, "every": 0.25, "method": method, **EXACT}
    loose = 1e-8 if method in ("lsoda", "radau") else 1e-12
    for coulomb in (6.0, 2.0):
        run = nlink.simulate(block(0.5, coulomb), [0.0], [speed], **how)
        pull = G * np.sin(0.5)
        stop = speed / (pull + coulomb)
        back = max(pull - coulomb, 0.0)
        happened = "joint1 slides" if back else "joint1 sticks"
        assert run.events.names[run.events.which[0]] == happened
        assert abs(run.events.t[0] - stop) <= loose
        assert abs(run.q[-1, 0] - (speed * stop / 2 - back * (1 - stop) ** 2 / 2)) <= loose
        assert run.qd[-1, 0] == 0 or back
        assert run.modes[-1, 0] == (-1 if back else 0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("traced", [True, False])
def test_a_block_on_a_spring_loses_twice_its_friction_a_swing(traced):
    """Half a swing takes pi / w, the centre is c/k off; it stops within c/k of the middle."""
    k, swings = 100.0, [0.123]
    while abs(swings[-1]) > 1 / k:
        swings.append(-swings[-1] + np.sign(swings[-1]) * 2 / k)
    run = nlink.simulate(block(), [0.123], t=5.0, tau=lambda t, q, qd: -k * q, method="dop853",
                         traced=traced, **EXACT)
    assert np.abs(run.events.t - np.pi / np.sqrt(k) * np.arange(1, len(swings))).max() <= 1e-11
    np.testing.assert_allclose(run.events.q[:, 0], swings[1:], atol=1e-12)
    assert abs(run.q[-1, 0] - swings[-1]) <= 1e-12
    assert (run.qd[run.t > run.events.t[-1]] == 0).all()
    assert (np.diff(run.q[run.t > run.events.t[-1]], axis=0) == 0).all()


@pytest.mark.slow
def test_a_pendulum_stops_off_the_vertical():
    """From turning point to turning point the weight's work is that of friction; the time is
    the integral of 1 / speed."""
    coulomb, angle = 0.4, 1.5
    weight = G / 2

    def energy(a, b):
        return weight * (np.cos(b) - np.cos(a)) - coulomb * abs(b - a)

    def time(a, b):
        """With q = middle + half sin(x) the ends are no singularities."""
        middle, half = (a + b) / 2, abs(b - a) / 2
        return quad(lambda x: half * np.cos(x) / np.sqrt(
            6 * energy(a, middle - np.sign(a) * half * np.sin(x))), -np.pi / 2, np.pi / 2,
            epsabs=1e-12, epsrel=1e-12, limit=400)[0]

    turns, times = [angle], [0.0]
    while weight * abs(np.sin(turns[-1])) > coulomb:
        a = turns[-1]
        turns.append(brentq(lambda b, a=a: energy(a, b), -np.sign(a) * 1e-9, -a, xtol=1e-14))
        times.append(times[-1] + time(*turns[-2:]))
    run = nlink.simulate(arm(coulomb), [angle], t=20.0, method="dop853", **EXACT)
    assert len(run.events) == len(turns) - 1 > 5
    np.testing.assert_allclose(run.events.q[:, 0], turns[1:], atol=1e-9)
    np.testing.assert_allclose(run.events.t, times[1:], atol=1e-7)
    assert 0.01 < abs(run.q[-1, 0]) < np.arcsin(coulomb / weight)
    assert (np.diff(run.energy) <= 1e-13).all()


@cache
def by_dense_equations(q0, qd0):
    return reference(TWO, q0, qd0, 2.5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ADAPTIVE)
@pytest.mark.parametrize(("q0", "qd0"), [((1.0, 0.5), (0.0, 0.0)), ((2.0, -0.5), (1.0, -3.0))])
@pytest.mark.slow
def test_an_arm_stops_joint_by_joint_as_by_dense_equations(q0, qd0, method):
    run = nlink.simulate(TWO, q0, qd0, t=2.5, every=0.01, method=method, **EXACT)
    times, modes, y = by_dense_equations(q0, qd0)
    assert len(times) > 5
    assert np.abs(np.unique(run.events.t) - times).max() <= 1e-9
    assert np.abs(run.q[-1] - y[:2]).max() <= 1e-9
    assert np.abs(run.qd[-1] - y[2:]).max() <= 1e-9
    assert (run.modes[-1] == modes[-1]).all()
    assert (np.diff(run.energy) <= 1e-12).all()
    assert (run.qd[1:][run.modes[1:] == 0] == 0).all()


@pytest.mark.slow
def test_a_block_on_a_belt_sticks_and_slips():
    """On a moving belt, held by a spring, with Stribeck's friction: q is relative to the belt."""
    robot = block(coulomb=0.5, breakaway=1.0, stribeck=0.2)
    run = nlink.simulate(robot, [0.0], t=12.0, tau=lambda t, q, qd: -4.0 * (q + 0.1 * t),
                         method="dop853", **EXACT)
    times, _, y = reference(robot, [0.0], [0.0], 12.0,
                            lambda t, q, qd: -4.0 * (q + 0.1 * t))
    assert run.events.t[0] == pytest.approx(2.5, abs=1e-9)      # 4 * 0.1 t = 1
    assert len(times) >= 4
    np.testing.assert_allclose(run.events.t, times, atol=1e-8)
    assert abs(run.q[-1, 0] - y[0]) <= 1e-8


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["rkf45", "dopri5", "abm"])
def test_at_rest_time_costs_nothing(method):
    robot = arm(10.0, 8.0)
    run = nlink.simulate(robot, [0.1, -0.1], t=1000.0, every=500.0, method=method)
    assert run.status == "done"
    assert run.stats.steps < 40
    assert (run.q == [0.1, -0.1]).all()
    assert (run.qd == 0).all()
    assert len(run.events) == 0


@pytest.mark.slow
def test_a_slow_force_breaks_away_when_it_is_large_enough():
    """Nothing moves until sin(t) reaches its bound, and the steps are not too long to see it."""
    run = nlink.simulate(block(coulomb=1.0), [0.0], t=10.0, every=5.0,
                         tau=lambda t, q, qd: 1.001 * nlink.sin(t + 0 * q))
    first = np.arcsin(1 / 1.001)
    assert abs(run.events.t[0] - first) <= 1e-8
    assert len(run.events) >= 4


@pytest.mark.slow
def test_friction_that_holds_exactly_holds():
    """At its bound, and with a rate that only touches zero."""
    run = nlink.simulate(block(coulomb=2.0), t=3.0, tau=lambda t, q, qd: 2.0 + 0 * q)
    assert (run.q == 0).all()
    push = nlink.simulate(block(coulomb=1.0), [0.0], [1.0], t=3.0, method="dop853",
                          tau=lambda t, q, qd: 1.0 + 6 * (t - 1) + 0 * q, **EXACT)
    # qd = 1 - 6 t + 3 t^2 comes to rest before t = 1, and breaks away where 6 (t - 1) = 0
    stop = 1 - np.sqrt(2 / 3)
    assert abs(push.events.t[0] - stop) <= 1e-9
    assert push.status == "done"


@pytest.mark.slow
def test_an_ensemble_is_its_trajectories_bit_for_bit():
    rng = np.random.default_rng(0)
    q0, qd0 = rng.normal(size=(2, 9, 2))
    how = {"t": 2.0, "every": 0.5, "method": "dopri5"}
    coulomb = rng.uniform(0, 2, size=(9, 2))
    whole = nlink.simulate(TWO, q0, qd0, vary={"coulomb": coulomb}, threads=2, **how)
    for k in range(9):
        alone = nlink.simulate(TWO, q0[k:k + 1], qd0[k:k + 1],
                               vary={"coulomb": coulomb[k:k + 1]}, threads=1, **how)
        assert np.array_equal(alone.q[0], whole.q[k])
        assert np.array_equal(alone.modes[0], whole.modes[k])
        assert np.array_equal(alone.events.t, whole.events.of(k).t)
    assert (whole.modes[:, -1] == 0).any()
    assert (whole.modes[:, -1] != 0).any()


def test_an_interrupted_run_is_continued_bit_for_bit(tmp_path, monkeypatch):
    from nlink.simulation import simulator

    how = {"t": 3.0, "every": 0.1, "method": "dopri5"}
    q0 = np.random.default_rng(1).normal(size=(5, 2))
    whole = nlink.simulate(TWO, q0, **how)

    def stop(share):
        if share > 0.3:
            raise KeyboardInterrupt

    monkeypatch.setattr(simulator, "SLICE", 1e-5)
    with pytest.raises(KeyboardInterrupt):
        nlink.simulate(TWO, q0, save=tmp_path / "run", progress=stop, **how)
    again = nlink.simulate(TWO, q0, save=tmp_path / "run", **how)
    assert np.array_equal(again.q, whole.q)
    assert np.array_equal(again.modes, whole.modes)
    assert np.array_equal(again.events.t, whole.events.t)
    assert again.events.names == whole.events.names


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["dopri5", "abm"])
@pytest.mark.slow
def test_compiled_is_on_floats(method):
    one, other = (nlink.simulate(TWO, [1.0, 0.5], t=2.0, every=0.5, method=method, traced=traced,
                                 rtol=1e-10) for traced in (True, False))
    assert one.stats.steps == other.stats.steps
    np.testing.assert_allclose(one.q, other.q, rtol=1e-12, atol=1e-13)
    assert np.array_equal(one.modes, other.modes)
    np.testing.assert_allclose(one.events.t, other.events.t, atol=1e-13)
    assert np.array_equal(one.events.which, other.events.which)


@pytest.mark.slow
def test_recording_events_changes_no_bit():
    how = {"t": 3.0, "every": 0.5}
    alone = nlink.simulate(TWO, [1.0, 0.5], **how)
    watched = nlink.simulate(TWO, [1.0, 0.5], events={
        "low": lambda t, q, qd: q[0], "still": lambda t, q, qd: qd[1]}, **how)
    assert np.array_equal(alone.q, watched.q)
    assert len(watched.events["low"]) > 0
    assert np.array_equal(watched.events["joint2 sticks"].t, alone.events["joint2 sticks"].t)


@pytest.mark.slow
def test_smooth_friction_creeps_where_dry_friction_sticks():
    robot = block(0.1, coulomb=2.0)
    pull = G * np.sin(0.1)
    for traced in (True, False):
        run = nlink.simulate(robot, t=2.0, friction="smooth", width=1e-2, traced=traced)
        creep = -1e-2 * np.arctanh(pull / 2.0)
        assert run.qd[-1, 0] == pytest.approx(creep, rel=1e-6)
        assert run.modes.shape == (201, 0)
        low = nlink.simulate(dropped(2.0), t=1.0, friction="smooth", limits="hold", traced=traced)
        assert low.q[-1, 0] == -1.0
        assert low.modes[-1, 0] == 2
    near = nlink.simulate(TWO, [1.0, 0.5], t=2.0, friction="smooth", width=1e-4)
    dry = nlink.simulate(TWO, [1.0, 0.5], t=2.0)
    assert np.abs(near.q - dry.q).max() <= 1e-3


@pytest.mark.parametrize(("change", "message"), [
    ({"friction": "wet"}, "friction: 'wet', expected one of dry, smooth"),
    ({"friction": "smooth", "width": 0.0}, "width: 0.0, expected a positive rate"),
    ({"velocity": "nu"}, "friction: 'dry' does not go with velocity='nu', expected "
                         "friction='smooth'"),
    ({"method": "symplectic"}, "friction: 'dry' does not go with velocity='p', expected "
                               "friction='smooth'")])
def test_what_does_not_go_with_it_is_said(change, message):
    with pytest.raises(ValueError, match=message):
        nlink.simulate(TWO, t=0.1, **change)


class Steps:
    """A sampled controller whose force rises step by step."""

    period = 0.1

    def __call__(self, t, q, qd):
        return 10.0 * t + 0.0 * q


@pytest.mark.sampled(1)
@pytest.mark.parametrize("traced", [True, False])
def test_a_sampled_force_breaks_away_at_the_sample_that_is_too_large(traced):
    run = nlink.simulate(block(coulomb=4.5), [0.0], t=1.0, tau=Steps(), traced=traced)
    assert run.events.t[0] == pytest.approx(0.5, abs=1e-12)
    # from then on (10 k / 10 - 4.5) for a tenth of a second each: 0.5, 1.5, ...
    speed = 0.1 * np.cumsum(np.arange(5) + 0.5)
    np.testing.assert_allclose(run.qd[60::10, 0], speed, atol=1e-9)


def dropped(coulomb: float = 0.0) -> nlink.Robot:
    row = {"joint": "prismatic", "mass": 1.0, "inertia": (1.0, 1.0, 1.0),
           "friction": {"coulomb": coulomb}, "limits": {"position": (-1.0, 2.0)}}
    return nlink.Robot.from_dh([row], gravity=(0, 0, -G), name="dropped")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", ["rkf45", "dop853", "abm", "rk4", "radau"])
def test_a_limit_holds_until_the_force_turns_round(method):
    """It falls on its limit, rests there, and leaves it where 12 sin(t) exceeds its weight."""
    run = nlink.simulate(dropped(), [-1.0 + 1e-9], t=3.0, every=0.01, limits="hold",
                         tau=lambda t, q, qd: 12 * nlink.sin(t) + 0 * q, method=method,
                         rtol=1e-11, atol=1e-13, events={"apex": lambda t, q, qd: qd[0] - 0.1})
    names = [run.events.names[k] for k in run.events.which]
    assert names[:4] == ["lower limit of joint1", "joint1 rests on its limit",
                         "joint1 leaves its limit", "apex"]
    assert abs(run.events.t[2] - np.arcsin(G / 12)) <= 1e-8
    held = (run.t > run.events.t[0]) & (run.t < run.events.t[2])
    assert (run.q[held] == -1.0).all()
    assert (run.modes[held] == 2).all()
    assert run.q.min() >= -1.0 - 1e-12


@pytest.mark.slow
def test_bounces_end_on_a_limit_that_holds():
    """With a restitution e, the flights add up to (1 + e) / (1 - e) times the fall."""
    run = nlink.simulate(dropped(), t=4.0, limits="hold", restitution=0.5)
    fall = np.sqrt(2 / G)
    assert run.status == "done"
    assert abs(run.events["joint1 rests on its limit"].t[0] - 3 * fall) <= 1e-6
    assert run.q[-1, 0] == -1.0
    assert (np.diff(run.energy) <= 1e-12).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.slow
def test_limits_and_friction_hold_together(traced):
    """A chain falls into its limits, joint by joint; impulses in the one move the others."""
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12), "limits": {"position": (-0.6, 0.6)},
           "friction": {"coulomb": 0.3}}
    chain = nlink.Robot.from_dh([rod, rod, rod], gravity=(0, -G, 0), name="chain")
    run = nlink.simulate(chain, [0.3, 0.2, -0.1], t=3.0, limits="hold", traced=traced)
    assert run.status == "done"
    assert np.abs(run.q).max() <= 0.6
    assert (np.diff(run.energy) <= 1e-10).all()
    assert (run.modes[-1] == [2, 2, 0]).all()
    assert (run.qd[-1] == 0).all()
    # at the end it is in balance: forces at the limits push away from them
    tau = chain.inverse_dynamics(run.q[-1], 0 * run.q[-1], 0 * run.q[-1])
    assert (tau[:2] >= -0.3).all()
    assert abs(tau[2]) <= 0.3


@pytest.mark.slow
def test_an_impact_on_two_limits_at_once_is_one_impact():
    """Both joints reach their limits together: nothing penetrates, energy falls, both rest."""
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12), "limits": {"position": (-1.0, 1.0)}}
    robot = nlink.Robot.from_dh([rod, rod], gravity=(0, 0, 0), name="two")
    run = nlink.simulate(robot, [0.0, 0.0], [1.0, 1.0], t=2.0, limits="hold",
                         tau=lambda t, q, qd: 3.0 + 0 * q)
    assert run.status == "done"
    assert (run.q[-1] == 1.0).all()
    assert (run.modes[-1] == -2).all()


@pytest.mark.slow
def test_semi_implicit_steps_solve_the_same_problem():
    """First order, events or not; at rest it rests, and on limits it stays."""
    exact = nlink.simulate(TWO, [1.0, 0.5], t=3.0, every=1.0, method="dop853", **EXACT)
    errors = [np.abs(nlink.simulate(TWO, [1.0, 0.5], t=3.0, every=1.0, method="semi_implicit",
                                    step=step).q - exact.q).max() for step in (4e-4, 2e-4)]
    assert errors[1] < 1e-3
    assert 1.6 < errors[0] / errors[1] < 2.4
    rest = nlink.simulate(TWO, [1.0, 0.5], t=30.0, method="semi_implicit")
    assert (rest.qd[-1] == 0).all()
    assert (rest.modes[-1] == 0).all()
    one, other = (nlink.simulate(dropped(2.0), t=1.0, method="semi_implicit", limits="hold",
                                 traced=traced) for traced in (True, False))
    np.testing.assert_allclose(one.q, other.q, atol=1e-14)
    assert one.q[-1, 0] == -1.0
    assert one.q.min() >= -1.0
    assert one.modes[-1, 0] == 2


@pytest.mark.slow
def test_a_stepper_sticks_as_a_simulation_does():
    exact = nlink.simulate(TWO, [1.0, 0.5], t=1.0, every=1.0, method="dop853", **EXACT)
    for method, error in (("rk4", 1e-6), ("semi_implicit", 0.02)):
        robots = nlink.Stepper(TWO, [[1.0, 0.5]] * 3, step=0.01, method=method)
        for _ in range(100):
            robots.step()
        assert np.abs(robots.q - exact.q[-1]).max() <= error
        assert (robots.status == "running").all()


def hanging(step: float) -> str:
    """Two rods in MJCF, whose friction MuJoCo holds as stiffly as the step allows."""
    body = ""
    for loss in (0.5, 1.0):
        body = (f'<body pos="{1.0 if loss < 1 else 0.0} 0 0"><joint axis="0 1 0" damping="0.05" '
                f'frictionloss="{loss}" solreffriction="{2 * step} 1" '
                'solimpfriction="0.999 0.9999 0.001"/><inertial pos="0.5 0 0" mass="1" '
                f'diaginertia="0.001 0.083 0.083"/>{body}</body>')
    return (f'<mujoco><option timestep="{step}" integrator="implicitfast"/>'
            f'<worldbody>{body}</worldbody></mujoco>')


@pytest.mark.slow
def test_mujoco_comes_to_the_same_with_small_steps(tmp_path):
    """Its friction loss is a soft constraint and its step of first order: 1e-3 at 0.2 ms."""
    mujoco = pytest.importorskip("mujoco")
    file = tmp_path / "hanging.xml"
    file.write_text(hanging(2e-4))
    run = nlink.simulate(nlink.load(file), [0.3, 0.5], t=2.0, every=0.1)
    model = mujoco.MjModel.from_xml_string(hanging(2e-4))
    data = mujoco.MjData(model)
    data.qpos[:] = [0.3, 0.5]
    for k in range(1, 21):
        mujoco.mj_step(model, data, 500)
        assert np.abs(data.qpos - run.q[k]).max() <= 1e-3
    assert len(run.events) >= 5
