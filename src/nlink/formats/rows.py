"""Rows of tables: their keys, and composite joints written out.

A row whose `joint` is a list of joints is a composite: a massless link for each but the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from typing import Any

from nlink.model.joints import DEFINED, JointType
from nlink.model.names import did_you_mean

PART_KEYS = {"joint", "joint_name", "axis", "pitch", "friction", "armature", "limits", "mimic",
             "actuated", "motor"}
LINK_KEYS = {"name", "mass", "com", "inertia", "after"}
DH_KEYS = {"a", "b", "alpha", "theta", "alpha_deg", "theta_deg"}
ROW_KEYS = PART_KEYS | LINK_KEYS | DH_KEYS | {"parent", "placement"}


def expanded(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """Rows of one joint each, named, with the number of the row they come from."""
    found: list[tuple[int, Mapping[str, Any]]] = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise TypeError(f"row {number}: {type(row).__name__}, expected a mapping")
        named = {"name": f"link{number}", "joint_name": f"joint{number}", **row}
        try:
            parts = _parts(named) if isinstance(row.get("joint"), list | tuple) else [named]
        except ValueError as error:
            raise ValueError(f"row {number}: {error}") from None
        found += [(number, part) for part in parts]
    return found


def _parts(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of a composite joint: its placement goes with the first part, and what comes
    after it, with the link, to the last.

    >>> [part["name"] for part in _parts({"name": "hand", "joint_name": "wrist", "joint": [
    ...     {"joint": "revolute"}, {"joint": "prismatic", "joint_name": "slide"}]})]
    ['hand:wrist_1', 'hand']
    """
    joints = row["joint"]
    if len(joints) < 2 or not all(isinstance(joint, Mapping) for joint in joints):
        raise ValueError(f"joint: {joints!r}, expected a name, or two tables or more")
    check_keys(row, ROW_KEYS)
    own = set(row) & (PART_KEYS - {"joint", "joint_name"})
    if own:
        raise ValueError(f"{min(own)!r} belongs into one of the tables of a composite joint")
    unfit = set(row) & DH_KEYS
    if unfit:
        raise ValueError(f"{min(unfit)!r}: a composite joint has a placement, not DH parameters")
    parts = []
    for k, joint in enumerate(joints, 1):
        check_keys(joint, PART_KEYS | joint_keys(joint))
        if isinstance(joint.get("joint"), list | tuple):
            raise ValueError(f"joint: part {k} of a composite joint is a list, expected the name "
                             "of a joint type")
        name = joint.get("joint_name", f"{row['joint_name']}_{k}")
        parts.append({"placement": {}, **joint, "joint_name": name,
                      "name": f"{row['name']}:{name}"})
    parts[0] |= {key: row[key] for key in ("placement", "parent") if key in row}
    parts[-1] |= {key: row[key] for key in LINK_KEYS if key in row}
    return parts


def joint_fields(kind: type[JointType]) -> dict[str, Field[Any]]:
    """The parameters of a joint type, which are keys of its row."""
    own = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    taken = sorted(set(own) & (ROW_KEYS - {"axis", "pitch"}))
    if taken:
        raise ValueError(f"a {kind.name} joint has a parameter {taken[0]!r}, which means something "
                         "else in a file, expected another name")
    return own


def joint_keys(row: Mapping[str, Any]) -> set[str]:
    """The keys that a row has because of its joint type."""
    name = row.get("joint")
    return set(joint_fields(DEFINED[name])) if isinstance(name, str) and name in DEFINED else set()


def check_keys(table: Mapping[str, Any], keys: set[str]) -> None:
    """Refuse a table with a key that means nothing."""
    unknown = sorted(set(table) - keys)
    if unknown:
        hint = "; the length d of other libraries is b here" if (
            unknown[0] == "d" and "b" in keys) else did_you_mean(unknown[0], keys)
        raise ValueError(f"unknown key {unknown[0]!r}, expected some of "
                         f"{', '.join(sorted(keys))}{hint}")
