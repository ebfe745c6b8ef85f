"""`nlink optimize`: trajectories of least cost, from a task in TOML."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nlink.cli.app import AsJson, app


@app.command("optimize")
def optimize_task(
    task: Annotated[Path, typer.Argument(
        metavar="TASK", help="A TOML file with the robot, where it starts, and its costs; "
        "docs/optimal-control.md describes it.")],
    out: Annotated[Path | None, typer.Option(
        "--out", metavar="FILE", help="Write times, states and forces: .npz, or .csv of a single "
        "problem.")] = None,
    plot: Annotated[Path | None, typer.Option(
        "--plot", metavar="FILE", help="Draw cost, coordinates and forces: .png, .svg or .pdf.")]
    = None,
    as_json: AsJson = False,
) -> None:
    """Find the forces of least cost for a task.

    The status is 1 if a problem is not solved.
    """
    import numpy as np

    from nlink.optimization.task_file import TaskFile
    from nlink.reports import plots, terminal

    if plot is not None:
        plots.picture_path("--plot", plot)
        plots.require_matplotlib()
    if out is not None and out.suffix not in (".npz", ".csv"):
        raise ValueError(f"--out: {str(out)!r}, expected a name that ends in .npz or .csv")
    read = TaskFile.read(task)
    found = read.solved(progress=sys.stderr.isatty())
    if out is not None:
        if out.suffix == ".csv" and np.ndim(found.cost):
            raise ValueError(f"--out: {out.name} for {found.cost.size} problems, expected .npz")
        found.save(out)
    if plot is not None:
        found.plot(plot)
    files = [str(path) for path in (out, plot) if path is not None]
    flat = {name: np.ravel(getattr(found, name)) for name in ("cost", "status", "iterations",
                                                              "gap")}
    if as_json:
        terminal.print_json({
            "robot": found.robot.name, "knots": len(found.t) - 1, "files": files,
            **{name: values.tolist() for name, values in flat.items()},
            "q_end": found.q[..., -1, :]})
    else:
        table = terminal.grid("cost", "iterations", "largest force", "status", text=("status",))
        most = abs(found.u).reshape(len(flat["cost"]), -1).max(axis=-1)
        for cost, count, force, status in zip(flat["cost"], flat["iterations"], most,
                                              flat["status"], strict=True):
            table.add_row(f"{cost:.6g}", str(count), f"{force:.4g}", str(status))
        terminal.console().print(table)
        terminal.say(*(f"wrote {path}" for path in files))
    if not found:
        raise typer.Exit(1)
