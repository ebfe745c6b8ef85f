"""Where links are, all of them at once, straight from the description.

T_i = T_parent before D(q_i) after, D being the joint's displacement in axes whose z is its own. One
4x4 product for each link, over any batch, and nothing to compile: what a slider needs. Tests
hold it against `robot.pose`, which goes another way.
"""

from __future__ import annotations

import numpy as np

from nlink.model.canonical import align
from nlink.model.description import Description
from nlink.model.joints import JointType
from nlink.spatial import Rotation

Array = np.ndarray


class LinkPlaces:
    """The poses of a description's links, the base first."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self.parents = [joint.parent for joint in description.joints]
        self.seats, self.ends = [], []
        for joint in description.joints:
            turn = align(joint.type.axis)
            self.seats.append((joint.placement.before @ turn).matrix)
            self.ends.append((turn.inverse() @ joint.placement.after).matrix)

    def __call__(self, q: Array) -> Array:
        """(..., links + 1, 4, 4) of configurations (..., nq)."""
        q = np.asarray(q, float)
        T = np.empty((*q.shape[:-1], len(self.parents) + 1, 4, 4))
        T[..., 0, :, :] = np.eye(4)
        start = 0
        for k, joint in enumerate(self.description.joints):
            own = tuple(q[..., start + i] for i in range(joint.type.nq))
            start += joint.type.nq
            here = T[..., self.parents[k], :, :] @ self.seats[k]
            if joint.type.nq:
                here = here @ _displacement(joint.type, own, q.shape[:-1])
            T[..., k + 1, :, :] = here @ self.ends[k]
        return T


def _displacement(kind: JointType, q: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
    """What a joint does at its coordinates: x = p + R (r + x')."""
    moved = kind.displacement(q)
    D = np.zeros((*shape, 4, 4))
    D[..., 3, 3] = 1.0
    columns = Rotation(moved.turns).matrix()
    for j, column in enumerate((columns.x, columns.y, columns.z)):
        for i, x in enumerate(column.components):
            D[..., i, j] = x
    for i, x in enumerate(moved.p.components):
        D[..., i, 3] = x
    rise = np.stack([np.broadcast_to(np.asarray(x, float), shape) for x in moved.r.components], -1)
    D[..., :3, 3] += np.einsum("...ij,...j->...i", D[..., :3, :3], rise)
    return D


def quaternions(R: Array) -> Array:
    """Unit quaternions (..., 4), scalar first, of rotation matrices (..., 3, 3).

    Of the four formulas the one with the largest divisor is taken [Shepperd 1978].
    """
    m = np.moveaxis(np.asarray(R, float), (-2, -1), (0, 1))
    squares = np.stack([1 + m[0, 0] + m[1, 1] + m[2, 2], 1 + m[0, 0] - m[1, 1] - m[2, 2],
                        1 - m[0, 0] + m[1, 1] - m[2, 2], 1 - m[0, 0] - m[1, 1] + m[2, 2]], -1)
    x, y, z = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    xy, xz, yz = m[0, 1] + m[1, 0], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1]
    rows = np.stack([np.stack([squares[..., 0], x, y, z], -1),
                     np.stack([x, squares[..., 1], xy, xz], -1),
                     np.stack([y, xy, squares[..., 2], yz], -1),
                     np.stack([z, xz, yz, squares[..., 3]], -1)], -2)
    largest = squares.argmax(-1)[..., None, None]
    found = np.take_along_axis(rows, largest, -2)[..., 0, :]
    return found / np.linalg.norm(found, axis=-1, keepdims=True)
