"""J M^-1 J^T by the recursion Om(k), its inverse, several frames, and where they end."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

import nlink
from nlink.formats.bridges import to_pinocchio
from nlink.spatial import Matrix, Rotation, Symmetric, Transform, Turn, Vector
from nlink.spatial.mobility import SpatialMobility
from nlink.testing import random_robot

EPS = np.finfo(float).eps
TYPES = {"hinges and slides": ("revolute", "prismatic"),
         "block joints": ("revolute", "spherical", "universal", "planar", "helical"),
         "mobile": ("free", "revolute")}


def dense(robot, q, frames):
    """J M^-1 J^T from matrices, and what its rounding is worth."""
    J = np.vstack([robot.jacobian(q, frame, engine="python") for frame in frames])
    M = robot.mass_matrix(q, engine="python")
    W = J @ np.linalg.solve(M, J.T)
    return W, 100 * EPS * np.linalg.cond(M) * max(1, np.abs(W).max())


@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("seed", range(6))
def test_mobility_is_the_dense_product(seed, types):
    robot = random_robot(seed, 6, types=types)
    q = np.random.default_rng(seed).normal(size=robot.nq)
    for frame in (-1, 1, "base"):
        W, bound = dense(robot, q, [frame])
        found = robot.operational_inertia(q, frame, inverse=True, engine="python")
        assert np.abs(found - W).max() <= bound
        assert (found == found.T).all()


@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("seed", range(4))
def test_several_frames_with_cross_terms(seed, types):
    """Frames on one body, on one branch, on two branches, on the base, in any order."""
    robot = random_robot(seed, 6, types=types, tree=True)
    q = np.random.default_rng(seed).normal(size=robot.nq)
    frames = [6, 0, 3, 5, 3, 1]
    W, bound = dense(robot, q, frames)
    found = robot.operational_inertia(q, frames=frames, inverse=True, engine="python")
    assert found.shape == (36, 36)
    assert np.abs(found - W).max() <= bound


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "numpy", "compiled"])
def test_inertia_inverts_mobility_in_a_batch(engine):
    robot = nlink.load("panda")
    q, _ = robot.random_state(3, (5,))
    Lambda = robot.operational_inertia(q, engine=engine)
    W = robot.operational_inertia(q, inverse=True, engine=engine)
    assert Lambda.shape == W.shape == (5, 6, 6)
    for a, b in zip(Lambda, W, strict=True):
        assert np.abs(a @ b - np.eye(6)).max() <= 100 * EPS * np.linalg.cond(b)


@pytest.mark.slow
def test_inertia_of_two_hands():
    """Two branches of a tree, with what one hand feels of the other."""
    robot = random_robot(1, 14, tree=True, types=("revolute", "spherical"), fixed=False)
    q = np.random.default_rng(0).normal(size=robot.nq)
    Lambda = robot.operational_inertia(q, frames=(14, 13))
    W = robot.operational_inertia(q, frames=(14, 13), inverse=True)
    assert np.abs(W[:6, 6:]).max() > 1e-3
    assert np.abs(Lambda @ W - np.eye(12)).max() <= 100 * EPS * np.linalg.cond(W)
    assert robot.operational_inertia(q, frames=["link14", -2], inverse=True) == pytest.approx(W)


@pytest.mark.sampled(2)
def test_pinocchio_agrees():
    robot = nlink.load("puma560")
    q, _ = robot.random_state(0)
    model = to_pinocchio(robot.description)
    data = model.createData()
    J = pin.computeFrameJacobian(model, data, q, model.getFrameId(robot.links[-1].name),
                                 pin.LOCAL_WORLD_ALIGNED)
    Minv = pin.computeMinverse(model, data, q)
    Minv = np.triu(Minv) + np.triu(Minv, 1).T
    W = np.vstack([J[3:], J[:3]]) @ Minv @ np.vstack([J[3:], J[:3]]).T
    found = robot.operational_inertia(q, inverse=True)
    assert np.abs(found - W).max() <= 1e-12 * np.abs(W).max()


@pytest.mark.slow
def test_khatib_projects_the_mass_matrix():
    """Lambda is the inertia the hand shows: J^T Lambda J = M for six joints."""
    robot = nlink.load("puma560")
    q, _ = robot.random_state(1)
    J, Lambda = robot.jacobian(q), robot.operational_inertia(q)
    assert np.abs(J.T @ Lambda @ J - robot.mass_matrix(q)).max() <= 1e-10


@pytest.mark.parametrize("engine", ["python", "numpy", "compiled"])
def test_too_few_rates_have_no_inertia(engine):
    robot = nlink.load("planar3")
    assert np.isnan(robot.operational_inertia([0.1, 0.2, 0.3], engine=engine)).all()
    assert np.isfinite(robot.operational_inertia([0.1, 0.2, 0.3], inverse=True,
                                                 engine=engine)).all()


def test_what_is_no_frame_is_refused():
    robot = nlink.load("planar3")
    with pytest.raises(ValueError, match="frame: 'nothing'"):
        robot.operational_inertia([0, 0, 0], frames=["nothing"])
    with pytest.raises(ValueError, match="at least one"):
        robot.operational_inertia([0, 0, 0], frames=[])
    with pytest.raises(ValueError, match="engine"):
        robot.operational_inertia([0, 0, 0], frames=[1], engine="steam")


def test_mobility_shifts_and_turns_as_a_form():
    """phi^T Om phi with phi = [1 d~; 0 1], then R^T . R."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(6, 6))
    W = W @ W.T
    Om = SpatialMobility(Symmetric.from_rows(W[:3, :3].tolist()),
                         Matrix.from_rows(W[3:, :3].tolist()),
                         Symmetric.from_rows(W[3:, 3:].tolist()))
    assert np.array(Om.rows) == pytest.approx(W)
    angle, p, r = 0.7, Vector(0.1, -0.2, 0.3), Vector(0, 0, 0.5)
    X = Transform(p, Rotation((Turn("z", np.cos(angle), np.sin(angle)),)), r)
    R = np.array(X.R.matrix().rows)
    d = np.array(p.components) + R @ r.components
    phi = np.eye(6)
    phi[:3, 3:] = [[0, -d[2], d[1]], [d[2], 0, -d[0]], [-d[1], d[0], 0]]
    turn = np.kron(np.eye(2), R)
    assert np.array(Om.to_child(X).rows) == pytest.approx(turn.T @ phi.T @ W @ phi @ turn)
