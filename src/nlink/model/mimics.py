"""Joints that follow others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nlink.model.description import Joint


@dataclass(frozen=True, slots=True)
class Mimic:
    """The joint that another one follows: q = multiplier * q of `joint` + offset. The algorithms
    let every joint move independently; `robot.geared` and `nlink.Coupled` make it follow.

    >>> import nlink
    >>> nlink.Mimic("finger_left", multiplier=-1.0).multiplier
    -1.0
    """

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0


Lead = tuple["Joint", float, float]
"""A joint that follows none, and the multiplier and offset by which another follows it."""


def leads(joints: Sequence[Joint]) -> dict[str, Lead]:
    """For each joint that follows another, by name, whom it follows in the end.

    A joint may follow one that follows a third: a (a' q + b') + b.
    """
    by_name = {joint.name: joint for joint in joints}
    found: dict[str, Lead] = {}
    for joint in joints:
        path: dict[str, Joint] = {}  # followers whose lead is not yet known
        who = joint
        while who.mimic is not None and who.name not in found:
            if who.name in path:
                raise ValueError(f"joint {joint.name!r}: mimics itself"
                                 + (", through others" if len(path) > 1 else ""))
            if who.mimic.joint not in by_name:
                raise ValueError(f"joint {who.name!r}: mimics {who.mimic.joint!r}, "
                                 "which does not exist")
            path[who.name] = who
            who = by_name[who.mimic.joint]
        lead, factor, offset = found.get(who.name, (who, 1.0, 0.0))
        for follower in reversed(path.values()):
            assert follower.mimic is not None
            factor = follower.mimic.multiplier * factor
            offset = follower.mimic.multiplier * offset + follower.mimic.offset
            _check(follower, lead, factor, offset)
            found[follower.name] = lead, factor, offset
    return found


def _check(follower: Joint, lead: Joint, factor: float, offset: float) -> None:
    if not (math.isfinite(factor) and math.isfinite(offset)):
        raise ValueError(f"joint {follower.name!r}: follows {lead.name!r} by {factor} q + "
                         f"{offset}, expected finite numbers")
    for end in (follower, lead):
        if end.type.nv != 1:
            raise ValueError(f"joint {follower.name!r}: mimics {lead.name!r}, but {end.name!r} is "
                             f"{end.type.name}, expected joints of one rate")
