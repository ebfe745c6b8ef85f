"""Joint forces of one state of a mechanism with loops: what motors do, and what the loops carry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nlink.model.constraints import ANGLE_TOLERANCE

if TYPE_CHECKING:
    from nlink.closures.loops import Loops

Array = np.ndarray
RANK = 3 * ANGLE_TOLERANCE
"""A singular value this small, of the largest, is none: what forward dynamics takes for none."""
BALANCE = 1e-8
"""Joint forces are balanced to this share of their size, or not at all."""
SMALL_ACCELERATION = 1e-9
"""An acceleration (1/s^2) too small to matter: loops that open with a share of it stay closed."""


def balance(loops: Loops, q: Array, qd: Array, qdd: Array, internal: Array | None = None,
            f_ext: Array | None = None) -> tuple[Array, Array]:
    """tau and the multipliers lambda with M qdd + h = tau + J^T lambda and tau on motors alone.

    Of the multipliers that passive joints leave free those of least tau are taken, or those
    nearest to the wrenches `internal`.
    """
    robot, motors = loops.robot, loops.actuated
    J = loops.jacobian(q)
    _expect_closed(loops, J, qdd, loops.acceleration(q, qd))
    J = J / loops.scale[:, None]  # so that multipliers of lengths and of angles compare
    whole = robot.inverse_dynamics(q, qd, qdd, f_ext)
    terms = np.abs(whole) + np.abs(robot.mass_matrix(q)) @ np.abs(qdd)
    # passive joints: J_p^T lambda = whole_p decides what of lambda is not free
    passive, active = J[:, ~motors].T, J[:, motors].T
    inverse = _pseudo_inverse(passive, J)
    base = inverse @ whole[~motors]
    left = whole[~motors] - passive @ base
    moments = np.abs(left) * loops.rate_scale[~motors]
    if len(left) and moments.max() > BALANCE * (
            (terms * loops.rate_scale).max() + loops.weight):
        joint = np.array(robot.qd_names)[~motors][moments.argmax()]
        raise ValueError(f"qdd: the motors cannot make this motion: {str(joint)!r} has none, and "
                         f"{np.abs(left)[moments.argmax()]:.3g} is left to it")
    free = np.eye(len(J)) - inverse @ passive
    if internal is None:  # least tau = whole_a - A lambda
        y = _pseudo_inverse(active @ free, J) @ (whole[motors] - active @ base)
    else:
        y = loops.multipliers(q, internal) * loops.scale - base
    multipliers = base + free @ y
    tau = np.zeros(len(whole))
    tau[motors] = whole[motors] - active @ multipliers
    return tau, multipliers / loops.scale


def _expect_closed(loops: Loops, J: Array, qdd: Array, drift: Array) -> None:
    """Refuse accelerations that open the loops, J qdd + Jdot qd != 0."""
    opening = np.abs(J @ qdd + drift)
    size = (np.abs(J) @ np.abs(qdd) + np.abs(drift)) / loops.scale
    if (opening / loops.scale > ANGLE_TOLERANCE * (size.max() + SMALL_ACCELERATION)).any():
        worst = int((opening / loops.scale).argmax())
        raise ValueError(f"qdd: opens the loop {loops.rows[worst]!r} with an acceleration of "
                         f"{opening[worst]:.3g}, expected J qdd = -Jdot qd")


def _pseudo_inverse(A: Array, J: Array) -> Array:
    """The pseudo-inverse of a part of J or what is made of it, in which rounding counts as 0."""
    if not A.size:
        return np.zeros(A.shape[::-1])
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    kept = s > RANK * np.linalg.norm(J, 2)
    return (Vt[kept].T / s[kept]) @ U[:, kept].T
