"""What notebooks show of results: small HTML tables in the notebook's own colours."""

from __future__ import annotations

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
