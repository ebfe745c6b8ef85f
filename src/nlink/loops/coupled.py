"""Mimic joints as they are meant: coordinates of their own only where there is freedom.

A mimic joint follows another, q_m = multiplier q + offset. All coordinates of the tree are then
q = E q' + e with constant E, so that with x' for what belongs to the coupled mechanism

    qd = E qd',   qdd = E qdd',   tau' = E^T tau,   M' = E^T M E,   C' = E^T C E,

and M' inherits symmetry and Mdot' - 2 C' its skewness. Inverse dynamics and matrices are computed
by the tree's own algorithms, accelerations by those of the mechanism with a gear in place of each
mimic (`robot.geared`), in O(n).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.engines import Engine
from nlink.model.description import Joint
from nlink.model.mimics import leads
from nlink.model.names import counted, visible
from nlink.programs.applying import apply
from nlink.robot import Robot
from nlink.scalars.arrays import batch
from nlink.simulation.control_scheme import Controller, ControlScheme

Array = np.ndarray


class Coupled:
    """A robot whose mimic joints follow, in the coordinates of the others.

    Functions are those of the robot, with any leading batch shape; coordinates, rates and forces
    are those of `joints`. Without mimic joints it is the robot itself. To simulate, `robot.geared`
    is simpler: a robot like any other, with the coordinates of all joints.

    >>> from dataclasses import replace
    >>> import nlink
    >>> two = nlink.load("double_pendulum").description
    >>> lead, follow = two.joints
    >>> follow = replace(follow, mimic=nlink.Mimic(lead.name, -2.0))
    >>> arm = Coupled(nlink.Robot(replace(two, joints=(lead, follow))))
    >>> arm.n, arm.expand([0.3])
    (1, array([ 0.3, -0.6]))
    """

    def __init__(self, robot: Robot) -> None:
        if robot.description.closed:
            raise ValueError(f"{robot.name} has loops: expected a tree, such as robot.tree")
        self.robot = robot
        self.joints: tuple[Joint, ...] = tuple(
            joint for joint in robot.joints if joint.type.nv and joint.mimic is None)
        """The moving joints that follow none, in their order."""
        self.nq = sum(joint.type.nq for joint in self.joints)
        self.n = sum(joint.type.nv for joint in self.joints)
        self._E_q, self._e, self._coordinates = self._map("nq")
        self.E, _, self._rates = self._map("nv")

    def __repr__(self) -> str:
        followers = sum(joint.mimic is not None for joint in self.robot.joints)
        return (f"<Coupled {visible(self.robot.name)}: {counted(self.n, 'rate')}, "
                f"{counted(followers, 'mimic joint')}>")

    def _map(self, width: str) -> tuple[Array, Array, list[int]]:
        """E, e and the places of the independent coordinates (nq) or rates (nv)."""
        places: dict[str, int] = {}
        own: list[int] = []
        at = 0
        for joint in self.robot.joints:
            size = getattr(joint.type, width)
            places[joint.name] = at
            own += range(at, at + size) if joint.mimic is None else ()
            at += size
        E, e = np.zeros((at, len(own))), np.zeros(at)
        E[own, range(len(own))] = 1.0
        column = {place: k for k, place in enumerate(own)}
        for follower, (lead, factor, offset) in leads(self.robot.joints).items():
            E[places[follower], column[places[lead.name]]] = factor
            e[places[follower]] = offset
        return E, e, own

    def expand(self, q: ArrayLike) -> Array:
        """The robot's q: E q' + e."""
        return batch("q", q, (self.nq,)) @ self._E_q.T + self._e

    def expand_rates(self, qd: ArrayLike) -> Array:
        """The robot's rates, or accelerations: E qd'."""
        return batch("qd", qd, (self.n,)) @ self.E.T

    def reduce(self, tau: ArrayLike) -> Array:
        """The robot's joint forces in the coordinates of `joints`: E^T tau."""
        return batch("tau", tau, (self.robot.n,)) @ self.E

    @property
    def neutral(self) -> Array:
        """A valid configuration."""
        return self.robot.neutral[self._coordinates]

    def random_state(self, rng: np.random.Generator | int | None = None,
                     shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
        """Random q and qd, as for the robot; the limits of mimic joints are ignored."""
        q, qd = self.robot.random_state(rng, shape)
        return q[..., self._coordinates], qd[..., self._rates]

    def inverse_dynamics(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike,
                         f_ext: ArrayLike | None = None, *, engine: Engine | None = None) -> Array:
        """Joint forces of a motion."""
        tau = self.robot.inverse_dynamics(
            self.expand(q), self.expand_rates(qd), self.expand_rates(qdd), f_ext, engine=engine)
        return self.reduce(tau)

    def forward_dynamics(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
                         f_ext: ArrayLike | None = None, *, engine: Engine | None = None) -> Array:
        """Accelerations that joint forces cause."""
        qdd = self.robot.geared.forward_dynamics(
            self.expand(q), self.expand_rates(qd), self._spread(tau), f_ext, engine=engine)
        return qdd[..., self._rates]

    def _spread(self, tau: ArrayLike) -> Array:
        """Forces on all joints that do what those of `joints` do: nothing on the others."""
        return batch("tau", tau, (self.n,)) @ np.eye(self.robot.n)[self._rates]

    def inverse_dynamics_derivatives(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike,
                                     f_ext: ArrayLike | None = None, *,
                                     engine: Engine | None = None) -> tuple[Array, Array]:
        """dtau'/dq' and dtau'/dqd': E^T dtau/dq E and E^T dtau/dqd E."""
        by_q, by_qd = self.robot.inverse_dynamics_derivatives(
            self.expand(q), self.expand_rates(qd), self.expand_rates(qdd), f_ext, engine=engine)
        return self.E.T @ by_q @ self.E, self.E.T @ by_qd @ self.E

    def forward_dynamics_derivatives(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
                                     f_ext: ArrayLike | None = None, *,
                                     engine: Engine | None = None) -> tuple[Array, Array, Array]:
        """dqdd'/dq', dqdd'/dqd' and dqdd'/dtau' = M'^-1."""
        by_q, by_qd, by_tau = self.robot.geared.forward_dynamics_derivatives(
            self.expand(q), self.expand_rates(qd), self._spread(tau), f_ext, engine=engine)
        own = self._rates
        return (by_q[..., own, :] @ self.E, by_qd[..., own, :] @ self.E,
                by_tau[..., own, :][..., own])

    def mass_matrix(self, q: ArrayLike, *, engine: Engine | None = None) -> Array:
        """E^T M E."""
        return self.E.T @ self.robot.mass_matrix(self.expand(q), engine=engine) @ self.E

    def coriolis_matrix(self, q: ArrayLike, qd: ArrayLike, *,
                        engine: Engine | None = None) -> Array:
        """E^T C E."""
        full = self.expand(q), self.expand_rates(qd)
        return self.E.T @ self.robot.coriolis_matrix(*full, engine=engine) @ self.E

    def bias(self, q: ArrayLike, qd: ArrayLike, *, engine: Engine | None = None) -> Array:
        """C qd + g, without friction."""
        full = self.expand(q), self.expand_rates(qd)
        return self.reduce(self.robot.bias(*full, engine=engine))

    def gravity_torque(self, q: ArrayLike, *, engine: Engine | None = None) -> Array:
        """The joint forces that hold the robot still."""
        return self.reduce(self.robot.gravity_torque(self.expand(q), engine=engine))

    def pose(self, q: ArrayLike, frame: int | str = -1, *, engine: Engine | None = None) -> Array:
        """The 4x4 homogeneous transform of a frame."""
        return self.robot.pose(self.expand(q), frame, engine=engine)

    def jacobian(self, q: ArrayLike, frame: int | str = -1, *,
                 engine: Engine | None = None) -> Array:
        """J E: the twist (angular, linear) of the frame's origin, world axes."""
        return self.robot.jacobian(self.expand(q), frame, engine=engine) @ self.E

    def kinetic_energy(self, q: ArrayLike, qd: ArrayLike, *, engine: Engine | None = None) -> Array:
        """1/2 qd'^T M' qd'."""
        return self.robot.kinetic_energy(self.expand(q), self.expand_rates(qd), engine=engine)

    def potential_energy(self, q: ArrayLike, *, engine: Engine | None = None) -> Array:
        """-sum m g . c."""
        return self.robot.potential_energy(self.expand(q), engine=engine)

    def controller(self, control: Controller | None = None) -> Controller:
        """A controller for `nlink.simulate` under which the robot moves as its couplings demand.

        `control` is one of the coupled mechanism, tau' = control(t, q', qd'), None free fall. The
        controller gives each joint the force that its coupled motion needs, reactions of the
        couplings included. Start at `expand(q)`, `expand_rates(qd)`: what is linear in the
        state, as the couplings are, integration keeps.
        """
        robot, n = self.robot, self.robot.n

        def tau(t: Any, q: Any, qd: Any) -> Any:
            own, rates = q[self._coordinates], qd[self._rates]
            state = self._E_q @ own + self._e, self.E @ rates
            driven, drive = iter([0.0] * self.n if control is None else ControlScheme.of(
                control, self.n).tau(t, own, rates)), [0.0] * n
            for k in self._rates:
                drive[k] = next(driven)
            qdd = apply(robot.geared, "forward_dynamics", *state, drive)
            return apply(robot, "inverse_dynamics", *state, qdd)

        return tau
