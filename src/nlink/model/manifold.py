"""Steps on the configuration manifold, in NumPy: exponentials and logarithms of rotations.

Quaternions are scalar first; a rotation vector or a twist is in the body's axes, so a step
multiplies from the right: q (+) v = q exp(v).
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def quaternion_product(a: Array, b: Array) -> Array:
    """a b, over the last axis."""
    w, v = a[..., :1], a[..., 1:]
    x, u = b[..., :1], b[..., 1:]
    scalar = w * x - np.sum(v * u, axis=-1, keepdims=True)
    return np.concatenate([scalar, w * u + x * v + np.cross(v, u)], axis=-1)


def conjugate(q: Array) -> Array:
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def quaternion_exp(r: Array) -> Array:
    """The unit quaternion of a rotation vector: (cos |r|/2, sin(|r|/2) r/|r|)."""
    half = 0.5 * np.linalg.norm(r, axis=-1, keepdims=True)
    return np.concatenate([np.cos(half), 0.5 * np.sinc(half / np.pi) * r], axis=-1)


def quaternion_log(q: Array) -> Array:
    """The shortest rotation vector of a unit quaternion."""
    q = np.where(q[..., :1] < 0, -q, q)
    size = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(size, q[..., :1])
    small = size < 1e-8  # there angle / sin(angle/2) is 2 to rounding
    return q[..., 1:] * np.where(small, 2.0, angle / np.where(small, 1.0, size))


def rotate(q: Array, v: Array) -> Array:
    """R(q) v for a unit quaternion."""
    t = 2 * np.cross(q[..., 1:], v)
    return v + q[..., :1] * t + np.cross(q[..., 1:], t)


def normalized(q: Array) -> Array:
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def screw_shift(r: Array, v: Array) -> Array:
    """V(r) v: where the origin goes in a unit of time with angular velocity r and velocity v."""
    b, c = _screw(np.linalg.norm(r, axis=-1, keepdims=True))
    rv = np.cross(r, v)
    return v + b * rv + c * np.cross(r, rv)


def screw_velocity(r: Array, p: Array) -> Array:
    """V(r)^-1 p, the velocity that leads to p."""
    angle = np.linalg.norm(r, axis=-1, keepdims=True)
    near = angle < 1e-3
    safe = np.where(near, 1.0, angle)
    exact = (1 - 0.5 * safe / np.tan(0.5 * safe)) / safe**2
    d = np.where(near, 1 / 12 + angle**2 / 720, exact)
    rp = np.cross(r, p)
    return p - 0.5 * rp + d * np.cross(r, rp)


def _screw(angle: Array) -> tuple[Array, Array]:
    """(1 - cos a)/a^2 and (a - sin a)/a^3, by series where they cancel."""
    near = angle < 1e-2
    safe = np.where(near, 1.0, angle)
    square = angle**2
    b = np.where(near, 0.5 - square / 24 + square**2 / 720, (1 - np.cos(safe)) / safe**2)
    c = np.where(near, 1 / 6 - square / 120 + square**2 / 5040, (safe - np.sin(safe)) / safe**3)
    return b, c
