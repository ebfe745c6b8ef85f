"""The mechanics of a robot: forces, accelerations, matrices, frames and energies, as methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from nlink.engines.computations import Computations, How
from nlink.scalars.arrays import TracedValues

Array = np.ndarray


class Mechanics(Computations):
    """Computations of every mechanism."""

    def inverse_dynamics(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike,
                         f_ext: ArrayLike | None = None,
                         *, out: Any = None, **how: Unpack[How]) -> Array:
        """Joint forces: tau = M qdd + C qd + g + friction + armature qdd - J^T f_ext.

        `f_ext` is a wrench on each link, (..., links, 6), (moment, force) about the origin of
        the link's frame, in world axes.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> q, qd = [0.3, 0.2], [1.0, 0.0]
        >>> tau = robot.inverse_dynamics(q, qd, [2.0, -1.0])
        >>> robot.forward_dynamics(q, qd, tau).round(9)
        array([ 2., -1.])
        """
        if f_ext is None and not how and (known := self._functions.get("inverse_dynamics")):
            try:
                return known(q, qd, qdd, out)  # called most: a third less than by `_compute`
            except TracedValues:
                pass  # which runs the algorithm on them
        return self._compute("inverse_dynamics", (q, qd, qdd, out), how, f_ext)

    def forward_dynamics(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
                         f_ext: ArrayLike | None = None,
                         *, out: Any = None, **how: Unpack[How]) -> Array:
        """Joint accelerations from joint forces, in O(n).

        At qd = 0 there is no dry friction, as the sign of 0 is 0: the joints are free to begin to
        move. `nlink.simulate` decides whether friction holds them (docs/friction.md).

        `algorithm` is "articulated" (the bias inside the sweeps), "denoc" (the three steps of
        [Saha03], bias by inverse dynamics), "fd1" to "fd4" ([RK88]), "diagonalized" and
        "diagonalized-xi" ([Koz95], by way of quasi-velocities) or "composite" (Walker and
        Orin, O(n^3)).

        >>> import nlink
        >>> robot = nlink.load("planar3")
        >>> robot.forward_dynamics([0, 0, 0], [0, 0, 0], [44.145, 19.62, 4.905]).round(9) + 0.0
        array([0., 0., 0.])
        """
        if f_ext is None and not how and (known := self._functions.get("forward_dynamics")):
            try:
                return known(q, qd, tau, out)  # called most: a third less than by `_compute`
            except TracedValues:
                pass  # which runs the algorithm on them
        return self._compute("forward_dynamics", (q, qd, tau, out), how, f_ext)

    def inverse_dynamics_derivatives(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike,
                                     f_ext: ArrayLike | None = None, *, out: Any = None,
                                     **how: Unpack[How]) -> tuple[Array, Array]:
        """dtau/dq and dtau/dqd of `inverse_dynamics`, (..., n, n) each; dtau/dqdd is M.

        Column k is the derivative by rate k: dtau/dq is taken along the motion of this rate,
        `integrate(q, h e_k)`, also where q has quaternions. Wrenches keep their direction in the
        world. Dry friction counts as constant.

        >>> import nlink
        >>> robot, q, still = nlink.load("planar3"), [0.1, 0.2, 0.3], np.zeros(3)
        >>> by_q, by_qd = robot.inverse_dynamics_derivatives(q, still, still)
        >>> moved = robot.integrate(q, 1e-6 * np.eye(3))
        >>> tau = robot.inverse_dynamics([q, *moved], still, still)
        >>> bool(np.allclose(by_q, (tau[1:] - tau[0]).T / 1e-6, atol=1e-4))
        True
        """
        return self._compute("inverse_dynamics_derivatives", (q, qd, qdd, out), how, f_ext)

    def forward_dynamics_derivatives(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
                                     f_ext: ArrayLike | None = None, *, out: Any = None,
                                     **how: Unpack[How]) -> tuple[Array, Array, Array]:
        """dqdd/dq, dqdd/dqd and dqdd/dtau = M^-1 of `forward_dynamics`, (..., n, n) each.

        Columns as in `inverse_dynamics_derivatives`, from which they follow:
        dqdd = M^-1 (dtau - dID).

        >>> import nlink
        >>> robot, q, still = nlink.load("planar3"), [0.1, 0.2, 0.3], np.zeros(3)
        >>> by_q, by_qd, by_tau = robot.forward_dynamics_derivatives(q, still, still)
        >>> bool(np.allclose(by_tau, robot.inverse_mass_matrix(q)))
        True
        """
        return self._compute("forward_dynamics_derivatives", (q, qd, tau, out), how, f_ext)

    def mass_matrix(self, q: ArrayLike, *, out: Any = None, **how: Unpack[How]) -> Array:
        """M(q), (..., n, n): the generalized inertia matrix, armatures on the diagonal.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.mass_matrix([0.0, 0.0]).round(4)
        array([[5.0006, 2.0003],
               [2.0003, 1.0003]])
        """
        return self._compute("mass_matrix", (q, out), how)

    def factor_mass_matrix(self, q: ArrayLike,
                           *, out: Any = None, **how: Unpack[How]) -> tuple[Array, Array]:
        """U, D with M = U diag(D) U^T, U unit upper triangular; D are the articulated inertias
        about the joints.

        >>> import nlink
        >>> U, D = nlink.load("planar3").factor_mass_matrix([0.1, 0.2, 0.3])
        >>> U.shape, D.shape
        ((3, 3), (3,))
        """
        return self._compute("factor_mass_matrix", (q, out), how)

    def inverse_mass_matrix(self, q: ArrayLike, *, out: Any = None, **how: Unpack[How]) -> Array:
        """M(q)^-1, (..., n, n), from the factors of M in closed form.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> (robot.inverse_mass_matrix([0.3, 0.2]) @ robot.mass_matrix([0.3, 0.2])).round(9) + 0.0
        array([[1., 0.],
               [0., 1.]])
        """
        return self._compute("inverse_mass_matrix", (q, out), how)

    def solve(self, q: ArrayLike, tau: ArrayLike, *, out: Any = None, **how: Unpack[How]) -> Array:
        """M(q)^-1 tau in O(n), by U D U^T.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> q, tau = [0.3, 0.2], [1.0, -1.0]
        >>> (robot.mass_matrix(q) @ robot.solve(q, tau)).round(9)
        array([ 1., -1.])
        """
        return self._compute("solve", (q, tau, out), how)

    def coriolis_matrix(self, q: ArrayLike, qd: ArrayLike,
                        *, out: Any = None, **how: Unpack[How]) -> Array:
        """C(q, qd), (..., n, n), with C qd the velocity forces and Mdot - 2 C skew.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> q, qd = [0.3, 0.2], [1.0, -2.0]
        >>> forces = robot.coriolis_matrix(q, qd) @ qd
        >>> bool(abs(forces + robot.gravity_torque(q) - robot.bias(q, qd)).max() < 1e-12)
        True
        """
        return self._compute("coriolis_matrix", (q, qd, out), how)

    def bias(self, q: ArrayLike, qd: ArrayLike, *, out: Any = None, **how: Unpack[How]) -> Array:
        """C(q, qd) qd + g(q), without friction.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> q, qd = [0.3, 0.2], [1.0, -2.0]
        >>> bool(abs(robot.bias(q, qd) - robot.inverse_dynamics(q, qd, [0.0, 0.0])).max() < 1e-12)
        True
        """
        return self._compute("bias", (q, qd, out), how)

    def gravity_torque(self, q: ArrayLike, *, out: Any = None, **how: Unpack[How]) -> Array:
        """g(q): the joint forces that hold the robot still.

        >>> import nlink
        >>> nlink.load("planar3").gravity_torque([[0, 0, 0], [np.pi / 2, 0, 0]]).round(12)
        array([[44.145, 19.62 ,  4.905],
               [ 0.   ,  0.   ,  0.   ]])
        """
        return self._compute("gravity_torque", (q, out), how)

    def pose(self, q: ArrayLike, frame: int | str = -1,
             *, out: Any = None, **how: Unpack[How]) -> Array:
        """The 4x4 homogeneous transform of a frame: a link's number (0 the base) or any name.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.pose([0.0, 0.0]).round(3) + 0.0
        array([[1., 0., 0., 2.],
               [0., 1., 0., 0.],
               [0., 0., 1., 0.],
               [0., 0., 0., 1.]])
        """
        return self._compute("pose", (q, out), how, frame=frame)

    def jacobian(self, q: ArrayLike, frame: int | str = -1,
                 *, out: Any = None, **how: Unpack[How]) -> Array:
        """J, (..., 6, n): J qd is the twist (angular, linear) of the frame's origin in world axes.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> J = robot.jacobian([0.3, 0.2])
        >>> J.shape
        (6, 2)
        """
        return self._compute("jacobian", (q, out), how, frame=frame)

    def jacobian_dot_qd(self, q: ArrayLike, qd: ArrayLike, frame: int | str = -1,
                        *, out: Any = None, **how: Unpack[How]) -> Array:
        """Jdot qd: the acceleration (angular, linear) of the frame's origin when qdd = 0.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> q, qd = [0.3, 0.2], [1.0, 0.5]
        >>> drift = robot.jacobian_dot_qd(q, qd)
        >>> bool(abs(drift - robot.jacobian_rate(q, qd) @ qd).max() < 1e-12)
        True
        """
        return self._compute("jacobian_dot_qd", (q, qd, out), how, frame=frame)

    def mass_matrix_derivatives(self, q: ArrayLike, *, out: Any = None,
                                **how: Unpack[How]) -> Array:
        """dM/dq, (..., n, n, n): [i, j, k] is the derivative of M_ij along rate k.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.mass_matrix_derivatives([0.3, 0.2]).shape
        (2, 2, 2)
        """
        return self._compute("mass_matrix_derivatives", (q, out), how)

    def jacobian_derivatives(self, q: ArrayLike, frame: int | str = -1,
                             *, out: Any = None, **how: Unpack[How]) -> Array:
        """dJ/dq, (..., 6, n, n), the kinematic Hessian: [i, j, k] is the derivative of J_ij along
        rate k.

        >>> import nlink
        >>> robot, q, qd = nlink.load("planar3"), [0.1, 0.2, 0.3], [1.0, -1.0, 2.0]
        >>> Jdot = robot.jacobian_derivatives(q) @ qd
        >>> bool(np.allclose(Jdot, robot.jacobian_rate(q, qd)))
        True
        """
        return self._compute("jacobian_derivatives", (q, out), how, frame=frame)

    def jacobian_rate(self, q: ArrayLike, qd: ArrayLike, frame: int | str = -1,
                      *, out: Any = None, **how: Unpack[How]) -> Array:
        """Jdot, (..., 6, n): the time derivative of the Jacobian at the rates qd.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> robot.jacobian_rate([0.3, 0.2], [1.0, 0.5]).shape
        (6, 2)
        """
        return self._compute("jacobian_jvp", (q, qd, out), how, frame=frame)

    def link_accelerations(self, q: ArrayLike, qd: ArrayLike, tau: ArrayLike,
                           f_ext: ArrayLike | None = None,
                           *, out: Any = None, **how: Unpack[How]) -> Array:
        """The accelerations of links under joint forces, (..., links, 6): (angular, linear) of
        their origins in world axes, as measured by an observer at rest (zero for a link at rest).

        `algorithm` is "fd4" or "fd2" of [RK88].

        >>> import nlink
        >>> falling = nlink.load("planar3").link_accelerations([0, 0, 0], [0, 0, 0], [0, 0, 0])
        >>> falling.shape
        (3, 6)
        """
        return self._compute("link_accelerations", (q, qd, tau, out), how, f_ext)

    def operational_inertia(self, q: ArrayLike, frame: int | str = -1, inverse: bool = False,
                            frames: Sequence[int | str] | None = None,
                            *, out: Any = None, **how: Unpack[How]) -> Array:
        """Lambda = (J M^-1 J^T)^-1 of a frame, (..., 6, 6); `inverse=True` gives J M^-1 J^T.

        Twists (angular, linear) of the frame's origin, world axes. `frames` asks for several at
        once, (..., 6k, 6k), including their coupling. Lambda exists where the frames can move in
        every direction: if too few rates move them it is nan, and in a singular state inf, nan or
        very large. J M^-1 J^T always exists.

        >>> import nlink
        >>> robot, q = nlink.load("puma560"), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
        >>> J = robot.jacobian(q)
        >>> bool(np.allclose(J.T @ robot.operational_inertia(q) @ J, robot.mass_matrix(q)))
        True
        """
        name = "operational_mobility" if inverse else "operational_inertia"
        return self._compute(name, (q, out), how,
                             frame=frame if frames is None else tuple(frames))

    def kinetic_energy(self, q: ArrayLike, qd: ArrayLike,
                       *, out: Any = None, **how: Unpack[How]) -> Array:
        """1/2 qd^T M(q) qd, armature included.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> float(robot.kinetic_energy([0.0, 0.0], [1.0, 0.0]).round(6))
        2.500305
        """
        return self._compute("kinetic_energy", (q, qd, out), how)

    def potential_energy(self, q: ArrayLike, *, out: Any = None, **how: Unpack[How]) -> Array:
        """-sum m g . c of the links that move, zero with all their mass at the base frame's origin.

        Links fixed to the base are not included: their energy is constant.

        >>> import nlink
        >>> robot = nlink.load("double_pendulum")
        >>> low, high = robot.potential_energy([[0.0, 0.0], [1.0, 0.0]])
        >>> float((high - low).round(4))
        24.7645
        """
        return self._compute("potential_energy", (q, out), how)

    def center_of_mass(self, q: ArrayLike, *, out: Any = None, **how: Unpack[How]) -> Array:
        """The centre of mass of all moving links in world axes, (..., 3).

        Links fixed to the base are not included; without any mass the result is nan.

        >>> import nlink
        >>> nlink.load("planar3").center_of_mass([0, 0, 0])
        array([1.5, 0. , 0. ])
        """
        return self._compute("center_of_mass", (q, out), how)
