"""The shapes that touch: what of a link, or of the world, is solid.

A shape is placed in the frame of its link by `pose`. `friction` and `restitution` are its own,
or those of the world if None (see `nlink.World`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from nlink.model.pose import Pose
from nlink.scalars.arrays import single


def _positive(who: str, name: str, value: float) -> None:
    if not (isinstance(value, int | float | np.number) and math.isfinite(value) and value > 0):
        raise ValueError(f"{who}: {name} {value!r:.80}, expected a finite number > 0")


def check_friction(who: str, friction: float | None, restitution: float | None) -> None:
    """Coefficients that a law of contact can have, or None."""
    if friction is not None and not (math.isfinite(friction) and friction >= 0):
        raise ValueError(f"{who}: friction {friction!r:.80}, expected a finite number >= 0")
    if restitution is not None and not 0 <= restitution <= 1:
        raise ValueError(f"{who}: restitution {restitution!r:.80}, expected a number from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class SolidShape:
    """What all shapes have: where they are in their link, and what they are made of."""

    pose: Pose = field(default_factory=Pose)
    friction: float | None = None
    """Coulomb's coefficient; None is the world's."""
    restitution: float | None = None
    """The part of the normal speed that a bounce leaves; None is the world's."""

    def __post_init__(self) -> None:
        who = self.kind
        if not isinstance(self.pose, Pose):
            raise TypeError(f"{who}: pose is a {type(self.pose).__name__}, expected a nlink.Pose")
        check_friction(who, self.friction, self.restitution)
        self._check(who)

    @property
    def kind(self) -> str:
        """The shape's name in sentences and files."""
        return type(self).__name__.lower()

    def _check(self, who: str) -> None:
        """Refuse sizes that no body has."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sphere(SolidShape):
    """A ball.

    >>> import nlink
    >>> nlink.Sphere(0.016, friction=0.9).radius
    0.016
    """

    radius: float

    def _check(self, who: str) -> None:
        _positive(who, "radius", self.radius)


@dataclass(frozen=True)
class Capsule(SolidShape):
    """A cylinder along z with half a ball at either end; `length` is that of the cylinder.

    >>> import nlink
    >>> nlink.Capsule(0.02, 0.1).length
    0.1
    """

    radius: float
    length: float

    def _check(self, who: str) -> None:
        _positive(who, "radius", self.radius)
        _positive(who, "length", self.length)


@dataclass(frozen=True)
class Box(SolidShape):
    """A box by its full edges along x, y and z.

    >>> import nlink
    >>> nlink.Box((0.2, 0.1, 0.1)).edges
    (0.2, 0.1, 0.1)
    """

    edges: tuple[float, float, float]

    def _check(self, who: str) -> None:
        x, y, z = single(f"{who}: edges", self.edges, (3,)).tolist()
        for edge in (x, y, z):
            _positive(who, "edge", edge)
        object.__setattr__(self, "edges", (x, y, z))
