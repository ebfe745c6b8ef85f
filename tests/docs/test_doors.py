"""The page of systems says which function takes which option."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_table_of_options_is_what_the_functions_take():
    spec = importlib.util.spec_from_file_location("doors", DOCS / "doors.py")
    assert spec is not None
    assert spec.loader is not None
    doors = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(doors)
    assert doors.table() in (DOCS / "system.md").read_text("utf-8")
