"""One self-contained HTML page: text, tables and figures; light and dark, no network."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --muted: #5f6368; --rule: #dadce0;
        --page: #ffffff; --good: #0a7d4f; --bad: #b3261e; --note: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --muted: #9aa0a6;
        --rule: #3c4043; --page: #17181a; --good: #6fd3a5; --bad: #f2938c; --note: #e6c36a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; color: var(--ink);
       background: var(--page); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.6rem; font-size: 1.25rem;
     border-top: 1px solid var(--rule); padding-top: 1.2rem; }
figure { margin: 1.2rem 0; } figcaption, .muted { color: var(--muted); font-size: .9rem; }
figure img { width: 100%; height: auto; background: #fff; border-radius: 6px;
             border: 1px solid var(--rule); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .92rem;
        margin: .8rem 0; } th { text-align: left; color: var(--muted); font-weight: 600; }
td, th { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--rule);
         vertical-align: top; font-variant-numeric: tabular-nums; }
.agrees { color: var(--good); } .differs { color: var(--bad); } .note { color: var(--note); }
nav a { margin-right: 1rem; } a { color: inherit; }
"""


@dataclass(slots=True)
class Page:
    """A page under construction, section by section."""

    title: str
    parts: list[str] = field(default_factory=list)
    sections: list[tuple[str, str]] = field(default_factory=list)

    def section(self, title: str) -> None:
        anchor = f"s{len(self.sections) + 1}"
        self.sections.append((anchor, title))
        self.parts.append(f'<h2 id="{anchor}">{html.escape(title)}</h2>')

    def text(self, words: str, kind: str = "") -> None:
        mark = f' class="{kind}"' if kind else ""
        self.parts.append(f"<p{mark}>{html.escape(words)}</p>")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table; a cell that is a verdict is coloured."""

        def cell(text: str) -> str:
            kind = text.split(" ")[0].rstrip(":,")
            mark = f' class="{kind}"' if kind in ("agrees", "differs", "note") else ""
            return f"<td{mark}>{html.escape(text)}</td>"

        body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
        names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        self.parts.append(f'<div class="wide"><table><thead><tr>{names}</tr></thead>'
                          f"<tbody>{body}</tbody></table></div>")

    def markdown_tables(self, text: str) -> None:
        """The tables and paragraphs of plain Markdown."""
        for block in text.strip().split("\n\n"):
            lines = [line for line in block.splitlines() if line.strip()]
            if not lines or not lines[0].startswith("|"):
                words = " ".join(line.lstrip("#- ") for line in lines)
                self.text(words.replace("**", ""), "muted")
                continue
            cells = [[x.strip().replace("**", "") for x in line.strip("|").split("|")]
                     for line in lines]
            self.table(cells[0], cells[2:])

    def figure(self, figure: Figure, caption: str) -> bytes:
        """A picture within the page; its PNG."""
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=130, metadata={"Software": None})
        data = picture.getvalue()
        code = base64.b64encode(data).decode()
        self.parts.append(f'<figure><img alt="{html.escape(caption, quote=True)}" '
                          f'src="data:image/png;base64,{code}">'
                          f"<figcaption>{html.escape(caption)}</figcaption></figure>")
        return data

    def html(self) -> str:
        links = "".join(f'<a href="#{a}">{html.escape(title)}</a>' for a, title in self.sections)
        return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
                f'<meta name="viewport" content="width=device-width, initial-scale=1">'
                f"<title>{html.escape(self.title)}</title><style>{STYLE}</style></head><body>"
                f"<h1>{html.escape(self.title)}</h1><nav>{links}</nav>"
                f"{''.join(self.parts)}</body></html>\n")
