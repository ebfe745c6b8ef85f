"""The documentation tells the truth: its Python blocks run, its links lead somewhere."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import sys
import types
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer

import nlink
from nlink.algorithms.catalogue import ALGORITHMS
from nlink.cli import app, printing

ROOT = Path(__file__).parents[2]
PAGES = [*(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
         *(page for page in sorted((ROOT / "docs").rglob("*.md"))
           if page.name not in ("index.md", "changelog.md", "contributing.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
TEST = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
OUTSIDE = re.compile(r"\]\((https?:[^)]*)\)")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = {"pip", "pytest", "dask", "cc", ".ci/run", ".ci/minimum", ".ci/package"}
"""What shell blocks call besides nlink, Python and `./run`."""
KINDS = {"python", "sh", "text", "toml"}
SOURCE = re.compile(r"`(?:nlink/)?([a-z]\w*/[\w/]+\.py)`")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
IN_A_KERNEL = {"optimal-control", "quadruped", "urdf-to-simulation"} if (
    find_spec("nbclient")) else set()
"""Pages that `test_notebooks.py` runs as notebooks."""


@pytest.fixture
def _algorithms_as_they_were():
    """A page may add algorithms: for itself."""
    before = dict(ALGORITHMS)
    yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)


@pytest.mark.slow
@pytest.mark.usefixtures("_algorithms_as_they_were")
@pytest.mark.parametrize("page", [
    pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES
    if page.stem not in IN_A_KERNEL])
def test_python_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look it up
    text = page.read_text("utf-8")
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        code = compile("\n" * line + block[1], str(page), "exec")  # errors name the page's line
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, module.__dict__)
        assert block[2] is None or printed.getvalue() == block[2]


@pages
def test_blocks_are_of_kinds_that_tests_know(page):
    """No Python that is spelled so that nothing runs it, no command that is not checked."""
    text = page.read_text("utf-8")
    kinds = re.findall(r"^```(.*)$", text, re.MULTILINE)
    assert set(kinds[1::2]) <= {""}
    assert {kind for kind in kinds[::2] if not kind.startswith("{")} <= KINDS
    assert not re.search(r"^    (?:nlink|python|\./run) ", outside_of_blocks(text), re.MULTILINE)


def outside_of_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pages
def test_links_lead_to_files(page):
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


@pages
def test_anchors_lead_to_headings(page):
    for target, anchor in ANCHOR.findall(page.read_text("utf-8")):
        text = (page.parent / target if target else page).read_text("utf-8")
        titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
                          for title in titles}


def test_links_to_other_sites_are_few_and_well_formed():
    """There is no network to ask: an address has a scheme, a host, and nothing left over."""
    found = {url for page in PAGES for url in OUTSIDE.findall(page.read_text("utf-8"))}
    assert len(found) <= 20
    for url in found:
        parts = urlsplit(url)
        assert parts.scheme == "https", url
        assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.netloc), url


@pages
def test_shell_blocks_name_commands_and_options_that_exist(page):
    for block in SHELL.findall(page.read_text("utf-8")):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:2] == ["./run", "nlink"]:
                words = words[1:]
            if words and words[0] == "nlink":
                expect_options(words[1:])
            elif words and words[0] == "./run":
                assert f'"{words[1]}": ' in (ROOT / "run").read_text("utf-8"), line
            elif words and words[0] == "python":
                assert words[1].startswith("-") or (ROOT / words[1]).is_file(), line
            else:
                assert not words or words[0] in COMMANDS, line


def expect_options(words: list[str]) -> None:
    """A command of nlink, with options that it has."""
    command = typer.main.get_command(app)
    name, *rest = words
    command = command.commands[name]
    while rest and rest[0] in getattr(command, "commands", ()):
        command, rest = command.commands[rest[0]], rest[1:]
    known = {"--help", *(option for parameter in command.params for option in parameter.opts)}
    known |= {option for parameter in command.params for option in parameter.secondary_opts}
    assert [word for word in rest if word.startswith("--") and word not in known] == []


@pages
def test_named_tests_and_modules_exist(page):
    text = page.read_text("utf-8")
    for path, name in TEST.findall(text):
        assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{path}::{name}"
        assert (ROOT / path).is_file(), path
    for path in SOURCE.findall(text):
        assert (ROOT / path).is_file() or (ROOT / "src" / "nlink" / path).is_file(), path


@pytest.mark.slow
def test_packages_import_only_those_listed_before_them():
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
                        re.MULTILINE)
    source = ROOT / "src" / "nlink"
    assert sorted(listed) == sorted(path.parent.name for path in source.glob("*/__init__.py"))
    for package in listed:
        for path in (source / package).rglob("*.py"):
            for imported in _imports(ast.parse(path.read_text("utf-8"))):
                above = listed[listed.index(package) + 1:]
                assert imported not in above, f"{path.relative_to(ROOT)} imports nlink.{imported}"


def _imports(tree: ast.Module) -> Iterator[str]:
    """The packages of nlink that are imported, but for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        for inner in ast.walk(node):
            names = ([inner.module or ""] if isinstance(inner, ast.ImportFrom) else
                     [alias.name for alias in inner.names] if isinstance(inner, ast.Import) else [])
            yield from (name.split(".")[1] for name in names if name.startswith("nlink."))


def test_readme_counts_are_those_counted():
    table = printing.published_table(nlink.load("puma560"))
    cells = zip(*(column.cells for column in table.columns), strict=True)
    counted = [" ".join(map(str, row)) for row in cells]
    text = PAGES[0].read_text("utf-8")
    section = text[text.index("## Operations"):text.index("## Speed")]
    rows = re.findall(r"^\|(.*\d.*)\|$", section, re.MULTILINE)
    assert [" ".join(row.replace("**", "").replace("|", " ").split()) for row in rows] == counted
