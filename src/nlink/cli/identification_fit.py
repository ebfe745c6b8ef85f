"""`nlink identify` and `nlink excite`: from logs to a robot, and motions worth a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import nlink
from nlink.cli.app import AsJson, app
from nlink.cli.identification_commands import Friction

RobotOption = Annotated[str, typer.Option(
    "--robot", metavar="ROBOT", help="A bundled name or a .toml, .urdf or .xml (MJCF) file.")]


@app.command()
def identify(
    logs: Annotated[list[str], typer.Argument(
        metavar="LOG...", help="CSV, NPZ, MAT, Parquet or ROS bags.")],
    robot: RobotOption,
    friction: Friction = None,
    armature: Annotated[bool, typer.Option(help="Identify rotor inertias too.")] = True,
    transmission: Annotated[str | None, typer.Option(
        "--transmission", metavar="LIST", help="Ratios of motors to joints, or a CSV file with the "
        "matrix A of motor = A q, if logs are of motors.")] = None,
    gains: Annotated[str | None, typer.Option(
        "--gains", metavar="LIST", help="N m per A of each motor, for logs of currents.")] = None,
    cutoff: Annotated[float | None, typer.Option(
        help="Cut-off of the filter, Hz; default from the motion.")] = None,
    delay: Annotated[str, typer.Option(
        help="Delay of the torques in seconds, or 'estimate'.")] = "0",
    mode: Annotated[str, typer.Option(help="full, payload, friction or gravity.")] = "full",
    fixed: Annotated[list[str] | None, typer.Option(
        "--fixed", metavar="NAME", help="A link, joint or parameter that is not fitted.")] = None,
    validate: Annotated[list[str] | None, typer.Option(
        "--validate", metavar="LOG", help="A log to judge by, or the share of each that a first "
        "fit does not see.")] = None,
    robust: Annotated[bool, typer.Option("--robust", help="Less weight for outliers.")] = False,
    output_error: Annotated[bool, typer.Option(
        "--output-error", help="A second stage: simulated against measured positions.")] = False,
    out: Annotated[str | None, typer.Option(
        "--out", metavar="FILE", help="Write the robot: .toml, .urdf or .xml.")] = None,
    report: Annotated[str | None, typer.Option(
        "--report", metavar="FILE", help="Write a page on the fit.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find a robot's parameters from logs of its motion."""
    from nlink.reports import terminal

    model = nlink.load(robot, physical="ignore")
    how: dict[str, Any] = {} if not friction else {"friction": tuple(friction)}
    fit = nlink.identify(
        model, list(logs), armature=armature, transmission=_matrix(transmission, model.n),
        gains=_gains(gains), cutoff=cutoff, delay=_delay(delay),
        mode=mode, fixed=tuple(fixed or ()),  # type: ignore[arg-type]
        validate=_validation(validate), robust=robust,
        output_error=output_error, **how)
    lost = fit.robot.save(out) if out else []
    if report:
        fit.report(report)
    if as_json:
        terminal.print_json({
            "robot": model.name, "error": float(fit.training), "errors": fit.training.joints,
            "validation": None if fit.validation is None else float(fit.validation),
            "positions": None if fit.output_error is None else float(fit.output_error.score),
            "cost_of_physics": fit.cost_of_physics, "physical": fit.physical,
            "base": fit.base, "intervals": fit.intervals, "formulas": fit.base_parameters.formulas,
            "parameters": dict(fit.values), "offset": fit.offset, "gains": fit.gains,
            "payload": None if fit.payload is None else {
                "mass": fit.payload.mass, "com": fit.payload.com, "inertia": fit.payload.inertia,
                "frame": fit.payload.frame},
            "unknown": fit.unknown, "warnings": fit.warnings, "cutoff": fit.cutoff,
            "delay": fit.delay, "out": out, "lost": lost})
    else:
        terminal.say(fit.summary(), *(f"not in {out}: {each}" for each in lost))


@app.command()
def excite(
    robot: Annotated[str, typer.Argument(metavar="ROBOT", help="A bundled name or a file.")],
    out: Annotated[str | None, typer.Option(
        "--out", metavar="FILE", help="Write t, q, qd, qdd as CSV.")] = None,
    duration: Annotated[float, typer.Option(help="Length of the motion in seconds.")] = 20.0,
    harmonics: Annotated[int, typer.Option(help="Number of harmonics of the Fourier series.")] = 5,
    motion: Annotated[str, typer.Option(help="fourier or spline.")] = "fourier",
    criterion: Annotated[str, typer.Option(
        help="condition (condition number) or D (confidence region).")] = "condition",
    after: Annotated[list[str] | None, typer.Option(
        "--after", metavar="LOG", help="An existing log that the motion complements.")] = None,
    rate: Annotated[float, typer.Option(help="Rows of the CSV file per second.")] = 100.0,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Find a motion whose log tells most of a robot's parameters."""
    from nlink.identification.exciting_paths import SplinePath
    from nlink.reports import terminal

    path = nlink.excite(nlink.load(robot, physical="ignore"), duration, harmonics, criterion,
                        after=list(after) if after else None, seed=seed, motion=motion)
    if out:
        path.save(out, rate)
    if as_json:
        terminal.print_json({
            "condition": path.condition, "duration": path.duration, "names": path.names,
            **{name: getattr(path, name) for name in (
                "frequencies", "sines", "cosines", "middle") if hasattr(path, name)},
            **({"t": path.spline.t, "q": path.spline.q} if isinstance(path, SplinePath) else {}),
            "out": out})
    else:
        terminal.say(f"{path!r}"[1:-1], *([f"written to {out}"] if out else []))


def _matrix(text: str | None, n: int) -> Any:
    from nlink.formats.state_rows import read_numbers, read_rows

    if text is None:
        return None
    return read_rows(text) if Path(text).is_file() else read_numbers("--transmission", text, n)


def _gains(text: str | None) -> Any:
    from nlink.formats.state_rows import read_numbers

    if text is None:
        return None
    values = read_numbers("--gains", text, text.count(",") + 1)
    return values if len(values) > 1 else float(values[0])


def _delay(text: str) -> Any:
    from nlink.formats.state_rows import read_numbers

    return text if text == "estimate" else float(read_numbers("--delay", text, 1)[0])


def _validation(given: list[str] | None) -> Any:
    if not given:
        return 0.3
    try:
        return float(given[0]) if len(given) == 1 else list(given)
    except ValueError:
        return list(given)
