"""What has no answer has none in its own state only; what is odd is computed with a warning."""

from __future__ import annotations

import numpy as np
import pytest

import nlink
from nlink.algorithms.catalogue import ALGORITHMS
from nlink.engines.engines import ENGINES

ENGINE = pytest.mark.parametrize("engine", ENGINES)
LINEAR = [name for name in ALGORITHMS["forward_dynamics"] if name in ("articulated", "denoc")]


def massless_tip() -> nlink.Robot:
    """A sliding rod whose last link has no mass: mhat_3 = 0 in every state."""
    rod = {"joint": "revolute", "a": 1.0, "mass": 1.0, "com": (-0.5, 0, 0),
           "inertia": (0, 1 / 12, 1 / 12)}
    return nlink.Robot.from_dh([rod, rod, rod | {"mass": 0.0, "inertia": (0, 0, 0)}],
                               physical="ignore")


def folding_arm() -> nlink.Robot:
    """mhat_1 = 0 where the second link, a point mass, lies on the first, massless joint's axis."""
    weightless = {"joint": "revolute", "a": 1.0, "mass": 0.0, "com": (0, 0, 0),
                  "inertia": (0, 0, 0)}
    slider = {"joint": "prismatic", "alpha_deg": 0.0, "mass": 1.0, "com": (0, 0, 0),
              "inertia": (0, 0, 0)}
    return nlink.Robot.from_dh(
        [weightless | {"alpha_deg": 90.0, "a": 0.0}, slider], physical="ignore",
        gravity=(0, 0, 0))


@ENGINE
def test_a_massless_tip_has_no_acceleration_and_stops_nothing(engine):
    robot = massless_tip()
    q, qd = robot.random_state(0, (5,))
    with pytest.raises(ValueError, match="joint 'joint3' moves no mass"):
        robot.forward_dynamics(q, qd, np.ones_like(q), engine=engine)
    assert np.isfinite(robot.inverse_dynamics(q, qd, qd, engine=engine)).all()
    assert np.linalg.matrix_rank(robot.mass_matrix(q, engine=engine)).tolist() == [2] * 5


@ENGINE
@pytest.mark.parametrize("algorithm", LINEAR)
def test_a_singular_state_spoils_no_other(engine, algorithm):
    """I_11 = b^2: singular exactly where the mass is on the axis."""
    robot = folding_arm()
    q = np.array([[0.3, 0.5], [0.4, 0.0], [0.5, -0.7]])
    qd, tau = np.zeros_like(q), np.ones_like(q)
    M = robot.mass_matrix(q, engine=engine)
    np.testing.assert_allclose(M[:, 0, 0], q[:, 1] ** 2, rtol=1e-15)
    qdd = robot.forward_dynamics(q, qd, tau, algorithm=algorithm, engine=engine)
    assert np.isfinite(qdd).all(axis=-1).tolist() == [True, False, True]
    np.testing.assert_allclose(qdd[[0, 2], 0], 1 / q[[0, 2], 1] ** 2, rtol=1e-14)
    inverse = robot.inverse_mass_matrix(q, engine=engine)
    assert np.isfinite(inverse).all(axis=(-1, -2)).tolist() == [True, False, True]


def test_operators_of_a_singular_state_are_not_finite_but_are():
    o = folding_arm().operators([0.4, 0.0])
    assert o.mhat(1) == 0.0
    assert np.isfinite(o.I.dense()).all()
    assert not np.isfinite(o.Dinv.dense()).all()


@ENGINE
def test_the_printed_puma_is_computed_with_a_warning(engine):
    with pytest.warns(nlink.NonPhysicalWarning):
        robot = nlink.load("puma_saha")
    q, qd = robot.random_state(3, (4,))
    M = robot.mass_matrix(q, engine=engine)
    assert (np.linalg.eigvalsh(M)[:, 0] < 0).all()
    _, D = robot.factor_mass_matrix(q, engine=engine)
    assert (D[:, 3] < 0).all()
    qdd = np.random.default_rng(0).normal(size=q.shape)
    tau = robot.inverse_dynamics(q, qd, qdd, engine=engine)
    condition = np.linalg.cond(M).max()
    got = robot.forward_dynamics(q, qd, tau, engine=engine)
    np.testing.assert_allclose(got, qdd, rtol=0, atol=100 * condition * np.finfo(float).eps)
