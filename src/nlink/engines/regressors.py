"""Forces, momenta and energies as linear functions of a robot's parameters, as methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from nlink.algorithms.joint_columns import column_kinds, joint_column, joint_parameters
from nlink.algorithms.regressor import PARAMETERS, carried_links, inertial_parameters
from nlink.engines.computations import Computations, How
from nlink.model import coordinates
from nlink.scalars.arrays import TracedValues, batch

Array = np.ndarray
WIDTH = 1e-3
"""Within so much of rest (rad/s, m/s) dry friction changes its sign."""


class Regressors(Computations):
    """Joint forces, momenta and energies as linear functions of a mechanism's parameters."""

    def regressor(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, *,
                  friction: Sequence[str] = (), armature: bool = False,
                  width: ArrayLike = WIDTH, stribeck: ArrayLike | None = None,
                  out: Any = None, **how: Unpack[How]) -> Array:
        """Y with tau = Y pi, (..., n, parameters): joint forces are linear in the parameters that
        `parameters` gives and `parameter_names` names.

        Each body that a joint moves has ten, referred to the origin and the axes of the link that
        the joint carries, in Pinocchio's order: m, m c (three), Jxx, Jxy, Jyy, Jxz, Jyz, Jzz.
        Links fixed to that link are part of the body.

        `friction` and `armature` ask for columns of joints behind them, n of each kind: "viscous"
        (qd), "coulomb" or "dry" (tanh(qd / width)), "offset" (1), "stribeck"
        (tanh(qd / width) exp(-(qd / stribeck)^2)), "asymmetric" (|qd|, and without an offset
        |tanh(qd / width)|), and qdd for armatures. `width` and `stribeck` are one number or one
        for each rate; the default for `stribeck` is that of the joints, 0.1 where they have none.

        >>> import nlink
        >>> robot = nlink.load("puma560")
        >>> q, qd = robot.random_state(0, (100,))
        >>> Y = robot.regressor(q, qd, qd, friction=["viscous", "coulomb"], armature=True,
        ...                     width=1e-9)
        >>> tau = Y @ robot.parameters(["viscous", "coulomb"], armature=True)
        >>> Y.shape, bool(np.allclose(tau, robot.inverse_dynamics(q, qd, qd)))
        ((100, 6, 78), True)
        """
        kinds = column_kinds(friction, armature)
        if not kinds:
            return self._compute("regressor", (q, qd, qdd, out), how)
        Y = self._compute("regressor", (q, qd, qdd, None), how)
        if Y.dtype == object:
            raise TracedValues("friction: columns of joints beside traced values, expected "
                               "numbers, or no such columns")
        n = self._mechanism.nv
        qd, qdd = (batch(name, x, (n,), dtype=Y.dtype) for name, x in (("qd", qd), ("qdd", qdd)))
        rates = self._stribeck_rates() if stribeck is None else stribeck
        found = np.zeros((*Y.shape[:-1], Y.shape[-1] + n * len(kinds)), Y.dtype)
        found[..., :Y.shape[-1]] = Y
        for k, kind in enumerate(kinds):
            at = np.arange(n)
            found[..., at, Y.shape[-1] + k * n + at] = joint_column(
                kind, qd, qdd, _positive("width", width, n), _positive("stribeck", rates, n))
        if out is None:
            return found
        if np.shape(out) != found.shape:
            raise ValueError(f"out: shape {np.shape(out)}, expected {found.shape}")
        out[...] = found
        return out

    def parameters(self, friction: Sequence[str] = (), armature: bool = False) -> Array:
        """The parameters pi of this robot, in the order of the columns of `regressor`.

        >>> import nlink
        >>> nlink.load("double_pendulum").parameters()[:4]
        array([1., 0., 0., 0.])
        """
        found = inertial_parameters(self._mechanism)
        for kind in column_kinds(friction, armature):
            found += joint_parameters(self._mechanism, kind)
        return np.array(found, dtype=float)

    def parameter_names(self, friction: Sequence[str] = (), armature: bool = False,
                        ) -> tuple[str, ...]:
        """A name for each of `parameters`: the link's and the parameter's, or the rate's.

        >>> import nlink
        >>> nlink.load("double_pendulum").parameter_names(["viscous"])[-3:]
        ('link2.Jzz', 'joint1.viscous', 'joint2.viscous')
        """
        mechanism = self._mechanism
        links = [self.description.links[mechanism.links.index(link) - 1].name
                 for link in carried_links(mechanism.links)]
        rates = coordinates.rate_names(self.description)
        return (*(f"{link}.{name}" for link in links for name in PARAMETERS),
                *(f"{rate}.{kind}" for kind in column_kinds(friction, armature)
                  for rate in rates))

    def momentum_regressor(self, q: ArrayLike, qd: ArrayLike, *, out: Any = None,
                           **how: Unpack[How]) -> Array:
        """Y with M qd = Y pi, (..., n, 10 bodies): generalized momenta, without those of rotors.

        Their rates are tau less velocity and gravity forces, so momenta identify a robot without
        accelerations: p(t2) - p(t1) is an integral.

        >>> import nlink
        >>> robot = nlink.load("planar3")
        >>> q, qd = robot.random_state(0)
        >>> p = robot.momentum_regressor(q, qd) @ robot.parameters()
        >>> bool(np.allclose(p, robot.mass_matrix(q) @ qd))
        True
        """
        return self._compute("momentum_regressor", (q, qd, out), how)

    def energy_regressor(self, q: ArrayLike, qd: ArrayLike, *, out: Any = None,
                         **how: Unpack[How]) -> Array:
        """Y with (T, V) = Y pi, (..., 2, 10 bodies): kinetic energy without that of rotors, and
        potential energy.

        What drives put in, less friction, is the change of T + V.

        >>> import nlink
        >>> robot = nlink.load("planar3")
        >>> q, qd = robot.random_state(0)
        >>> T, V = robot.energy_regressor(q, qd) @ robot.parameters()
        >>> bool(np.isclose(T, robot.kinetic_energy(q, qd)))
        True
        """
        return self._compute("energy_regressor", (q, qd, out), how)

    def _stribeck_rates(self) -> Array:
        return np.array([joint.friction.stribeck or 0.1 for joint in self.description.joints
                         for _ in range(joint.type.nv)])


def _positive(name: str, given: ArrayLike, n: int) -> Array:
    """One positive number for each rate."""
    x = np.asarray(given, dtype=float)
    if x.shape not in ((), (n,)) or not (np.isfinite(x).all() and (x > 0).all()):
        raise ValueError(f"{name}: {given!r:.80}, expected a positive number, or {n} of them")
    return np.broadcast_to(x, (n,))
