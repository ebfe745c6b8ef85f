"""`nlink ik`: configurations for poses, from the command line or a file."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import nlink
from nlink.cli.app import AsJson, Floating, RobotName, app
from nlink.cli.queries import AsCsv

WIDTHS = {3: "x, y, z", 6: "x, y, z, roll, pitch, yaw", 7: "x, y, z and a quaternion w, x, y, z"}
"""How a target may be written."""


@app.command("ik")
def inverse_kinematics(
    robot: RobotName,
    targets: Annotated[str | None, typer.Argument(
        metavar="[TARGETS]", show_default=False,
        help="CSV or NPY file with a target in each row: x, y, z in metres, then nothing, or roll, "
        "pitch, yaw in radians, or a quaternion w, x, y, z; - is standard input.")] = None,
    to: Annotated[str | None, typer.Option(
        "--to", metavar="LIST", help="One target, as 0.4,0.1,0.5 or with three or four more "
        "numbers.")] = None,
    frame: Annotated[str | None, typer.Option(
        "--frame", metavar="NAME", help="The frame to move; default the last link.")] = None,
    q0: Annotated[str | None, typer.Option(
        "--q0", metavar="LIST", help="The q that the search starts from.")] = None,
    tolerance: Annotated[float, typer.Option(
        help="Largest error of a solution, in metres and radians.")] = 1e-6,
    limits: Annotated[bool, typer.Option(help="Keep within the joints' limits.")] = True,
    floating: Floating = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Inverse kinematics: configurations with a frame at a target.

    A target is a pose or a point. The status is 1 if a target is not reached.
    """
    import numpy as np

    from nlink.formats.state_rows import read_numbers
    from nlink.reports import terminal

    model = nlink.load(robot, floating=floating)
    rows = _targets(to, targets)
    where = _frame(model, frame)
    first = None if q0 is None else read_numbers("--q0", q0, model.nq)
    found = nlink.ik(model, _poses(rows), where, first, tolerance=tolerance, limits=limits)
    if as_json:
        terminal.print_json({"robot": model.name, "frame": where, "q": found.q,
                             "distance": found.distance, "angle": found.angle,
                             "status": found.status.tolist(), "iterations": found.iterations})
    elif as_csv or not sys.stdout.isatty():
        terminal.print_csv([*model.q_names, "distance", "angle"], np.column_stack(
            [found.q, found.distance, found.angle]))
    else:
        table = terminal.grid(*model.q_names, "metres left", "radians left", "status",
                              text=("status",))
        for k, q in enumerate(found.q):
            table.add_row(*(f"{x:.6g}" for x in q), f"{found.distance[k]:.2g}",
                          f"{found.angle[k]:.2g}", str(found.status[k]))
        terminal.console().print(table)
    if not found.solved.all():
        raise typer.Exit(1)


def _targets(to: str | None, targets: str | None):
    from nlink.formats.state_rows import read_numbers, read_rows

    if (to is None) == (targets is None):
        raise ValueError("no target: expected --to, or a file, or - for standard input, and only "
                         "one of them")
    rows = read_rows(targets) if targets is not None else read_numbers(
        "--to", str(to), to.count(",") + 1)[None]  # type: ignore[union-attr]
    if rows.shape[1] not in WIDTHS:
        raise ValueError(f"{'--to' if to else targets}: {rows.shape[1]} numbers, expected "
                         + ", or ".join(f"{n} ({what})" for n, what in WIDTHS.items()))
    return rows


def _poses(rows):
    """Points, or poses, from rows of numbers."""
    import numpy as np

    if rows.shape[1] == 3:
        return rows
    T = np.tile(np.eye(4), (len(rows), 1, 1))
    T[:, :3, 3] = rows[:, :3]
    T[:, :3, :3] = (nlink.matrix_from_rpy if rows.shape[1] == 6 else
                    nlink.matrix_from_quaternion)(rows[:, 3:])
    return T


def _frame(model: nlink.Robot, frame: str | None) -> int | str:
    if frame is None:
        return model.links[-1].name
    return int(frame) if frame.lstrip("-").isdigit() and frame not in model.frames else frame
