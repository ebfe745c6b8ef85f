"""The site of the documentation, built by `./run docs`: the Markdown pages as they are, the
tutorials also as notebooks, and a reference made from docstrings."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from live_gallery import write_gallery  # noqa: E402
from notebooks import FOLDERS, write_notebooks  # noqa: E402
from reference import write_reference  # noqa: E402

import nlink  # noqa: E402

project = "nlink"
author = "nlink contributors"
version = release = nlink.__version__
project_copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "typeset"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["README.md", "_build"]
nitpicky = False
default_role = "literal"
pygments_style = "a11y-light"
pygments_dark_style = "monokai"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

autodoc_typehints = "none"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"nlink {release}"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["_static"]
html_css_files = ["site.css"]

INCLUDED = re.compile(r"```\{include\} (\S+)\n```\n")
PLACES = {"../CONTRIBUTING.md": "contributing.md", "../CHANGELOG.md": "changelog.md",
          "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
          "../README.md": "index.md", "README.md": "index.md", "docs/": ""}
"""How links begin in the repository, and where they lead in the site."""
SPECIAL = re.compile(r"(`[^`]*`)|([*|]|_(?!\w))")
"""What is code, or what would be markup to reStructuredText; docstrings are plain text."""
PAGE = re.compile(r"(?<![`/])docs/([\w-]+)\.md")
"""A page that a docstring names."""


def lead_to_pages(app: Any, docname: str, source: list[str]) -> None:
    """Pages beside `docs` are put in, and links to them lead to where they are in the site."""
    source[0] = INCLUDED.sub(lambda m: (HERE / m[1]).read_text("utf-8"), source[0])
    up = "../" * docname.count("/")
    for path, page in PLACES.items():
        source[0] = source[0].replace(f"]({up}{path}", f"]({up}{page}")


def list_the_rest(app: Any, docname: str, source: list[str]) -> None:
    """Pages that the index does not name are listed last among the how-to pages."""
    if docname == "index":
        named = set(source[0].split())
        rest = [path.stem for path in sorted(HERE.glob("*.md"))
                if path.stem not in named | {"README", "index"}]
        last = "\nadding-an-integrator\n"
        source[0] = source[0].replace(last, "\n".join([last.rstrip(), *rest, ""]))


def offer_notebook(app: Any, docname: str, source: list[str]) -> None:
    """Below its title a page has a link to the notebook that is made from it."""
    folder, _, name = docname.partition("/")
    if folder in {each.name for each in FOLDERS}:
        title, rest = source[0].split("\n", 1)
        source[0] = (f"{title}\n\n{{download}}`This page as a Jupyter notebook "
                     f"<../notebooks/{name}.ipynb>`\n{rest}")


def as_restructured_text(app: Any, what: str, name: str, item: Any, options: Any,
                         lines: list[str]) -> None:
    """Plain docstrings: signs that are markup are escaped, indented lines stand as they are."""
    written: list[str] = []
    literal = doctest = False
    for line in lines:
        doctest = bool(line.strip()) and (doctest or line.lstrip().startswith(">>>"))
        bullet = line.lstrip().startswith(("- ", "* "))
        indented = line.startswith("    ") and not bullet
        if doctest:
            literal = False
        elif indented and not literal and (not written or not written[-1].strip()):
            written += ["::", ""]
            literal = True
        elif line.strip() and not indented:
            literal = False
        written.append(line if doctest or literal else PAGE.sub(
            r":doc:`/\1`", SPECIAL.sub(lambda m: m[1] or f"\\{m[2]}", line)))
    lines[:] = written


def setup(app: Any) -> None:
    write_reference(HERE / "api")
    write_notebooks(HERE / "notebooks")
    write_gallery(Path(app.outdir) / "live")
    app.connect("source-read", lead_to_pages)
    app.connect("source-read", list_the_rest)
    app.connect("source-read", offer_notebook)
    app.connect("autodoc-process-docstring", as_restructured_text)
