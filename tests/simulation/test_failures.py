"""What is wrong is said: in the status of a trajectory, or in one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nlink
from nlink.simulation import PD, Cycloid, FeedForward, OperationalSpace, Payload, apply

DOUBLE = nlink.load("double_pendulum")
START = [0.1, 0.2]


def lost(t, q, qd):
    """Joint forces that are not numbers after half a second."""
    return [nlink.sqrt(0.5 - t), 0.0]


@pytest.mark.parametrize("method", ["rkf45", "lsoda"])
@pytest.mark.parametrize("tau", [lost, np.where(np.arange(101)[:, None] > 50, np.nan, [0.0, 0.0])],
                         ids=["controller", "table"])
def test_a_trajectory_that_is_lost_says_so(method, tau):
    with np.errstate(invalid="ignore"):
        run = nlink.simulate(DOUBLE, START, t=1.0, tau=tau, method=method)
    assert run.status == "not finite"
    assert 0.4 <= run.t_end <= 0.51
    assert np.isfinite(run.q[:40]).all()
    assert np.isnan(run.q[-1]).all()


@pytest.mark.parametrize("method", ["rkf45", "rk4", "lsoda", "radau"])
def test_no_method_takes_more_steps_than_allowed(method):
    run = nlink.simulate(DOUBLE, START, t=1.0, method=method, max_steps=5)
    assert run.status == "too many steps"
    assert run.stats.steps + run.stats.rejects == 5
    assert run.t_end < 1.0


@pytest.mark.parametrize("method", ["rkf45", "lsoda", "radau"])
def test_no_method_stands_still(method):
    """The printed inertias are not positive: at 1.8185 s the mass matrix is singular."""
    with pytest.warns(nlink.NonPhysicalWarning):
        robot = nlink.load("puma_saha")
    run = nlink.simulate(robot, t=3.0, method=method, rtol=1e-6, atol=1e-8)
    assert run.status == "step too small"
    assert abs(run.t_end - 1.8185) <= 1e-4


@pytest.mark.parametrize("method", ["rk4", "symplectic"])
@pytest.mark.parametrize(("times", "steps"), [
    ({"t": 1.0001, "every": 0.01}, 101), ({"t": [0.0, 0.005, 0.1], "every": 0.02}, 6),
    ({"t": 0.1, "every": 0.05, "step": 0.02}, 6)], ids=["rest", "sequence", "step"])
def test_fixed_steps_are_cut_short_at_outputs_and_nowhere_else(method, times, steps):
    run = nlink.simulate(DOUBLE, START, method=method, **times)
    assert run.ok
    assert run.stats.steps == steps


@pytest.mark.parametrize("method", ["rkf45", "dop853", "rk4", "lsoda"])
@pytest.mark.parametrize("t", [1e-12, 1e-4])
def test_a_time_shorter_than_between_outputs_has_its_two_ends(method, t):
    run = nlink.simulate(DOUBLE, START, t=t, every=1e6, method=method)
    assert run.t.tolist() == [0.0, t]
    assert run.ok
    assert np.abs(run.q - START).max() <= 100 * t * t


def test_laws_of_another_width_are_refused_in_a_sentence():
    planar = nlink.load("planar3")
    controller = PD(planar, [0.0, 0.0, 0.0], 1.0, 1.0)
    for traced in (True, False):
        with pytest.raises(ValueError, match="a controller for planar3, of 3 coordinates"):
            nlink.simulate(DOUBLE, t=0.1, tau=controller, traced=traced)
        with pytest.raises(ValueError, match="gave 3 values, expected 2"):
            nlink.simulate(DOUBLE, t=0.1, tau=lambda t, q, qd: [1.0, 2.0, 3.0], traced=traced)
    with pytest.raises(ValueError, match="desired: 3 coordinates, expected 2"):
        FeedForward(DOUBLE, Cycloid([0, 0, 0], [1, 1, 1], 1.0))
    with pytest.raises(ValueError, match="desired: 1 accelerations, expected 2"):
        FeedForward(DOUBLE, lambda t: ([0, 0], [0, 0], [0]))
    with pytest.raises(ValueError, match="desired: 2 values at t = 0"):
        FeedForward(DOUBLE, lambda t: ([0, 0], [0, 0]))
    held = FeedForward(DOUBLE, [0.3, 0.1])(0.0, START, START)
    assert np.allclose(held, DOUBLE.gravity_torque([0.3, 0.1]))


def test_an_algorithm_in_a_law_names_what_has_the_wrong_width():
    with pytest.raises(ValueError, match="q: 3 values, expected 2 for gravity_torque"):
        apply(DOUBLE, "gravity_torque", [0.0, 1.0, 2.0])
    with pytest.raises(TypeError, match="inverse_dynamics: 2 arguments, expected q, qd, qdd"):
        apply(DOUBLE, "inverse_dynamics", [0.0, 1.0], [0.0, 1.0])


def test_a_control_of_a_coupled_robot_has_its_width():
    lead, follow = DOUBLE.description.joints
    two = replace(DOUBLE.description, joints=(
        lead, replace(follow, mimic=nlink.Mimic(lead.name, -2.0))))
    controller = nlink.Coupled(nlink.Robot(two)).controller(lambda t, q, qd: [1.0, 2.0])
    for traced in (True, False):
        with pytest.raises(ValueError, match="gave 2 values, expected 1"):
            nlink.simulate(nlink.Robot(two), t=0.1, tau=controller, traced=traced)


@pytest.mark.parametrize(("inertia", "said"), [
    ([[1, 2, 3], [0, 1, 0], [0, 0, 1]], "not symmetric"), (-np.eye(3), "principal moment -1")])
def test_payloads_have_inertias(inertia, said):
    with pytest.raises(ValueError, match=f"vary: inertia .*{said}"):
        nlink.simulate(DOUBLE, t=0.1, vary={"payload": Payload(1.0, inertia=inertia)})
    some = Payload([1.0, 1.0], inertia=[np.eye(3), np.full((3, 3), np.nan)])
    assert nlink.simulate(DOUBLE, t=0.1, vary={"payload": some}).status.tolist() == [
        "done", "not finite"]


def test_a_reflection_is_no_orientation():
    with pytest.raises(ValueError, match="orientation: expected a 3x3 rotation matrix"):
        OperationalSpace(nlink.load("puma560"), [0.3, 0.2, 0.4], 1.0, 1.0,
                         orientation=np.diag([1.0, 1.0, -1.0]))


@pytest.mark.parametrize("arguments", [
    {"max_steps": 0}, {"max_steps": -1}, {"max_steps": float("nan")}, {"max_steps": 2.5},
    {"max_steps": 10**30}, {"max_steps": 10**400}, {"threads": 1.5}, {"threads": 0},
    {"threads": "two"}], ids=lambda given: str(given)[:20])
@pytest.mark.sampled(9)
def test_what_is_counted_is_whole_and_positive(arguments):
    (name, value), = arguments.items()
    with pytest.raises(ValueError, match=f"{name}: {value!r}, expected a whole number from 1 to"):
        nlink.simulate(DOUBLE, START, t=0.1, **arguments)


def test_forces_in_a_table_are_real():
    table = np.zeros((11, 2), dtype=complex)
    with pytest.raises(TypeError, match="tau: dtype complex128 does not convert"):
        nlink.simulate(DOUBLE, START, t=0.1, tau=table)
    with pytest.raises(ValueError, match="tau: not a rectangular array"):
        nlink.simulate(DOUBLE, START, t=0.1, tau=[[1.0, 2.0], [3.0]])


@pytest.mark.parametrize("method", ["radau", "lsoda"])
def test_a_bad_trajectory_of_scipys_fails_alone(method):
    """Poisoned by its state, by what varies, or by a controller beyond its domain."""
    pytest.importorskip("scipy")
    q0 = np.array([START, [np.nan, 0.0], [1e300, 0.0], [0.3, 0.1], START])
    qd0 = np.array([[0.0, 0.0]] * 3 + [[1e160, 1e200], [0.0, 0.0]])
    good, short = {"p": [[2.0]]}, {"p": [[2.0], [2.0], [2.0], [2.0], [0.05]]}

    def controller(t, q, qd, p):
        return [nlink.sqrt(p[0] - t), 0.0]

    options = {"t": 0.1, "method": method, "tau": controller}
    run = nlink.simulate(DOUBLE, q0, qd0, vary=short, **options)
    alone = nlink.simulate(DOUBLE, START, vary=good, **options)
    assert run.failed.ravel().tolist() == [1, 3, 4]
    assert run.status[4] == "not finite"
    assert np.array_equal(run.q[0], alone.q[0])


def test_an_error_of_a_law_is_not_hidden_by_scipy():
    pytest.importorskip("scipy")

    def controller(t, q, qd):
        raise ValueError("no forces today")

    with pytest.raises(ValueError, match="no forces today"):
        nlink.simulate(DOUBLE, START, t=0.1, tau=controller, method="radau")


def test_what_is_no_array_is_named():
    with pytest.raises(ValueError, match="t: 'soon', expected a positive number"):
        nlink.simulate(DOUBLE, START, t="soon")
    with pytest.raises(ValueError, match="q0: not a rectangular array"):
        nlink.simulate(DOUBLE, [[1.0, 2.0], [3.0]])


def test_outputs_are_bounded():
    with pytest.raises(ValueError, match=r"every: 1e-13 gives 1\.0e\+13 outputs until t = 1\.0"):
        nlink.simulate(DOUBLE, START, t=1.0, every=1e-13)


@pytest.mark.parametrize("how", [
    {}, {"method": "lsoda"}, {"traced": False}, {"method": "symplectic"}, {"velocity": "nu"},
    {"tau": lambda t, q, qd: -qd}, {"tau": np.zeros((11, 2))}, {"limits": "stop"},
    {"events": lambda t, q, qd: q[0]}], ids=lambda how: " ".join(how) or "plain")
def test_an_ensemble_may_be_empty(how):
    run = nlink.simulate(DOUBLE, np.zeros((0, 2)), t=0.1, **how)
    assert run.q.shape == run.qd.shape == run.tau.shape == (0, 11, 2)
    assert run.energy.shape == (0, 11)
    assert run.status.shape == (0,)
    assert run.ok
    assert len(run.events) == 0
    assert list(run.pieces()) == []


@pytest.mark.parametrize("name", ["run", "run.npz", "run.zarr"])
def test_an_empty_ensemble_is_saved_and_not_drawn(tmp_path, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    for vary in (None, {"payload": np.zeros(0)}):
        path = tmp_path / str(vary is None) / name
        run = nlink.simulate(DOUBLE, np.zeros((0, 2)), t=0.1, vary=vary, save=path)
        again = nlink.load_run(path)
        assert run.q.shape == again.q.shape == (0, 11, 2)
        assert again.energy.shape == (0, 11)
    with pytest.raises(ValueError, match="no trajectories to draw"):
        run.plot(tmp_path / "run.png")


def test_pieces_have_a_size():
    run = nlink.simulate(DOUBLE, np.zeros((3, 2)), t=0.1)
    assert [piece.q.shape[0] for piece in run.pieces(2)] == [2, 1]
    for size in (0, -1):
        with pytest.raises(ValueError, match=f"size: {size}, expected at least 1"):
            list(run.pieces(size))


@pytest.mark.slow
def test_a_law_may_have_powers():
    run, same = (nlink.simulate(DOUBLE, START, t=1.0, tau=controller) for controller in (
        lambda t, q, qd: -q**3 - 0.1 * (1 + q**2) ** -1,
        lambda t, q, qd: [-x * (x * x) - 0.1 / (1 + x * x) for x in q]))
    assert np.abs(run.q - same.q).max() <= 1e-9
    run, same = (nlink.simulate(DOUBLE, START, t=1.0, tau=controller) for controller in (
        lambda t, q, qd: -(1 + q**2) ** 0.5, lambda t, q, qd: -nlink.sqrt(1 + q * q)))
    assert np.abs(run.q - same.q).max() <= 1e-9


def test_a_composite_joint_is_not_nested():
    parts = [{"joint": [{"joint": "revolute"}, {"joint": "revolute"}]}, {"joint": "revolute"}]
    with pytest.raises(ValueError, match="row 1: joint: part 1 of a composite joint is a list"):
        nlink.Robot.from_dh([{"placement": {}, "mass": 1.0, "joint": parts}], name="nested")
