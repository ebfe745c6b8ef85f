"""Exponentials, logarithms and conversions of rotations and poses, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

import nlink

ANGLES = (0.0, 1e-12, 1e-8, 1e-4, 0.3, 2.0, np.pi - 1e-3, np.pi - 1e-8, np.pi)


@pytest.fixture(scope="module")
def vectors():
    axes = np.random.default_rng(0).normal(size=(20, 3))
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    return np.array(ANGLES)[:, None, None] * axes


def test_rotation_vectors_and_quaternions(vectors):
    flat = vectors.reshape(-1, 3)
    R = nlink.exp3(vectors)
    assert np.abs(R.reshape(-1, 3, 3) - Rotation.from_rotvec(flat).as_matrix()).max() < 1e-14
    back = nlink.log3(R)
    # at half a turn both directions are one rotation
    error = np.minimum(np.abs(back - vectors).max(-1), np.abs(back + vectors).max(-1) + (
        np.linalg.norm(vectors, axis=-1) < 3.14))
    assert error.max() < 1e-13
    q = nlink.quaternion_from_matrix(R).reshape(-1, 4)
    theirs = Rotation.from_rotvec(flat).as_quat()[:, [3, 0, 1, 2]]
    assert np.abs(np.abs(np.sum(q * theirs, axis=-1)) - 1).max() < 1e-14
    assert np.abs(nlink.matrix_from_quaternion(q) - R.reshape(-1, 3, 3)).max() < 1e-14


def test_twists_and_poses(vectors):
    linear = np.random.default_rng(1).normal(size=vectors.shape)
    twist = np.concatenate([vectors, linear], axis=-1)
    T = nlink.exp6(twist)
    for t, pose in zip(twist.reshape(-1, 6)[::7], T.reshape(-1, 4, 4)[::7], strict=True):
        A = np.zeros((4, 4))
        A[:3, :3] = [[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]]
        A[:3, 3] = t[3:]
        assert np.abs(expm(A) - pose).max() < 1e-12
    small = np.linalg.norm(vectors, axis=-1) < 3.14
    assert np.abs(nlink.log6(T)[small] - twist[small]).max() < 1e-11


def test_roll_pitch_yaw():
    rpy = np.random.default_rng(2).uniform(-1.5, 1.5, (50, 3))
    R = nlink.matrix_from_rpy(rpy)
    assert np.abs(R - Rotation.from_euler("xyz", rpy).as_matrix()).max() < 1e-14
    assert np.abs(nlink.rpy_from_matrix(R) - rpy).max() < 1e-13
    locked = nlink.matrix_from_rpy([0.4, np.pi / 2, 0.1])
    assert np.abs(nlink.matrix_from_rpy(nlink.rpy_from_matrix(locked)) - locked).max() < 1e-12


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"R: shape \(3,\), expected \(\.\.\., 3, 3\)"):
        nlink.log3([1, 2, 3])
