"""XML from strangers: parsed with limits, read with errors that name file, element, attribute.

No document type, no entities, nothing external (defusedxml), and a bound on depth and number
of elements that holds while parsing, so that no file of 16 MiB takes the machine with it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from nlink.formats.files import LARGEST
from nlink.model.names import first_few

MAX_DEPTH = 100
MAX_ELEMENTS = 500_000
FOREWORD = 10_000
"""Characters before an XML declaration that is not the first thing in its file."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_INFINITE = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


class _Bounded(TreeBuilder):
    """A builder that stops at the limits."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self._allowed, self._depth, self._count = depth, 0, 0

    def start(self, tag: Any, attrs: Any, /) -> Element:
        self._depth += 1
        self._count += 1
        if self._depth > self._allowed:
            raise ValueError(f"elements nested more than {self._allowed} deep")
        if self._count > MAX_ELEMENTS:
            raise ValueError(f"more than {MAX_ELEMENTS} elements")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)


class Refused(ValueError):
    """What is readable, and refused where nothing is repaired."""


def parse_xml(text: str, origin: str, *, depth: int = MAX_DEPTH, notes: Notes) -> Element:
    """The root element of a document that is safe to have read."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser

    parser = DefusedXMLParser(target=_Bounded(depth), forbid_dtd=True, forbid_entities=True,
                              forbid_external=True)
    try:
        parser.feed(_declared_first(text, notes))
        return parser.close()
    except DefusedXmlException as error:
        what = type(error).__name__.replace("Forbidden", "")
        raise ValueError(f"{origin}: refused for safety: the file has a document type or an "
                         f"entity ({what})") from None
    except Refused as error:
        raise ValueError(f"{origin}: {error}") from None
    except (ParseError, ValueError, UnicodeError) as error:
        raise ValueError(f"{origin}: not valid XML: {error}") from None


def _declared_first(text: str, notes: Notes) -> str:
    """The text without a declaration that stands behind blanks or comments."""
    at = text.find("<?xml ", 0, FOREWORD)
    if at > 0 and not _COMMENT.sub("", text[:at]).strip():
        if notes.strict:
            raise Refused("the XML declaration is not at the start of the file, which "
                          "physical='error' refuses")
        notes.repair("XML declaration not at the start", "ignored", "the file")
        return text[:at] + text[text.find("?>", at) + 2:]
    return text


@dataclass(slots=True)
class Notes:
    """The elements that a reader did not use: kind -> names of the places, in order."""

    strict: bool = False
    """Whether a file that has to be repaired is refused."""
    found: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, where: str) -> None:
        self.found.setdefault(kind, []).append(where)

    def repair(self, what: str, meaning: str, where: str) -> None:
        """Note what is wrong in the file and in which one sensible way it is read."""
        if self.strict:
            raise ValueError(f"{where}: {what}, which physical='error' refuses")
        self.add(f"{what}, {meaning}", where)

    def lines(self, shown: int = 3) -> tuple[str, ...]:
        """One line for each kind.

        >>> notes = Notes()
        >>> for name in "abcde": notes.add("visual ignored", name)
        >>> notes.lines()
        ('visual ignored: 5 (a, b, c and 2 more)',)
        """
        def line(kind: str, names: list[str]) -> str:
            return f"{kind}: {len(names)} ({first_few(list(dict.fromkeys(names)), shown)})"

        return tuple(line(kind, names) for kind, names in self.found.items())


@dataclass(frozen=True, slots=True)
class XmlNode:
    """An element with a name for errors; what is not asked for ends in the notes."""

    element: Element
    path: str
    """As "joint 'knee'" or "link 'hand': inertial"."""
    owner: str
    """The name of the link or joint it belongs to, for the notes; none for the root."""
    notes: Notes

    def children(self, tag: str) -> list[Element]:
        return self.element.findall(tag)

    def child(self, tag: str) -> XmlNode | None:
        """The child of a tag, or None; of several the first, as other readers take it."""
        found = self.element.findall(tag)
        if len(found) > 1:
            self.notes.repair(f"<{tag}> more than once", "the first read", self.owner)
        return XmlNode(found[0], f"{self.path}: {tag}", self.owner, self.notes) if found else None

    def needed(self, tag: str) -> XmlNode:
        """The child of a tag, which must be there."""
        found = self.child(tag)
        if found is None:
            raise ValueError(f"{self.path}: no element <{tag}>")
        return found

    def text(self, attribute: str) -> str:
        """An attribute that must be there and not be empty."""
        value = self.element.get(attribute)
        if value is None:
            raise ValueError(f"{self.path}: no attribute {attribute!r}")
        if not value.strip():
            raise ValueError(f"{self.path}: attribute {attribute!r} is empty")
        return value

    def number(self, attribute: str, default: float | None = None, *,
               infinite: bool = False) -> float:
        """A number; with `infinite` "inf" is one, and so is whatever is too large to mean less."""
        if default is not None and self.element.get(attribute) is None:
            return default
        return self._number(self.text(attribute).strip(), attribute, infinite)

    def vector(self, attribute: str, default: tuple[float, float, float],
               ) -> tuple[float, float, float]:
        """Three numbers."""
        if self.element.get(attribute) is None:
            return default
        words = self.text(attribute).split()
        if len(words) != 3:
            raise ValueError(f"{self.path}: {attribute} has {len(words)} numbers, expected 3")
        x, y, z = (self._number(word, attribute, False) for word in words)
        return x, y, z

    def used(self, children: set[str], attributes: set[str], kind: str) -> None:
        """Note every child and attribute that is not among those a reader uses."""
        for child in self.element:
            if child.tag not in children:
                where = self.owner or child.get("name") or child.get("reference") or "unnamed"
                self.notes.add(f"{kind}/{_short(child.tag)} ignored", where)
        for name in self.element.attrib:
            if name not in attributes:
                self.notes.add(f"attribute {_short(name)!r} of {kind} ignored", self.owner or kind)

    def _number(self, word: str, attribute: str, infinite: bool) -> float:
        if infinite and word.lower() in _INFINITE:
            return _INFINITE[word.lower()]
        if not _NUMBER.fullmatch(word):
            shown = word if len(word) <= 40 else f"{word[:40]}..."
            raise ValueError(f"{self.path}: {attribute} {shown!r}, expected a number")
        value = float(word)
        if infinite and abs(value) >= LARGEST:
            return math.copysign(math.inf, value)
        if abs(value) > LARGEST:
            raise ValueError(f"{self.path}: {attribute} {value:g}, "
                             f"expected at most {LARGEST:g}")
        return value


def _short(tag: Any) -> str:
    """A tag without its namespace; comments and instructions have no tag."""
    return tag.rpartition("}")[2] if isinstance(tag, str) else "instruction"
