"""One self-contained HTML page: text, tables and figures; light and dark, no network."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nlink.reports.mathml import mathml
from nlink.reports.plots import STYLES, inline_svg
from nlink.reports.terminal import PrintedTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --muted: #5f6368; --rule: #dadce0;
  --page: #ffffff; --card: #f6f7f8; --link: #0b57a4;
  --c1: #0072b2; --c2: #d55e00; --c3: #00845f; --c4: #b5578c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --muted: #a3a9b0;
  --rule: #3c4043; --page: #16181a; --card: #1f2225;
  --link: #8ab4f8; --c1: #5fb4ec; --c2: #ff9a5a; --c3: #45cfa6; --c4: #eaa0cb; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 64rem; color: var(--ink);
  background: var(--page); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: clamp(1.5rem, 5vw, 2rem); line-height: 1.2; margin: .5rem 0 1rem; }
h2 { margin: 3rem 0 .8rem; font-size: 1.3rem; line-height: 1.25; padding-top: 1.4rem;
  border-top: 1px solid var(--rule); }
h3 { margin: 1.8rem 0 .2rem; font-size: 1rem; }
p { margin: .6rem 0; max-width: 46rem; } .muted { color: var(--muted); font-size: .9rem; }
a { color: var(--link); } nav { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem;
  margin: 1rem 0; font-size: .95rem; }
figure { margin: 1.4rem 0; padding: .9rem 1rem .6rem; background: var(--card);
  border-radius: 8px; } figcaption { font-weight: 600; margin-bottom: .3rem; }
.panels, .gallery { display: grid; gap: .4rem 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 16.5rem), 1fr)); }
.panels svg { width: 100%; max-width: 25rem; height: auto; display: block; }
svg * { stroke-linejoin: round; } svg text { font-family: inherit !important; }
.key { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; font-size: .88rem;
  color: var(--muted); margin-bottom: .4rem; } .key svg { width: 2.2em; height: .7em;
  margin-right: .4em; }
.gallery figure { margin: .4rem 0; } .gallery img { width: 100%; height: auto; display: block; }
code { font: .92em ui-monospace, "DejaVu Sans Mono", monospace; }
math { font-size: 1.1em; font-family: "STIX Two Math", "Cambria Math", "Latin Modern Math",
  "DejaVu Math TeX Gyre", math; } .equations { display: grid; gap: .2rem 1.2rem; margin: .8rem 0;
  grid-template-columns: max-content 1fr; align-items: center; overflow-x: auto; }
.equations dt { color: var(--muted); font-size: .9rem; } .equations dd { margin: 0; }
.equations math { margin: .15rem 0; }
details { margin: .7rem 0; } summary { cursor: pointer; color: var(--link); font-weight: 600; }
.wide { overflow-x: auto; margin: .4rem 0 1rem; }
table { border-collapse: collapse; font-size: .9rem; }
th { text-align: left; color: var(--muted); font-weight: 600; white-space: nowrap; }
td, th { padding: .32rem 1rem .32rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; font-variant-numeric: tabular-nums; }
.figures td, .figures th { text-align: right; white-space: nowrap; }
.figures .words { text-align: left; white-space: normal; min-width: 6rem; }
.figures tr > :first-child { position: sticky; left: 0; background: var(--page); }
tr.ours td { font-weight: 600; }
@media (max-width: 34rem) { .claims thead { display: none; } .claims, .claims tbody,
  .claims tr, .claims td { display: block; } .claims td { border: 0; padding: .1rem 0; }
  .claims tr { border-bottom: 1px solid var(--rule); padding: .6rem 0; }
  .claims td:first-child { font-weight: 600; } .claims td:nth-child(n + 3)::before {
    content: attr(data-head) ": "; color: var(--muted); }
  td, th { padding-right: .55rem; } table { font-size: .84rem; }
  .figures th { white-space: normal; } .figures .words { min-width: 4.5rem; }
  .panels { display: flex; overflow-x: auto; } .panels svg { flex: 0 0 76%; }
  .equations { grid-template-columns: 1fr; }
  figure { margin-inline: -.5rem; padding: .7rem .6rem .4rem; } }
"""
_NUMBER = re.compile(r"(?:[\s\d.,>MAes-]|never)*")
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^]]+)\]\(([\w/.#-]+)\)")


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

    def heading(self, title: str) -> None:
        self.parts.append(f"<h3>{html.escape(title)}</h3>")

    def text(self, words: str, kind: str = "") -> None:
        """A paragraph with equations between dollar signs, `code` and [words](links)."""
        mark = f' class="{kind}"' if kind else ""
        self.parts.append(f"<p{mark}>{_inline(words)}</p>")

    def equations(self, *rows: tuple[str, str]) -> None:
        """Equations below each other, each with its number or source."""
        self.parts.append('<dl class="equations">' + "".join(
            f"<dt>{html.escape(source)}</dt><dd>{mathml(tex, tall=True)}</dd>"
            for source, tex in rows) + "</dl>")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "figures",
              ) -> None:
        """A table; rows of nlink stand out."""
        wordy = [any(not _NUMBER.fullmatch(row[k]) for row in rows if k < len(row))
                 for k in range(len(head))]
        names = "".join(f'<th{" class=words" if words else ""}>{html.escape(name)}</th>'
                        for name, words in zip(head, wordy, strict=True))
        body = []
        for row in rows:
            ours = ' class="ours"' if row[0].startswith("nlink") else ""
            cells = "".join(map(_cell, row, wordy, head if kind == "claims" else [""] * len(row)))
            body.append(f"<tr{ours}>{cells}</tr>")
        self.parts.append(f'<div class="wide"><table class="{kind}"><thead><tr>{names}</tr></thead>'
                          f"<tbody>{''.join(body)}</tbody></table></div>")

    @contextmanager
    def folded(self, title: str) -> Iterator[None]:
        """What is seen after a click: tables to look things up in."""
        self.parts.append(f"<details><summary>{html.escape(title)}</summary>")
        yield
        self.parts.append("</details>")

    def printed_table(self, table: PrintedTable) -> None:
        """A table below its title, folded, with its notes below."""
        with self.folded(table.title):
            self.table(table.head, table.rows)
            for note in table.notes:
                self.text(note, "muted")

    def panels(self, figures: Sequence[Figure], caption: str, keys: Sequence[str] = ()) -> None:
        """Small figures side by side, as many as there is room for, with one legend."""
        legend = "".join(f"<span>{_swatch(k)}{html.escape(name)}</span>"
                         for k, name in enumerate(keys, 1))
        legend = f'<div class="key">{legend}</div>' if len(keys) > 1 else ""
        drawings = "".join(inline_svg(figure) for figure in figures)
        self.parts.append(f"<figure><figcaption>{html.escape(caption)}</figcaption>{legend}"
                          f'<div class="panels" role="img" aria-label="'
                          f'{html.escape(caption, quote=True)}">{drawings}</div></figure>')

    def frame(self, page: str, caption: str) -> None:
        """Another page within this one, which it brings along whole."""
        self.parts.append(f"<figure><figcaption>{html.escape(caption)}</figcaption>{page}</figure>")

    def gallery(self, figures: Mapping[str, str]) -> None:
        """Small pictures or pages side by side, by their captions."""
        self.parts.append('<div class="gallery">' + "".join(
            f"<figure><figcaption>{html.escape(caption)}</figcaption>{body}</figure>"
            for caption, body in figures.items()) + "</div>")

    def html(self) -> str:
        links = "".join(f'<a href="#{a}">{html.escape(title)}</a>' for a, title in self.sections)
        return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
                f'<meta name="viewport" content="width=device-width, initial-scale=1">'
                f"<title>{html.escape(self.title)}</title><style>{STYLE}</style></head><body>"
                f"<h1>{html.escape(self.title)}</h1><nav>{links}</nav>"
                f"{''.join(self.parts)}</body></html>\n")


def _cell(text: str, words: bool, head: str) -> str:
    """A cell; one that is given its heading shows it on a narrow page."""
    mark = " class=words" if words else ""
    mark += f' data-head="{html.escape(head, quote=True)}"' if head else ""
    return f"<td{mark}>{_inline(text)}</td>"


def _inline(words: str) -> str:
    """Text with equations between dollar signs, code between backticks, links in brackets."""
    return "".join(mathml(part) if k % 2 else _LINK.sub(r'<a href="\2">\1</a>', _CODE.sub(
        r"<code>\1</code>", html.escape(part))) for k, part in enumerate(words.split("$")))


def _swatch(number: int) -> str:
    """A piece of the line that curve `number` is drawn with."""
    style = STYLES[(number - 1) % len(STYLES)]
    dashes = "" if style == "-" else f' stroke-dasharray="{" ".join(str(2 * x) for x in style[1])}"'
    return (f'<svg viewBox="0 0 32 10" aria-hidden="true"><path d="M0 5H32" fill="none" '
            f'stroke="var(--c{number})" stroke-width="2.5"{dashes}/></svg>')
