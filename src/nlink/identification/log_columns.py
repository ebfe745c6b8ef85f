"""Which column of a log is what: kinds and joints from names such as `q_1` or `elbow.effort`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nlink.model.names import did_you_mean, first_few
from nlink.robot import Robot

Array = np.ndarray
STATE_KINDS = ("q", "qd", "qdd", "tau", "current")
WORDS = {
    "t": "t time times timestamp timestamps stamp stamps secs seconds clock zeit",
    "q": "q pos position positions angle angles theta",
    "qd": "qd dq qdot vel velocity velocities speed rate rates",
    "qdd": "qdd ddq qddot acc accel acceleration accelerations",
    "tau": "tau torque torques effort efforts moment moments trq force",
    "current": "current currents cur curr i amp amps ampere",
}
KIND = {word: kind for kind, words in WORDS.items() for word in words.split()}
"""The kind of a column by a word in its name."""
WISHES = frozenset(("target", "desired", "des", "ref", "reference", "cmd", "command",
                    "commanded", "goal", "setpoint"))
"""Words of what a controller wanted."""
FILLERS = frozenset((
    "joint", "joints", "axis", "motor", "actual", "measured", "meas", "state", "states", "data",
    "robot", "m", "rad", "s", "nm", "n", "a", "deg", "header", "ms", "us", "ns", "sec", "msec",
    "usec", "nsec", "nanosec", "field", "j", "degree", "degrees", "nmm", "mnm", "ma"))
"""Words that say nothing of the kind."""
PARTS_OF_A_SECOND = {"ns": 1e-9, "nsec": 1e-9, "nanosec": 1e-9, "us": 1e-6, "usec": 1e-6,
                     "ms": 1e-3, "msec": 1e-3}


UNITS = {**dict.fromkeys(("deg", "degree", "degrees"), (("q", "qd", "qdd"), np.pi / 180)),
         **dict.fromkeys(("nmm", "mnm"), (("tau",), 1e-3)), "ma": (("current",), 1e-3)}
"""Units that names of columns may give: of which kinds, and their size in nlink's."""


def arrays_by_kind(arrays: Mapping[str, Any], robot: Robot, columns: Mapping[str, Any] | None,
                   name: str) -> tuple[dict[str, Array], list[str]]:
    """Arrays "t" (N,) and "q", "tau", ... (N, n) from whatever has names, and what was left out."""
    found: dict[str, Array] = {}
    named = dict(columns or {})
    for kind, given in named.items():
        if kind not in ("t", *STATE_KINDS):
            raise ValueError(f"columns: {kind!r}, expected some of t, {', '.join(STATE_KINDS)}")
        names = [given] if isinstance(given, str) else list(given)
        for each in names:
            if each not in arrays:
                raise ValueError(f"columns: {each!r} is not in {name}, expected some of "
                                 f"{first_few([*arrays], 40)}{did_you_mean(each, arrays)}")
        parts = [_numbers(each, arrays[each], name) for each in names]
        found[kind] = parts[0] if len(parts) == 1 and (kind == "t" or parts[0].ndim == 2) else (
            np.column_stack(parts))
    single: dict[tuple[str, bool], dict[str, Array]] = {}
    left, notes = [], []
    for key, given in arrays.items():
        kind, joint, wished = meaning(key, robot)
        if kind is None:
            left.append(key)
            continue
        if kind in named:
            continue
        x = _numbers(key, given, name)
        unit = _unit(key, kind)
        if unit is not None:
            x = x * UNITS[unit][1]
            notes.append(f"{kind}: read in {unit}, as the names of columns say")
        if kind == "t":
            if x.ndim == 2 and 1 in x.shape:
                x = x.reshape(-1)
            if x.ndim == 1 and "t" not in found:
                found["t"] = x * _part_of_a_second(key)
        elif x.ndim == 2 and (min(x.shape) > 1 or robot.n == 1 or joint is None):
            if kind not in found and not wished:
                width = robot.nq if kind == "q" else robot.n
                found[kind] = x.T if x.shape[1] != width and x.shape[0] == width else x
        elif joint is not None:
            single.setdefault((kind, wished), {}).setdefault(joint, x.reshape(-1))
        elif x.ndim == 1 and robot.n == 1:
            found.setdefault(kind, x[:, None])
        else:
            left.append(key)
    for (kind, wished), own in sorted(single.items(), key=lambda item: item[0][1]):
        if kind not in found and not (wished and kind != "tau"):
            found[kind] = _in_order(kind, own, robot, name)
            if wished:
                notes.append(f"{kind}: what the controller asked for, as nothing is measured")
    if left:
        notes.append(f"columns not used: {first_few(left, 6)}")
    return found, list(dict.fromkeys(notes))


def _unit(key: str, kind: str) -> str | None:
    """The unit that the name of a column gives, if it is not nlink's."""
    words = [word.lower() for word in re.findall(r"[A-Za-z]+", key)]
    return next((word for word in words if word in UNITS and kind in UNITS[word][0]), None)


def meaning(key: str, robot: Robot) -> tuple[str | None, str | None, bool]:
    """Kind, joint (a name or a number) and whether it is what a controller wanted.

    >>> import nlink
    >>> robot = nlink.load("double_pendulum")
    >>> [meaning(key, robot)[:2] for key in ("time", "q_2", "joint1.effort", "dq[0]", "note")]
    [('t', None), ('q', '2'), ('tau', 'joint1'), ('qd', '0'), (None, None)]
    """
    rest, joint = key, None
    for each in sorted(robot.qd_names, key=len, reverse=True):
        hit = re.search(rf"(?<![A-Za-z0-9]){re.escape(each)}(?![A-Za-z0-9])", key)
        if hit:
            rest, joint = f"{key[:hit.start()]} {key[hit.end():]}", each
            break
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", rest)
    words = [word.lower() for word in re.findall(r"[A-Za-z]+|\d+", spaced)]
    numbers = [word for word in words if word.isdigit()]
    kinds = [KIND[word] for word in words if word in KIND]
    wished = any(word in WISHES for word in words)
    if kinds and "t" in kinds and len(set(kinds)) > 1:
        kinds = [kind for kind in kinds if kind != "t"]
    if not kinds:
        plain = not [word for word in words if word not in FILLERS and not word.isdigit()]
        if joint is not None and plain and not numbers:
            return "q", joint, wished
        return (None, None, False)
    kind = kinds[-1] if kinds[-1] != "q" or len(set(kinds)) == 1 else next(
        other for other in kinds if other != "q")
    if kind == "t":
        return ("t", None, False) if not numbers and joint is None else (None, None, False)
    unknown = [word for word in words if word not in KIND and word not in FILLERS
               and word not in WISHES and not word.isdigit()]
    if unknown:
        return (None, None, False)
    return kind, joint if joint is not None else (numbers[-1] if numbers else None), wished


def _in_order(kind: str, own: Mapping[str, Array], robot: Robot, name: str) -> Array:
    """Columns of joints in the order of the robot's, by name or by number from 0 or 1."""
    names = list(robot.qd_names)
    if all(key in names for key in own):
        missing = [key for key in names if key not in own]
        if missing:
            raise ValueError(f"{name}: no {kind} of joint {missing[0]!r}, expected one of each of "
                             f"{first_few(names, 40)}")
        return _stack(kind, [own[key] for key in names], name)
    numbers = sorted(int(key) for key in own if key.isdigit())
    if len(numbers) == len(own) == robot.n and numbers in (
            [*range(robot.n)], [*range(1, robot.n + 1)]):
        places = {int(key): x for key, x in own.items()}
        return _stack(kind, [places[k] for k in numbers], name)
    raise ValueError(f"{name}: columns of {kind} for {first_few([*own], 40)}, expected one of each "
                     f"of {robot.n} joints: {first_few(names, 40)}, or numbers from 0 or 1")


def _stack(kind: str, parts: Sequence[Array], name: str) -> Array:
    lengths = {len(x) for x in parts}
    if len(lengths) > 1:
        raise ValueError(f"{name}: columns of {kind} with {min(lengths)} and {max(lengths)} rows, "
                         "expected the same length")
    return np.column_stack(parts)


def _numbers(key: str, given: Any, name: str) -> Array:
    x = np.asarray(given)
    if x.dtype.kind == "M":
        return (x - x[:1]).astype("timedelta64[ns]").astype(float) * 1e-9
    if x.dtype.kind not in "fiub":
        raise TypeError(f"{name}: {key} has dtype {x.dtype}, expected real numbers")
    if x.dtype.kind in "iu" and x.size and np.abs(x.reshape(-1)[0]) > 2**52:
        return (x - x.reshape(-1)[0]).astype(float)  # nanoseconds have more digits than float64
    x = x.astype(np.float64)
    if x.ndim == 0 or x.ndim > 2:
        raise ValueError(f"{name}: {key} has shape {x.shape}, expected (rows,) or (rows, joints)")
    return x


def _part_of_a_second(key: str) -> float:
    words = [word.lower() for word in re.findall(r"[A-Za-z]+", key)]
    return next((PARTS_OF_A_SECOND[word] for word in words if word in PARTS_OF_A_SECOND), 1.0)


def time_in_seconds(t: Array) -> tuple[Array, tuple[str, ...]]:
    """Stamps in seconds from the first: a robot's log has 10 to 20,000 rows a second."""
    t = np.asarray(t, dtype=float).reshape(-1)
    t = t - t[0] if len(t) and abs(t[0]) > 1e6 else t
    positive = np.diff(t)
    step = float(np.median(positive[positive > 0])) if (positive > 0).any() else 0.0
    for unit, size in (("nanoseconds", 1e-9), ("microseconds", 1e-6), ("milliseconds", 1e-3)):
        if 5e-5 <= step * size <= 0.2 and step > 0.5:
            return t * size, (f"time: read as {unit}",)
    return t, ()


def unwrapped(q: Array, units: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """Positions without the full turns that encoders jump by, if a joint turns little a row."""
    q, notes = q.copy(), []
    for j, unit in enumerate(units):
        step = np.diff(q[:, j])
        turns = np.round(step / (2 * np.pi))
        if unit == "rad" and turns.any() and np.median(np.abs(step)) < 0.2 and (
                np.abs(step - 2 * np.pi * turns) < 0.5).all():
            q[1:, j] -= 2 * np.pi * np.cumsum(turns)
            q[:, j] -= 2 * np.pi * np.round(q[:, j].mean() / (2 * np.pi))
            notes.append(f"joint {j + 1}: {int(np.abs(turns).sum())} jumps of a full turn were "
                         "taken out of its positions")
    return q, tuple(notes)


def free_rates(robot: Robot) -> list[int]:
    """The rates of joints that nothing drives: those of a floating base."""
    found, k = [], 0
    for joint in robot.joints:
        nv = joint.type.nv
        found += range(k, k + nv) if nv == 6 else []
        k += nv
    return found


def wrenches_of_links(given: Any, robot: Robot, name: str) -> Array:
    """Wrenches (N, links, 6) from an array, or from those of some links by their names."""
    links = [link.name for link in robot.description.links]
    if hasattr(given, "items"):
        for each in given:
            if each not in links:
                raise ValueError(f"{name}: f_ext of {each!r}, expected links, such as "
                                 f"{first_few(links)}{did_you_mean(each, links)}")
        parts = {each: np.asarray(x, dtype=float) for each, x in given.items()}
        rows = max((len(x) for x in parts.values()), default=0)
        found = np.zeros((rows, len(links), 6))
        for each, x in parts.items():
            if x.shape != (rows, 6):
                raise ValueError(f"{name}: f_ext of {each!r} has shape {x.shape}, expected "
                                 f"({rows}, 6)")
            found[:, links.index(each)] = x
        return found
    found = np.asarray(given, dtype=float)
    if found.ndim != 3 or found.shape[1:] != (len(links), 6):
        raise ValueError(f"{name}: f_ext has shape {found.shape}, expected (rows, {len(links)}, 6),"
                         " a wrench on each link")
    return found
