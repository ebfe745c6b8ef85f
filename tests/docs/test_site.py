"""The site: it is built without a warning, its links lead somewhere, and its reference has every
public name, each with an example."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import nlink
import nlink.simulation
import nlink.studies
import nlink.testing

DOCS = Path(__file__).parents[2] / "docs"
MODULES = (nlink, nlink.simulation, nlink.studies, nlink.testing)
CALLED = (nlink.Robot, nlink.simulation.Run, nlink.Stepper)
"""Classes whose methods each have an example of their own; others have one in all."""


def public_names() -> Iterator[tuple[str, Any]]:
    """Each name once, where it is first exported."""
    seen: set[int] = set()
    for module in MODULES:
        items = {name: getattr(module, name) for name in module.__all__}
        yield from ((f"{module.__name__}.{name}", item) for name, item in items.items()
                    if id(item) not in seen)
        seen |= {id(item) for item in items.values()}


def members() -> Iterator[tuple[str, Any]]:
    """Public methods and properties of the classes that users call."""
    for owner in CALLED:
        for name in dir(owner):
            item = inspect.getattr_static(owner, name)
            if not name.startswith("_") and (hasattr(item, "__get__") or callable(item)):
                yield f"{owner.__name__}.{name}", item


def test_public_names_have_docstrings():
    named = [*public_names(), *members()]
    assert [name for name, item in named if not getattr(item, "__doc__", None)] == []


def test_functions_classes_and_methods_have_examples():
    own = [(name, item) for name, item in public_names() if callable(item)]
    own += [(name, getattr(item, "__func__", item)) for name, item in members()]
    assert [name for name, item in own
            if (inspect.isclass(item) or inspect.isfunction(item)) and ">>>" not in item.__doc__
            ] == []


class Targets(HTMLParser):
    """What a page of the site refers to, and what can be referred to on it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        self.links += [given[key] for key in ("href", "src") if given.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    built = subprocess.run([*command, str(DOCS), str(out)], capture_output=True, text=True,
                           check=False)
    assert built.returncode == 0, built.stderr
    return out


@pytest.mark.slow
def test_reference_has_every_public_name(site):
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    listed = {name for kind, items in inventory.items() if kind.startswith("py:") for name in items}
    wanted = {name for name, _ in public_names()}
    wanted |= {f"nlink.Robot.{name}" for name in dir(nlink.Robot) if not name.startswith("_")}
    assert sorted(wanted - listed) == []


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site):
    pages = {page: Targets(page) for page in site.rglob("*.html")}
    broken = []
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = page.parent / unquote(parts.path) if parts.path else page
            target = target.resolve()
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages
                                       and anchor not in pages[target].anchors):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []
    assert len([link for found in pages.values() for link in found.links
                if link.endswith(".ipynb")]) == sum(
                    len(list((DOCS / folder).glob("*.md"))) for folder in ("tutorials", "course"))
