"""What `nlink simulate` does and prints."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from nlink.cli.app import Control
from nlink.formats.files import own_name, replacing
from nlink.formats.state_rows import read_numbers
from nlink.model.coordinates import effort_units, rate_units
from nlink.robot import Robot
from nlink.simulation.closing import Closing
from nlink.simulation.control_scheme import Controller
from nlink.simulation.controllers import PD, ComputedTorque, FeedForward, PDGravity
from nlink.simulation.following import peak_share
from nlink.simulation.run import Run
from nlink.simulation.run_files import PART
from nlink.simulation.scipy_methods import SCIPY
from nlink.simulation.splines import Spline
from nlink.simulation.trajectories import Cycloid

DRAWS = 50
"""Times that a state is drawn, for the loops to close around it."""


def waypoints(robot: Robot, path: Path) -> Spline:
    """The spline through the waypoints of a file, for a robot."""
    spline = Spline.from_file(path)
    if spline.q.shape[1] != robot.nq:
        raise ValueError(f"{path}: {spline.q.shape[1]} coordinates, expected {robot.nq} "
                         f"for {robot.name}")
    return spline


def controller(robot: Robot, control: Control, start: np.ndarray, to: np.ndarray | None,
               through: Spline | None, T: float, kp: np.ndarray, kd: np.ndarray,
               ) -> Controller | None:
    """The controller a command line asks for, along the papers' cycloid from start to `to`, or
    along a spline.

    Loops are closed around the motors' part of `to`. Where joints have no motors, pd is without
    gravity compensation: g(q) would act on them, too.
    """
    if control is Control.none:
        if to is not None or through is not None:
            raise ValueError(f"{'--trajectory' if to is None else '--to'} needs --control forced, "
                             "pd or computed-torque")
        return None
    if (to is None) == (through is None):
        raise ValueError(f"--control {control.value} needs --to, the configuration to go to, "
                         "or --trajectory, a file of waypoints")
    path = Cycloid(start, target(robot, to), T) if to is not None else through
    assert path is not None
    if control is Control.forced:
        return FeedForward(robot, path)
    kind = ComputedTorque
    if control is Control.pd:
        kind = PDGravity if all(robot.description.motors) else PD
    return kind(robot, path, kp, kd)


def gain(name: str, text: str, n: int) -> np.ndarray:
    """One number, or one for each rate."""
    values = read_numbers(name, text, n if "," in text else 1)
    return np.broadcast_to(values, (n,))


def target(robot: Robot, to: np.ndarray) -> np.ndarray:
    """The configuration to go to, closed with its motors as given."""
    if not robot.description.closed or robot.loops.closed(to):
        return to
    motors = [joint.name for joint in robot.joints if joint.type.nv and joint.actuated]
    try:
        return robot.loops.assemble(to, keep=motors)
    except ValueError as error:
        raise ValueError(f"--to: {str(error).removeprefix('guess: ')}") from None


def spread(robot: Robot, q0: np.ndarray, count: int, width: float, seed: int) -> np.ndarray:
    """An ensemble of states around q0, normal with a standard deviation; the first is q0.

    Quaternions stay unit: the deviations are rates that lead there in a unit of time. Loops
    that they open are closed, and states around which they do not close are drawn again.
    """
    rng = np.random.default_rng(seed)

    def draw(count: int) -> np.ndarray:
        return robot.integrate(q0, rng.normal(scale=width, size=(count, robot.n)))

    states = draw(count)
    if robot.description.closed:
        left = np.arange(1, count)
        for _ in range(DRAWS):
            states[left], closed = robot.loops.close(states[left])
            left = left[~closed]
            if not left.size:
                break
            states[left] = draw(len(left))
        else:
            raise ValueError(f"--width {width}: the loops do not close around {len(left)} of "
                             f"{count} states in {DRAWS} draws each, expected a smaller one")
    states[0] = q0
    return states


def closing(text: str) -> Closing:
    """What keeps loops closed, as a word or a rate; `nlink.simulate` refuses other words."""
    try:
        return float(text)
    except ValueError:
        return text  # type: ignore[return-value]


def payloads(text: str, count: int, seed: int) -> dict[str, np.ndarray]:
    """The option `vary` for a mass in the last frame, or for masses between two bounds."""
    bounds = read_numbers("--payload", text, 2 if count > 1 and "," in text else 1)
    if not (np.isfinite(bounds).all() and 0 <= bounds[0] <= bounds[-1]):
        raise ValueError(f"--payload {text}, expected masses >= 0, the lower before the higher")
    if len(bounds) == 1:
        return {"payload": bounds[0]}
    return {"payload": np.random.default_rng(seed).uniform(*bounds, size=count)}


def place(out: Path | None, method: str) -> Path | None:
    """Where a run is kept while it is computed: at its place, or beside a table made last;
    SciPy's methods keep nothing before they are done."""
    if out is None:
        return None
    own_name("--out", out)
    if method in SCIPY:
        if out.suffix not in (".csv", ".npz", ".zarr"):
            raise ValueError(f"--out {out} with --method {method}, expected a name that ends in "
                             ".csv, .npz or .zarr")
        return None
    if out.suffix != ".csv":
        return out
    return out.with_name(out.name + PART)


def table(run: Run, first: int = 0, *, alone: bool) -> tuple[list[str], np.ndarray]:
    """Columns (trajectory, counted from `first`, if not alone; t, q, qd, tau) and rows."""
    n, nq, outputs = run.robot.n, run.robot.nq, len(run.t)
    count = run.status_codes.size
    names = ["t", *(f"q_{k + 1}" for k in range(nq)), *(f"qd_{k + 1}" for k in range(n)),
             *(f"tau_{k + 1}" for k in range(n))]
    columns = [np.tile(run.t, count)[:, None], run.q.reshape(-1, nq), run.qd.reshape(-1, n),
               run.tau.reshape(-1, n)]
    if not alone:
        names.insert(0, "trajectory")
        columns.insert(0, np.repeat(np.arange(first, first + count), outputs)[:, None])
    return names, np.hstack(columns)


def write(run: Run, path: Path) -> Path:
    """Write a run as .csv, .npz or .zarr."""
    if path.suffix != ".csv":
        return run.save(path)
    with replacing(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        first = 0
        for piece in run.pieces():
            names, rows = table(piece, first, alone=run.status_codes.ndim == 0)
            if not first:
                writer.writerow(names)
            writer.writerows([repr(x) for x in row] for row in rows.tolist())
            first += piece.status_codes.size
        text.detach()  # flushed, and the stream left open
    return path


def summary(run: Run) -> dict[str, Any]:
    """A run in a few numbers."""
    change = None
    for piece in run.pieces():
        with np.errstate(all="ignore"):
            drift = np.abs(piece.energy - piece.energy[..., :1])
        known = drift[np.isfinite(drift)]
        if known.size:
            change = max(change or 0.0, float(known.max()))
    tracking = None if run.target is None else _tracking(run)
    words = np.asarray(run.status)
    failed = [{"trajectory": index.tolist(), "status": str(words[tuple(index)]),
               "t": float(run.t_end[tuple(index)])} for index in run.failed]
    closed = run.robot.mechanism.closed
    opening = float(np.nanmax(run.closure_error, initial=0.0)) if closed else None
    events = {name: int((run.events.which == k).sum()) for k, name in enumerate(run.events.names)}
    solved = run.stats.contact
    contact = None if solved is None else {
        "residual": float(np.max(solved.residual)), "depth": float(np.max(solved.depth)),
        "fallbacks": int(np.sum(solved.fallbacks))}
    return {"closure_error": opening, "contact": contact,
            "robot": run.robot.name, "method": run.method, "t": float(run.t[-1]),
            "trajectories": int(run.status_codes.size), "outputs": len(run.t),
            "steps": int(np.sum(run.stats.steps)), "rejects": int(np.sum(run.stats.rejects)),
            "evaluations": int(np.sum(run.stats.evaluations)),
            "energy_change": change, "tracking": tracking, "failed": failed,
            "events": {name: count for name, count in events.items() if count}}


def _tracking(run: Run) -> dict[str, Any]:
    """How far a controlled run was from what it followed, and its efforts beside their limits."""
    n = run.robot.n
    error, end, effort = np.zeros(n), np.zeros(n), np.zeros(n)
    for piece in run.pieces():
        assert piece.tracking_error is not None
        error = np.fmax(error, np.nanmax(np.abs(piece.tracking_error), axis=(0, 1), initial=0.0))
        end = np.fmax(end, np.nanmax(np.abs(piece.tracking_error[:, -1]), axis=0, initial=0.0))
        effort = np.fmax(effort, np.nanmax(np.abs(piece.tau), axis=(0, 1), initial=0.0))
    d, names = run.robot.description, run.robot.qd_names
    worst, last, peak = (int(np.argmax(x)) for x in (error, end, effort))
    near, share = peak_share(effort, run.robot.limits.effort)
    units, forces = rate_units(d), effort_units(d)
    return {"error": float(error[worst]), "of": names[worst], "unit": units[worst],
            "end_error": float(end[last]), "end_of": names[last], "end_unit": units[last],
            "effort": float(effort[peak]), "effort_of": names[peak], "effort_unit": forces[peak],
            "limit_share": share or None, "limit_of": names[near] if share else None}
