"""Descriptions as TOML: a table for each link, frame, loop and actuator, as `dh` reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from nlink.formats.actuator_tables import actuator_table
from nlink.formats.collision_tables import collision_table, world_table
from nlink.formats.rows import joint_fields
from nlink.formats.visual_tables import SIZES, visual_table
from nlink.model.actuators import Motor
from nlink.model.constraints import Distance, Rows, Screw
from nlink.model.description import Description, Friction, Joint, Limits, Link, Loop
from nlink.model.joints import DEFINED
from nlink.model.pose import DH, Pose


def to_toml(description: Description) -> str:
    """TOML text that `parse_toml` reads back to an equal description."""
    places = [joint.placement for joint in description.joints]
    conventions = {place.convention for place in places if isinstance(place, DH)}
    if len(conventions) > 1:
        raise ValueError(f"{description.name}: rows of both DH conventions, expected one")
    names = [description.base, *(link.name for link in description.links)]
    top: dict[str, Any] = {"name": description.name}
    if conventions:
        top["convention"] = conventions.pop()
    top["gravity"] = _floats(description.gravity)
    if description.source:
        top["source"] = description.source
    if description.home:
        top["home"] = _floats(description.home)
    if description.pairs:
        top["pairs"] = list(map(list, description.pairs))
    tables = [
        *(("[[link]]", _write_row(number, link, joint, names)) for number, (link, joint)
          in enumerate(zip(description.links, description.joints, strict=True), 1)),
        *(("[[frame]]", {"name": frame.name, "link": names[frame.link],
                         **_write_pose(frame.pose)}) for frame in description.frames),
        *(("[[loop]]", _write_loop(loop, names)) for loop in description.loops),
        *(("[[gear]]", {"name": gear.name, "ratios": dict(gear.ratios), "offset": gear.offset})
          for gear in description.gears),
        *(("[[actuator]]", actuator_table(each)) for each in description.actuators
          if any(each.joint == joint.name for joint in description.joints)),
        *(("[[collision]]", collision_table(each, _write_pose(each.shape.pose)))
          for each in description.collisions),
        *(("[[visual]]", visual_table(each, _write_pose(each.pose)))
          for each in description.visuals if each.shape in SIZES),
        *([("[world]", world_table(description.world, _write_pose))]
          if description.world else [])]
    return _lines(top) + "".join(f"\n{head}\n{_lines(table)}" for head, table in tables)


def _write_row(number: int, link: Link, joint: Joint, names: list[str]) -> dict[str, Any]:
    if DEFINED.get(joint.type.name) is not type(joint.type):
        raise ValueError(f"joint {joint.name!r}: files know another type as {joint.type.name!r}, "
                         f"expected a name of its own for {type(joint.type).__name__}")
    row: dict[str, Any] = {"name": link.name}
    if joint.name != f"joint{number}":
        row["joint_name"] = joint.name
    row["joint"] = joint.type.name
    if joint.parent != number - 1:
        row["parent"] = names[joint.parent]
    for key, field in joint_fields(type(joint.type)).items():
        value = getattr(joint.type, key)
        if key != "axis" or value != field.default:
            row[key] = _write_parameter(joint, key, value)
    place = joint.placement
    if isinstance(place, DH):
        row |= {"a": place.a, "b": place.b,
                **_write_angle("alpha", place.alpha), **_write_angle("theta", place.theta)}
    else:
        row |= {"placement": _write_pose(place.before), "after": _write_pose(place.after)}
    diagonal = all(link.inertia[i][j] == 0 for i in range(3) for j in range(3) if i != j)
    row |= {"mass": link.mass, "com": _floats(link.com),
            "inertia": _floats(link.inertia[k][k] for k in range(3)) if diagonal
            else list(map(_floats, link.inertia))}
    if joint.friction != Friction():
        row["friction"] = joint.friction.table
    if not joint.actuated:
        row["actuated"] = False
    if joint.armature:
        row["armature"] = joint.armature
    if joint.motor != Motor():
        row["motor"] = {"ratio": joint.motor.ratio, "inertia": joint.motor.inertia}
    if joint.limits != Limits():
        row["limits"] = {"position": _floats(joint.limits.position),
                         "velocity": joint.limits.velocity, "effort": joint.limits.effort}
    if joint.mimic is not None:
        row["mimic"] = {"joint": joint.mimic.joint, "multiplier": joint.mimic.multiplier,
                        "offset": joint.mimic.offset}
    return row


def _write_loop(loop: Loop, names: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": loop.name, "joint": loop.constraint.name}
    if isinstance(loop.constraint, Screw):
        row["pitch"] = loop.constraint.pitch
    if isinstance(loop.constraint, Distance):
        row["length"] = loop.constraint.length
    if isinstance(loop.constraint, Rows):
        row["matrix"] = list(map(_floats, loop.constraint.matrix))
    for key, end in (("of", loop.of), ("on", loop.on)):
        row[key] = {"link": names[end.link], **_write_pose(end.pose)}
    return row


def _write_parameter(joint: Joint, key: str, value: Any) -> str | float | list[float]:
    if isinstance(value, str | bool | int):
        return value
    try:
        return _floats(value) if isinstance(value, list | tuple) else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"joint {joint.name!r}: {key} = {value!r}, expected a number, numbers or "
                         "text for a file") from None


def _write_pose(pose: Pose) -> dict[str, Any]:
    if pose.rotation == Pose().rotation:
        return {"xyz": _floats(pose.origin)}
    return {"xyz": _floats(pose.origin), "rotation": list(map(_floats, pose.rotation))}


def _write_angle(key: str, angle: float) -> dict[str, float]:
    degrees = round(math.degrees(angle), 9)
    if math.radians(degrees) == angle:  # the table's own number, and still exact
        return {f"{key}_deg": degrees}
    return {key: angle}


def _floats(values: Iterable[float]) -> list[float]:
    return [float(value) for value in values]


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{_line(key, value)}\n" for key, value in table.items())


def _line(key: str, value: Any) -> str:
    """`key = value` as files have it: arrays and tables in a row on one line, long texts on
    several. By itself tomli-w has a line for each number, and moves tables to the end."""
    import tomli_w  # not needed to read

    if isinstance(value, dict):
        return f"{key} = {{ {', '.join(map(_line, value, value.values()))} }}"
    if isinstance(value, list) and value and all(isinstance(x, dict) for x in value):
        rows = (_line(key, row).removeprefix(f"{key} = ") for row in value)
        return f"{key} = [{', '.join(rows)}]"
    lines = isinstance(value, str) and "\r\n" not in value  # which would come back as \n
    text = tomli_w.dumps({key: value}, multiline_strings=lines, indent=0).rstrip("\n")
    if isinstance(value, list):  # of numbers: these ends of lines are only layout
        text = text.replace("[\n", "[").replace(",\n]", "]").replace(",\n", ", ")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else f"\\U{ord(c):08x}" for c in text)
