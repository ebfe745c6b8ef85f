"""Names of links, joints and frames: each used once, and the author's win."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def fresh(name: str, used: Iterable[str]) -> str:
    """The name, or with a number that makes it new.

    >>> fresh("a", ["a", "a_2"])
    'a_3'
    """
    taken, number, candidate = set(used), 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def base_name(used: Collection[str]) -> str:
    """What the frame that never moves is called beside these names of links and frames.

    >>> base_name(["link1"]), base_name(["base"]), base_name(["world", "base"])
    ('base', 'world', 'world_2')
    """
    return fresh("world", used) if "base" in used else "base"
