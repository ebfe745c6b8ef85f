"""Rotations and poses as arrays, over any leading shape: exponentials, logarithms, conversions.

Quaternions are (w, x, y, z), rpy are the fixed-axes angles of URDF, R = Rz(yaw) Ry(pitch)
Rx(roll), and twists are (angular, linear).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nlink.model import quaternions
from nlink.scalars.arrays import batch
from nlink.spatial import Vector

Array = np.ndarray


def exp3(r: ArrayLike) -> Array:
    """The rotation matrix (..., 3, 3) of a rotation vector (..., 3).

    >>> exp3([0, 0, np.pi / 2]).round(12)
    array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])
    """
    return matrix_from_quaternion(np.stack(quaternions.exp(_vector("r", r)), axis=-1))


def log3(R: ArrayLike) -> Array:
    """The shortest rotation vector (..., 3) of a rotation matrix, at any angle up to pi.

    >>> log3(exp3([0.1, -0.2, 3.0]))
    array([ 0.1, -0.2,  3. ])
    """
    q = quaternion_from_matrix(R)
    return np.stack(quaternions.log(tuple(np.moveaxis(q, -1, 0))).components, axis=-1)


def exp6(twist: ArrayLike) -> Array:
    """The pose (..., 4, 4) that a constant twist (angular, linear) leads to in a unit of time.

    >>> exp6([0, 0, np.pi, 0, 1, 0])[:3, 3].round(6)
    array([-0.63662,  0.     ,  0.     ])
    """
    t = batch("twist", twist, (6,))
    turn, velocity = (Vector(*np.moveaxis(t[..., k:k + 3], -1, 0)) for k in (0, 3))
    return _pose(exp3(t[..., :3]), np.stack(
        quaternions.screw_shift(turn, velocity).components, axis=-1))


def log6(T: ArrayLike) -> Array:
    """The twist (..., 6) with exp6(twist) = T.

    >>> log6(exp6([0.1, 0.2, -0.3, 1.0, 2.0, 3.0]))
    array([ 0.1,  0.2, -0.3,  1. ,  2. ,  3. ])
    """
    T = batch("T", T, (4, 4))
    r = log3(T[..., :3, :3])
    turn, shift = (Vector(*np.moveaxis(x, -1, 0)) for x in (r, T[..., :3, 3]))
    v = np.stack(quaternions.screw_velocity(turn, shift).components, axis=-1)
    return np.concatenate([r, v], axis=-1)


def matrix_from_quaternion(q: ArrayLike) -> Array:
    """The rotation matrix (..., 3, 3) of a quaternion (w, x, y, z) of any length but zero.

    >>> matrix_from_quaternion([1, 0, 0, 0])
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    parts = np.moveaxis(batch("q", q, (4,)), -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        R = quaternions.quaternion_matrix(*parts)
    return np.stack([np.stack(np.broadcast_arrays(*row), axis=-1) for row in R.rows], axis=-2)


def quaternion_from_matrix(R: ArrayLike) -> Array:
    """The unit quaternion (w, x, y, z), w >= 0, of a rotation matrix; it divides by the largest of
    the four components that the diagonal gives.

    >>> quaternion_from_matrix([[0, -1, 0], [1, 0, 0], [0, 0, 1]]).round(6)
    array([0.707107, 0.      , 0.      , 0.707107])
    """
    R = batch("R", R, (3, 3))
    xx, yy, zz = (R[..., k, k] for k in range(3))
    a, b, c = R[..., 2, 1], R[..., 0, 2], R[..., 1, 0]
    d, e, f = R[..., 1, 2], R[..., 2, 0], R[..., 0, 1]
    rows = np.stack([  # 4 q_k q, by rows k
        np.stack([1 + xx + yy + zz, a - d, b - e, c - f], axis=-1),
        np.stack([a - d, 1 + xx - yy - zz, c + f, b + e], axis=-1),
        np.stack([b - e, c + f, 1 - xx + yy - zz, a + d], axis=-1),
        np.stack([c - f, b + e, a + d, 1 - xx - yy + zz], axis=-1)], axis=-2)
    best = np.argmax(np.diagonal(rows, axis1=-2, axis2=-1), axis=-1)
    q = np.take_along_axis(rows, best[..., None, None], axis=-2)[..., 0, :]
    with np.errstate(invalid="ignore"):
        q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    return np.where(q[..., :1] < 0, -q, q)


def matrix_from_rpy(rpy: ArrayLike) -> Array:
    """R = Rz(yaw) Ry(pitch) Rx(roll), (..., 3, 3), of (roll, pitch, yaw).

    >>> matrix_from_rpy([0, 0, np.pi / 2]).round(6)[:2, 0]
    array([0., 1.])
    """
    roll, pitch, yaw = np.moveaxis(batch("rpy", rpy, (3,)), -1, 0)
    (a, b, c), (s, t, u) = ([f(x) for x in (roll, pitch, yaw)] for f in (np.cos, np.sin))
    return np.stack([
        np.stack([c * b, c * t * s - u * a, c * t * a + u * s], axis=-1),
        np.stack([u * b, u * t * s + c * a, u * t * a - c * s], axis=-1),
        np.stack([-t, b * s, b * a], axis=-1)], axis=-2)


def rpy_from_matrix(R: ArrayLike) -> Array:
    """(roll, pitch, yaw) of a rotation matrix; roll is 0 where pitch is a quarter turn.

    >>> rpy_from_matrix(matrix_from_rpy([0.1, -0.2, 0.3]))
    array([ 0.1, -0.2,  0.3])
    """
    R = batch("R", R, (3, 3))
    flat = np.hypot(R[..., 0, 0], R[..., 1, 0])
    locked = flat < 1e-12
    roll = np.where(locked, 0.0, np.arctan2(R[..., 2, 1], R[..., 2, 2]))
    yaw = np.where(locked, np.arctan2(-R[..., 0, 1], R[..., 1, 1]),
                   np.arctan2(R[..., 1, 0], R[..., 0, 0]))
    return np.stack([roll, np.arctan2(-R[..., 2, 0], flat), yaw], axis=-1)


def _vector(name: str, given: ArrayLike) -> Vector:
    return Vector(*np.moveaxis(batch(name, given, (3,)), -1, 0))


def _pose(R: Array, p: Array) -> Array:
    T = np.zeros((*R.shape[:-2], 4, 4))
    T[..., :3, :3], T[..., :3, 3], T[..., 3, 3] = R, p, 1.0
    return T
