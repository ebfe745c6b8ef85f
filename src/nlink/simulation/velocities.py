"""What the state of a simulation holds besides q, and how it follows from the rates.

    rates               qd
    momenta             p = M qd, Hamilton's equations:
                        qdot = M^-1 p,  pdot = tau - friction + C(q, qd)^T qd - g(q),
                        since Mdot = C + C^T and d(T)/dq = C^T qd
    quasi-velocities    nu or xi of [Koz95], in which the mass matrix is diagonal

Controllers, events and limits see qd whatever is integrated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nlink.scalars.functions import Scalar, Scalars

Perform = Callable[..., list[Scalar]]
"""perform(name of an algorithm, *columns), for one mechanism."""


@dataclass(frozen=True)
class JointRates:
    """qd itself, or another velocity that algorithms convert from and to qd."""

    name: str = "qd"
    rates: str | None = None
    """The algorithm of (q, v) -> qd; None if v is qd."""
    velocities: str | None = None
    """The algorithm of (q, qd) -> v."""
    motion: str = "forward_dynamics"
    """The algorithm of (q, v, tau) whose last output is dv/dt."""

    def to_rates(self, perform: Perform, q: Scalars, v: Scalars) -> Scalars:
        return v if self.rates is None else perform(self.rates, q, v)

    def from_rates(self, perform: Perform, q: Scalars, qd: Scalars) -> Scalars:
        return qd if self.velocities is None else perform(self.velocities, q, qd)

    def derivative(self, perform: Perform, q: Scalars, v: Scalars, qd: Scalars, tau: Scalars,
                   drag: Callable[[], Scalars]) -> Scalars:
        """dv/dt; `drag` are the forces of friction at qd."""
        return perform(self.motion, q, v, tau)[-len(v):]


@dataclass(frozen=True)
class Momenta(JointRates):
    """p = M qd."""

    name: str = "p"
    rates: str | None = "solve"

    def from_rates(self, perform: Perform, q: Scalars, qd: Scalars) -> Scalars:
        M, n = perform("mass_matrix", q), len(qd)
        return [sum((M[i * n + j] * qd[j] for j in range(n)), 0.0) for i in range(n)]

    def derivative(self, perform: Perform, q: Scalars, v: Scalars, qd: Scalars, tau: Scalars,
                   drag: Callable[[], Scalars]) -> Scalars:
        n, friction = len(v), drag()
        C, g = perform("coriolis_matrix", q, qd), perform("gravity_torque", q)
        return [tau[k] - friction[k] - g[k] + sum((C[i * n + k] * qd[i] for i in range(n)), 0.0)
                for k in range(n)]


VELOCITIES: dict[str, JointRates] = {each.name: each for each in (
    JointRates(), Momenta(),
    JointRates("nu", "rates_from_quasi_velocities", "quasi_velocities", "quasi_motion"),
    JointRates("xi", "rates_from_unnormalized_quasi_velocities", "unnormalized_quasi_velocities",
               "unnormalized_quasi_motion"))}


def velocity_of(name: str) -> JointRates:
    """The velocity of a name that users may choose: momenta come with their method."""
    known = [each for each in VELOCITIES if each != "p"]
    if name not in known:
        raise ValueError(f"velocity: {name!r}, expected one of {', '.join(known)}")
    return VELOCITIES[name]
