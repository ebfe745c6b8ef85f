"""Actuators in TOML and MJCF files: one [[actuator]] table, or one <general> element, for each."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from nlink.formats.urdf_writer import numbers, written
from nlink.model.actuators import Actuator

_PAIRS = {"bias": 3, "command_range": 2, "force_range": 2}
"""What are several numbers, and how many."""
_KEYS = tuple(field.name for field in fields(Actuator))


def read_actuators(tables: Any, joints: Collection[str]) -> list[Actuator]:
    """The actuators of [[actuator]] tables on joints of these names."""
    if not isinstance(tables, list):
        raise ValueError("actuator: expected one [[actuator]] table for each")
    found = []
    for number, table in enumerate(tables, 1):
        if not isinstance(table, Mapping) or set(table) - set(_KEYS):
            raise ValueError(f"actuator {number}: expected a table with {', '.join(_KEYS)}")
        name, joint = table.get("name", f"actuator{number}"), table.get("joint")
        if not isinstance(name, str) or joint not in joints:
            raise ValueError(f"actuator {name!r}: joint {joint!r} does not exist")
        found.append(Actuator(name, str(joint), **{
            key: _numbers(name, key, table[key]) for key in _KEYS[2:] if key in table}))
    return found


def _numbers(name: str, key: str, given: Any) -> Any:
    """One number, or as many as the key has; only ranges may be infinite."""
    count = _PAIRS.get(key, 1)
    values = given if key in _PAIRS else [given]
    good = isinstance(values, list | tuple) and len(values) == count and all(
        isinstance(x, int | float) and not isinstance(x, bool) and not math.isnan(x)
        and (math.isfinite(x) or key.endswith("range")) for x in values)
    if not good or (key.endswith("range") and values[0] > values[1]):
        raise ValueError(f"actuator {name!r}: {key} {given!r}, expected "
                         f"{'a number' if count == 1 else f'{count} numbers'}"
                         + ", low <= high" * key.endswith("range"))
    return tuple(map(float, values)) if key in _PAIRS else float(given)


def actuator_table(actuator: Actuator) -> dict[str, Any]:
    """A table that `read_actuators` reads. Only what differs from the default is written."""
    plain = Actuator(actuator.name, actuator.joint)
    return {key: list(value) if isinstance(value := getattr(actuator, key), tuple) else value
            for key in _KEYS if key in ("name", "joint")
            or getattr(actuator, key) != getattr(plain, key)}


def write_actuators(root: Element, actuators: Collection[Actuator]) -> None:
    """Actuators as MJCF has them."""
    if not actuators:
        return
    section = SubElement(root, "actuator")
    for each in actuators:
        element = SubElement(
            section, "general", name=each.name, joint=each.joint, gaintype="fixed",
            gainprm=written(each.gain), biastype="affine", biasprm=numbers(each.bias),
            gear=written(each.gear))
        for word, bounds in (("ctrl", each.command_range), ("force", each.force_range)):
            if all(map(math.isfinite, bounds)):
                element.set(f"{word}limited", "true")
                element.set(f"{word}range", " ".join(map(repr, bounds)))
