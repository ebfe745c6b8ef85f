"""A mechanism with other parameters: gravity, inertias, placements of joints.

A change is written on any scalars: traced, a mechanism has numbers that vary between trajectories
of an ensemble, or by which results are differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nlink.model.description import Description
from nlink.model.mechanism import Attachment, Mechanism
from nlink.scalars.functions import Scalar, Scalars, cos, sin, sqrt
from nlink.spatial import Matrix, RigidInertia, Symmetric, Vector
from nlink.spatial.transform import Spin

Array = np.ndarray
SMALL = 1e-300
"""Added to the square of an angle: that of no turn has a derivative, too."""


@dataclass(frozen=True)
class ParameterChange:
    """A kind of parameter: its shape, its present values, and the mechanism with it changed."""

    shape: Callable[[Description, Mechanism], tuple[int, ...]]
    values: Callable[[Description, Mechanism], Array]
    """Changes are added to these, (...shape)."""
    apply: Callable[[Description, Mechanism, Scalars], Mechanism]
    """The mechanism with changes."""


def link_inertias(description: Description) -> Array:
    """(links, 10): the mass of each link, its first moments m c and its moments of inertia xx, yy,
    zz, xy, xz, yz about the origin of its frame, in its axes."""
    rows = []
    for link in description.links:
        c = np.array(link.com, dtype=float)
        J = np.array(link.inertia, dtype=float) + link.mass * (c @ c * np.eye(3) - np.outer(c, c))
        rows.append([link.mass, *(link.mass * c), J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2],
                     J[1, 2]])
    return np.array(rows).reshape(len(description.links), 10)


def _gravity(description: Description, mechanism: Mechanism, d: Scalars) -> Mechanism:
    return replace(mechanism, gravity=mechanism.gravity + Vector(*d).rotate(mechanism.base.R.T))


def _inertia(description: Description, mechanism: Mechanism, d: Scalars) -> Mechanism:
    joints = list(mechanism.joints)
    for link, own in zip(mechanism.links[1:], _rows(d, 10), strict=True):
        if link.body:
            m, hx, hy, hz, *J = own
            more = _seen_from_body(link, m, Vector(hx, hy, hz), Symmetric(*J))
            joint = joints[link.body - 1]
            joints[link.body - 1] = replace(joint, inertia=joint.inertia + more)
    return replace(mechanism, joints=tuple(joints))


def _seen_from_body(link: Attachment, m: Scalar, h: Vector, J: Symmetric) -> RigidInertia:
    """Moments of mass about a link's origin, about the origin of its body: S = tr(J)/2 - J."""
    S = Symmetric((J.yy + J.zz - J.xx) * 0.5, (J.xx + J.zz - J.yy) * 0.5,
                  (J.xx + J.yy - J.zz) * 0.5, -J.xy, -J.xz, -J.yz)
    return RigidInertia(m, h.rotate(link.R), S.rotate(link.R)).shift(link.p)


def _placement(description: Description, mechanism: Mechanism, d: Scalars) -> Mechanism:
    moving = [joint for joint in description.joints if joint.type.nv]
    joints = []
    for joint, given, own in zip(mechanism.joints, moving, _rows(d, 6), strict=True):
        link = mechanism.links[given.parent]  # in which the displacement is given
        turn, shift = (Vector(*part).rotate(link.R) for part in (own[:3], own[3:]))
        arm = joint.p - link.p
        spin = _rotation(turn)
        joints.append(replace(joint, p=link.p + shift + arm.rotate(spin),
                              fixed=(Spin(spin), *joint.fixed)))
    return replace(mechanism, joints=tuple(joints))


def _rotation(turn: Vector) -> Matrix:
    """The rotation by a vector, Rodrigues' formula in half angles: 1 + a [t] + b [t]^2 with
    a = sin(w) / w and b = (1 - cos w) / w^2 = (sin(w/2) / (w/2))^2 / 2."""
    x, y, z = turn.x, turn.y, turn.z
    half = 0.5 * sqrt(x * x + y * y + z * z + SMALL)
    s = sin(half) / half
    a, b = s * cos(half), 0.5 * s * s
    return Matrix.from_rows((
        (1 - b * (y * y + z * z), b * x * y - a * z, b * x * z + a * y),
        (b * x * y + a * z, 1 - b * (x * x + z * z), b * y * z - a * x),
        (b * x * z - a * y, b * y * z + a * x, 1 - b * (x * x + y * y))))


def _of_rates(name: str) -> ParameterChange:
    def change(description: Description, mechanism: Mechanism, d: Scalars) -> Mechanism:
        return replace(mechanism, joints=tuple(
            replace(joint, **{name: tuple(x + y for x, y in zip(
                getattr(joint, name), own, strict=True))})
            for joint, own in zip(mechanism.joints, mechanism.split(d, "nv"), strict=True)))

    return ParameterChange(
        lambda description, mechanism: (mechanism.nv,),
        lambda description, mechanism: np.array(
            [x for joint in mechanism.joints for x in getattr(joint, name)], dtype=float), change)


def _rows(values: Scalars, width: int) -> Sequence[Scalars]:
    return [values[k:k + width] for k in range(0, len(values), width)]


CHANGES: dict[str, ParameterChange] = {
    "gravity": ParameterChange(
        lambda description, mechanism: (3,),
        lambda description, mechanism: np.array(description.gravity, dtype=float), _gravity),
    "inertia": ParameterChange(
        lambda description, mechanism: (len(description.links), 10),
        lambda description, mechanism: link_inertias(description), _inertia),
    "placement": ParameterChange(
        lambda description, mechanism: (len(mechanism.joints), 6),
        lambda description, mechanism: np.zeros((len(mechanism.joints), 6)), _placement),
    **{name: _of_rates(name) for name in ("armature", "viscous", "coulomb")},
}
"""Each kind of parameter by its name."""
