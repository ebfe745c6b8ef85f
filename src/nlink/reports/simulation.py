"""What `nlink simulate` does and prints."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from nlink.formats.files import write_text
from nlink.reports.control import Control
from nlink.robot import Robot
from nlink.simulation.controllers import ComputedTorque, FeedForward, PDGravity
from nlink.simulation.run import Run
from nlink.simulation.splines import Spline
from nlink.simulation.system import Law
from nlink.simulation.trajectories import Cycloid


def waypoints(robot: Robot, path: Path) -> Spline:
    """The spline through the waypoints of a file, for a robot."""
    spline = Spline.from_file(path)
    if spline.q.shape[1] != robot.nq:
        raise ValueError(f"{path}: {spline.q.shape[1]} coordinates, expected {robot.nq} "
                         f"for {robot.name}")
    return spline


def law(robot: Robot, control: Control, start: np.ndarray, to: np.ndarray | None,
        through: Spline | None, T: float, kp: float, kd: float) -> Law | None:
    """The control law a command line asks for, along the papers' cycloid from start to `to`, or
    along a spline."""
    if control is Control.none:
        if to is not None or through is not None:
            raise ValueError(f"{'--trajectory' if to is None else '--to'} needs --control forced, "
                             "pd or computed-torque")
        return None
    if (to is None) == (through is None):
        raise ValueError(f"--control {control.value} needs --to, the configuration to go to, "
                         "or --trajectory, a file of waypoints")
    path = Cycloid(start, to, T) if to is not None else through
    assert path is not None
    if control is Control.forced:
        return FeedForward(robot, path)
    kind = PDGravity if control is Control.pd else ComputedTorque
    return kind(robot, path, kp, kd)


def spread(q0: np.ndarray, count: int, width: float, seed: int) -> np.ndarray:
    """An ensemble of states around q0, normal with a standard deviation; the first is q0."""
    states = q0 + np.random.default_rng(seed).normal(scale=width, size=(count, len(q0)))
    states[0] = q0
    return states


def table(run: Run) -> tuple[list[str], np.ndarray]:
    """Columns (trajectory if there are several, t, q, qd, tau) and rows."""
    n, nq, outputs = run.robot.n, run.robot.nq, len(run.t)
    count = run.status_codes.size
    names = ["t", *(f"q_{k + 1}" for k in range(nq)), *(f"qd_{k + 1}" for k in range(n)),
             *(f"tau_{k + 1}" for k in range(n))]
    columns = [np.tile(run.t, count)[:, None], run.q.reshape(-1, nq), run.qd.reshape(-1, n),
               run.tau.reshape(-1, n)]
    if run.status_codes.ndim:
        names.insert(0, "trajectory")
        columns.insert(0, np.repeat(np.arange(count), outputs)[:, None])
    return names, np.hstack(columns)


def write(run: Run, path: Path) -> Path:
    """Write a run as .csv, .npz or .zarr."""
    if path.suffix != ".csv":
        return run.save(path)
    names, rows = table(run)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([repr(x) for x in row] for row in rows.tolist())
    write_text(path, text.getvalue())
    return path


def summary(run: Run) -> dict[str, Any]:
    """A run in a few numbers."""
    energy = run.energy
    with np.errstate(all="ignore"):
        drift = np.abs(energy - energy[..., :1])
    drift = drift[np.isfinite(drift)]
    failed = [{"trajectory": index.tolist(), "status": str(np.asarray(run.status)[tuple(index)]),
               "t": float(run.t_end[tuple(index)])} for index in run.failed]
    events = {name: int((run.events.which == k).sum()) for k, name in enumerate(run.events.names)}
    return {"robot": run.robot.name, "method": run.method, "t": float(run.t[-1]),
            "trajectories": int(run.status_codes.size), "outputs": len(run.t),
            "steps": int(np.sum(run.stats.steps)), "rejects": int(np.sum(run.stats.rejects)),
            "evaluations": int(np.sum(run.stats.evaluations)),
            "energy_change": float(drift.max()) if drift.size else None, "failed": failed,
            "events": {name: count for name, count in events.items() if count}}
