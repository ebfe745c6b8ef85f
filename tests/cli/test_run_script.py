"""`./run`: what each command installs, with a Python that only writes down what it is asked."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAKE = """#!/bin/sh
echo "$@" >>"$ASKED"
case "$*" in
    "-m venv --clear"*) mkdir -p "$4/bin"; rm -f "$4"/stamp*; cp "$0" "$4/bin/python"
                        cp "$0" "$4/bin/nlink" ;;
    *"pip install"*) echo "Collecting numpy>=1.26"
                     if [ -n "${FAILS:-}" ]; then echo "no index"; exit 1; fi ;;
esac
"""


@pytest.fixture
def clone(tmp_path):
    """A directory with the script, what it reads, and a call of it that gives its exit status,
    what it said and what Python was asked."""
    if os.name != "posix":
        pytest.skip("the Python that writes down what it is asked is a shell script")
    for name in ("run", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    python, asked = tmp_path / "python", tmp_path / "asked"
    python.write_text(FAKE, "utf-8")
    python.chmod(0o755)

    def call(*words: str, **environment: str) -> tuple[int, str, str]:
        asked.write_text("", "utf-8")
        done = subprocess.run([str(tmp_path / "run"), *words], capture_output=True, text=True,
                              env={**os.environ, "PYTHON": str(python), "ASKED": str(asked),
                                   **environment}, check=False)
        return done.returncode, done.stderr, asked.read_text("utf-8")

    return tmp_path, call


def test_demo_installs_what_it_needs_and_says_so(clone):
    place, call = clone
    status, said, asked = call("demo", "--out", "x")
    assert status == 0
    assert f"-e {place}[plot]\n" in asked
    assert "demo --out x" in asked
    assert "making .venv" in said
    assert "installing nlink[plot]" in said
    assert "run:   numpy" in said
    assert "pip" not in call("demo")[2]


@pytest.mark.slow
def test_tests_add_to_what_is_there_and_hold_the_rest(clone):
    place, call = clone
    call("demo")
    asked = call("test")[2]
    assert "venv --clear" not in asked
    assert f"-e {place}[all,docs,test]\n" in asked
    for command in ("demo", "nlink", "test"):
        assert "pip" not in call(command)[2]


def test_other_pins_make_the_environment_anew(clone):
    place, call = clone
    call("test")
    with (place / "constraints.txt").open("a") as stream:
        stream.write("# changed\n")
    asked = call("nlink", "robots")[2]
    assert "venv --clear" in asked
    assert f"-e {place}[all]\n" in asked


def test_a_failed_installation_is_shown_and_tried_again(clone):
    _, call = clone
    status, said, asked = call("demo", FAILS="1")
    assert status == 1
    assert "no index" in said
    assert said.endswith("run: the installation failed\n")
    assert "demo" not in asked
    assert call("demo")[0] == 0
