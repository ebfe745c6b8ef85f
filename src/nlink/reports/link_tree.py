"""A robot as a tree of links, drawn with lines: what `nlink info` shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields

import numpy as np

from nlink.model.names import first_few, visible
from nlink.robot import Robot

RIGHT = {"q", "mass", "limits"}
GIVES_WAY = ("frames", "joint", "limits", "mass")
"""Columns in the order in which they are left out where there is no room for all."""
LEGEND = "kg, rad or m; q counts from 0; a link without a branch hangs on the one above it"
PLAIN = str.maketrans({"├": "|", "└": "`", "│": "|", "─": "-"})
"""The lines in ASCII, for terminals that have no others."""


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link and what holds it, as text."""

    link: str
    joint: str = ""
    type: str = ""
    q: str = ""
    mass: str = ""
    limits: str = ""
    frames: str = ""


def link_tree(robot: Robot, width: int | None = None) -> list[str]:
    """A heading, one line for each link, a legend; within `width`, if given, columns are left
    out but no name is cut short.

    >>> import nlink
    >>> print(*link_tree(nlink.load("planar3"))[:-1], sep="\\n")
    link   joint   type        q  mass
    base
    link1  joint1  revolute z  0     1
    link2  joint2  revolute z  1     1
    link3  joint3  revolute z  2     1
    """
    rows = list(_rows(robot))
    names = [field.name for field in fields(LinkRow)]
    table = dict(zip(names, zip(*(astuple(row) for row in rows), strict=True), strict=True))
    widths = {name: max(len(name), *map(len, cells)) + 2 for name, cells in table.items()
              if any(cells)}
    missing = []
    for name in GIVES_WAY:
        if width is not None and name in widths and sum(widths.values()) > width + 2:
            del widths[name]
            missing.append(name)
    cells = [widths, *zip(*(table[name] for name in widths), strict=True)]
    legend = LEGEND + (f"; no room for {', '.join(missing)}" if missing else "")
    return [*(_line(widths, row) for row in cells), legend]


def _line(widths: dict[str, int], cells: Iterable[str]) -> str:
    padded = (cell.rjust(width - 2) if name in RIGHT else cell.ljust(width - 2)
              for (name, width), cell in zip(widths.items(), cells, strict=True))
    return "  ".join(padded).rstrip()


def _rows(robot: Robot) -> Iterator[LinkRow]:
    """The base, then links outward. A chain is not indented, only branches are, so that a long
    arm stays a column; massless links on fixed joints at the tips are frames of their carrier."""
    children = robot.description.children
    places = _coordinates(robot)
    waiting = [(0, "", "")]
    while waiting:
        number, branch, below = waiting.pop()
        frames = [k for k in children.get(number, []) if k not in children and _is_frame(robot, k)]
        bodies = [k for k in children.get(number, []) if k not in frames]
        named = [robot.frames[k] for k in frames] + [
            frame.name for frame in robot.description.frames if frame.link == number]
        yield _row(robot, number, branch, places[number], first_few(named))
        if len(bodies) < 2:
            waiting += [(k, below, below) for k in bodies]
        else:
            waiting.append((bodies[-1], f"{below}└─ ", f"{below}   "))
            waiting += [(k, f"{below}├─ ", f"{below}│  ") for k in bodies[-2::-1]]


def _row(robot: Robot, number: int, branch: str, place: str, frames: str) -> LinkRow:
    if not number:
        return LinkRow(visible(robot.frames[0]), frames=frames)
    link, joint = robot.links[number - 1], robot.joints[number - 1]
    kind = f"{joint.type.name} {_axis(joint.type.axis)}".strip()
    return LinkRow(branch + visible(link.name), visible(joint.name), kind, place,
                   f"{link.mass:.4g}" if link.mass else "-",
                   _range(joint.limits.position) if joint.type.nv else "", frames)


def _coordinates(robot: Robot) -> list[str]:
    """Where the coordinates of each link's joint are in q: an index or a slice."""
    found, at = [""], 0
    for joint in robot.joints:
        end = at + joint.type.nq
        found.append(("", str(at))[end - at] if end - at < 2 else f"{at}:{end}")
        at = end
    return found


def _is_frame(robot: Robot, number: int) -> bool:
    link, joint = robot.links[number - 1], robot.joints[number - 1]
    return joint.type.nv == 0 and link.mass == 0 and not np.any(link.inertia)


def _axis(axis: tuple[float, float, float] | None) -> str:
    """A letter for a coordinate axis, else three numbers."""
    if axis is None:
        return ""
    for letter, unit in zip("xyz", np.eye(3), strict=True):
        if np.array_equal(np.abs(axis), unit):
            return ("-" if sum(axis) < 0 else "") + letter
    return " ".join(f"{x:.3g}" for x in axis)


def _range(limits: tuple[float, float]) -> str:
    low, high = limits
    return "" if math.isinf(low) and math.isinf(high) else f"{low:.3g} .. {high:.3g}"
