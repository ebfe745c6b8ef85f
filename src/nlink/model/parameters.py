"""A mechanism with symbols in place of its numbers.

`generic` keeps only the zeros that the choice of frames guarantees for every mechanism of
this shape: what is left is the general-purpose algorithm of the papers' complexity tables.
`named` keeps this robot's own zeros and ones and names the rest for closed forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nlink.model.mechanism import NO_TURN, Mechanism, MovingJoint
from nlink.scalars.functions import Scalar, cos, sin
from nlink.spatial import RigidInertia, Symmetric, Turn, Vector

Make = Callable[[str], Scalar]


def generic(mechanism: Mechanism, make: Make) -> Mechanism:
    """Every parameter a mechanism of this shape may have, with ideal joints.

    What a joint type takes into the zero of its coordinates is what its `absorb` does with a
    turn and a rise; an angle is the DH angle itself, as in the papers.
    """
    seen: set[int] = set()
    joints = []
    for i, (joint, parent) in enumerate(zip(mechanism.joints, mechanism.parents, strict=True), 1):
        symbol = _numbered(make, i)
        first, leaf = parent not in seen, i not in mechanism.parents
        seen.add(parent)
        nothing = (0,) * joint.type.nv
        joints.append(replace(
            _generic_seat(joint, symbol, parent == 0 and first, first, leaf),
            inertia=RigidInertia(
                symbol("m"), Vector(symbol("hx"), symbol("hy"), symbol("hz")),
                Symmetric(*(symbol(f"S{c}") for c in ("xx", "yy", "zz", "xy", "xz", "yz")))),
            armature=nothing, viscous=nothing, coulomb=nothing, excess=nothing,
            falloff=nothing))
    return replace(mechanism, joints=tuple(joints),
                   gravity=Vector(make("gx"), make("gy"), make("gz")))


def _generic_seat(joint: MovingJoint, symbol: Make, root: bool, first: bool, leaf: bool,
                  ) -> MovingJoint:
    zero = (0,) * joint.type.nq
    if root:
        return replace(joint, p=Vector.zero(), fixed=(), last=NO_TURN, rise=0, zero=zero)
    tilt = Turn("x", symbol("ca"), symbol("sa"))
    if first:
        p, swing = Vector(symbol("a"), 0, 0), NO_TURN
        rise = 0 if leaf else symbol("b")
    else:
        p = Vector(symbol("px"), symbol("py"), symbol("pz"))
        swing, rise = Turn("z", symbol("cg"), symbol("sg")), 0
    if joint.type.axis is None:
        spin = Turn("z", symbol("ct"), symbol("st"))
        return replace(joint, p=p, fixed=(swing, tilt, spin), last=NO_TURN, rise=0, zero=zero)
    _, turned, _ = joint.type.absorb(Turn("z", 0.6, 0.8), 0.0)
    raised, _, left = joint.type.absorb(NO_TURN, 1.0)
    last = NO_TURN if leaf or turned.s == 0 else Turn("z", symbol("ct"), symbol("st"))
    return replace(joint, p=p, fixed=(swing, tilt), last=last, rise=rise if left else 0,
                   zero=tuple(rise if x else 0 for x in raised))


def named(mechanism: Mechanism, make: Make) -> Mechanism:
    """Symbols for this mechanism's non-zero numbers: m, c (mass centre), I (about it), a, b,
    alpha, theta, d (armature), f, k (viscous and Coulomb friction), e, w (the excess at breakaway
    and its falloff) and g.

    Lengths and angles between joint i and the next are numbered i, as in a DH table.
    """
    joints = []
    for i, (joint, parent) in enumerate(zip(mechanism.joints, mechanism.parents, strict=True), 1):
        own, link = _numbered(make, i), _numbered(make, parent)
        joints.append(replace(
            joint,
            p=_vector(joint.p, link, "a"),
            fixed=tuple(_turn(turn, link, name) for turn, name in zip(
                joint.fixed, ("gamma", "alpha", "beta"), strict=False)),
            last=_turn(joint.last, own, "theta"),
            rise=_nonzero(joint.rise, own, "b"),
            zero=tuple(_nonzero(x, own, "q0") for x in joint.zero),
            inertia=_named_inertia(joint.inertia, own),
            armature=tuple(_nonzero(x, own, "d") for x in joint.armature),
            viscous=tuple(_nonzero(x, own, "f") for x in joint.viscous),
            coulomb=tuple(_nonzero(x, own, "k") for x in joint.coulomb),
            excess=tuple(_nonzero(x, own, "e") for x in joint.excess),
            falloff=tuple(_nonzero(x, own, "w") for x in joint.falloff)))
    g = mechanism.gravity
    size = max(abs(x) for x in g.components)
    along = [x for x in g.components if abs(x) > 1e-12 * size]
    gravity = Vector(*(0 if abs(x) <= 1e-12 * size else make("g") * (1 if x > 0 else -1)
                       for x in g.components)) if len(along) == 1 else _vector(g, make, "g")
    return replace(mechanism, joints=tuple(joints), gravity=gravity)


def _numbered(make: Make, number: int) -> Make:
    return lambda name: make(f"{name}_{number}")


def _nonzero(x: Scalar, make: Make, name: str) -> Scalar:
    return make(name) if x != 0 else 0


def _vector(v: Vector, make: Make, name: str) -> Vector:
    """One symbol if one component is not zero, else one for each such component."""
    present = [c for c, x in zip("xyz", v.components, strict=True) if x != 0]
    names = {c: name if present == [c] == ["x"] else f"{name}{c}" for c in present}
    return Vector(*(make(names[c]) if c in names else 0 for c in "xyz"))


def _turn(turn: Turn, make: Make, name: str) -> Turn:
    """A turn by a named angle, unless it is a quarter turn."""
    if turn.c in (0, 1, -1):
        return Turn(turn.axis, int(turn.c), int(turn.s))
    angle = make(name)
    return Turn(turn.axis, cos(angle), sin(angle))


def _named_inertia(inertia: RigidInertia, make: Make) -> RigidInertia:
    """From symbols for the mass, the mass centre and the inertia about it."""
    if inertia.m == 0:
        return inertia
    centre = inertia.h * (1 / inertia.m)
    about = inertia.shift(centre * -1)
    J = about.J
    size = max(abs(x) for x in (*inertia.J.components, 1e-300))
    reach = max(abs(x) for x in (*centre.components, 1e-300))
    com = Vector(*(0 if abs(x) < 1e-12 * reach else x for x in centre.components))
    names = ("Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
    return RigidInertia.from_com(
        make("m"), _vector(com, make, "c"),
        Symmetric(*(make(name) if abs(x) > 1e-12 * size else 0
                    for x, name in zip(J.components, names, strict=True))))
