"""The memo of kernels, and of whatever else takes long to make for a robot.

What is made is kept in its owner and lives as long as that: a memo beside the owners, even one
with weak keys, would keep those alive that their own kernels refer to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from nlink.backends.llvm.threads import MAKING

Kept = TypeVar("Kept")

MOST_KEPT = 64
"""Entries of one kind that an owner keeps; the oldest go first."""


def kept(owner: Any, key: tuple[Hashable, ...], make: Callable[[], Kept]) -> Kept:
    """What `make` gives for an owner and a key: made by the first call, and kept in the owner.

    A key begins with the kind of what is made, a name. Who asks while it is made waits, and gets
    the same.

    >>> import nlink
    >>> robot = nlink.load("planar3")
    >>> kept(robot, ("greeting", 1), lambda: ["made"]) is kept(robot, ("greeting", 1), list)
    True
    """
    try:
        return owner._kept[key[0]][key]
    except (AttributeError, KeyError):
        pass
    with MAKING:
        entries = vars(owner).setdefault("_kept", {}).setdefault(key[0], {})
        if key in entries:
            return entries[key]
        made = entries[key] = make()
        while len(entries) > MOST_KEPT:
            del entries[next(iter(entries))]
        return made
