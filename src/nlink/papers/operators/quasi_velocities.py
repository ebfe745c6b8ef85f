"""The diagonalized equations of motion as objects: [Koz95] in one state, with its errata.

Everything is numeric, in link axes and about the joints' origins, numbered from the base: where
the paper has block (k, k-1) of a lower triangular operator, here the row is the parent and the
column the child, and sums run over the children of a tree.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nlink.model.mechanism import Mechanism
from nlink.papers.operators.blocks import BlockDiagonal, ParentStep, Propagation, descends
from nlink.papers.operators.diagonal_state import DiagonalLinks, Filter, cross
from nlink.papers.operators.linear import Array, Identity, Named, Operator
from nlink.papers.operators.origins import tilde

TABLE_1 = ("E_Phi", "Phi", "H", "M", "D", "G", "tau_bar", "E_Psi")
"""The operators of the paper's Table 1, in its order."""


class Diagonal:
    """The objects of [Koz95] for a mechanism in one state.

    `m` is the factor M = m m^T, `l` its inverse, both applied in O(n) by `@` and dense by
    `.dense()`. nu = m^T qd has the kinetic energy 1/2 nu . nu; xi = D^-1/2 nu is its
    unnormalized companion. `nu`, `xi`, `C_nu` and `C_xi` are those of this state; the methods
    `to_nu`, `from_nu`, ... map any rates or forces.

    >>> import nlink
    >>> d = nlink.load("planar3").diagonal([0.1, 0.2, 0.3], [1, -1, 2])
    >>> d
    <Diagonal of planar3: 3 rates, M = m m^T, kinetic energy 1/2 nu . nu = 2.71>
    >>> d.m
    m: 3 x 3, 3 x 3 blocks of 1 x 1; (1 + H Phi K) D^1/2
      # # #
      . # #
      . . #
    >>> bool(np.allclose(d.from_nu(d.nu), [1, -1, 2]))
    True
    """

    def __init__(self, mechanism: Mechanism, q: Array, qd: Array, f_ext: Array | None = None,
                 name: str = "mechanism") -> None:
        self.links = DiagonalLinks.of(mechanism, q, qd, f_ext)
        self.filter = Filter.of(self.links)
        self.name, self.q, self.qd = name, q, qd
        self.parents, self.n = self.links.parents, len(self.links.parents)
        self._joints = mechanism.joints

    def __repr__(self) -> str:
        return (f"<Diagonal of {self.name}: {self.n} rates, M = m m^T, kinetic energy "
                f"1/2 nu . nu = {self.nu @ self.nu / 2:.3g}>")

    @cached_property
    def H(self) -> Operator:
        """The joint map: tau = H f."""
        return BlockDiagonal("H", self.links.S[:, None, :])

    @cached_property
    def M(self) -> Operator:
        """Spatial inertias of the links."""
        return BlockDiagonal("M", self.links.M)

    @cached_property
    def P(self) -> Operator:
        """Articulated inertias (12)."""
        return BlockDiagonal("P", self.filter.P)

    @cached_property
    def D(self) -> Operator:
        """H P H^* and the armatures: the inertia that each joint moves."""
        return self._scalars("D", self.filter.D)

    @cached_property
    def G(self) -> Operator:
        """P H^* D^-1."""
        return BlockDiagonal("G", self.filter.G[:, :, None])

    @cached_property
    def tau_bar(self) -> Operator:
        """1 - G H."""
        return BlockDiagonal("tau_bar", self.filter.tau_bar)

    @cached_property
    def E_Phi(self) -> Operator:
        """One step inward, Phi(k, k-1) A(k-1): a wrench on a link as its parent has it."""
        return self._outward.T.renamed("E_Phi")

    @cached_property
    def Phi(self) -> Operator:
        """(1 - E_Phi)^-1."""
        return Propagation("Phi^T", self._outward, "(1 - E_Phi)^-T").T.renamed("Phi")

    @cached_property
    def E_Psi(self) -> Operator:
        """E_Phi tau_bar: one step inward through a joint that yields."""
        return self._yielding.T.renamed("E_Psi")

    @cached_property
    def Psi(self) -> Operator:
        """(1 - E_Psi)^-1."""
        return Propagation("Psi^T", self._yielding, "(1 - E_Psi)^-T").T.renamed("Psi")

    @cached_property
    def K(self) -> Operator:
        """E_Phi G."""
        return (self.E_Phi @ self.G).renamed("K")

    @cached_property
    def U(self) -> Operator:
        """1 + H Phi K, the unit triangular factor of M = U D U^T (23)."""
        return (Identity((1,) * self.n) + self.H @ self.Phi @ self.K).renamed("U")

    @cached_property
    def U_inverse(self) -> Operator:
        """1 - H Psi K (24)."""
        return (Identity((1,) * self.n) - self.H @ self.Psi @ self.K).renamed("U^-1")

    @cached_property
    def m(self) -> Operator:
        """(1 + H Phi K) D^1/2: the mass matrix is m m^T (26)."""
        return Named("m", self.U @ self._scalars("D^1/2", self._root), "(1 + H Phi K) D^1/2")

    @cached_property
    def l(self) -> Operator:  # noqa: E743 the paper's name
        """m^-1 = D^-1/2 (1 - H Psi K) (25)."""
        return Named("l", self._scalars("D^-1/2", 1 / self._root) @ self.U_inverse,
                     "D^-1/2 (1 - H Psi K)")

    @cached_property
    def Omega(self) -> Operator:
        """diag(w~, w~) of each link (2)."""
        w = tilde(self.links.V[:, :3])
        blocks = np.zeros((self.n, 6, 6), w.dtype)
        blocks[:, :3, :3] = blocks[:, 3:, 3:] = w
        return BlockDiagonal("Omega", blocks)

    @cached_property
    def Omega_delta(self) -> Operator:
        """The twist across each joint as a cross product on wrenches (3-4, erratum applied)."""
        return BlockDiagonal("Omega_delta", self._turn)

    @cached_property
    def Vx(self) -> Operator:
        """V x of each link (33)."""
        return BlockDiagonal("Vx", cross(self.links.V))

    @cached_property
    def lambda_dot(self) -> Operator:
        """Pdot + [Omega_delta, P] (20): the rate of P seen from the parent link."""
        return BlockDiagonal("lambda_dot", self.filter.lambda_dot)

    @cached_property
    def P_dot(self) -> Operator:
        """The local rate of P (13-17)."""
        return BlockDiagonal("P_dot", self.filter.P_dot)

    @property
    def V(self) -> Array:
        """Spatial velocities of the links, 6n numbers."""
        return self.links.V.reshape(-1)

    @property
    def a(self) -> Array:
        """Bias accelerations, a = Omega_delta^* V, 6n numbers."""
        return self.Omega_delta.T @ self.V

    @property
    def b(self) -> Array:
        """Bias forces, (V x M) V less weight and external wrenches, 6n numbers."""
        return self.links.b.reshape(-1)

    def to_nu(self, qd: Array) -> Array:
        """nu = m^T qd (28)."""
        return self.m.T @ np.asarray(qd)

    def from_nu(self, nu: Array) -> Array:
        """qd = l^T nu (section 6)."""
        return self.l.T @ np.asarray(nu)

    def to_xi(self, qd: Array) -> Array:
        """xi = (1 + H Phi K)^* qd (34)."""
        return self.U.T @ np.asarray(qd)

    def from_xi(self, xi: Array) -> Array:
        """qd = (1 - H Psi K)^* xi."""
        return self.U_inverse.T @ np.asarray(xi)

    def to_eps(self, tau: Array) -> Array:
        """eps = l tau (41)."""
        return self.l @ np.asarray(tau)

    def from_eps(self, eps: Array) -> Array:
        """tau = m eps."""
        return self.m @ np.asarray(eps)

    def to_kappa(self, tau: Array) -> Array:
        """kappa = (1 - H Psi K) tau (44)."""
        return self.U_inverse @ np.asarray(tau)

    def from_kappa(self, kappa: Array) -> Array:
        """tau = (1 + H Phi K) kappa."""
        return self.U @ np.asarray(kappa)

    @cached_property
    def nu(self) -> Array:
        """The normalized quasi-velocities of this state."""
        return self.to_nu(self.qd)

    @cached_property
    def xi(self) -> Array:
        """The unnormalized quasi-velocities of this state."""
        return self.to_xi(self.qd)

    @cached_property
    def C_nu(self) -> Array:
        """C(q, nu), gravity and external wrenches included, by the recursion of section 4."""
        links, filter = self.links, self.filter
        y = np.zeros((self.n, 6), self.nu.dtype)
        C = np.zeros(self.n, self.nu.dtype)
        for k in reversed(range(self.n)):
            parent, V, lam = self.parents[k], links.V[k], filter.lambda_dot[k]
            X = self._turn[k] @ filter.P[k]
            y[k] += 2 * links.b[k] + (X.T - X) @ V
            if parent:
                step = filter.tau_bar[k].T @ links.X[k]
                y[k] -= lam @ step @ links.V[parent - 1]
                y[parent - 1] += step.T @ (y[k] + lam @ V)
            C[k] = links.S[k] @ y[k] / (2 * self._root[k])
        return C

    @cached_property
    def C_xi(self) -> Array:
        """C(q, xi), gravity and external wrenches included, by the recursion of section 4."""
        links, filter = self.links, self.filter
        y = np.zeros((self.n, 6), self.xi.dtype)
        C = np.zeros(self.n, self.xi.dtype)
        for k in reversed(range(self.n)):
            parent, S = self.parents[k], links.S[k]
            X = self._turn[k] @ filter.P[k]
            y[k] += filter.lambda_dot[k] @ S * self.xi[k] + links.b[k] - X @ links.V[k]
            C[k] = S @ y[k]
            if parent:
                y[parent - 1] += links.X[k].T @ filter.tau_bar[k] @ y[k]
        return C

    def c(self, k: int, i: int, *, normalized: bool = True) -> float:
        """c_ki of the matrix with C = c nu + D^-1/2 H Psi b (48), numbers from 1.

        DiagonalLinks beyond i are summed for k between i and the base; c_ik = -c_ki, and links on
        different branches do not couple. Unnormalized, the factors D^-1/2 drop and the
        diagonal is 1/2 Ddot with C = c xi + H Psi b.
        """
        return float(self._components(normalized)[k - 1, i - 1])

    def matrix(self, *, normalized: bool = True) -> Array:
        """All c_ki of (48), (n, n)."""
        return self._components(normalized).copy()

    def gyration(self, *, normalized: bool = True) -> Array:
        """D^-1/2 H Psi b: what weights, external wrenches and (V x M) V do, without (48)."""
        force = self.H @ (self.Psi @ self.b)
        return force / self._root if normalized else force

    def derivative(self, name: str, *, inertial: bool = False) -> Operator:
        """The rate of an operator of Table 1, in link axes or as seen from the base.

        An inertial rate is expressed in link axes too: Omega acts on every side that has
        six components (6, 10, 11).
        """
        if name not in TABLE_1:
            raise ValueError(f"derivative: {name!r}, expected one of {', '.join(TABLE_1)}")
        local, X = self._local[name], getattr(self, name)
        if not inertial or name == "D":
            return local
        if name == "Phi":
            return local + self.Phi @ (self.Omega @ self.E_Phi - self.E_Phi @ self.Omega) @ self.Phi
        left = self.Omega @ X if X.rows[0] == 6 else None
        right = -(X @ self.Omega) if X.columns[0] == 6 else None
        return sum((term for term in (left, right) if term is not None), local)

    @cached_property
    def _local(self) -> dict[str, Operator]:
        """The local rates of Table 1, errata applied."""
        Dinv = self._scalars("D^-1", 1 / self.filter.D)
        nothing = np.zeros((self.n, 6, 6))
        G_dot = self.tau_bar @ self.P_dot @ self.H.T @ Dinv
        return {
            "E_Phi": self.E_Phi @ self.Omega_delta,
            "Phi": self.Phi @ self.E_Phi @ self.Omega_delta @ self.Phi,
            "H": BlockDiagonal("0", nothing[:, :1, :]),
            "M": BlockDiagonal("0", nothing),
            "D": self.H @ self.P_dot @ self.H.T,
            "G": G_dot,
            "tau_bar": -(G_dot @ self.H),
            "E_Psi": self.E_Psi @ (self.Omega_delta @ self.tau_bar
                                   - self.P_dot @ self.H.T @ Dinv @ self.H),
        }

    @cached_property
    def m_dot(self) -> Operator:
        """The rate of m (29), the same in all axes.

        With armatures J, which the paper has not, m = H Phi P H^* D^-1/2 + J D^-1/2.
        """
        average = 0.5 * (Identity((6,) * self.n) + self.tau_bar)
        middle = self.Omega_delta @ self.Phi @ self.P + average @ self.P_dot
        inverse = self._scalars("D^-1/2", 1 / self._root)
        D_dot = np.einsum("ki,kij,kj->k", self.links.S, self.filter.P_dot, self.links.S)
        rotor = self._scalars("J D^-1/2", -self.links.armature * D_dot / (2 * self._root**3))
        return (self.H @ self.Phi @ middle @ self.H.T @ inverse + rotor).renamed("m_dot")

    def friction(self) -> Array:
        """The joint forces that friction takes in this state."""
        rates = zip(self._joints, self.qd.tolist(), strict=True)
        return np.array([loss for joint, x in rates for loss in joint.friction((x,))])

    def nud(self, tau: Array) -> Array:
        """nud = eps - C(q, nu) (40), friction taken from tau."""
        return self.to_eps(np.asarray(tau) - self.friction()) - self.C_nu

    def xid(self, tau: Array) -> Array:
        """xid = D^-1 (kappa - C(q, xi)) (44), friction taken from tau."""
        return (self.to_kappa(np.asarray(tau) - self.friction()) - self.C_xi) / self.filter.D

    def qdd(self, tau: Array) -> Array:
        """Joint accelerations, l^T (nud - mdot^T qd): the derivative of (28)."""
        return self.l.T @ (self.nud(tau) - self.m_dot.T @ self.qd)

    def tau(self, qdd: Array) -> Array:
        """Joint forces, m (nud + C) with nud = m^T qdd + mdot^T qd, and friction."""
        nud = self.m.T @ np.asarray(qdd) + self.m_dot.T @ self.qd
        return self.m @ (nud + self.C_nu) + self.friction()

    @cached_property
    def _root(self) -> Array:
        D = self.filter.D
        if not np.iscomplexobj(D) and (D <= 0).any():
            raise ValueError(f"{self.name}: D has an entry {D.min():.3g}, expected positive ones: "
                             "nu needs a positive definite mass matrix, xi does not")
        return np.sqrt(D)

    @cached_property
    def _turn(self) -> Array:
        return cross(self.links.S * self.qd[:, None])

    @cached_property
    def _outward(self) -> ParentStep:
        return ParentStep("E_Phi^T", self.links.X, self.parents, "the twist of the parent")

    @cached_property
    def _yielding(self) -> ParentStep:
        steps = np.swapaxes(self.filter.tau_bar, 1, 2) @ self.links.X
        return ParentStep("E_Psi^T", steps, self.parents, "tau_bar^T E_Phi^T")

    def _components(self, normalized: bool) -> Array:
        """(48), erratum applied: for k inboard of i,
        c_ki = sum over m beyond i of H Psi(k, m) P Omega_delta^*(m) Psi^*(i, m) H^*."""
        HPsi = (self.H @ self.Psi).dense().reshape(self.n, self.n, 6)
        middle = self.filter.P @ np.swapaxes(self._turn, 1, 2)
        full = np.einsum("kmi,mij,lmj->klm", HPsi, middle, HPsi)
        beyond = descends(self.parents).T  # [i, m]: m is i or beyond
        strictly = beyond & ~np.eye(self.n, dtype=bool)
        c = np.einsum("kim,im->ki", full, strictly.astype(float)) * strictly
        c = c - c.T
        if normalized:
            return c / np.outer(self._root, self._root)
        return c + self.derivative("D").dense() / 2

    def _scalars(self, name: str, values: Array) -> Operator:
        return BlockDiagonal(name, values[:, None, None], name)
