"""Commands that run something or write files."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import nlink
from nlink.cli.app import AsJson, Control, Degrees, Floating, RobotName, app, cache_app


class Convention(StrEnum):
    """Tables `nlink convert --dh` writes."""

    standard = "standard"
    modified = "modified"


@app.command()
def convert(
    source: Annotated[str, typer.Argument(
        metavar="FROM", help="A bundled name or a .toml, .urdf or .xml (MJCF) file.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="A .toml, .urdf or .xml file.")],
    dh: Annotated[Convention | None, typer.Option(
        "--dh", help="Write a DH table, for serial arms.")] = None,
    floating: Floating = False,
    includes: Annotated[bool, typer.Option(
        "--includes", help="Allow an MJCF file to include files from its directory.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a robot in another format, and say what is lost."""
    from nlink.formats.convert import convert as write
    from nlink.reports import terminal

    lost = write(source, target, dh=None if dh is None else dh.value, physical="ignore",
                 floating=floating, includes=includes)
    if as_json:
        terminal.print_json({"written": str(target), "lost": lost})
    else:
        terminal.say(f"{target} written" + (", without loss" if not lost else "; lost or changed:"),
                     *(f"  {line}" for line in lost))


@app.command()
def export(
    robot: RobotName,
    directory: Annotated[Path, typer.Argument(
        metavar="DIR", help="Directory for the files, created if needed.")],
    names: Annotated[list[str] | None, typer.Argument(
        metavar="[NAMES]...", help="What to export; default inverse_dynamics.")] = None,
    floating: Floating = False,
    dtype: Annotated[str, typer.Option(help="float64, or float32 for processors without "
                                            "doubles.")] = "float64",
    as_json: AsJson = False,
) -> None:
    """Write C99 source and header with no dependency but libm."""
    from nlink.reports import terminal

    model = nlink.load(robot, floating=floating)
    paths = nlink.export_c(model, names or ["inverse_dynamics"], directory, dtype=dtype)
    if as_json:
        terminal.print_json({"files": [str(path) for path in paths]})
    else:
        terminal.say(*paths)


@app.command()
def simulate(
    robot: RobotName,
    q: Annotated[str | None, typer.Option("--q", metavar="LIST", help="Initial q.")] = None,
    qd: Annotated[str | None, typer.Option("--qd", metavar="LIST", help="Initial rates.")] = None,
    t: Annotated[float | None, typer.Option(
        "--t", help="Seconds; 10, or to the end of --trajectory.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between outputs.")] = 0.01,
    method: Annotated[str, typer.Option(
        help="rkf45, dopri5, verner65, dop853, rkf78, abm, rodas5p (for stiff motions), rk4, "
             "semi_implicit, symplectic, lsoda or radau.")] = "rkf45",
    rtol: Annotated[float, typer.Option()] = 1e-9,
    atol: Annotated[float, typer.Option()] = 1e-12,
    step: Annotated[float | None, typer.Option(
        help="Step of fixed-step methods in seconds; default --every.")] = None,
    velocity: Annotated[str, typer.Option(
        help="Integrate q and qd, or the quasi-velocities nu or xi instead of qd.")] = "qd",
    control: Annotated[Control, typer.Option(
        help="Free fall; forced along a cycloid, or controlled along it.")] = Control.none,
    to: Annotated[str | None, typer.Option(
        "--to", metavar="LIST", help="Where the cycloid ends, at the last time.")] = None,
    trajectory: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Follow a spline through the waypoints of a .csv (t, q_1, q_2, ...) "
        "or .npz file (t, q); it is also where the robot starts.")] = None,
    limits: Annotated[str, typer.Option(
        help="What joint limits do: ignore, stop, bounce or hold.")] = "ignore",
    restitution: Annotated[float | None, typer.Option(
        help="Restitution at limits; default 1 for bounce, 0 for hold.")] = None,
    friction: Annotated[str, typer.Option(
        help="Dry friction of joints: dry (it sticks) or smooth (it creeps).")] = "dry",
    closing: Annotated[str, typer.Option(
        metavar="HOW", help="How loops stay closed: project, drift (not at all), or the rate of "
        "Baumgarte's stabilization, 1/s.")] = "project",
    kp: Annotated[str, typer.Option(
        metavar="LIST", help="Gain of --control pd, computed-torque; or one for each rate.")]
    = "100",
    kd: Annotated[str, typer.Option(
        metavar="LIST", help="Gain of --control pd, computed-torque; or one for each rate.")]
    = "20",
    ensemble: Annotated[int, typer.Option(
        metavar="N", help="Number of trajectories; their initial q scatter around the given "
        "one.")] = 1,
    width: Annotated[float, typer.Option(help="Standard deviation of an ensemble.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of the random states of an ensemble.")] = 0,
    payload: Annotated[str | None, typer.Option(
        metavar="KG", help="A point mass in the last frame; LOW,HIGH spreads an ensemble's.")]
    = None,
    degrees: Degrees = False,
    floating: Floating = False,
    out: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Write .csv, .npz, .zarr or a directory; what is interrupted goes on "
        "when the command is repeated.")]
    = None,
    plot: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Draw q as .png, .svg or .pdf, and loops in a second one.")] = None,
    page: Annotated[Path | None, typer.Option(
        "--html", metavar="FILE", help="Write a page that plays the motion.")] = None,
    as_json: AsJson = False,
) -> None:
    """Integrate motions: free fall, forced, controlled; one or many.

    The status is 1 if a trajectory does not reach the end.
    """
    import numpy as np

    from nlink.cli import printing
    from nlink.cli import simulate as simulation
    from nlink.cli.angles import radians
    from nlink.formats.state_rows import read_numbers
    from nlink.reports import plots, terminal
    from nlink.simulation.doubts import stiffness_doubts
    from nlink.storage.array_store import remove_directory

    if plot is not None:
        plots.picture_path("--plot", plot)
    model = nlink.load(robot, floating=floating)
    through = None if trajectory is None else simulation.waypoints(model, trajectory)
    start, rates = (model.neutral, np.zeros(model.n)) if through is None else (
        np.array(x, dtype=float) for x in through(0.0)[:2])

    def read(name: str, text: str, size: int) -> np.ndarray:
        return radians(model, name, read_numbers(f"--{name}", text, size), degrees=degrees)

    start = start if q is None else read("q", q, model.nq)
    rates = rates if qd is None else read("qd", qd, model.n)
    end_time = t if t is not None else 10.0 if through is None else float(through.t[-1])
    end = None if to is None else read("to", to, model.nq)
    if ensemble < 1:
        raise ValueError(f"--ensemble {ensemble}, expected at least 1")
    if not 0 <= width < np.inf:
        raise ValueError(f"--width {width}, expected a finite number >= 0")
    if seed < 0:
        raise ValueError(f"--seed {seed}, expected a whole number >= 0")
    loads = None if payload is None else simulation.payloads(payload, ensemble, seed)
    save = simulation.place(out, method)
    gains = [simulation.gain(name, text, model.n) for name, text in (("--kp", kp), ("--kd", kd))]
    try:
        warnings.filterwarnings("ignore", ".*np.deg2rad")  # --q has said it in its own words
        result = nlink.simulate(
            model, start if ensemble == 1 else simulation.spread(
                model, start, ensemble, width, seed), rates, end_time, simulation.controller(
                model, control, start, end, through, end_time, *gains), method, rtol, atol, every,
            vary=loads, step=step, velocity=velocity, limits=limits, restitution=restitution,
            friction=friction,
            save=save, closing=simulation.closing(closing))
    except KeyboardInterrupt:
        if save is not None:
            print(f"nlink: interrupted; the same command continues {out}", file=sys.stderr)
        raise
    for line in stiffness_doubts(result.method, result.stats.steps, result.t_end):
        warnings.warn(line, stacklevel=1)
    if out is not None and out != save:
        simulation.write(result, out)
    files = [] if out is None else [out]
    if plot is not None:
        files.append(result.plot(plot))
        if model.mechanism.closed:
            files.append(result.plot(plot.with_stem(f"{plot.stem}-loops"), what="loops"))
    if page is not None:
        files.append(result.html(page, robot=model))
    numbers = simulation.summary(result) | {"files": [str(path) for path in files]}
    ok = result.ok
    del result  # Windows removes no file that is mapped
    if save is not None and out != save:
        remove_directory(save)
    if as_json:
        terminal.print_json(numbers)
    else:
        printing.print_run(numbers)
    if not ok:
        raise typer.Exit(1)


@app.command()
def bench(
    robots: Annotated[list[str] | None, typer.Argument(
        metavar="[ROBOTS]...", help="Names or paths; random7 is a 7R arm with random twists.")]
    = None,
    seconds: Annotated[float, typer.Option(help="Time for each measurement.")] = 0.25,
    chains: Annotated[bool, typer.Option(help="Time long chains too.")] = True,
    save: Annotated[Path | None, typer.Option(
        "--markdown", metavar="FILE", help="Also write the table as Markdown.")] = None,
    simulation: Annotated[bool, typer.Option(
        "--simulation", help="Time integration instead, beside SciPy and MuJoCo.")] = False,
    kinematics: Annotated[bool, typer.Option(
        "--ik", help="Time inverse kinematics instead, beside Pinocchio and Robotics Toolbox.")]
    = False,
    loops: Annotated[bool, typer.Option(
        "--loops", help="Time ladders and nets of loops instead, beside Pinocchio.")] = False,
    bridges: Annotated[bool, typer.Option(
        "--bridges", help="Time float32 and other frameworks instead.")] = False,
    contact: Annotated[bool, typer.Option(
        "--contact", help="Time a quadruped that stands instead, beside MuJoCo.")] = False,
    portable: Annotated[bool, typer.Option(
        "--portable", help="Machine code for any processor with AVX2, or any 64-bit ARM.")] = False,
    control: Annotated[bool, typer.Option(
        "--control", help="Time optimal control instead, beside crocoddyl.")] = False,
    learn: Annotated[bool, typer.Option(
        "--learn", help="Time vector environments instead, beside Gymnasium's on MuJoCo.")] = False,
    as_json: AsJson = False,
) -> None:
    """Time nlink beside Pinocchio and MuJoCo on the same states.

    Ratios of one run are what counts; each number is the best of many repeats.
    """
    from contextlib import nullcontext

    from nlink.backends.llvm import host
    from nlink.bench import bench_tables
    from nlink.bench import dynamics as measure
    from nlink.cli import printing
    from nlink.formats.files import write_text
    from nlink.reports import terminal

    if not 0 < seconds < float("inf"):
        raise ValueError(f"--seconds {seconds}, expected a positive number")
    if portable and any((simulation, kinematics, loops, bridges, contact, control, learn)):
        raise ValueError("--portable: given beside another bench, expected it alone or with robots")
    if simulation:
        printing.run_simulation_bench(robots, save, as_json=as_json)
        return
    if kinematics:
        printing.run_ik_bench(robots, save, as_json=as_json)
        return
    if loops:
        printing.run_loops_bench(robots, seconds, save, as_json=as_json)
        return
    if bridges:
        printing.run_bridges_bench(robots, seconds, save, as_json=as_json)
        return
    if contact:
        printing.run_contact_bench(seconds, save, as_json=as_json)
        return
    if control:
        printing.run_control_bench(seconds, save, as_json=as_json)
        return
    if learn:
        printing.run_learners_bench(robots, seconds, save, as_json=as_json)
        return
    with terminal.console(stderr=True).status("measuring") as status, (
            host.portable() if portable else nullcontext()):
        result = measure.run_bench(
            robots, seconds=seconds, chains=measure.CHAINS if chains and not robots else (),
            progress=lambda what: status.update(terminal.label(f"measuring {what}")))
    if save is not None:
        write_text(save, bench_tables.markdown(result))
    if as_json:
        print(result.to_json())
    else:
        printing.print_bench(result)


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(
        metavar="DIR", help="Directory for the report.")] = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Run the papers' experiments and write one HTML page.

    The page has their figures and tables, ours beside theirs.
    """
    from nlink.papers.reproduce import reproduce as run_all

    _write_page(run_all, "reproducing", out, as_json=as_json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the page.")] = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Show the library in a minute: write one HTML page.

    The page has motions, control and speed.
    """
    from nlink.bench.showcase import showcase

    _write_page(showcase, "computing", out, as_json=as_json)


def _write_page(make: Callable[..., Path], doing: str, out: Path, *, as_json: bool) -> None:
    """Write a page, saying what is computed, and where the page is: a progress bar on a
    terminal, elsewhere a line for each part."""
    from nlink.formats.files import own_name
    from nlink.reports import terminal
    from nlink.reports.progress import bar, lines

    own_name("--out", out)
    with bar(doing) as tell:
        path = make(out, progress=tell if sys.stderr.isatty() else lines())
    if as_json:
        terminal.print_json({"report": str(path)})
    else:
        terminal.say(f"report: {path}")


@cache_app.command("info")
def cache_info(as_json: AsJson = False) -> None:
    """Say where compiled kernels are kept, and how many."""
    from nlink.backends.llvm import cache
    from nlink.reports import terminal

    state = cache.info()
    if as_json:
        terminal.print_json({"directory": state.directory, "entries": state.entries,
                             "bytes": state.size, "bound": state.bound,
                             "problem": state.problem})
    elif state.problem:
        print(f"no kernels are kept: {state.problem}")
    else:
        terminal.say(f"{state.directory}: {state.entries} kernels, {state.size / 2**20:.1f} MiB "
                     f"of at most {state.bound / 2**20:.0f} MiB")


@cache_app.command("clear")
def cache_clear(as_json: AsJson = False) -> None:
    """Remove all compiled kernels."""
    from nlink.backends.llvm import cache
    from nlink.reports import terminal

    removed = cache.clear()
    if as_json:
        terminal.print_json({"removed": removed})
    else:
        print(f"removed {removed} kernels")
