"""MJCF from strangers: what a file makes MuJoCo do, bounded before MuJoCo reads it.

MJCF is a language with loops and includes: a line may ask for a billion bodies, or name any
file of the machine. Files it includes are read only on request, only from the directory of the
file itself and those below, and each within the same bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from nlink.formats.files import read_text
from nlink.formats.safe_xml import Notes, parse_xml

MAX_DEPTH = 1000
"""Bodies nest in MJCF, so a chain of links is as deep as it is long."""
MOST_ELEMENTS = 20_000
"""Elements with all their copies: MuJoCo's compiler takes a time that is quadratic in these."""
SIDE = 8192
"""Rows or columns of a height field or a texture."""

COPIED = {"replicate": ("count",), "composite": ("count",), "flexcomp": ("count", "cellcount"),
          "flex": ("cellcount",)}
"""Elements that stand for many, and the attributes that say how many."""
COUNTS: dict[str, int] = {
    **dict.fromkeys(("nkey", "nuserdata", "actdim", "nsample", "dim"), MOST_ELEMENTS),
    **dict.fromkeys(("nrow", "ncol", "width", "height"), SIDE)}
"""Attributes that are numbers of something, and their bounds; those called nuser_... are more."""


def mjcf_root(text: str, origin: str, notes: Notes, *, includes: bool) -> tuple[Element, bool]:
    """The root element of a file that is safe to compile, and whether it names other files."""
    root = parse_xml(text, origin, depth=MAX_DEPTH, notes=notes)
    if root.tag != "mujoco":
        return root, False
    made, seen, files = 0.0, {Path(origin).resolve()}, False
    waiting = [(root, origin, 1.0)]
    while waiting:
        element, where, copies = waiting.pop()
        for each, often in _copied(element, where, copies):
            made += often
            if not made <= MOST_ELEMENTS:
                raise ValueError(f"{where}: more than {MOST_ELEMENTS} elements with all copies and "
                                 "includes, which MuJoCo takes too long to compile")
            if each.tag not in ("include", "model") or not each.get("file"):
                continue
            for path in _found(each.get("file", ""), where, Path(origin).parent, includes):
                if path not in seen:
                    seen.add(path)
                    there = parse_xml(read_text(path), str(path), depth=MAX_DEPTH, notes=notes)
                    waiting.append((there, str(path), often))
        files = _names_files(element, where) or files
    return root, files


def _copied(root: Element, where: str, copies: float) -> Iterator[tuple[Element, float]]:
    """Every element, and how many there are of it, it being among those that are copied."""
    waiting = [(root, copies)]
    while waiting:
        element, often = waiting.pop()
        tag = str(element.tag)
        for key in element.attrib:
            most = COUNTS.get("nkey" if key.startswith("nuser_") else key, math.inf)
            if not _product(element.get(key, "")) <= most:
                raise ValueError(f"{where}: {tag}: {key} {element.get(key)!r}, expected at most "
                                 f"{most}")
        for key in COPIED.get(tag, ()):
            often *= _product(element.get(key, "1"))
        yield element, often
        waiting += [(child, often) for child in element]


def _product(text: str) -> float:
    """The product of whole numbers; what is none is left for MuJoCo to refuse."""
    product = 1.0
    for word in text.split():
        try:
            product *= max(1.0, abs(float(word)))
        except ValueError:
            continue
    return product


def _names_files(root: Element, origin: str) -> bool:
    """Whether there are files to be read, such as meshes. One that is not regular may never
    end."""
    home = Path(origin).parent
    places = [home, *(home / value for element in root.iter("compiler")
                      for key, value in element.attrib.items() if key.endswith("dir"))]
    names = [value for element in root.iter() for key, value in element.attrib.items()
             if key.startswith("file")]
    for name in names:
        path = next((place / name for place in places if (place / name).exists()), None)
        if path is not None and not path.is_file():
            raise ValueError(f"{origin}: names {name!r}, expected a plain file")
    return bool(names)


def _found(name: str, where: str, home: Path, includes: bool) -> list[Path]:
    """The files that an include may mean: beside the file it stands in, or beside the first."""
    if not includes:
        raise ValueError(f"{where}: includes {name!r}, and other files are read on request only: "
                         "load(..., includes=True) or nlink convert --includes")
    found = []
    for directory in (Path(where).parent, home):
        path = (directory / name).resolve()
        if not path.is_relative_to(home.resolve()):
            raise ValueError(f"{where}: includes {name!r}, expected a file in the directory "
                             f"{str(home)!r} or below")
        if path.is_file():
            found.append(path)
    if not found:
        raise ValueError(f"{where}: includes {name!r}, which is no file in {str(home)!r}")
    return found
