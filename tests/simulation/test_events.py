"""Events: zeros of functions along trajectories, found where they are, and nothing else changed."""

from __future__ import annotations

import numpy as np
import pytest
from event_cases import ACCURATE, EVERY, FIXED, G, slider
from scipy.special import ellipk

import nlink

PENDULUM = nlink.Robot.from_dh(
    [{"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
      "inertia": (0, 1 / 12, 1 / 12), "theta": -np.pi / 2}], gravity=(0, -G, 0), name="pendulum")
DOUBLE = nlink.load("double_pendulum")


def height(value):
    return lambda t, q, qd: q[0] - value


def options(method: str, step: float = 1e-3) -> dict:
    return {"method": method, "rtol": 1e-11, "atol": 1e-13,
            "step": step if method in FIXED else None}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", EVERY)
def test_a_pendulum_passes_its_lowest_point_every_half_period(method):
    """T = 4 K(sin^2(a/2)) / w, w^2 = 3 g / (2 l) for a rod."""
    angle = 1.0
    period = 4 * ellipk(np.sin(angle / 2) ** 2) / np.sqrt(1.5 * G)
    run = nlink.simulate(PENDULUM, [angle], t=5.0, every=0.5, events={
        "down": lambda t, q, qd: q[0]}, **options(method))
    expected = period * (0.25 + 0.5 * np.arange(len(run.events)))
    assert len(run.events) == int(5.0 / period * 2 + 0.5)
    assert np.abs(run.events.t - expected).max() <= 1e-8
    assert np.abs(run.events.q).max() <= 1e-12
    speed = np.sqrt(3 * G * (1 - np.cos(angle)))
    assert np.abs(np.abs(run.events.qd[:, 0]) - speed).max() <= 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in ACCURATE if name not in FIXED])
def test_events_are_those_of_scipy(method):
    """An ensemble of chaotic motions for a second, beside SciPy's DOP853 with its own events."""
    from scipy.integrate import solve_ivp

    functions = [lambda t, q, qd: nlink.sin(q[0] + q[1]) - 0.3 * nlink.cos(3 * t),
                 lambda t, q, qd: qd[0] * qd[1] - 0.5, lambda t, q, qd: q[1] * q[1] - 0.1]
    q0, qd0 = (np.random.default_rng(k).normal(size=(6, 2)) for k in (0, 1))
    run = nlink.simulate(DOUBLE, q0, qd0, t=1.0, every=0.25, method=method, rtol=1e-11, atol=1e-13,
                         max_step=0.01, events=functions)

    def rates(t, y):
        return np.concatenate([y[2:], DOUBLE.forward_dynamics(y[:2], y[2:], np.zeros(2))])

    for k in range(6):
        other = solve_ivp(rates, (0, 1), [*q0[k], *qd0[k]], "DOP853", rtol=1e-12, atol=1e-14,
                          max_step=0.01, events=[lambda t, y, g=g: g(t, y[:2], y[2:])
                                                 for g in functions])
        for i, expected in enumerate(other.t_events):
            mine = run.events.of(k)
            assert np.abs(mine.t[mine.which == i] - expected).max(initial=0.0) <= 1e-8
    assert len(run.events) > 20


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", ACCURATE)
@pytest.mark.parametrize("table", [False, True])
def test_recording_events_changes_no_bit_of_the_trajectory(method, table):
    t = np.linspace(0.0, 3.0, 31)
    how = {"t": t, "tau": 0.1 * np.ones((31, 2)) if table else None, **options(method)}
    alone = nlink.simulate(DOUBLE, [0.1, 0.3], **how)
    watched = nlink.simulate(DOUBLE, [0.1, 0.3], events=[
        height(-0.5), lambda t, q, qd: qd[1], lambda t, q, qd: nlink.sin(q[0] + q[1])], **how)
    assert np.array_equal(alone.q, watched.q)
    assert np.array_equal(alone.rates, watched.rates)
    assert (watched.stats.steps == alone.stats.steps)
    assert len(watched.events) > 5
    assert (np.diff(watched.events.t) >= 0).all()


@pytest.mark.parametrize("method", EVERY)
def test_several_events_of_one_step_come_in_their_order(method):
    """Free fall is exact for every method, so a step may be long."""
    heights = [-0.5, -0.2, -0.9, -0.3]
    run = nlink.simulate(slider(), [0.0], t=1.0, every=1.0, method=method, step=0.5,
                         events=[height(x) for x in heights])
    order = [1, 3, 0, 2]
    assert run.events.which.tolist() == order
    expected = np.sqrt([-2 * heights[k] / G for k in order])
    assert np.abs(run.events.t - expected).max() <= (1e-8 if method == "lsoda" else 1e-12)


@pytest.mark.parametrize("method", EVERY)
def test_events_of_one_instant_are_all_recorded(method):
    run = nlink.simulate(slider(), [0.0], t=1.0, method=method, step=0.1, events=[
        height(-1.0), lambda t, q, qd: 3 * (q[0] + 1.0)])
    assert run.events.which.tolist() == [0, 1]
    assert np.ptp(run.events.t) <= 1e-14


@pytest.mark.parametrize("method", EVERY)
def test_a_terminal_event_ends_the_trajectory_there(method):
    run = nlink.simulate(slider(), [0.0], t=1.0, every=0.1, method=method, step=0.1, events={
        "middle": height(-0.5), "end": nlink.Event(height(-1.0), terminal=True),
        "later": height(-2.0)})
    assert run.status == "event"
    assert run.ok
    assert len(run.failed) == 0
    end = np.sqrt(2 / G)
    assert abs(run.t_end - end) <= 1e-8
    assert [run.events.names[k] for k in run.events.which] == ["middle", "end"]
    assert abs(run.events["end"].q[0, 0] + 1.0) <= 1e-12
    assert abs(run.events["end"].qd[0, 0] + G * end) <= 1e-8
    assert np.isfinite(run.q[run.t <= end]).all()
    assert np.isnan(run.q[run.t > end]).all()
    assert "event (end) at t = 0.451524" in repr(run)


@pytest.mark.parametrize("method", EVERY)
def test_what_is_zero_at_the_start_is_no_event_until_it_comes_back(method):
    run = nlink.simulate(slider(), [0.0], [1.0], t=1.0, method=method, step=0.01,
                         events=height(0.0))
    assert len(run.events) == 1
    assert abs(run.events.t[0] - 2 / G) <= 1e-8


@pytest.mark.sampled(6)
@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize(("direction", "expected"), [
    ("rising", [0]), ("falling", [1]), ("both", [0, 1])])
def test_only_crossings_in_the_direction_asked_for_count(method, direction, expected):
    run = nlink.simulate(slider(), [0.0], [5.0], t=1.0, method=method, step=0.01, max_step=0.1,
                         events=nlink.Event(height(0.5), direction))
    root = np.sqrt(25 - G)
    times = np.array([(5 - root) / G, (5 + root) / G])[expected]
    assert np.abs(run.events.t - times).max() <= 1e-8


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", EVERY)
def test_grazing(method):
    """What only touches zero does not cross it; what crosses twice needs steps short enough."""
    apex = 1 / (2 * G)
    how = {"t": 1.0, "every": 1.0, "method": method, "step": 0.05, "max_step": 5e-3}
    above = nlink.simulate(slider(), [0.0], [1.0], events=height(apex + 1e-9), **how)
    assert len(above.events) == 0
    below = nlink.simulate(slider(), [0.0], [1.0], events=height(apex - 1e-4), **how)
    half = np.sqrt(2e-4 / G)
    assert np.abs(below.events.t - (1 / G + np.array([-half, half]))).max() <= 1e-8


def test_a_function_may_use_time_and_robot():
    from nlink.simulation import apply

    run = nlink.simulate(DOUBLE, [0.1, 0.3], t=2.0, events={
        "clock": lambda t, q, qd: t - 0.777,
        "force": lambda t, q, qd: apply(DOUBLE, "gravity_torque", q)[0]})
    assert np.abs(run.events["clock"].t - 0.777).max() <= 1e-13
    at = run.events["force"]
    assert len(at)
    assert np.abs(DOUBLE.gravity_torque(at.q)[:, 0]).max() <= 1e-11


def test_more_events_than_a_buffer_holds():
    run = nlink.simulate(slider(), [0.0], t=10.0, every=10.0, step=0.003, method="rk4",
                         events=lambda t, q, qd: nlink.sin(200 * t + 1))
    expected = (np.arange(1, 10) * np.pi - 1) / 200
    assert len(run.events) == int((2000 + 1) / np.pi)
    assert np.abs(run.events.t[:9] - expected).max() <= 1e-12
    assert np.abs(np.sin(200 * run.events.t + 1)).max() <= 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("method", ACCURATE)
def test_trajectories_of_an_ensemble_have_their_own_events(method):
    q0 = np.random.default_rng(0).normal(scale=0.5, size=(3, 7, 2))
    q0[1, 2] = np.nan
    how = {"t": 2.0, "every": 0.5, "method": method, "step": 0.01, "events": {
        "swing": nlink.Event(lambda t, q, qd: qd[0], "falling"),
        "far": nlink.Event(lambda t, q, qd: q[1] - 2.0, terminal=True)}}
    one, two = (nlink.simulate(DOUBLE, q0, threads=threads, **how) for threads in (1, 2))
    for name in ("trajectory", "t", "which", "q", "qd"):
        assert np.array_equal(getattr(one.events, name), getattr(two.events, name))
    assert one.status[1, 2] == "not finite"
    assert len(one.events.of(9)) == 0
    assert {"event", "done"} <= set(one.status.ravel())
    for k in (0, 8, 20):
        alone = nlink.simulate(DOUBLE, q0.reshape(-1, 2)[k], **how)
        assert np.array_equal(alone.events.t, one.events.of(k).t)
        assert np.array_equal(alone.events.q, one.events.of(k).q)


@pytest.mark.slow
@pytest.mark.parametrize("method", ACCURATE)
def test_an_interrupted_run_has_the_same_events(tmp_path, monkeypatch, until_done, method):
    """However often it is stopped, in the midst of locating one or of a full buffer."""
    robot = slider(low=-1.0)
    q0, qd0 = np.linspace(0.0, 0.5, 3)[:, None], np.array([1.0])
    how = {"t": 2.0, "every": 0.25, "method": method, "step": 0.02, "limits": "bounce",
           "restitution": 0.9, "events": {"fast": lambda t, q, qd: nlink.sin(20 * q[0])}}
    whole = nlink.simulate(robot, q0, qd0, **how)
    monkeypatch.setattr("nlink.simulation.simulator.SLICE", 0.0)
    monkeypatch.setattr("nlink.storage.event_log.MANY", 2)

    def so_far(_looks):
        assert len(nlink.load_run(tmp_path / "run").events) <= len(whole.events)

    pieces, looks = until_done(lambda progress: nlink.simulate(
        robot, q0, qd0, save=tmp_path / "run", progress=progress, **how), 17, so_far)
    assert len(looks) > 50
    assert np.array_equal(pieces.q, whole.q)
    assert np.array_equal(pieces.rates, whole.rates)
    for name in ("trajectory", "t", "which", "q", "qd"):
        assert np.array_equal(getattr(pieces.events, name), getattr(whole.events, name))
    assert len(whole.events["fast"]) > 10
    assert len(whole.events["lower limit of rail"]) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.npz", "run.zarr"])
def test_events_are_saved_with_a_run(tmp_path, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    for level, count in ((-0.5, 1), (5.0, 0)):
        run = nlink.simulate(slider(), [0.0], t=1.0, events={"here": height(level)})
        again = nlink.load_run(run.save(tmp_path / f"{count}{name}"))
        assert again.events.names == ("here",)
        assert len(again.events) == count
        assert np.array_equal(again.events["here"].q, run.events.q)


@pytest.mark.slow
def test_events_of_quaternions_momenta_and_quasi_velocities():
    ball = nlink.Robot(nlink.Description("ball", (nlink.Link(
        "l", 1.0, (0.0, 0.0, 0.0), ((0.1, 0, 0), (0, 0.2, 0), (0, 0, 0.3))),),
        (nlink.Joint("j", nlink.Free()),)))
    qd0 = np.array([0.3, 2.0, 0.1, 0.0, 0.0, 0.0])
    at = next(k for k in range(7) if ball.neutral[k] == 1.0) - 1  # z, just before the quaternion
    run = nlink.simulate(ball, None, qd0, t=1.0, events=lambda t, q, qd: q[at] + 1.0)
    assert abs(run.events.t[0] - np.sqrt(2 / G)) <= 1e-8
    assert abs(np.linalg.norm(run.events.q[0, at + 1:at + 5]) - 1) <= 1e-14

    events = {"turn": lambda t, q, qd: qd[1]}
    runs = [nlink.simulate(DOUBLE, [0.1, 0.3], t=2.0, events=events, rtol=1e-11, **how) for how in (
        {}, {"velocity": "nu"}, {"velocity": "xi"}, {"method": "symplectic", "step": 1e-3})]
    assert len(runs[0].events) >= 2
    for other in runs[1:]:
        assert np.abs(other.events.t - runs[0].events.t).max() <= 1e-8
        assert np.abs(other.events.qd - runs[0].events.qd).max() <= 1e-7


@pytest.mark.slow
def test_a_long_chain_can_be_watched():
    from nlink.bench.bench_robots import random_arm

    robot = random_arm(45)
    bare = nlink.simulate(robot, t=0.02, rtol=1e-6)
    level = float(bare.q[-1, 44]) / 2
    run = nlink.simulate(robot, t=0.02, rtol=1e-6, events=lambda t, q, qd: q[44] - level)
    assert np.array_equal(run.q, bare.q)
    assert len(run.events) == 1
    assert abs(run.events.q[0, 44] - level) <= 1e-12
    with pytest.raises(ValueError, match="limits: 'bounce' for 45 joints"):
        nlink.simulate(robot, t=0.1, limits="bounce")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkf45", "dop853"])
def test_a_law_that_is_not_traced_sees_the_same_events(method):
    how = {"t": 2.0, "tau": lambda t, q, qd: [-0.1 * v for v in qd], "method": method,
           "events": {"swing": lambda t, q, qd: qd[0], "pass": height(-0.5)}}
    fast, slow = (nlink.simulate(DOUBLE, [0.1, 0.3], traced=traced, **how)
                  for traced in (True, False))
    assert np.array_equal(fast.events.which, slow.events.which)
    assert np.abs(fast.events.t - slow.events.t).max() <= 1e-8


@pytest.mark.parametrize(("events", "error", "match"), [
    (3, TypeError, "events: a int, expected functions of t, q, qd"),
    ([None], TypeError, "events: a NoneType, expected a function of t, q, qd"),
    (lambda t, q, qd: q, ValueError, "events: event 0 gave 2 values, expected one"),
    (lambda t, q, qd: 1.0 if q[0] > 0 else 0.0, TypeError, "has no truth value: .* nlink.where"),
    ([nlink.Event(height(0.0), name="a")] * 2, ValueError, "events: a named twice"),
    ([height(x) for x in range(200)], ValueError, "200 functions to watch.*at most 128"),
])
def test_wrong_events_are_refused(events, error, match):
    with pytest.raises(error, match=match):
        nlink.simulate(DOUBLE, t=1.0, events=events)


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="direction: 'up', expected one of rising, falling, both"):
        nlink.Event(height(0.0), "up")
    with pytest.raises(ValueError, match="limits: 'hard', expected one of ignore, stop, bounce"):
        nlink.simulate(DOUBLE, limits="hard")
    with pytest.raises(ValueError, match="restitution: 2, expected a number from 0 to 1"):
        nlink.simulate(DOUBLE, restitution=2)
    with pytest.raises(ValueError, match="max_step: 0, expected a positive number"):
        nlink.simulate(DOUBLE, max_step=0)
    with pytest.raises(KeyError, match="'x', expected one of no names"):
        nlink.simulate(DOUBLE, t=0.1).events["x"]


@pytest.mark.slow
@pytest.mark.parametrize("velocity", ["qd", "nu"])
@pytest.mark.parametrize("name", [None, "run", "run.zarr"])
def test_events_of_mechanisms_that_vary_are_those_of_each(tmp_path, monkeypatch, name, velocity):
    """In memory and block by block on disk, where a block is one trajectory."""
    if name == "run.zarr":
        pytest.importorskip("zarr")
    monkeypatch.setattr("nlink.storage.run_store.BLOCK", 1)
    how = {"t": 2.0, "every": 0.5, "method": "dop853", "rtol": 1e-11, "velocity": velocity,
           "events": {"down": height(-0.5), "turn": lambda t, q, qd: qd[1]}}
    masses = np.array([0.0, 1.0, 3.0])
    run = nlink.simulate(DOUBLE, [0.1, 0.3], vary={"payload": masses},
                         save=None if name is None else tmp_path / name, **how)
    runs = [run] if name is None else [run, nlink.load_run(tmp_path / name)]
    alone = [nlink.simulate(DOUBLE, [0.1, 0.3], vary={"payload": mass}, **how).events
             for mass in masses]
    assert len({len(each) for each in alone}) > 1 or np.ptp([each.t[0] for each in alone]) > 1e-3
    for each in runs:
        for k, expected in enumerate(alone):
            found = each.events.of(k)
            assert found.which.tolist() == expected.which.tolist()
            assert np.abs(found.t - expected.t).max() <= 1e-9
            assert np.abs(found.qd - expected.qd).max() <= 1e-7
        second = list(each.pieces(1))[1].events
        assert np.array_equal(second.t, each.events.of(1).t)
        assert set(second.trajectory.tolist()) == {0}


def test_impacts_of_mechanisms_that_vary_are_refused():
    with pytest.raises(ValueError, match="limits: 'bounce' does not go with a mechanism"):
        nlink.simulate(slider(-1.0, 1.0), vary={"payload": 1.0}, limits="bounce", t=0.1)
