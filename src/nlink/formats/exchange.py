"""States to and from Pinocchio and MuJoCo: q, v, a, tau and M in the other library's terms.

Their rates are v = T(q) qd, where T permutes ours and, for MuJoCo's free joint, turns the linear
part into world axes. T is orthogonal, so joint forces and the mass matrix go by T too,
tau' = T tau and M' = T M T^T, and accelerations are a' = T (qdd + w x v on linear parts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nlink.formats.bridges import mujoco_order, pinocchio_order
from nlink.model.description import Description
from nlink.model.joints import Free, Planar
from nlink.model.quaternions import quaternion_matrix

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Exchange:
    """Our order against another library's, for arrays with any leading batch shape.

    >>> import nlink
    >>> x = Exchange.mujoco(nlink.load("planar3").description)
    >>> x.q([1, 2, 3])
    array([1., 2., 3.])
    """

    coordinates: Array
    """Their q, entry by entry, is ours at these places."""
    rates: Array
    circles: frozenset[int] = frozenset()
    """Places in our q of angles that they keep as (cos, sin)."""
    free: tuple[tuple[int, int], ...] = ()
    """(place in q, place in qd) of free joints whose linear rates they keep in world axes."""

    @classmethod
    def pinocchio(cls, description: Description, model: Any) -> Exchange:
        """For a `pinocchio.Model` with joints of the same names, in whatever order.

        A continuous joint has two coordinates there, (cos, sin).
        """
        order = pinocchio_order(description)
        at_q = at_v = 0
        places: dict[str, tuple[int, int, int, int]] = {}
        for joint in description.joints:
            places[joint.name] = at_q, joint.type.nq, at_v, joint.type.nv
            at_q, at_v = at_q + joint.type.nq, at_v + joint.type.nv
        planar = {joint.name for joint in description.joints if isinstance(joint.type, Planar)}
        coordinates: list[int] = []
        rates: list[int] = []
        circles: set[int] = set()
        for name, theirs in zip(list(model.names)[1:], list(model.joints)[1:], strict=True):
            if name not in places:
                raise ValueError(f"joint {name!r} of the model does not exist in "
                                 f"{description.name}")
            q, nq, v, nv = places[name]
            if theirs.nv != nv or (theirs.nq != nq and not (nq == 1 and theirs.nq == 2)):
                kind = "planar" if name in planar else f"{theirs.nq} coordinates"
                raise ValueError(f"joint {name!r}: Pinocchio's {theirs.shortname()} ({kind}) has "
                                 "no equal here")
            if theirs.nq != nq:
                circles.add(q)
            coordinates += order.coordinates[q:q + nq].tolist()
            rates += order.rates[v:v + nv].tolist()
        return cls(np.array(coordinates, dtype=int), np.array(rates, dtype=int),
                   frozenset(circles))

    @classmethod
    def mujoco(cls, description: Description) -> Exchange:
        """For the model MuJoCo compiles from `to_mjcf`, or that `read_mjcf` has read."""
        order = mujoco_order(description)
        free, at_q, at_v = [], 0, 0
        for joint in description.joints:
            if isinstance(joint.type, Free):
                free.append((at_q, at_v))
            at_q, at_v = at_q + joint.type.nq, at_v + joint.type.nv
        return cls(order.coordinates, order.rates, free=tuple(free))

    def q(self, q: ArrayLike) -> Array:
        """Their coordinates from ours."""
        q = np.asarray(q, dtype=float)
        columns: list[Array] = []
        for k in self.coordinates.tolist():
            columns += [np.cos(q[..., k]), np.sin(q[..., k])] if k in self.circles else [q[..., k]]
        return np.stack(columns, -1) if columns else q

    def q_back(self, theirs: ArrayLike) -> Array:
        """Our coordinates from theirs; an angle kept as (cos, sin) comes back in (-pi, pi]."""
        theirs = np.asarray(theirs, dtype=float)
        q = np.empty((*theirs.shape[:-1], len(self.coordinates)))
        at = 0
        for k in self.coordinates.tolist():
            if k in self.circles:
                q[..., k] = np.arctan2(theirs[..., at + 1], theirs[..., at])
            else:
                q[..., k] = theirs[..., at]
            at += 2 if k in self.circles else 1
        return q

    def v(self, q: ArrayLike, qd: ArrayLike) -> Array:
        """Their rates from ours; `q` is ours."""
        return self._turned(q, qd, back=False)[..., self.rates]

    def v_back(self, q: ArrayLike, theirs: ArrayLike) -> Array:
        """Our rates from theirs; `q` is ours."""
        return self._turned(q, np.asarray(theirs, dtype=float)[..., np.argsort(self.rates)],
                            back=True)

    def a(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """Their accelerations from ours: a world-axes velocity also turns with the body."""
        return self.v(q, np.asarray(qdd, dtype=float) + self._turning(qd))

    def a_back(self, q: ArrayLike, qd: ArrayLike, theirs: ArrayLike) -> Array:
        """Our accelerations from theirs; `q` and `qd` are ours."""
        return self.v_back(q, theirs) - self._turning(qd)

    def tau(self, q: ArrayLike, tau: ArrayLike) -> Array:
        """Their joint forces from ours, of equal power: tau' . v' = tau . qd."""
        return self.v(q, tau)

    def tau_back(self, q: ArrayLike, theirs: ArrayLike) -> Array:
        """Our joint forces from theirs."""
        return self.v_back(q, theirs)

    def M(self, q: ArrayLike, M: ArrayLike) -> Array:
        """Their mass matrix from ours, T M T^T; columns of a Jacobian go by `J`."""
        rows = self.J(q, M)
        return np.swapaxes(self.J(q, np.swapaxes(rows, -1, -2)), -1, -2)

    def M_back(self, q: ArrayLike, theirs: ArrayLike) -> Array:
        """Our mass matrix from theirs, T^T M' T."""
        q = np.asarray(q, dtype=float)[..., None, :]
        rows = self.v_back(q, theirs)
        return np.swapaxes(self.v_back(q, np.swapaxes(rows, -1, -2)), -1, -2)

    def J(self, q: ArrayLike, J: ArrayLike) -> Array:
        """J T^T: a Jacobian of ours, (..., rows, n), for their rates."""
        return self.v(np.asarray(q, dtype=float)[..., None, :], J)

    def _turned(self, q: ArrayLike, rates: ArrayLike, *, back: bool) -> Array:
        """Rates with the linear parts of free joints turned into world axes, or back."""
        q, rates = np.asarray(q, dtype=float), np.array(rates, dtype=float)
        for at_q, at_v in self.free:
            w, x, y, z = (q[..., at_q + k] for k in range(3, 7))
            R = np.array(np.broadcast_arrays(*(
                e for row in quaternion_matrix(w, x, y, z).rows for e in row)))
            R = np.moveaxis(R, 0, -1).reshape(*w.shape, 3, 3)
            linear = rates[..., at_v + 3:at_v + 6, None]
            turned = (np.swapaxes(R, -1, -2) if back else R) @ linear
            rates[..., at_v + 3:at_v + 6] = turned[..., 0]
        return rates

    def _turning(self, qd: ArrayLike) -> Array:
        """w x v of each free joint, at its linear rates; zero elsewhere."""
        qd = np.asarray(qd, dtype=float)
        turning = np.zeros_like(qd)
        for _, at in self.free:
            turning[..., at + 3:at + 6] = np.cross(qd[..., at:at + 3], qd[..., at + 3:at + 6])
        return turning
