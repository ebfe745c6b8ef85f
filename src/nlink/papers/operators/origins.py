"""A mechanism in one state as [RK88] and the Saha papers see it: world axes, a reference point
O(k) in each body. Arrays may be complex, for derivatives by the complex step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from nlink.algorithms.inverse_dynamics import no_wrenches
from nlink.algorithms.kinematics import forward_kinematics
from nlink.algorithms.spatial_operators import biases
from nlink.algorithms.sweep import Unrolled
from nlink.model.mechanism import Mechanism
from nlink.papers.operators.elimination import Articulated
from nlink.papers.operators.linear import Array
from nlink.spatial import Twist, Vector

Points = Literal["joints", "centres"]
"""Reference points: on the joint axes (the report's), or mass centres (the Saha papers')."""


@dataclass(frozen=True, eq=False)
class SpatialLinks:
    """What spatial operators are made of, one entry for each moving body, base first."""

    parents: tuple[int, ...]
    origin: Array
    """(n, 3): O(k)."""
    base: Array
    """(3,): O(N+1), the base frame's origin."""
    M: Array
    """(n, 6, 6): spatial inertias about O(k) (2.15)."""
    H: tuple[Array, ...]
    """H(k), a row for each rate of joint k (2.16), (2.31), (b.2)."""
    armature: tuple[Array, ...]
    """What the rotors of joint k add to D(k); zero in the report."""
    w: Array
    """(n, 3): angular velocities."""
    a: Array
    """(n, 6): bias accelerations (2.19), without gravity."""
    b: Array
    """(n, 6): bias forces (2.23)."""
    gravity: Array
    """(3,), world axes."""
    rotation: Array
    """(n, 3, 3): body axes in the world."""
    frame: Array
    """(n, 3): origins of the mechanism's own body frames."""

    @classmethod
    def of(cls, mechanism: Mechanism, q: Array, qd: Array, points: Points = "joints",
           ) -> SpatialLinks:
        driver = Unrolled(mechanism)
        columns = mechanism.split(q.tolist(), "nq")
        rates = mechanism.split(qd.tolist(), "nv")
        places = forward_kinematics(driver, columns, mechanism.base.p)
        moving = biases(driver, columns, rates, no_wrenches(driver))
        n, kind = len(places), np.result_type(q, qd, float)
        R = np.reshape([place.R.rows for place in places], (n, 3, 3)).astype(kind)
        frame = np.reshape([place.p.components for place in places], (n, 3)).astype(kind)
        base = np.array(mechanism.base.p.components, dtype=float)
        gravity = np.array(mechanism.base.R.rows) @ mechanism.gravity.components
        w = np.einsum("kij,kj->ki", R, np.reshape([m.w.components for m in moving], (n, 3)))
        a = np.reshape([_turned(r, m.a) for r, m in zip(R, moving, strict=True)], (n, 6))
        for k, parent in enumerate(mechanism.parents):
            if not parent:
                a[k, 3:] += gravity  # the text lets the base fall upwards
        mass, centre, inertia, H = np.zeros(n), np.zeros_like(frame), np.zeros_like(R), []
        for k, (joint, x) in enumerate(zip(mechanism.joints, columns, strict=True)):
            I = joint.inertia
            c = I.h * (1 / I.m) if I.m else Vector.zero()
            mass[k], centre[k] = I.m, R[k] @ c.components
            inertia[k] = R[k] @ np.array(I.shift(-c).J.rows) @ R[k].T
            H.append(np.reshape([_turned(R[k], s) for s in joint.subspace(x)], (-1, 6)))
        d = np.zeros((n, 3)) if points == "joints" else centre
        a = _moved_acceleration(a, w, d, mechanism.parents)
        H = [np.hstack([h[:, :3], h[:, 3:] + np.cross(h[:, :3], r)])
             for h, r in zip(H, d, strict=True)]
        p = tilde(centre - d)
        I_O = inertia - mass[:, None, None] * (p @ p)
        M = np.block([[I_O, mass[:, None, None] * p],
                      [-mass[:, None, None] * p, mass[:, None, None] * np.eye(3)]])
        spin = tilde(w)
        b = np.concatenate([np.einsum("kij,kjl,kl->ki", spin, I_O, w),
                            mass[:, None] * np.einsum("kij,kjl,kl->ki", spin, spin, centre - d)],
                           axis=1)
        armature = tuple(np.diag([float(x) for x in joint.armature])
                         for joint in mechanism.joints)
        return cls(mechanism.parents, frame + d, base, M, tuple(H), armature, w, a, b, gravity,
                   R, frame)

    def articulated(self, steps: Array) -> Articulated:
        """All joints eliminated; `steps` bring the twist of a parent to each body."""
        return Articulated.of(self.parents, self.M, self.H, self.armature, steps)


def expect_single_rates(mechanism: Mechanism, what: str) -> None:
    """Refuse joints of several rates, which the papers of DeNOC and [Koz95] have not."""
    for joint in mechanism.joints:
        if joint.type.nv != 1:
            raise ValueError(f"{what}: a {joint.type.name} joint has {joint.type.nv} rates, "
                             "expected joints of one rate, as in the papers")


def tilde(x: Array) -> Array:
    """x~, the matrix of the cross product, for an array (..., 3)."""
    zero = np.zeros_like(x[..., 0])
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    return np.stack([np.stack([zero, -c, b], -1), np.stack([c, zero, -a], -1),
                     np.stack([-b, a, zero], -1)], -2)


def shift(l: Array) -> Array:
    """phi = [1 l~; 0 1] (3.1), for an array (..., 3)."""
    phi = np.zeros((*l.shape[:-1], 6, 6), l.dtype)
    phi[...] = np.eye(6)
    phi[..., :3, 3:] = tilde(l)
    return phi


def _turned(R: Array, t: Twist) -> Array:
    return np.concatenate([R @ t.angular.components, R @ t.linear.components])


def _moved_acceleration(a: Array, w: Array, d: Array, parents: tuple[int, ...]) -> Array:
    """a(k) when O(k) moves by d(k): alpha shifts, and w x (w x d) appears at both ends."""
    centripetal = np.cross(w, np.cross(w, d))
    below = np.array([centripetal[p - 1] if p else np.zeros(3) for p in parents]).reshape(d.shape)
    linear = a[:, 3:] + np.cross(a[:, :3], d) + centripetal - below
    return np.concatenate([a[:, :3], linear], axis=1)
