"""The pages of the reference, one for each package that has public names."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import nlink
import nlink.casadi
import nlink.jax
import nlink.numba
import nlink.simulation
import nlink.studies
import nlink.testing
import nlink.torch

TITLES = {
    "robot": "Robot",
    "model": "Models: links, joints, frames, rotations",
    "formats": "Files",
    "derivatives": "Derivatives",
    "engines": "Counts, closed forms, C",
    "programs": "Linear equations",
    "kinematics": "Reaching: inverse kinematics and paths",
    "optimization": "Optimal control",
    "simulation": "Simulation and controllers",
    "studies": "Sweeps",
    "loops": "Mimic joints",
    "scalars": "Functions for controllers and events",
    "testing": "Checks, laws and random mechanisms",
    "backends": "Threads",
    "casadi": "CasADi",
    "jax": "JAX",
    "torch": "PyTorch",
    "numba": "Numba",
}


def public_names() -> dict[str, list[str]]:
    """The names of nlink and of its packages for users as they are written, by package."""
    found: dict[str, list[str]] = {package: [] for package in TITLES}
    for name in nlink.__all__:
        found.setdefault(nlink._HOME[name].split(".")[1], []).append(f"nlink.{name}")
    known = {id(getattr(nlink, name)) for name in nlink.__all__}
    for module in (nlink.simulation, nlink.studies, nlink.testing):
        found[module.__name__.split(".")[1]] += [
            f"{module.__name__}.{name}" for name in module.__all__
            if id(getattr(module, name)) not in known]
    for module in (nlink.casadi, nlink.jax, nlink.numba, nlink.torch):
        found[module.__name__.split(".")[1]] += [
            f"{module.__name__}.{name}" for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__]
    return {package: names for package, names in found.items() if names}


def look_up(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def _entry(name: str) -> str:
    item = look_up(name)
    if not inspect.isclass(item):
        return f".. {'autofunction' if callable(item) else 'autodata'}:: {name}\n"
    kind = "autoexception" if issubclass(item, Exception) else "autoclass"
    inherited = "   :inherited-members:\n" if item is nlink.Robot else ""
    members = "" if issubclass(item, Exception) else f"   :members:\n{inherited}"
    return f".. {kind}:: {name}\n{members}"


def write_reference(directory: Path) -> None:
    """A page for each package; pages that have not changed keep their dates."""
    directory.mkdir(exist_ok=True)
    pages = {"index": "Reference\n=========\n\n.. toctree::\n\n" + "".join(
        f"   {package}\n" for package in public_names())}
    for package, names in public_names().items():
        title = TITLES.get(package, package)
        pages[package] = "\n".join([title, "=" * len(title), "", *map(_entry, names)])
    for name, text in pages.items():
        path = directory / f"{name}.rst"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
