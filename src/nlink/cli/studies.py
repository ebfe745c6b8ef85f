"""`nlink sweep`: a study from a file into a store."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nlink.cli.app import AsJson, app

if TYPE_CHECKING:
    from nlink.studies.estimates import Estimate


@app.command()
def sweep(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A .toml file.")],
    out: Annotated[str | None, typer.Option(
        metavar="STORE", help="A .zarr path, or an address that fsspec knows; a sweep that was "
        "interrupted is continued.")] = None,
    scheduler: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Address of a Dask cluster, such as tcp://host:8786; default this "
        "machine.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one chunk may take.")] = 3600.0,
    verify: Annotated[bool, typer.Option(
        "--verify", help="Read all chunks that are done, and repeat those that were changed.")]
    = False,
    cost: Annotated[bool, typer.Option(
        "--cost", help="Simulate some trajectories, and say what the study will cost.")] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a study, chunk by chunk, here or on a Dask cluster."""
    from nlink.reports import terminal
    from nlink.studies.estimates import estimate
    from nlink.studies.study_files import read_study
    from nlink.studies.sweeping import ChunksFailed, run_study

    if (out is None) != cost:
        raise ValueError("--out: expected a store, or --cost instead")
    asked = read_study(study)
    if cost:
        _print_cost(estimate(asked), as_json=as_json)
        return
    assert out is not None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said below
    try:
        result = run_study(asked, out, client=scheduler, timeout=timeout, verify=verify)
    except ChunksFailed as error:
        raise ValueError(str(error)) from None
    markers = result.markers.values()
    numbers: dict[str, Any] = {
        "store": result.path, "study": asked.digest, "trajectories": result.trajectories,
        "chunks": result.chunks, "done": len(markers), "status": result.status(),
        "steps": sum(marker["steps"] for marker in markers),
        "seconds": round(sum(marker["seconds"] for marker in markers), 3),
        "processors": sorted({marker["cpu"] for marker in markers})}
    if as_json:
        terminal.print_json(numbers)
        return
    ended = ", ".join(f"{word}: {count:,}" for word, count in numbers["status"].items())
    terminal.say(f"{numbers['trajectories']:,} trajectories in {numbers['chunks']} chunks; {ended}",
                 f"{numbers['steps']:,} steps, {numbers['seconds']:g} s in all chunks together, on "
                 f"{', '.join(numbers['processors'])}", f"{result.path} written")


def _print_cost(found: Estimate, *, as_json: bool) -> None:
    from nlink.reports import terminal

    if as_json:
        terminal.print_json(asdict(found) | {"core_hours": found.core_hours, "bytes": found.bytes})
        return
    terminal.say(
        f"{found.trajectories:,} trajectories, {1e6 * found.seconds_each:.1f} us of one core each "
        f"(from {found.tried:,} of them): {found.core_hours:.3g} core-hours",
        f"{found.bytes_each} bytes each: {found.bytes / 1e9:.3g} GB in {found.files:,} files",
        f"{found.chunks:,} chunks of {found.seconds_per_chunk:.2g} s")
