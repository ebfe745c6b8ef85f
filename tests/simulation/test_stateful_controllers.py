"""Controllers that remember, act at samples, saturate, come late, or measure with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import nlink
import nlink.simulation.simulator
from nlink.simulation import (
    PD,
    PID,
    ComputedTorque,
    FeedForward,
    GravityCompensation,
    Noisy,
    PDGravity,
    Sampled,
    Saturated,
)
from nlink.simulation.ensemble import Ensemble
from nlink.simulation.interpreted import integrate_in_python
from nlink.simulation.setting import Saving, Solver
from nlink.testing.mechanisms import EVERY, random_robot

ARM = nlink.load("planar3")
GOAL = [0.1, 0.2, 0.3]
BEFORE = np.random.default_rng(0).normal(scale=0.3, size=(6, 3))
BOUNDS = {"rtol": 1e-9, "atol": 1e-12, "most": 10**6, "largest": np.inf, "least": 1e-15}

# a wheel about the vertical: J qdd = tau, so that closed forms are at hand
J = 0.5
WHEEL = nlink.Robot.from_dh([{"joint": "revolute", "mass": 1.0, "com": (0, 0, 0),
                                  "inertia": np.diag([1.0, 1.0, J])}], name="wheel")


def pid():
    return PID(ARM, GOAL, 80.0, 120.0, 20.0)


def everything(controller, period=0.005):
    """State, samples, saturation, noise and delay at once."""
    return Sampled(Noisy(Saturated(controller, 30.0), 1e-3, 1e-2, seed=3), period, delay=2)


@dataclass
class Leaky:
    """A controller as a user writes it: a filtered error."""

    rate: float = 4.0
    state = (0.5,)

    def __call__(self, t, q, qd, x):
        return -3.0 * x - 0.5 * qd

    def rates(self, t, q, qd, x):
        return self.rate * (q - x)


def test_a_state_with_rates_is_integrated_with_the_robot():
    run = nlink.simulate(WHEEL, [1.0], t=2.0, tau=Leaky(), method="dop853", every=0.5)
    # (q, qd, x)' = A (q, qd, x), by its eigenvalues
    A = np.array([[0, 1, 0], [0, -0.5 / J, -3 / J], [4, 0, -4]])
    values, vectors = np.linalg.eig(A)
    start = np.linalg.solve(vectors, np.array([1, 0, 0.5], complex))
    exact = np.array([(vectors @ (np.exp(values * t) * start)).real for t in run.t])
    assert np.abs(np.hstack([run.q, run.qd, run.x]) - exact).max() < 1e-8
    assert run.tau == pytest.approx(-3 * run.x - 0.5 * run.qd, abs=1e-12)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_sampled_controller_is_a_linear_recursion(delay):
    h, kp, kd = 0.02, 6.0, 2.0
    run = nlink.simulate(WHEEL, [1.0], t=1.0, every=h / 4, tau=Sampled(
        PD(WHEEL, [0.0], kp, kd), h, delay), method="rk4")
    q, qd, queue = 1.0, 0.0, [0.0] * delay
    for k in range(50):
        queue.append(-kp * q - kd * qd)
        tau, t = queue.pop(0), np.arange(4) * h / 4
        assert run.tau[4 * k:4 * k + 4, 0] == pytest.approx(tau, abs=1e-12)
        assert run.q[4 * k:4 * k + 4, 0] == pytest.approx(q + qd * t + tau / J * t**2 / 2)
        q, qd = q + qd * h + tau / J * h**2 / 2, qd + tau / J * h


def test_steps_end_at_multiples_of_the_period_whatever_the_outputs():
    seen = []

    def controller(t, q, qd):
        seen.append(t)
        return -q

    times = [0.0, 0.0137, 0.1, 0.3001]
    nlink.simulate(WHEEL, [1.0], t=times, tau=Sampled(controller, 0.1), traced=False)
    assert seen == [0.1 * k for k in range(4)]
    seen.clear()  # an output that is a sample but for rounding is no step of its own
    run = nlink.simulate(WHEEL, [1.0], t=1.0, tau=Sampled(controller, 0.1), traced=False,
                         every=0.05, method="rk4")
    assert run.stats.steps == 20
    assert np.abs(np.array(seen) - 0.1 * np.arange(11)).max() < 1e-15


def test_samples_do_not_cost_an_adaptive_method_its_step():
    run = nlink.simulate(WHEEL, [1.0], t=1.0, tau=Sampled(lambda t, q, qd: -q, 0.01), every=1.0)
    # a parabola from sample to sample: one step each, but for the first few
    assert run.stats.steps <= 110
    assert run.stats.rejects <= 10


@pytest.mark.parametrize("method", ["rkf45", "abm", "semi_implicit"])
def test_methods_agree_and_the_driver_on_floats_too(method):
    tau = everything(pid())
    how = {"t": 0.02, "method": method, "every": 0.01}
    if method == "semi_implicit":
        how["step"] = 0.001
    run = nlink.simulate(ARM, BEFORE[:2], tau=tau, **how)
    floats = integrate_in_python(Ensemble.of(
        nlink.System(ARM, tau), BEFORE[:2], None, Solver(method, step=how.get("step")),
        Saving(0.02, 0.01)), BOUNDS)
    for a, b in ((run.q, floats.q), (run.qd, floats.qd), (run.x, floats.x)):
        assert a == pytest.approx(b, abs=1e-9)
    assert run.tau == pytest.approx(floats.tau, abs=1e-6)
    exact = nlink.simulate(ARM, BEFORE[:2], t=0.02, every=0.01, tau=tau, method="dop853")
    assert run.q == pytest.approx(exact.q, abs=1e-8 if method != "semi_implicit" else 1e-2)


def test_an_ensemble_is_the_same_on_any_threads_alone_and_after_interruptions(
        tmp_path, monkeypatch, until_done):
    monkeypatch.setattr(nlink.simulation.simulator, "SLICE", 1e-6)
    how = {"t": 0.3, "tau": everything(pid()), "every": 0.05}
    whole = nlink.simulate(ARM, BEFORE, threads=1, **how)
    many = nlink.simulate(ARM, BEFORE, threads=3, **how)
    pieces, looks = until_done(lambda progress: nlink.simulate(
        ARM, BEFORE, save=tmp_path / "run", progress=progress, **how), 3, lambda looks: None)
    assert len(looks) > 6
    loaded = nlink.load_run(tmp_path / "run")
    for other in (many, pieces, loaded):
        for name in ("q", "qd", "x", "tau"):
            assert np.array_equal(getattr(other, name), getattr(whole, name)), name
    # noise is that of the trajectory's number: the first one alone is the first one of many
    alone = nlink.simulate(ARM, BEFORE[0], **how)
    assert np.array_equal(alone.q, whole.q[0])
    assert not np.array_equal(nlink.simulate(ARM, BEFORE[[1, 0]], **how).q[1], whole.q[0])


def test_untraced_controllers_are_asked_at_samples_for_all_trajectories_at_once():
    shapes = []

    def controller(t, q, qd):
        shapes.append((q.shape, qd.shape))
        return 80.0 * (GOAL - q) - 20.0 * qd

    how = {"t": 0.1, "every": 0.02, "method": "rk4", "step": 0.002}
    asked = nlink.simulate(ARM, BEFORE, tau=Sampled(controller, 0.002), traced=False, **how)
    traced = nlink.simulate(ARM, BEFORE, tau=Sampled(PD(ARM, GOAL, 80.0, 20.0), 0.002), **how)
    assert shapes == [((6, 3), (6, 3))] * 51
    for name in ("q", "qd", "tau"):
        assert getattr(asked, name) == pytest.approx(getattr(traced, name), abs=1e-10)
    assert np.array_equal(asked.stats.steps, traced.stats.steps)


@pytest.mark.slow
def test_wrappers_and_bundled_controllers_are_asked_too():
    how = {"t": 0.1, "every": 0.02}
    for each in (pid(), PDGravity(ARM, GOAL, 80.0, 20.0), ComputedTorque(ARM, GOAL, 80.0, 20.0)):
        traced, asked = (nlink.simulate(ARM, BEFORE, tau=everything(each), traced=truth, **how)
                         for truth in (True, False))
        for name in ("q", "x"):
            assert getattr(asked, name) == pytest.approx(getattr(traced, name), abs=1e-10)
    varied = dict(vary={"kp": np.linspace(10, 80, 6)[:, None]}, **how)
    traced, asked = (nlink.simulate(ARM, BEFORE, tau=Sampled(Saturated(
        PD(ARM, GOAL, 1.0, 20.0), 30.0), 0.005), traced=truth, **varied)
        for truth in (True, False))
    assert asked.q == pytest.approx(traced.q, abs=1e-10)


def test_an_untraced_controller_fails_in_one_sentence():
    with pytest.raises(ValueError, match=r"shape \(3, 6\), expected \(6, 3\), a row for each"):
        nlink.simulate(ARM, BEFORE, t=0.1, tau=Sampled(lambda t, q, qd: q.T, 0.01), traced=False)
    with pytest.raises(ValueError, match="save: not with traced=False"):
        nlink.simulate(ARM, t=0.1, tau=Sampled(lambda t, q, qd: q, 0.01), traced=False, save="x")
    bad = BEFORE.copy()
    bad[2] = np.nan  # fails alone, and is asked no more
    run = nlink.simulate(ARM, bad, t=0.02, tau=Sampled(lambda t, q, qd: -q, 0.01), traced=False)
    assert run.failed.tolist() == [[2]]


def test_a_varied_gain_reaches_a_controller_inside_others():
    tau = Sampled(Saturated(PID(ARM, GOAL, 1.0, 2.0, 20.0), 30.0), 0.005)
    many = nlink.simulate(ARM, BEFORE, t=0.1, tau=tau, every=0.05, vary={
        "kp": np.linspace(10, 80, 6)[:, None], "ki": np.linspace(0, 50, 6)[:, None]})
    alone = nlink.simulate(ARM, BEFORE[5], t=0.1, every=0.05, tau=Sampled(Saturated(
        PID(ARM, GOAL, 80.0, 50.0, 20.0), 30.0), 0.005))
    assert many.q[5] == pytest.approx(alone.q, abs=1e-12)
    assert many.x[5] == pytest.approx(alone.x, abs=1e-12)


def test_an_integral_that_is_cut_does_not_wind_up():
    free, bounded = (nlink.simulate(WHEEL, t=6.0, every=0.01, tau=each) for each in (
        Saturated(PID(WHEEL, [2.0], 8.0, 4.0, 3.0), 0.5),
        PID(WHEEL, [2.0], 8.0, 4.0, 3.0, effort=0.5)))
    assert np.abs(bounded.tau).max() <= 0.5
    assert np.abs(free.tau).max() <= 0.5
    over = [float(run.q.max()) - 2.0 for run in (free, bounded)]
    assert over[1] < 0.5 * over[0]


def test_integral_action_balances_what_pd_does_not():
    run = nlink.simulate(ARM, t=8.0, tau=PID(ARM, GOAL, 300.0, 600.0, 60.0), every=8.0)
    assert np.abs(run.q[-1] - GOAL).max() < 1e-4
    assert run.tau[-1] == pytest.approx(ARM.gravity_torque(run.q[-1]), abs=0.01)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_controllers_act_on_motors_of_joints_of_every_kind(seed):
    robot = random_robot(seed, 4, types=EVERY, friction=False)
    rng = np.random.default_rng(seed)
    q, qd = robot.random_state(rng)
    there = robot.integrate(q, rng.normal(scale=0.3, size=robot.n))
    tau = np.array(PD(robot, there, 30.0, 3.0)(0.0, q, qd), dtype=float)
    motors = np.array(robot.description.motors)
    wanted = 30.0 * robot.difference(q, there) - 3.0 * qd
    assert tau == pytest.approx(np.where(motors, wanted, 0.0), abs=1e-9)
    weight = np.array(GravityCompensation(robot)(0.0, q, qd), dtype=float)
    assert weight == pytest.approx(np.where(motors, robot.gravity_torque(q), 0.0), abs=1e-9)
    run = nlink.simulate(robot, q, t=0.02, tau=Sampled(Noisy(PID(
        robot, there, 0.3, 0.1, 0.03), 1e-3, 1e-3), 0.01), every=0.02)
    assert run.ok
    assert not run.tau[:, ~motors].any()


def test_noise_is_gaussian_independent_and_has_its_size():
    run = nlink.simulate(WHEEL, np.zeros((2000, 1)), t=0.02, every=0.01, tau=Sampled(
        Noisy(lambda t, q, qd: q + 0 * qd, sigma_q=0.1, seed=5), 0.01))
    tau = run.tau[:, :2, 0]  # two samples of each trajectory; the wheel hardly moves
    assert np.abs(np.corrcoef(tau.T)[0, 1]) < 0.08
    assert np.abs(tau.mean(axis=0)).max() < 0.01
    assert tau.std(axis=0) == pytest.approx(0.1, rel=0.06)
    assert np.mean(np.abs(tau) < 0.1) == pytest.approx(0.6827, abs=0.03)


def test_states_of_controllers_are_kept_in_files(tmp_path):
    run = nlink.simulate(ARM, BEFORE, t=0.1, tau=everything(pid()), every=0.05)
    run.save(tmp_path / "run.npz")
    loaded = [nlink.load_run(tmp_path / "run.npz")]
    if pytest.importorskip("zarr"):
        run.save(tmp_path / "run.zarr")
        nlink.simulate(ARM, BEFORE, t=0.1, tau=everything(pid()), every=0.05,
                       save=tmp_path / "under.zarr")
        loaded += [nlink.load_run(tmp_path / name) for name in ("run.zarr", "under.zarr")]
    for each in loaded:
        for name in run.parts:
            assert np.array_equal(np.asarray(each.parts[name]), run.parts[name])
        assert np.array_equal(each.tau, run.tau)
    piece = list(run.pieces(4))[1]
    assert np.array_equal(piece.x, run.x[4:])
    assert np.array_equal(piece.tau, run.tau[4:])


FLYING = nlink.Robot(nlink.Description(
    "flying", (nlink.Link("body", 1.0, inertia=np.eye(3).tolist()),),
    (nlink.Joint("base", nlink.Free()),)))


def nothing(t, q, qd):
    return 0 * qd


@pytest.mark.parametrize(("make", "said"), [
    (lambda: Sampled(nothing, 0.0), "period: 0.0, expected a positive"),
    (lambda: Sampled(nothing, 0.1, delay=0.5), "delay: 0.5, expected a whole number"),
    (lambda: Sampled(Sampled(nothing, 0.1), 0.2), "inside has the period 0.1, expected the same"),
    (lambda: Sampled(3, 0.2), "controller: a int, expected a function"),
    (lambda: Saturated(nothing), "effort: none given, and the controller knows no robot"),
    (lambda: Saturated(PD(ARM, GOAL, 1, 1)), "planar3 has no effort limits"),
    (lambda: Saturated(nothing, -1.0), "effort: -1.0, expected a number >= 0"),
    (lambda: Noisy(nothing, sigma_q=-1.0), "sigma_q: -1.0, expected a finite number >= 0"),
    (lambda: Noisy(nothing, seed=-1), "seed: -1, expected a whole number"),
    (lambda: PID(ARM, GOAL, 0.0, 1.0, 1.0, effort=3.0), "expected limits >= 0 and kp > 0"),
    (lambda: ComputedTorque(FLYING, FLYING.neutral, 1, 1), "flying floats, expected a fixed base"),
    (lambda: FeedForward(ARM, [0.0]), "desired: 1 coordinates, expected 3"),
])
def test_wrong_arguments_are_named(make, said):
    with pytest.raises((ValueError, TypeError), match=said):
        make()


class Bare:
    def __call__(self, t, q, qd, *x):
        return 0 * qd


@pytest.mark.parametrize(("given", "said"), [
    ({"state": -1}, "state = -1, expected how many"),
    ({"state": [[0.0]]}, r"the shape \(1, 1\), expected a number of elements"),
    ({"state": 2}, "a state and neither rates nor a period"),
    ({"state": 2, "period": 0.1}, "a sampled controller with a state and no update"),
    ({"period": -1.0}, "period = -1.0, expected a positive"),
    ({"delay": 2}, "delay = 2, expected a whole number"),
    ({"state": 2, "rates": lambda *_: [0.0]}, "rates of the controller gave 1 value, expected 2"),
])
def test_what_a_controller_says_of_itself_is_checked(given, said):
    controller = Bare()
    vars(controller).update(given)
    with pytest.raises(ValueError, match=said):
        nlink.simulate(ARM, t=0.1, tau=controller)


def test_noise_needs_samples():
    for controller in (nothing, pid()):
        with pytest.raises(ValueError, match=r"no period, expected Sampled\(controller, period\)"):
            nlink.simulate(ARM, t=0.1, tau=Saturated(Noisy(controller), 3.0))
