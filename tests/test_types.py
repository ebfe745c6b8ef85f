"""Types: the whole package passes a type checker, and users' checkers may read its types."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nlink

ROOT = Path(__file__).parents[1]


def test_types_are_for_users_too():
    assert (Path(nlink.__file__).parent / "py.typed").is_file()


@pytest.mark.slow
def test_types_are_sound():
    """By the settings of [tool.pyright]; optional packages need not be installed."""
    pytest.importorskip("basedpyright", reason="the type checker is not installed")
    answer = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable,
         "--project", str(ROOT)], capture_output=True, text=True, check=False)
    try:
        found = json.loads(answer.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.skip(f"the type checker does not run: {(answer.stderr or answer.stdout).strip()}")
    assert [f"{x['file']}:{x['range']['start']['line'] + 1}: {x['message']}" for x in found
            if x["severity"] == "error" and (
                x.get("rule") != "reportMissingImports" or '"nlink' in x["message"])] == []
