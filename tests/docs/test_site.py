"""The site: it is built without a warning, and its reference has every public name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nlink
import nlink.simulation

DOCS = Path(__file__).parents[2] / "docs"


def undocumented() -> list[str]:
    """Public names, and methods of Robot, without a docstring."""
    names = [(name, getattr(nlink, name)) for name in nlink.__all__]
    names += [(name, getattr(nlink.simulation, name)) for name in nlink.simulation.__all__]
    names += [(f"Robot.{name}", getattr(nlink.Robot, name)) for name in dir(nlink.Robot)
              if not name.startswith("_")]
    return [name for name, item in names if not getattr(item, "__doc__", None)]


def test_public_names_have_docstrings():
    assert undocumented() == []


@pytest.mark.slow
def test_site_is_built_without_warnings_and_has_every_public_name(tmp_path):
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    from sphinx.util.inventory import InventoryFile

    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    built = subprocess.run([*command, str(DOCS), str(tmp_path)], capture_output=True, text=True,
                           check=False)
    assert built.returncode == 0, built.stderr
    inventory = InventoryFile.loads((tmp_path / "objects.inv").read_bytes(), uri="").data
    listed = {name for kind, items in inventory.items() if kind.startswith("py:") for name in items}
    wanted = {f"nlink.{name}" for name in nlink.__all__}
    wanted |= {f"nlink.simulation.{name}" for name in nlink.simulation.__all__
               if name not in nlink.__all__}
    wanted |= {f"nlink.Robot.{name}" for name in dir(nlink.Robot) if not name.startswith("_")}
    assert sorted(wanted - listed) == []
