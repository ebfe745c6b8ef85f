"""`nlink benchmarks`: published problems of multibody dynamics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nlink.cli.app import AsJson, app


@app.command()
def benchmarks(
    names: Annotated[list[str] | None, typer.Argument(
        metavar="[NAMES]...", help="Problems such as A01 or Andrews; default all.")] = None,
    plot: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Draw errors over times as .png, .svg or .pdf.")] = None,
    save: Annotated[Path | None, typer.Option(
        "--markdown", metavar="FILE", help="Also write the table, with sources, as Markdown.")]
    = None,
    models: Annotated[Path | None, typer.Option(
        metavar="DIR", help="Only write the mechanisms as TOML files.")] = None,
    as_json: AsJson = False,
) -> None:
    """Solve the field's published problems, with errors and times.

    Each is solved at three tolerances. Errors are the differences from published values, closed
    forms or independent solutions, in metres or radians; docs/multibody-benchmarks.md has the
    sources.
    """
    from nlink.bench.multibody import runs, work_precision
    from nlink.formats.files import write_text
    from nlink.reports import plots, terminal

    if models is not None:
        paths = [str(path) for path in runs.write_models(models)]
        if as_json:
            terminal.print_json({"files": paths})
        else:
            terminal.say(*paths)
        return
    if plot is not None:
        plots.picture_path("--plot", plot)
        plots.require_matplotlib()
    with terminal.console(stderr=True).status("solving") as status:
        result = runs.run_benchmarks(
            names or (), progress=lambda what: status.update(terminal.label(f"solving {what}")))
    if plot is not None:
        plots.save(work_precision.draw(result), plot)
    if save is not None:
        write_text(save, runs.markdown(result))
    if as_json:
        print(result.to_json())
        return
    table = terminal.grid(*runs.HEADINGS, text=("problem", "method"))
    for row in runs.rows(result):
        table.add_row(*row)
    terminal.console().print(table)
