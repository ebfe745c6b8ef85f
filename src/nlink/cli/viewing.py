"""The command that shows robots and runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import nlink
from nlink.cli.app import AsJson, Floating, RobotName, app


@app.command()
def view(
    robot: RobotName,
    q: Annotated[str | None, typer.Option(
        "--q", metavar="LIST", help="The q that it starts from.")] = None,
    run: Annotated[Path | None, typer.Option(
        "--run", metavar="FILE", help="Play a run of the robot, as simulate --out writes it.")]
    = None,
    png: Annotated[Path | None, typer.Option(
        "--png", metavar="FILE", help="Write a picture instead, without a display.")] = None,
    html: Annotated[Path | None, typer.Option(
        "--html", metavar="FILE", help="With --run, write a page instead.")] = None,
    width: Annotated[int, typer.Option(
        help="Width of the picture in pixels; its height is 3/4 of it.")] = 960,
    layers: Annotated[list[str] | None, typer.Option(
        "--show", metavar="LAYER", help="Draw axes, frames, masses or inertias too.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Use a dark background.")] = False,
    packages: Annotated[list[Path] | None, typer.Option(
        "--packages", metavar="DIR", help="Where package:// names of meshes are looked for, "
        "besides above the robot's file.")] = None,
    port: Annotated[int | None, typer.Option(
        help="Port to listen on; default the first free one from 8080.")] = None,
    host: Annotated[str, typer.Option(
        help="Address to listen on. The default accepts connections from this machine only.")]
    = "localhost",
    browse: Annotated[bool, typer.Option(
        "--open/--no-open", help="Open the browser.")] = True,
    floating: Floating = False,
    as_json: AsJson = False,
) -> None:
    """Look at a robot or a run in the browser.

    Or write a picture (--png) or a page (--html) of it.
    """
    from nlink.formats.state_rows import read_numbers
    from nlink.reports import terminal

    model = nlink.load(robot, floating=floating)
    places = packages or []
    if html is not None and run is None:
        raise ValueError("--html needs --run, the motion to write a page of")
    if run is not None and (png is not None or q is not None):
        raise ValueError("--run does not go with --q and --png, expected --html or none of them")
    start = model.neutral if q is None else read_numbers("--q", q, model.nq)
    if png is not None:
        model.png(png, start, width=width, height=3 * width // 4, layers=layers or (),
                  theme="dark" if dark else "light", packages=places)
        _written(png, as_json=as_json)
        return
    if run is not None and html is not None:
        nlink.load_run(run).html(html, robot=model, packages=places)
        _written(html, as_json=as_json)
        return
    shown: Any = (model.view(start, host=host, port=port, dark=dark, packages=places) if run is None
             else nlink.load_run(run).view(robot=model, host=host, port=port, dark=dark,
                                           packages=places))
    for note in shown.scene.notes:
        print(f"nlink: {note}", file=sys.stderr)
    if as_json:
        terminal.print_json({"url": shown.url, "notes": shown.scene.notes})
    else:
        terminal.say(f"{model.name} at {shown.url}; Ctrl-C ends it")
    sys.stdout.flush()
    if browse and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(shown.url)
    shown.wait()


def _written(path: Path, *, as_json: bool) -> None:
    from nlink.reports import terminal

    if as_json:
        terminal.print_json({"written": str(path)})
    else:
        terminal.say(f"{path} written")


@app.command()
def live(
    robot: RobotName,
    html: Annotated[Path, typer.Option(
        "--html", metavar="FILE", help="The page to write.")] = Path("robot.html"),
    sliders: Annotated[list[str] | None, typer.Option(
        "--slider", metavar="NAME:LOW:HIGH", help="A number that the reader can change, such as "
        "gravity:0:20, payload:0:5, mass[link2]:0.5:3; kp:0:3x multiplies what there is.")] = None,
    q: Annotated[str | None, typer.Option(
        "--q", metavar="LIST", help="The q that it starts from.")] = None,
    to: Annotated[str | None, typer.Option(
        "--to", metavar="LIST", help="The q that PD control with gravity compensation holds.")]
    = None,
    kp: Annotated[float, typer.Option(help="The gain of positions, with --to.")] = 30.0,
    kd: Annotated[float, typer.Option(help="The gain of rates, with --to.")] = 6.0,
    method: Annotated[str, typer.Option(help="Integration method, as in nlink simulate.")] = "rk4",
    step: Annotated[float, typer.Option(help="Seconds.")] = 1e-3,
    limits: Annotated[str, typer.Option(
        help="Behaviour at joint limits: ignore, stop, bounce or hold.")] = "ignore",
    equations: Annotated[bool, typer.Option(
        "--equations", help="Show the equations of motion (one or two joints).")] = False,
    packages: Annotated[list[Path] | None, typer.Option(
        "--packages", metavar="DIR", help="Where package:// names of meshes are looked for.")]
    = None,
    floating: Floating = False,
    as_json: AsJson = False,
) -> None:
    """Write a page that simulates a robot in any browser."""
    from nlink.formats.state_rows import read_numbers
    from nlink.simulation.controllers import PDGravity

    model = nlink.load(robot, floating=floating)
    start = None if q is None else read_numbers("--q", q, model.nq)
    law = None if to is None else PDGravity(model, read_numbers("--to", to, model.nq), kp, kd)
    page = nlink.live(model, law, [_slider(x) for x in sliders or ()], html, q0=start,
                      method=method, step=step, limits=limits, equations=equations,
                      packages=packages or ())
    assert isinstance(page, Path)
    _written(page, as_json=as_json)


def _slider(text: str) -> nlink.Slider:
    name, _, ends = text.partition(":")
    low, _, high = ends.partition(":")
    relative = high.endswith("x")
    try:
        bounds = float(low), float(high.removesuffix("x"))
    except ValueError:
        raise ValueError(f"--slider {text!r}: expected NAME:LOW:HIGH") from None
    return nlink.Slider(name, *bounds, relative=relative)
