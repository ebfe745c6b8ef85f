"""The layers of the package: who may import whom, and names that are used once."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import nlink

ROOT = Path(nlink.__file__).parent

MAY_IMPORT = {
    # what everything is made of
    "scalars": "",
    "spatial": "scalars",
    "model": "scalars spatial",
    # what is computed: no compiler here
    "algorithms": "model scalars spatial",
    "programs": "algorithms model scalars spatial",
    "iterations": "scalars",
    # how it is computed: no mechanics here
    "backends": "iterations programs scalars",
    "closed_forms": "programs scalars",
    # what users hold
    "formats": "model",
    "viewer": "formats model scalars spatial",
    "engines": "algorithms backends closed_forms formats iterations model programs robot scalars "
               "spatial viewer",
    "derivatives": "algorithms backends engines model programs robot scalars spatial",
    "robot": "engines formats kinematics loops model papers programs scalars viewer",
    "reports": "formats model robot",
    "storage": "formats iterations model robot",
    "simulation": "algorithms backends derivatives engines formats iterations model programs "
                  "reports robot scalars spatial storage viewer",
    "loops": "algorithms engines iterations model programs reports robot scalars simulation",
    "papers": "algorithms closed_forms engines formats model programs reports robot scalars "
              "simulation spatial viewer",
    "kinematics": "algorithms backends engines iterations model programs robot scalars simulation "
                  "spatial",
    "identification": "algorithms backends derivatives engines formats iterations kinematics "
                      "model programs reports robot scalars simulation spatial viewer",
    "optimization": "backends engines formats model programs reports robot scalars simulation",
    "testing": "algorithms engines formats model programs robot scalars",
    "bench": "backends casadi derivatives engines formats gym jax kinematics model numba "
             "optimization papers programs reports robot scalars simulation studies testing torch "
             "viewer",
    "studies": "backends formats iterations model programs reports robot simulation storage",
    "sweeps": "studies",
    "gym": "derivatives formats iterations model programs robot scalars simulation studies viewer",
    # other frameworks
    "numba": "backends derivatives engines robot simulation",
    "casadi": "backends derivatives robot simulation",
    "jax": "backends derivatives robot simulation",
    "torch": "backends derivatives robot simulation",
    "cli": "algorithms backends bench engines formats identification model optimization papers "
           "reports robot scalars simulation studies storage viewer",
    "__main__": "cli",
}
"""For each package, or module beside them, those it may import; all may import `nlink` itself."""

MAY_WAIT = (
    ("", "backends.llvm"),     # LLVM is loaded when something is compiled
    ("bench.dynamics", "bench.machine_limits"),
    ("bench.dynamics", "bench.peak"),
    ("numba", "backends.numba_calls"),  # an optional package is imported where it is used
    ("", "reports.terminal"),  # rich is loaded when something is printed
    ("cli", ""),               # a command loads what it needs
    ("robot", "loops"),        # robot.py is at the bottom of what these are on top of
    ("robot", "papers"),
    ("robot", "kinematics"),
    ("robot", "viewer"),       # nothing is drawn by `import nlink`
    ("loops.plans", "reports"),
    ("simulation.run", "viewer"),
    ("torch", "backends.torch_calls"),
    ("jax", "backends.jax_calls"),  # frameworks are imported when they are asked for
    ("simulation.system", "simulation.step_programs"),  # which are of systems
    ("robot", "formats.convert"),  # writers are loaded when something is written
    ("engines.exports", "backends.c"),
    ("engines.editable", "viewer.mesh_hulls"),  # meshes are read when they are asked for
    ("identification.fit", "identification.fit_report"),  # a page, when it is written
    ("formats.load", "formats.mjcf"),
    ("formats.load", "formats.urdf"),
    ("papers.operators.linear", "papers.operators"),
    ("simulation.run", "simulation.datasets"),
    ("simulation.run", "simulation.figures"),
    ("simulation.run", "simulation.live"),  # which simulates
    ("simulation.run", "simulation.run_files"),
    ("simulation.simulator", "reports.progress"),
    ("simulation.simulator", "simulation.interpreted"),
    ("storage.array_store", "storage.plain_files"),  # which imports zarr
)
"""Imports within functions: of what, and where; for the time it takes to start."""

MAY_SHARE_A_NAME: set[str] = set()
"""Classes that exist twice."""


@dataclass(frozen=True)
class Import:
    """A module of the project that another one imports, not for its types alone."""

    importer: str
    imported: str
    waits: bool
    """Whether it is within a function."""


def name_of(path: Path) -> str:
    """A module as `package.module`; "" is the package nlink itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    return {name_of(path): ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}


@cache
def imports() -> tuple[Import, ...]:
    return tuple(Import(importer, imported, waits) for importer, tree in trees().items()
                 for imported, waits in imported_by(tree))


def imported_by(tree: ast.AST, *, waits: bool = False) -> Iterator[tuple[str, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        names: Iterable[str] = ()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module, "relative imports say less than full ones"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            root, _, module = name.partition(".")
            if root == "nlink":
                yield module if module in trees() else module.rpartition(".")[0], waits
        yield from imported_by(node, waits=waits or isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))


def package(module: str) -> str:
    return module.partition(".")[0]


def within(module: str, outer: str) -> bool:
    return not outer or module == outer or module.startswith(outer + ".")


def graph(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    edges: defaultdict[str, set[str]] = defaultdict(set)
    for a, b in pairs:
        if a != b:
            edges[a].add(b)
    return edges


def order(edges: dict[str, set[str]]) -> list[str]:
    try:
        return list(TopologicalSorter(edges).static_order())
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' -> '.join(error.args[1][::-1])}")


def test_every_package_has_a_row():
    assert {package(module) for module in trees()} - {""} <= set(MAY_IMPORT)


def test_no_layer_is_crossed():
    crossed = [f"{x.importer} imports {x.imported}" for x in imports()
               if package(x.importer) and package(x.imported)
               and package(x.imported) != package(x.importer)
               and package(x.imported) not in MAY_IMPORT[package(x.importer)].split()]
    assert not crossed


def test_packages_have_an_order():
    """Those with modules of their own: robot.py is a door to several of them."""
    packages = {package(module) for module in trees() if "." in module}
    order(graph((package(x.importer), package(x.imported)) for x in imports()
                if {package(x.importer), package(x.imported)} <= packages))


def test_modules_have_an_order_in_which_they_load():
    order(graph((x.importer, x.imported) for x in imports() if not x.waits))


def test_imports_wait_only_where_it_saves_time():
    waiting = [f"{x.importer} imports {x.imported}" for x in imports()
               if x.waits and not any(within(x.importer, a) and within(x.imported, b)
                                      for a, b in MAY_WAIT)]
    assert not waiting


def test_a_module_name_is_used_once():
    counts = Counter(path.stem for path in ROOT.rglob("*.py") if path.stem != "__init__")
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.slow
def test_a_class_name_is_used_once():
    counts = Counter(node.name for tree in trees().values() for node in ast.walk(tree)
                     if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))
    assert {name for name, count in counts.items() if count > 1} <= MAY_SHARE_A_NAME
