"""A mechanism in one state as the Saha papers see it: world axes, reference points at the
mass centres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlink.algorithms.kinematics import forward_kinematics
from nlink.algorithms.sweep import Unrolled
from nlink.model.mechanism import Mechanism
from nlink.papers.operators.linear import Array
from nlink.spatial import Matrix, Symmetric, Vector


@dataclass(frozen=True, eq=False)
class Bodies:
    """What the operators are made of, one row for each moving body."""

    parents: tuple[int, ...]
    centre: Array
    """(n, 3): mass centres."""
    mass: Array
    """(n, 6, 6): M_i = diag(I_i, m_i 1) about the mass centre [Saha99, 2]."""
    p: Array
    """(n, 6): the twist of body i at its mass centre for a unit of joint rate [Saha99, 13]."""
    armature: Array
    """(n,): what joint i's own rotor adds to its articulated inertia; 0 in the papers."""
    gravity: Array
    """(3,), world axes."""

    @classmethod
    def of(cls, mechanism: Mechanism, q: Array) -> Bodies:
        """The mechanism at q; the mass centre of a body without mass is its frame's origin."""
        driver = Unrolled(mechanism)
        columns = mechanism.split(q.tolist(), "nq")
        places = forward_kinematics(driver, columns, mechanism.base.p)
        centre, mass, p = [], [], []
        for joint, place, x in zip(mechanism.joints, places, columns, strict=True):
            if joint.type.nv != 1:
                raise ValueError(f"operators: a {joint.type.name} joint has {joint.type.nv} rates, "
                                 "expected joints of one rate, as in the papers")
            R, I = _matrix(place.R), joint.inertia
            c = I.h * (1 / I.m) if I.m else Vector.zero()
            about = R @ _matrix(I.shift(-c).J) @ R.T
            mass.append(np.block([[about, np.zeros((3, 3))],
                                  [np.zeros((3, 3)), I.m * np.eye(3)]]))
            d = R @ _vector(c)
            centre.append(_vector(place.p) + d)
            (s,) = joint.subspace(x)
            e = R @ _vector(s.angular)
            p.append(np.concatenate([e, R @ _vector(s.linear) + np.cross(e, d)]))
        n = len(places)
        rotors = [extra for joint in mechanism.joints for extra in joint.armature]
        return cls(mechanism.parents, np.reshape(centre, (n, 3)), np.reshape(mass, (n, 6, 6)),
                   np.reshape(p, (n, 6)), np.array(rotors),
                   _matrix(mechanism.base.R) @ _vector(mechanism.gravity))


def tilde(x: Array) -> Array:
    """x~, the matrix of the cross product, for an array (..., 3)."""
    zero = np.zeros_like(x[..., 0])
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    return np.stack([np.stack([zero, -c, b], -1), np.stack([c, zero, -a], -1),
                     np.stack([-b, a, zero], -1)], -2)


def propagation(c: Array) -> Array:
    """B = [1 0; c~ 1], the twist propagation matrix [Saha99, 13], for an array (..., 3)."""
    B = np.zeros((*c.shape[:-1], 6, 6), c.dtype)
    B[...] = np.eye(6)
    B[..., 3:, :3] = tilde(c)
    return B


def _vector(v: Vector) -> Array:
    return np.array(v.components)


def _matrix(m: Matrix | Symmetric) -> Array:
    return np.array(m.rows)
