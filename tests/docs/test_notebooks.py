"""The tutorials as notebooks: they hold what the pages hold, and print what the pages say.

Cells are the blocks of a page, which `test_docs.py` runs in order. Notebooks that show pictures
are run by a kernel instead: what is shown is IPython's.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

from notebooks import BLOCK, FOLDERS, notebook, pages, write_notebooks  # noqa: E402

PAGES = pages()
WITH_PICTURES = [page for page in PAGES if "IPython" in json.dumps(notebook(page))]


def printed(cell) -> str:
    return "".join("".join(output["text"]) for output in cell["outputs"]
                   if output["output_type"] == "stream")


def meaning(source: str) -> str:
    return ast.dump(ast.parse(source))


@pytest.mark.slow
def test_written_notebooks_have_the_blocks_of_their_pages(tmp_path):
    for page, path in zip(PAGES, write_notebooks(tmp_path), strict=True):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        blocks = [block[1] for block in BLOCK.finditer(page.read_text("utf-8"))]
        assert [*map(meaning, blocks)] == [meaning(source) for source in sources
                                           if "IPython" not in source], page.name


def test_prose_has_no_markup_of_the_site_and_leads_to_other_notebooks_only():
    for page in PAGES:
        prose = "".join("".join(cell["source"]) for cell in notebook(page)["cells"]
                        if cell["cell_type"] == "markdown")
        assert "details>" not in prose
        for target in re.findall(r"\]\(([^):]+)\)", prose):
            assert any((folder / target).with_suffix(".md").is_file() for folder in FOLDERS), target


def test_notebooks_that_a_kernel_runs_are_those_that_show_pictures():
    """`test_docs.py` leaves these pages to the kernel."""
    assert {page.stem for page in WITH_PICTURES} == {
        "optimal-control", "quadruped", "urdf-to-simulation"}


def test_notebooks_are_valid():
    nbformat = pytest.importorskip("nbformat")
    for page in PAGES:
        nbformat.validate(notebook(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PICTURES, ids=lambda page: page.stem)
def test_kernel_prints_what_the_page_says_and_shows_pictures(page, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    wanted = notebook(page)
    found = nbformat.reads(json.dumps(wanted), as_version=4)
    nbclient.NotebookClient(found, kernel_name="python3", timeout=120,
                            resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell, stated in zip(found.cells, wanted["cells"], strict=True):
        if cell.cell_type == "code":
            assert not stated["outputs"] or printed(cell) == printed(stated), stated["source"]
    assert any("image/png" in output.get("data", {}) for cell in found.cells
               for output in cell.get("outputs", []))
