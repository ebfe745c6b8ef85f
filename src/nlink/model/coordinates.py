"""The coordinates and rates of each joint, with their names and units.

q and qd have the coordinates and rates of the joints that move, in their order; fixed joints
have none, so `joints[i]` and `q[i]` do not belong together in general.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nlink.model.description import Description, Joint
from nlink.model.joints import JointType
from nlink.model.names import did_you_mean, first_few
from nlink.model.pose import Pose

Array = np.ndarray


@dataclass(frozen=True)
class LimitArrays:
    """Bounds of every rate, arrays of n, infinite where there is none.

    `lower` and `upper` bound coordinates that are plain numbers, whose rates are their
    derivatives; a joint whose coordinates are not (quaternions, an angle as cosine and sine) has
    no bounds of position here. `velocity` and `effort` are largest absolute values.
    """

    lower: Array
    upper: Array
    velocity: Array
    effort: Array


def limit_arrays(description: Description) -> LimitArrays:
    """The bounds of joints as arrays of n."""
    rows = [(*(joint.limits.position if joint.type.space.flat else (-np.inf, np.inf)),
             joint.limits.velocity, joint.limits.effort)
            for joint in description.joints for _ in range(joint.type.nv)]
    columns = np.array(rows, dtype=float).reshape(-1, 4).T.copy()
    columns.flags.writeable = False
    return LimitArrays(*columns)


def joint_slices(description: Description, width: str) -> Iterator[tuple[Joint, slice]]:
    """Each joint with its places in q ("nq") or qd ("nv")."""
    at = 0
    for joint in description.joints:
        size = getattr(joint.type, width)
        yield joint, slice(at, at + size)
        at += size


def _named(joint: Joint, labels: tuple[str, ...]) -> Iterator[str]:
    return (f"{joint.name}.{label}" if label else joint.name for label in labels)


def coordinate_names(description: Description) -> tuple[str, ...]:
    """A name for each coordinate: the joint's, with what it is of where there are several."""
    return tuple(name for joint in description.joints
                 for name in _named(joint, joint.type.space.labels))


def rate_names(description: Description) -> tuple[str, ...]:
    """A name for each rate: the joint's, with what it is of where there are several."""
    return tuple(name for joint in description.joints
                 for name in _named(joint, joint.type.space.rate_labels))


def rate_units(description: Description) -> tuple[str, ...]:
    """The unit of each rate, without seconds: "rad" where the joint turns the body, else "m"."""
    return tuple(unit for joint in description.joints for unit in _rate_units(joint.type))


def coordinate_units(description: Description) -> tuple[str, ...]:
    """The unit of each coordinate: "rad", "m", or "" for parts of a quaternion."""
    return tuple(unit for joint in description.joints for unit in (
        _rate_units(joint.type) if joint.type.space.flat
        else ("m" if label in ("x", "y", "z") else "" for label in joint.type.space.labels)))


def effort_units(description: Description) -> tuple[str, ...]:
    """"N m" or "N" for each rate."""
    return tuple("N m" if unit == "rad" else "N" for unit in rate_units(description))


def _rate_units(type: JointType) -> list[str]:
    """From the columns of S at a point of the space: a twist that turns, or not."""
    q = type.space.neutral
    turns = (any(type.rate(q, tuple(float(j == k) for j in range(type.nv))).angular.components)
             for k in range(type.nv))
    return ["rad" if turn else "m" for turn in turns]


def place_of(description: Description, name: str, width: str) -> int | slice:
    """Where a joint, or one named coordinate or rate, is in q ("nq") or qd ("nv")."""
    for joint, own in joint_slices(description, width):
        if joint.name == name:
            if not joint.type.nv:
                raise ValueError(f"joint {name!r} is fixed, expected one that moves")
            return own.start if own.stop - own.start == 1 else own
    names = (coordinate_names if width == "nq" else rate_names)(description)
    if name in names:
        return names.index(name)
    known = [joint.name for joint in description.joints if joint.type.nv]
    raise ValueError(f"joint: {name!r}, expected one of {first_few(known, 40)}"
                     f"{did_you_mean(name, [*known, *names])}")


def joint_number(description: Description, name: str) -> int:
    """The number of a joint in `joints`."""
    names = [joint.name for joint in description.joints]
    if name not in names:
        raise ValueError(f"joint: {name!r}, expected one of {first_few(names, 40)}"
                         f"{did_you_mean(name, names)}")
    return names.index(name)


def link_number(description: Description, link: int | str) -> int:
    """The number of a link, 0 being the base; from the last one back if negative."""
    names = [description.base, *(each.name for each in description.links)]
    if isinstance(link, str):
        if link not in names:
            known = [*names, *(frame.name for frame in description.frames)]
            raise ValueError(f"link: {link!r}, expected one of {first_few(names, 40)}"
                             f"{did_you_mean(link, known)}")
        return names.index(link)
    try:
        return range(len(names))[link]
    except (IndexError, TypeError):
        raise ValueError(f"link: {link!r}, expected a name or an index from {-len(names)} to "
                         f"{len(names) - 1}") from None


def frame_place(description: Description, frame: int | str) -> tuple[int, Pose]:
    """The link that a frame is fixed in, 0 being the base, and the frame's pose in it."""
    named = {each.name: (each.link, each.pose) for each in description.frames}
    if isinstance(frame, str) and frame in named:
        return named[frame]
    return link_number(description, frame), Pose()
