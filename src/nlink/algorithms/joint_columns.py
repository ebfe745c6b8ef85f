"""What joints add to a regressor: friction, offsets and rotors, each rate its own columns.

    tau = Y pi + viscous qd + coulomb s + offset + stribeck s exp(-(qd / v)^2) + armature qdd

where s = tanh(qd / width), the sign of qd without its jump. Friction may also differ between the
two directions: viscous by `viscous_difference` |qd|, dry by `coulomb_difference` |s|.
"""

from __future__ import annotations

from collections.abc import Sequence

from nlink.model.mechanism import Mechanism
from nlink.scalars.functions import Scalar, abs, exp, tanh

FRICTION = ("viscous", "coulomb", "offset", "stribeck", "asymmetric")
"""What `friction=` may name; "dry" is another word for "coulomb"."""
SAME = {"dry": "coulomb"}


def column_kinds(friction: Sequence[str], armature: bool) -> tuple[str, ...]:
    """The kinds of columns that are asked for, in their order; unknown names are refused.

    Friction that differs between the directions has two kinds, but beside an offset one: an offset
    is a difference of dry friction wherever a joint moves.

    >>> column_kinds(("viscous", "dry"), armature=True)
    ('viscous', 'coulomb', 'armature')
    """
    if isinstance(friction, str) or not all(isinstance(name, str) for name in friction):
        raise ValueError(f"friction: {friction!r}, expected names, such as ('viscous', 'coulomb')")
    names = [SAME.get(name, name) for name in friction]
    for name in names:
        if name not in FRICTION:
            raise ValueError(f"friction: {name!r}, expected some of {', '.join(FRICTION)}")
    kinds = [name for name in FRICTION[:-1] if name in names]
    if "asymmetric" in names:
        kinds += ["viscous_difference"] + ["coulomb_difference"] * ("offset" not in names)
    return (*kinds, *(["armature"] * armature))


def joint_column(kind: str, qd: Scalar, qdd: Scalar, width: Scalar, stribeck: Scalar) -> Scalar:
    """What one rate feels of a unit of one kind."""
    match kind:
        case "viscous":
            return qd
        case "offset":
            return 1.0
        case "armature":
            return qdd
        case "viscous_difference":
            return abs(qd)
    slides = tanh(qd / width)
    if kind == "coulomb_difference":
        return abs(slides)
    x = qd / stribeck
    return slides * exp(-(x * x)) if kind == "stribeck" else slides


def joint_parameters(mechanism: Mechanism, kind: str) -> list[Scalar]:
    """The numbers of one kind that a mechanism has, one for each rate."""
    name = {"stribeck": "excess"}.get(kind, kind)
    return [x for joint in mechanism.joints
            for x in getattr(joint, name, (0.0,) * joint.type.nv)]
