"""Tutorials and lessons of the course as Jupyter notebooks, made from their Markdown pages.

`./run docs` writes them beside the site, and `python docs/notebooks.py DIR` into any directory.
A Python block becomes a cell, with the text that the page prints below it as its output; a file
that a cell draws (`.png`) or writes (`.html`) is shown by the next one; what lies between is prose.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDERS = tuple(Path(__file__).parent / name for name in ("tutorials", "course"))
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[.*\]\(.*\)\n", re.MULTILINE)
SITE = re.compile(r"^```\{raw\} html\n.*?^```\n", re.MULTILINE | re.DOTALL)
SUMMARY = re.compile(r"<details><summary>(.*?)</summary>")
LINK = re.compile(r"\[([^]]+)\]\(([^):]+)\)")
SHOWN = {".png": "Image", ".html": "IFrame"}
"""What IPython shows a file with, by its ending."""

Cell = dict[str, Any]


def notebook(page: Path) -> dict[str, Any]:
    """A page as a notebook, ready for `json.dump`."""
    cells = list(_cells(page.read_text("utf-8")))
    for k, cell in enumerate(cells, 1):
        cell["id"] = f"cell-{k}"
    return {"nbformat": 4, "nbformat_minor": 5, "cells": cells, "metadata": {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"}}}


def pages() -> list[Path]:
    """The pages that are notebooks, too."""
    return [page for folder in FOLDERS for page in sorted(folder.glob("*.md"))]


def write_notebooks(directory: Path) -> list[Path]:
    """Every page; notebooks that have not changed keep their dates."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for page in pages():
        path = directory / f"{page.stem}.ipynb"
        text = json.dumps(notebook(page), ensure_ascii=False, indent=1) + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
        written.append(path)
    return written


def _cells(text: str) -> Iterator[Cell]:
    end = 0
    for block in BLOCK.finditer(text):
        yield from _prose(text[end:block.start()])
        files = _files(block[1])
        yield _code(_quiet(block[1]) if files else block[1], block[2])
        if files:
            shown = sorted({SHOWN[Path(name).suffix] for name in files})
            yield _code("\n".join([f"from IPython.display import {', '.join(shown)}, display", "",
                                   *map(_show, files)]), None)
        end = block.end()
    yield from _prose(text[end:])


def _prose(text: str) -> Iterator[Cell]:
    text = SUMMARY.sub(r"### \1", SITE.sub("", PICTURE.sub("", text))).replace("</details>", "")
    text = LINK.sub(_link, text).strip()
    if text:
        yield {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def _link(found: re.Match[str]) -> str:
    """Links among these pages lead to notebooks; other pages stay behind, with their names."""
    words, target = found.groups()
    *above, name = target.partition("#")[0].split("/")
    known = any((folder / name).is_file() and above in ([], ["..", folder.name])
                for folder in FOLDERS)
    return f"[{words}]({Path(name).stem}.ipynb)" if known else words


def _code(source: str, printed: str | None) -> Cell:
    output = [{"output_type": "stream", "name": "stdout",
               "text": printed.splitlines(keepends=True)}] if printed else []
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": output,
            "source": source.strip("\n").splitlines(keepends=True)}


def _files(source: str) -> list[str]:
    """The pictures and pages that a cell writes: first arguments of `plot`, `png` and `html`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)
             and isinstance(node.func, ast.Attribute) and node.args
             and node.func.attr in ("plot", "png", "html")]
    return [call.args[0].value for call in sorted(calls, key=lambda call: call.lineno)
            if isinstance(call.args[0], ast.Constant)]


def _quiet(source: str) -> str:
    """The same cell, not echoing its last expression: a figure would be shown twice."""
    last, lines = ast.parse(source).body[-1], source.splitlines()
    if isinstance(last, ast.Expr):
        line, column = last.end_lineno - 1, last.end_col_offset
        lines[line] = f"{lines[line][:column]};{lines[line][column:]}"
    return "\n".join(lines)


def _show(name: str) -> str:
    size = ', width="100%", height=480' if name.endswith(".html") else ""
    return f'display({SHOWN[Path(name).suffix]}("{name}"{size}))'


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/notebooks.py DIR")
    for path in write_notebooks(Path(sys.argv[1])):
        print(path)
