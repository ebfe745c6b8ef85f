"""The documentation tells the truth: its Python blocks run, its links lead somewhere."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

import nlink
from nlink.algorithms.catalogue import ALGORITHMS
from nlink.cli import printing

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
LONG = {"closed-chains", "compiler", "denoc", "diagonal", "operator-algebra", "simulation"}
"""Pages that take seconds."""


@pytest.fixture
def _algorithms_as_they_were():
    """A page may add algorithms: for itself."""
    before = dict(ALGORITHMS)
    yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)


@pytest.mark.usefixtures("_algorithms_as_they_were")
@pytest.mark.parametrize("page", [
    pytest.param(page, marks=[pytest.mark.slow] * (page.stem in LONG),
                 id=str(page.relative_to(ROOT))) for page in PAGES])
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look it up
    text = page.read_text("utf-8")
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        code = compile("\n" * line + block[1], str(page), "exec")  # errors name the page's line
        exec(code, module.__dict__)


@pages
def test_links_lead_to_files(page):
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_readme_counts_are_those_counted():
    table = printing.published_table(nlink.load("puma560"))
    cells = zip(*(column.cells for column in table.columns), strict=True)
    counted = [" ".join(map(str, row)) for row in cells]
    text = PAGES[0].read_text("utf-8")
    section = text[text.index("## Operations"):text.index("## Speed")]
    rows = re.findall(r"^\|(.*\d.*)\|$", section, re.MULTILINE)
    assert [" ".join(row.replace("**", "").replace("|", " ").split()) for row in rows] == counted
