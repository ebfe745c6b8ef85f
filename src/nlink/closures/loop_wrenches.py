"""What the loops of a mechanism carry: a multiplier for each row, or a wrench for each loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nlink.closures.balance import RANK

if TYPE_CHECKING:
    from nlink.closures.loops import Loops

Array = np.ndarray


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
    for loop, own in zip(robot.description.loops, loops.row_slices, strict=True):
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
