"""Quantities of the whole body, and of several frames: methods of Robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.computations import Computations, How
from nlink.scalars.arrays import TracedValues, alike, batch, common_type

Array = np.ndarray


class WholeBody(Computations):
    """Computations for humanoids: momentum, centre of mass, motion of frames."""

    def poses(self, q: ArrayLike, frames: Sequence[int | str] | None = None,
              *, out: Any = None, **how: Unpack[How]) -> Array:
        """(..., frames, 4, 4): the transforms of several frames in one call, of all links, the
        base first, if none are named.

        >>> import nlink
        >>> nlink.load("planar3").poses([0, 0, 0], ["link1", "link3"])[:, 0, 3]
        array([1., 3.])
        """
        wanted = range(len(self.description.links) + 1) if frames is None else frames
        return self._compute("poses", (q, out), how, frame=tuple(wanted))

    def frame_velocity(self, q: ArrayLike, qd: ArrayLike, frame: int | str = -1,
                       *, out: Any = None, **how: Unpack[How]) -> Array:
        """J qd: the twist (angular, linear) of the frame's origin, world axes.

        >>> import nlink
        >>> nlink.load("planar3").frame_velocity([0, 0, 0], [1, 0, 0])
        array([0., 0., 1., 0., 3., 0.])
        """
        return self._compute("frame_velocity", (q, qd, out), how, frame=frame)

    def frame_acceleration(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike,
                           frame: int | str = -1, *, out: Any = None,
                           **how: Unpack[How]) -> Array:
        """J qdd + Jdot qd: how the frame's origin accelerates (angular, linear), world axes;
        gravity is no acceleration.

        >>> import nlink
        >>> nlink.load("planar3").frame_acceleration([0, 0, 0], [1, 0, 0], [0, 0, 0])
        array([ 0.,  0.,  0., -3.,  0.,  0.])
        """
        return self._compute("frame_acceleration", (q, qd, qdd, out), how, frame=frame)

    def centroidal_momentum_matrix(self, q: ArrayLike, *, out: Any = None,
                                   **how: Unpack[How]) -> Array:
        """A (..., 6, n) with h = A qd, the momentum (angular, linear) of all that moves about its
        centre of mass, world axes [Orin, Goswami, Lee 2013].

        >>> import nlink
        >>> nlink.load("planar3").centroidal_momentum_matrix([0, 0, 0])[2:5].round(3)
        array([[ 2.25 ,  1.667,  0.583],
               [-0.   , -0.   , -0.   ],
               [ 4.5  ,  2.   ,  0.5  ]])
        """
        return self._compute("centroidal_momentum_matrix", (q, out), how)

    def centroidal_momentum(self, q: ArrayLike, qd: ArrayLike, **how: Unpack[How]) -> Array:
        """h = A qd (..., 6): the momentum (angular, linear) about the centre of mass.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.centroidal_momentum([0.3, 0.2], [1.0, 0.0]).shape
        (6,)
        """
        q, qd = alike(q, qd)
        A = self.centroidal_momentum_matrix(q, **how)
        try:
            return np.einsum("...ij,...j->...i", A, batch(
                "qd", qd, (self._mechanism.nv,), dtype=A.dtype))
        except TracedValues:
            return (A @ np.asarray(qd, dtype=object)[..., None])[..., 0]

    def centroidal_momentum_drift(self, q: ArrayLike, qd: ArrayLike, *, out: Any = None,
                                  **how: Unpack[How]) -> Array:
        """Adot qd (..., 6): the rate of the momentum when qdd = 0, hdot = A qdd + Adot qd.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.centroidal_momentum_drift([0.3, 0.2], [1.0, 0.0]).shape
        (6,)
        """
        return self._compute("centroidal_momentum_drift", (q, qd, out), how)

    def com_jacobian(self, q: ArrayLike, *, out: Any = None, **how: Unpack[How]) -> Array:
        """J (..., 3, n): the velocity of the centre of mass is J qd.

        >>> import nlink
        >>> nlink.load("planar3").com_jacobian([0, 0, 0])[1]
        array([1.5       , 0.66666667, 0.16666667])
        """
        return self._compute("com_jacobian", (q, out), how)

    def com_jacobian_dot_qd(self, q: ArrayLike, qd: ArrayLike, **how: Unpack[How]) -> Array:
        """Jdot qd (..., 3): the acceleration of the centre of mass when qdd = 0.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.com_jacobian_dot_qd([0.3, 0.2], [1.0, 0.0]).shape
        (3,)
        """
        mass = sum(joint.inertia.m for joint in self._mechanism.joints)
        return self.centroidal_momentum_drift(q, qd, **how)[..., 3:] / mass

    def manipulability(self, q: ArrayLike, frame: int | str = -1, **how: Unpack[How]) -> Array:
        """sqrt(det(J J^T)) [Yoshikawa 1985]: how far from singular a frame's motion is, lengths in
        metres; of arms with fewer than six rates sqrt(det(J^T J)).

        >>> import nlink
        >>> robot = nlink.load("puma560")
        >>> float(robot.manipulability([0.1, 0.2, 0.3, 0.4, 0.0, 0.6]).round(6))  # wrist singular
        0.0
        """
        J = self._compute("jacobian", (q, None), how, frame=frame)
        Jt = np.swapaxes(J, -1, -2)
        square = J @ Jt if J.shape[-1] >= 6 else Jt @ J
        _expect_numbers("manipulability", square)
        return np.sqrt(np.maximum(np.linalg.det(square), 0.0))

    def manipulability_gradient(self, q: ArrayLike, frame: int | str = -1,
                                **how: Unpack[How]) -> Array:
        """(..., n): how manipulability w changes with each rate, w tr((J J^T)^-1 dJ_k J^T).

        >>> import nlink
        >>> robot = nlink.load("puma560")
        >>> robot.manipulability_gradient([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).shape
        (6,)
        """
        J = self._compute("jacobian", (q, None), how, frame=frame)
        _expect_numbers("manipulability_gradient", J)
        dJ = self._compute("jacobian_derivatives", (q, None), how, frame=frame)
        dJ = np.moveaxis(dJ, -1, -3)
        Jt = np.swapaxes(J, -1, -2)
        square, change = ((J @ Jt, dJ @ Jt[..., None, :, :]) if J.shape[-1] >= 6 else
                          (Jt @ J, np.swapaxes(dJ, -1, -2) @ J[..., None, :, :]))
        inverse = np.linalg.inv(square)[..., None, :, :]
        w = self.manipulability(q, frame, **how)
        return w[..., None] * np.trace(inverse @ change, axis1=-2, axis2=-1)

    def limit_distance(self, q: ArrayLike) -> Array:
        """The smallest distance (rad, m) of a coordinate to its limits, negative beyond; inf
        without limits.

        >>> import nlink
        >>> nlink.load("panda").limit_distance([[0, 0, 0, -1, 0, 1, 0]])
        array([0.9302])
        """
        q = batch("q", q, (self._mechanism.nq,), dtype=common_type([q]))
        least, at = np.full(q.shape[:-1], np.inf, q.dtype), 0
        for joint in self.description.joints:
            low, high = joint.limits.position
            if joint.type.space.flat:
                for x in np.moveaxis(q[..., at:at + joint.type.nq], -1, 0):
                    least = np.minimum(least, np.minimum(x - low, high - x))
            at += joint.type.nq
        return least


def _expect_numbers(name: str, matrix: Array) -> None:
    """Refuse traced values where a determinant or an inverse of NumPy is taken."""
    if matrix.dtype == object:
        raise TracedValues(f"{name}: q has traced values, expected numbers: use robot.jacobian and "
                           "nlink.solve, or simulate with traced=False")
