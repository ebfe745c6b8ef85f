"""Equations of [RK88] and [Koz95] as data: how they are set, and their two sides in a state.

The left side of an equation is computed from the papers' operators, the right one apart from
them where that is possible: by the robot's own algorithms, or by a complex step along the motion.
Forms that the papers print and that do not hold are `MISPRINTS`, each beside the form that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nlink.papers.operators.diagonal_state import cross
from nlink.papers.operators.linear import Operator
from nlink.papers.operators.origins import tilde
from nlink.papers.operators.quasi_velocities import Diagonal
from nlink.papers.operators.spatial import SpatialOperators
from nlink.robot import Robot

STEP = 1e-40
"""The size of complex steps, whose error is its square."""
I = 1


@dataclass(frozen=True)
class MovingState:
    """A robot in motion, as the papers' operators see it."""

    robot: Robot
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray

    @classmethod
    def random(cls, robot: Robot, seed: int) -> MovingState:
        q, qd = robot.random_state(seed)
        return cls(robot, q, qd, np.random.default_rng(seed).normal(size=robot.n))

    @cached_property
    def o(self) -> SpatialOperators:
        return self.robot.operators(self.q, self.qd).spatial

    @cached_property
    def d(self) -> Diagonal:
        return self.robot.diagonal(self.q, self.qd)

    @cached_property
    def M(self) -> np.ndarray:
        return self.robot.mass_matrix(self.q)

    @cached_property
    def qdd(self) -> np.ndarray:
        return self.robot.forward_dynamics(self.q, self.qd, self.tau)

    @cached_property
    def whiten(self) -> Operator:
        """I - H Psi L."""
        return I - self.o.H @ self.o.Psi @ self.o.L

    @cached_property
    def colour(self) -> Operator:
        """I + H Phi L."""
        return I + self.o.H @ self.o.Phi @ self.o.L

    @cached_property
    def unbiased(self) -> np.ndarray:
        """T' = T - C."""
        return self.tau - self.o.C

    def rate(self, what: Callable[[Diagonal], Any]) -> np.ndarray:
        """The time derivative of a function of `Diagonal`, by a complex step along the motion."""
        later = Diagonal(self.robot.mechanism, self.q + 1j * STEP * self.qd,
                         self.qd + 1j * STEP * self.qdd)
        return np.imag(_dense(what(later))) / STEP


Sides = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation of a paper: its number, how it is set (LaTeX), and its sides in a state."""

    paper: str
    number: str
    tex: str
    sides: Callable[[MovingState], Sides]
    about: str = ""

    def residual(self, states: Iterable[MovingState]) -> float:
        """The largest difference of the sides, relative to their largest element."""
        return max(relative(*self.sides(state)) for state in states)


@dataclass(frozen=True, slots=True)
class Misprint:
    """A form that does not hold, and the one that does."""

    printed: Equation
    corrected: Equation
    why: str


def relative(left: Any, right: Any) -> float:
    """The largest difference of two arrays, relative to their largest element.

    >>> relative([1.0, 2.0], [1.0, 2.5])
    0.2
    """
    a, b = _dense(left), _dense(right)
    size = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0))
    return float(np.abs(a - b).max(initial=0.0) / size) if size else 0.0


def _dense(x: Any) -> np.ndarray:
    return x.dense() if isinstance(x, Operator) else np.asarray(x)


def _rk88(number: str, tex: str, sides: Callable[[MovingState], Sides], about: str = "",
          ) -> Equation:
    return Equation("[RK88]", number, tex, sides, about)


def _koz95(number: str, tex: str, sides: Callable[[MovingState], Sides], about: str = "",
           ) -> Equation:
    return Equation("[Koz95]", number, tex, sides, about)


def _tip_drift(s: MovingState, a: np.ndarray) -> np.ndarray:
    return s.o.B.T @ (s.o.phi.T @ a) + s.o.a_tip()


def _slides(s: MovingState) -> np.ndarray:
    """w x h theta' of the slides, stacked: what (2.32) has once and the motion twice."""
    parts = np.zeros((s.o.n, 6))
    for k, (H, joint, rate) in enumerate(zip(s.o.H.blocks, s.robot.mechanism.joints, s.qd,
                                             strict=True)):
        if joint.type.name == "prismatic":
            parts[k, 3:] = np.cross(s.o.links.w[k], H[0, 3:] * rate)
    return parts.reshape(-1)


RK88_IDENTITIES = (
    _rk88("3.13", r"J = B^T \phi^T H^T", lambda s: (s.o.J, s.robot.jacobian(s.q)),
          "the Jacobian of the tip"),
    _rk88("section 3", r"\dot J \dot\theta = B^T \phi^T a + a(0)",
          lambda s: (_tip_drift(s, s.o.a), s.robot.jacobian_dot_qd(s.q, s.qd)),
          "the tip's acceleration at constant rates"),
    _rk88("3.20", r"\mathcal{M} = H \phi M \phi^T H^T",
          lambda s: (s.o.H @ s.o.phi @ s.o.M @ s.o.phi.T @ s.o.H.T, s.M), "the mass operator"),
    _rk88("3.20, 3.21", r"C = H \phi [M \phi^T (a + E g) + b]",
          lambda s: (s.o.C, s.robot.bias(s.q, s.qd)), "velocity forces and gravity"),
    _rk88("Fact 4.1", r"\mathcal{M} = (I + H \Phi L) D (I + H \Phi L)^T",
          lambda s: (s.colour @ s.o.D @ s.colour.T, s.M), "the innovations factor"),
    _rk88("Fact 4.2", r"(I + H \Phi L)^{-1} = I - H \Psi L",
          lambda s: (s.whiten, np.linalg.inv(s.colour.dense())), "the Kalman filter"),
    _rk88("Theorem 4.1", r"\mathcal{M}^{-1} = (I - H \Psi L)^T D^{-1} (I - H \Psi L)",
          lambda s: (s.whiten.T @ s.o.D.inv @ s.whiten @ s.M, np.eye(s.robot.n)), "the inverse"),
    _rk88("Identity 5.1", r"(I - H \Psi L) H \phi = H \psi",
          lambda s: (s.whiten @ s.o.H @ s.o.phi, s.o.H @ s.o.psi)),
    _rk88("a.14", r"\phi = \psi (I + S L H \phi)",
          lambda s: (s.o.psi @ (I + s.o.S @ s.o.L @ s.o.H @ s.o.phi), s.o.phi), "Identities A.2"),
    _rk88("a.28", r"\phi - \psi = \phi S L H \psi",
          lambda s: (s.o.phi @ s.o.S @ s.o.L @ s.o.H @ s.o.psi, s.o.phi - s.o.psi),
          "Identities A.3"),
    _rk88("a.39", r"\Phi L = \Psi L (I + H \Phi L)",
          lambda s: (s.o.Psi @ s.o.L @ s.colour, s.o.Phi @ s.o.L), "Identities A.4"),
    _rk88("a.46", r"\psi M \phi^T = P + \tilde\psi P + P \tilde\phi^T",
          lambda s: (s.o.psi @ s.o.M @ s.o.phi.T,
                     s.o.P + s.o.psi_tilde @ s.o.P + s.o.P @ s.o.phi_tilde.T), "Identities A.5"),
    _rk88("a.48", r"\phi M \phi^T = P + \tilde\phi P + P \tilde\phi^T"
                  r" + \tilde\phi P H^T D^{-1} H P \tilde\phi^T",
          lambda s: (s.o.phi @ s.o.M @ s.o.phi.T,
                     s.o.P + s.o.phi_tilde @ s.o.P + s.o.P @ s.o.phi_tilde.T
                     + s.o.phi_tilde @ s.o.P @ s.o.H.T @ s.o.D.inv @ s.o.H @ s.o.P
                     @ s.o.phi_tilde.T), "Identity A.6"),
)

FD_FORMS = (
    _rk88("FD1", r"\ddot\theta = (I - H \Psi L)^T D^{-1} (I - H \Psi L) T'",
          lambda s: (s.whiten.T @ s.o.D.inv @ s.whiten @ s.unbiased, s.qdd)),
    _rk88("FD2", r"\alpha = \psi^T H^T D^{-1} (I - H \Psi L) T' + \phi^T (a + E g)",
          lambda s: (s.o.psi.T @ s.o.H.T @ s.o.D.inv @ s.whiten @ s.unbiased
                     + s.o.phi.T @ s.o.a_g, s.o.phi.T @ (s.o.H.T @ s.qdd + s.o.a_g))),
    _rk88("FD3", r"\ddot\theta = (I - H \Psi L)^T D^{-1}"
                 r" (T - H \psi [S L T + M \phi^T (a + E g) + b])",
          lambda s: (s.whiten.T @ s.o.D.inv @ (s.tau - s.o.H @ (s.o.psi @ (
              s.o.S @ (s.o.L @ s.tau) + s.o.M @ (s.o.phi.T @ s.o.a_g) + s.o.b))), s.qdd)),
    _rk88("FD4", r"\ddot\theta = (I - H \Psi L)^T \nu"
                 r" - [L^T \Psi^T (I - G H)^T + G^T] (a + E g)",
          lambda s: (s.whiten.T @ (s.o.D.inv @ (
              s.whiten @ s.tau - s.o.H @ (s.o.psi_tilde @ s.o.P @ s.o.a_g + s.o.psi @ s.o.b)))
              - s.o.L.T @ s.o.Psi.T @ (I - s.o.G @ s.o.H).T @ s.o.a_g - s.o.G.T @ s.o.a_g, s.qdd)),
)
"""The four forms of forward dynamics, T' being T - C and nu the output of the filter of FD4."""

KOZ95_EQUATIONS = (
    _koz95("22, 23", r"M = (1 + H \Phi K) D (1 + H \Phi K)^*",
           lambda s: (s.d.U @ s.d.D @ s.d.U.T, s.M), "the factors of the mass matrix"),
    _koz95("25", r"(1 + H \Phi K)^{-1} = 1 - H \Psi K",
           lambda s: (s.d.U_inverse, np.linalg.inv(s.d.U.dense()))),
    _koz95("26", r"M = m m^*, \quad m = (1 + H \Phi K) D^{1/2}",
           lambda s: (s.d.m @ s.d.m.T, s.M)),
    _koz95("27, 28", r"\frac{1}{2} \dot\theta^* M \dot\theta = \frac{1}{2} \nu^* \nu",
           lambda s: (s.d.nu @ s.d.nu / 2, s.robot.kinetic_energy(s.q, s.qd)),
           "kinetic energy is a sum of squares"),
    _koz95("Table 1", r"\dot\Phi = \Phi E_\Phi \Omega_\delta \Phi",
           lambda s: (s.d.derivative("Phi"), s.rate(lambda d: d.Phi)), "rates of operators"),
    _koz95("Table 1", r"\dot D = H \dot P H^*",
           lambda s: (s.d.derivative("D"), s.rate(lambda d: d.D))),
    _koz95("Table 1", r"\dot G = \bar\tau \dot P H^* D^{-1}",
           lambda s: (s.d.derivative("G"), s.rate(lambda d: d.G))),
    _koz95("29", r"\dot m = H \Phi [\Omega_\delta \Phi P + \frac{1}{2} (1 + \bar\tau) \dot P]"
                 r" H^* D^{-1/2}",
           lambda s: (s.d.m_dot, s.rate(lambda d: d.m)), "the rate of the factor"),
    _koz95("40", r"\dot\nu + C(\theta, \nu) = \epsilon",
           lambda s: (s.d.m.T @ s.qdd + s.rate(lambda d: d.m).T @ s.qd + s.d.C_nu,
                      s.d.to_eps(s.tau)), "normalized equations of motion"),
    _koz95("44", r"D \dot\xi + C(\theta, \xi) = \kappa",
           lambda s: (s.d.filter.D * (s.d.U.T @ s.qdd + s.rate(lambda d: d.U).T @ s.qd)
                      + s.d.C_xi, s.d.to_kappa(s.tau)), "unnormalized ones, with the erratum"),
    _koz95("47", r"\nu^* C(\theta, \nu) = \dot\theta^* g",
           lambda s: (s.d.nu @ s.d.C_nu, s.qd @ s.robot.gravity_torque(s.q)),
           "Coriolis forces do no work: what is left is gravity"),
    _koz95("49", r"V = \Psi^* H^* D^{-1/2} \nu",
           lambda s: (s.d.Psi.T @ s.d.H.T @ (s.d.nu / np.sqrt(s.d.filter.D)), s.d.V)),
)


def _printed_turn(s: MovingState) -> np.ndarray:
    """Omega_delta with h~ on its diagonal for every joint, as (4) prints it."""
    h = np.where(s.d.links.S[:, :3].any(axis=1, keepdims=True), s.d.links.S[:, :3],
                 s.d.links.S[:, 3:]) * s.qd[:, None]
    blocks = np.zeros((s.d.n, 6, 6))
    blocks[:, :3, :3] = blocks[:, 3:, 3:] = tilde(h)
    return blocks


def _inward_steps(d: Diagonal) -> np.ndarray:
    return np.swapaxes(d.links.X, 1, 2)


def _coriolis(s: MovingState, bracket: np.ndarray) -> np.ndarray:
    """(42) with what it has for [E_Psi, lambda-dot]."""
    X = s.d.Omega_delta.dense() @ s.d.P.dense()
    force = (bracket - X + X.T) @ s.d.V + 2 * s.d.b
    return (s.d.H @ s.d.Psi).dense() @ force / (2 * np.sqrt(s.d.filter.D))


def _moved(s: MovingState) -> tuple[np.ndarray, np.ndarray]:
    E, rate = s.d.E_Psi.dense(), s.d.lambda_dot.dense()
    return E @ rate, rate @ E


MISPRINTS = (
    Misprint(
        _rk88("2.32", r"a(k) = [0;\; \omega \times (\omega \times \ell + h \dot\theta)]",
              lambda s: (_tip_drift(s, s.o.a - _slides(s)), s.robot.jacobian_dot_qd(s.q, s.qd)),
              "the bias acceleration of a slide"),
        _rk88("2.32", r"a(k) = [0;\; \omega \times (\omega \times \ell + 2 h \dot\theta)]",
              lambda s: (_tip_drift(s, s.o.a), s.robot.jacobian_dot_qd(s.q, s.qd))),
        "the factor 2 of the Coriolis acceleration is missing"),
    Misprint(
        _rk88("4.20", r"\epsilon = T - H z",
              lambda s: (s.whiten.T @ s.o.D.inv @ s.whiten @ s.tau, s.qdd),
              "the innovations of FD1"),
        _rk88("4.20", r"\epsilon = T' - H z",
              lambda s: (s.whiten.T @ s.o.D.inv @ s.whiten @ s.unbiased, s.qdd)),
        "the filter of FD1 is driven by T less the bias, as (4.17) says"),
    Misprint(
        _koz95("4", r"\Omega_\delta = \diag(\dot\theta \tilde h, \dot\theta \tilde h)",
               lambda s: (_inward_steps(s.d) @ _printed_turn(s), s.rate(_inward_steps)),
               "the rate of the step between frames, for every joint"),
        _koz95("4", r"\Omega_\delta = [0, \dot\theta \tilde h; 0, 0]",
               lambda s: (_inward_steps(s.d) @ cross(s.d.links.S * s.qd[:, None]),
                          s.rate(_inward_steps)),
               "for a slide"),
        "a slide turns nothing"),
    Misprint(
        _koz95("Table 1", r"\dot E_\Phi = E_\Phi \Omega_\delta \Phi",
               lambda s: (s.d.E_Phi @ s.d.Omega_delta @ s.d.Phi, s.rate(lambda d: d.E_Phi)),
               "row 1, the local rate"),
        _koz95("Table 1", r"\dot E_\Phi = E_\Phi \Omega_\delta",
               lambda s: (s.d.E_Phi @ s.d.Omega_delta, s.rate(lambda d: d.E_Phi))),
        "a factor too many"),
    Misprint(
        _koz95("31, 42", r"E_\Psi \dot\lambda - \dot\lambda E_\Psi",
               lambda s: (_coriolis(s, _moved(s)[0] - _moved(s)[1]), s.d.C_nu),
               "the bracket in C"),
        _koz95("31, 42", r"E_\Psi \dot\lambda - \dot\lambda E_\Psi^*",
               lambda s: (_coriolis(s, _moved(s)[0] - _moved(s)[0].T), s.d.C_nu)),
        "C must be skew, so the second factor is transposed"),
)
"""Not all errata, which the pages of equations have, but those that change a result."""
