"""The `nlink` command: one small function a command, printing left to `nlink.reports`.

Whatever a command raises becomes one line on standard error and a status (`run`), so no
command handles errors itself. Packages a command needs are imported when it runs.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import nlink
from nlink.reports.control import Control

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
Formulation = Annotated[str | None, typer.Option(
    "--algorithm", metavar="NAME", help="A formulation other than the default.")]


class Language(StrEnum):
    """Languages `nlink symbolic --code` writes."""

    c = "c"
    python = "python"


class Convention(StrEnum):
    """Tables `nlink convert --dh` writes."""

    standard = "standard"
    modified = "modified"


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


@app.command()
def robots(as_json: AsJson = False) -> None:
    """List the bundled robots."""
    from nlink.reports import terminal

    loaded = {name: nlink.load(name, physical="ignore") for name in nlink.robots()}
    if as_json:
        terminal.print_json({name: terminal.summary(robot) for name, robot in loaded.items()})
        return
    table = terminal.grid("name", "joints", "what it is", text=("name", "joints", "what it is"))
    for name, robot in loaded.items():
        row = terminal.summary(robot)
        note = "" if row["physical"] else " Not physical."
        table.add_row(name, row["joints"], row["source"] + note)
    terminal.console().print(table)


@app.command()
def info(robot: RobotName, as_json: AsJson = False) -> None:
    """Show a robot: links, joints, gravity, source."""
    from nlink.reports import terminal

    model = nlink.load(robot)
    if as_json:
        terminal.print_json(terminal.describe(model))
    else:
        terminal.print_robot(model)


@app.command()
def convert(
    source: Annotated[str, typer.Argument(
        metavar="FROM", help="A bundled name or a .toml, .urdf or .xml (MJCF) file.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="A .toml, .urdf or .xml file.")],
    dh: Annotated[Convention | None, typer.Option(
        "--dh", help="Write a DH table, for serial arms.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a robot in another format, and say what is lost."""
    from nlink.formats.convert import convert as write
    from nlink.reports import terminal

    lost = write(source, target, dh=None if dh is None else dh.value)
    if as_json:
        terminal.print_json({"written": str(target), "lost": lost})
    else:
        print(f"{target} written" + (", without loss" if not lost else "; lost or changed:"))
        for line in lost:
            print(f"  {line}")


@app.command("id")
def inverse_dynamics(
    robot: RobotName,
    states: Annotated[str | None, typer.Argument(
        metavar="[STATES]", show_default=False,
        help="CSV or NPY file with columns q, qd, qdd, one state a row; - is standard input.")]
    = None,
    q: Annotated[str | None, typer.Option("--q", metavar="LIST", help="q, as 0,1.5,...")] = None,
    qd: Annotated[str | None, typer.Option(
        "--qd", metavar="LIST", help="Rates; default 0.")] = None,
    qdd: Annotated[str | None, typer.Option(
        "--qdd", metavar="LIST", help="Accelerations; default 0.")] = None,
    as_csv: Annotated[bool, typer.Option(
        "--csv", help="Print CSV with all digits (also when output is no terminal).")] = False,
    as_json: AsJson = False,
    algorithm: Formulation = None,
) -> None:
    """Inverse dynamics: the joint forces of motions.

    In N m, or N for prismatic joints.
    """
    from nlink.formats.states import read_numbers, read_table
    from nlink.reports import terminal

    model = nlink.load(robot)
    if states is not None and (q, qd, qdd) != (None, None, None):
        raise ValueError("STATES and --q, --qd, --qdd exclude each other")
    if states is not None:
        motion = read_table(states, (model.nq, model.n, model.n),
                            f"{model.nq} q, {model.n} qd, {model.n} qdd")
    elif q is not None:
        rest = ",".join("0" * model.n)
        motion = [read_numbers("--q", q, model.nq), read_numbers("--qd", qd or rest, model.n),
                  read_numbers("--qdd", qdd or rest, model.n)]
    else:
        raise ValueError("no states: expected --q, or a file, or - for standard input")
    tau = model.inverse_dynamics(*motion, algorithm=algorithm).reshape(-1, model.n)
    names = [f"tau_{k}" for k in range(1, model.n + 1)]
    if as_json:
        terminal.print_json({"robot": model.name, "tau": tau})
    elif as_csv or not sys.stdout.isatty():
        terminal.print_csv(names, tau)
    else:
        terminal.console().print(terminal.number_table(names, tau))


@app.command()
def count(
    robot: Annotated[str | None, typer.Argument(
        metavar="[ROBOT]", show_default=False,
        help="A bundled name or a path; not needed with --tables.")] = None,
    name: Annotated[str | None, typer.Argument(
        metavar="[NAME]", show_default=False,
        help="What to count, as inverse_dynamics; all that there is if not given.")] = None,
    general: Annotated[bool, typer.Option(
        "--general", help="Also the general-purpose algorithm, and its law in n.")] = False,
    tables: Annotated[bool, typer.Option(
        "--tables", help="The papers' complexity tables beside ours; with a robot, "
        "inverse dynamics beside [Saha99] Table 1.")] = False,
    plot: Annotated[Path | None, typer.Option(
        "--plot", metavar="FILE", help="Draw operations over n, with the break-even points.")]
    = None,
    as_json: AsJson = False,
    algorithm: Formulation = None,
) -> None:
    """Count the operations of algorithms.

    M multiplications and A additions left after constants are folded and common
    subexpressions shared.
    """
    from nlink.algorithms.catalogue import ALGORITHMS
    from nlink.reports import tables as published
    from nlink.reports import terminal

    if robot is None and not tables and plot is None:
        raise ValueError("no robot: expected a name or a path, or --tables, or --plot FILE")
    if plot is not None:
        published.plot(plot)
    if robot is None:
        if as_json:
            terminal.print_json(terminal.all_tables_data())
        elif tables:
            terminal.print_all_tables()
        return
    model = nlink.load(robot)
    names = [name] if name is not None else list(ALGORITHMS)
    counts = terminal.Counts.of(model, names, algorithm, general=general)
    if as_json:
        data = counts.data()
        terminal.print_json(data | {"published": terminal.published(model)} if tables else data)
        return
    terminal.console().print(counts.table())
    if tables:
        terminal.console().print(terminal.published_table(model))


@app.command()
def symbolic(
    robot: RobotName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As inverse_dynamics.")],
    names: Annotated[bool, typer.Option("--names", help="Name the robot's parameters.")] = False,
    simplify: Annotated[bool, typer.Option(
        "--simplify", help="Collect into sines and cosines of sums of angles.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    cse: Annotated[bool, typer.Option("--cse", help="Name common subexpressions.")] = False,
    code: Annotated[Language | None, typer.Option("--code", help="Print assignments.")] = None,
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
    forms = nlink.symbolic(nlink.load(robot), name, algorithm=algorithm,
                           parameters="names" if names else "numbers")
    if simplify:
        forms = forms.simplified()
    if as_json:
        terminal.print_json({"robot": robot, "name": name, "outputs": forms.outputs})
    elif latex:
        print(forms.latex())
    elif code is not None:
        print(forms.code(code.value))
    elif cse:
        definitions, _ = forms.cse()
        print(*(f"{symbol} = {value}" for symbol, value in definitions), sep="\n")
        print(forms)
    else:
        print(forms)


@app.command()
def explain(
    robot: RobotName,
    joint: Annotated[int, typer.Option("--joint", metavar="K", help="From 1, at the base.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Read a joint's equation of motion term by term.

    Which body, moved how, taken where, projected on which axis.
    """
    from nlink.reports import terminal
    from nlink.reports.explain import explain as terms_of

    terms = terms_of(nlink.load(robot), joint)
    if as_json:
        terminal.print_json(terms.data())
    else:
        terms.print(terminal.console())


@app.command()
def check(
    robot: RobotName,
    seed: Annotated[int, typer.Option(help="Of the random states.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Check the laws of mechanics on a robot.

    The status is 1 if one fails.
    """
    from nlink.reports import terminal

    model = nlink.load(robot)
    with terminal.console(stderr=True).status(f"checking {model.name}"):
        report = nlink.check(model, seed=seed)
    if as_json:
        terminal.print_json(report.to_dict())
    else:
        print(report)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def export(
    robot: RobotName,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Made if it does not exist.")],
    names: Annotated[list[str] | None, typer.Argument(
        metavar="[NAMES]...", help="What to export; default inverse_dynamics.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write C99 source and header with no dependency but libm."""
    from nlink.reports import terminal

    paths = nlink.export_c(nlink.load(robot), names or ["inverse_dynamics"], directory)
    if as_json:
        terminal.print_json({"files": [str(path) for path in paths]})
    else:
        print(*paths, sep="\n")


@app.command()
def simulate(
    robot: RobotName,
    q: Annotated[str | None, typer.Option("--q", metavar="LIST", help="Initial q.")] = None,
    qd: Annotated[str | None, typer.Option("--qd", metavar="LIST", help="Initial rates.")] = None,
    t: Annotated[float, typer.Option("--t", help="Seconds.")] = 10.0,
    every: Annotated[float, typer.Option(help="Seconds between outputs.")] = 0.01,
    method: Annotated[str, typer.Option(
        help="rkf45, dopri5, verner65, dop853, abm, rk4, symplectic, lsoda or radau.")] = "rkf45",
    rtol: Annotated[float, typer.Option()] = 1e-9,
    atol: Annotated[float, typer.Option()] = 1e-12,
    step: Annotated[float | None, typer.Option(help="Of fixed-step methods; seconds.")] = None,
    control: Annotated[Control, typer.Option(
        help="Free fall; forced along a cycloid, or controlled along it.")] = Control.none,
    to: Annotated[str | None, typer.Option(
        "--to", metavar="LIST", help="Where the cycloid ends, at the last time.")] = None,
    kp: Annotated[float, typer.Option(help="Gain of --control pd, computed-torque.")] = 100.0,
    kd: Annotated[float, typer.Option(help="Gain of --control pd, computed-torque.")] = 20.0,
    ensemble: Annotated[int, typer.Option(
        metavar="N", help="So many trajectories around the initial q.")] = 1,
    width: Annotated[float, typer.Option(help="Standard deviation of an ensemble.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Of an ensemble.")] = 0,
    out: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Write .csv, .npz or .zarr; a directory, or .npz, can be resumed.")]
    = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw q as PNG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Integrate a motion: free fall, forced, controlled; one or many.

    The status is 1 if a trajectory does not reach the end.
    """
    import numpy as np

    from nlink.formats.states import read_numbers
    from nlink.reports import simulation, terminal

    model = nlink.load(robot)
    start = model.neutral if q is None else read_numbers("--q", q, model.nq)
    rates = np.zeros(model.n) if qd is None else read_numbers("--qd", qd, model.n)
    end = None if to is None else read_numbers("--to", to, model.nq)
    if ensemble < 1:
        raise ValueError(f"--ensemble {ensemble}, expected at least 1")
    resumable = out is not None and out.suffix in ("", ".npz")
    result = nlink.simulate(
        model, simulation.spread(start, ensemble, width, seed) if ensemble > 1 else start, rates,
        t, simulation.law(model, control, start, end, t, kp, kd), method, rtol, atol, every,
        step=step, save=out if resumable and method not in ("lsoda", "radau") else None)
    if out is not None and out.suffix and not (resumable and out.exists()):
        simulation.write(result, out)
    if plot is not None:
        result.plot(plot)
    if as_json:
        terminal.print_json(simulation.summary(result))
    else:
        terminal.print_run(simulation.summary(result))
    if not result.ok:
        raise typer.Exit(1)


@app.command()
def bench(
    robots: Annotated[list[str] | None, typer.Argument(
        metavar="[ROBOTS]...", help="Names or paths; random7 is a 7R arm with random twists.")]
    = None,
    seconds: Annotated[float, typer.Option(help="For each measurement.")] = 0.25,
    chains: Annotated[bool, typer.Option(help="Also long chains.")] = True,
    save: Annotated[Path | None, typer.Option(
        "--markdown", metavar="FILE", help="Also write the table as Markdown.")] = None,
    simulation: Annotated[bool, typer.Option(
        "--simulation", help="Time integration instead, beside SciPy and MuJoCo.")] = False,
    as_json: AsJson = False,
) -> None:
    """Time nlink beside Pinocchio and MuJoCo on the same states.

    Ratios of one run are what counts; each number is the best of many repeats.
    """
    from nlink.formats.files import write_text
    from nlink.reports import bench as measure
    from nlink.reports import terminal

    if simulation:
        terminal.run_simulation_bench(robots, save, as_json=as_json)
        return
    options = {"robots": robots} if robots else {}
    with terminal.console(stderr=True).status("measuring") as status:
        result = measure.run_bench(
            **options, seconds=seconds, chains=measure.CHAINS if chains else (),
            progress=lambda what: status.update(f"measuring {what}"))
    if save is not None:
        write_text(save, measure.markdown(result))
    if as_json:
        print(result.to_json())
    else:
        terminal.print_bench(result)


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")] = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Run the papers' experiments and write one HTML page with figures and tables."""
    from nlink.reports import terminal
    from nlink.reports.reproduce import reproduce as run_all

    with terminal.console(stderr=True).status("reproducing") as status:
        path = run_all(out, progress=lambda what: status.update(f"reproducing {what}"))
    if as_json:
        terminal.print_json({"report": str(path)})
    else:
        print(path)


@app.command(hidden=True)
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the plot goes.")] = Path("out"),
) -> None:
    """A short tour."""
    from nlink.reports.tour import tour

    tour(out)


@cache_app.command("info")
def cache_info(as_json: AsJson = False) -> None:
    """Say where compiled kernels are kept, and how many."""
    from nlink.compiler import cache
    from nlink.reports import terminal

    state = cache.info()
    if as_json:
        terminal.print_json({"directory": state.directory, "entries": state.entries,
                             "bytes": state.size, "bound": state.bound})
    elif state.directory is None:
        print("the cache is switched off")
    else:
        print(f"{state.directory}: {state.entries} kernels, {state.size / 2**20:.1f} MiB "
              f"of at most {state.bound / 2**20:.0f} MiB")


@cache_app.command("clear")
def cache_clear(as_json: AsJson = False) -> None:
    """Remove all compiled kernels."""
    from nlink.compiler import cache
    from nlink.reports import terminal

    removed = cache.clear()
    if as_json:
        terminal.print_json({"removed": removed})
    else:
        print(f"removed {removed} kernels")


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its status; all that goes wrong is one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # NonPhysicalWarning is one
            warnings.showwarning = _show_warning
            status = app(args=list(arguments), prog_name="nlink", standalone_mode=False)
            sys.stdout.flush()
    except typer.TyperException as error:
        return _fail(error.format_message())
    except BrokenPipeError:
        # the reader has what it wanted; the interpreter's own last flush must not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _fail(f"{where}{error.strerror or error}")
    except (ValueError, TypeError, ArithmeticError, ImportError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 130
    return int(status or 0)


def _fail(message: str) -> int:
    print("nlink:", " ".join(message.split()), file=sys.stderr)
    return 2


def _show_warning(message: Warning | str, *_where: object) -> None:
    print("nlink: warning:", " ".join(str(message).split()), file=sys.stderr)


def main() -> None:
    """The entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))
