"""Gears, racks, differentials: conditions on the coordinates of joints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nlink.model.mimics import leads
from nlink.model.names import did_you_mean

if TYPE_CHECKING:
    from nlink.model.description import Description, Joint


@dataclass(frozen=True, slots=True)
class Gear:
    """A gear: the sum of `ratios` times joint coordinates stays at `offset`, radians and metres.

    A gear that turns the other way three times as fast, a rack on a wheel of 2 cm, and a
    differential, whose carrier turns with the mean of its two sides:

    >>> pair = Gear("pair", {"wheel": 3.0, "pinion": 1.0})
    >>> rack = Gear("rack", {"slide": 1.0, "wheel": -0.02})
    >>> differential = Gear("differential", {"left": 0.5, "right": 0.5, "carrier": -1.0})

    The force of a gear acts on each joint times its ratio, so that the gear does no work. Joints
    of any number may be named; each has one coordinate.
    """

    name: str
    ratios: Mapping[str, float] = field(hash=False)
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.ratios, Mapping) or not self.ratios:
            raise ValueError(f"gear {self.name!r}: ratios {self.ratios!r:.80}, expected a mapping "
                             "from names of joints to numbers")
        for what, x in (*self.ratios.items(), ("offset", self.offset)):
            number = isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)
            if not number or (x == 0 and what in self.ratios):
                raise ValueError(f"gear {self.name!r}: {what} {x!r:.80}, expected a finite number"
                                 + (" that is not 0" if what in self.ratios else ""))
        object.__setattr__(self, "ratios", {name: float(x) for name, x in self.ratios.items()})

    @property
    def equation(self) -> str:
        """Its equation, as text.

        >>> Gear("pair", {"wheel": 3.0, "pinion": -1.0}, 0.5).equation
        '3 wheel - pinion = 0.5'
        """
        text = ""
        for name, x in self.ratios.items():
            number = "" if abs(x) == 1 else f"{abs(x):.6g} "
            sign = ("-" if x < 0 else "") if not text else " - " if x < 0 else " + "
            text += f"{sign}{number}{name}"
        return f"{text} = {self.offset:.6g}"

    def check(self, joints: Mapping[str, Joint]) -> None:
        """Raise ValueError if a joint does not exist, or has more than one coordinate."""
        for name in self.ratios:
            if name not in joints:
                raise ValueError(f"gear {self.name!r}: joint {name!r} does not exist"
                                 f"{did_you_mean(name, list(joints))}")
            if (joints[name].type.nq, joints[name].type.nv) != (1, 1):
                raise ValueError(f"gear {self.name!r}: joint {name!r} is "
                                 f"{joints[name].type.name}, expected joints of one coordinate")


def read_gears(tables: object) -> list[Gear]:
    """Gears from tables with the keys name, ratios and offset."""
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise ValueError("gear: expected one [[gear]] table for each gear")
    gears = []
    for number, table in enumerate(tables, 1):
        if isinstance(table, Gear):
            gears.append(table)
            continue
        if not isinstance(table, Mapping):
            raise ValueError(f"gear {number}: {type(table).__name__}, expected a table")
        unknown = sorted(set(table) - {"name", "ratios", "offset"})
        if unknown:
            raise ValueError(f"gear {number}: unknown key {unknown[0]!r}, expected some of name, "
                             "ratios, offset")
        gears.append(Gear(table.get("name", f"gear{number}"), table.get("ratios", {}),
                          table.get("offset", 0.0)))
    return gears


def geared(description: Description) -> Description:
    """The mechanism with a gear in place of each mimic, which makes the joint follow."""
    taken = {*(loop.name for loop in description.loops), *(gear.name for gear in description.gears)}
    gears = list(description.gears)
    for follower, (lead, factor, offset) in leads(description.joints).items():
        name = follower if follower not in taken else f"{follower} follows"
        ratios = {follower: 1.0} | ({lead.name: -factor} if factor else {})
        gears.append(Gear(name, ratios, offset))
    return replace(description, gears=tuple(gears), joints=tuple(
        replace(joint, mimic=None) for joint in description.joints),
        home=_following(description))


def _following(description: Description) -> tuple[float, ...]:
    """Home, or the joints' own zeros, with followers where they follow to."""
    home = list(description.home) or [
        x for joint in description.joints for x in joint.type.space.neutral]
    places, at = dict[str, int](), 0
    for joint in description.joints:
        places[joint.name], at = at, at + joint.type.nq
    for follower, (lead, factor, offset) in leads(description.joints).items():
        home[places[follower]] = factor * home[places[lead.name]] + offset
    return tuple(home)
