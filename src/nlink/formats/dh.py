"""DH rows, as mappings in Python and as tables in TOML, to descriptions.

A row describes a link and the joint that carries it. Rows with `placement` instead of DH
parameters, and with `parent`, describe any tree, so every robot can be written (`toml_writer`);
reading back gives an equal description, number for number.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from typing import Any, cast

import numpy as np

from nlink.formats.actuator_tables import read_actuators
from nlink.formats.collision_tables import read_collisions, read_pairs, read_world
from nlink.formats.files import LARGEST
from nlink.formats.rows import (
    DH_KEYS,
    ROW_KEYS,
    check_keys,
    expanded,
    joint_fields,
    joint_keys,
)
from nlink.formats.visual_tables import read_visuals
from nlink.model.actuators import Actuator, Motor
from nlink.model.canonical import align
from nlink.model.constraints import CONSTRAINTS
from nlink.model.description import (
    Description,
    Frame,
    Friction,
    Joint,
    Limits,
    Link,
    Loop,
    Physical,
)
from nlink.model.gears import Gear, read_gears
from nlink.model.joints import DEFINED, JOINT_TYPES, JointType
from nlink.model.mimics import Mimic
from nlink.model.names import base_name
from nlink.model.pose import DH, Convention, Mount, Placement, Pose

MAX_DEPTH = 32
"""Parts of a key, and brackets within brackets."""
MAX_ROWS = 50_000
"""Links and frames of a file."""
_TOP_KEYS = {"name", "convention", "gravity", "source", "link", "frame", "loop", "gear", "home",
             "actuator", "collision", "visual", "world", "pairs"}


def from_rows(rows: Sequence[Mapping[str, Any]], *, convention: Convention = "standard",
              gravity: Sequence[float] = (0.0, 0.0, -9.81), name: str = "robot",
              source: str = "", frames: Sequence[Frame] = (), report: Sequence[str] = (),
              physical: Physical = "warn", loops: Sequence[Loop] = (),
              gears: Sequence[Gear] = (),
              actuators: Sequence[Actuator] = (),
              home: Sequence[float] = ()) -> Description:
    """A description from rows, mappings as the [[link]] tables of a TOML file are.

    A row has `joint`, the lengths and angles `a, b, alpha, theta` (m, rad; the joint variable
    is added to `theta` or `b`), and `mass`, `com` and `inertia` (about the mass centre) in the
    link's own frame; optional are `friction`, `armature`, `limits` and `name`.
    """
    if isinstance(rows, Mapping | str) or not isinstance(rows, Sequence):
        raise TypeError(f"rows: {type(rows).__name__}, expected a sequence of mappings")
    links, joints = [], []
    numbered = expanded(rows)
    known = {_base([row for _, row in numbered], *(frame.name for frame in frames)): 0}
    for number, row in numbered:
        try:
            link, joint = _read_row(row, convention, known, len(links))
        except (ValueError, TypeError) as error:
            raise type(error)(f"row {number}: {error}") from None
        links.append(link)
        joints.append(joint)
        if isinstance(link.name, str):  # else the description refuses it
            known.setdefault(link.name, len(links))
    return Description(
        name=name, links=tuple(links), joints=tuple(joints), frames=tuple(frames),
        gravity=_vector("gravity", gravity), source=source, report=tuple(report),
        physical=physical, loops=tuple(loops), gears=tuple(gears),
        home=tuple(home), actuators=tuple(actuators))


def _base(tables: Sequence[Any], *names: str) -> str:
    """What the frame that never moves is called beside the names in these tables and others."""
    named = [table.get("name") for table in tables if isinstance(table, Mapping)]
    return base_name([*names, *(name for name in named if isinstance(name, str))])


def _read_row(row: Mapping[str, Any], convention: Convention, known: dict[str, int], last: int,
              ) -> tuple[Link, Joint]:
    check_keys(row, ROW_KEYS | joint_keys(row))
    link = Link(
        name=row["name"],
        mass=_number(row, "mass"),
        com=_vector("com", row.get("com", (0.0, 0.0, 0.0))),
        inertia=_inertia(row.get("inertia", (0.0, 0.0, 0.0))),
    )
    friction = _table(row, "friction", {field.name for field in fields(Friction)})
    limits = _table(row, "limits", {"position", "velocity", "effort"})
    joint = Joint(
        name=row["joint_name"],
        type=_joint_type(row),
        parent=_parent(row.get("parent"), known, last),
        placement=_placement(row, convention),
        friction=Friction(*(_number(friction, field.name) for field in fields(Friction))),
        armature=_number(row, "armature"),
        limits=Limits(
            _pair("position limits", limits.get("position", (-math.inf, math.inf))),
            _number(limits, "velocity", math.inf, math.inf),
            _number(limits, "effort", math.inf, math.inf)),
        mimic=_mimic(row),
        motor=_motor(row),
        actuated=_flag(row, "actuated", default=True),
    )
    return link, joint


def _joint_type(row: Mapping[str, Any]) -> JointType:
    kind = row.get("joint", "revolute")
    if not isinstance(kind, str) or kind not in DEFINED:
        raise ValueError(f"joint {kind!r}, expected one of {', '.join(JOINT_TYPES)}, or a type of "
                         "your own that has been defined before")
    known = joint_fields(DEFINED[kind])
    for key, field in known.items():
        if key not in row and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"a {kind} joint needs {key}")
    for key in ("axis", "pitch"):
        if key in row and key not in known:
            raise ValueError(f"a {kind} joint has no {key}")
    return DEFINED[kind](**{key: _parameter(row, key, field.type)
                            for key, field in known.items() if key in row})


def _parameter(row: Mapping[str, Any], key: str, kind: Any) -> Any:
    """A parameter of a joint type: of the simple kind its field declares, a vector, or a number."""
    for simple in (str, bool, int):
        if kind in (simple, simple.__name__):
            if type(row[key]) is not simple:
                raise TypeError(f"{key}: {row[key]!r}, expected {simple.__name__}")
            return row[key]
    if key == "axis":
        return _vector(key, row[key])
    return _number_list(key, row[key]) if isinstance(row[key], list | tuple) else _number(row, key)


def _motor(row: Mapping[str, Any]) -> Motor:
    table = _table(row, "motor", {"ratio", "inertia"})
    return Motor(_number(table, "ratio", 1.0), _number(table, "inertia"))


def _mimic(row: Mapping[str, Any]) -> Mimic | None:
    if "mimic" not in row:
        return None
    table = _table(row, "mimic", {"joint", "multiplier", "offset"})
    if not isinstance(table.get("joint"), str):
        raise ValueError(f"mimic: {dict(table)!r}, expected the name of a joint to follow")
    return Mimic(table["joint"], _number(table, "multiplier", 1.0), _number(table, "offset"))


def _placement(row: Mapping[str, Any], convention: Convention) -> Placement:
    if "placement" in row or "after" in row:
        extra = DH_KEYS & set(row)
        if extra:
            raise ValueError(f"{min(extra)!r} and a placement exclude each other")
        return Mount(_pose(row.get("placement", {})), _pose(row.get("after", {})))
    return DH(_number(row, "a"), _number(row, "b"), _angle(row, "alpha"), _angle(row, "theta"),
              convention)


def _pose(table: Any) -> Pose:
    if not isinstance(table, Mapping) or set(table) - {"xyz", "rotation"}:
        raise ValueError("placement: expected a table with xyz and rotation (3x3)")
    return Pose(tuple(_vector("rotation", r) for r in table.get("rotation", Pose().rotation)),
                _vector("xyz", table.get("xyz", (0.0, 0.0, 0.0))))


def _parent(parent: Any, known: dict[str, int], last: int) -> int:
    if parent is None:
        return last
    if not isinstance(parent, str) or parent not in known:
        raise ValueError(f"parent {parent!r} is not {next(iter(known))!r} nor an earlier link")
    return known[parent]


def _angle(row: Mapping[str, Any], key: str) -> float:
    if f"{key}_deg" not in row:
        return _number(row, key)
    if key in row:
        raise ValueError(f"both {key} and {key}_deg are given")
    return math.radians(_number(row, f"{key}_deg"))


def _number(row: Mapping[str, Any], key: str, default: float = 0.0,
            largest: float = LARGEST) -> float:
    value = row.get(key, default)
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{key}: {value!r}, expected a number")
    return _sane(key, value, largest)


def _sane(what: str, value: Any, largest: float = LARGEST) -> float:
    """A number, infinite perhaps, but not so large that its square is."""
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        raise ValueError(f"{what}: expected at most {LARGEST:g}") from None
    if largest < abs(number) < math.inf:
        raise ValueError(f"{what}: {number:g}, expected at most {largest:g}")
    return number


def _vector(what: str, values: Any) -> tuple[float, float, float]:
    try:
        x, y, z = (_sane(what, v) for v in values)
    except (TypeError, ValueError):
        raise ValueError(f"{what}: {values!r}, expected three numbers of at most "
                         f"{LARGEST:g}") from None
    return x, y, z


def _pair(what: str, values: Any) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in values)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what}: {values!r}, expected two numbers") from None
    return low, high


def _inertia(values: Any) -> tuple[tuple[float, float, float], ...]:
    """Three principal moments, or the full 3x3 tensor."""
    shape = np.shape(values)
    if shape == (3,):
        xx, yy, zz = _vector("inertia", values)
        return (xx, 0.0, 0.0), (0.0, yy, 0.0), (0.0, 0.0, zz)
    if shape != (3, 3):
        raise ValueError(f"inertia: shape {shape}, expected three moments or a 3x3 tensor")
    return tuple(_vector("inertia", row) for row in values)


def _flag(row: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = row.get(key, default)
    if not isinstance(value, bool):
        raise TypeError(f"{key}: {value!r}, expected true or false")
    return value


def _table(row: Mapping[str, Any], key: str, keys: set[str]) -> Mapping[str, Any]:
    table = row.get(key, {})
    if not isinstance(table, Mapping) or set(table) - keys:
        raise ValueError(f"{key}: {table!r}, expected a table of {', '.join(sorted(keys))}")
    return table


_TOKEN = re.compile(r'''
    """(?: [^"\\] | \\. | "(?!"") )*+ "{0,5}        # strings, which are never looked into again,
  | '{3}(?: [^'] | '(?!'') )*+ '{0,5}            # whether they end or not
  | "(?: [^"\\\n] | \\. )*+ "?
  | '[^'\n]*+ '?
  | \#[^\n]*+
  | [][{}.=,\n]
    ''', re.DOTALL | re.VERBOSE)


def _check_depth(text: str) -> None:
    """Refuse keys of many parts and brackets within brackets, which cost a parser the square of
    their number, before there is a parser."""
    parts = depth = 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign == ".":
            parts += 1
        elif len(sign) == 1:
            parts = 0
            depth = max(0, depth + (sign in "[{") - (sign in "]}"))
        if parts >= MAX_DEPTH or depth > MAX_DEPTH:
            raise ValueError(f"a key of more than {MAX_DEPTH} parts, or brackets nested deeper")


def parse_toml(text: str, *, origin: str = "<toml>", physical: Physical = "warn") -> Description:
    """A description from TOML text."""
    try:
        _check_depth(text)
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{origin}: not valid TOML: {error}") from None
    unknown = sorted(set(data) - _TOP_KEYS)
    if unknown:
        raise ValueError(f"{origin}: unknown key {unknown[0]!r}, "
                         f"expected some of {', '.join(sorted(_TOP_KEYS))}")
    rows, frames = data.get("link", []), data.get("frame", [])
    if not isinstance(rows, list) or not rows or not isinstance(frames, list):
        raise ValueError(f"{origin}: expected one [[link]] table for each link")
    if len(rows) + len(frames) > MAX_ROWS:
        raise ValueError(f"{origin}: {len(rows)} links and {len(frames)} frames, expected at most "
                         f"{MAX_ROWS} together")
    for key in ("name", "source"):
        if not isinstance(data.get(key, ""), str):
            raise ValueError(f"{origin}: {key}: {data[key]!r}, expected a string")
    try:
        links = [row for _, row in expanded(rows)]
        names = [_base([*links, *frames]), *(row["name"] for row in links)]
        found = from_rows(
            rows, convention=cast(Convention, data.get("convention", "standard")),
            gravity=data.get("gravity", (0.0, 0.0, -9.81)),
            name=data.get("name", "robot"), source=data.get("source", ""),
            frames=[_frame(frame, names) for frame in frames], physical=physical,
            loops=read_loops(data.get("loop", []), names),
            gears=read_gears(data.get("gear", [])),
            home=_number_list("home", data.get("home", [])),
            actuators=read_actuators(data.get("actuator", []),
                                     {row["joint_name"] for row in links}))
        world = read_world(data["world"], _pose) if "world" in data else None
        shapes = read_collisions(data.get("collision", []), _pose)
        pairs = read_pairs(data.get("pairs", []))
        visuals = read_visuals(data.get("visual", []), _pose)
        unknown = [each.link for each in visuals if each.link and each.link not in names]
        if unknown:
            raise ValueError(f"visual: link {unknown[0]!r} does not exist")
        return replace(found, collisions=tuple(shapes), world=world, pairs=pairs,
                       visuals=visuals) if shapes or world or pairs or visuals else found
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{origin}: {error}") from None


def _frame(table: Any, names: list[str]) -> Frame:
    if not isinstance(table, Mapping) or set(table) - {"name", "link", "xyz", "rotation"}:
        raise ValueError("frame: expected a table with name, link, xyz and rotation")
    link = table.get("link", names[-1])
    if link not in names:
        raise ValueError(f"frame {table.get('name')!r}: link {link!r} does not exist")
    pose = {key: table[key] for key in ("xyz", "rotation") if key in table}
    return Frame(table.get("name", ""), names.index(link), _pose(pose))


def read_loops(tables: Any, names: list[str]) -> list[Loop]:
    """Loops from tables: name, joint (a key of CONSTRAINTS) and what it needs, `of` and `on`."""
    if not isinstance(tables, list):
        raise ValueError("loop: expected one [[loop]] table for each loop")
    loops = []
    for number, table in enumerate(tables, 1):
        if not isinstance(table, Mapping):
            raise ValueError(f"loop {number}: {type(table).__name__}, expected a table")
        name = table.get("name", f"loop{number}")
        try:
            loops.append(_read_loop(table, name, names))
        except (ValueError, TypeError) as error:
            raise ValueError(f"loop {name!r}: {error}") from None
    return loops


def _read_loop(table: Mapping[str, Any], name: Any, names: list[str]) -> Loop:
    unknown = sorted(set(table) - {"name", "joint", "axis", "pitch", "length", "matrix", "of",
                                   "on"})
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}, expected some of name, joint, axis, "
                         "pitch, length, matrix, of, on")
    kind = table.get("joint")
    if not isinstance(kind, str) or kind not in CONSTRAINTS:
        raise ValueError(f"joint {kind!r}, expected one of {', '.join(CONSTRAINTS)}")
    options: dict[str, Any] = {}
    for number in ("pitch", "length"):
        if number in table:
            options[number] = _number(table, number)
    if "matrix" in table:
        options["matrix"] = tuple(_number_list("matrix", row) for row in _list_of("matrix", table))
    known = {field.name for field in fields(CONSTRAINTS[kind])}  # type: ignore[arg-type]
    if options.keys() != known:
        wrong = min(options.keys() ^ known)
        raise ValueError(f"a {kind} loop {'needs' if wrong in known else 'has no'} {wrong}")
    turn = align(_axis(table["axis"])) if "axis" in table else Pose()
    ends = []
    for end in ("of", "on"):
        place = table.get(end)
        if not isinstance(place, Mapping) or set(place) - {"link", "xyz", "rotation"}:
            raise ValueError(f"{end}: {place!r}, expected a table with link, xyz and rotation")
        if place.get("link") not in names:
            raise ValueError(f"{end}: link {place.get('link')!r} does not exist")
        pose = _pose({key: value for key, value in place.items() if key != "link"})
        ends.append(Frame(f"{name}.{end}", names.index(place["link"]), pose @ turn))
    return Loop(name, CONSTRAINTS[kind](**options), *ends)


def _list_of(key: str, table: Mapping[str, Any]) -> list[Any]:
    """A list, or what Python has instead of one: a tuple, an array."""
    if not isinstance(table[key], list | tuple | np.ndarray):
        raise ValueError(f"{key}: {table[key]!r}, expected a list")
    return list(table[key])


def _number_list(key: str, values: Any) -> tuple[float, ...]:
    values = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(values, list | tuple) or any(
            isinstance(x, bool) or not isinstance(x, int | float) for x in values):
        raise ValueError(f"{key}: {values!r}, expected a list of numbers")
    return tuple(_sane(key, x) for x in values)


def _axis(values: Any) -> tuple[float, float, float]:
    axis = np.array(_vector("axis", values))
    if not np.linalg.norm(axis):
        raise ValueError(f"axis: {values!r}, expected a direction")
    return tuple((axis / np.linalg.norm(axis)).tolist())
