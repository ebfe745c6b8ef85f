"""The spatial operator algebra of [RK88] for a mechanism in one state.

The report numbers links from the tip, so that phi is lower triangular. Here, as everywhere in
nlink, bodies are numbered from the base and phi is upper triangular; `from_tip` gives matrices
and vectors in the report's order, and is the only place that knows it. On a tree "link k - 1"
becomes "the children of k", and nothing else changes. Joints may have several rates: H(k) has
a row for each, D(k) is a block.

All axes are the world's. The reference point O(k) of body k lies on its joint, as in the
report, or at its mass centre, as in the Saha papers; phi is then Nl^T, and H is Nd^T.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.model.mechanism import Attachment, Mechanism
from nlink.papers.operators.blocks import BlockDiagonal, ParentStep, Placed, Propagation
from nlink.papers.operators.elimination import Articulated
from nlink.papers.operators.linear import Array, Named, Operator
from nlink.papers.operators.origins import Points, SpatialLinks, shift


class SpatialOperators:
    """phi, Phi, psi, Psi, H, M, P, D, G, L, S, B, E, Delta_phi, Delta_psi, as operators.

    They compose as the report writes them, with the number 1 for the identity, and run as
    the sweeps they denote:

    >>> import nlink
    >>> o = nlink.load("planar3").operators([0.1, 0.2, 0.3]).spatial
    >>> H, Psi, L, D = o.H, o.Psi, o.L, o.D
    >>> inverse = (1 - H @ Psi @ L).T @ D.inv @ (1 - H @ Psi @ L)
    >>> bool(np.allclose(inverse.dense() @ o.mass.dense(), np.eye(3)))
    True
    >>> inverse.explain()
    (1 - H Psi L)^T D^-1 (1 - H Psi L): 2 sweeps
      1. inward    D^-1 (1 - H Psi L)
      2. outward   (1 - H Psi L)^T

    Armatures, which the report has not, add to D and to the mass operator; (a.47) holds
    without them only.
    """

    def __init__(self, mechanism: Mechanism, q: Array, qd: Array, name: str = "mechanism",
                 points: Points = "joints") -> None:
        self.mechanism, self.name, self.points = mechanism, name, points
        self.q, self.qd = q, qd
        self.links = SpatialLinks.of(mechanism, q, qd, points)
        self.parents = self.links.parents
        self.n = len(self.parents)

    def __repr__(self) -> str:
        where = "on the joints" if self.points == "joints" else "at the mass centres"
        rates = sum(len(H) for H in self.links.H)
        return (f"<SpatialOperators of {self.name}: {self.n} bodies, {rates} rates, "
                f"reference points {where}>")

    @property
    def spatial(self) -> SpatialOperators:
        return self

    @cached_property
    def I(self) -> Operator:  # noqa: E743 - the papers' symbol
        """The generalized inertia matrix, as of chains of one rate a joint; an identity of any
        size is the number 1."""
        return self.mass.renamed("I")

    def from_tip(self, x: Any) -> Array:
        """An operator's matrix, or a stacked vector, in the report's order: tip first."""
        if not isinstance(x, Operator):
            x = np.asarray(x)
            sizes = next((s for s in ((6,) * self.n, self._rates) if sum(s) == len(x)), None)
            if sizes is None:
                raise ValueError(f"x: shape {x.shape}, expected {6 * self.n} numbers (6 a body) or "
                                 f"{sum(self._rates)} (the rates)")
            return x[_backwards(sizes)]
        return x.dense()[np.ix_(_backwards(x.rows), _backwards(x.columns))]

    @property
    def _rates(self) -> tuple[int, ...]:
        return tuple(len(H) for H in self.links.H)

    @cached_property
    def Delta_phi(self) -> BlockDiagonal:
        """diag[phi(2, 1), ..., phi(N+1, N)]: from each body to its parent (a.4)."""
        o = self.links.origin
        below = [o[p - 1] if p else self.links.base for p in self.parents]
        return BlockDiagonal("Delta_phi", shift(o - np.reshape(below, o.shape)),
                             "phi(parent of k, k) on the diagonal")

    @cached_property
    def Delta_psi(self) -> BlockDiagonal:
        """diag[psi(2, 1), ..., psi(N+1, N)], psi = phi - L H (4.7), (a.5)."""
        blocks = (phi - L @ H for phi, L, H in zip(
            self.Delta_phi.blocks, self.L.blocks, self.H.blocks, strict=True))
        return BlockDiagonal("Delta_psi", blocks, "psi(parent of k, k) on the diagonal")

    def _steps(self, delta: BlockDiagonal) -> Array:
        return np.reshape([block.T for block in delta.blocks], (self.n, 6, 6))

    def _propagation(self, name: str, delta: BlockDiagonal) -> Operator:
        """(I - S Delta)^-1: what is at a body and all beyond it, brought to it."""
        step = ParentStep(f"{name} step^T", self._steps(delta), self.parents,
                          f"{name}^T(parent of k, k)")
        outward = Propagation(f"{name}^T", step, f"{name}^T(i, j)")
        return Named(name, outward.T, f"{name}(i, j) for j beyond i, 1 for j = i")

    @cached_property
    def phi(self) -> Operator:
        """phi(i, j) for every body j beyond i, the identity on the diagonal (3.4)."""
        return self._propagation("phi", self.Delta_phi)

    @cached_property
    def psi(self) -> Operator:
        """phi with every joint on the way yielding (5.1)."""
        return self._propagation("psi", self.Delta_psi)

    @cached_property
    def S(self) -> Operator:
        """What the children have, at their parent (5.2)."""
        ones = np.tile(np.eye(6), (self.n, 1, 1))
        return Named("S", ParentStep("S^T", ones, self.parents, "").T, "1 at (parent of k, k)")

    @cached_property
    def Phi(self) -> Operator:
        """phi S: strictly triangular, from the bodies beyond (4.9), (a.6)."""
        return Named("Phi", self.phi @ self.S, "phi S")

    @cached_property
    def Psi(self) -> Operator:
        """psi S (4.10), (a.7)."""
        return Named("Psi", self.psi @ self.S, "psi S")

    @cached_property
    def phi_tilde(self) -> Operator:
        """phi - I (a.3)."""
        return (self.phi - 1).renamed("phi~")

    @cached_property
    def psi_tilde(self) -> Operator:
        """psi - I (5.11)."""
        return (self.psi - 1).renamed("psi~")

    @cached_property
    def H(self) -> BlockDiagonal:
        """Joint axes: V = phi^T H^T theta' (2.16), (3.5)."""
        return BlockDiagonal("H", self.links.H)

    @cached_property
    def M(self) -> BlockDiagonal:
        """Spatial inertias about O(k) (2.15), (3.6)."""
        return BlockDiagonal("M", self.links.M)

    @cached_property
    def armature(self) -> BlockDiagonal:
        return BlockDiagonal("armature", self.links.armature)

    @cached_property
    def _articulated(self) -> Articulated:
        return self.links.articulated(self._steps(self.Delta_phi))

    @cached_property
    def P(self) -> BlockDiagonal:
        """Articulated inertias (4.5)."""
        return BlockDiagonal("P", self._articulated.P)

    @cached_property
    def D(self) -> BlockDiagonal:
        """H P H^T, and the armatures (4.6), (a.1)."""
        return BlockDiagonal("D", self._articulated.D)

    @cached_property
    def G(self) -> BlockDiagonal:
        """P H^T D^-1, the Kalman gain (5.12)."""
        return BlockDiagonal("G", self._articulated.G)

    @cached_property
    def L(self) -> BlockDiagonal:
        """Delta_phi G, the gain at the parent (4.6), (a.12)."""
        return self.Delta_phi.times(self.G).renamed("L")

    @property
    def K(self) -> BlockDiagonal:
        """L by its later name [Koz95]."""
        return self.L

    @cached_property
    def E(self) -> Operator:
        """Where the base's acceleration enters: phi^T(N+1, N) at the bodies on the base (3.8)."""
        blocks = {k: self.Delta_phi(k).T for k, parent in enumerate(self.parents, 1) if not parent}
        return Placed("E", blocks, (6,) * self.n, "phi^T(base, k) at the bodies on the base")

    @cached_property
    def B(self) -> Operator:
        """The last link's frame as the tip: phi(1, 0) (3.7)."""
        return self.tip(self.mechanism.links[-1])

    def tip(self, frame: Attachment) -> Operator:
        """B for a frame of any body: where an outside force enters."""
        k = frame.body
        blocks = {} if not k else {k: shift(self.point(frame) - self.links.origin[k - 1])}
        return Placed("B", blocks, (6,) * self.n, f"phi({k or 'base'}, tip)")

    def point(self, frame: Attachment) -> Array:
        """The origin of a moving frame, world axes."""
        body = frame.body - 1
        return self.links.frame[body] + self.links.rotation[body] @ frame.p.components

    def a_tip(self, frame: Attachment | None = None) -> Array:
        """a(0) = (0, w x (w x l(1, 0))) of the tip (2.7)."""
        frame = self.mechanism.links[-1] if frame is None else frame
        if not frame.body:
            return np.zeros(6)
        w = self.links.w[frame.body - 1]
        arm = self.point(frame) - self.links.origin[frame.body - 1]
        return np.concatenate([np.zeros(3), np.cross(w, np.cross(w, arm))])

    @cached_property
    def J(self) -> Operator:
        """The tip's Jacobian, B^T phi^T H^T (3.13)."""
        return (self.B.T @ self.phi.T @ self.H.T).renamed("J")

    @cached_property
    def mass(self) -> Operator:
        """The mass operator H phi M phi^T H^T (3.20), and the armatures."""
        rigid = self.H @ self.phi @ self.M @ self.phi.T @ self.H.T
        rotors = any(block.any() for block in self.links.armature)
        return (rigid + self.armature if rotors else rigid).renamed("mass")

    @cached_property
    def mass_inverse(self) -> Operator:
        """(I - H Psi L)^T D^-1 (I - H Psi L): Theorem 4.1."""
        whitening = 1 - self.H @ self.Psi @ self.L
        return (whitening.T @ self.D.inv @ whitening).renamed("mass^-1")

    @cached_property
    def V(self) -> Array:
        """Spatial velocities, phi^T H^T theta' (3.12)."""
        return self.phi.T @ (self.H.T @ self.qd)

    @property
    def a(self) -> Array:
        """Bias accelerations (2.19), (2.32 with the factor 2 of the errata), without gravity."""
        return self.links.a.reshape(-1)

    @property
    def b(self) -> Array:
        """Bias forces (2.23)."""
        return self.links.b.reshape(-1)

    @property
    def g(self) -> Array:
        """What the base must accelerate by to stand for gravity: a -> a + E g (3.21)."""
        return np.concatenate([np.zeros(3), -self.links.gravity])

    @property
    def a_g(self) -> Array:
        """a + E g."""
        return self.a + self.E @ self.g

    def alpha(self, qdd: ArrayLike) -> Array:
        """Spatial accelerations, phi^T (H^T theta'' + a), true ones (3.15)."""
        return self.phi.T @ (self.H.T @ np.asarray(qdd, dtype=float) + self.a)

    @cached_property
    def C(self) -> Array:
        """Velocity and gravity forces, H phi [M phi^T (a + E g) + b] (3.20), (3.21)."""
        return self.H @ (self.phi @ (self.M @ (self.phi.T @ self.a_g) + self.b))

    @cached_property
    def Omega(self) -> BlockDiagonal:
        """Om(k) = psi^T Om psi + H^T D^-1 H, base to tip: mobilities of the bodies."""
        Om: list[Array] = []
        inverse = self.D.inv
        for k, parent in enumerate(self.parents):
            H, psi = self.H.blocks[k], self.Delta_psi.blocks[k]
            before = Om[parent - 1] if parent else np.zeros((6, 6))
            Om.append(psi.T @ before @ psi + H.T @ inverse(k + 1) @ H)
        return BlockDiagonal("Omega", Om)

    def beyond(self, i: int, j: int) -> bool:
        """Whether body j is i or hangs from it, so that phi(i, j) is in phi."""
        return bool(self.phi.pattern[i - 1, j - 1])


def _backwards(sizes: tuple[int, ...]) -> Array:
    """Indices that reverse the blocks of a stack but not what is in them."""
    ends = np.cumsum(sizes)
    parts = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    return np.concatenate(parts[::-1]) if parts else np.zeros(0, dtype=int)
