"""Motions that excite: within limits, at rest at both ends, by exact gradients."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.identification.excitation import SHAPES, Information, _objective
from nlink.identification.excitation_limits import MotionLimits

SMALL = nlink.load("double_pendulum")


@pytest.fixture(scope="module", params=["fourier", "spline"])
def path(request):
    return nlink.excite(SMALL, duration=10, seed=1, motion=request.param)


def test_paths_keep_their_limits_and_rest_at_both_ends(path):
    t = np.linspace(0, 10, 3000)
    q, qd, qdd = path.at(t)
    assert path.limits.kept(q, qd, qdd)
    for x in (qd[0], qdd[0], qd[-1], qdd[-1]):
        np.testing.assert_allclose(x, 0, atol=1e-9)
    np.testing.assert_allclose(np.gradient(q, t, axis=0)[5:-5], qd[5:-5], atol=1e-2)
    for x, y in zip(path(1.234), path.at(np.array([1.234])), strict=True):
        np.testing.assert_allclose(x, y[0], rtol=1e-12)
    assert path.condition < 10


def test_the_same_seed_gives_the_same_path(path):
    again = nlink.excite(SMALL, duration=10, seed=1, motion=(
        "fourier" if "Fourier" in repr(path) else "spline"))
    np.testing.assert_array_equal(again.at(np.arange(5.0))[0], path.at(np.arange(5.0))[0])


@pytest.mark.slow
@pytest.mark.parametrize(("criterion", "motion"), [
    ("condition", "fourier"), ("D", "fourier"), ("condition", "spline")])
def test_gradients_are_exact(criterion, motion):
    bounds = MotionLimits.of(SMALL, {"effort": 15.0, "keep_out": ((0.5, -1, -1), (3, 1, 1))})
    measure = Information(SMALL, nlink.base_parameters(SMALL, ("viscous",), True), ("viscous",),
                          True, bounds, criterion, 0)
    shape = SHAPES[motion](2, 3, 5.0, 24)
    rng = np.random.default_rng(0)
    x = 1.3 * shape.random(rng, bounds)
    function = _objective(shape, measure, bounds, 2.0)
    _, slope = function(x)
    for _ in range(3):
        d = rng.normal(size=x.shape)
        numeric = (function(x + 1e-6 * d)[0] - function(x - 1e-6 * d)[0]) / 2e-6
        assert numeric == pytest.approx(slope @ d, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("motion", ["fourier", "spline"])
def test_limits_that_are_given_are_kept(motion):
    limits = {"velocity": 1.0, "acceleration": 2.0, "effort": 40.0,
              "keep_out": ((-3, -3, -3), (-0.3, 3, 3))}
    path = nlink.excite(SMALL, duration=8, seed=2, limits=limits, motion=motion)
    q, qd, qdd = path.at(np.linspace(0, 8, 2000))
    assert np.abs(qd).max() <= 1.0 + 1e-6
    assert np.abs(qdd).max() <= 2.0 + 1e-6
    assert np.abs(SMALL.inverse_dynamics(q, qd, qdd)).max() <= 40.0 + 1e-6
    for link in (1, 2):
        assert SMALL.pose(q, link)[:, 0, 3].min() >= -0.3 - 1e-9


@pytest.mark.slow
def test_a_second_path_complements_a_first_that_moves_one_joint():
    t = np.arange(0, 10, 0.02)
    first = {"t": t, "q": np.column_stack([np.sin(2 * t), 0.3 + 0 * t]), "tau": np.zeros((500, 2))}
    second = nlink.excite(SMALL, duration=10, seed=3, after=first)
    assert second.condition < 5  # of both together
    assert np.ptp(second.at(t)[0][:, 1]) > 1.0


@pytest.mark.slow
def test_periods_of_splines_go_on_into_one_another():
    path = nlink.excite(SMALL, duration=6, seed=4, motion="spline", period=3.0, harmonics=3)
    t = np.linspace(0, 3, 200)
    for x, y in zip(path.at(t), path.at(t + 3), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-9)


def test_arguments_of_excite_are_checked(tmp_path, path):
    for how, said in (({"criterion": "E"}, "criterion: 'E'"), ({"duration": 0}, "duration: 0"),
                      ({"harmonics": 1}, "harmonics: 1"), ({"motion": "line"}, "motion: 'line'"),
                      ({"period": 99}, "period: 99"),
                      ({"limits": {"speed": 1}}, "limits: 'speed'"),
                      ({"limits": {"lower": 1, "upper": 0}}, "lower is not below upper"),
                      ({"limits": {"velocity": -1}}, "velocity")):
        with pytest.raises(ValueError, match=said):
            nlink.excite(SMALL, **how)
    path.save(tmp_path / "path.csv")
    head, *rows = (tmp_path / "path.csv").read_text().splitlines()
    assert head.startswith("t,joint1.q,joint2.q,joint1.qd")
    assert len(rows) == 1001
