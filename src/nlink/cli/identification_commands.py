"""Commands that find a robot's parameters, and say which can be found."""

from __future__ import annotations

from typing import Annotated

import typer

import nlink
from nlink.cli.app import AsJson, Floating, RobotName, app

Friction = Annotated[list[str] | None, typer.Option(
    "--friction", metavar="KIND", help="viscous, coulomb, offset, stribeck, asymmetric; several "
    "times for several.")]


@app.command()
def base(
    robot: RobotName,
    friction: Friction = None,
    armature: Annotated[bool, typer.Option("--armature", help="Include rotor inertias.")] = False,
    floating: Floating = False,
    as_json: AsJson = False,
) -> None:
    """List the base parameters.

    These combinations of masses and inertias are all that joint forces depend on.
    """
    from nlink.reports import terminal

    model = nlink.load(robot, floating=floating, physical="ignore")
    found = nlink.base_parameters(model, friction or (), armature)
    if as_json:
        terminal.print_json({"robot": model.name, "count": len(found), "formulas": found.formulas,
                             "columns": [found.names[k] for k in found.columns],
                             "matrix": found.matrix, "names": found.names})
    else:
        terminal.say(str(found))
