"""Joint forces of one state of a mechanism with loops: what motors do, and what the loops carry.

A loop carries a multiplier for each of its rows, or one wrench, the sum of those of its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nlink.model.constraints import ANGLE_TOLERANCE

if TYPE_CHECKING:
    from nlink.loops.loops import Loops

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


def wrenches(loops: Loops, q: ArrayLike, multipliers: Array) -> Array:
    """(..., loops, 6), from multipliers (..., rows)."""
    parts = -loops.robot.compute("closure_rows", q) * multipliers[..., None]
    return np.stack([parts[..., rows, :].sum(axis=-2) for rows in loops.row_slices], axis=-2)


def multipliers(loops: Loops, q: ArrayLike, wrenches: Array) -> Array:
    """The multipliers of one state whose wrenches are nearest to given ones."""
    rows = loops.robot.compute("closure_rows", q)
    return -np.concatenate([np.linalg.pinv(rows[own].T) @ f
                            for own, f in zip(loops.row_slices, wrenches, strict=True)])


def squeeze(loops: Loops, q: Array, given: Array, number: int) -> Array:
    """The part of the wrenches in one state that has no resultant on a link.

    What has one is the least multipliers x with the same G x, G being the resultants, about the
    origin of the link, of units of its rows: (1 - G^+ G) x is left.
    """
    robot = loops.robot
    rows, centre = robot.compute("closure_rows", q), robot.pose(q, number)[:3, 3]
    resultant, held = [], np.zeros(len(loops.rows), dtype=bool)
    for loop, own in zip(robot.description.loops, loops.row_slices, strict=False):
        if number not in (loop.on.link, loop.of.link):
            continue
        pose = robot.pose(q, loop.of.link)
        arm = pose[:3, 3] + pose[:3, :3] @ loop.of.pose.p - centre
        moments = rows[own, :3] + np.cross(arm, rows[own, 3:])
        sense = -1.0 if loop.on.link == number else 1.0
        resultant.append(sense * np.hstack([moments, rows[own, 3:]]).T)
        held[own] = True
    if not resultant:
        raise ValueError(f"link: no loop holds {robot.links[number - 1].name!r}")
    G, x = np.hstack(resultant), np.zeros(len(loops.rows))
    x[held] = multipliers(loops, q, given)[held]
    x[held] -= np.linalg.pinv(G, rcond=RANK) @ (G @ x[held])
    return wrenches(loops, q, x)
