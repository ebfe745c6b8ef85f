"""Names of `nlink.studies`, where studies of many simulations live now."""

from __future__ import annotations

from nlink.studies import (  # pyright: ignore[reportAttributeAccessIssue]
    ChunksFailed,
    LogUniform,
    Normal,
    Study,
    SweepResult,
    Uniform,
    read_study,
    run_study,
)

__all__ = ["ChunksFailed", "LogUniform", "Normal", "Study", "SweepResult", "Uniform",
           "read_study", "run_study"]
