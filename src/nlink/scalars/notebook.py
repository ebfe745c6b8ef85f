"""What notebooks show of results: small HTML tables in the notebook's own colours."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape

SHOWN = 60
"""Rows of a table that are shown."""


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]],
               notes: Iterable[str] = ()) -> str:
    """A title, a table with its first column in words, and lines below; all text is escaped.

    >>> html_table("a < b", ["x"], [[1]])
    '<p><b>a &lt; b</b></p><table><thead><tr><th>x</th></tr></thead><tbody><tr><td \
style="text-align:left">1</td></tr></tbody></table>'
    """
    more = [f"and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    top = f"<thead><tr>{heads}</tr></thead>" if any(head) else ""
    body = "".join(
        "<tr>" + "".join(
            f'<td style="text-align:{"left" if isinstance(cell, str) or not k else "right"}">'
            f"{escape(str(cell))}</td>" for k, cell in enumerate(row)) + "</tr>"
        for row in rows[:SHOWN])
    below = "".join(f"<p>{escape(line)}</p>" for line in (*more, *notes))
    return f"<p><b>{escape(title)}</b></p><table>{top}<tbody>{body}</tbody></table>{below}"


class Picture(bytes):
    """The bytes of a PNG file: a notebook shows the picture, a terminal how many they are."""

    def __repr__(self) -> str:
        return f"<Picture: {len(self)} bytes of PNG>"

    def _repr_png_(self) -> bytes:
        return bytes(self)


def in_notebook() -> bool:
    """Whether results are shown in a notebook, rather than a terminal."""
    shell = sys.modules.get("IPython")
    active = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return active is not None and getattr(active, "kernel", None) is not None
