"""Commands that answer a question about a robot."""

from __future__ import annotations

import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import nlink
from nlink.cli.app import AsJson, Degrees, Floating, Formulation, RobotName, app

if TYPE_CHECKING:
    import numpy as np


class Language(StrEnum):
    """Languages `nlink symbolic --code` writes."""

    c = "c"
    python = "python"


@app.command()
def robots(as_json: AsJson = False) -> None:
    """List the bundled robots."""
    from nlink.cli import printing
    from nlink.reports import terminal

    loaded = {name: nlink.load(name, physical="ignore") for name in nlink.robots()}
    if as_json:
        terminal.print_json({name: printing.summary(robot) for name, robot in loaded.items()})
        return
    table = terminal.grid("name", "joints", "what it is", text=("name", "joints", "what it is"))
    for name, robot in loaded.items():
        row = printing.summary(robot)
        note = "" if row["physical"] else " Not physical."
        table.add_row(name, row["joints"], row["source"] + note)
    terminal.console().print(table)


@app.command()
def info(robot: RobotName, floating: Floating = False, as_json: AsJson = False) -> None:
    """Show a robot: links, joints, gravity, source."""
    from nlink.cli import printing
    from nlink.reports import terminal

    model = nlink.load(robot, physical="ignore", floating=floating)
    if as_json:
        terminal.print_json(printing.describe(model))
    else:
        printing.print_robot(model)


States = Annotated[str | None, typer.Argument(
    metavar="[STATES]", show_default=False,
    help="CSV or NPY file with one state in each row, columns in the order of the options; "
    "- is standard input.")]
AsCsv = Annotated[bool, typer.Option(
    "--csv", help="Print CSV with all digits (also when output is no terminal).")]


def _list_option(name: str, text: str) -> object:
    return typer.Option(f"--{name}", metavar="LIST", help=text)


@app.command("id")
def inverse_dynamics(
    robot: RobotName,
    states: States = None,
    q: Annotated[str | None, _list_option("q", "q, as 0,1.5,...; default neutral.")] = None,
    qd: Annotated[str | None, _list_option("qd", "Rates; default 0.")] = None,
    qdd: Annotated[str | None, _list_option("qdd", "Accelerations; default 0.")] = None,
    degrees: Degrees = False,
    floating: Floating = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    algorithm: Formulation = None,
) -> None:
    """Inverse dynamics: the joint forces of motions.

    In N m, or N for prismatic joints.
    """
    _dynamics("inverse_dynamics", "tau", robot, states, {"q": q, "qd": qd, "qdd": qdd},
              degrees=degrees, floating=floating, as_csv=as_csv, as_json=as_json,
              algorithm=algorithm)


@app.command("fd")
def forward_dynamics(
    robot: RobotName,
    states: States = None,
    q: Annotated[str | None, _list_option("q", "q, as 0,1.5,...; default neutral.")] = None,
    qd: Annotated[str | None, _list_option("qd", "Rates; default 0.")] = None,
    tau: Annotated[str | None, _list_option("tau", "Joint forces; default 0.")] = None,
    degrees: Degrees = False,
    floating: Floating = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    algorithm: Formulation = None,
) -> None:
    """Forward dynamics: the joint accelerations that forces cause."""
    _dynamics("forward_dynamics", "qdd", robot, states, {"q": q, "qd": qd, "tau": tau},
              degrees=degrees, floating=floating, as_csv=as_csv, as_json=as_json,
              algorithm=algorithm)


def _dynamics(name: str, result: str, robot: str, states: str | None,
              given: dict[str, str | None], *, degrees: bool, floating: bool, as_csv: bool,
              as_json: bool, algorithm: str | None) -> None:
    """Read states from options or a table, compute, print."""
    import numpy as np

    from nlink.cli.angles import radians
    from nlink.formats.state_rows import read_numbers, read_table
    from nlink.reports import terminal

    model = nlink.load(robot, floating=floating)
    widths = {key: model.nq if key == "q" else model.n for key in given}
    options = ", ".join(f"--{key}" for key in given)
    if states is not None and any(value is not None for value in given.values()):
        raise ValueError(f"STATES and {options} exclude each other")
    if states is not None:
        columns = ", ".join(f"{width} {key}" for key, width in widths.items())
        inputs = read_table(states, tuple(widths.values()), columns)
    else:
        inputs = [read_numbers(f"--{key}", value, widths[key]) if value is not None
                  else np.zeros(widths[key]) for key, value in given.items()]
    inputs = [values if key == "tau" else radians(model, key, values, degrees=degrees)
              for key, values in zip(given, inputs, strict=True)]
    if states is None and given["q"] is None:
        inputs[0] = model.neutral
    if name == "forward_dynamics" and model.description.closed:
        _warn_of_open_loops(model, *inputs[:2])
    values = getattr(model, name)(*inputs, algorithm=algorithm).reshape(-1, model.n)
    names = [f"{result}_{k}" for k in range(1, model.n + 1)]
    if as_json:
        terminal.print_json({"robot": model.name, result: values})
    elif as_csv or not sys.stdout.isatty():
        terminal.print_csv(names, values)
    else:
        terminal.console().print(terminal.number_table(names, values))


def _warn_of_open_loops(model: nlink.Robot, q: np.ndarray, qd: np.ndarray) -> None:
    """Accelerations of states that no motion has are given, but not without a word."""
    import numpy as np

    loops = model.loops
    wrong = np.logical_not(loops.closed(q, qd))
    if wrong.any():
        places, shut = np.atleast_2d(q)[np.atleast_1d(wrong)], loops.closed(q)[wrong].all()
        which = ("their rates open the loops" if shut else
                 f"the loop {loops.describe_opening(places)}")
        warnings.warn(f"{int(wrong.sum())} of {wrong.size} states are not closed: {which}; their "
                      "accelerations are of loops held as they are", stacklevel=2)


PRODUCTS = ("inverse_dynamics_jvp", "inverse_dynamics_vjp", "inverse_dynamics_hvp",
            "forward_dynamics_jvp", "forward_dynamics_vjp", "forward_dynamics_hvp")
"""Products with derivatives that are counted without being named; of others too they can be."""


@app.command()
def count(
    robot: Annotated[str | None, typer.Argument(
        metavar="[ROBOT]", show_default=False,
        help="A bundled name or a path; not needed with --tables.")] = None,
    name: Annotated[str | None, typer.Argument(
        metavar="[NAME]", show_default=False,
        help="A computation, such as inverse_dynamics; default all.")] = None,
    general: Annotated[bool, typer.Option(
        "--general", help="Count the general-purpose algorithm too, and its formula.")] = False,
    tables: Annotated[bool, typer.Option(
        "--tables", help="The papers' complexity tables beside ours; with a robot, "
        "inverse dynamics beside [Saha99] Table 1.")] = False,
    plot: Annotated[Path | None, typer.Option(
        "--plot", metavar="FILE", help="Draw operations over n, with the break-even points.")]
    = None,
    floating: Floating = False,
    as_json: AsJson = False,
    algorithm: Formulation = None,
) -> None:
    """Count the operations of algorithms.

    M multiplications and A additions left after constants are folded and common
    subexpressions shared.
    """
    from nlink.algorithms.catalogue import catalogue
    from nlink.cli import printing
    from nlink.papers import saha_tables as published
    from nlink.reports import terminal

    if robot is None and not tables and plot is None:
        raise ValueError("no robot: expected a name or a path, or --tables, or --plot FILE")
    if plot is not None:
        published.plot(plot)
    if robot is None:
        if as_json:
            terminal.print_json(printing.all_tables_data())
        elif tables:
            printing.print_all_tables()
        return
    model = nlink.load(robot, floating=floating)
    names = [name] if name is not None else [*catalogue(
        loops=model.description.closed), *PRODUCTS]
    counts = printing.Counts.of(model, names, algorithm, general=general)
    if as_json:
        data = counts.data()
        terminal.print_json(data | {"published": printing.published(model)} if tables else data)
        return
    terminal.console().print(counts.table())
    if tables:
        terminal.console().print(printing.published_table(model))


@app.command()
def symbolic(
    robot: RobotName,
    name: Annotated[str, typer.Argument(
        metavar="NAME", help="A computation, such as inverse_dynamics.")],
    names: Annotated[bool, typer.Option("--names", help="Name the robot's parameters.")] = False,
    simplify: Annotated[bool, typer.Option(
        "--simplify", help="Collect terms into sines and cosines of sums of angles.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    cse: Annotated[bool, typer.Option("--cse", help="Name common subexpressions.")] = False,
    code: Annotated[Language | None, typer.Option("--code", help="Print assignments.")] = None,
    floating: Floating = False,
    as_json: AsJson = False,
    algorithm: Formulation = None,
) -> None:
    """Print closed-form expressions."""
    from nlink.reports import terminal

    if sum((latex, cse, code is not None, as_json)) > 1:
        raise ValueError("--latex, --cse, --code and --json exclude each other")
    if simplify and (cse or code is not None):
        raise ValueError("--simplify gives expressions, not shared parts: "
                         "it goes with neither --cse nor --code")
    forms = nlink.symbolic(nlink.load(robot, floating=floating), name, algorithm=algorithm,
                           parameters="names" if names else "numbers")
    if simplify:
        forms = forms.simplified()
    if as_json:
        terminal.print_json({"robot": robot, "name": name, "outputs": forms.outputs})
    elif latex:
        terminal.say(forms.latex())
    elif code is not None:
        terminal.say(forms.code(code.value))
    elif cse:
        definitions, _ = forms.cse()
        terminal.say(*(f"{symbol} = {value}" for symbol, value in definitions), forms)
    else:
        terminal.say(forms)


@app.command()
def explain(
    robot: RobotName,
    joint: Annotated[int, typer.Option(
        "--joint", metavar="K", help="Number of the joint; 1 is at the base.")] = 1,
    floating: Floating = False,
    as_json: AsJson = False,
) -> None:
    """Read a joint's equation of motion term by term.

    Which body, moved how, taken where, projected on which axis.
    """
    from nlink.papers.explain import explain as terms_of
    from nlink.reports import terminal

    terms = terms_of(nlink.load(robot, floating=floating), joint)
    if as_json:
        terminal.print_json(terms.data())
    else:
        terms.print(terminal.console())


@app.command()
def check(
    robot: RobotName,
    seed: Annotated[int, typer.Option(help="Seed of the random states.")] = 0,
    quick: Annotated[bool, typer.Option(
        "--quick", help="Only the laws of mechanics, without comparing every formulation.")]
    = False,
    floating: Floating = False,
    as_json: AsJson = False,
) -> None:
    """Check the laws of mechanics on a robot.

    The status is 1 if one fails; numbers no real body has are a warning.
    """
    from nlink.reports import terminal

    model = nlink.load(robot, floating=floating)
    with terminal.console(stderr=True).status(terminal.label(f"checking {model.name}")):
        report = nlink.check(model, seed=seed, quick=quick)
    if as_json:
        terminal.print_json(report.to_dict())
    else:
        terminal.say(report)
    if not report.ok:
        raise typer.Exit(1)
