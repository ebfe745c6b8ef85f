"""Sweeps: studies of many simulations, on this machine or on a Dask cluster."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlink.studies.drawing import LogUniform as LogUniform
    from nlink.studies.drawing import Normal as Normal
    from nlink.studies.drawing import Uniform as Uniform
    from nlink.studies.reductions import SweepResult as SweepResult
    from nlink.studies.study import Study as Study
    from nlink.studies.study_files import read_study as read_study
    from nlink.studies.sweeping import ChunksFailed as ChunksFailed
    from nlink.studies.sweeping import run_study as run_study

_HOMES = {
    "drawing": ("LogUniform", "Normal", "Uniform"),
    "reductions": ("SweepResult",),
    "study": ("Study",),
    "study_files": ("read_study",),
    "sweeping": ("ChunksFailed", "run_study"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["ChunksFailed", "LogUniform", "Normal", "Study", "SweepResult", "Uniform",
           "read_study", "run_study"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
