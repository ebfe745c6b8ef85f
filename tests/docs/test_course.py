"""The course: its pictures are drawn by its script, and its equations stand as MathML."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))


@pytest.mark.slow
def test_each_lesson_has_its_picture(tmp_path):
    pytest.importorskip("matplotlib")
    from course_pictures import draw_pictures

    drawn = draw_pictures(tmp_path)
    assert all(path.stat().st_size > 5_000 for path in drawn)
    shown = [re.search(r"pictures/(course-\d\.png)", page.read_text("utf-8"))
             for page in sorted((DOCS / "course").glob("*.md"))]
    assert [path.name for path in drawn] == [found[1] for found in shown if found]


def test_an_index_stands_beside_a_symbol_with_a_dot():
    pytest.importorskip("docutils")
    from typeset import mathml

    drawn = mathml(r"{\dot q}_i \, x", block=False)
    assert "munderover" not in drawn
    assert re.search(r"<msub>\s*<mover[^>]* accent=.true.", drawn)
    assert "&" not in drawn.replace("&lt;", "").replace("&amp;", "")


def test_equations_of_all_pages_can_be_written():
    pytest.importorskip("docutils")
    from typeset import mathml

    found = [each for page in DOCS.rglob("*.md")
             for each in re.findall(r"\$\$(.+?)\$\$", page.read_text("utf-8"), re.DOTALL)]
    assert len(found) > 40
    for each in found:
        assert mathml(each.strip(), block=True).startswith("<math")
