"""FD1 to FD4 as formulations: what they compute, in how many sweeps, at what cost."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

import nlink
from nlink.engines.complexity import cost_formula
from nlink.formats.bridges import to_pinocchio
from nlink.papers.formulations import formulations, markdown, sweeps, table
from nlink.testing import random_robot

FORMULATIONS = ("fd1", "fd2", "fd3", "fd4")
EPS = np.finfo(float).eps


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("algorithm", FORMULATIONS)
def test_formulations_agree_with_friction_armature_and_wrenches(algorithm, engine):
    for seed in range(2):
        robot = random_robot(seed, 5, types=("revolute", "prismatic", "universal", "planar"))
        rng = np.random.default_rng(seed)
        q = rng.normal(size=robot.nq)
        qd, tau = rng.normal(size=(2, robot.n))
        f_ext = rng.normal(size=(len(robot.links), 6))
        expected = robot.forward_dynamics(q, qd, tau, f_ext, engine="python")
        found = robot.forward_dynamics(q, qd, tau, f_ext, algorithm=algorithm, engine=engine)
        bound = 100 * EPS * np.linalg.cond(robot.mass_matrix(q, engine="python"))
        assert np.abs(found - expected).max() <= bound * max(1, np.abs(expected).max())


@pytest.mark.parametrize("algorithm", ["fd2", "fd4"])
def test_link_accelerations_are_what_pinocchio_has(algorithm):
    robot = random_robot(2, 6, friction=False, tree=False)
    q, qd = robot.random_state(0)
    tau = np.random.default_rng(1).normal(size=robot.n)
    model = to_pinocchio(robot.description)
    data = model.createData()
    qdd = pin.aba(model, data, q, qd, tau)
    pin.forwardKinematics(model, data, q, qd, qdd)
    found = robot.link_accelerations(q, qd, tau, algorithm=algorithm, engine="numpy")
    for link, row in zip(robot.links, found, strict=True):
        a = pin.getFrameClassicalAcceleration(model, data, model.getFrameId(link.name),
                                              pin.LOCAL_WORLD_ALIGNED)
        expected = np.concatenate([a.angular, a.linear])
        assert np.abs(row - expected).max() <= 1e-11 * max(1, np.abs(expected).max())


def test_a_falling_body_accelerates_by_gravity():
    """alpha is true: a link that nothing holds falls with g, however gravity entered."""
    slide = {"joint": "prismatic", "mass": 1.0, "com": (0, 0, 0), "inertia": (1, 1, 1)}
    robot = nlink.Robot.from_dh([slide])
    alpha = robot.link_accelerations([0.3], [1.0], [0.0], engine="python")
    assert alpha == pytest.approx(np.array([[0, 0, 0, 0, 0, -9.81]]))


@pytest.mark.parametrize(("algorithm", "expected"), [
    ("fd1", "oiio"), ("fd2", "oiio"), ("fd3", "oio"), ("fd4", "oio")])
def test_sweeps_are_the_reports(algorithm, expected):
    found = sweeps(nlink.load("puma560"), "forward_dynamics", algorithm)
    assert "".join(sweep[0] for sweep in found) == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "algorithm", "expected"), [
    ("forward_dynamics", "fd1", "(213n-330)M (191n-322)A (n-1) div"),
    ("forward_dynamics", "fd2", "(213n-330)M (191n-322)A (n-1) div"),
    ("forward_dynamics", "fd3", "(193n-297)M (178n-296)A (n-1) div"),
    ("forward_dynamics", "fd4", "(206n-292)M (191n-295)A (n-1) div"),
    ("link_accelerations", "fd2", "(253n-375)M (222n-356)A (n-1) div"),
    ("link_accelerations", "fd4", "(246n-337)M (216n-321)A (n-1) div"),
    ("operational_mobility", "propagation", "(196n-173)M (189n-244)A (n-1) div"),
])
def test_law_for_revolute_chains(name, algorithm, expected):
    assert str(cost_formula(name, algorithm)) == expected


def test_bias_free_dynamics_of_both_schools_cost_the_same():
    """FD1 and the DeNOC papers' algorithm are one recursion."""
    fd1, denoc = (str(cost_formula("forward_dynamics", name)) for name in ("fd1", "denoc"))
    assert fd1 == denoc


@pytest.mark.slow
def test_formulations_are_tabulated():
    rows = formulations("link_accelerations")
    assert {row.formulation for row in rows} == {"fd2", "fd4"}
    assert all(row.formulation in markdown("link_accelerations") for row in rows)
    assert table("link_accelerations").row_count == len(rows)
    assert rows[0].data["formula"] == str(rows[0].formula)


@pytest.mark.slow
def test_long_chains_run_in_the_rolled_driver():
    robot = random_robot(1, 60, tree=False, fixed=False)
    q, qd = robot.random_state(0)
    tau = robot.inverse_dynamics(q, qd, np.ones(robot.n))
    for algorithm in FORMULATIONS:
        assert robot.request("forward_dynamics", algorithm=algorithm).rolled
        qdd = robot.forward_dynamics(q, qd, tau, algorithm=algorithm)
        error = robot.mass_matrix(q, engine="python") @ (qdd - 1)
        assert np.abs(error).max() <= 1e-9 * np.abs(tau).max()
