"""The reference: a page for each task, with a sentence for each name and then its whole text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reference_tasks import MEMBERS, TASKS, Task

import nlink
import nlink.simulation
import nlink.studies
import nlink.testing

MARKUP = re.compile(r"(`[^`]*`)|([*|\\]|_(?!\w))")
"""What is code, or what would be markup to reStructuredText; docstrings are plain text."""
SENTENCE = re.compile(r"(?<=[\w)\]`][.])\s+(?=[A-Z`>])")


def look_up(name: str) -> Any:
    """The object of a name such as "simulation.PD" or "Robot.bias"."""
    first, _, last = name.rpartition(".")
    if first and first[0].islower():
        return getattr(import_module(f"nlink.{first}"), last)
    return getattr(getattr(nlink, first), last) if first else getattr(nlink, last)


def public_names() -> Iterator[str]:
    """All names for users, where each is first exported."""
    known: set[int] = set()
    for prefix, module in (("", nlink), ("simulation.", nlink.simulation),
                           ("studies.", nlink.studies), ("testing.", nlink.testing)):
        items = {name: getattr(module, name) for name in module.__all__}
        yield from (f"{prefix}{name}" for name, item in items.items() if id(item) not in known)
        known |= {id(item) for item in items.values()}


def tasks() -> list[Task]:
    """The pages, with one more for names that no task has."""
    placed = " ".join(task.names for task in TASKS).split()
    rest = [name for name in public_names() if name not in placed]
    others = [Task("others", "Other names", "", " ".join(rest))] if rest else []
    installed = find_spec("gymnasium") is not None      # nlink.gym imports it at once
    return [task._replace(names=" ".join(
        name for name in task.names.split() if installed or not name.startswith("gym.")))
        for task in [*TASKS, *others]]


def first_sentence(item: Any) -> str:
    if isinstance(item, tuple):
        return f"All of them: {len(item)} objects of `{type(item[0]).__name__}`."
    text = " ".join((inspect.getdoc(item) or "").split("\n\n")[0].split())
    return SENTENCE.split(text)[0].rstrip(":")


def summary(names: Iterable[str]) -> list[str]:
    """A table with a row for each name: a link, and what it is or does."""
    rows = [".. list-table::", "   :class: names", "   :widths: 26 74", ""]
    for name in names:
        sentence = MARKUP.sub(lambda m: m[1] or f"\\{m[2]}", first_sentence(look_up(name)))
        rows += [f"   * - :py:obj:`{name.removeprefix('Robot.')} <nlink.{name}>`",
                 f"     - {sentence}"]
    return [*rows, ""]


def entry(name: str) -> list[str]:
    """The directive that writes a name's whole docstring."""
    item = look_up(name)
    if name.startswith("Robot."):
        kind = "method" if callable(item) else "attribute"
        return [f".. auto{kind}:: nlink.{name}", ""]
    if not inspect.isclass(item):
        return [f".. auto{'function' if callable(item) else 'data'}:: nlink.{name}", ""]
    if issubclass(item, Exception):
        return [f".. autoexception:: nlink.{name}", ""]
    return [f".. autoclass:: nlink.{name}", *(() if name == "Robot" else ("   :members:",)), ""]


def headed(title: str, line: str) -> list[str]:
    return [title, line * len(title), ""]


def robot_members() -> dict[str, list[str]]:
    """The public members of `Robot` by heading."""
    groups = {title: names.split() for title, names in MEMBERS}
    placed = {name for names in groups.values() for name in names}
    rest = [name for name in dir(nlink.Robot) if not name.startswith("_") and name not in placed]
    return {**groups, "More": rest} if rest else groups


def page(task: Task) -> str:
    lines = [*headed(task.title, "="), task.about, ""]
    names = task.names.split()
    if names != ["Robot"]:
        return "\n".join([*lines, *summary(names), *(x for name in names for x in entry(name))])
    lines += entry("Robot")
    for title, members in robot_members().items():
        names = [f"Robot.{name}" for name in members]
        lines += [*headed(title, "-"), *summary(names), *(x for name in names for x in entry(name))]
    return "\n".join(lines)


def index(pages: list[Task]) -> str:
    """All pages, with all their names."""
    lines = [*headed("Reference", "="), "Every public name, by task.", "", ".. toctree::",
             "   :hidden:", "", *(f"   {task.page}" for task in pages), ""]
    for task in pages:
        lines += [*headed(task.title, "-"), task.about, ""]
        if task.names == "Robot":
            lines += [".. list-table::", "   :class: names", "   :widths: 26 74", ""]
            for title, members in robot_members().items():
                links = ", ".join(f":py:obj:`{name} <nlink.Robot.{name}>`" for name in members)
                lines += [f"   * - {title}", f"     - {links}"]
            lines.append("")
        else:
            lines += summary(task.names.split())
    return "\n".join(lines)


def write_reference(directory: Path) -> None:
    """A page for each task; pages that have not changed keep their dates."""
    directory.mkdir(exist_ok=True)
    pages = tasks()
    texts = {"index": index(pages), **{task.page: page(task) for task in pages}}
    for path in directory.glob("*.rst"):
        if path.stem not in texts:
            path.unlink()
    for name, text in texts.items():
        path = directory / f"{name}.rst"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
