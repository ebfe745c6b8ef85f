"""The mechanism as algorithms see it: moving bodies only, each frame on its own joint.

Every body's frame has its z axis along the joint that carries it and is slid and turned
along that axis so that the first child is reached by a shift along x and a tilt about x
(Khalil and Kleinfinger). Fixed joints are gone; the author's frames are constant placements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nlink.model.constraints import Constraint
from nlink.model.contacts import Contact
from nlink.model.joints import Coordinates, JointType
from nlink.model.spaces import Product, Space
from nlink.scalars.functions import Scalar, exp, literal, sign
from nlink.scalars.lazy import lazy
from nlink.spatial import Matrix, RigidInertia, Rotation, Transform, Turn, Twist, Vector, Wrench

NO_TURN = Turn("z", 1, 0)


@dataclass(frozen=True, slots=True)
class MovingJoint:
    """A joint and the body it carries, in frames that lie on the joint.

    From the parent's frame: shift by p, the fixed turns (about z, then x), the joint's motion
    by q + zero, then a constant turn `last` about z and a `rise` along it. Only coordinates of
    a flat space have a zero other than 0.
    """

    type: JointType
    p: Vector
    fixed: tuple[Turn, ...]
    last: Turn
    rise: Scalar
    zero: Coordinates
    inertia: RigidInertia
    armature: Coordinates
    viscous: Coordinates
    coulomb: Coordinates
    excess: Coordinates
    """The friction at which the joint breaks away, beyond Coulomb friction."""
    falloff: Coordinates
    """How that excess e decreases: e exp(-falloff qd^2)."""

    def transform(self, q: Coordinates) -> Transform:
        """From the body to its parent."""
        moved = self.type.displacement(self._coordinates(q))
        turns = moved.turns
        final = turns[-1] if turns else None
        if isinstance(final, Turn) and final.axis == self.last.axis:
            turns = (*turns[:-1], final @ self.last)
        else:
            turns = (*turns, self.last)
        r = self.last.to_child(moved.r) + Vector(0, 0, self.rise)
        R = Rotation((*self.fixed, *turns))
        return Transform(self.p + Rotation(self.fixed).to_parent(moved.p), R, r)

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        """S qd: the body's twist relative to its parent, in its own axes."""
        return self._to_body(self.type.rate(self._coordinates(q), qd))

    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist:
        """The derivative of the components of S u along a motion: S ud + Sdot u."""
        return self._to_body(self.type.rate_change(self._coordinates(q), qd, u, ud))

    def subspace(self, q: Coordinates) -> tuple[Twist, ...]:
        """The columns of S: one twist for a unit of each rate."""
        return tuple(self.rate(q, unit) for unit in self.units)

    @property
    def axes(self) -> tuple[str, ...] | None:
        """The coordinate axes along which the rates move the body, each another one; None if they
        depend on the state."""
        unknown = (None,) * self.type.nq
        try:
            S = [self._to_body(self.type.rate(unknown, unit)) for unit in self.units]
        except TypeError:
            return None
        axes = tuple(s.axis for s in S if s.axis is not None)
        return axes if len(set(axes)) == len(S) else None

    @property
    def units(self) -> tuple[Coordinates, ...]:
        """A unit of each rate."""
        nv = self.type.nv
        return tuple(tuple(int(j == k) for j in range(nv)) for k in range(nv))

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        """S^T f."""
        f = Wrench(self.last.to_parent(f.moment), self.last.to_parent(f.force))
        return self.type.project(self._coordinates(q), f)

    def friction(self, qd: Coordinates) -> Coordinates:
        """The joint force that friction takes: viscous qd + dry sign(qd), which is 0 at rest."""
        return tuple(v * x + c * sign(x)
                     for v, c, x in zip(self.viscous, self.dry_friction(qd), qd, strict=True))

    def dry_friction(self, qd: Coordinates) -> Coordinates:
        """The level of dry friction at rates qd, and the largest at rest: Stribeck's
        coulomb + excess exp(-falloff qd^2)."""
        return tuple(c if literal(e) == 0 else c + e * exp(-(w * x * x)) for c, e, w, x in zip(
            self.coulomb, self.excess, self.falloff, qd, strict=True))

    def rotor(self, qdd: Coordinates) -> Coordinates:
        """The joint force that accelerates the armature."""
        return tuple(a * x for a, x in zip(self.armature, qdd, strict=True))

    def _coordinates(self, q: Coordinates) -> Coordinates:
        return tuple(x + x0 for x, x0 in zip(q, self.zero, strict=True))

    def _to_body(self, t: Twist) -> Twist:
        return Twist(self.last.to_child(t.angular), self.last.to_child(t.linear))


@dataclass(frozen=True, slots=True)
class Attachment:
    """A frame of the author's, fixed in moving body `body` (0 is the base)."""

    body: int
    R: Matrix
    p: Vector


@dataclass(frozen=True, slots=True)
class FrameMotion:
    """How frame b of a closure moves on its body, on which `Closure.b` is where it is now: its
    twist at its own origin and the rate of that, in the axes of the body."""

    twist: Twist
    rate: Twist

    def change(self, w: Vector) -> Twist:
        """The rate of the twist with which b's body, turning with w, carries what is on b."""
        return Twist(self.rate.angular + w.cross(self.twist.angular),
                     self.rate.linear + w.cross(self.twist.linear) * 2)


@dataclass(frozen=True, slots=True)
class Closure:
    """A loop: frame a is held on frame b, of another body.

    `size` is the largest length in the bodies that the loop is made of, `arms` the largest in
    either body that it holds, the distance of its frame from the body's joint among them.
    `motion` is that of frame b on its body, for a constraint that is rigid.
    """

    constraint: Constraint
    a: Attachment
    b: Attachment
    size: float
    arms: tuple[float, float]
    motion: FrameMotion | None = None

    @property
    def scales(self) -> tuple[float, ...]:
        """The unit of each row's error: a radian, or the size of the loop."""
        return tuple(math.hypot(m, f * self.size) for m, f in self.constraint.magnitudes)


@dataclass(frozen=True, slots=True)
class GearRow:
    """A gear: the sum of ratios times the coordinates of joints (from 0) is the offset.

    `length` is the largest in the mechanism: what coordinates that are lengths are measured by.
    """

    joints: tuple[int, ...]
    ratios: tuple[Scalar, ...]
    offset: Scalar
    angular: bool
    """Whether the first joint turns, so that the sum is an angle."""
    scale: float
    """The unit of its error."""
    length: float


@dataclass(frozen=True)
class Mechanism:
    """Moving bodies 1..n with parent[i - 1] < i; numbers or any other scalar.

    `gravity` is in the base frame of this structure, which `base` places in the world.
    `links` are the author's link frames, the base first. `closures` hold bodies of the tree
    together, `gears` tie joints. `contacts` are pairs of features that may touch.
    """

    joints: tuple[MovingJoint, ...]
    parents: tuple[int, ...]
    gravity: Vector
    base: Attachment
    links: tuple[Attachment, ...]
    closures: tuple[Closure, ...] = ()
    gears: tuple[GearRow, ...] = ()
    carries: tuple[tuple[bool, bool], ...] = ()
    """For joints, then closures, whether child and parent resist their rates alone, as the author's
    numbers are; empty if all do."""
    contacts: tuple[Contact, ...] = ()

    @lazy
    def space(self) -> Space:
        """The space of q: the product of the spaces of the joints."""
        return Product(tuple(joint.type.space for joint in self.joints))

    @lazy
    def nq(self) -> int:
        return sum(joint.type.nq for joint in self.joints)

    @lazy
    def nv(self) -> int:
        return sum(joint.type.nv for joint in self.joints)

    @property
    def rows(self) -> int:
        """Scalar equations of all closures and gears."""
        return sum(closure.constraint.count for closure in self.closures) + len(self.gears)

    @property
    def closed(self) -> bool:
        """Whether there are closures or gears."""
        return bool(self.closures or self.gears)

    @property
    def size(self) -> float:
        """The size of the largest loop; of a mechanism with gears alone, its largest length."""
        return max([closure.size for closure in self.closures]
                   or [gear.length for gear in self.gears])

    @property
    def scales(self) -> tuple[float, ...]:
        """The unit of the error of each row of closures and gears."""
        return (*(x for closure in self.closures for x in closure.scales),
                *(gear.scale for gear in self.gears))

    def split(self, values: Any, width: str) -> list[Coordinates]:
        """A flat sequence as one tuple for each joint; `width` is "nq" or "nv"."""
        flat = iter(values)
        return [tuple(next(flat) for _ in range(getattr(joint.type, width)))
                for joint in self.joints]

    def regrouped(self, along: Sequence[bool] | None = None) -> Mechanism:
        """The same equations of motion from fewer numbers (base parameters), along all joints or
        those that are given.

        What a body's motion about its own joint does not show is given to its parent,
        tip to base. Joint forces, accelerations, M and C are unchanged; energies of rest,
        reaction wrenches and the papers' own objects need the original.
        """
        inertias = [joint.inertia for joint in self.joints]
        for i in reversed(range(len(inertias))):
            if along is not None and not along[i]:
                continue
            joint, parent = self.joints[i], self.parents[i]
            inertias[i], moved = joint.type.regroup(inertias[i])
            if parent:
                rest = Transform(joint.p, Rotation((*joint.fixed, joint.last)),
                                 Vector(0, 0, joint.rise))
                inertias[parent - 1] += moved.to_parent(rest)
        return replace(self, joints=tuple(
            replace(joint, inertia=inertia)
            for joint, inertia in zip(self.joints, inertias, strict=True)))
