"""The decoupled natural orthogonal complement: the objects of the three Saha papers.

Everything is numeric, for one state, in world axes and about mass centres, numbered from the
base as in [Saha99], [Saha03] and [Saha99b], with the corrections of the errata. The papers
treat chains; here i + 1 becomes "the children of i" and a sum over them, and what couples two
bodies on different branches is zero.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from nlink.model.mechanism import Mechanism
from nlink.papers.operators.blocks import (
    BlockDiagonal,
    Elementary,
    ParentStep,
    Propagation,
    descends,
)
from nlink.papers.operators.elimination import Articulated, composite
from nlink.papers.operators.inverse import block_inverse
from nlink.papers.operators.linear import Array, Operator, OperatorProduct
from nlink.papers.operators.origins import SpatialLinks, expect_single_rates, shift, tilde


class DeNOC:
    """The objects of the DeNOC papers for a mechanism in one state.

    Operators (`Nl`, `Nd`, `N`, `M`, `Mtilde`, `I`, `C`, `U`, `D`, ...) compose with `@`, are
    applied in O(n), and give their matrices by `.dense()` and their blocks by a call:
    `M(2)` is M_2, `Mtilde(2)` the composite mass of body 2. Everything else is a method of
    one or two body numbers, from 1: `B(i, j)`, `p(i)`, `psi(i)`, `alpha(i, j)`.

    An armature is a rotor that only its joint feels: it adds to i_ii and to mhat_i.

    >>> import nlink
    >>> o = nlink.load("planar3").operators([0.1, 0.2, 0.3], [1, 1, 1])
    >>> o
    <DeNOC of planar3: 3 bodies in a chain, t = N qd, N = Nl Nd is 18 x 3>
    >>> o.Nl
    Nl: 18 x 18, 3 x 3 blocks of 6 x 6; B_ij in row i, column j
      # . .
      # # .
      # # #
    >>> bool(np.allclose(o.t, o.Nl @ (o.Nd @ o.qd)))
    True
    """

    def __init__(self, mechanism: Mechanism, q: Array, qd: Array, name: str = "mechanism") -> None:
        expect_single_rates(mechanism, "operators")
        self.links = SpatialLinks.of(mechanism, q, qd, "centres")
        self.name = name
        self.q, self.qd = q, qd
        self.parents = self.links.parents
        self.n = len(self.parents)
        self.rotors = np.reshape(self.links.armature, self.n)
        self._p = np.reshape(self.links.H, (self.n, 6))
        self._descends = descends(self.parents)

    def __repr__(self) -> str:
        shape = "chain" if self.parents == tuple(range(self.n)) else "tree"
        return (f"<DeNOC of {self.name}: {self.n} bodies in a {shape}, "
                f"t = N qd, N = Nl Nd is {6 * self.n} x {self.n}>")

    def children(self, i: int) -> list[int]:
        """The bodies whose parent is i."""
        return [k for k, parent in enumerate(self.parents, 1) if parent == i]

    def p(self, i: int) -> Array:
        """p_i: [e; e x d] for a revolute joint, [0; e] for a prismatic one [Saha99, 13, 15]."""
        return self._p[self._index(i)]

    def B(self, i: int, j: int) -> Array:
        """B_ij: the twist of body j as body i has it when rigidly connected [Saha99, 13].

        Zero for bodies on different branches. `Nl` holds those with j = i or an ancestor of i.
        """
        if not self._related(i, j):
            return np.zeros((6, 6))
        c = self.links.origin
        return shift(c[i - 1] - c[j - 1]).T

    def Bdot(self, i: int, j: int) -> Array:
        """The rate of B_ij, [0 0; (v_j - v_i)~ 0]."""
        return _rate(self._v[j - 1] - self._v[i - 1]) * self._related(i, j)

    def _related(self, i: int, j: int) -> bool:
        """Whether one of two bodies carries the other."""
        i, j = self._index(i), self._index(j)
        return bool(self._descends[i, j] or self._descends[j, i])

    def _index(self, i: int) -> int:
        if not 1 <= i <= self.n:
            raise ValueError(f"body {i}: expected a number from 1 to {self.n}")
        return i - 1

    @cached_property
    def step(self) -> ParentStep:
        """One step outward, B_{i,parent(i)}: Nl = (1 - step)^-1."""
        steps = [self.B(i, parent) if parent else np.zeros((6, 6))
                 for i, parent in enumerate(self.parents, 1)]
        return ParentStep("step", np.reshape(steps, (self.n, 6, 6)), self.parents,
                          "B_{i,parent(i)}")

    @cached_property
    def Nl(self) -> Operator:
        """The lower block triangular part of the NOC [Saha99, 17]."""
        return Propagation("Nl", self.step, "B_ij in row i, column j")

    @cached_property
    def Nd(self) -> Operator:
        """The block diagonal part of the NOC [Saha99, 17]."""
        return BlockDiagonal("Nd", self._p[:, :, None], "diag(p_1, ..., p_n)")

    @cached_property
    def N(self) -> Operator:
        """The natural orthogonal complement: t = N qd, N = Nl Nd [Saha99, 16]."""
        return (self.Nl @ self.Nd).renamed("N")

    @cached_property
    def t(self) -> Array:
        """The generalized twist, 6n numbers [Saha99, 3]."""
        return self.N @ self.qd

    @property
    def _v(self) -> Array:
        return self.t.reshape(self.n, 6)[:, 3:]

    @cached_property
    def _spin(self) -> Array:
        return tilde(self.t.reshape(self.n, 6)[:, :3])

    @cached_property
    def Nldot(self) -> Operator:
        """The rate of Nl: Bdot_ij in row i, column j."""
        rates = [self.Bdot(i, parent) if parent else np.zeros((6, 6))
                 for i, parent in enumerate(self.parents, 1)]
        rate = ParentStep("stepdot", np.reshape(rates, (self.n, 6, 6)), self.parents,
                          "Bdot_{i,parent(i)}")
        return (self.Nl @ rate @ self.Nl).renamed("Nldot")

    @cached_property
    def Nddot(self) -> Operator:
        """The rate of Nd, Omega Nd [Saha99, 26]."""
        return (self.Omega @ self.Nd).renamed("Nddot")

    @cached_property
    def Ndot(self) -> Operator:
        """The rate of N."""
        return (self.Nldot @ self.Nd + self.Nl @ self.Nddot).renamed("Ndot")

    @cached_property
    def M(self) -> Operator:
        """Masses, M_i = diag(I_i, m_i 1) [Saha99, 2]."""
        return BlockDiagonal("M", self.links.M)

    @cached_property
    def Mdot(self) -> Operator:
        """Mdot_i = diag(w_i~ I_i, 0) [Saha99, 8]: not the rate of M_i, but Mdot t is exact."""
        turned = self._spin @ self.links.M[:, :3, :3]
        return BlockDiagonal("Mdot", _diagonal(turned, np.zeros_like(turned)))

    @cached_property
    def Omega(self) -> Operator:
        """Angular velocities, Omega_i = diag(w_i~, w_i~) [Saha99, 2]."""
        return BlockDiagonal("Omega", _diagonal(self._spin, self._spin))

    def tdot(self, qdd: Array) -> Array:
        """The rate of t, gravity included as an acceleration of the base [Saha99, 32]."""
        lift = np.tile(np.concatenate([np.zeros(3), -self.links.gravity]), self.n)
        return self.N @ qdd + self.Ndot @ self.qd + lift

    def w(self, qdd: Array) -> Array:
        """The generalized wrench that the motion needs, M tdot + Mdot t [Saha99, 9]."""
        return self.M @ self.tdot(qdd) + self.Mdot @ self.t

    def wtilde(self, qdd: Array) -> Array:
        """What the joints transmit, wtilde_i = w_i + sum B_ci^T wtilde_c [Saha99, 30]."""
        return self.Nl.T @ self.w(qdd)

    def tau(self, qdd: Array) -> Array:
        """Joint forces without friction, tau_i = p_i^T wtilde_i [Saha99, 30]."""
        return self.Nd.T @ self.wtilde(qdd) + self.rotors * qdd

    @cached_property
    def Mtilde(self) -> Operator:
        """Nl^T M Nl; on its diagonal the masses of composite bodies [Saha99, 21-23]."""
        return (self.Nl.T @ self.M @ self.Nl).renamed("Mtilde")

    @cached_property
    def Mdottilde(self) -> Operator:
        """Nl^T Mdot Nl [Saha99, 26-28]."""
        return (self.Nl.T @ self.Mdot @ self.Nl).renamed("Mdottilde")

    @cached_property
    def Mtilde_prime(self) -> Operator:
        """Nl^T M Nldot + Mtilde Omega + Mdottilde [Saha99, 25]."""
        terms = self.Nl.T @ self.M @ self.Nldot + self.Mtilde @ self.Omega + self.Mdottilde
        return terms.renamed("Mtilde'")

    @cached_property
    def armature(self) -> Operator:
        return BlockDiagonal("armature", self.links.armature)

    @cached_property
    def I(self) -> Operator:  # noqa: E743 - the papers' symbol
        """The generalized inertia matrix, Nd^T Mtilde Nd [Saha99, 21], and the armatures."""
        inertia = self.Nd.T @ self.Mtilde @ self.Nd
        return (inertia + self.armature if self.rotors.any() else inertia).renamed("I")

    @cached_property
    def C(self) -> Operator:
        """The matrix of convective inertia terms, Nd^T Mtilde' Nd [Saha99, 25]."""
        return (self.Nd.T @ self.Mtilde_prime @ self.Nd).renamed("C")

    @cached_property
    def _composite(self) -> Array:
        return composite(self.parents, self.links.M, self.step.steps)

    @cached_property
    def _turning(self) -> Array:
        """Mdottilde_i = Mdot_i + sum Mdottilde_c: B_ci leaves a moment of rotation alone."""
        total = [self.Mdot(i) for i in range(1, self.n + 1)]
        for i in reversed(range(self.n)):
            if self.parents[i]:
                total[self.parents[i] - 1] = total[self.parents[i] - 1] + total[i]
        return np.reshape(total, (self.n, 6, 6))

    @cached_property
    def _H(self) -> Array:
        """H_{i,parent(i)}, tip to base [Saha99, 28]."""
        H = np.zeros((self.n, 6, 6), self.t.dtype)
        for i in reversed(range(1, self.n + 1)):
            if self.parents[i - 1]:
                H[i - 1] = self.H(i, self.parents[i - 1], H)
        return H

    def H(self, i: int, j: int, known: Array | None = None) -> Array:
        """H_ij = Mtilde_i Bdot_ij + sum B_ci^T H_ci, for i beyond j [Saha99, 28]."""
        known = self._H if known is None else known
        if i == j or not self._descends[self._index(i), self._index(j)]:
            raise ValueError(f"H({i}, {j}): expected a body and one of its ancestors")
        carried = sum((self.B(c, i).T @ known[c - 1] for c in self.children(i)), np.zeros((6, 6)))
        return self._composite[i - 1] @ self.Bdot(i, j) + carried

    def i(self, i: int, j: int) -> Any:
        """i_ij = p_i^T Mtilde_i B_ij p_j for j <= i [Saha99, 24], and the armature if i = j."""
        i, j = max(i, j), min(i, j)
        element = self.p(i) @ self._composite[i - 1] @ self.B(i, j) @ self.p(j)
        return element + (self.rotors[i - 1] if i == j else 0.0)

    def c(self, i: int, j: int) -> Any:
        """c_ij [Saha99, 29], with B_ji^T in the first branch."""
        Omega, Mdottilde = self.Omega(j), self._turning
        if not self._related(i, j):
            return 0.0
        if i <= j:
            inner = self.B(j, i).T @ self._composite[j - 1] @ Omega + Mdottilde[j - 1]
            for child in self.children(j):
                inner = inner + self.B(child, i).T @ self._H[child - 1]
        else:
            inner = (self._composite[i - 1] @ self.B(i, j) @ Omega + self.H(i, j)
                     + Mdottilde[i - 1])
        return self.p(i) @ inner @ self.p(j)

    @cached_property
    def articulated(self) -> Articulated:
        """The elimination of all joints."""
        return self.links.articulated(self.step.steps)

    @property
    def _psi(self) -> Array:
        return np.reshape(self.articulated.G, (self.n, 6))

    def Mhat(self, i: int, k: int | None = None) -> Array:
        """Mhat_ik: body i and what it carries, joints k, ..., n eliminated [Saha99, 49-50].

        Mhat_i = Mhat_{i,i+1} is the mass of articulated body i, Mhat_ii what joint i passes on.
        """
        i = self._index(i) + 1
        if k is None:
            return self.articulated.P[i - 1].copy()
        if k <= i:
            return self.articulated.passed[i - 1].copy()
        return self.links.M[i - 1] + sum(
            (self.B(c, i).T @ self.Mhat(c, k) @ self.B(c, i) for c in self.children(i)),
            np.zeros((6, 6)))

    def mhat(self, i: int) -> Any:
        """The pivot: inertia of articulated body i about joint i [Saha99, 47]."""
        return self.articulated.D[self._index(i)].item()

    def psi_hat(self, i: int, k: int | None = None) -> Array:
        """psi_hat_i = Mhat_i p_i, psi_hat_ik = B_ki^T psi_hat_k [Saha99, 47]."""
        return self._propagated(np.einsum("kij,kj->ki", self.articulated.P, self._p), i, k)

    def psi(self, i: int, k: int | None = None) -> Array:
        """psi_i = psi_hat_i / mhat_i, psi_ik = B_ki^T psi_k [Saha99, 48]."""
        return self._propagated(self._psi, i, k)

    def _propagated(self, vectors: Array, i: int, k: int | None) -> Array:
        if k is None:
            return vectors[self._index(i)]
        if k < i:
            raise ValueError(f"({i}, {k}): expected a joint and one beyond it")
        return self.B(k, i).T @ vectors[self._index(k)]

    def alpha(self, i: int, j: int) -> Any:
        """alpha_ij = p_i^T psi_ij for i < j: element (i, j) of U [Saha99, 46]."""
        return self.p(i) @ self.psi(i, j)

    def E(self, k: int) -> Elementary:
        """E_k = 1 - alpha_k lambda_k^T clears column k above the pivot [Saha99, 41-44]."""
        alpha = np.zeros(self.n, self._psi.dtype)
        alpha[:k - 1] = [self.alpha(i, self._index(k) + 1) for i in range(1, k)]
        return Elementary(k, alpha)

    def L(self, k: int) -> Operator:
        """L_k = E_k ... E_n I; L_2 is lower triangular [Saha99, 45, 51]."""
        return OperatorProduct(*(self.E(j) for j in range(k, self.n + 1)), self.I).renamed(f"L_{k}")

    @cached_property
    def Psi(self) -> Operator:
        """Articulation transformations, Psi_i = 1 - psi_i p_i^T [Saha99b, 35]."""
        blocks = np.eye(6) - self._psi[:, :, None] * self._p[:, None, :]
        return BlockDiagonal("Psi", blocks)

    @cached_property
    def psi_d(self) -> Operator:
        """diag(psi_1, ..., psi_n), a twin of Nd."""
        return BlockDiagonal("psi_d", self.articulated.G, "diag(psi_1, ..., psi_n)")

    @cached_property
    def Nhat(self) -> Operator:
        """Nl with every joint on the way yielding: (1 - step Psi^T)^-1 [Saha99b, 41]."""
        step = ParentStep("step Psi^T", np.reshape(
            [self.step.steps[i] @ self.Psi(parent).T if parent else np.zeros((6, 6))
             for i, parent in enumerate(self.parents)], (self.n, 6, 6)), self.parents,
            "B_{i,parent} Psi_parent^T")
        return Propagation("Nhat", step, "(1 - step Psi^T)^-1")

    @cached_property
    def U(self) -> Operator:
        """alpha_ij above a diagonal of ones: I = U D U^T [Saha99, 53-55]."""
        return (1 + self.Nd.T @ self.step.T @ self.Nl.T @ self.psi_d).renamed("U")

    @cached_property
    def Uinv(self) -> Operator:
        """U^-1 = E_2 ... E_n, with -alpha'_ij above a diagonal of ones [Saha99b, 36-41]."""
        return (1 - self.Nd.T @ self.step.T @ self.Nhat.T @ self.psi_d).renamed("U^-1")

    @cached_property
    def D(self) -> Operator:
        """diag(mhat_1, ..., mhat_n) [Saha99, 54]."""
        return BlockDiagonal("D", self.articulated.D, "diag(mhat_1, ..., mhat_n)")

    @cached_property
    def Dinv(self) -> Operator:
        inverses = map(block_inverse, self.articulated.D)
        return BlockDiagonal("D^-1", inverses, "diag(1/mhat_1, ..., 1/mhat_n)")

    @cached_property
    def Iinv(self) -> Operator:
        """I^-1 = U^-T D^-1 U^-1 [Saha99b, 36]."""
        return (self.Uinv.T @ self.Dinv @ self.Uinv).renamed("I^-1")


def _rate(v: Array) -> Array:
    rate = np.zeros((6, 6), v.dtype)
    rate[3:, :3] = tilde(v)
    return rate


def _diagonal(upper: Array, lower: Array) -> Array:
    blocks = np.zeros((len(upper), 6, 6), np.result_type(upper, lower))
    blocks[:, :3, :3], blocks[:, 3:, 3:] = upper, lower
    return blocks
