"""A mechanism in one state as [Koz95] sees it: link axes, reference points on the joints.

Arrays have one entry for each moving body, numbered from the base (the paper numbers from the
tip). Any of them may be complex, for derivatives by the complex step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nlink.algorithms.kinematics import body_wrenches, forward_kinematics
from nlink.algorithms.sweep import Unrolled
from nlink.model.mechanism import Mechanism
from nlink.papers.operators.elimination import Articulated
from nlink.papers.operators.linear import Array
from nlink.papers.operators.origins import expect_single_rates, tilde
from nlink.spatial import RigidInertia, Transform, Twist


@dataclass(frozen=True, eq=False)
class DiagonalLinks:
    """The quantities that the operators of [Koz95] are made of."""

    parents: tuple[int, ...]
    X: Array
    """(n, 6, 6): A^-1 Phi^* of the paper, the twist of a link were it fixed in its parent."""
    S: Array
    """(n, 6): H^*, the joint map."""
    M: Array
    """(n, 6, 6): spatial inertia about the joint's origin, link axes."""
    R: Array
    """(n, 3, 3): link axes in the world."""
    gravity: Array
    """(n, 3): in link axes."""
    armature: Array
    """(n,): what a joint's rotor adds to D; 0 in the paper."""
    f_ext: Array
    """(n, 6): external wrench on each link about its origin, link axes."""
    qd: Array

    @classmethod
    def of(cls, mechanism: Mechanism, q: Array, qd: Array, f_ext: Array | None = None,
           ) -> DiagonalLinks:
        """The mechanism at q; `f_ext` are wrenches on the author's links, world axes."""
        driver, columns = Unrolled(mechanism), mechanism.split(q.tolist(), "nq")
        expect_single_rates(mechanism, "diagonal")
        places = forward_kinematics(driver, columns)
        wrenches = body_wrenches(driver, columns, mechanism.links,
                                 None if f_ext is None else f_ext.tolist())
        R = np.array([place.R.rows for place in places]).reshape(-1, 3, 3)
        base = np.array(mechanism.base.R.rows, dtype=float)
        g = base @ np.array(mechanism.gravity.components, dtype=float)
        pairs = list(zip(mechanism.joints, columns, strict=True))
        return cls(
            mechanism.parents,
            _stack([_motion(joint.transform(x)) for joint, x in pairs], (6, 6)),
            _stack([joint.subspace(x)[0].components for joint, x in pairs], (6,)),
            _stack([_inertia(joint.inertia) for joint in mechanism.joints], (6, 6)),
            R, np.einsum("kji,j->ki", R, g),
            np.array([a for joint in mechanism.joints for a in joint.armature], dtype=float),
            _stack([f.components for f in wrenches], (6,)), qd)

    @cached_property
    def V(self) -> Array:
        """Spatial velocities, base to tip."""
        V = np.zeros((len(self.parents), 6), np.result_type(self.X, self.qd))
        for i, parent in enumerate(self.parents):
            V[i] = self.S[i] * self.qd[i]
            if parent:
                V[i] += self.X[i] @ V[parent - 1]
        return V

    @cached_property
    def b(self) -> Array:
        """(V x M) V less weight and external wrench: b(k) with F_e = m g, erratum applied."""
        weight = np.einsum("kij,kj->ki", self.M[:, :, 3:], self.gravity)
        momentum = np.einsum("kij,kj->ki", self.M, self.V)
        return np.einsum("kij,kj->ki", cross(self.V), momentum) - weight - self.f_ext


@dataclass(frozen=True, eq=False)
class Filter:
    """The articulated quantities and their local rates, tip to base: (12), (13), (21)."""

    P: Array
    D: Array
    G: Array
    tau_bar: Array
    """(n, 6, 6): 1 - G H."""
    P_dot: Array
    lambda_dot: Array
    """(n, 6, 6): Pdot + Omega_delta P + P Omega_delta^* (20), the commutator by the errata."""

    @classmethod
    def of(cls, links: DiagonalLinks) -> Filter:
        n = len(links.parents)
        S = links.S[:, None, :]
        known = Articulated.of(links.parents, links.M, S, links.armature[:, None, None], links.X)
        P, G = known.P, np.reshape(known.G, (n, 6, 1))
        tau_bar = np.eye(6) - G @ S
        turned = cross(links.S * links.qd[:, None]) @ P
        P_dot = np.zeros_like(turned)
        lambda_dot = turned + np.swapaxes(turned, 1, 2)
        for i in reversed(range(n)):
            parent = links.parents[i]
            lambda_dot[i] += P_dot[i]
            if parent:
                Psi = links.X[i].T @ tau_bar[i]
                P_dot[parent - 1] += Psi @ lambda_dot[i] @ Psi.T
        return cls(P, np.reshape(known.D, n), G[:, :, 0], tau_bar, P_dot, lambda_dot)


def cross(V: Array) -> Array:
    """V x of (33), [w~ v~; 0 w~], for an array (..., 6): a twist on a wrench.

    Of a joint's own twist this is Omega_delta, for prismatic joints too (erratum to (4)).
    """
    result = np.zeros((*V.shape[:-1], 6, 6), V.dtype)
    result[..., :3, :3] = result[..., 3:, 3:] = tilde(V[..., :3])
    result[..., :3, 3:] = tilde(V[..., 3:])
    return result


def _motion(X: Transform) -> Array:
    units = map(Twist.of, np.eye(6).tolist())
    return np.array([X.twist_to_child(unit).components for unit in units]).T


def _inertia(I: RigidInertia) -> Array:
    J, h = np.array(I.J.rows, dtype=float), tilde(np.array(I.h.components, dtype=float))
    return np.block([[J, h], [-h, I.m * np.eye(3)]])


def _stack(rows: list, shape: tuple[int, ...]) -> Array:
    return np.array(rows).reshape(len(rows), *shape)
