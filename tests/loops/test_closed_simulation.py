"""Motions of mechanisms with loops: they conserve energy, and stay closed or say how not."""

from __future__ import annotations

import numpy as np
import pytest

import nlink

TIGHT = {"method": "dop853", "rtol": 1e-12, "atol": 1e-13}
FOUR_BAR = nlink.load("four_bar")


def starts(robot: nlink.Robot, count: int, seed: int = 0):
    """Closed states near the robot's own, moving."""
    rng = np.random.default_rng(seed)
    q = np.array([robot.loops.assemble(robot.integrate(
        robot.neutral, rng.normal(size=robot.n) * 0.1)) for _ in range(count)])
    return robot.loops.project(q, rng.normal(size=(count, robot.n)))


def openings(run: nlink.Run) -> tuple[float, float]:
    """How far open, and how fast opening, at the worst output."""
    loops = run.robot.loops
    return np.abs(loops.error(run.q)).max(), np.abs(loops.velocity(run.q, run.qd)).max()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seconds"), [
    ("four_bar", 10.0), ("slider_crank", 10.0),
    pytest.param("two_arms_box", 10.0, marks=pytest.mark.slow),
    pytest.param("stewart", 1.0, marks=pytest.mark.slow)])
def test_free_mechanisms_conserve_energy_and_stay_closed(name, seconds):
    robot = nlink.load(name)
    q0, qd0 = (x[0] for x in starts(robot, 1))
    run = nlink.simulate(robot, q0, qd0, t=seconds, every=0.05, **TIGHT)
    assert run.status == "done"
    assert np.abs(run.qd).max() > 0.5, "nothing moves"
    assert np.abs(run.energy - run.energy[0]).max() <= 1e-9 * np.abs(run.energy[0])
    assert max(openings(run)) <= 1e-12


@pytest.mark.slow
def test_energy_comes_in_by_the_work_of_motors():
    """On the four-bar, with the crank driven: dE/dt = tau . qd, whatever the loop carries."""
    q0, qd0 = (x[0] for x in starts(FOUR_BAR, 1))
    steps, torque = 200, 2.0
    run = nlink.simulate(FOUR_BAR, q0, qd0, t=2.0, every=2.0 / steps, **TIGHT,
                         tau=np.tile([torque, 0, 0], (steps + 1, 1)))
    work = torque * (run.q[:, 0] - run.q[0, 0])
    assert np.abs(run.energy - run.energy[0] - work).max() < 1e-9 * np.abs(run.energy).max()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rkf45", "dopri5", "dop853", "abm", "rk4"])
def test_every_method_keeps_loops_closed(method):
    q0, qd0 = starts(FOUR_BAR, 5)
    run = nlink.simulate(FOUR_BAR, q0, qd0, t=1.0, method=method, step=0.005, every=0.1)
    assert max(openings(run)) <= 1e-12
    exact = nlink.simulate(FOUR_BAR, q0, qd0, t=1.0, every=0.1, **TIGHT)
    assert np.abs(run.q - exact.q).max() < 1e-5


@pytest.mark.parametrize("method", ["rkf45", "abm", "rk4"])
def test_ensembles_equal_single_runs(method):
    q0, qd0 = starts(FOUR_BAR, 7)
    options = {"t": 1.0, "every": 0.1, "method": method, "step": 0.01}
    together = nlink.simulate(FOUR_BAR, q0, qd0, **options)
    for k in range(7):
        alone = nlink.simulate(FOUR_BAR, q0[k], qd0[k], **options)
        assert np.array_equal(together.q[k], alone.q)
        assert np.array_equal(together.qd[k], alone.qd)


def test_poisoned_trajectories_fail_alone():
    q0, qd0 = starts(FOUR_BAR, 9)
    options = {"t": 0.5, "every": 0.1}
    clean = nlink.simulate(FOUR_BAR, q0, qd0, **options)
    q0[3, 1], qd0[6, 0] = np.nan, np.inf
    run = nlink.simulate(FOUR_BAR, q0, qd0, **options)
    assert run.failed.ravel().tolist() == [3, 6]
    good = [0, 1, 2, 4, 5, 7, 8]
    assert np.array_equal(run.q[good], clean.q[good])


@pytest.mark.parametrize("options", [{}, {"traced": False}])
def test_open_starts_of_an_ensemble_never_start(options):
    q0, qd0 = starts(FOUR_BAR, 6)
    options = {"t": 0.2, "every": 0.1} | options
    clean = nlink.simulate(FOUR_BAR, q0, qd0, **options)
    q0[1] += (0.1, 0.0, 0.0)
    q0[4, 0] = np.nan
    run = nlink.simulate(FOUR_BAR, q0, qd0, **options)
    assert run.status.tolist() == ["done", "not closed", "done", "done", "not finite", "done"]
    good = [0, 2, 3, 5]
    assert np.array_equal(run.q[good], clean.q[good])
    assert np.array_equal(run.q[1, 0], q0[1])
    assert np.isnan(run.q[1, 1:]).all()
    assert run.t_end[1] == 0
    assert run.stats.steps[1] == 0
    with pytest.raises(ValueError, match="q0: the loop 'pin' is open by"):
        nlink.simulate(FOUR_BAR, q0[[1, 1, 4]], **options)


def test_open_starts_are_kept_in_files(tmp_path):
    q0, qd0 = starts(FOUR_BAR, 3)
    q0[1] += (0.1, 0.0, 0.0)
    options = {"t": 0.2, "every": 0.1, "closing": 15.0}
    whole = nlink.simulate(FOUR_BAR, q0, qd0, **options)
    nlink.simulate(FOUR_BAR, q0, qd0, save=tmp_path / "run", **options)
    whole.save(tmp_path / "run.npz")
    for name in ("run", "run.npz"):
        run = nlink.load_run(tmp_path / name)
        assert run.status.tolist() == ["done", "not closed", "done"]
        assert run.closing == 15.0
        assert np.array_equal(run.q, whole.q, equal_nan=True)


def test_trees_have_nothing_to_be_closed():
    with pytest.raises(ValueError, match=r"closing: 20\.0, expected nothing else than 'project': "
                                         "double_pendulum has no loops"):
        nlink.simulate(nlink.load("double_pendulum"), t=0.1, closing=20.0)


@pytest.mark.slow
def test_projection_keeps_the_order_of_a_method():
    """rk4 with half the step has a sixteenth of the error."""
    q0, qd0 = (x[0] for x in starts(FOUR_BAR, 1))
    exact = nlink.simulate(FOUR_BAR, q0, qd0, t=1.0, every=0.1, **TIGHT).q
    errors = [np.abs(nlink.simulate(FOUR_BAR, q0, qd0, t=1.0, every=0.1, method="rk4",
                                    step=0.1 / parts).q - exact).max() for parts in (4, 8, 16, 32)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders[-1] == pytest.approx(4.0, abs=0.35)
    assert (orders > 3.3).all()


def test_drift_drifts_and_baumgarte_bounds_it():
    """At a loose tolerance over 20 s: nothing done, the error grows; stabilized, it stays."""
    q0, qd0 = (x[0] for x in starts(FOUR_BAR, 1))
    found = {}
    for closing in ("project", "drift", 20.0):
        run = nlink.simulate(FOUR_BAR, q0, qd0, t=20.0, every=0.5, rtol=1e-6, atol=1e-8,
                             closing=closing)
        assert run.status == "done"
        found[closing] = np.abs(FOUR_BAR.loops.error(run.q)).max(axis=1)
    assert found["project"].max() <= 1e-12
    assert found["drift"][-10:].max() > 100 * found["drift"][1]
    assert found["drift"].max() > 10 * found[20.0].max() > 0
    assert found[20.0].max() < 1e-4


def test_python_steps_equal_compiled_ones():
    """traced=False projects after each step, too."""
    q0, qd0 = (x[0] for x in starts(FOUR_BAR, 1))
    options = {"t": 0.5, "every": 0.1, "method": "dop853"}
    compiled = nlink.simulate(FOUR_BAR, q0, qd0, **options)
    for closing in ("project", 20.0):
        slow = nlink.simulate(FOUR_BAR, q0, qd0, traced=False, closing=closing, **options)
        assert np.abs(slow.q - compiled.q).max() < 1e-8
        assert openings(slow)[0] < (1e-12 if closing == "project" else 1e-7)


@pytest.mark.parametrize("traced", [True, False])
def test_steps_that_do_not_close_are_not_taken(traced):
    """Fixed steps that are too large end a trajectory; others are tried again, shorter."""
    q, qd = FOUR_BAR.loops.project(FOUR_BAR.neutral, [30.0, 0.0, 0.0])
    options = {"t": 0.6, "every": 0.3, "traced": traced}
    run = nlink.simulate(FOUR_BAR, q, qd, method="rk4", step=0.3, **options)
    assert (run.status, run.t_end) == ("not closed", 0.3)
    assert run.closure_error[1] <= 1e-12
    run = nlink.simulate(FOUR_BAR, q, qd, rtol=0.1, atol=1.0, **options)
    assert run.status == "done"
    assert run.stats.rejects > 0
    assert max(openings(run)) <= 1e-12


def test_a_start_that_is_almost_closed_is_closed():
    q0 = FOUR_BAR.neutral + np.array([1e-6, -2e-6, 1e-6])
    run = nlink.simulate(FOUR_BAR, q0, [1.0, 0.0, 0.0], t=0.1)
    assert max(openings(run)) <= 1e-12


@pytest.mark.parametrize(("options", "words"), [
    ({"q0": np.add(FOUR_BAR.neutral, (0.1, 0, 0))}, "q0: the loop 'pin' is open by .* m, expected"),
    ({"closing": "weld"}, "closing: 'weld', expected 'project', 'drift' or a positive rate"),
    ({"closing": -1.0}, "closing: -1.0, expected"),
    ({"closing": np.nan}, "closing: nan, expected"),
    ({"closing": True}, "closing: True, expected"),
    ({"method": "symplectic"}, "'symplectic' .* does not keep loops closed"),
    ({"method": "lsoda"}, "'lsoda' .* does not keep loops closed"),
    ({"velocity": "nu"}, "velocity='nu' does not keep loops closed"),
])
def test_what_cannot_be_is_refused_in_a_sentence(options, words):
    with pytest.raises(ValueError, match=words) as refusal:
        nlink.simulate(FOUR_BAR, **({"t": 0.1} | options))
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
@pytest.mark.parametrize("closing", ["project", 15.0])
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, monkeypatch, until_done, closing):
    monkeypatch.setattr("nlink.simulation.simulator.SLICE", 1e-5)
    q0, qd0 = starts(FOUR_BAR, 9)
    options = {"t": 2.0, "every": 0.05, "closing": closing}
    whole = nlink.simulate(FOUR_BAR, q0, qd0, **options)

    def so_far(_looks):
        part = nlink.load_run(tmp_path / "run")
        known = np.isfinite(part.q)
        assert np.array_equal(part.q[known], whole.q[known])

    run, looks = until_done(lambda progress: nlink.simulate(
        FOUR_BAR, q0, qd0, save=tmp_path / "run", progress=progress, **options), 3, so_far)
    assert len(looks) > 3
    assert np.array_equal(run.q, whole.q)
    assert np.array_equal(nlink.load_run(tmp_path / "run").qd, whole.qd)


def test_a_run_with_another_closing_is_another_run(tmp_path):
    nlink.simulate(FOUR_BAR, t=0.1, save=tmp_path / "run")
    with pytest.raises(ValueError, match="holds another run"):
        nlink.simulate(FOUR_BAR, t=0.1, save=tmp_path / "run", closing="drift")
