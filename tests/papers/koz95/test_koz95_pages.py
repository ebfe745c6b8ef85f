"""The page of equations names tests that exist, and the page's picture can be drawn."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
DOCS, EXAMPLES = (HERE.parents[2] / name for name in ("docs", "examples"))


def test_every_test_named_by_the_page_exists():
    page = (DOCS / "equations-koz95.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    written = {name for path in HERE.glob("test_*.py")
               for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    assert named <= written
    equations = {name for name in written if name.startswith("test_eq_")}
    assert equations <= named


def test_the_picture_shows_two_motions_without_common_energy(tmp_path):
    figure = runpy.run_path(str(EXAMPLES / "two_link_quasi_velocities.py"))["two_link_figure"]()
    assert len(figure.axes) == 3
    figure.savefig(tmp_path / "nu.png")
    assert np.isclose((tmp_path / "nu.png").read_bytes()[0], 0x89)
