"""A joint that does not move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlink.model.joints.base import Coordinates, Displacement, JointType
from nlink.spatial import Twist, Vector


@dataclass(frozen=True, slots=True)
class Fixed(JointType):
    """No motion: the two bodies become one before any algorithm sees them.

    >>> import nlink
    >>> nlink.Fixed().nq, nlink.Fixed().nv
    (0, 0)
    """

    nv: ClassVar[int] = 0
    name: ClassVar[str] = "fixed"

    def displacement(self, q: Coordinates) -> Displacement:
        return Displacement(Vector.zero(), (), Vector.zero())

    def rate(self, q: Coordinates, qd: Coordinates) -> Twist:
        return Twist.zero()
