"""Names of links, joints and frames: each used once, and the author's win.

Names come from files, and files from strangers. `plain` is what of a name goes into a generated
file, `visible` what of a text goes to a terminal.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection, Iterable, Sequence, Set

SIGNS = "_-.:+/ "
"""What a plain name has besides letters and digits."""


def plain(name: str) -> str:
    """A name for a generated file: letters, digits and a few signs, `_` for all else.

    No comment, string, tag, command or formula of any language ends with what is left.

    >>> plain('arm *\\\\ __asm__("int3"); <b>')
    'arm __ __asm____int3___ _b_'
    """
    return "".join(c if c in SIGNS or unicodedata.category(c)[0] in "LMN" else "_" for c in name)


def visible(text: str) -> str:
    """Text for a terminal: what does not print, as escape sequences do not, is spelled out.

    >>> print(visible("\\x1b[2Jarm\\u202e"))
    \\x1b[2Jarm\\u202e
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def fresh(name: str, used: Iterable[str]) -> str:
    """The name, or with a number that makes it new.

    >>> fresh("a", ["a", "a_2"])
    'a_3'
    """
    taken, number, candidate = used if isinstance(used, Set) else set(used), 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def first_few(names: Sequence[str], shown: int = 3) -> str:
    """The first few of many names.

    >>> first_few("abcde")
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return visible(f"{', '.join(names[:shown])}{more}".replace("\n", " "))


def counted(count: int, word: str) -> str:
    """So many of something.

    >>> counted(1, "rate"), counted(2, "trajectory")
    ('1 rate', '2 trajectories')
    """
    many = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count} {word if count == 1 else many}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A clause about the known name that is nearest to one that is not known, or nothing.

    >>> did_you_mean("puma56", ["planar3", "puma560"])
    "; did you mean 'puma560'?"
    >>> did_you_mean("inverse-dynamics", ["inverse_dynamics"])
    "; did you mean 'inverse_dynamics'?"
    """
    if not isinstance(name, str):
        return ""
    by_form = {other.lower().replace("-", "_"): other for other in known}
    near = difflib.get_close_matches(name.lower().replace("-", "_"), by_form, n=1)
    return f"; did you mean {by_form[near[0]]!r}?" if near else ""


def distinct(names: Iterable[str]) -> dict[str, str]:
    """The plain names of some names: those that are plain already stay, and no two are alike.

    >>> distinct(["a<b", "a_b", "a>b"])
    {'a<b': 'a_b_2', 'a_b': 'a_b', 'a>b': 'a_b_3'}
    """
    found = {name: plain(name) for name in names}
    used = {name for name, new in found.items() if name == new}
    for name, new in found.items():
        if name != new:
            found[name] = fresh(new, used)
            used.add(found[name])
    return found


def base_name(used: Collection[str]) -> str:
    """What the frame that never moves is called beside these names of links and frames.

    >>> base_name(["link1"]), base_name(["base"]), base_name(["world", "base"])
    ('base', 'world', 'world_2')
    """
    return fresh("world", used) if "base" in used else "base"
