"""What the command line prints: tables for people, JSON and CSV for programs."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nlink.model.names import visible

HEADING = "bold cyan"
UNBOUNDED = 10_000
"""The width of what is written to a file: nothing in it is cut short."""


class PlainConsole(Console):
    """A console for text as it is: brackets are citations or parts of names, not markup, and
    what a terminal would obey instead of printing it is spelled out."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def console(*, stderr: bool = False, width: int | None = None) -> PlainConsole:
    """A console for text with names in it that nobody has looked at."""
    return PlainConsole(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


def label(text: str) -> Text:
    """Text for a spinner, where rich takes a string for markup."""
    return Text(visible(text))


def say(*lines: object) -> None:
    """Print lines as they are, however wide, with what does not print spelled out."""
    print(*(visible(str(line)) for line in lines), sep="\n")


def grid(*columns: str, title: str | None = None, text: Iterable[str] = (),
         caption: str | None = None) -> Table:
    """A table of right-aligned numbers, the columns named in `text` left-aligned."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_style="bold", title_justify="left",
                  caption=caption, caption_style="dim", caption_justify="left",
                  header_style=HEADING, pad_edge=False)
    words = set(text)
    for name in columns:
        table.add_column(name, justify="left" if name in words else "right",
                         no_wrap=name not in words)
    return table


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """A table of a paper, ours beside theirs, for a console or for `Page.printed_table`."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    text: tuple[str, ...]
    """The columns that are words."""
    notes: Sequence[str] = ()
    strong: Callable[[Sequence[str]], bool] = lambda row: row[0].startswith("nlink")

    def __rich__(self) -> Table:
        table = grid(*self.head, title=self.title, text=self.text,
                     caption="\n".join(self.notes) or None)
        for row in self.rows:
            table.add_row(*row, style="bold" if self.strong(row) else None)
        return table


def print_json(value: Any) -> None:
    """One JSON document; numbers that JSON has no word for become null."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str | None) else str(value)


def print_csv(names: Sequence[str], rows: np.ndarray) -> None:
    """A line of names, then the numbers with all their digits."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(map(repr, row) for row in rows.tolist())


def number_table(names: Sequence[str], rows: np.ndarray) -> Table:
    """Rows of numbers to six digits."""
    table = grid(*names)
    for row in rows:
        table.add_row(*(f"{x:.6g}" for x in row))
    return table
