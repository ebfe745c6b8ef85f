"""The `nlink` command's application: what all commands share.

The controllers the command line knows by name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

import nlink

app = typer.Typer(
    name="nlink", pretty_exceptions_enable=False, no_args_is_help=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]})
cache_app = typer.Typer(rich_markup_mode=None, help="Compiled kernels kept on disk.")
app.add_typer(cache_app, name="cache")

RobotName = Annotated[str, typer.Argument(
    metavar="ROBOT",
    help="A bundled name (see `nlink robots`) or a .toml, .urdf or .xml (MJCF) file.",
    autocompletion=lambda: list(nlink.robots()))]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Floating = Annotated[bool, typer.Option(
    "--floating", help="Free the base body: a URDF's root link, or one fixed to the base.")]
Degrees = Annotated[bool, typer.Option(
    "--deg", help="Angles and their rates are given in degrees; results stay in radians.")]
Formulation = Annotated[str | None, typer.Option(
    "--algorithm", metavar="NAME", help="A formulation other than the default.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"nlink {nlink.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option(
        "--version", callback=_show_version, is_eager=True,
        help="Print the version and exit.")] = False,
) -> None:
    """The dynamics of robots and other multibody mechanisms, O(n)."""
    if context.invoked_subcommand is None:
        print(context.get_help())


class Control(StrEnum):
    """Controllers `nlink simulate --control` knows."""

    none = "none"
    forced = "forced"
    pd = "pd"
    computed_torque = "computed-torque"
