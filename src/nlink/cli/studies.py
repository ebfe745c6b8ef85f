"""`nlink sweep`: a study from a file into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nlink.cli.app import AsJson, app


@app.command()
def sweep(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A .toml file.")],
    out: Annotated[str, typer.Option(
        metavar="STORE", help="A .zarr path, or an address that fsspec knows; a sweep that was "
        "interrupted is continued.")],
    scheduler: Annotated[str | None, typer.Option(
        metavar="ADDRESS", help="Of a Dask cluster, such as tcp://host:8786; else this machine "
        "computes.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one chunk may take.")] = 3600.0,
    verify: Annotated[bool, typer.Option(
        "--verify", help="Read all chunks that are done, and repeat those that were changed.")]
    = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a study, chunk by chunk, here or on a Dask cluster."""
    from nlink.reports import terminal
    from nlink.sweeps.study_files import read_study
    from nlink.sweeps.sweeping import ChunksFailed, run_study

    asked = read_study(study)
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
