"""The contract of a joint type: how one body may move on another.

A joint type is one class with a few short methods, written on any scalar, so that every
algorithm, engine and derivative works with it at once. See docs/adding-a-joint.md for a worked
example.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nlink.model.spaces import Coordinates, Lines, Space
from nlink.spatial import RigidInertia, Spin, Turn, Twist, Vector, Wrench

DEFINED: dict[str, type[JointType]] = {}
"""Every joint type that has been defined, nlink's own and users', by the name files use."""


@dataclass(frozen=True, slots=True)
class Displacement:
    """The displacement of a body by its joint: offset p in the joint's fixed axes, turns, rise r in
    the moved axes.

    >>> import nlink
    >>> nlink.Prismatic((0, 0, 1)).displacement((0.3,))
    Displacement(p=Vector(x=0, y=0, z=0), turns=(), r=Vector(x=0, y=0, z=0.3))
    """

    p: Vector
    turns: tuple[Turn | Spin, ...]
    r: Vector


class JointType(ABC):
    """The contract of a joint type, a frozen dataclass whose fields are its parameters.

    It needs

    1. `name`, by which files know it, and `nv`, the number of its rates. Its coordinates are
       then as many plain numbers, with the rates as their derivatives; a joint with other
       coordinates has a `space` of its own instead of `nv`.
    2. `displacement(q)`: the moved frame in the fixed one. The z axis of both is the joint's
       axis: `axis` is its direction in the user's joint frame, or None if the type has no axis
       (it then acts in the user's own axes). The model turns the frames, a type never sees any
       other axis than z.
    3. `rate(q, qd)`: the body's twist relative to its parent, S(q) qd, in the moved axes.

    and may have

    4. `rate_change(q, qd, u, ud)`: the derivative of the components of S u along a motion with
       rates qd, S ud + Sdot u. With u = qd it is the body's relative acceleration. The default
       is for a constant S, and refuses others.
    5. `project(q, f)`: S(q)^T f for a wrench f in the moved axes, one number for each rate. The
       default takes S from `rate`.
    6. `regroup(inertia)`: (kept, moved) with kept + moved = inertia, where `moved` is the part
       whose motion does not depend on this joint's coordinates; it is added to the parent
       before run time. The default moves nothing.
    7. `absorb(turn, rise)`: (zero, turn, rise), a constant turn about z and rise along z after
       the motion, taken into the zero of plain coordinates as far as that saves work. The
       default takes nothing. Called with numbers.

    Steps 2 to 5 use + - * / sin cos sqrt and literal zeros and ones, and no branches on values.

    >>> import nlink
    >>> for joint in (nlink.Revolute(), nlink.Spherical(), nlink.Planar()):
    ...     print(joint.name, joint.nq, joint.nv)
    ...
    revolute 1 1
    spherical 4 3
    planar 3 3
    """

    nq: ClassVar[int]
    nv: ClassVar[int]
    name: ClassVar[str]
    space: ClassVar[Space]
    axis: tuple[float, float, float] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls)
        if "space" not in own and "nv" in own:
            cls.space = Lines(cls.nv)
        if "space" in own or "nv" in own:
            for width in ("nq", "nv"):
                size = getattr(cls.space, width)
                if own.get(width, size) != size:
                    raise TypeError(f"{cls.__name__}: {width} = {own[width]}, expected {size} as "
                                    f"in its space {cls.space}")
                setattr(cls, width, size)
        if "name" in own:
            _define(cls)

    @abstractmethod
    def displacement(self, q: Coordinates) -> Displacement: ...

    @abstractmethod
    def rate(self, q: Coordinates, qd: Coordinates) -> Twist: ...

    def rate_change(self, q: Coordinates, qd: Coordinates, u: Coordinates, ud: Coordinates,
                    ) -> Twist:
        try:
            return self.rate((None,) * self.nq, ud)  # S is constant if it does without q
        except TypeError:
            raise TypeError(f"{type(self).__name__}: rate(q, qd) depends on q, expected a "
                            "rate_change(q, qd, u, ud) = S ud + Sdot u of its own") from None

    def project(self, q: Coordinates, f: Wrench) -> Coordinates:
        units = (tuple(int(j == k) for j in range(self.nv)) for k in range(self.nv))
        return tuple(self.rate(q, unit).dot(f) for unit in units)

    def regroup(self, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
        return inertia, RigidInertia.zero()

    def absorb(self, turn: Turn, rise: float) -> tuple[tuple[float, ...], Turn, float]:
        return (0,) * self.nq, turn, rise


def _define(kind: type[JointType]) -> None:
    """Make a type known to files; a later definition of a name replaces a user's earlier one."""
    known = DEFINED.get(kind.name)
    package = __name__.rpartition(".")[0]
    if known is not None and known.__module__.startswith(package) and (
            kind.__module__, kind.__qualname__) != (known.__module__, known.__qualname__):
        raise TypeError(f"{kind.__name__}: name = {kind.name!r} is that of nlink's own type, "
                        "expected another")
    DEFINED[kind.name] = kind


def unit_axis(axis: Sequence[float]) -> tuple[float, float, float]:
    """The direction of an axis given with any length; exact for coordinate axes, idempotent."""
    x, y, z = (float(c) for c in axis)
    norm = math.sqrt(x * x + y * y + z * z)
    if not (math.isfinite(norm) and norm > 0):
        raise ValueError(f"axis: {tuple(axis)} has no direction, expected a finite non-zero vector")
    if abs(norm - 1) <= 4e-16:  # a unit vector to rounding is one: a second reading is the same
        return x, y, z
    return x / norm, y / norm, z / norm


@dataclass(frozen=True, slots=True)
class AxialJoint(JointType):
    """The base of joints with an axis, whose direction may be given with any length.

    >>> import nlink
    >>> issubclass(nlink.Revolute, nlink.AxialJoint), nlink.Revolute((0, 0, 2)).axis
    (True, (0.0, 0.0, 1.0))
    """

    axis: tuple[float, float, float] | None = (0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", unit_axis(self.axis or (0.0, 0.0, 1.0)))
